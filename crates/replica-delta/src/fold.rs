//! Gives each winner the values that it does not carry itself.
//!
//! A delete carries nothing but its key, and an update leaves out TOASTed values that did not change. Such a cell
//! has the value that the row would have had, had the batch's events been applied one by one: that of the newest
//! event before it, in the order of arrival, which had passed the guard and carried the value; else the stored row's.
//! So a batch gives the same row as its events one by one, whatever the batch's size.
//!
//! A row whose key was changed takes nothing from the one that its key had before: where [`moved`](crate::moved) found
//! nothing for it, nobody has its values, and those of no event that follows and leaves them out, too.

use std::collections::HashMap;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array},
    compute::take,
    error::ArrowError,
    row::{OwnedRow, RowConverter, SortField},
};
use change::{ChangeBatch, Order};

use crate::guard::{Verdict, order_at};

/// The winners with the values that the batch itself could fill in.
pub(crate) struct Folded {
    /// The winners' rows.
    pub(crate) rows: RecordBatch,
    /// The winners of which the stored row keeps every column.
    pub(crate) keeps_all: Vec<bool>,
    /// By source column: the winners whose stored value stays, those of `keeps_all` apart.
    pub(crate) keeps: HashMap<usize, Vec<bool>>,
    /// Rows of the batch that leave out a value and whose key the replica does not have.
    pub(crate) unresolved: Vec<usize>,
}

/// Fills in what the batch knows. `winners` are rows of `batch`, each with its verdict.
pub(crate) fn fold(
    batch: &ChangeBatch,
    winners: &UInt64Array,
    verdicts: &[Verdict],
    floor: Order,
) -> Result<Folded, ArrowError> {
    let events = Events::new(batch, winners)?;
    let width = batch.schema.columns().len();
    let values: Vec<usize> = (0..width).filter(|column| !batch.schema.key().contains(column)).collect();
    let mut donors: HashMap<usize, Vec<u64>> = HashMap::new();
    let mut keeps_all = vec![false; winners.len()];
    let mut keeps: HashMap<usize, Vec<bool>> = HashMap::new();
    let mut unresolved = Vec::new();

    for (i, verdict) in verdicts.iter().enumerate().filter(|(_, verdict)| !verdict.is_guarded()) {
        let row = usize::try_from(winners.value(i)).unwrap_or(usize::MAX);
        let left_out: Vec<usize> = values.iter().copied().filter(|&column| !events.carries(row, column)).collect();
        if left_out.is_empty() {
            continue;
        }
        let Applied { rows: applied, is_torn } = events.applied_before(row, verdict.stored(), floor);
        let carried = |&column: &usize| applied.iter().any(|&earlier| events.carries(earlier, column));
        if events.is_torn(row) || is_torn && !events.deletes(row) && !left_out.iter().all(carried) {
            unresolved.push(row);
            continue;
        }
        let (mut kept, is_stored) = (Vec::new(), matches!(verdict, Verdict::Update(_)));
        for &column in &left_out {
            match applied.iter().rev().find(|&&earlier| events.carries(earlier, column)) {
                Some(&donor) => donors.entry(column).or_insert_with(|| winners.values().to_vec())[i] = donor as u64,
                None if is_stored => kept.push(column),
                // of a row that was never seen, a delete says nothing but that it is gone
                None if events.deletes(row) || !applied.is_empty() => {}
                None => unresolved.push(row),
            }
        }
        if kept.len() == values.len() {
            keeps_all[i] = true;
        } else {
            for column in kept {
                keeps.entry(column).or_insert_with(|| vec![false; winners.len()])[i] = true;
            }
        }
    }
    unresolved.dedup();
    let columns = (0..batch.rows.num_columns()).map(|column| {
        let from = donors.remove(&column).map_or_else(|| winners.clone(), UInt64Array::from);
        take(batch.rows.column(column), &from, None)
    });
    let rows = RecordBatch::try_new(batch.rows.schema(), columns.collect::<Result<Vec<_>, _>>()?)?;
    Ok(Folded { rows, keeps_all, keeps, unresolved })
}

/// The events that came before one of their key and would have been applied in their turn.
struct Applied {
    rows: Vec<usize>,
    /// Just before these there was a row of a changed key that nobody has all values of.
    is_torn: bool,
}

/// The events of a batch, by key.
struct Events<'a> {
    batch: &'a ChangeBatch,
    deleted: &'a BooleanArray,
    keys: Vec<OwnedRow>,
    /// The rows of each key in the order of arrival. Empty where no key repeats.
    by_key: HashMap<OwnedRow, Vec<usize>>,
}

impl<'a> Events<'a> {
    fn new(batch: &'a ChangeBatch, winners: &UInt64Array) -> Result<Self, ArrowError> {
        let deleted = batch.rows.column(batch.schema.columns().len() + 2).as_boolean();
        let mut events = Self { batch, deleted, keys: Vec::new(), by_key: HashMap::new() };
        let repeats = winners.len() < batch.rows.num_rows();
        if repeats && (batch.has_unchanged() || deleted.true_count() > 0) {
            let columns: Vec<ArrayRef> = batch.schema.key().iter().map(|&key| batch.rows.column(key).clone()).collect();
            let converter = RowConverter::new(columns.iter().map(|c| SortField::new(c.data_type().clone())).collect())?;
            events.keys = converter.convert_columns(&columns)?.iter().map(|row| row.owned()).collect();
            for (row, key) in events.keys.iter().enumerate() {
                events.by_key.entry(key.clone()).or_default().push(row);
            }
        }
        Ok(events)
    }

    fn deletes(&self, row: usize) -> bool {
        self.deleted.value(row)
    }

    fn carries(&self, row: usize, column: usize) -> bool {
        !self.deletes(row) && self.batch.unchanged[column].as_ref().is_none_or(|unchanged| !unchanged.value(row))
    }

    /// The events of `row`'s key that came before it and would have been applied in their turn: those above the
    /// stored order, or above the floor where nothing is stored, that leave out no value which nobody had.
    fn applied_before(&self, row: usize, stored: Option<Order>, floor: Order) -> Applied {
        let history = self.keys.get(row).and_then(|key| self.by_key.get(key));
        let mut newest = stored.unwrap_or(floor);
        let (mut applied, mut is_torn) = (Vec::new(), false);
        for earlier in history.into_iter().flatten().copied().take_while(|&earlier| earlier < row) {
            let order = order_at(&self.batch.rows, &self.batch.schema, earlier);
            let has_row = stored.is_some() || !applied.is_empty();
            if order > newest && self.is_torn(earlier) {
                (newest, is_torn) = (order, true);
                applied.clear();
            } else if order > newest && (has_row || self.deletes(earlier) || self.is_whole(earlier)) {
                newest = order;
                applied.push(earlier);
            }
        }
        Applied { rows: applied, is_torn }
    }

    /// Whether it is a row of a changed key that still leaves out a value.
    fn is_torn(&self, row: usize) -> bool {
        let is_moved = self.batch.moved.as_ref().is_some_and(|moved| moved.rows.binary_search(&row).is_ok());
        is_moved && !self.is_whole(row)
    }

    fn is_whole(&self, row: usize) -> bool {
        self.batch.unchanged.iter().flatten().all(|unchanged| !unchanged.value(row))
    }
}
