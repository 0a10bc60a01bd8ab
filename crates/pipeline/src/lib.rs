//! The engine of Highwater: from records to durable batches.
//!
//! A [`Source`] hands out [`Records`]; [`format`] and the loop in [`run`] decode them into one open batch a table ([`buffer`]),
//! and [`flush`] gives a sealed batch to the table's [`Replica`] while the next one is being read. When the
//! replica's commit is durable, the batch's positions are acknowledged to the source, never before. Everything
//! that can go wrong carries its [`Remedy`], and `flush` is the one place that acts on it.

mod aside;
pub mod backoff;
pub mod blocks;
pub mod buffer;
pub mod counts;
pub mod dead_letter;
pub mod effort;
pub mod fault;
mod fetch;
pub mod flush;
pub mod format;
mod launch;
pub mod letter_file;
pub mod letters;
mod mix;
pub mod observer;
pub mod position;
pub mod read_back;
mod rebalance;
pub mod records;
pub mod replica;
pub mod run;
pub mod source;
pub mod start;
pub mod summary;
pub mod table;
pub mod times;
mod unresolved;
pub mod witness;

pub use backoff::Backoff;
pub use blocks::{Block, Blocks};
pub use buffer::{Batch, BatchLimits};
pub use counts::Counts;
pub use dead_letter::{DeadLetters, Letter, LogOnly};
pub use effort::{Effort, Work};
pub use fault::{Fault, Remedy};
pub use format::{Format, Read, Reading, Schemas};
pub use letter_file::{LetterFile, LetterLine};
pub use letters::{Letters, Place, Refused};
pub use observer::{Flushed, Observer};
pub use position::{Acknowledged, Checkpoint, Epoch, Mark, Position, TopicPartition};
pub use read_back::ReadBack;
pub use records::{Part, Records};
pub use replica::{Applied, Replica, RowCounts};
pub use run::{Pipeline, Settings};
pub use source::{AssignedPartition, Before, Polled, Source};
pub use start::{Accept, StartAt};
pub use summary::{Ending, Summary};
pub use table::{OnError, Table};
pub use times::SourceTimes;
pub use witness::Witness;

#[cfg(test)]
mod tests;
