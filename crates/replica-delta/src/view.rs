//! [`ReplicaView`]: what a version of a table holds, as it is compared with the source.
//!
//! DataFusion hashes and orders the rows; what comes out here are digests of ranges, and the keys and hashes of some rows.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
    compute::cast,
    datatypes::{DataType as ArrowType, Field, Int64Type, Schema},
};
use change::{
    Comparable, Lsn, Order, TableSchema,
    comparable::{Digest, hex, row_text},
};
use datafusion::{
    common::{Column, JoinType, ScalarValue},
    error::{DataFusionError, Result},
    execution::runtime_env::RuntimeEnvBuilder,
    functions_aggregate::expr_fn::max,
    logical_expr::{
        ColumnarValue, Expr, Operator, ScalarUDF, Volatility, binary_expr, cast as cast_to, create_udf, lit,
    },
    prelude::{DataFrame, SessionConfig, SessionContext},
};
use futures::StreamExt as _;
use md5::{Digest as _, Md5};
use pipeline::Fault;

use crate::{DeltaReplica, fault};

/// A row's key: the text of each of its columns, as [`Comparable`] writes it.
pub type Key = Vec<Option<String>>;

/// The columns that are compared, and how.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The positions of the columns in the table's schema.
    pub columns: Vec<(usize, Comparable)>,
    /// How the key's columns are written.
    pub key: Vec<Comparable>,
    /// Whether ranges are over the bytes of the key's row text, and not over the key columns' own order.
    pub by_text: bool,
}

/// Rows that follow on each other in the key's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The last key of the range; `None` where nothing comes after it.
    pub end: Option<Key>,
    /// What stands for its live rows, without those that moved.
    pub digest: Digest,
    /// The keys of rows, live or deleted, that were changed after the LSN that was asked about.
    pub moved: Vec<Key>,
}

/// How rows are cut into ranges.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Rows that were changed after it are named and do not count.
    pub lsn: Lsn,
    /// The rows of a range; the last one has fewer.
    pub rows: u64,
    /// At most so many ranges, from the first on; `None` for all.
    pub ranges: Option<usize>,
}

/// A row of the replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowState {
    /// The MD5 of its text; `None` where it is deleted.
    pub hash: Option<String>,
    /// Where its last change stands.
    pub order: Order,
}

impl RowState {
    /// Two rows of one key, which another tool must have written, are like no row of the source.
    pub fn join(&mut self, other: Self) {
        self.hash = match (self.hash.take(), other.hash) {
            (Some(one), Some(other)) => Some(format!("{one} and {other}")),
            (hash, None) | (None, hash) => hash,
        };
        self.order = self.order.max(other.order);
    }
}

/// A version of a table.
pub struct ReplicaView {
    schema: Arc<TableSchema>,
    compared: Compared,
    rows: DataFrame,
    context: SessionContext,
    version: u64,
}

