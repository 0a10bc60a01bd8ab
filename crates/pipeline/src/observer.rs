//! [`Observer`]: who wants to know how the pipeline is doing.

use std::time::Duration;

use crate::{Counts, Fault, TopicPartition};

/// A batch that became durable.
#[derive(Debug, Clone)]
pub struct Flushed<'a> {
    /// The table's name.
    pub table: &'a str,
    /// What became of the batch's records.
    pub counts: Counts,
    /// The table version that was written; `None` where no row had an effect.
    pub version: Option<u64>,
    /// From sealing to durable.
    pub took: Duration,
}

/// Is told what happens. Every method may be left out.
pub trait Observer: Send {
    /// Partitions were assigned; so many records lie ahead in them.
    fn assigned(&mut self, _partitions: &[TopicPartition], _ahead: u64) {}
    /// So many records were read.
    fn received(&mut self, _records: u64) {}
    /// The batches, open and on their way, take so many bytes.
    fn buffered(&mut self, _bytes: usize) {}
    /// A batch became durable.
    fn flushed(&mut self, _flushed: &Flushed<'_>) {}
    /// A table was halted.
    fn halted(&mut self, _table: &str, _fault: &Fault) {}
}

/// Looks away.
impl Observer for () {}
