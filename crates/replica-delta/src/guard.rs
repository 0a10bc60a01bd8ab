//! The guard: compares the newest events of a batch with the stored rows.
//!
//! One join over the key and order columns, before the MERGE: a stale event inside the MERGE would cost a slow
//! path, and a batch of nothing but stale events (a replay) must not touch the table at all. The join and the MERGE
//! run on the same version of the table; if that is no longer the newest one, the commit fails and both are done again.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch},
    compute::{max_string, min_string},
    datatypes::{Field, Int64Type, Schema},
};
use change::{Lsn, Order, TableSchema};
use datafusion::{
    common::{Column, JoinType, ScalarValue},
    error::Result,
    logical_expr::{Expr, Operator, binary_expr, lit},
    prelude::{DataFrame, SessionContext},
};
use deltalake_core::DeltaTable;
use pipeline::Fault;

use crate::fault;

/// What the replica does with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its key is new.
    Insert,
    /// Its key is there with an older order, which stands here.
    Update(Order),
    /// The key is there with this order, which is not older.
    Stale(Order),
    /// The key is not there, and the event is not above the floor.
    BelowFloor(Order),
}

impl Verdict {
    /// Whether the guard refuses the event.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        matches!(self, Self::Stale(_) | Self::BelowFloor(_))
    }

    /// The order of the stored row, if there is one.
    #[must_use]
    pub fn stored(self) -> Option<Order> {
        match self {
            Self::Update(order) | Self::Stale(order) => Some(order),
            Self::Insert | Self::BelowFloor(_) => None,
        }
    }
}

/// The order in row `row` of a batch in the replica's shape.
pub(crate) fn order_at(rows: &RecordBatch, schema: &TableSchema, row: usize) -> Order {
    let width = schema.columns().len();
    let long = |column: usize| rows.column(column).as_primitive::<Int64Type>().value(row);
    order(long(width + 1), long(width))
}

pub(crate) fn order(anchor: i64, lsn: i64) -> Order {
    let lsn_of = |long: i64| Lsn::try_from(long).unwrap_or_default();
    Order { anchor: lsn_of(anchor), lsn: lsn_of(lsn) }
}

/// A verdict for each row of `winners`, which has each key once.
///
/// # Errors
/// A fault of the store, or a halt where DataFusion fails.
pub(crate) async fn verdicts(
    context: &SessionContext,
    table: &DeltaTable,
    schema: &TableSchema,
    winners: &RecordBatch,
    floor: Order,
) -> Result<Vec<Verdict>, Fault> {
    let stored = stored_orders(context, table, schema, winners).await;
    let stored = stored.map_err(|e| fault::datafusion("comparing with the stored rows", &e))?;
    Ok((0..winners.num_rows())
        .map(|row| {
            let incoming = order_at(winners, schema, row);
            match stored.get(&row) {
                Some(&stored) if incoming > stored => Verdict::Update(stored),
                Some(&stored) => Verdict::Stale(stored),
                None if incoming > floor => Verdict::Insert,
                None => Verdict::BelowFloor(floor),
            }
        })
        .collect())
}

/// The orders of the stored rows whose key is in `winners`, by row of `winners`.
async fn stored_orders(
    context: &SessionContext,
    table: &DeltaTable,
    schema: &TableSchema,
    winners: &RecordBatch,
) -> Result<HashMap<usize, Order>> {
    let columns = [schema.meta().source_anchor.as_str(), &schema.meta().source_lsn];
    let batches = stored_rows(context, table, schema, winners, &columns).await?;
    let mut orders = HashMap::new();
    for batch in &batches {
        let long = |i: usize| batch.column(i).as_primitive::<Int64Type>();
        for i in 0..batch.num_rows() {
            let row = usize::try_from(long(0).value(i)).unwrap_or(usize::MAX);
            // a row that another tool wrote without an order is older than every event
            let part = |column: &Int64Array| if column.is_null(i) { 0 } else { column.value(i) };
            let found = order(part(long(1)), part(long(2)));
            // two rows of one key are another tool's doing, too; the newer one decides
            orders.entry(row).and_modify(|known: &mut Order| *known = (*known).max(found)).or_insert(found);
        }
    }
    Ok(orders)
}

