//! Gives a row whose key was changed the values that it leaves out, from the row of its old key.
//!
//! The connector sends a change of the key as the delete of the old key and the create of the new one, both at one order.
//! What the old row was just before is known where that delete is: in the table, whose soft-deleted rows keep their values,
//! or in the batch, with the older events of its key. Where it is not there yet (its partition lags), or the key has a
//! newer row already, nothing is taken. A value that can be left out is never null, so a null is one that was never seen.

use std::{borrow::Cow, collections::HashMap};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch},
    compute::{cast, concat_batches, interleave},
    datatypes::Int64Type,
    error::ArrowError,
    row::{Row, RowConverter, SortField},
};
use change::{ChangeBatch, Moved, Order, TableSchema};
use datafusion::prelude::SessionContext;
use deltalake_core::DeltaTable;
use pipeline::Fault;

use crate::{
    fault,
    guard::{self, order, order_at},
};

/// The batch with what its rows of other keys than before take from the rows of those.
///
/// # Errors
/// A fault of the store, or a halt where DataFusion fails.
pub(crate) async fn resolve<'a>(
    context: &SessionContext,
    table: &DeltaTable,
    changes: Cow<'a, ChangeBatch>,
    floor: Order,
) -> Result<Cow<'a, ChangeBatch>, Fault> {
    let Some(moved) = &changes.moved else { return Ok(changes) };
    let stored = Stored::read(context, table, &changes, moved).await?;
    let (values, pairs) = taken(&changes, moved, &stored, floor).map_err(Fault::halt)?;
    if pairs.is_empty() {
        return Ok(changes);
    }
    changes.into_owned().filled(&values, &pairs).map(Cow::Owned).map_err(Fault::halt)
}

/// The stored rows of the old keys.
struct Stored {
    /// By position among the moved rows: the row in `columns`, its order, and whether it is soft-deleted.
    rows: HashMap<usize, (usize, Order, bool)>,
    /// The values of each column that is left out by a row of the batch.
    columns: HashMap<usize, ArrayRef>,
}

impl Stored {
    async fn read(
        context: &SessionContext,
        table: &DeltaTable,
        changes: &ChangeBatch,
        moved: &Moved,
    ) -> Result<Self, Fault> {
        let (schema, meta): (&TableSchema, _) = (&changes.schema, changes.schema.meta());
        let left_out: Vec<usize> = (0..changes.unchanged.len()).filter(|&c| changes.unchanged[c].is_some()).collect();
        let mut columns = vec![meta.source_anchor.as_str(), &meta.source_lsn, &meta.is_deleted];
        columns.extend(left_out.iter().map(|&column| schema.columns()[column].name.as_str()));
        let found = guard::stored_rows(context, table, schema, &moved.deletes, &columns).await;
        let found = found.map_err(|e| fault::datafusion("reading the rows of old keys", &e))?;
        Self::collected(schema, &left_out, &found).map_err(Fault::halt)
    }

    fn collected(schema: &TableSchema, left_out: &[usize], found: &[RecordBatch]) -> Result<Self, ArrowError> {
        let mut stored = Self { rows: HashMap::new(), columns: HashMap::new() };
        let Some(first) = found.first() else { return Ok(stored) };
        let found = concat_batches(&first.schema(), found)?;
        let long = |column: usize| found.column(column).as_primitive::<Int64Type>();
        let deleted = found.column(3).as_boolean();
        for row in 0..found.num_rows() {
            // without an order or a mark it is another tool's, and says nothing about the delete
            if (1..=3).any(|column| found.column(column).is_null(row)) {
                continue;
            }
            let place = usize::try_from(long(0).value(row)).unwrap_or(usize::MAX);
            let order = order(long(1).value(row), long(2).value(row));
            stored.rows.insert(place, (row, order, deleted.value(row)));
        }
        for (index, &column) in left_out.iter().enumerate() {
            let values = cast(found.column(4 + index), &schema.columns()[column].data_type.arrow())?;
            stored.columns.insert(column, values);
        }
        Ok(stored)
    }
}

/// Where a value comes from.
#[derive(Clone, Copy)]
enum Donor {
    Batch(usize),
    Stored(usize),
}

