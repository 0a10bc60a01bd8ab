//! Where reading stands: [`TopicPartition`], [`Position`] and [`Checkpoint`].

use std::{collections::BTreeMap, fmt, sync::Arc};

use change::Horizon;

/// A partition of a Kafka topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// A resume point of one partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The next offset to read.
    pub offset: i64,
    /// What has to be known of the records before it, to order those after it.
    pub horizon: Horizon,
}

/// The positions that a replica's commits hold, a partition each.
pub type Checkpoint = BTreeMap<TopicPartition, Position>;
