//! [`Observer`]: who wants to know how the pipeline is doing.

use std::time::Duration;

use crate::{Counts, Effort, Fault, Records, RowCounts, SourceTimes, TopicPartition};

/// A batch that became durable.
#[derive(Debug, Clone)]
pub struct Flushed<'a> {
    /// The table's name.
    pub table: &'a str,
    /// What became of the batch's records.
    pub counts: Counts,
    /// What became of the table's rows.
    pub rows: RowCounts,
    /// The table version that was written; `None` where no row had an effect.
    pub version: Option<u64>,
    /// From sealing to durable.
    pub took: Duration,
    /// What it took.
    pub effort: &'a Effort,
    /// When its events happened in the source.
    pub times: &'a SourceTimes,
}

/// Is told what happens. Every method may be left out.
pub trait Observer: Send {
    /// Partitions were assigned; so many records lie ahead in them.
    fn assigned(&mut self, _partitions: &[TopicPartition], _ahead: u64) {}
    /// Records were read.
    fn received(&mut self, _records: &Records) {}
    /// Everything that these partitions hold at this moment has been read.
    fn ended(&mut self, _partitions: &[TopicPartition]) {}
    /// The loop has come round; the batches, open and on their way, take so many bytes.
    fn buffered(&mut self, _bytes: usize) {}
    /// A batch became durable.
    fn flushed(&mut self, _flushed: &Flushed<'_>) {}
    /// A table was halted.
    fn halted(&mut self, _table: &str, _fault: &Fault) {}
}

/// Looks away.
impl Observer for () {}

/// Both are told.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn assigned(&mut self, partitions: &[TopicPartition], ahead: u64) {
        self.0.assigned(partitions, ahead);
        self.1.assigned(partitions, ahead);
    }

    fn received(&mut self, records: &Records) {
        self.0.received(records);
        self.1.received(records);
    }

    fn ended(&mut self, partitions: &[TopicPartition]) {
        self.0.ended(partitions);
        self.1.ended(partitions);
    }

    fn buffered(&mut self, bytes: usize) {
        self.0.buffered(bytes);
        self.1.buffered(bytes);
    }

    fn flushed(&mut self, flushed: &Flushed<'_>) {
        self.0.flushed(flushed);
        self.1.flushed(flushed);
    }

    fn halted(&mut self, table: &str, fault: &Fault) {
        self.0.halted(table, fault);
        self.1.halted(table, fault);
    }
}