/// The stored rows whose key is one of `keys`, a batch in the replica's shape: the number of the key's row there, and
/// `columns` of the stored one.
pub(crate) async fn stored_rows(
    context: &SessionContext,
    table: &DeltaTable,
    schema: &TableSchema,
    keys: &RecordBatch,
    columns: &[&str],
) -> Result<Vec<RecordBatch>> {
    if table.snapshot().is_ok_and(|snapshot| snapshot.log_data().num_files() == 0) {
        return Ok(Vec::new());
    }
    let stored = context.read_table(table.table_provider().await?)?;
    let stored = match key_range(schema, keys) {
        Some(range) => stored.filter(range)?,
        None => stored,
    };
    let value = |place: usize| format!("value{place}");
    let aliased = schema.key_names().enumerate().map(|(i, name)| column(name).alias(format!("stored{i}")));
    let values = columns.iter().enumerate().map(|(i, name)| column(name).alias(value(i)));
    let stored = stored.select(aliased.chain(values).collect::<Vec<_>>())?;
    let matches = match_keys(incoming(context, schema, keys)?, stored, schema, keys)?;
    let wanted = [column("row")].into_iter().chain((0..columns.len()).map(|place| column(&value(place))));
    matches.select(wanted.collect::<Vec<_>>())?.collect().await
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}

/// The keys of `winners` with the number of their row.
fn incoming(context: &SessionContext, schema: &TableSchema, winners: &RecordBatch) -> Result<DataFrame> {
    let rows: ArrayRef =
        Arc::new(Int64Array::from_iter_values(0..i64::try_from(winners.num_rows()).unwrap_or(i64::MAX)));
    let keys = schema.key().iter().enumerate().map(|(i, &k)| (format!("key{i}"), Arc::clone(winners.column(k))));
    let (fields, columns): (Vec<_>, Vec<_>) = keys
        .chain([("row".to_owned(), rows)])
        .map(|(name, column)| (Field::new(name, column.data_type().clone(), true), column))
        .unzip();
    context.read_batch(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Keys are equal when they are not distinct: NULL equals NULL. A batch without a NULL in its keys needs only `=`,
/// which more of DataFusion's rules understand.
pub(crate) fn key_operator(schema: &TableSchema, rows: &RecordBatch) -> Operator {
    let has_null = schema.key().iter().any(|&key| rows.column(key).null_count() > 0);
    if has_null { Operator::IsNotDistinctFrom } else { Operator::Eq }
}

fn match_keys(
    incoming: DataFrame,
    stored: DataFrame,
    schema: &TableSchema,
    winners: &RecordBatch,
) -> Result<DataFrame> {
    let operator = key_operator(schema, winners);
    let on = (0..schema.key().len())
        .map(|i| binary_expr(column(&format!("key{i}")), operator, column(&format!("stored{i}"))));
    incoming.join_on(stored, JoinType::Inner, on)
}

/// The range of the first key column in the batch, by which files and row groups are passed over; `None` for types
/// and batches that have no such range.
fn key_range(schema: &TableSchema, winners: &RecordBatch) -> Option<Expr> {
    let key = winners.column(*schema.key().first()?);
    if key.null_count() > 0 {
        return None;
    }
    let name = schema.key_names().next()?;
    let (min, max) = match key.data_type() {
        arrow::datatypes::DataType::Int64 => {
            let key = key.as_primitive::<Int64Type>();
            (ScalarValue::Int64(arrow::compute::min(key)), ScalarValue::Int64(arrow::compute::max(key)))
        }
        arrow::datatypes::DataType::Int32 => {
            let key = key.as_primitive::<arrow::datatypes::Int32Type>();
            (ScalarValue::Int32(arrow::compute::min(key)), ScalarValue::Int32(arrow::compute::max(key)))
        }
        arrow::datatypes::DataType::Utf8 => {
            let key = key.as_string::<i32>();
            let text = |value: Option<&str>| ScalarValue::Utf8(value.map(str::to_owned));
            (text(min_string(key)), text(max_string(key)))
        }
        _ => return None,
    };
    Some(column(name).between(lit(min), lit(max)))
}
