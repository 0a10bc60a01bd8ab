//! The witnesses of single records, read by a client of its own that is no member of the group.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use change::RecordRef;
use pipeline::{Fault, Remedy, TopicPartition, Witness};
use rdkafka::{
    Message,
    consumer::Consumer as _,
    error::{KafkaError, RDKafkaErrorCode},
};

use crate::{KafkaSettings, group, probe};

/// How long the brokers may take to answer for all records.
const ANSWER: Duration = Duration::from_secs(15);
const TRIES: u64 = 5;
const POLL: Duration = Duration::from_millis(100);

/// As [`witnesses`]; a broker that moves or restarts answers the second or third time.
pub(crate) fn patiently(
    settings: &KafkaSettings,
    before: &[(TopicPartition, i64)],
) -> Result<Vec<Option<Witness>>, Fault> {
    let mut tries = 1;
    loop {
        match witnesses(settings, before) {
            Err(fault) if tries < TRIES && fault.remedy == Remedy::Retry => {
                tracing::warn!("will ask again: {fault}");
                std::thread::sleep(Duration::from_secs(tries));
                tries += 1;
            }
            answered => return answered,
        }
    }
}

/// The witness of the record just before each offset, of partitions of one topic; `None` where no record stands there, as after a compaction or
/// at the marker of a transaction.
///
/// # Errors
/// A retry where the brokers do not answer.
fn witnesses(settings: &KafkaSettings, before: &[(TopicPartition, i64)]) -> Result<Vec<Option<Witness>>, Fault> {
    let failed = |error: &dyn std::fmt::Display| Fault::retry(format!("reading the last known records: {error}"));
    // one record of each is wanted, not all that follows
    let mut settings = settings.clone();
    settings.options.insert("fetch.message.max.bytes".to_owned(), "1024".to_owned());
    settings.options.insert("queued.min.messages".to_owned(), "1".to_owned());
    let client = probe::client(&settings)?;
    let wanted: Vec<_> = before.iter().map(|(partition, offset)| (partition.clone(), offset - 1)).collect();
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
                    found.insert(partition, Witness::of(&record(&message)));
                }
            }
            // only the number is named, which is enough within a topic
            Some(Err(KafkaError::PartitionEOF(partition))) => open.retain(|tp, _| tp.partition != partition),
            // retention was here in the meantime
            Some(Err(error)) if is_out_of_range(&error) => open.retain(|tp, wanted| {
                let range = client.fetch_watermarks(&tp.topic, tp.partition, ANSWER);
                range.is_ok_and(|(low, high)| (low..high).contains(wanted))
            }),
            Some(Err(error)) => return Err(failed(&error)),
        }
    }
    Ok(before.iter().map(|(partition, _)| found.get(partition).copied()).collect())
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
    }
}
