//! The table's columns against those of a batch: the table grows where the batch has more, and the batch is given the
//! table's shape where the table has.
//!
//! A new column is a commit of nothing but metadata. For a wider type every file is written anew, in one commit: until
//! it lands the table is as it was, so a growth that was interrupted begins again with the next batch. Delta could note
//! the wider type in the log instead, but not every reader understands that, and delta-rs does not write it.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use arrow::{
    array::{ArrayRef, RecordBatch, new_null_array},
    compute::cast,
    datatypes::{DataType as ArrowType, Schema},
    error::ArrowError,
};
use change::{ChangeBatch, Column, DataType, Moved, TableSchema, Unfit};
use datafusion::{
    logical_expr::{Expr, cast as cast_to, lit},
    prelude::SessionContext,
    scalar::ScalarValue,
};
use deltalake_core::{
    DeltaTable, DeltaTableError,
    kernel::{
        Action, MetadataExt as _, StructField, StructType,
        engine::arrow_conversion::TryIntoKernel as _,
        transaction::{CommitBuilder, TableReference},
    },
};
use futures::TryStreamExt as _;
use pipeline::Fault;

use crate::{checkpoint, data_file, fault, merge};

/// The schema of a table that has the columns of `stored`: with the declarations of `declared` where it knows them, and
/// the table's own types where these are wider.
///
/// # Errors
/// A halt that names every column in which the table and a declaration cannot go together.
pub(crate) fn of_table(declared: &TableSchema, stored: &Schema) -> Result<TableSchema, Fault> {
    let (mut columns, mut problems) = (Vec::new(), Vec::new());
    let title = |name: &str| {
        let known = declared.columns().iter().find(|column| column.name == name);
        known.map_or_else(|| format!("`{name}`"), Column::to_string)
    };
    for field in declared.arrow().fields() {
        match stored.field_with_name(field.name()) {
            Ok(found) if goes_with(found.data_type(), field.data_type(), declared.grows()) => {}
            Ok(found) => problems.push(format!(
                "column {} is {} in the table and {} in the config",
                title(field.name()),
                name_of(found.data_type()),
                name_of(field.data_type())
            )),
            Err(_) if declared.grows() && is_value(declared, field.name()) => {}
            Err(_) => problems.push(format!("column {} is not in the table", title(field.name()))),
        }
    }
    let meta = declared.meta();
    let is_meta = |name: &String| [&meta.source_lsn, &meta.source_anchor, &meta.is_deleted].contains(&name);
    for field in stored.fields().iter().filter(|field| !is_meta(field.name())) {
        let known = declared.columns().iter().find(|column| column.name == *field.name());
        // nothing is decoded into the table's own schema, and companions that it has are columns like the others
        let shape = |known: &Column| known.clone().with_unfit(Unfit::Refuse);
        match (known, DataType::of_arrow(field.data_type())) {
            (Some(known), _) if known.data_type.arrow() == *field.data_type() => columns.push(shape(known)),
            (Some(known), Some(data_type)) => columns.push(Column { data_type, ..shape(known) }),
            (None, Some(data_type)) if declared.grows() => {
                columns.push(Column::new(field.name(), data_type));
            }
            _ => problems.push(format!("column `{}` of the table is not in the config", field.name())),
        }
    }
    if problems.is_empty() {
        return declared.with_columns(columns).map_err(Fault::halt);
    }
    Err(Fault::halt(format!("{}; correct [table.columns] or choose another location", problems.join("; "))))
}

fn is_value(schema: &TableSchema, name: &str) -> bool {
    schema.columns().iter().any(|column| column.name == name) && !schema.key_names().any(|key| key == name)
}

/// Whether a stored column can hold a declared one, or be made to.
fn goes_with(stored: &ArrowType, declared: &ArrowType, grows: bool) -> bool {
    let widens = || {
        let (stored, declared) = (DataType::of_arrow(stored)?, DataType::of_arrow(declared)?);
        Some(stored.widens(&declared) || declared.widens(&stored))
    };
    stored == declared || grows && widens() == Some(true)
}

/// A type in the config's words.
fn name_of(arrow: &ArrowType) -> String {
    DataType::of_arrow(arrow).map_or_else(|| arrow.to_string(), |known| known.to_string())
}

/// Lets `table`, which has the columns of `stored`, grow to hold those of `wanted`, in one commit; hands back the table
/// and its columns, or `None` where it holds them already.
///
/// # Errors
/// A redo where another writer committed in between; a fault of the store.
pub(crate) async fn grow(
    context: &SessionContext,
    table: &DeltaTable,
    stored: &TableSchema,
    wanted: &TableSchema,
) -> Result<Option<(DeltaTable, TableSchema)>, Fault> {
    let grown = stored.holding(wanted.columns().to_vec()).map_err(Fault::halt)?;
    // under a mask a type gets wider without being another one in the replica
    let Some(grown) = grown.filter(|grown| grown.arrow() != stored.arrow()) else { return Ok(None) };
    let old: HashMap<_, _> = stored.columns().iter().map(|column| (&column.name, &column.data_type)).collect();
    let is_wider = |column: &Column| old.get(&column.name).is_some_and(|old| **old != column.data_type);
    let changed = if grown.columns().iter().any(is_wider) {
        rewrite(context, table, &grown).await
    } else {
        let is_new = |field: &StructField| stored.arrow().field_with_name(&field.name).is_err();
        let fields: StructType = grown.arrow().as_ref().try_into_kernel().map_err(Fault::halt)?;
        let new: Vec<_> = fields.fields().filter(|field| is_new(field)).cloned().collect();
        let added = table.clone().add_columns().with_fields(new);
        added.with_commit_properties(checkpoint::commit_properties(Vec::new())).await
    };
    let changed = changed.map_err(|e| fault::delta("adding and widening columns", &e))?;
    tracing::info!("the table has new columns or types: {}", grown.since(stored));
    Ok(Some((changed, grown)))
}

