//! [`Broker`]: topics, and a consumer group over them.
//!
//! The group follows Kafka's rules as far as a member can notice them: in the eager protocol every member gives up
//! everything before anyone gets anything; in the cooperative one only what moves is given up. A partition has a
//! new owner only after the old one has let go or its session has expired, and offset commits of anyone else are
//! refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pipeline::{Acknowledged, TopicPartition};
use rand::{Rng, rngs::StdRng, seq::SliceRandom};
use tokio::time::{Duration, Instant};

use crate::envelope::{Record, Truth};

/// A member that is silent for so long is taken to be gone.
pub const SESSION: Duration = Duration::from_secs(10);

/// A partition's log.
#[derive(Debug, Default)]
pub struct Log {
    /// The offset of the first record that is still there.
    pub low: i64,
    /// The records from `low` on.
    pub records: VecDeque<Record>,
    /// The greatest address of the initial snapshot's rows in it.
    pub horizon: u64,
    /// Records since the last snapshot row.
    pub since_snapshot: usize,
}

impl Log {
    /// The offset after the newest record.
    #[must_use]
    pub fn high(&self) -> i64 {
        self.low + i64::try_from(self.records.len()).unwrap_or(0)
    }

    /// The record at an offset, if it is still there.
    #[must_use]
    pub fn get(&self, offset: i64) -> Option<&Record> {
        self.records.get(usize::try_from(offset - self.low).ok()?)
    }
}

/// What the group tells a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// These partitions are its own now.
    Assigned(Vec<TopicPartition>),
    /// It has to let go of these.
    Revoked(Vec<TopicPartition>),
}

#[derive(Debug, Default)]
struct Member {
    told: VecDeque<Told>,
    revoking: BTreeSet<TopicPartition>,
    /// Since when it sends no heartbeats.
    silent_since: Option<Instant>,
    /// When it begins again, if it does.
    silent_until: Option<Instant>,
}

/// How partitions change hands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Everyone gives up everything first.
    #[default]
    Eager,
    /// Only what moves is given up.
    Cooperative,
}

/// The broker.
#[derive(Debug, Default)]
pub struct Broker {
    /// The partitions' logs.
    pub logs: BTreeMap<TopicPartition, Log>,
    /// The group's committed offsets.
    pub committed: BTreeMap<TopicPartition, Acknowledged>,
    /// How partitions change hands.
    pub protocol: Protocol,
    members: BTreeMap<u64, Member>,
    owners: BTreeMap<TopicPartition, u64>,
    target: BTreeMap<TopicPartition, u64>,
    is_settled: bool,
    /// Rebalances so far.
    pub rebalances: u64,
    /// Offset commits that were refused.
    pub refused: u64,
}

impl Broker {
    /// Adds a partition.
    pub fn add_partition(&mut self, partition: TopicPartition) {
        self.logs.entry(partition).or_default();
    }