impl ReplicaView {
    /// The newest version that `replica` knows. Sorting takes up to `memory` bytes, and a temporary folder beyond that.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn new(replica: &DeltaReplica, compared: Compared, memory: usize) -> std::result::Result<Self, Fault> {
        let schema = Arc::clone(replica.stored());
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(memory, 1.0).build_arc();
        let runtime = runtime.map_err(|e| fault::datafusion("reading the table", &e))?;
        let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime);
        replica.prepare(&context)?;
        let rows = context.read_table(replica.provider().await?);
        let rows = rows.map_err(|e| fault::datafusion("reading the table", &e))?;
        Ok(Self { schema, compared, rows, context, version: replica.version() })
    }

    /// Its number.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The greatest LSN of a change that was streamed: all that was committed before it is in Kafka.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn newest_lsn(&self) -> std::result::Result<Lsn, Fault> {
        let newest = async {
            let (lsn, anchor) = (self.meta(|m| &m.source_lsn), self.meta(|m| &m.source_anchor));
            // the rows of a snapshot have an LSN that the stream has not come to
            let streamed = self.rows.clone().filter(anchor.not_eq(lsn.clone() - lit(1_i64)))?;
            let found = streamed.aggregate(Vec::new(), vec![max(lsn).alias("newest")])?.collect().await?;
            let newest = found.first().filter(|batch| batch.num_rows() > 0).map(|batch| batch.column(0));
            Ok(newest.map_or(0, |newest| long(newest, 0)))
        };
        let newest = newest.await.map_err(|e: DataFusionError| fault::datafusion("looking for its newest row", &e))?;
        Ok(Lsn::try_from(newest).unwrap_or_default())
    }

    /// The ranges between two keys. `done` is told how many rows were read.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn ranges(
        &self,
        after: Option<&Key>,
        up_to: Option<&Key>,
        cut: Cut,
        mut done: impl FnMut(usize),
    ) -> std::result::Result<Vec<Range>, Fault> {
        let ranges = async {
            let mut cutter = Cutter::new(cut);
            let moved = self.meta(|m| &m.source_lsn).gt(lit(cut.lsn.as_long()));
            let wanted = self.is_live().or(moved).and(self.between(after, up_to)?);
            let wanted = self.rows.clone().filter(wanted)?;
            let hashed = self.hashed(wanted)?;
            let order = if self.compared.by_text {
                vec![column("place").sort(true, false)]
            } else {
                (0..self.compared.key.len()).map(|part| column(&format!("key{part}")).sort(true, false)).collect()
            };
            let mut batches = hashed.sort(order)?.execute_stream().await?;
            while let Some(batch) = batches.next().await {
                let batch = Hashed::of(&batch?, self.compared.key.len())?;
                for row in 0..batch.len() {
                    cutter.push(&batch, row, &self.compared.key);
                    if cut.ranges.is_some_and(|ranges| cutter.ranges.len() >= ranges) {
                        return Ok(cutter.ranges);
                    }
                }
                done(batch.len());
            }
            Ok(cutter.finish(up_to.cloned()))
        };
        ranges.await.map_err(|e: DataFusionError| fault::datafusion("hashing its rows", &e))
    }

    /// The live rows of some ranges, each after one key and up to another.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn rows(
        &self,
        ranges: &[(Option<&Key>, Option<&Key>)],
    ) -> std::result::Result<Vec<(Key, RowState)>, Fault> {
        let rows = async {
            let mut within = lit(false);
            for (after, up_to) in ranges {
                within = within.or(self.between(*after, *up_to)?);
            }
            let live = self.rows.clone().filter(self.is_live().and(within))?;
            let mut found = Vec::new();
            for batch in self.hashed(live)?.collect().await? {
                let batch = Hashed::of(&batch, self.compared.key.len())?;
                found.extend((0..batch.len()).map(|row| (batch.key(row, &self.compared.key), batch.state(row))));
            }
            Ok(found)
        };
        rows.await.map_err(|e: DataFusionError| fault::datafusion("reading a range of its rows", &e))
    }

    /// The row of each key; `None` where there is none, not even a deleted one.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn named(&self, keys: &[Key]) -> std::result::Result<Vec<Option<RowState>>, Fault> {
        let states = async {
            let mut states: Vec<Option<RowState>> = vec![None; keys.len()];
            if keys.is_empty() {
                return Ok(states);
            }
            let found = self.joined(keys)?.select(vec![
                column("number"),
                self.meta(|m| &m.source_lsn).alias("lsn"),
                self.meta(|m| &m.source_anchor).alias("anchor"),
                self.meta(|m| &m.is_deleted).alias("is_deleted"),
                self.hash().alias("hash"),
            ])?;
            for batch in found.collect().await? {
                let (deleted, hashes) = (batch.column(3).as_boolean(), texts(batch.column(4))?);
                for row in 0..batch.num_rows() {
                    let is_deleted = !deleted.is_null(row) && deleted.value(row);
                    let hash = (!is_deleted).then(|| hashes.value(row).to_owned());
                    let state = RowState { hash, order: order_at(batch.column(1), batch.column(2), row) };
                    let place = usize::try_from(long(batch.column(0), row)).ok().and_then(|at| states.get_mut(at));
                    match place {
                        Some(Some(known)) => known.join(state),
                        Some(place) => *place = Some(state),
                        None => {}
                    }
                }
            }
            Ok(states)
        };
        states.await.map_err(|e: DataFusionError| fault::datafusion("reading some of its rows", &e))
    }

    /// The texts of the compared columns of the live row of each key; `None` where there is none.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn texts(&self, keys: &[Key]) -> std::result::Result<Vec<Option<Vec<Option<String>>>>, Fault> {
        let found = async {
            let mut found = vec![None; keys.len()];
            if keys.is_empty() {
                return Ok(found);
            }
            let values = self.compared.columns.iter().enumerate();
            let values = values.map(|(at, (position, _))| self.value(*position).alias(format!("value{at}")));
            let wanted = [column("number")].into_iter().chain(values).collect::<Vec<_>>();
            for batch in self.joined(keys)?.filter(self.is_live())?.select(wanted)?.collect().await? {
                for row in 0..batch.num_rows() {
                    let text = |(at, (_, comparable)): (usize, &(usize, Comparable))| {
                        let values = cast(batch.column(at + 1), &comparable.data_type().arrow())?;
                        Ok(comparable.text(&values, row).map(std::borrow::Cow::into_owned))
                    };
                    let texts = self.compared.columns.iter().enumerate().map(text).collect::<Result<_>>()?;
                    let place = usize::try_from(long(batch.column(0), row)).ok().and_then(|at| found.get_mut(at));
                    if let Some(place) = place {
                        *place = Some(texts);
                    }
                }
            }
            Ok(found)
        };
        found.await.map_err(|e: DataFusionError| fault::datafusion("reading some of its rows", &e))
    }

    /// Key columns, hash and LSN of rows, with what they are ordered by.
    fn hashed(&self, rows: DataFrame) -> Result<DataFrame> {
        let keys = self.schema.key().iter().enumerate();
        let mut wanted: Vec<_> =
            keys.map(|(part, &position)| self.value(position).alias(format!("key{part}"))).collect();
        let is_deleted = self.is_live().is_not_true();
        wanted.push(self.meta(|m| &m.source_lsn).alias("lsn"));
        wanted.push(self.meta(|m| &m.source_anchor).alias("anchor"));
        wanted.push(is_deleted.alias("is_deleted"));
        wanted.push(self.hash().alias("hash"));
        if self.compared.by_text {
            wanted.push(self.place().alias("place"));
        }
        rows.select(wanted)
    }

    /// The rows of these keys, with each one's number as `number`.
    fn joined(&self, keys: &[Key]) -> Result<DataFrame> {
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter_values(0..i64::try_from(keys.len()).unwrap_or(i64::MAX)));
        let mut fields = vec![Field::new("number", ArrowType::Int64, false)];
        let mut columns = vec![numbers];
        for (part, comparable) in self.compared.key.iter().enumerate() {
            let texts: Vec<_> = keys.iter().map(|key| key[part].as_deref()).collect();
            let values = comparable.values(&texts)?;
            fields.push(Field::new(format!("wanted{part}"), values.data_type().clone(), true));
            columns.push(values);
        }
        let has_null = keys.iter().flatten().any(Option::is_none);
        let operator = if has_null { Operator::IsNotDistinctFrom } else { Operator::Eq };
        let on = self
            .schema
            .key()
            .iter()
            .enumerate()
            .map(|(part, &position)| binary_expr(column(&format!("wanted{part}")), operator, self.value(position)));
        let on: Vec<_> = on.collect();
        let wanted = self.context.read_batch(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)?;
        wanted.join_on(self.rows.clone(), JoinType::Inner, on)
    }

    /// Whether a row is after one key and not after another.
    fn between(&self, after: Option<&Key>, up_to: Option<&Key>) -> Result<Expr> {
        let mut between = lit(true);
        for (key, is_after) in after.map(|key| (key, true)).into_iter().chain(up_to.map(|key| (key, false))) {
            between = between.and(self.beyond(key, is_after)?);
        }
        Ok(between)
    }

    /// Whether a row comes after a key, or else not after it.
    fn beyond(&self, key: &Key, is_after: bool) -> Result<Expr> {
        if self.compared.by_text {
            let place = lit(row_text(key.iter().map(|text| text.as_deref().map(Into::into))));
            return Ok(if is_after { self.place().gt(place) } else { self.place().lt_eq(place) });
        }
        let mut parts = Vec::new();
        for ((comparable, text), &position) in self.compared.key.iter().zip(key).zip(self.schema.key()) {
            let value = ScalarValue::try_from_array(&comparable.values(&[text.as_deref()])?, 0)?;
            parts.push((self.value(position), lit(value)));
        }
        // a lexicographic comparison, from the last part to the first
        let mut beyond = lit(!is_after);
        for (value, bound) in parts.into_iter().rev() {
            let outright = if is_after { value.clone().gt(bound.clone()) } else { value.clone().lt(bound.clone()) };
            beyond = outright.or(value.eq(bound).and(beyond));
        }
        Ok(beyond)
    }

    fn is_live(&self) -> Expr {
        self.meta(|m| &m.is_deleted).is_not_true()
    }

    fn value(&self, position: usize) -> Expr {
        column(&self.schema.columns()[position].name)
    }

    /// A column as it was written: it may be read with other arrays for texts and bytes.
    fn written(&self, position: usize, column: &Comparable) -> Expr {
        cast_to(self.value(position), column.data_type().arrow())
    }

    fn meta(&self, name: impl Fn(&change::MetaColumns) -> &String) -> Expr {
        column(name(self.schema.meta()))
    }

    /// The MD5 of a row's text.
    fn hash(&self) -> Expr {
        let columns = self.compared.columns.clone();
        let values = columns.iter().map(|(position, column)| self.written(*position, column)).collect();
        let columns = columns.into_iter().map(|(_, comparable)| comparable).collect();
        function("row_hash", columns, |text| hex(&Md5::digest(text))).call(values)
    }

    /// What rows are ordered by where their text decides.
    fn place(&self) -> Expr {
        let keys = self.schema.key().iter().zip(&self.compared.key);
        let values = keys.map(|(&position, column)| self.written(position, column)).collect();
        function("key_text", self.compared.key.clone(), str::to_owned).call(values)
    }
}

