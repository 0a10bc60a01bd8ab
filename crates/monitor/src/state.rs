//! [`State`]: all that is known, in one place.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Instant,
};

use jiff::Timestamp;

use crate::{
    problems,
    status::{Connector, Member, Memory, Phase, Recent, Slot, Status},
    table::TableFacts,
};

/// So many lines of the log are kept.
const RECENT: usize = 30;

/// Why something could not be asked: a sentence.
pub type Broken = String;

/// The group and its topics, seen from outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Group {
    /// Its members.
    pub members: Vec<Member>,
    /// The partitions of each topic.
    pub topics: BTreeMap<String, Vec<PartitionLag>>,
}

/// How far a partition goes, and how far the group has come in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionLag {
    /// Its number.
    pub partition: i32,
    /// The offset of its first record.
    pub low: i64,
    /// The offset after its last record.
    pub end: i64,
    /// The offset that the group has committed.
    pub committed: Option<i64>,
    /// The member that reads it.
    pub member: Option<String>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) group: String,
    pub(crate) phase: Phase,
    /// When the pipeline's loop came round last.
    pub(crate) turned: Instant,
    pub(crate) memory: Memory,
    pub(crate) tables: BTreeMap<String, TableFacts>,
    /// `None`: nobody has looked yet.
    pub(crate) members: Option<Result<Vec<Member>, Broken>>,
    pub(crate) slot: Option<Slot>,
    pub(crate) connector: Option<Connector>,
    recent: VecDeque<Recent>,
}

impl State {
    pub(crate) fn new(group: String, phase: Phase, started_at: Option<Timestamp>) -> Self {
        Self {
            started_at,
            group,
            phase,
            turned: Instant::now(),
            memory: Memory::default(),
            tables: BTreeMap::new(),
            members: None,
            slot: None,
            connector: None,
            recent: VecDeque::new(),
        }
    }

    pub(crate) fn of_topic(&mut self, topic: &str) -> Option<&mut TableFacts> {
        self.tables.values_mut().find(|table| table.topic == topic)
    }

    pub(crate) fn note(&mut self, line: Recent) {
        if self.recent.len() >= RECENT {
            self.recent.pop_back();
        }
        self.recent.push_front(line);
    }

    pub(crate) fn status(&self, now: Timestamp) -> Status {
        let reads = matches!(self.phase, Phase::Running | Phase::Stopping);
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at,
            at: now,
            group: self.group.clone(),
            state: self.phase,
            problems: Vec::new(),
            memory: self.memory,
            tables: self.tables.iter().map(|(name, facts)| facts.status(name, reads)).collect(),
            members: self.members.as_ref().and_then(|members| members.as_ref().ok()).cloned(),
            kafka_error: self.members.as_ref().and_then(|members| members.as_ref().err()).cloned(),
            slot: self.slot.clone(),
            connector: self.connector.clone(),
            recent: self.recent.iter().cloned().collect(),
        };
        let last_batch = |name: &str| self.tables.get(name).map(|facts| facts.last_batch_at.unwrap_or(facts.since));
        status.problems = problems::of(&status, last_batch);
        status
    }
}
