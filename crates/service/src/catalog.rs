//! What the source's catalog says of the tables, where `[source]` has a connection and the connector's config.

use std::collections::BTreeMap;

use change::{Column, Described, TableSchema};
use pipeline::{Backoff, Fault};
use source_postgres::{ColumnPlan, PostgresError, Sent, TablePlan};

use crate::{assemble, config::Config};

/// The tables that the connector captures, by topic; `None` where the config has no such section. A source that cannot be
/// reached is asked again.
pub(crate) async fn plans(config: &Config) -> Result<Option<BTreeMap<String, TablePlan>>, Fault> {
    let Some((settings, modes)) = config.source.as_ref().and_then(|s| Some((&s.settings, s.modes.as_ref()?))) else {
        return Ok(None);
    };
    let mut backoff = Backoff::new(config.retry_max, assemble::seed());
    loop {
        match source_postgres::plans(settings, modes).await {
            Ok(plans) => return Ok(Some(plans)),
            Err(error @ PostgresError::Unreachable { .. }) => backoff.wait("source", Fault::retry(error)).await?,
            Err(error) => return Err(Fault::halt(error)),
        }
    }
}

/// What a plan says of its table, as its records would; or why it cannot be replicated.
pub(crate) fn describe(plan: &TablePlan) -> Result<Described, String> {
    if !plan.can_be_replicated() {
        return Err(plan.refusals.join("; "));
    }
    if let Some(ColumnPlan { name, sent: Sent::Unread(reason), .. }) = plan.unread().next() {
        return Err(format!("column `{name}`: {reason}"));
    }
    let columns = plan.columns.iter().filter_map(ColumnPlan::declared).collect();
    Ok(Described { columns, key: plan.key.clone() })
}

/// What stands in the way of a table of the config, and what an operator should know besides.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

/// Compares a table of the config with the one of the catalog.
pub(crate) fn compare(table: &TableSchema, plan: &TablePlan) -> Findings {
    let mut found = Findings { problems: plan.refusals.clone(), warnings: plan.warnings.clone() };
    let mut declared: Vec<_> = table.key().iter().map(|&key| table.columns()[key].source.clone()).collect();
    let mut sent = plan.key.clone();
    declared.sort();
    sent.sort();
    if plan.can_be_replicated() && declared != sent {
        found.problems.push(format!("its key is {}, that of the records {}", declared.join(", "), sent.join(", ")));
    }
    for planned in &plan.columns {
        let name = &planned.name;
        let column = table.source_columns().find(|column| column.source == *name);
        if column.is_some() {
            found.warnings.extend(planned.notes.iter().map(|note| format!("column `{name}`: {note}")));
        }
        match (column, &planned.sent) {
            (Some(column), Sent::As(sent)) => match planned.declared() {
                Some(planned) if column.wire.is_some() && planned.wire.is_some() && column.wire != planned.wire => {
                    let problem =
                        format!("column `{name}` has another form in the config than \"{sent}\", which is sent");
                    found.problems.push(problem);
                }
                Some(planned) if *column.source_type() != planned.data_type => found
                    .warnings
                    .push(format!("column `{name}` is declared as {}, and \"{sent}\" is sent", column.source_type())),
                _ => {}
            },
            (Some(_), Sent::LeftOut(reason)) => found.problems.push(format!("column `{name}` is not sent: {reason}")),
            (None, Sent::As(sent)) if !table.grows() && !table.passes_over(name) => found.problems.push(format!(
                "column `{name}` is not declared, and schema_changes is strict: add it as \"{sent}\", or name it in \
                 exclude_columns"
            )),
            (_, Sent::Unread(reason)) if !table.passes_over(name) => {
                found.problems.push(format!("column `{name}`: {reason}"));
            }
            _ => {}
        }
    }
    let is_gone = |column: &&Column| !plan.columns.iter().any(|planned| planned.name == column.source);
    let gone = table.source_columns().filter(is_gone);
    let gone = gone.map(|column| format!("column `{}` is not in the source", column.source));
    if table.grows() {
        found.warnings.extend(gone);
    } else {
        found.problems.extend(gone);
    }
    found
}

#[cfg(test)]
mod tests {
    use change::MetaColumns;
    use source_postgres::{
        Modes,
        table::{BaseType, Column, ReplicaIdentity, Table, TypeKind},
    };

    use super::*;

    fn column(name: &str, base: &str) -> Column {
        Column {
            name: name.to_owned(),
            type_text: base.to_owned(),
            base: BaseType { schema: "pg_catalog".to_owned(), name: base.to_owned(), kind: TypeKind::Base },
            array: None,
            modifier: None,
            not_null: true,
            has_default: false,
            generated: false,
            toastable: false,
            by_bytes: false,
            comment: None,
        }
    }