impl std::fmt::Debug for ReplicaView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplicaView").field("version", &self.version).finish_non_exhaustive()
    }
}

/// A function of a row's text.
fn function(name: &str, columns: Vec<Comparable>, made_of: fn(&str) -> String) -> ScalarUDF {
    let types = columns.iter().map(|column| column.data_type().arrow()).collect();
    let call = move |arguments: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(arguments)?;
        let rows = arrays.first().map_or(0, Array::len);
        let text = |row| {
            let values = columns.iter().zip(&arrays).map(|(column, values)| column.text(values, row));
            made_of(&row_text(values))
        };
        Ok(ColumnarValue::Array(Arc::new(StringArray::from_iter_values((0..rows).map(text)))))
    };
    create_udf(name, types, ArrowType::Utf8, Volatility::Immutable, Arc::new(call))
}

/// A batch of key columns, LSN, anchor, `is_deleted` and hash.
struct Hashed {
    keys: Vec<ArrayRef>,
    lsns: ArrayRef,
    anchors: ArrayRef,
    deleted: ArrayRef,
    hashes: StringArray,
}

impl Hashed {
    fn of(batch: &RecordBatch, width: usize) -> Result<Self> {
        let mut columns = batch.columns().to_vec();
        let keys = columns.drain(..width).collect();
        let [lsns, anchors, deleted, hashes, ..] = columns.as_slice() else {
            return Err(DataFusionError::Internal("a column is missing".to_owned()));
        };
        Ok(Self {
            keys,
            lsns: Arc::clone(lsns),
            anchors: Arc::clone(anchors),
            deleted: Arc::clone(deleted),
            hashes: texts(hashes)?,
        })
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }

