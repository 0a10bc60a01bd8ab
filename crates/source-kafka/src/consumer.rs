//! [`Consumer`]: librdkafka's consumer on a thread of its own.
//!
//! librdkafka calls back from inside `poll`; the callbacks only queue what they were told. An assignment is answered
//! when the pipeline has named the offsets, a revocation when it has let go, and polling goes on meanwhile.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{MutexGuard, PoisonError, atomic::Ordering, mpsc},
    thread,
    time::{Duration, Instant},
};

use pipeline::{Acknowledged, AssignedPartition, Fault, Polled, Records, TopicPartition};
use rdkafka::{
    Message, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _, RebalanceProtocol},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
};
use tokio::sync::mpsc as async_mpsc;

use crate::{
    KafkaSettings,
    callbacks::{Callbacks, Rebalanced},
    command::Command,
    group, peek,
    probe::{self, ANSWER},
};

/// A block is handed over at this size; a smaller one as soon as nothing more is at hand.
const BLOCK_RECORDS: usize = 10_000;
const BLOCK_BYTES: usize = 8 << 20;
/// How long one poll waits for a record: the longest that a command has to wait.
const POLL: Duration = Duration::from_millis(20);
/// A pipeline that takes no block for this long is merging: partitions are paused and polling goes on. Before, it is
/// enough to wait, and cheaper, since a pause throws away what was prefetched.
const PATIENCE: Duration = Duration::from_secs(2);
/// A refused offset commit is tried again after this long, for what is still ours then.
const COMMIT_AGAIN: Duration = Duration::from_secs(1);
/// Brokers that did not say what is to be known of an assignment are asked again after this long.
const ASK_AGAIN: Duration = Duration::from_secs(1);

pub(crate) struct Consumer {
    client: BaseConsumer<Callbacks>,
    commands: mpsc::Receiver<Command>,
    polled: async_mpsc::Sender<Result<Polled, Fault>>,
    /// What the pipeline has not taken yet.
    waiting: VecDeque<Polled>,
    waiting_since: Option<Instant>,
    is_paused: bool,
    block: Records,
    /// Partitions that are leaving or held: their records are of no interest.
    silent: Vec<TopicPartition>,
    acknowledged: BTreeMap<TopicPartition, Acknowledged>,
    committed_at: Instant,
    ask_at: Instant,
    topics: Vec<String>,
    commits: bool,
}

