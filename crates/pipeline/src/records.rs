//! [`Records`]: a block of undecoded records in one allocation.

use std::ops::Range;

use change::RecordRef;

use crate::TopicPartition;

/// Records in the order in which they were read, of any number of partitions.
#[derive(Debug, Default)]
pub struct Records {
    partitions: Vec<Part>,
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

/// The records of a partition in a block.
#[derive(Debug)]
pub struct Part {
    /// The partition.
    pub partition: TopicPartition,
    /// How many they are.
    pub records: u64,
    /// The bytes of their keys and values, old keys among them.
    pub bytes: u64,
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
        let same = |part: &Part| part.partition.partition == partition && *part.partition.topic == *topic;
        let index = self.partitions.iter().rposition(same).unwrap_or_else(|| {
            let partition = TopicPartition::new(topic, partition);
            self.partitions.push(Part { partition, records: 0, bytes: 0 });
            self.partitions.len() - 1
        });
        let before = self.arena.len();
        let mut store = |bytes: &[u8]| {
            let start = self.arena.len();
            self.arena.extend_from_slice(bytes);
            start..self.arena.len()
        };
        let (key, value, old_key) = (key.map(&mut store), value.map(&mut store), old_key.map(&mut store));
        self.partitions[index].records += 1;
        self.partitions[index].bytes += (self.arena.len() - before) as u64;
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

    /// The partitions that the records are of, each with how many.
    #[must_use]
    pub fn partitions(&self) -> &[Part] {
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
        let partition = &self.partitions[entry.partition].partition;
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