    fn key(&self, row: usize, comparables: &[Comparable]) -> Key {
        let text = |(comparable, values): (&Comparable, &ArrayRef)| {
            // the table may be read with other arrays for texts than it was written with
            let one = cast(&values.slice(row, 1), &comparable.data_type().arrow()).ok()?;
            comparable.text(&one, 0).map(std::borrow::Cow::into_owned)
        };
        comparables.iter().zip(&self.keys).map(text).collect()
    }

    fn is_deleted(&self, row: usize) -> bool {
        self.deleted.as_boolean().value(row)
    }

    fn state(&self, row: usize) -> RowState {
        let hash = (!self.is_deleted(row)).then(|| self.hashes.value(row).to_owned());
        RowState { hash, order: order_at(&self.lsns, &self.anchors, row) }
    }
}

/// Cuts ordered rows into ranges.
struct Cutter {
    cut: Cut,
    ranges: Vec<Range>,
    open: DigestBuilder,
    moved: Vec<Key>,
}

impl Cutter {
    fn new(cut: Cut) -> Self {
        Self { cut, ranges: Vec::new(), open: DigestBuilder::default(), moved: Vec::new() }
    }

    fn push(&mut self, batch: &Hashed, row: usize, key: &[Comparable]) {
        if lsn_at(&batch.lsns, row) > self.cut.lsn {
            return self.moved.push(batch.key(row, key));
        }
        // deleted rows are there for those that moved
        self.open.push(batch.hashes.value(row));
        if self.open.rows >= self.cut.rows {
            self.close(Some(batch.key(row, key)));
        }
    }