    fn plan(columns: &[(&str, &str)], change: impl FnOnce(&mut Table)) -> TablePlan {
        let mut table = Table {
            schema: "public".to_owned(),
            name: "orders".to_owned(),
            columns: columns.iter().map(|(name, base)| column(name, base)).collect(),
            primary_key: vec!["id".to_owned()],
            replica_identity: ReplicaIdentity::Full,
            unique: Vec::new(),
            partitioned: false,
            comment: None,
        };
        change(&mut table);
        TablePlan::new(&table, &Modes::default())
    }

    fn declared(columns: &[(&str, &str)], key: &[&str]) -> TableSchema {
        let columns =
            columns.iter().map(|(name, declared)| change::Column::declared(name, declared).unwrap()).collect();
        TableSchema::new(columns, key, MetaColumns::default()).unwrap()
    }

    const SOURCE: [(&str, &str); 3] = [("id", "int8"), ("at", "timestamp"), ("note", "text")];
    const GOOD: [(&str, &str); 3] = [("id", "long"), ("at", "timestamp_ntz@micros"), ("note", "string")];

    #[test]
    fn a_table_that_is_as_the_catalog_says_has_no_findings() {
        assert_eq!(compare(&declared(&GOOD, &["id"]), &plan(&SOURCE, |_| ())), Findings::default());
    }

    #[test]
    fn what_would_go_wrong_is_a_problem() {
        let problem = |columns: &[(&str, &str)], key: &[&str], change: fn(&mut Table)| {
            compare(&declared(columns, key), &plan(&SOURCE, change)).problems.join("; ")
        };
        let other_unit = [("id", "long"), ("at", "timestamp_ntz@millis"), ("note", "string")];
        for (found, expected) in [
            (
                problem(&other_unit, &["id"], |_| ()),
                "column `at` has another form in the config than \"timestamp_ntz@micros\"",
            ),
            (problem(&GOOD, &["note"], |_| ()), "its key is note, that of the records id"),
            (problem(&GOOD[..2], &["id"], |_| ()), "column `note` is not declared, and schema_changes is strict"),
            (problem(&GOOD, &["id"], |t| _ = t.columns.pop()), "column `note` is not in the source"),
            (problem(&GOOD, &["id"], |t| t.primary_key.clear()), "no key: add a primary key"),
            (problem(&GOOD, &["id"], |t| t.columns[2].generated = true), "column `note`: it is generated"),
            (problem(&GOOD, &["id"], |t| t.columns[2].base.name = "box".into()), "column `note` is not sent: "),
        ] {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn a_replica_identity_says_what_it_loses() {
        let with =
            |identity| compare(&declared(&GOOD, &["id"]), &plan(&SOURCE, |table| table.replica_identity = identity));
        assert!(with(ReplicaIdentity::Nothing).warnings[0].contains("PostgreSQL refuses updates and deletes"));
        let index = source_postgres::table::UniqueIndex {
            name: "by_note".into(),
            columns: vec!["note".into()],
            partial: false,
        };
        assert!(with(ReplicaIdentity::Index(index)).problems[0].contains("would remove another row"));
        let toasted = |table: &mut Table| {
            table.columns[2].toastable = true;
            table.replica_identity = ReplicaIdentity::Default;
        };
        let found = compare(&declared(&GOOD, &["id"]), &plan(&SOURCE, toasted));
        assert!(found.problems.is_empty() && found.warnings[0].contains("`note`"), "{found:?}");
    }

    #[test]
    fn a_table_that_grows_may_lack_columns_and_keep_old_ones() {
        let table = declared(&[("id", "long"), ("old", "int")], &["id"]).growing();
        let found = compare(&table, &plan(&SOURCE, |_| ()));
        assert_eq!((found.problems, found.warnings), (vec![], vec!["column `old` is not in the source".to_owned()]));
    }

    #[test]
    fn a_plan_describes_its_table_unless_a_record_of_it_could_not_be_read() {
        let described = describe(&plan(&SOURCE, |_| ())).unwrap();
        let columns: Vec<_> = described.columns.iter().map(|c| format!("{} {}", c.name, c.data_type)).collect();
        assert_eq!(
            (columns.join(", "), described.key),
            ("id long, at timestamp_ntz, note string".to_owned(), vec!["id".to_owned()])
        );
        assert!(describe(&plan(&SOURCE, |table| table.primary_key.clear())).unwrap_err().starts_with("no key"));
        assert!(
            describe(&plan(&SOURCE, |table| table.columns[2].generated = true))
                .unwrap_err()
                .starts_with("column `note`")
        );
    }
}
