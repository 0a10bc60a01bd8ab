//! [`Layout`]: what a table is given at its creation beside its columns: properties, statistics and comments.

use std::collections::{BTreeMap, HashMap};

use change::{Column, DataType, TableSchema};
use deltalake_core::{
    DeltaTable, DeltaTableError,
    kernel::{StructField, StructType, engine::arrow_conversion::TryIntoKernel as _},
    protocol::SaveMode,
    table::state::DeltaTableState,
};
use pipeline::Fault;

use crate::{
    Properties, checkpoint, fault,
    properties::{CHANGE_DATA_FEED, STATS_COLUMNS, STATS_COUNT, breaking},
};

/// Of how many columns Delta keeps statistics where nothing else is said ("Table properties": `dataSkippingNumIndexedCols`).
const STATS_DEFAULT: usize = 32;

/// The columns of a change data feed, beside the table's own.
const FEED: [&str; 3] = ["_change_type", "_commit_version", "_commit_timestamp"];

/// How a table is laid out, apart from the columns that it is partitioned by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Its properties.
    pub properties: Properties,
    /// What the table is, in words.
    pub comment: Option<String>,
    /// What columns are, by their names in the replica.
    pub column_comments: BTreeMap<String, String>,
}

impl Layout {
    /// Whether the layout goes with the columns.
    ///
    /// # Errors
    /// A sentence, for the first thing that does not.
    pub fn check(&self, schema: &TableSchema) -> Result<(), String> {
        let columns = || schema.columns().iter().filter(|column| !is_partition(schema, &column.name));
        let feeds = self.properties.get(CHANGE_DATA_FEED) == Some("true");
        if let Some(column) = schema.columns().iter().find(|column| feeds && FEED.contains(&&*column.name)) {
            return Err(format!("property {CHANGE_DATA_FEED}: column {column} has the name of a column of the feed"));
        }
        let keys: Vec<&str> = schema.key_names().filter(|key| !is_partition(schema, key)).collect();
        if let Some(listed) = self.properties.get(STATS_COLUMNS) {
            let known: Vec<String> = schema.arrow().fields().iter().map(|field| quoted(field.name())).collect();
            let listed: Vec<&str> = listed.split(',').map(str::trim).collect();
            let is_known = |name: &&&str| known.iter().any(|known| known == **name);
            if let Some(unknown) = listed.iter().find(|name| !is_known(name)) {
                return Err(format!("property {STATS_COLUMNS}: {unknown} is no column of the table; {QUOTING}"));
            }
            if let Some(key) = keys.iter().find(|key| !listed.contains(&&*quoted(key))) {
                return Err(format!("property {STATS_COLUMNS}: {}", left_out(key)));
            }
        } else if let Some(Ok(count)) = self.properties.get(STATS_COUNT).map(str::parse) {
            let counted: Vec<&str> = columns().take(count).map(|column| &*column.name).collect();
            if let Some(key) = keys.iter().find(|key| !counted.contains(key)) {
                return Err(format!("property {STATS_COUNT}: {}; {STATS_COLUMNS} can name it", left_out(key)));
            }
        }
        Ok(())
    }

