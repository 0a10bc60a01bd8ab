//! [`Monitor`]: where everything is told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use pipeline::{Fault, Flushed, Observer, Part, Records, TopicPartition};

use crate::{
    history,
    state::{Broken, Group, State},
    status::{Connector, Files, Halted, Phase, Recent, Rows, Slot, Status, Verified},
    table::TableFacts,
};

/// What is known of a process and what is around it; clones share it.
#[derive(Debug, Clone)]
pub struct Monitor(Arc<Mutex<State>>);

impl Monitor {
    /// The time between two calls of [`Self::tick`].
    pub const TICK: Duration = history::STEP;

    /// Of this process, which starts now; `buffer_limit` is the bytes of batches from which on nothing more is read.
    #[must_use]
    pub fn of_process(group: &str, buffer_limit: usize) -> Self {
        let monitor = Self::new(group, Phase::Starting, Some(Timestamp::now()));
        monitor.state().memory.limit_bytes = buffer_limit as u64;
        monitor
    }

    /// From outside: of a group of which no process has answered.
    #[must_use]
    pub fn from_outside(group: &str) -> Self {
        Self::new(group, Phase::Away, None)
    }

    fn new(group: &str, phase: Phase, started_at: Option<Timestamp>) -> Self {
        Self(Arc::new(Mutex::new(State::new(group.to_owned(), phase, started_at))))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The picture of this moment.
    #[must_use]
    pub fn status(&self) -> Status {
        self.state().status(Timestamp::now())
    }

    /// The process goes over to `phase`.
    pub fn is_now(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// A table is watched from now on.
    pub fn table(&self, name: &str, topic: &str, location: &str) {
        let new = || TableFacts::new(topic.to_owned(), location.to_owned(), Timestamp::now());
        self.state().tables.entry(name.to_owned()).or_insert_with(new).opened();
    }

    /// The names, topics and locations of the tables that are watched.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, String, String)> {
        let of = |(name, facts): (&String, &TableFacts)| (name.clone(), facts.topic.clone(), facts.location.clone());
        self.state().tables.iter().map(of).collect()
    }

    /// What the brokers say of the group.
    pub fn group(&self, found: Result<Group, Broken>) {
        let mut state = self.state();
        let found = found.map(|Group { members, mut topics }| {
            for facts in state.tables.values_mut() {
                if let Some(partitions) = topics.remove(&facts.topic) {
                    facts.looked_at(partitions);
                }
            }
            members
        });
        state.members = Some(found);
    }

    /// What the source says of the slot.
    pub fn slot(&self, slot: Slot) {
        self.state().slot = Some(slot);
    }

    /// What the worker says of the connector.
    pub fn connector(&self, connector: Connector) {
        self.state().connector = Some(connector);
    }

    /// What a table consists of.
    pub fn census(&self, table: &str, rows: Rows, files: Files) {
        if let Some(facts) = self.state().tables.get_mut(table) {
            (facts.rows, facts.files) = (Some(rows), Some(files));
        }
    }

    /// A table's newest version, and the offsets that it holds, by partition.
    pub fn checkpoint(&self, table: &str, version: u64, offsets: BTreeMap<i32, i64>) {
        if let Some(facts) = self.state().tables.get_mut(table) {
            facts.version = facts.version.max(Some(version));
            facts.checkpoint = offsets;
        }
    }

    /// The partitions of a table's topic, as far as they are known.
    #[must_use]
    pub fn partitions(&self, table: &str) -> Vec<TopicPartition> {
        let state = self.state();
        let of = |facts: &TableFacts| {
            facts.numbers().map(|number| TopicPartition::new(facts.topic.as_str(), number)).collect()
        };
        state.tables.get(table).map(of).unwrap_or_default()
    }

    /// How many dead letters of each table there are; a table that is not named has none.
    pub fn letters(&self, waiting: &BTreeMap<String, u64>) {
        for (name, facts) in &mut self.state().tables {
            facts.letters = waiting.get(name).copied().unwrap_or_default();
        }
    }

    /// What was found by comparing tables with their sources.
    pub fn verified(&self, found: BTreeMap<String, Verified>) {
        let mut state = self.state();
        for (name, verified) in found {
            if let Some(facts) = state.tables.get_mut(&name) {
                facts.verified = Some(verified);
            }
        }
    }

    /// A warning or an error was logged.
    pub fn note(&self, level: &str, table: Option<String>, message: String) {
        self.state().note(Recent { at: Timestamp::now(), level: level.to_owned(), table, message });
    }

    /// A point of the history is due.
    pub fn tick(&self) {
        self.state().tables.values_mut().for_each(TableFacts::tick);
    }

    /// Whether the loop has come round within `patience`. While the process starts or has halted, no loop runs.
    pub(crate) fn is_alive(&self, patience: Duration) -> bool {
        let state = self.state();
        state.phase != Phase::Running || state.turned.elapsed() < patience
    }

    /// Whether the process reads, and no table has halted.
    pub(crate) fn is_ready(&self) -> bool {
        let state = self.state();
        state.phase == Phase::Running && state.tables.values().all(|facts| facts.halted.is_none())
    }
}

impl Observer for Monitor {
    fn assigned(&mut self, partitions: &[TopicPartition], _ahead: u64) {
        let mut state = self.state();
        for partition in partitions {
            if let Some(facts) = state.of_topic(&partition.topic) {
                facts.assigned();
            }
        }
    }

    fn received(&mut self, records: &Records) {
        let mut state = self.state();
        for Part { partition, records, bytes } in records.partitions() {
            if let Some(facts) = state.of_topic(&partition.topic) {
                facts.received(partition.partition, *records, *bytes);
            }
        }
    }

    fn ended(&mut self, partitions: &[TopicPartition]) {
        let mut state = self.state();
        for partition in partitions {
            if let Some(facts) = state.of_topic(&partition.topic) {
                facts.ended(partition.partition);
            }
        }
    }

    fn buffered(&mut self, bytes: usize) {
        let mut state = self.state();
        state.turned = Instant::now();
        if state.phase == Phase::Starting {
            state.phase = Phase::Running;
        }
        state.memory.buffered_bytes = bytes as u64;
    }

    fn flushed(&mut self, flushed: &Flushed<'_>) {
        if let Some(facts) = self.state().tables.get_mut(flushed.table) {
            facts.flushed(flushed, Timestamp::now());
        }
    }

    fn halted(&mut self, table: &str, fault: &Fault) {
        if let Some(facts) = self.state().tables.get_mut(table) {
            facts.halted = Some(Halted { at: Timestamp::now(), why: fault.message.clone() });
        }
    }
}
