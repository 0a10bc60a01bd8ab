//! [`ChangeBatch`]: a table's run of change events as Arrow arrays.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryBuilder, BooleanArray, BooleanBufferBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
        Float32Builder, Float64Builder, Int16Builder, Int32BufferBuilder, Int32Builder, Int64BufferBuilder,
        Int64Builder, ListArray, RecordBatch, StringBuilder, TimestampMicrosecondBuilder,
    },
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    compute::{filter_record_batch, interleave},
    datatypes::FieldRef,
    error::ArrowError,
};

use crate::{DataType, Order, TableSchema, cell::Cell};

/// A run of row changes of one table, in the order in which they were read.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeBatch {
    /// The table.
    pub schema: Arc<TableSchema>,
    /// One row an event, in the replica's own shape ([`TableSchema::arrow`]). A delete has nothing but its key.
    pub rows: RecordBatch,
    /// The Kafka partition of each row.
    pub partitions: ScalarBuffer<i32>,
    /// Its offset there.
    pub offsets: ScalarBuffer<i64>,
    /// By column of the source: which rows left the value out because it did not change. `None`: no row did.
    pub unchanged: Vec<Option<BooleanArray>>,
    /// The rows that leave out values and have another key than before.
    pub moved: Option<Moved>,
    /// A truncate that follows all of the rows.
    pub truncate: Option<Order>,
}

/// Rows that came by a change of their key and leave out values, which the old key's row has.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The rows, ascending.
    pub rows: Vec<usize>,
    /// For each, the delete of its old key: the key, the order and `is_deleted`. A key that could not be read is null.
    pub deletes: RecordBatch,
}

impl ChangeBatch {
    /// Whether any row left out a value.
    #[must_use]
    pub fn has_unchanged(&self) -> bool {
        self.unchanged.iter().any(Option::is_some)
    }

    /// The rows for which `keep` holds, and the same truncate.
    ///
    /// # Errors
    /// Arrow's, where `keep` has another length than the batch.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Self, ArrowError> {
        let kept = |i: &usize| keep.value(*i);
        let pick = |array: &BooleanArray| (0..array.len()).filter(kept).map(|i| Some(array.value(i))).collect();
        Ok(Self {
            schema: Arc::clone(&self.schema),
            rows: filter_record_batch(&self.rows, keep)?,
            partitions: (0..self.partitions.len()).filter(kept).map(|i| self.partitions[i]).collect(),
            offsets: (0..self.offsets.len()).filter(kept).map(|i| self.offsets[i]).collect(),
            unchanged: self.unchanged.iter().map(|column| column.as_ref().map(pick)).collect(),
            moved: self.moved.as_ref().map(|moved| moved.filter(keep)).transpose()?,
            truncate: self.truncate,
        })
    }

    /// The batch with rows of `values`, in the same shape, in the place of what its own left out: a pair for each, of a row
    /// here and the row there.
    ///
    /// # Errors
    /// Arrow's, where `values` has another shape or a row is not there.
    pub fn filled(self, values: &RecordBatch, pairs: &[(usize, usize)]) -> Result<Self, ArrowError> {
        let mut columns = self.rows.columns().to_vec();
        let mut unchanged = self.unchanged;
        for (column, left_out) in unchanged.iter_mut().enumerate() {
            let Some(flags) = left_out else { continue };
            let mut picks: Vec<(usize, usize)> = (0..flags.len()).map(|row| (0, row)).collect();
            for &(row, value) in pairs.iter().filter(|(row, _)| flags.value(*row)) {
                picks[row] = (1, value);
            }
            columns[column] = interleave(&[&columns[column], values.column(column)], &picks)?;
            let still: BooleanArray =
                flags.iter().zip(&picks).map(|(flag, (from, _))| Some(flag == Some(true) && *from == 0)).collect();
            *left_out = (still.true_count() > 0).then_some(still);
        }
        Ok(Self { rows: RecordBatch::try_new(self.rows.schema(), columns)?, unchanged, ..self })
    }
}

impl Moved {
    /// Those of the rows for which `keep` holds, numbered as these are.
    fn filter(&self, keep: &BooleanArray) -> Result<Self, ArrowError> {
        let kept = self.rows.iter().map(|&row| Some(keep.value(row))).collect();
        let mut rows = Vec::new();
        let mut before = (0, 0);
        for &row in &self.rows {
            before = (row, before.1 + (before.0..row).filter(|&earlier| keep.value(earlier)).count());
            rows.extend(keep.value(row).then_some(before.1));
        }
        Ok(Self { rows, deletes: filter_record_batch(&self.deletes, &kept)? })
    }
}