/// Writes every row once more in the columns of `grown`. The commit fails when another writer was faster, as that of a
/// MERGE which read the whole table does.
async fn rewrite(
    context: &SessionContext,
    table: &DeltaTable,
    grown: &TableSchema,
) -> Result<DeltaTable, DeltaTableError> {
    let state = table.snapshot()?;
    let stored = context.read_table(table.table_provider().await?)?;
    let mut columns = Vec::new();
    for field in grown.arrow().fields() {
        let column = datafusion::common::Column::from_name(field.name());
        let value = if stored.schema().has_column(&column) {
            cast_to(Expr::Column(column), field.data_type().clone())
        } else {
            lit(ScalarValue::try_from(field.data_type())?)
        };
        columns.push(value.alias(field.name()));
    }
    let mut rows = stored.select(columns)?.execute_stream().await?;

    let mut writer = data_file::writer(table, Arc::clone(grown.arrow()))?;
    while let Some(batch) = rows.try_next().await? {
        writer.write(&RecordBatch::try_new(Arc::clone(grown.arrow()), batch.columns().to_vec())?).await?;
    }
    // the rows are what they were, so readers of changes have nothing to read
    let mut actions: Vec<Action> = Vec::new();
    for mut added in writer.close().await? {
        added.data_change = false;
        actions.push(Action::Add(added));
    }
    let log_store = table.log_store();
    let mut files = state.snapshot().file_views(log_store.as_ref(), None);
    while let Some(file) = files.try_next().await? {
        actions.push(Action::Remove(file.remove_action(false)));
    }
    drop(files);
    actions
        .push(Action::Metadata(state.metadata().clone().with_schema(&kernel_schema(state.schema().as_ref(), grown)?)?));

    let commit = CommitBuilder::from(checkpoint::commit_properties(Vec::new()))
        .with_actions(actions)
        .build(Some(state.snapshot() as &dyn TableReference), table.log_store(), merge::whole_table())
        .await?;
    let mut rewritten = table.clone();
    rewritten.state = Some(commit.snapshot());
    Ok(rewritten)
}

/// The fields of `grown`; those that `stored` has too keep their comments and the like.
fn kernel_schema(stored: &StructType, grown: &TableSchema) -> Result<StructType, DeltaTableError> {
    let grown: StructType = grown.arrow().as_ref().try_into_kernel()?;
    let fields = grown.fields().map(|field| match stored.field(&field.name) {
        Some(known) => StructField { data_type: field.data_type.clone(), ..known.clone() },
        None => field.clone(),
    });
    Ok(StructType::try_new(fields)?)
}

/// The batch in the columns of `stored`: null where it has none, and as wide as the table's.
///
/// # Errors
/// A halt where a type is neither the table's nor narrower.
pub(crate) fn conform<'a>(changes: &'a ChangeBatch, stored: &Arc<TableSchema>) -> Result<Cow<'a, ChangeBatch>, Fault> {
    if changes.schema.arrow() == stored.arrow() {
        return Ok(Cow::Borrowed(changes));
    }
    let place = |name: &str| changes.schema.columns().iter().position(|column| column.name == name);
    let unchanged = stored.columns().iter().map(|column| changes.unchanged[place(&column.name)?].clone());
    let moved = changes.moved.as_ref().map(|moved| {
        let deletes = in_shape(&moved.deletes, &changes.schema, stored)?;
        Ok::<_, Fault>(Moved { deletes, ..moved.clone() })
    });
    Ok(Cow::Owned(ChangeBatch {
        schema: Arc::clone(stored),
        rows: in_shape(&changes.rows, &changes.schema, stored)?,
        unchanged: unchanged.collect(),
        moved: moved.transpose()?,
        ..changes.clone()
    }))
}

/// Rows of `from`'s shape in that of `to`.
fn in_shape(rows: &RecordBatch, from: &TableSchema, to: &TableSchema) -> Result<RecordBatch, Fault> {
    let column = |column: &Column| match from.columns().iter().position(|known| known.name == column.name) {
        None => Ok(new_null_array(&column.data_type.arrow(), rows.num_rows())),
        Some(found) => as_wide(&from.columns()[found].data_type, column, rows.column(found)),
    };
    let mut columns = to.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?;
    columns.extend_from_slice(&rows.columns()[from.columns().len()..]);
    RecordBatch::try_new(Arc::clone(to.arrow()), columns).map_err(Fault::halt)
}

fn as_wide(from: &DataType, column: &Column, values: &ArrayRef) -> Result<ArrayRef, Fault> {
    let to = &column.data_type;
    if from.arrow() == to.arrow() {
        return Ok(Arc::clone(values));
    }
    if !to.widens(from) {
        return Err(Fault::halt(format!(
            "column {column} is {to} in the table and {from} in this member's config; start all members with one config"
        )));
    }
    cast(values, &to.arrow()).map_err(|e: ArrowError| Fault::halt(e))
}