impl Consumer {
    pub(crate) fn subscribe(
        settings: &KafkaSettings,
        topics: &[&str],
        commands: mpsc::Receiver<Command>,
        polled: async_mpsc::Sender<Result<Polled, Fault>>,
    ) -> Result<Self, Fault> {
        let client = probe::client(settings)?;
        for topic in topics {
            probe::partitions(&client, settings, topic)?;
        }
        client.subscribe(topics).map_err(|e| Fault::halt(format!("subscribing: {e}")))?;
        Ok(Self {
            client,
            commands,
            polled,
            waiting: VecDeque::new(),
            waiting_since: None,
            is_paused: false,
            block: Records::default(),
            silent: Vec::new(),
            acknowledged: BTreeMap::new(),
            committed_at: Instant::now(),
            ask_at: Instant::now(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            commits: settings.commits,
        })
    }

    /// Polls until the pipeline closes it.
    pub(crate) fn run(mut self) {
        let ended = loop {
            match self.obey() {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(fault) => break Err(fault),
            }
            if let Err(fault) = self.turn() {
                break Err(fault);
            }
        };
        if let Err(fault) = ended {
            _ = self.polled.blocking_send(Err(fault));
        }
        self.leave();
    }

    fn turn(&mut self) -> Result<(), Fault> {
        let is_free = self.hand_over()?;
        if !is_free && !self.is_paused {
            thread::sleep(Duration::from_millis(2));
            return Ok(());
        }
        let full = self.block.len() >= BLOCK_RECORDS || self.block.bytes() >= BLOCK_BYTES;
        let wait = if self.block.is_empty() { POLL } else { Duration::ZERO };
        let polled = if full { None } else { self.client.poll(wait) };
        match polled {
            Some(Ok(message)) => {
                let is_silent =
                    |tp: &TopicPartition| tp.partition == message.partition() && *tp.topic == *message.topic();
                if !self.silent.iter().any(is_silent) {
                    self.block.push(message.topic(), peek::record(&message));
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                let ended = self.ended(partition)?;
                self.seal_block();
                self.waiting.push_back(Polled::Ended(ended));
            }
            Some(Err(error)) => self.tolerate(&error)?,
            None => self.seal_block(),
        }
        self.take_rebalances();
        self.commit_again()
    }

    /// Gives what waits to the pipeline. `false`: it has no room.
    fn hand_over(&mut self) -> Result<bool, Fault> {
        while let Some(next) = self.waiting.pop_front() {
            match self.polled.try_send(Ok(next)) {
                Ok(()) => self.waiting_since = None,
                Err(async_mpsc::error::TrySendError::Closed(_)) => return Ok(false),
                Err(async_mpsc::error::TrySendError::Full(returned)) => {
                    if let Ok(returned) = returned {
                        self.waiting.push_front(returned);
                    }
                    let since = *self.waiting_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE && !self.is_paused {
                        self.client.pause(&self.assignment()?).map_err(|e| Fault::halt(format!("pausing: {e}")))?;
                        self.is_paused = true;
                    }
                    return Ok(false);
                }
            }
        }
        if self.is_paused {
            let held = self.silent.clone();
            let reading: Vec<_> =
                group::partitions(&self.assignment()?).into_iter().filter(|tp| !held.contains(tp)).collect();
            self.client.resume(&group::list(&reading)).map_err(|e| Fault::halt(format!("resuming: {e}")))?;
            self.is_paused = false;
        }
        Ok(true)
    }

    fn assignment(&self) -> Result<TopicPartitionList, Fault> {
        self.client.assignment().map_err(|e| Fault::halt(format!("reading the assignment: {e}")))
    }

    fn seal_block(&mut self) {
        if !self.block.is_empty() {
            self.waiting.push_back(Polled::Records(std::mem::take(&mut self.block)));
        }
    }

    /// librdkafka names only the partition's number. Where several topics have that number assigned, nobody can
    /// tell which one ended, and the offsets have to show it.
    fn ended(&self, partition: i32) -> Result<Vec<TopicPartition>, Fault> {
        let assigned = group::partitions(&self.assignment()?);
        let candidates: Vec<_> = assigned.into_iter().filter(|tp| tp.partition == partition).collect();
        Ok(if candidates.len() == 1 { candidates } else { Vec::new() })
    }

    /// Errors that librdkafka mends by itself are noted, those of a topic stop its table, the others end the run.
    fn tolerate(&mut self, error: &KafkaError) -> Result<(), Fault> {
        let code = error.rdkafka_error_code();
        match (error, code) {
            (KafkaError::MessageConsumptionFatal(_), _) => Err(Fault::halt(format!("Kafka: {error}"))),
            _ if peek::is_out_of_range(error) => {
                let ranges = self.ranges()?;
                self.tell(std::iter::once(Polled::OutOfRange(ranges)));
                Ok(())
            }
            (_, Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic)) => {
                let missing: Vec<_> = self.topics.iter().filter(|topic| self.is_missing(topic)).cloned().collect();
                tracing::warn!("Kafka: {error}");
                self.tell(missing.into_iter().map(|topic| {
                    let gone = format!("topic {topic} is gone; create it or correct its name, then start again");
                    Polled::Broken(topic.into(), Fault::halt(gone))
                }));
                Ok(())
            }
            (
                _,
                Some(
                    RDKafkaErrorCode::TopicAuthorizationFailed
                    | RDKafkaErrorCode::GroupAuthorizationFailed
                    | RDKafkaErrorCode::Authentication,
                ),
            ) => Err(Fault::halt(format!("Kafka: {error}; check the topic and the rights of this user"))),
            _ => {
                tracing::warn!("Kafka: {error}");
                Ok(())
            }
        }
    }

    /// Tells the pipeline, after what was read before.
    fn tell(&mut self, polled: impl Iterator<Item = Polled>) {
        self.seal_block();
        self.waiting.extend(polled);
    }

    /// What the topics hold of each partition that is being read. librdkafka does not say which one's next offset is out
    /// of range.
    fn ranges(&self) -> Result<Vec<AssignedPartition>, Fault> {
        let reading = group::partitions(&self.assignment()?).into_iter().filter(|tp| !self.silent.contains(tp));
        let range = |partition: TopicPartition| {
            // a topic that is gone by now is reported by itself
            let (low, high) = self.client.fetch_watermarks(&partition.topic, partition.partition, ANSWER).ok()?;
            Some(AssignedPartition { partition, committed: None, low, high })
        };
        Ok(reading.filter_map(range).collect())
    }

    fn is_missing(&self, topic: &str) -> bool {
        let metadata = self.client.fetch_metadata(Some(topic), ANSWER);
        metadata.is_ok_and(|found| found.topics().iter().all(|found| found.partitions().is_empty()))
    }

    fn take_rebalances(&mut self) {
        while self.ask_at <= Instant::now() {
            let next = self.rebalances().pop_front();
            let Some(rebalanced) = next else { return };
            self.seal_block();
            match rebalanced {
                Rebalanced::Assigned(list) => match self.describe(list.clone()) {
                    Ok(assigned) => self.waiting.push_back(Polled::Assigned(assigned)),
                    Err(fault) => {
                        // brokers that are away come back, and polling goes on until then
                        tracing::warn!("will ask again: {fault}");
                        self.rebalances().push_front(Rebalanced::Assigned(list));
                        self.ask_at = Instant::now() + ASK_AGAIN;
                    }
                },
                Rebalanced::Revoked(list) => {
                    let leaving = group::partitions(&list);
                    self.silent.extend(leaving.iter().cloned());
                    self.waiting.push_back(Polled::Revoked(leaving));
                }
            }
        }
    }

    fn rebalances(&self) -> MutexGuard<'_, VecDeque<Rebalanced>> {
        self.client.context().rebalances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the brokers know of partitions that were assigned.
    fn describe(&self, list: TopicPartitionList) -> Result<Vec<AssignedPartition>, Fault> {
        if list.count() == 0 {
            return Ok(Vec::new());
        }
        let committed = self.client.committed_offsets(list, ANSWER);
        let committed = committed.map_err(|e| Fault::retry(format!("reading the group's offsets: {e}")))?;
        let describe = |element: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
            let partition = TopicPartition::new(element.topic(), element.partition());
            let range = self.client.fetch_watermarks(element.topic(), element.partition(), ANSWER);
            let (low, high) = range.map_err(|e| Fault::retry(format!("reading the range of {partition}: {e}")))?;
            Ok(AssignedPartition { committed: group::committed(element), partition, low, high })
        };
        committed.elements().iter().map(describe).collect()
    }

