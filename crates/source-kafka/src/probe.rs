//! Whether brokers answer and topics exist.

use std::{sync::PoisonError, time::Duration};

use pipeline::{Fault, Remedy};
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use crate::{KafkaSettings, callbacks::Callbacks};

/// How long a broker may take to answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(15);

/// A client that has not joined the group.
pub(crate) fn client(settings: &KafkaSettings) -> Result<BaseConsumer<Callbacks>, Fault> {
    let config = settings.client_config()?;
    config.create_with_context(Callbacks::default()).map_err(|e| Fault::halt(format!("[kafka]: {e}")))
}

/// How many partitions a topic has.
///
/// # Errors
/// A retry where no broker answers, a halt where there is no such topic.
pub(crate) fn partitions(
    client: &BaseConsumer<Callbacks>,
    settings: &KafkaSettings,
    topic: &str,
) -> Result<usize, Fault> {
    let metadata = client.fetch_metadata(Some(topic), ANSWER).map_err(|error| {
        let servers = &settings.bootstrap_servers;
        let last = client.context().last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let cause = if last.is_empty() { error.to_string() } else { last };
        Fault::retry(format!(
            "no Kafka broker answers at {servers}: {cause}; correct [kafka] bootstrap_servers, or the security settings \
             in [kafka.options]"
        ))
    })?;
    match metadata.topics().iter().map(|found| found.partitions().len()).max() {
        Some(partitions) if partitions > 0 => Ok(partitions),
        _ => Err(Fault::halt(format!(
            "topic {topic} does not exist; start the connector, create it, or correct the name"
        ))),
    }
}

/// For each topic, how many partitions it has or why it cannot be read. The first error of the connection ends it.
///
/// # Errors
/// A halt where a setting is wrong.
pub fn probe(settings: &KafkaSettings, topics: &[&str]) -> Result<Vec<Result<usize, Fault>>, Fault> {
    let client = client(settings)?;
    let mut found = Vec::new();
    for topic in topics {
        let partitions = partitions(&client, settings, topic);
        let is_unreachable = partitions.as_ref().is_err_and(|fault| fault.remedy == Remedy::Retry);
        found.push(partitions);
        if is_unreachable {
            break;
        }
    }
    Ok(found)
}
