//! [`Draft`]: a config of tables as the catalog has them, with all that is known about them as comments.

mod section;

use self::section::{Place, Places};
use crate::{Catalog, Modes, TablePlan, modes::Words, topic};

/// What a config needs beside a catalog and the connector's modes.
#[derive(Debug, Clone)]
pub struct Draft<'a> {
    /// The database's name.
    pub database: &'a str,
    /// The prefix of the connector's topics.
    pub topic_prefix: &'a str,
    /// Where the tables are to be: a path or URL, to which `/schema/table` is added.
    pub location: &'a str,
    /// Kafka's brokers, as `HOST:PORT,...`
    pub bootstrap_servers: &'a str,
}

/// A drafted config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drafted {
    /// The config's text.
    pub text: String,
    /// How many tables it replicates.
    pub tables: usize,
    /// The tables that it has in comments only, with what stands against them.
    pub refused: Vec<(String, Vec<String>)>,
    /// Tables with columns of which a record would halt them, as `schema.table.column`.
    pub unread: Vec<String>,
}

impl Draft<'_> {
    /// Writes the config. Where a table cannot be replicated its section is there as a comment, so that the rest can be
    /// used.
    #[must_use]
    pub fn write(&self, catalog: &Catalog, modes: &Modes) -> Drafted {
        let mut drafted =
            Drafted { text: self.head(catalog, modes), tables: 0, refused: Vec::new(), unread: Vec::new() };
        let mut places = Places::default();
        for table in &catalog.tables {
            let mut plan = TablePlan::new(table, modes);
            let place = self.place(&plan, modes, catalog);
            plan.refusals.extend(places.refusal(&place, &plan));
            drafted.text += &section::write(&plan, &place, modes);
            let name = format!("{}.{}", plan.schema, plan.table);
            if plan.can_be_replicated() {
                drafted.tables += 1;
                drafted.unread.extend(plan.unread().map(|column| format!("{name}.{}", column.name)));
                places.take(place);
            } else {
                drafted.refused.push((name, plan.refusals));
            }
        }
        drafted
    }

    fn head(&self, catalog: &Catalog, modes: &Modes) -> String {
        let mut remarks = vec![
            format!("From the catalog of database {} (${{DATABASE_URL}}), by highwater init.", self.database),
            format!("The forms of values are those of a connector with {}.", said(modes)),
            "highwater.example.toml has every other section and setting.".to_owned(),
        ];
        remarks.extend(modes.warnings().iter().map(|warning| format!("The connector: {warning}.")));
        remarks.extend(catalog.unmatched.iter().map(|pattern| format!("No table is named {pattern}.")));
        let remarks: String = remarks.iter().map(|remark| section::comment(remark)).collect();
        let kafka = section::entry("bootstrap_servers", self.bootstrap_servers) + &section::entry("group", "highwater");
        format!("{remarks}\n[kafka]\n{kafka}")
    }

    fn place(&self, plan: &TablePlan, modes: &Modes, catalog: &Catalog) -> Place {
        let delimiter = modes.topic_delimiter.as_deref().unwrap_or(".");
        let namesakes = catalog.tables.iter().filter(|other| other.name.eq_ignore_ascii_case(&plan.table)).count();
        let root = self.location.trim_end_matches('/');
        Place {
            name: if namesakes < 2 { plan.table.clone() } else { format!("{}_{}", plan.schema, plan.table) },
            topic: topic::topic(self.topic_prefix, delimiter, &plan.schema, &plan.table),
            location: format!("{root}/{}/{}", topic::folder(&plan.schema), topic::folder(&plan.table)),
        }
    }
}

/// The modes that decide a form, for a comment.
fn said(modes: &Modes) -> String {
    format!(
        "decimal.handling.mode={}, time.precision.mode={}, interval.handling.mode={}, binary.handling.mode={}, \
         include.unknown.datatypes={}",
        modes.decimal.word(),
        modes.time.word(),
        modes.interval.word(),
        modes.binary.word(),
        modes.unknown_datatypes
    )
}
