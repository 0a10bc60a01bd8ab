//! [`Source`]: where records come from.

use std::{future::Future, sync::Arc};

use tokio::time::Instant;

use crate::{Acknowledged, Fault, Records, TopicPartition, Witness};

/// What a source has to say. A rebalance is a value here, never a side effect.
#[derive(Debug)]
pub enum Polled {
    /// Records to decode.
    Records(Records),
    /// These partitions are ours from now on; the source waits for [`Source::start`].
    Assigned(Vec<AssignedPartition>),
    /// These partitions are about to leave; the source waits for [`Source::release`].
    Revoked(Vec<TopicPartition>),
    /// Everything that these partitions hold at this moment has been read.
    Ended(Vec<TopicPartition>),
    /// From here on these partitions are read again, from where [`Source::resume`] said.
    Resumed(Vec<TopicPartition>),
    /// What is to be read next of one of these partitions is not in its topic any more; that one is read no further.
    OutOfRange(Vec<AssignedPartition>),
    /// A topic cannot be read any further, and why.
    Broken(Arc<str>, Fault),
    /// Nothing until the deadline.
    Idle,
}

/// A partition that was assigned, and what the source knows of it.
#[derive(Debug, Clone)]
pub struct AssignedPartition {
    /// The partition.
    pub partition: TopicPartition,
    /// What the consumer group acknowledged last.
    pub committed: Option<Acknowledged>,
    /// The earliest offset that can still be read.
    pub low: i64,
    /// The offset after the newest record.
    pub high: i64,
}

/// What stands just before an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// A record.
    Record(Witness),
    /// Nothing that could be compared: it is gone, or was no record.
    Unknown,
    /// Nothing yet: the partition ends before the offset.
    Nowhere,
}

/// A stream of records with positions.
pub trait Source: Send {
    /// Whether held partitions can be read on from an offset.
    const RESUMES: bool = false;

    /// The next thing to deal with, or [`Polled::Idle`] at `deadline`. Dropping the future loses nothing.
    fn poll(&mut self, deadline: Instant) -> impl Future<Output = Result<Polled, Fault>> + Send;

    /// What stands just before each offset, of partitions of one topic that were assigned and not started yet. A source
    /// that cannot tell says [`Before::Unknown`].
    fn before(
        &mut self,
        offsets: Vec<(TopicPartition, i64)>,
    ) -> impl Future<Output = Result<Vec<Before>, Fault>> + Send {
        std::future::ready(Ok(vec![Before::Unknown; offsets.len()]))
    }

    /// Begins to read partitions that were assigned, each at an explicit offset. A partition that was assigned
    /// and is not named stays unread.
    fn start(&mut self, offsets: Vec<(TopicPartition, i64)>) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Lets go of revoked partitions: nothing of theirs is in work any more.
    fn release(&mut self, partitions: Vec<TopicPartition>) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Stops reading a partition, which stays assigned.
    fn hold(&mut self, partition: TopicPartition);

    /// Reads on held partitions, each from an explicit offset; [`Polled::Resumed`] stands before their records.
    fn resume(&mut self, offsets: Vec<(TopicPartition, i64)>) {
        drop(offsets);
    }

    /// Says that everything before these positions is durable. Losing it costs a replay, never data.
    fn acknowledge(&mut self, positions: Vec<(TopicPartition, Acknowledged)>);

    /// Sends what is still to be acknowledged, and leaves.
    fn close(self) -> impl Future<Output = ()> + Send;
}
