//! Questions to a Kafka broker, and the few orders that a test gives it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::groups::GroupInfo;
use rdkafka::message::Message;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

const TIMEOUT: Duration = Duration::from_secs(15);

/// A broker's address.
#[derive(Clone, Debug)]
pub struct Broker {
    /// `host:port`.
    pub bootstrap: String,
}

/// One record, as it lies in the topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// From 0.
    pub partition: usize,
    /// Position in the partition.
    pub offset: i64,
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes; None is a tombstone.
    pub value: Option<Vec<u8>>,
}

impl Broker {
    pub(crate) fn new(bootstrap: String) -> Self {
        Self { bootstrap }
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("broker.address.family", "v4");
        config
    }

    /// A consumer that is no member of any group; it may ask for `group`'s offsets.
    pub fn reader(&self, group: &str) -> Result<BaseConsumer> {
        let mut config = self.config();
        config.set("group.id", group).set("enable.auto.commit", "false").set("enable.partition.eof", "true");
        config.set("fetch.wait.max.ms", "50").set("auto.offset.reset", "error");
        Ok(config.create()?)
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(self.config().create()?)
    }

    /// Names of all topics.
    pub fn topics(&self) -> Result<Vec<String>> {
        let metadata = self.reader("tests")?.fetch_metadata(None, Duration::from_secs(5))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    /// Makes a topic and waits until its partitions have leaders.
    pub fn create_topic(&self, topic: &str, partitions: usize) -> Result<()> {
        let new = NewTopic::new(topic, number(partitions), TopicReplication::Fixed(1));
        for made in block_on(self.admin()?.create_topics([&new], &AdminOptions::new()))? {
            if let Err((topic, code)) = made {
                bail!("can't create topic {topic}: {code}");
            }
        }
        let found = self.bounds(topic)?.len();
        ensure!(found == partitions, "topic {topic} has {found} partitions, {partitions} were asked for");
        Ok(())
    }

    /// Lets the broker compress what comes into a topic, for a test that writes a great deal.
    pub fn compress(&self, topic: &str) -> Result<()> {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("compression.type", "lz4");
        for changed in block_on(self.admin()?.alter_configs([&change], &AdminOptions::new()))? {
            changed.map_err(|(_, code)| anyhow!("can't compress topic {topic}: {code}"))?;
        }
        Ok(())
    }

    /// Removes a topic; its records are gone some time later.
    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        block_on(self.admin()?.delete_topics(&[topic], &AdminOptions::new()))?;
        Ok(())
    }

    /// Removes a partition's records below `before`.
    pub fn delete_records(&self, topic: &str, partition: usize, before: i64) -> Result<()> {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(topic, number(partition), Offset::Offset(before))?;
        block_on(self.admin()?.delete_records(&offsets, &AdminOptions::new()))?;
        Ok(())
    }

