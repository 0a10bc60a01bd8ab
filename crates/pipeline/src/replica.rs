//! [`Replica`]: where a table's batches go.

use std::future::Future;

use crate::{Batch, Checkpoint, Epoch, Fault, TopicPartition, Work};

/// A table that takes batches.
pub trait Replica: Send + 'static {
    /// The positions of these partitions that the newest version of the table holds, read anew.
    fn checkpoint(&mut self, partitions: &[TopicPartition]) -> impl Future<Output = Result<Checkpoint, Fault>> + Send;

    /// The offset of a partition's position in the version that was read or written last; 0 where it has none.
    fn held(&self, partition: &TopicPartition) -> i64;

    /// The epoch of the version that was read last.
    fn epoch(&self) -> Epoch {
        Epoch::default()
    }

    /// Sets positions to where they are told, also back, in a commit of its own: these records are to be read again.
    fn rewind(&mut self, positions: &Checkpoint) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Applies a batch under the guard. When this returns, the effect and the batch's positions are durable.
    ///
    /// After a fault the same call may be made again: whatever was committed is then guarded.
    fn apply(&mut self, batch: &Batch) -> impl Future<Output = Result<Applied, Fault>> + Send;

    /// What the last call of [`Self::apply`] did, for who watches; taken once.
    fn take_work(&mut self) -> Work {
        Work::default()
    }

    /// Housekeeping between two batches: log checkpoints and clean-up.
    fn maintain(&mut self) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// How a batch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// The table's version that holds the batch.
    Committed {
        /// The new version.
        version: u64,
        /// What became of the rows.
        rows: RowCounts,
    },
    /// No row had an effect, so nothing was written.
    NothingToDo(RowCounts),
    /// Nothing was written: these rows of the batch leave out values that neither it nor the table has.
    Unresolved(Vec<usize>),
}

/// What became of a batch's rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Events that were dropped for a newer one of their key in the batch.
    pub superseded: u64,
    /// Events that the guard refused.
    pub guarded: u64,
    /// Rows that came new into the table.
    pub inserted: u64,
    /// Rows that got new values.
    pub updated: u64,
    /// Rows that were soft-deleted, or came new as soft-deleted.
    pub deleted: u64,
    /// Whether the batch's truncate took effect.
    pub truncated: bool,
    /// Rows that the truncate soft-deleted.
    pub emptied: u64,
}

impl RowCounts {
    /// Events that took effect.
    #[must_use]
    pub fn merged(&self) -> u64 {
        self.inserted + self.updated + self.deleted + u64::from(self.truncated)
    }

    /// Rows of the table that are not what they were.
    #[must_use]
    pub fn changed(&self) -> u64 {
        self.inserted + self.updated + self.deleted + self.emptied
    }
}
