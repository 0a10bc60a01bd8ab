//! How far topics go, and how far the group has come in them.

use pipeline::{Fault, TopicPartition};
use rdkafka::{
    Offset,
    consumer::{BaseConsumer, Consumer as _},
};

use crate::{
    KafkaSettings,
    callbacks::Callbacks,
    group,
    probe::{self, ANSWER},
};

/// A topic, looked at by a client that is no member of the group.
pub struct TopicEnds {
    client: BaseConsumer<Callbacks>,
    partitions: Vec<TopicPartition>,
}

/// Where a partition ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionEnd {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset that its next record gets; `None` where it holds no record.
    pub end: Option<i64>,
    /// The offset that the group has committed, if it has one.
    pub committed: Option<i64>,
}

impl TopicEnds {
    /// A client for a topic.
    ///
    /// # Errors
    /// A retry where the brokers do not answer, a halt where a setting is wrong or the topic does not exist.
    pub fn new(settings: &KafkaSettings, topic: &str) -> Result<Self, Fault> {
        let client = probe::client(settings)?;
        let count = i32::try_from(probe::partitions(&client, settings, topic)?).unwrap_or(i32::MAX);
        Ok(Self { client, partitions: (0..count).map(|number| TopicPartition::new(topic, number)).collect() })
    }

    /// Its partitions.
    #[must_use]
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.partitions
    }

    /// Where its partitions end now.
    ///
    /// # Errors
    /// A retry where the brokers do not answer.
    pub fn now(&self) -> Result<Vec<PartitionEnd>, Fault> {
        let failed = |error: &dyn std::fmt::Display| Fault::retry(format!("asking where the topic ends: {error}"));
        let list = self.client.committed_offsets(group::list(&self.partitions), ANSWER).map_err(|e| failed(&e))?;
        let end = |partition: &TopicPartition| {
            let range = self.client.fetch_watermarks(&partition.topic, partition.partition, ANSWER);
            let (low, high) = range.map_err(|e| failed(&e))?;
            let committed = list.find_partition(&partition.topic, partition.partition);
            let committed = committed.and_then(|element| match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            });
            Ok(PartitionEnd { partition: partition.clone(), end: (low < high).then_some(high), committed })
        };
        self.partitions.iter().map(end).collect()
    }
}

impl std::fmt::Debug for TopicEnds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TopicEnds").field("partitions", &self.partitions).finish_non_exhaustive()
    }
}