    /// Does what the pipeline says; `false` at the end.
    fn obey(&mut self) -> Result<bool, Fault> {
        loop {
            let command = match self.commands.try_recv() {
                Ok(command) => command,
                Err(mpsc::TryRecvError::Empty) => return Ok(true),
                Err(mpsc::TryRecvError::Disconnected) => return Ok(false),
            };
            match command {
                Command::Start(offsets) => self.start(&offsets).map_err(|e| Fault::halt(format!("assigning: {e}")))?,
                Command::Release(partitions) => {
                    self.silent.retain(|tp| !partitions.contains(tp));
                    let left = group::unassign(&self.client, &group::list(&partitions));
                    left.map_err(|e| Fault::halt(format!("unassigning: {e}")))?;
                    self.acknowledged.retain(|tp, _| !partitions.contains(tp));
                }
                Command::Hold(partition) => {
                    // it may have been revoked in the meantime
                    _ = self.client.pause(&group::list(std::slice::from_ref(&partition)));
                    self.silent.push(partition);
                }
                Command::Resume(offsets) => self.resume(offsets)?,
                Command::Acknowledge(positions) => {
                    self.commit(&positions)?;
                    self.acknowledged.extend(positions);
                }
                Command::Close => return Ok(false),
            }
        }
    }

    /// Reads on from these offsets. A partition that was revoked in the meantime is not ours to read.
    fn resume(&mut self, mut offsets: Vec<(TopicPartition, i64)>) -> Result<(), Fault> {
        let failed = |e: KafkaError| Fault::halt(format!("going back to an offset: {e}"));
        let assigned = group::partitions(&self.assignment()?);
        offsets.retain(|(tp, _)| assigned.contains(tp));
        if offsets.is_empty() {
            return Ok(());
        }
        let list = group::list_at(&offsets).map_err(failed)?;
        let sought = self.client.seek_partitions(list, ANSWER).map_err(failed)?;
        for element in sought.elements() {
            element.error().map_err(failed)?;
        }
        let partitions: Vec<_> = offsets.into_iter().map(|(tp, _)| tp).collect();
        self.silent.retain(|tp| !partitions.contains(tp));
        if !self.is_paused {
            let resumed = self.client.resume(&group::list(&partitions));
            resumed.map_err(|e| Fault::halt(format!("resuming: {e}")))?;
        }
        self.tell(std::iter::once(Polled::Resumed(partitions)));
        Ok(())
    }

