//! Where reading stands: [`TopicPartition`], [`Position`] and [`Checkpoint`].

use std::{collections::BTreeMap, fmt, sync::Arc};

use change::Horizon;

use crate::Witness;

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
    /// By what the record before it is known again.
    pub witness: Witness,
}

/// The positions that a replica's commits hold, a partition each.
pub type Checkpoint = BTreeMap<TopicPartition, Position>;

/// Which table it is, and which of the source's LSN spaces its rows are of. Positions belong to an epoch: what was
/// read in another one says nothing about this table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Epoch {
    /// A number that the table got when it was created; 0 where it is not known.
    pub table: i64,
    /// Records whose broker timestamp is below this are of an earlier LSN space; 0 in the first one.
    pub since: i64,
}

/// What a table held when a position was acknowledged. The position is only good for a table that still holds it:
/// one that was deleted or restored to an older version has lost commits that the position counts on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// The table's epoch.
    pub epoch: Epoch,
    /// The offset of the partition's position in the table's commits; 0 where they have none.
    pub checkpoint: i64,
}

/// A position as a consumer group keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// The position.
    pub position: Position,
    /// What the table held then; `None` is a position that does not depend on a table.
    pub mark: Option<Mark>,
}