/// Rows of values for the moved rows that can take them, each with the row that it is for.
fn taken(
    changes: &ChangeBatch,
    moved: &Moved,
    stored: &Stored,
    floor: Order,
) -> Result<(RecordBatch, Vec<(usize, usize)>), ArrowError> {
    let key = |rows: &RecordBatch| -> Vec<ArrayRef> {
        changes.schema.key().iter().map(|&key| rows.column(key).clone()).collect()
    };
    let (olds, all) = (key(&moved.deletes), key(&changes.rows));
    let converter = RowConverter::new(olds.iter().map(|column| SortField::new(column.data_type().clone())).collect())?;
    let (olds, all) = (converter.convert_columns(&olds)?, converter.convert_columns(&all)?);
    let mut histories: HashMap<Row<'_>, Vec<usize>> = olds.iter().map(|old| (old, Vec::new())).collect();
    for (row, key) in all.iter().enumerate() {
        if let Some(history) = histories.get_mut(&key) {
            history.push(row);
        }
    }

    let mut search = Search::new(changes, moved, floor);
    // a key may be changed more than once, and the later change takes what the earlier one took
    let mut places: Vec<usize> = (0..moved.rows.len()).collect();
    places.sort_by_key(|&place| order_at(&changes.rows, &changes.schema, moved.rows[place]));
    let mut pairs = Vec::new();
    for place in places {
        let history = histories.get(&olds.row(place)).map_or(&[][..], Vec::as_slice);
        if search.fill(moved.rows[place], history, stored, stored.rows.get(&place)) {
            pairs.push((moved.rows[place], pairs.len()));
        }
    }
    let columns = (0..changes.rows.num_columns()).map(|column| {
        let of_batch = changes.rows.column(column);
        let sources: Vec<&dyn Array> =
            [of_batch].into_iter().chain(stored.columns.get(&column)).map(|a| &**a).collect();
        let pick = |&(row, _): &(usize, usize)| match search.donors.get(&(row, column)) {
            Some(&Donor::Batch(donor)) => (0, donor),
            Some(&Donor::Stored(donor)) => (1, donor),
            None => (0, row),
        };
        interleave(&sources, &pairs.iter().map(pick).collect::<Vec<_>>())
    });
    Ok((RecordBatch::try_new(changes.rows.schema(), columns.collect::<Result<_, _>>()?)?, pairs))
}

/// The search for values of moved rows.
struct Search<'a> {
    changes: &'a ChangeBatch,
    moved: &'a Moved,
    deleted: &'a BooleanArray,
    floor: Order,
    /// What was found, by row and column.
    donors: HashMap<(usize, usize), Donor>,
}

impl<'a> Search<'a> {
    fn new(changes: &'a ChangeBatch, moved: &'a Moved, floor: Order) -> Self {
        let deleted = changes.rows.column(changes.schema.columns().len() + 2).as_boolean();
        Self { changes, moved, deleted, floor, donors: HashMap::new() }
    }

    /// Finds every value that `row` leaves out; `false` where one is not known. `history` are the events of its old key in
    /// the order of arrival, and `before` is the stored row of that.
    fn fill(&mut self, row: usize, history: &[usize], stored: &Stored, before: Option<&(usize, Order, bool)>) -> bool {
        let order = self.order(row);
        let (applied, kept) = match before {
            Some(&(kept, at, true)) if at == order => (Vec::new(), Some(kept)),
            _ => {
                let Some(applied) = self.applied_before_delete(history, order, before.map(|before| before.1)) else {
                    return false;
                };
                // under a soft-deleted row there was another one
                (applied, before.filter(|before| !before.2).map(|before| before.0))
            }
        };
        let left_out = (0..self.changes.unchanged.len()).filter(|&column| self.leaves_out(row, column));
        let found: Option<Vec<_>> =
            left_out.map(|column| Some((column, self.donor(column, &applied, stored, kept)?))).collect();
        let is_found = found.is_some();
        self.donors.extend(found.into_iter().flatten().map(|(column, donor)| ((row, column), donor)));
        is_found
    }

    /// The events that would have been applied before the delete at `order`, one by one, had this been applied, too.
    fn applied_before_delete(&self, history: &[usize], order: Order, stored: Option<Order>) -> Option<Vec<usize>> {
        let mut newest = stored.unwrap_or(self.floor);
        let mut applied = Vec::new();
        for &event in history {
            let at = self.order(event);
            if at <= newest {
                continue;
            }
            let is_deleted = self.deleted.value(event);
            if at == order && is_deleted {
                return Some(applied);
            }
            let has_row = stored.is_some() || !applied.is_empty();
            let is_whole = || (0..self.changes.unchanged.len()).all(|column| !self.leaves_out(event, column));
            if has_row || is_deleted || is_whole() || self.is_moved(event) {
                newest = at;
                applied.push(event);
            }
        }
        None
    }

    /// Where the value of the row comes from that these events, and before them the stored row, leave behind.
    fn donor(&self, column: usize, applied: &[usize], stored: &Stored, kept: Option<usize>) -> Option<Donor> {
        for &event in applied.iter().rev() {
            if self.deleted.value(event) {
                return None;
            }
            if !self.leaves_out(event, column) {
                return self.changes.rows.column(column).is_valid(event).then_some(Donor::Batch(event));
            }
            if self.is_moved(event) {
                return self.donors.get(&(event, column)).copied();
            }
        }
        kept.filter(|&row| stored.columns.get(&column).is_some_and(|values| values.is_valid(row))).map(Donor::Stored)
    }

    fn order(&self, row: usize) -> Order {
        order_at(&self.changes.rows, &self.changes.schema, row)
    }

    fn leaves_out(&self, row: usize, column: usize) -> bool {
        self.changes.unchanged[column].as_ref().is_some_and(|unchanged| unchanged.value(row))
    }

    fn is_moved(&self, row: usize) -> bool {
        self.moved.rows.binary_search(&row).is_ok()
    }
}
