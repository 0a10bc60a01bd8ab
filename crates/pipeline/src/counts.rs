//! [`Counts`]: the account of every record.

use std::ops::AddAssign;

use crate::RowCounts;

/// Records by what became of them. `received` is the sum of the five below it; a record counts when its batch is
/// durable, so that one that was read twice because of a crash counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All records.
    pub received: u64,
    /// Events that took effect.
    pub merged: u64,
    /// Events that were dropped for a newer one of their key in the batch.
    pub superseded: u64,
    /// Events that the guard refused.
    pub guarded: u64,
    /// Tombstones, heartbeats, transaction markers, logical messages.
    pub no_change: u64,
    /// Records that went to the dead letters.
    pub dead_lettered: u64,
    /// Rows of the table that changed.
    pub rows_changed: u64,
    /// Values that did not fit their column and became null, as configured.
    pub nulled: u64,
}

impl Counts {
    /// Adds what a replica says of the rows.
    pub fn add_rows(&mut self, rows: &RowCounts) {
        self.merged += rows.merged();
        self.superseded += rows.superseded;
        self.guarded += rows.guarded;
        self.rows_changed += rows.changed();
    }

    /// Whether every received record is accounted for.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.received == self.merged + self.superseded + self.guarded + self.no_change + self.dead_lettered
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.merged += other.merged;
        self.superseded += other.superseded;
        self.guarded += other.guarded;
        self.no_change += other.no_change;
        self.dead_lettered += other.dead_lettered;
        self.rows_changed += other.rows_changed;
        self.nulled += other.nulled;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "received={} merged={} superseded={} guarded={} no_change={} dead_lettered={} nulled={} rows_changed={}",
            self.received,
            self.merged,
            self.superseded,
            self.guarded,
            self.no_change,
            self.dead_lettered,
            self.nulled,
            self.rows_changed
        )
    }
}
