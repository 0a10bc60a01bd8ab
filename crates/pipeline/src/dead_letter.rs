//! [`DeadLetters`]: where records that could not be applied are kept, with their reason.
//!
//! A dead letter is durable before the batch that passes its offset is committed. A crash in between writes it
//! again on the next run: a reader goes by topic, partition and offset.

use change::{Horizon, RecordRef};

use crate::{Fault, TopicPartition};

/// Where dead letters go.
pub trait DeadLetters: Send {
    /// Keeps one letter; it has to be durable only after [`Self::sync`].
    ///
    /// # Errors
    /// [`Fault`] where it cannot be kept.
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault>;

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// [`Fault`] where that cannot be done.
    fn sync(&mut self) -> Result<(), Fault>;
}

/// A record that could not be applied.
#[derive(Debug, Clone, Copy)]
pub struct Letter<'a> {
    /// The table's name.
    pub table: &'a str,
    /// Where the record was read.
    pub partition: &'a TopicPartition,
    /// The record.
    pub record: RecordRef<'a>,
    /// The partition's horizon before the record: what orders it on a later try. A later horizon will not do, as a
    /// snapshot that was taken since would make the record look newer than its rows.
    pub horizon: Horizon,
    /// Why it could not be applied; without a value of a row.
    pub reason: &'a str,
}

/// Only the log, with the reason: for trying things out.
#[derive(Debug, Clone, Copy)]
pub struct LogOnly;

impl DeadLetters for LogOnly {
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault> {
        letter.log();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

impl Letter<'_> {
    pub(crate) fn log(&self) {
        let Self { table, partition, record: RecordRef { offset, .. }, reason, .. } = self;
        tracing::warn!(table, %partition, offset, reason, "dead letter");
    }
}
