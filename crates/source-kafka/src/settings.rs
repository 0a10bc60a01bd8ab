//! [`KafkaSettings`]: how to reach the brokers, and what of librdkafka is ours to decide.

use std::collections::BTreeMap;

use pipeline::Fault;
use rdkafka::ClientConfig;

/// The connection and the consumer group.
#[derive(Debug, Clone)]
pub struct KafkaSettings {
    /// `host:port` of one or more brokers, with commas in between.
    pub bootstrap_servers: String,
    /// The consumer group.
    pub group: String,
    /// Whether acknowledged positions are committed to the group. A replay does not.
    pub commits: bool,
    /// Any other setting of librdkafka, by its own name (its CONFIGURATION.md).
    pub options: BTreeMap<String, String>,
}

/// Settings that the promises rest on.
const OURS: [(&str, &str); 5] = [
    // offsets are committed after the Delta commit, by hand
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    // an offset out of range is a gap to report, never a place to jump from
    ("auto.offset.reset", "error"),
    // how a run knows that it is caught up, also behind transaction markers
    ("enable.partition.eof", "true"),
    // rows of aborted transactions are no rows
    ("isolation.level", "read_committed"),
];

/// Defaults that a config may override.
const DEFAULTS: [(&str, &str); 4] = [
    // a member that joins or leaves takes only its own partitions
    ("partition.assignment.strategy", "cooperative-sticky"),
    // what librdkafka reads ahead of the pipeline, in all: a quarter of a batch's 64 MiB keeps the decoder busy
    ("queued.max.messages.kbytes", "16384"),
    // a row of 20 MB is a row; the default of 1 MiB would need one more fetch for each larger one
    ("fetch.message.max.bytes", "33554432"),
    ("client.id", "highwater"),
];

impl KafkaSettings {
    /// librdkafka's configuration.
    ///
    /// # Errors
    /// A halt that names every option that may not be set.
    pub fn client_config(&self) -> Result<ClientConfig, Fault> {
        let fixed = OURS.iter().map(|(name, _)| *name).chain(["group.id", "bootstrap.servers"]);
        let taken: Vec<_> = fixed.filter(|name| self.options.contains_key(*name)).collect();
        if !taken.is_empty() {
            return Err(Fault::halt(format!(
                "[kafka.options]: {} cannot be set: Highwater decides it",
                taken.join(", ")
            )));
        }
        let mut config = ClientConfig::new();
        for (name, value) in DEFAULTS.into_iter().chain(OURS) {
            config.set(name, value);
        }
        // under this protocol the broker assigns, and librdkafka refuses a client that names a strategy
        if self.options.get("group.protocol").is_some_and(|protocol| protocol.eq_ignore_ascii_case("consumer")) {
            config.remove("partition.assignment.strategy");
        }
        for (name, value) in &self.options {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.bootstrap_servers).set("group.id", &self.group);
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_promises_rest_on_cannot_be_overridden() {
        let mut settings = KafkaSettings {
            bootstrap_servers: "localhost:9092".into(),
            group: "g".into(),
            commits: true,
            options: [("session.timeout.ms".to_owned(), "9000".to_owned())].into(),
        };
        let config = settings.client_config().unwrap();
        assert_eq!(config.get("session.timeout.ms"), Some("9000"));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!(config.get("partition.assignment.strategy"), Some("cooperative-sticky"));
        settings.options.insert("group.protocol".into(), "consumer".into());
        assert_eq!(settings.client_config().unwrap().get("partition.assignment.strategy"), None);
        settings.options.insert("auto.offset.reset".into(), "latest".into());
        settings.options.insert("enable.auto.commit".into(), "true".into());
        let message = settings.client_config().unwrap_err().message;
        assert!(message.contains("enable.auto.commit, auto.offset.reset cannot be set"), "{message}");
    }
}
