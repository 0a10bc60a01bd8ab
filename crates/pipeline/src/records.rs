//! [`Records`]: a block of undecoded records in one allocation.

use std::ops::Range;

use change::RecordRef;

use crate::TopicPartition;

/// Records in the order in which they were read, of any number of partitions.
#[derive(Debug, Default)]
pub struct Records {
    partitions: Vec<TopicPartition>,
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    partition: usize,
    offset: i64,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    timestamp: Option<i64>,
    old_key: Option<Range<usize>>,
}

impl Records {
    /// Copies one record in. `topic` is compared with those before it, so that a name is stored once.
    pub fn push(&mut self, topic: &str, record: RecordRef<'_>) {
        let RecordRef { partition, offset, key, value, timestamp, old_key } = record;
        let same = |tp: &TopicPartition| tp.partition == partition && *tp.topic == *topic;
        let index = self.partitions.iter().rposition(same).unwrap_or_else(|| {
            self.partitions.push(TopicPartition::new(topic, partition));
            self.partitions.len() - 1
        });
        let mut store = |bytes: &[u8]| {
            let start = self.arena.len();
            self.arena.extend_from_slice(bytes);
            start..self.arena.len()
        };
        let (key, value, old_key) = (key.map(&mut store), value.map(&mut store), old_key.map(&mut store));
        self.entries.push(Entry { partition: index, offset, key, value, timestamp, old_key });
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The partitions that the records are of.
    #[must_use]
    pub fn partitions(&self) -> &[TopicPartition] {
        &self.partitions
    }

    /// The bytes of all keys and values, old keys among them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.len()
    }

    /// The record at `index`, if there is one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<(&TopicPartition, RecordRef<'_>)> {
        let entry = self.entries.get(index)?;
        let partition = &self.partitions[entry.partition];
        let slice = |range: &Range<usize>| &self.arena[range.clone()];
        let record = RecordRef {
            partition: partition.partition,
            offset: entry.offset,
            key: entry.key.as_ref().map(slice),
            value: entry.value.as_ref().map(slice),
            timestamp: entry.timestamp,
            old_key: entry.old_key.as_ref().map(slice),
        };
        Some((partition, record))
    }
}