    /// First kept and next offset of each partition. Right after a broker's restart its partitions have no leader for a moment: waits.
    pub fn bounds(&self, topic: &str) -> Result<Vec<(i64, i64)>> {
        let start = Instant::now();
        loop {
            match self.try_bounds(topic) {
                Err(_) if start.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(100)),
                answer => return answer,
            }
        }
    }

    fn try_bounds(&self, topic: &str) -> Result<Vec<(i64, i64)>> {
        let reader = self.reader("tests")?;
        let metadata = reader.fetch_metadata(Some(topic), TIMEOUT)?;
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        ensure!(partitions > 0, "no topic {topic}");
        (0..partitions).map(|p| Ok(reader.fetch_watermarks(topic, number(p), TIMEOUT)?)).collect()
    }

    /// The next offset of each partition.
    pub fn end_offsets(&self, topic: &str) -> Result<Vec<i64>> {
        Ok(self.bounds(topic)?.into_iter().map(|(_, end)| end).collect())
    }

    /// How many records lie in the topic.
    pub fn count(&self, topic: &str) -> Result<i64> {
        Ok(self.bounds(topic)?.into_iter().map(|(start, end)| end - start).sum())
    }

    /// The offset that `group` has committed, for each partition.
    pub fn committed(&self, group: &str, topic: &str) -> Result<Vec<Option<i64>>> {
        committed(&self.reader(group)?, topic, self.bounds(topic)?.len())
    }

    /// Members of a consumer group that own partitions.
    pub fn members(&self, group: &str) -> Result<usize> {
        let groups = self.reader("tests")?.fetch_group_list(Some(group), TIMEOUT)?;
        let members = groups.groups().iter().flat_map(GroupInfo::members);
        // An assignment without topics is at most: version, empty array, no user data (2 + 4 + 4 bytes).
        Ok(members.filter(|member| member.assignment().is_some_and(|bytes| bytes.len() > 10)).count())
    }

    /// How a consumer group assigns partitions, by the strategy's name; empty where the broker does it.
    pub fn protocol(&self, group: &str) -> Result<String> {
        let groups = self.reader("tests")?.fetch_group_list(Some(group), TIMEOUT)?;
        Ok(groups.groups().first().map(|group| group.protocol().to_owned()).unwrap_or_default())
    }

    /// The topic's records from the given offset of each partition (all: from the first kept) to the end at this moment, in the
    /// order of arrival of each partition.
    pub fn read(&self, topic: &str, from: Option<&[i64]>) -> Result<Vec<Record>> {
        let bounds = self.bounds(topic)?;
        let mut open = vec![false; bounds.len()];
        let mut start = TopicPartitionList::new();
        for (partition, (first, end)) in bounds.iter().enumerate() {
            let first = from.and_then(|from| from.get(partition)).unwrap_or(first);
            if first < end {
                start.add_partition_offset(topic, number(partition), Offset::Offset(*first))?;
                open[partition] = true;
            }
        }
        let reader = self.reader("tests")?;
        reader.assign(&start)?;
        let mut records = Vec::new();
        while open.contains(&true) {
            let message = match reader.poll(TIMEOUT).with_context(|| format!("topic {topic} gave no record"))? {
                // The last offsets of a transaction are no records, so the end may come earlier.
                Err(KafkaError::PartitionEOF(partition)) => {
                    open[index(partition)] = false;
                    continue;
                }
                message => message?,
            };
            let (partition, offset) = (index(message.partition()), message.offset());
            let end = bounds[partition].1;
            if offset < end {
                let bytes = |b: Option<&[u8]>| b.map(<[u8]>::to_vec);
                records.push(Record { partition, offset, key: bytes(message.key()), value: bytes(message.payload()) });
            }
            open[partition] &= offset + 1 < end;
        }
        records.sort_by_key(|record| (record.partition, record.offset));
        Ok(records)
    }

    /// Writes many records, each to the partition that its key's hash gives.
    pub fn produce_all<'a>(&self, topic: &str, records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        let producer: BaseProducer = self.config().set("compression.type", "lz4").set("linger.ms", "5").create()?;
        for (key, value) in records {
            let mut record = BaseRecord::to(topic).key(key).payload(value);
            while let Err((error, returned)) = producer.send(record) {
                ensure!(error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull), error);
                producer.poll(Duration::from_millis(10));
                record = returned;
            }
        }
        Ok(producer.flush(TIMEOUT)?)
    }

    /// Writes one record to a partition, as it is.
    pub fn produce(&self, topic: &str, partition: usize, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<()> {
        let producer: BaseProducer = self.config().set("message.max.bytes", "52428800").create()?;
        let mut record = BaseRecord::to(topic).partition(number(partition));
        record.key = key;
        record.payload = value;
        producer.send(record).map_err(|(error, _)| error)?;
        Ok(producer.flush(TIMEOUT)?)
    }
}

/// The offsets that the reader's group has committed.
pub fn committed(reader: &BaseConsumer, topic: &str, partitions: usize) -> Result<Vec<Option<i64>>> {
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, number(partitions) - 1);
    let committed = reader.committed_offsets(list, TIMEOUT)?;
    let offset = |partition: usize| match committed.find_partition(topic, number(partition))?.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    };
    Ok((0..partitions).map(offset).collect())
}

/// A partition as the client library counts it.
fn number(partition: usize) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

/// A partition as an index.
fn index(partition: i32) -> usize {
    usize::try_from(partition).unwrap_or(usize::MAX)
}
