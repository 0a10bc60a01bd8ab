//! A table's key: that of the connector's records, by which a replica tells rows apart.

use crate::{
    Modes,
    table::{ReplicaIdentity, Table},
};

/// A key, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// In order; empty without one.
    pub(crate) columns: Vec<String>,
    /// What an operator should know, a sentence each.
    pub(crate) warnings: Vec<String>,
    /// Why the table cannot be replicated.
    pub(crate) refusal: Option<String>,
}

const NONE: &str = "no key: add a primary key, or message.key.columns to the connector";

/// The key that the connector takes: `message.key.columns`, else the primary key, else the first unique index.
pub(crate) fn key(table: &Table, modes: &Modes) -> Key {
    let full_name = format!("{}.{}", table.schema, table.name);
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let named = modes.key_of(&full_name, &columns);
    let (columns, mut warnings) = match (named.is_empty(), table.primary_key.is_empty()) {
        (false, _) => (named, Vec::new()),
        (true, false) => (table.primary_key.clone(), Vec::new()),
        (true, true) => match of_index(table) {
            Ok((columns, warning)) => (columns, vec![warning]),
            Err(refusal) => return Key { columns: Vec::new(), warnings: Vec::new(), refusal: Some(refusal) },
        },
    };
    warnings.extend(unpublished(table));
    let refusal = not_carried(table, &columns);
    Key { columns, warnings, refusal }
}

/// What the connector falls back to.
fn of_index(table: &Table) -> Result<(Vec<String>, String), String> {
    let Some(index) = table.unique.first() else { return Err(NONE.to_owned()) };
    let is_nullable = |name: &String| table.columns.iter().any(|column| column.name == *name && !column.not_null);
    let name = &index.name;
    if index.partial {
        return Err(format!("{NONE}; it would take the unique index {name}, which does not hold every row"));
    }
    if let Some(column) = index.columns.iter().find(|column| is_nullable(column)) {
        return Err(format!(
            "{NONE}; it would take the unique index {name}, whose `{column}` can be null in many rows"
        ));
    }
    let warning = format!(
        "no primary key: the connector takes its first unique index, {name}; message.key.columns makes sure that it \
         stays so"
    );
    Ok((index.columns.clone(), warning))
}

/// Where PostgreSQL refuses updates and deletes of a published table.
fn unpublished(table: &Table) -> Option<String> {
    let of_each = if table.partitioned { " (of each partition)" } else { "" };
    let refuses = |identity: &str| {
        format!(
            "{identity}{of_each}: PostgreSQL refuses updates and deletes while it publishes them; set REPLICA \
             IDENTITY FULL"
        )
    };
    match &table.replica_identity {
        ReplicaIdentity::Nothing => Some(refuses("REPLICA IDENTITY NOTHING")),
        ReplicaIdentity::Default if table.primary_key.is_empty() => {
            Some(refuses("REPLICA IDENTITY DEFAULT without a primary key"))
        }
        _ => None,
    }
}

/// A delete carries the replica identity's columns alone, and the connector invents the others: the record would name
/// another row.
fn not_carried(table: &Table, key: &[String]) -> Option<String> {
    let (what, carried) = match &table.replica_identity {
        ReplicaIdentity::Index(index) => (format!("the replica identity is the index {}", index.name), &index.columns),
        ReplicaIdentity::Default if !table.primary_key.is_empty() => {
            ("the replica identity is the primary key".to_owned(), &table.primary_key)
        }
        _ => return None,
    };
    let missing = key.iter().find(|column| !carried.contains(column))?;
    Some(format!(
        "{what}, so a delete does not carry `{missing}` of the key and would remove another row; set REPLICA IDENTITY \
         FULL, or name the identity's columns in message.key.columns"
    ))
}
