//! Reduces a batch to the newest event per key.
//!
//! It is a DataFusion aggregation over the key columns with an aggregate function of our own, [`Newest`], whose
//! state per key is three integers: no row is copied until the winners are taken. DataFusion's own ways cost
//! 8 to 200 times as much (`docs/adr/0001-ordering.md`).

use std::{mem::size_of, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array},
    datatypes::{DataType, Field, FieldRef, Int64Type, Schema},
};
use change::{ChangeBatch, TableSchema};
use datafusion::{
    common::{Column, exec_err, not_impl_err},
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
    prelude::{SessionConfig, SessionContext},
};
use pipeline::Fault;

use crate::fault;

/// The column of the events' positions in the batch.
const ROW: &str = "row";
const ANCHOR: &str = "anchor";
const LSN: &str = "lsn";

/// The rows of `batch` that are the newest of their key, ascending.
///
/// # Errors
/// A halt, where DataFusion fails.
pub(crate) async fn rows(batch: &ChangeBatch) -> Result<UInt64Array, Fault> {
    let input = keys_and_orders(batch).map_err(|e| fault::datafusion("finding the newest event per key", &e))?;
    let winners = aggregate(input, batch.schema.key().len()).await;
    let batches = winners.map_err(|e| fault::datafusion("finding the newest event per key", &e))?;
    let mut rows: Vec<u64> = batches
        .iter()
        .flat_map(|batch| batch.column(batch.num_columns() - 1).as_primitive::<Int64Type>().values().iter())
        .map(|row| row.cast_unsigned())
        .collect();
    rows.sort_unstable();
    Ok(UInt64Array::from(rows))
}

/// The name of a key column in the plan: the source's own name could be anything.
fn key_name(index: usize) -> String {
    format!("key{index}")
}

fn keys_and_orders(batch: &ChangeBatch) -> Result<RecordBatch> {
    let schema: &TableSchema = &batch.schema;
    let width = schema.columns().len();
    let count = i64::try_from(batch.rows.num_rows()).unwrap_or(i64::MAX);
    let keys = schema.key().iter().enumerate().map(|(i, &column)| (key_name(i), Arc::clone(batch.rows.column(column))));
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let order = [
        (ROW.to_owned(), rows),
        (ANCHOR.to_owned(), Arc::clone(batch.rows.column(width + 1))),
        (LSN.to_owned(), Arc::clone(batch.rows.column(width))),
    ];
    let (fields, columns): (Vec<_>, Vec<_>) = keys
        .chain(order)
        .map(|(name, column)| (Field::new(name, column.data_type().clone(), column.is_nullable()), column))
        .unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

async fn aggregate(input: RecordBatch, keys: usize) -> Result<Vec<RecordBatch>> {
    // one partition: a shuffle between two costs more than it saves on a batch that is in memory
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let newest = AggregateUDF::from(Newest::new()).call(vec![column(ROW), column(ANCHOR), column(LSN)]);
    let keys = (0..keys).map(|i| column(&key_name(i))).collect();
    context.read_batch(input)?.aggregate(keys, vec![newest.alias("newest")])?.collect().await
}

/// `newest(row, anchor, lsn)`: the row with the greatest (anchor, LSN), and of equal ones the last.
///
/// Rows are numbered in the order in which they were read, so of two equal pairs on one partition the one with the
/// greater offset wins.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Newest {
    signature: Signature,
}

impl Newest {
    fn new() -> Self {
        Self { signature: Signature::exact(vec![DataType::Int64; 3], Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Newest {
    fn name(&self) -> &'static str {
        "newest"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok([ROW, ANCHOR, LSN].iter().map(|name| Arc::new(Field::new(*name, DataType::Int64, true))).collect())
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(NewestPerGroup { groups: Vec::new() }))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        not_impl_err!("newest is only used with GROUP BY")
    }
}

/// (anchor, LSN, row) of the newest event of each group.
struct NewestPerGroup {
    groups: Vec<(i64, i64, i64)>,
}

impl NewestPerGroup {
    fn take(&mut self, emit_to: EmitTo) -> Vec<(i64, i64, i64)> {
        emit_to.take_needed(&mut self.groups)
    }
}

impl GroupsAccumulator for NewestPerGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        if filter.is_some() {
            return exec_err!("newest takes no FILTER");
        }
        let [row, anchor, lsn] = values else { return exec_err!("newest takes three columns") };
        let (row, anchor, lsn) =
            (row.as_primitive::<Int64Type>(), anchor.as_primitive::<Int64Type>(), lsn.as_primitive::<Int64Type>());
        self.groups.resize(total, (i64::MIN, i64::MIN, i64::MIN));
        for (i, &group) in groups.iter().enumerate() {
            let candidate = (anchor.value(i), lsn.value(i), row.value(i));
            if candidate > self.groups[group] {
                self.groups[group] = candidate;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(values, groups, None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        if filter.is_some() {
            return exec_err!("newest takes no FILTER");
        }
        Ok(values.to_vec())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from_iter_values(self.take(emit_to).into_iter().map(|(_, _, row)| row))))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = self.take(emit_to);
        let column = |of: fn(&(i64, i64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(taken.iter().map(of)))
        };
        Ok(vec![column(|s| s.2), column(|s| s.0), column(|s| s.1)])
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<(i64, i64, i64)>()
    }
}