    fn commit(&mut self, positions: &[(TopicPartition, Acknowledged)]) -> Result<(), Fault> {
        if self.commits && !positions.is_empty() {
            self.committed_at = Instant::now();
            let list = group::to_commit(positions)?;
            if let Err(error) = self.client.commit(&list, CommitMode::Async) {
                tracing::debug!("an offset commit failed: {error}");
                self.client.context().is_commit_refused.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// The last commit of a partition has to arrive, or the group seems to lag until another record comes.
    fn commit_again(&mut self) -> Result<(), Fault> {
        let is_due = self.committed_at.elapsed() > COMMIT_AGAIN;
        if is_due && self.client.context().is_commit_refused.swap(false, Ordering::SeqCst) {
            let positions: Vec<_> = self.acknowledged.iter().map(|(tp, position)| (tp.clone(), *position)).collect();
            self.commit(&positions)?;
        }
        Ok(())
    }

    fn start(&mut self, offsets: &[(TopicPartition, i64)]) -> KafkaResult<()> {
        self.silent.retain(|held| !offsets.iter().any(|(tp, _)| tp == held));
        let list = group::list_at(offsets)?;
        match self.client.rebalance_protocol() {
            RebalanceProtocol::Cooperative => self.client.incremental_assign(&list),
            _ => self.client.assign(&list),
        }
    }

    /// Commits what was acknowledged last, with an answer this time, and leaves the group.
    fn leave(self) {
        self.client.context().is_closing.store(true, Ordering::SeqCst);
        let positions: Vec<_> = self.acknowledged.into_iter().collect();
        if self.commits
            && !positions.is_empty()
            && let Ok(list) = group::to_commit(&positions)
            && let Err(error) = self.client.commit(&list, CommitMode::Sync)
        {
            tracing::debug!("the last offset commit failed: {error}");
        }
        // a revocation that nobody answered yet would keep the group waiting
        _ = self.client.assignment().and_then(|assignment| group::unassign(&self.client, &assignment));
        drop(self.client);
    }
}
