//! [`KafkaSource`]: the pipeline's end of the consumer's thread.

use std::{
    sync::mpsc,
    thread::{self, JoinHandle},
};

use pipeline::{Acknowledged, Before, Fault, Polled, Source, TopicPartition};
use tokio::{
    sync::mpsc as async_mpsc,
    time::{Duration, Instant, timeout, timeout_at},
};

use crate::{KafkaSettings, command::Command, consumer::Consumer, peek};

/// Blocks that wait between the consumer and the pipeline: one is decoded, one is ready, one is being filled.
const BLOCKS_WAITING: usize = 2;

/// So long may the brokers take to hear that a member commits its last offsets and leaves. Not to wait longer costs a
/// replay, and a stop is promised within ten seconds.
const LEAVE: Duration = Duration::from_secs(3);

/// A member of a consumer group.
#[derive(Debug)]
pub struct KafkaSource {
    settings: KafkaSettings,
    commands: mpsc::Sender<Command>,
    polled: async_mpsc::Receiver<Result<Polled, Fault>>,
    thread: JoinHandle<()>,
}

impl KafkaSource {
    /// Joins the group and subscribes to `topics`.
    ///
    /// # Errors
    /// A retry where no broker answers, a halt where a setting is wrong or a topic does not exist.
    pub fn subscribe(settings: &KafkaSettings, topics: &[impl AsRef<str>]) -> Result<Self, Fault> {
        let topics: Vec<_> = topics.iter().map(AsRef::as_ref).collect();
        let (commands, received) = mpsc::channel();
        let (send, polled) = async_mpsc::channel(BLOCKS_WAITING);
        let consumer = Consumer::subscribe(settings, &topics, received, send)?;
        let thread = thread::Builder::new().name("kafka-consumer".to_owned()).spawn(move || consumer.run());
        Ok(Self { settings: settings.clone(), commands, polled, thread: thread.map_err(Fault::halt)? })
    }

    fn tell(&self, command: Command) -> Result<(), Fault> {
        self.commands.send(command).map_err(|_| Fault::halt("the Kafka consumer has ended"))
    }
}

impl Source for KafkaSource {
    const RESUMES: bool = true;

    async fn poll(&mut self, deadline: Instant) -> Result<Polled, Fault> {
        match timeout_at(deadline, self.polled.recv()).await {
            Ok(Some(polled)) => polled,
            Ok(None) => Err(Fault::halt("the Kafka consumer has ended")),
            Err(_) => Ok(Polled::Idle),
        }
    }

    async fn before(&mut self, offsets: Vec<(TopicPartition, i64)>) -> Result<Vec<Before>, Fault> {
        let settings = self.settings.clone();
        // the client waits for the brokers on this thread
        let peek = tokio::task::spawn_blocking(move || peek::look(&settings, &offsets));
        peek.await.map_err(|e| Fault::halt(format!("reading the last known records ended abnormally: {e}")))?
    }

    async fn start(&mut self, offsets: Vec<(TopicPartition, i64)>) -> Result<(), Fault> {
        self.tell(Command::Start(offsets))
    }

    async fn release(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Fault> {
        self.tell(Command::Release(partitions))
    }

    fn hold(&mut self, partition: TopicPartition) {
        // without a consumer there is nothing to hold
        _ = self.tell(Command::Hold(partition));
    }

    fn resume(&mut self, offsets: Vec<(TopicPartition, i64)>) {
        _ = self.tell(Command::Resume(offsets));
    }

    fn acknowledge(&mut self, positions: Vec<(TopicPartition, Acknowledged)>) {
        // losing it costs a replay
        _ = self.tell(Command::Acknowledge(positions));
    }

    async fn close(mut self) {
        _ = self.tell(Command::Close);
        self.polled.close();
        let left = tokio::task::spawn_blocking(move || self.thread.join());
        if timeout(LEAVE, left).await.is_err() {
            tracing::warn!(
                "the brokers did not answer in time; the group gives the partitions away when the session expires"
            );
        }
    }
}
