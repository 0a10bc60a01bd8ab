//! [`Pattern`]: a `[[table]]` section, which stands for one table or for one of each topic that it matches.

use std::{collections::BTreeSet, fmt, sync::Arc};

use change::{Column, Described, EnvelopeForm, MetaColumns, Placeholder, SourceTables, TableSchema};
use pipeline::OnError;
use regex::Regex;
use replica_delta::Layout;

use super::TableConfig;

/// A template whose `$1` ends after its digits, whatever follows it.
///
/// # Errors
/// Names the part that the expression does not have.
pub(super) fn template(expression: &Regex, text: &str) -> Result<String, String> {
    let mut parts = text.split('$');
    let mut template = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len()));
        let is_part = digits.parse::<usize>().is_ok_and(|group| group < expression.captures_len());
        if !is_part {
            return Err(format!("${digits} is no part of the expression in topics: $1 is its first group"));
        }
        template.push_str("${");
        template.push_str(digits);
        template.push('}');
        template.push_str(rest);
    }
    Ok(template)
}

/// What a section says, of however many tables.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    pub(super) name: String,
    pub(super) topics: Topics,
    pub(super) sources: Option<SourceTables>,
    pub(super) location: String,
    pub(super) on_error: OnError,
    pub(super) key: Option<Vec<String>>,
    /// `None` where the records have to say.
    pub(super) columns: Option<Vec<Column>>,
    pub(super) excluded: BTreeSet<String>,
    pub(super) grows: bool,
    pub(super) placeholder: Placeholder,
    pub(super) form: EnvelopeForm,
    pub(super) meta: MetaColumns,
    /// As the source names them.
    pub(super) partition_by: Vec<String>,
    pub(super) layout: Layout,
}

/// Which topics a section is for.
#[derive(Debug, Clone)]
pub(crate) enum Topics {
    One(String),
    /// Those whose whole name matches.
    Matching(Regex),
}

impl Pattern {
    /// Whether the section is for this topic.
    pub(crate) fn is_for(&self, topic: &str) -> bool {
        match &self.topics {
            Topics::One(name) => name == topic,
            Topics::Matching(expression) => expression.is_match(topic),
        }
    }

    /// The one topic that it names, where it does.
    pub(crate) fn topic(&self) -> Option<&str> {
        match &self.topics {
            Topics::One(name) => Some(name),
            Topics::Matching(_) => None,
        }
    }

    /// The form of its topics' records.
    pub(crate) fn form(&self) -> &EnvelopeForm {
        &self.form
    }

    /// Whether a record has to say what the section leaves open.
    pub(crate) fn needs_a_record(&self) -> bool {
        self.key.is_none() || self.columns.is_none()
    }

    /// Whether it says of which tables of the source its rows are.
    pub(crate) fn names_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// The table of `topic`, of which a record says the rest.
    pub(crate) fn table(&self, topic: &str, described: Option<Described>) -> Result<TableConfig, String> {
        let named = |template: &str| match &self.topics {
            Topics::One(_) => template.to_owned(),
            Topics::Matching(expression) => expression.replace(topic, template).into_owned(),
        };
        let name = named(&self.name);
        let mut columns = self.columns.clone().unwrap_or_default();
        let mut key = self.key.clone().unwrap_or_default();
        if let Some(described) = described {
            let is_open = |column: &Column| {
                !self.excluded.contains(&column.source) && !columns.iter().any(|known| known.source == column.source)
            };
            let open: Vec<_> = described.columns.into_iter().filter(is_open).collect();
            columns.extend(open);
            if self.key.is_none() {
                key = described.key;
            }
        }
        let at = |problem: &dyn fmt::Display| format!("table `{name}`: {problem}");
        let schema = TableSchema::new(columns, &key, self.meta.clone()).map_err(|e| at(&e))?;
        let schema = schema.partitioned_by(&self.partition_by).map_err(|e| at(&e))?;
        let schema = schema.passing_over(self.excluded.iter().cloned()).with_placeholder(self.placeholder.clone());
        let schema = schema.with_form(self.form.clone()).map_err(|e| at(&e))?;
        let schema = match self.sources.clone() {
            Some(sources) => schema.of_sources(sources),
            None => schema,
        };
        self.layout.check(&schema).map_err(|e| at(&e))?;
        let schema = Arc::new(if self.grows { schema.growing() } else { schema });
        let location = named(&self.location);
        let source_table = match &self.sources {
            Some(SourceTables::One(name)) => {
                name.split_once('.').map(|(schema, table)| (schema.to_owned(), table.to_owned()))
            }
            // of which of them a row is, nobody can tell
            Some(SourceTables::Matching(_)) => None,
            None => source_table(topic),
        };
        let (topic, layout) = (topic.to_owned(), self.layout.clone());
        Ok(TableConfig { name, topic, location, source_table, on_error: self.on_error, schema, layout })
    }
}

/// The schema and the table of a topic that goes by the connector's names: `prefix.schema.table`.
fn source_table(topic: &str) -> Option<(String, String)> {
    let (rest, table) = topic.rsplit_once('.')?;
    let (_, schema) = rest.rsplit_once('.')?;
    Some((schema.to_owned(), table.to_owned()))
}
