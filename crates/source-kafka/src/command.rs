//! [`Command`]: what the pipeline tells the consumer's thread.

use pipeline::{Acknowledged, TopicPartition};

/// What the pipeline tells the consumer.
#[derive(Debug)]
pub(crate) enum Command {
    Start(Vec<(TopicPartition, i64)>),
    Release(Vec<TopicPartition>),
    Hold(TopicPartition),
    Resume(Vec<(TopicPartition, i64)>),
    Acknowledge(Vec<(TopicPartition, Acknowledged)>),
    Close,
}
