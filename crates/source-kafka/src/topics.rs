//! Which topics there are, and what their records look like.

use std::time::{Duration, Instant};

use pipeline::Fault;
use rdkafka::{Message as _, Offset, TopicPartitionList, consumer::Consumer as _, error::KafkaError};

use crate::{
    KafkaSettings,
    probe::{self, ANSWER},
};

const POLL: Duration = Duration::from_millis(100);

/// The names of all topics, Kafka's own apart.
///
/// # Errors
/// A retry where the brokers do not answer, a halt where a setting is wrong.
pub fn topics(settings: &KafkaSettings) -> Result<Vec<String>, Fault> {
    let client = probe::client(settings)?;
    let metadata = client.fetch_metadata(None, ANSWER).map_err(|e| Fault::retry(format!("listing the topics: {e}")))?;
    let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
    Ok(names.filter(|name| !name.starts_with("__")).collect())
}

/// What `read` makes of the key and the value of a record of this topic, the first in some partition that has both; `None`
/// where there is none yet.
///
/// # Errors
/// A retry where the brokers do not answer, a halt where a setting is wrong or the topic does not exist.
pub fn first_record<T>(
    settings: &KafkaSettings,
    topic: &str,
    read: impl FnOnce(&[u8], &[u8]) -> T,
) -> Result<Option<T>, Fault> {
    let failed = |error: &KafkaError| Fault::retry(format!("reading topic {topic}: {error}"));
    let client = probe::client(settings)?;
    let count = i32::try_from(probe::partitions(&client, settings, topic)?).unwrap_or(i32::MAX);
    let mut list = TopicPartitionList::new();
    for partition in 0..count {
        let (low, high) = client.fetch_watermarks(topic, partition, ANSWER).map_err(|e| failed(&e))?;
        if low < high {
            list.add_partition_offset(topic, partition, Offset::Offset(low)).map_err(|e| failed(&e))?;
        }
    }
    let (mut open, began) = (list.count(), Instant::now());
    client.assign(&list).map_err(|e| failed(&e))?;
    while open > 0 {
        if began.elapsed() > ANSWER {
            return Err(Fault::retry(format!("reading topic {topic}: no answer")));
        }
        match client.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                if let (Some(key), Some(value)) = (message.key(), message.payload()) {
                    return Ok(Some(read(key, value)));
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => return Err(failed(&error)),
        }
    }
    Ok(None)
}