    /// The properties that `table` has not, or with another value.
    ///
    /// # Errors
    /// A fault of the store.
    pub(crate) fn missing_in(&self, table: &DeltaTable) -> Result<HashMap<String, String>, Fault> {
        let state = table.snapshot().map_err(|e| fault::delta("reading its properties", &e))?;
        let known = state.metadata().configuration();
        let is_other = |(name, value): &(&str, &str)| known.get(*name).is_none_or(|known| known != value);
        Ok(self.properties.iter().filter(is_other).map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Gives `table` the properties that it has not, in one commit of nothing but metadata. Those that it has beside them
    /// stay.
    ///
    /// # Errors
    /// A redo where another writer committed in between; a fault of the store.
    pub(crate) async fn set_on(&self, table: DeltaTable) -> Result<DeltaTable, Fault> {
        let missing = self.missing_in(&table)?;
        if missing.is_empty() {
            return Ok(table);
        }
        let mut said: Vec<_> = missing.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        said.sort();
        let set = table.set_tbl_properties().with_properties(missing).with_raise_if_not_exists(false);
        let set = set.with_commit_properties(checkpoint::commit_properties(Vec::new())).await;
        let table = set.map_err(|e| fault::delta("setting its properties", &e))?;
        tracing::info!("the table has new properties: {}", said.join(", "));
        Ok(table)
    }

    /// Creates the table.
    ///
    /// # Errors
    /// A redo where another member was faster; a halt where the columns are no Delta schema; a fault of the store.
    pub(crate) async fn create(&self, table: DeltaTable, name: &str, schema: &TableSchema) -> Result<(), Fault> {
        let columns: Result<StructType, _> = schema.arrow().as_ref().try_into_kernel();
        let columns = columns.map_err(|e| Fault::halt(format!("its columns are no Delta schema: {e}")))?;
        let mut builder = table
            .create()
            .with_log_store(table.log_store())
            .with_table_name(name)
            .with_save_mode(SaveMode::Ignore)
            .with_columns(columns.fields().map(|field| self.commented(field)))
            .with_partition_columns(schema.partition_names())
            .with_configuration(self.configuration(schema))
            .with_raise_if_key_not_exists(false)
            // a second try would go on top of another member's table, and give it a new id
            .with_commit_properties(checkpoint::commit_properties(Vec::new()).with_max_retries(0));
        if let Some(comment) = &self.comment {
            builder = builder.with_comment(comment);
        }
        builder.await.map(drop).map_err(|e: DeltaTableError| fault::delta("creating it", &e))
    }

    fn commented(&self, field: &StructField) -> StructField {
        match self.column_comments.get(&field.name) {
            Some(comment) => field.clone().with_metadata([("comment", comment.as_str())]),
            None => field.clone(),
        }
    }

    /// The properties of a new table. Where it has so many columns that its key would be without statistics, by which
    /// guard and MERGE pass over files, these are for the key and our own columns first.
    fn configuration(&self, schema: &TableSchema) -> BTreeMap<String, Option<String>> {
        let mut configuration: BTreeMap<_, _> =
            self.properties.iter().map(|(name, value)| (name.to_owned(), Some(value.to_owned()))).collect();
        let is_open = !configuration.contains_key(STATS_COLUMNS) && !configuration.contains_key(STATS_COUNT);
        if is_open && schema.arrow().fields().len() > STATS_DEFAULT {
            configuration.insert(STATS_COLUMNS.to_owned(), Some(stats_columns(schema)));
        }
        configuration
    }
}

/// The key, our own columns, and then as many others as Delta would take.
fn stats_columns(schema: &TableSchema) -> String {
    let meta = schema.meta();
    let first = schema.key_names().chain([meta.source_anchor.as_str(), &meta.source_lsn, &meta.is_deleted]);
    let has_range = |column: &&Column| !matches!(column.data_type, DataType::Array(_) | DataType::Binary);
    let others = schema.columns().iter().filter(has_range).map(|column| column.name.as_str());
    let mut names: Vec<&str> = Vec::new();
    for name in first.chain(others).filter(|name| !is_partition(schema, name)) {
        if names.len() < STATS_DEFAULT && !names.contains(&name) {
            names.push(name);
        }
    }
    names.into_iter().map(quoted).collect::<Vec<_>>().join(",")
}

fn is_partition(schema: &TableSchema, name: &str) -> bool {
    schema.partition_names().any(|partition| partition == name)
}

fn left_out(key: &str) -> String {
    format!("it leaves out the key column `{key}`, by which files are passed over")
}

const QUOTING: &str =
    "they go by their names in the replica, in backticks where these are more than letters, digits and _";

/// A name in a list of columns (delta-rs reads it as SQL).
fn quoted(name: &str) -> String {
    let is_simple = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_simple && !name.starts_with(|c: char| c.is_ascii_digit()) {
        name.to_owned()
    } else {
        format!("`{}`", name.replace('`', "``"))
    }
}

/// The declaration with the columns that the table is partitioned by.
///
/// # Errors
/// A halt where the declaration names others, or where one cannot be a partition column, and where a property of the
/// table would break the replica.
pub(crate) fn partitioned_as(declared: &TableSchema, state: &DeltaTableState) -> Result<TableSchema, Fault> {
    if let Some(why) = breaking(state.metadata().configuration()) {
        return Err(Fault::halt(why));
    }
    let partitions = state.metadata().partition_columns();
    let is_there = |name: &str| partitions.iter().any(|partition| partition == name);
    let wanted: Vec<&str> = declared.partition_names().collect();
    if !wanted.is_empty() && (wanted.len() != partitions.len() || !wanted.iter().all(|name| is_there(name))) {
        return Err(Fault::halt(format!(
            "the table is partitioned by ({}) and the config says ({}); partition columns are fixed when a table is \
             created: correct partition_by, or give the table another location",
            partitions.join(", "),
            wanted.join(", ")
        )));
    }
    let of = |name: &String| declared.columns().iter().find(|column| column.name == *name);
    let sources: Vec<&String> = partitions.iter().filter_map(of).map(|column| &column.source).collect();
    declared.clone().partitioned_by(&sources).map_err(Fault::halt)
}