    /// The partitions of a topic.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Vec<TopicPartition> {
        self.logs.keys().filter(|tp| *tp.topic == *topic).cloned().collect()
    }

    /// Appends a record.
    pub fn append(&mut self, partition: &TopicPartition, record: Record, is_snapshot: bool) {
        if let Some(log) = self.logs.get_mut(partition) {
            log.since_snapshot = if is_snapshot { 0 } else { log.since_snapshot + 1 };
            log.records.push_back(record);
        }
    }

    /// Appends once more the last `count` records of a partition, those since the last snapshot row at most.
    pub fn repeat(&mut self, partition: &TopicPartition, count: usize) -> usize {
        let Some(log) = self.logs.get_mut(partition) else { return 0 };
        let count = count.min(log.since_snapshot).min(log.records.len());
        let again: Vec<_> = log.records.range(log.records.len() - count..).cloned().collect();
        log.records.extend(again);
        count
    }

    /// Removes the records before `offset`, and says how many those were.
    pub fn trim(&mut self, partition: &TopicPartition, offset: i64) -> u64 {
        let mut removed = 0;
        if let Some(log) = self.logs.get_mut(partition) {
            while log.low < offset && log.records.pop_front().is_some() {
                log.low += 1;
                removed += 1;
            }
        }
        removed
    }

    /// How many of the records that are still there are such.
    #[must_use]
    pub fn count(&self, which: impl Fn(&Truth) -> bool) -> u64 {
        self.logs.values().flat_map(|log| &log.records).filter(|record| which(&record.truth)).count() as u64
    }

    /// A member joins.
    pub fn join(&mut self, id: u64, rng: &mut StdRng) {
        self.members.insert(id, Member::default());
        self.rebalance(rng);
    }

    /// A member leaves in good order.
    pub fn leave(&mut self, id: u64, rng: &mut StdRng) {
        if self.members.remove(&id).is_some() {
            self.owners.retain(|_, owner| *owner != id);
            self.rebalance(rng);
        }
    }

    /// A member sends no heartbeats from now on, until then.
    pub fn silence(&mut self, id: u64, since: Instant, until: Option<Instant>) {
        if let Some(member) = self.members.get_mut(&id) {
            member.silent_since.get_or_insert(since);
            member.silent_until = until;
        }
    }

    /// Removes the members whose session has expired. Says whether there were any.
    pub fn expire(&mut self, now: Instant, rng: &mut StdRng) -> bool {
        let mut expired = Vec::new();
        for (&id, member) in &mut self.members {
            let Some(since) = member.silent_since else { continue };
            let until = member.silent_until.map_or(now, |until| until.min(now));
            if until.duration_since(since) > SESSION {
                expired.push(id);
            } else if member.silent_until.is_some_and(|until| until <= now) {
                (member.silent_since, member.silent_until) = (None, None);
            }
        }
        for id in &expired {
            self.leave(*id, rng);
        }
        !expired.is_empty()
    }

    /// Whether a member is of the group.
    #[must_use]
    pub fn has(&self, id: u64) -> bool {
        self.members.contains_key(&id)
    }

    /// Whether a member of the group has a partition that it does not own.
    #[must_use]
    pub fn is_foreign(&self, id: u64, partition: &TopicPartition) -> bool {
        self.has(id) && self.owners.get(partition) != Some(&id)
    }

    /// What the group has to tell a member next.
    pub fn tell(&mut self, id: u64) -> Option<Told> {
        self.members.get_mut(&id)?.told.pop_front()
    }

    /// A member has let go of partitions.
    pub fn release(&mut self, id: u64, partitions: &[TopicPartition]) {
        for partition in partitions {
            if self.owners.get(partition) == Some(&id) {
                self.owners.remove(partition);
            }
            if let Some(member) = self.members.get_mut(&id) {
                member.revoking.remove(partition);
            }
        }
        self.settle();
    }

    /// Commits an offset. An offset of anyone but the owner is refused, unless an old coordinator takes it.
    pub fn commit(
        &mut self,
        id: u64,
        partition: &TopicPartition,
        acknowledged: Acknowledged,
        is_stale_taken: bool,
    ) -> bool {
        let is_taken = self.owners.get(partition) == Some(&id) || is_stale_taken;
        if is_taken {
            self.committed.insert(partition.clone(), acknowledged);
        } else {
            self.refused += 1;
        }
        is_taken
    }

    /// Hands the partitions out anew: as evenly as Kafka does, to whom is left to chance.
    pub fn rebalance(&mut self, rng: &mut StdRng) {
        self.rebalances += 1;
        let mut ids: Vec<u64> = self.members.keys().copied().collect();
        ids.shuffle(rng);
        self.target.clear();
        let from = rng.random_range(0..ids.len().max(1));
        for (i, partition) in self.logs.keys().enumerate() {
            if !ids.is_empty() {
                self.target.insert(partition.clone(), ids[(from + i) % ids.len()]);
            }
        }
        self.is_settled = false;
        self.settle();
    }

    fn settle(&mut self) {
        if self.is_settled {
            return;
        }
        let is_eager = self.protocol == Protocol::Eager;
        for (&id, member) in &mut self.members {
            let leaving: Vec<_> = self
                .owners
                .iter()
                .filter(|(tp, owner)| **owner == id && (is_eager || self.target.get(*tp) != Some(&id)))
                .filter(|(tp, _)| !member.revoking.contains(*tp))
                .map(|(tp, _)| tp.clone())
                .collect();
            if !leaving.is_empty() {
                member.revoking.extend(leaving.iter().cloned());
                member.told.push_back(Told::Revoked(leaving));
            }
        }
        if is_eager && !self.owners.is_empty() {
            return;
        }
        for (&id, member) in &mut self.members {
            let free: Vec<_> = self
                .target
                .iter()
                .filter(|(tp, owner)| **owner == id && !self.owners.contains_key(*tp))
                .map(|(tp, _)| tp.clone())
                .collect();
            if !free.is_empty() || is_eager {
                self.owners.extend(free.iter().map(|tp| (tp.clone(), id)));
                member.told.push_back(Told::Assigned(free));
            }
        }
        self.is_settled = self.target.iter().all(|(tp, owner)| self.owners.get(tp) == Some(owner));
    }
}