/// Collects change events into a [`ChangeBatch`].
#[derive(Debug)]
pub struct BatchBuilder {
    schema: Arc<TableSchema>,
    columns: Vec<ColumnBuilder>,
    unchanged: Vec<Option<BooleanBufferBuilder>>,
    lsn: Int64Builder,
    anchor: Int64Builder,
    deleted: BooleanBuilder,
    partitions: Int32BufferBuilder,
    offsets: Int64BufferBuilder,
    moved: Option<Box<MovedBuilder>>,
    truncate: Option<Order>,
    rows: usize,
    bytes: usize,
    newest_is_partial: bool,
}

#[derive(Debug)]
struct MovedBuilder {
    rows: Vec<usize>,
    deletes: BatchBuilder,
}

/// Where a row came from and where it stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) order: Order,
    pub(crate) deleted: bool,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

impl BatchBuilder {
    /// An empty batch of `schema`'s table.
    #[must_use]
    pub fn new(schema: Arc<TableSchema>) -> Self {
        Self {
            columns: schema.columns().iter().map(|c| ColumnBuilder::new(&c.data_type)).collect(),
            unchanged: schema.columns().iter().map(|_| None).collect(),
            lsn: Int64Builder::new(),
            anchor: Int64Builder::new(),
            deleted: BooleanBuilder::new(),
            partitions: Int32BufferBuilder::new(0),
            offsets: Int64BufferBuilder::new(0),
            moved: None,
            truncate: None,
            rows: 0,
            bytes: 0,
            newest_is_partial: false,
            schema,
        }
    }

    /// Row changes collected so far.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The memory that they take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the row that was added last leaves out a value that did not change.
    #[must_use]
    pub fn newest_is_partial(&self) -> bool {
        self.newest_is_partial
    }

    /// Whether the batch ends with a truncate; nothing may be pushed after it.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncate.is_some()
    }

    pub(crate) fn truncate(&mut self, order: Order) {
        self.truncate = Some(order);
    }

    /// Adds one row, a cell a column.
    pub(crate) fn push(&mut self, cells: &[Cell<'_>], origin: Origin) {
        self.newest_is_partial = false;
        for (index, cell) in cells.iter().enumerate() {
            self.columns[index].append(cell);
            self.bytes += cell.bytes();
            let unchanged = *cell == Cell::Unchanged;
            self.newest_is_partial |= unchanged;
            if unchanged && self.unchanged[index].is_none() {
                let mut earlier = BooleanBufferBuilder::new(self.rows + 1);
                earlier.append_n(self.rows, false);
                self.unchanged[index] = Some(earlier);
            }
            if let Some(column) = &mut self.unchanged[index] {
                column.append(unchanged);
            }
        }
        self.lsn.append_value(origin.order.lsn.as_long());
        self.anchor.append_value(origin.order.anchor.as_long());
        self.deleted.append_value(origin.deleted);
        self.partitions.append(origin.partition);
        self.offsets.append(origin.offset);
        self.rows += 1;
        self.bytes += 32;
    }

    /// Adds one row that leaves out values, and the cells of the key that it had before.
    pub(crate) fn push_moved(&mut self, cells: &[Cell<'_>], old_key: &[Cell<'_>], origin: Origin) {
        let Self { moved, schema, rows, .. } = self;
        let moved = moved
            .get_or_insert_with(|| Box::new(MovedBuilder { rows: Vec::new(), deletes: Self::new(Arc::clone(schema)) }));
        self.bytes += old_key.iter().map(Cell::bytes).sum::<usize>();
        moved.rows.push(*rows);
        moved.deletes.push(old_key, Origin { deleted: true, ..origin });
        self.push(cells, origin);
    }

    /// The batch.
    ///
    /// # Errors
    /// Arrow's, if a column got another number of values than the others; it does not happen through `push`.
    pub fn finish(mut self) -> Result<ChangeBatch, ArrowError> {
        let mut arrays: Vec<ArrayRef> = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        arrays.push(Arc::new(self.lsn.finish()));
        arrays.push(Arc::new(self.anchor.finish()));
        arrays.push(Arc::new(self.deleted.finish()));
        let unchanged = self.unchanged.into_iter().map(|c| c.map(|mut c| BooleanArray::new(c.finish(), None)));
        Ok(ChangeBatch {
            rows: RecordBatch::try_new(Arc::clone(self.schema.arrow()), arrays)?,
            partitions: ScalarBuffer::from(self.partitions.finish()),
            offsets: ScalarBuffer::from(self.offsets.finish()),
            unchanged: unchanged.collect(),
            moved: self.moved.map(|moved| moved.finish()).transpose()?,
            truncate: self.truncate,
            schema: self.schema,
        })
    }
}

impl MovedBuilder {
    fn finish(self) -> Result<Moved, ArrowError> {
        Ok(Moved { rows: self.rows, deletes: self.deletes.finish()?.rows })
    }
}

