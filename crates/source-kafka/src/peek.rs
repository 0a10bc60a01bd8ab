//! What stands before single offsets, read by a client of its own that is no member of the group.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use change::RecordRef;
use pipeline::{Before, Fault, TopicPartition, Witness};
use rdkafka::{
    Message,
    consumer::Consumer as _,
    error::{KafkaError, RDKafkaErrorCode},
    message::Headers as _,
};

use crate::{
    KafkaSettings, group,
    probe::{self, ANSWER},
};

const POLL: Duration = Duration::from_millis(100);
/// Debezium's header on the create that stands for a row under its new key.
const OLD_KEY: &str = "__debezium.oldkey";

/// What stands just before each offset, of partitions of one topic.
///
/// # Errors
/// A retry where the brokers do not answer.
pub(crate) fn look(settings: &KafkaSettings, offsets: &[(TopicPartition, i64)]) -> Result<Vec<Before>, Fault> {
    let failed = |error: &dyn std::fmt::Display| Fault::retry(format!("reading the last known records: {error}"));
    // one record of each is wanted, not all that follows
    let mut settings = settings.clone();
    settings.options.insert("fetch.message.max.bytes".to_owned(), "1024".to_owned());
    let client = probe::client(&settings)?;
    let wanted: Vec<_> = offsets.iter().map(|(partition, offset)| (partition.clone(), offset - 1)).collect();
    client.assign(&group::list_at(&wanted).map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;

    let mut open: HashMap<TopicPartition, i64> = wanted.iter().cloned().collect();
    let mut found = HashMap::new();
    let began = Instant::now();
    while !open.is_empty() {
        if began.elapsed() > ANSWER {
            return Err(failed(&"no answer"));
        }
        match client.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                let partition = TopicPartition::new(message.topic(), message.partition());
                if open.remove(&partition) == Some(message.offset()) {
                    // or it would go on to fetch, ahead of those that are still wanted
                    client.pause(&group::list(std::slice::from_ref(&partition))).map_err(|e| failed(&e))?;
                    found.insert(partition, Before::Record(Witness::of(&record(&message))));
                }
            }
            // the end was reached without a record, or retention was here in the meantime; only a number is named, or
            // not even that, so the ranges have to tell
            Some(Err(error)) if is_out_of_range(&error) || matches!(error, KafkaError::PartitionEOF(_)) => {
                let mut left = HashMap::new();
                for (partition, wanted) in open {
                    let range = client.fetch_watermarks(&partition.topic, partition.partition, ANSWER);
                    let (low, high) = range.map_err(|e| failed(&e))?;
                    let is_end = matches!(error, KafkaError::PartitionEOF(number) if number == partition.partition);
                    if wanted >= high {
                        found.insert(partition, Before::Nowhere);
                    } else if wanted >= low && !is_end {
                        left.insert(partition, wanted);
                    }
                }
                open = left;
            }
            Some(Err(error)) => return Err(failed(&error)),
        }
    }
    Ok(offsets.iter().map(|(partition, _)| found.get(partition).copied().unwrap_or(Before::Unknown)).collect())
}

/// The offset to read next is not in the topic.
pub(crate) fn is_out_of_range(error: &KafkaError) -> bool {
    let code = error.rdkafka_error_code();
    matches!(code, Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange))
}

/// A message of librdkafka's, as ours.
pub(crate) fn record(message: &impl Message) -> RecordRef<'_> {
    RecordRef {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key(),
        value: message.payload(),
        timestamp: message.timestamp().to_millis(),
        old_key: old_key(message),
    }
}

/// What the row's key was before it was changed, where the connector says so.
fn old_key(message: &impl Message) -> Option<&[u8]> {
    message.headers()?.iter().find(|header| header.key == OLD_KEY)?.value
}