    fn close(&mut self, end: Option<Key>) {
        let digest = std::mem::take(&mut self.open).finish();
        self.ranges.push(Range { end, digest, moved: std::mem::take(&mut self.moved) });
    }

    fn finish(mut self, end: Option<Key>) -> Vec<Range> {
        self.close(end);
        self.ranges
    }
}

/// Makes a [`Digest`].
#[derive(Default)]
struct DigestBuilder {
    rows: u64,
    sum: i128,
    ordered: Md5,
}

impl DigestBuilder {
    fn push(&mut self, hash: &str) {
        self.rows += 1;
        let bits = hash.get(..16).and_then(|bits| u64::from_str_radix(bits, 16).ok()).unwrap_or_default();
        self.sum += i128::from(bits.cast_signed());
        self.ordered.update(hash);
    }

    fn finish(self) -> Digest {
        Digest { rows: self.rows, sum: self.sum, ordered: hex(&self.ordered.finalize()) }
    }
}

fn texts(values: &ArrayRef) -> Result<StringArray> {
    Ok(cast(values, &ArrowType::Utf8)?.as_string::<i32>().clone())
}

fn long(values: &ArrayRef, row: usize) -> i64 {
    let values = values.as_primitive::<Int64Type>();
    if values.is_null(row) { 0 } else { values.value(row) }
}

fn order_at(lsns: &ArrayRef, anchors: &ArrayRef, row: usize) -> Order {
    Order { anchor: lsn_at(anchors, row), lsn: lsn_at(lsns, row) }
}

fn lsn_at(values: &ArrayRef, row: usize) -> Lsn {
    Lsn::try_from(long(values, row)).unwrap_or_default()
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}