#[derive(Debug)]
enum ColumnBuilder {
    Boolean(BooleanBuilder),
    Short(Int16Builder),
    Int(Int32Builder),
    Long(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Decimal(Decimal128Builder),
    String(StringBuilder),
    Binary(BinaryBuilder),
    Date(Date32Builder),
    Time(TimestampMicrosecondBuilder),
    Array(Box<ArrayBuilder>),
}

/// Arrays of a column, one after the other.
#[derive(Debug)]
struct ArrayBuilder {
    element: FieldRef,
    elements: ColumnBuilder,
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl ArrayBuilder {
    fn append(&mut self, cells: Option<&[Cell<'_>]>) {
        let elements = cells.unwrap_or_default();
        for element in elements {
            self.elements.append(element);
        }
        self.lengths.push(elements.len());
        self.valid.push(cells.is_some());
    }

    fn finish(&mut self) -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(self.lengths.drain(..));
        let valid: NullBuffer = self.valid.drain(..).collect();
        Arc::new(ListArray::new(Arc::clone(&self.element), offsets, self.elements.finish(), Some(valid)))
    }
}

impl ColumnBuilder {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
            DataType::Short => Self::Short(Int16Builder::new()),
            DataType::Int => Self::Int(Int32Builder::new()),
            DataType::Long => Self::Long(Int64Builder::new()),
            DataType::Float => Self::Float(Float32Builder::new()),
            DataType::Double => Self::Double(Float64Builder::new()),
            DataType::Decimal { .. } => Self::Decimal(Decimal128Builder::new().with_data_type(data_type.arrow())),
            DataType::String
            | DataType::Numeric { .. }
            | DataType::Time
            | DataType::Interval
            | DataType::Json
            | DataType::Hstore => Self::String(StringBuilder::new()),
            DataType::Binary => Self::Binary(BinaryBuilder::new()),
            DataType::Date => Self::Date(Date32Builder::new()),
            DataType::Timestamp | DataType::TimestampNtz => {
                Self::Time(TimestampMicrosecondBuilder::new().with_data_type(data_type.arrow()))
            }
            DataType::Array(element) => Self::Array(Box::new(ArrayBuilder {
                element: Arc::new(element.arrow_element()),
                elements: Self::new(element),
                lengths: Vec::new(),
                valid: Vec::new(),
            })),
        }
    }

    /// Appends a cell of the column's own type, as [`crate::cell::CellSeed`] makes it (ranges are checked there);
    /// anything else is a null.
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked when the cell was read")]
    fn append(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Self::Boolean(b), Cell::Boolean(v)) => b.append_value(*v),
            (Self::Short(b), Cell::Integer(v)) => b.append_value(*v as i16),
            (Self::Int(b), Cell::Integer(v)) => b.append_value(*v as i32),
            (Self::Long(b), Cell::Integer(v)) => b.append_value(*v),
            (Self::Float(b), Cell::Real(v)) => b.append_value(*v as f32),
            (Self::Double(b), Cell::Real(v)) => b.append_value(*v),
            (Self::Decimal(b), Cell::Decimal(v)) => b.append_value(*v),
            (Self::String(b), Cell::Text(v)) => b.append_value(v),
            (Self::Binary(b), Cell::Binary(v)) => b.append_value(v),
            (Self::Date(b), Cell::Integer(v)) => b.append_value(*v as i32),
            (Self::Time(b), Cell::Integer(v)) => b.append_value(*v),
            (Self::Array(b), Cell::Array(v)) => b.append(Some(v)),
            (builder, _) => builder.append_null(),
        }
    }

    fn append_null(&mut self) {
        match self {
            Self::Boolean(b) => b.append_null(),
            Self::Short(b) => b.append_null(),
            Self::Int(b) => b.append_null(),
            Self::Long(b) => b.append_null(),
            Self::Float(b) => b.append_null(),
            Self::Double(b) => b.append_null(),
            Self::Decimal(b) => b.append_null(),
            Self::String(b) => b.append_null(),
            Self::Binary(b) => b.append_null(),
            Self::Date(b) => b.append_null(),
            Self::Time(b) => b.append_null(),
            Self::Array(b) => b.append(None),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(b) => Arc::new(b.finish()),
            Self::Short(b) => Arc::new(b.finish()),
            Self::Int(b) => Arc::new(b.finish()),
            Self::Long(b) => Arc::new(b.finish()),
            Self::Float(b) => Arc::new(b.finish()),
            Self::Double(b) => Arc::new(b.finish()),
            Self::Decimal(b) => Arc::new(b.finish()),
            Self::String(b) => Arc::new(b.finish()),
            Self::Binary(b) => Arc::new(b.finish()),
            Self::Date(b) => Arc::new(b.finish()),
            Self::Time(b) => Arc::new(b.finish()),
            Self::Array(b) => b.finish(),
        }
    }
}
