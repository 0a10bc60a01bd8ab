//! The reference model: what a replica must hold after any delivery of a table's events.
//!
//! It takes one event at a time and keeps a map; everything that Highwater does in batches, plans and merges must
//! come to the same rows. The rules are those of the table in `ARCHITECTURE.md`, "What each event does".

use std::collections::BTreeMap;

use crate::Order;

/// A value that an event carries for a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<V> {
    /// The value, or NULL.
    Sent(Option<V>),
    /// A TOASTed value that the source did not send.
    Unchanged,
}

/// What an event does to its key's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<V> {
    /// The row is there with these values (read, create, update).
    Upsert(Vec<Value<V>>),
    /// The row is gone.
    Delete,
}

/// A replica's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<V> {
    /// The order of the event that it comes from.
    pub order: Order,
    /// Soft-deleted.
    pub is_deleted: bool,
    /// The columns outside the key.
    pub values: Vec<Option<V>>,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The row was set, inserted or soft-deleted.
    Merged,
    /// Refused by the guard: stale, or delivered before.
    Guarded,
    /// It leaves out values that no row of the replica has.
    Unresolved,
}

/// A replica of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica<K, V> {
    /// Every row, soft-deleted ones among them.
    pub rows: BTreeMap<K, Row<V>>,
    /// The order at or below which an absent key is refused.
    pub floor: Order,
    width: usize,
}

impl<K: Ord, V> Replica<K, V> {
    /// An empty replica with `width` columns outside the key.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self { rows: BTreeMap::new(), floor: Order::default(), width }
    }

    /// Applies one event of `key`.
    pub fn apply(&mut self, key: K, order: Order, change: Change<V>) -> Verdict {
        let stored = self.rows.get_mut(&key);
        if order <= stored.as_ref().map_or(self.floor, |row| row.order) {
            return Verdict::Guarded;
        }
        match (stored, change) {
            (Some(row), Change::Delete) => (row.order, row.is_deleted) = (order, true),
            (Some(row), Change::Upsert(values)) => {
                for (stored, value) in row.values.iter_mut().zip(values) {
                    if let Value::Sent(value) = value {
                        *stored = value;
                    }
                }
                (row.order, row.is_deleted) = (order, false);
            }
            (None, Change::Delete) => {
                let values = (0..self.width).map(|_| None).collect();
                self.rows.insert(key, Row { order, is_deleted: true, values });
            }
            (None, Change::Upsert(values)) => {
                let sent = values.into_iter().map(|value| match value {
                    Value::Sent(value) => Some(value),
                    Value::Unchanged => None,
                });
                let Some(values) = sent.collect() else { return Verdict::Unresolved };
                self.rows.insert(key, Row { order, is_deleted: false, values });
            }
        }
        Verdict::Merged
    }

    /// Begins a new epoch: the source's LSNs have begun again, so every row is soft-deleted below every order.
    pub fn begin_epoch(&mut self) {
        self.floor = Order::default();
        for row in self.rows.values_mut() {
            (row.order, row.is_deleted) = (Order::default(), true);
        }
    }

    /// Applies a truncate: every older row is soft-deleted, and older events of absent keys are refused from now on.
    pub fn truncate(&mut self, order: Order) {
        self.floor = self.floor.max(order);
        for row in self.rows.values_mut().filter(|row| row.order < order) {
            (row.order, row.is_deleted) = (order, true);
        }
    }

    /// The rows that are not soft-deleted.
    pub fn live(&self) -> impl Iterator<Item = (&K, &[Option<V>])> {
        self.rows.iter().filter(|(_, row)| !row.is_deleted).map(|(key, row)| (key, row.values.as_slice()))
    }
}
