//! A member: the production pipeline over a simulated source and replica.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use change::{Column, MetaColumns, TableSchema};
use pipeline::{
    Accept, Acknowledged, AssignedPartition, BatchLimits, Before, DeadLetters, Fault, Letter, Observer, OnError,
    Pipeline, Polled, Records, Settings, Source, StartAt, Table, TopicPartition, Witness,
};
use rand::Rng;
use tokio::time::{Duration, Instant, sleep, sleep_until, timeout_at};

use crate::{broker::Told, check, connector::topic, lake::Lake, scenario::Scenario, world::World};

/// The group of the members.
pub const GROUP: &str = "highwater";

/// The simulated world as one member sees it.
#[derive(Clone)]
pub struct Handle {
    world: Arc<Mutex<World>>,
    member: usize,
}

impl Handle {
    /// The view of member `member`.
    #[must_use]
    pub fn new(world: &Arc<Mutex<World>>, member: usize) -> Self {
        Self { world: Arc::clone(world), member }
    }

    /// The world, locked. Never held across an await.
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The member's number.
    #[must_use]
    pub fn member(&self) -> usize {
        self.member
    }

    /// What the trace calls the member.
    #[must_use]
    pub fn name(&self) -> String {
        format!("member {}", self.member)
    }

    /// Every await of a member goes through here: it may take a moment, the member may stand still, or be killed.
    pub async fn gate(&self) {
        let (killed, moment) = {
            let mut world = self.world();
            let moment = if world.rng.random_ratio(1, 3) { world.rng.random_range(0..30) } else { 0 };
            let control = &mut world.members[self.member];
            let is_killed = control.crash_in == Some(0);
            control.crash_in = control.crash_in.and_then(|left| left.checked_sub(1));
            (is_killed.then(|| Arc::clone(&control.killed)), moment)
        };
        if let Some(killed) = killed {
            killed.notify_one();
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(moment)).await;
        loop {
            let until = self.world().members[self.member].paused_until;
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }
}

/// The group's side of a member.
pub struct SimSource {
    handle: Handle,
    id: u64,
    topics: Vec<String>,
    reading: BTreeMap<TopicPartition, i64>,
    owned: BTreeSet<TopicPartition>,
    /// What was read and not polled yet.
    queue: VecDeque<Polled>,
    /// The checkpoints at the assignments.
    checkpoints: BTreeMap<TopicPartition, i64>,
    block: usize,
    /// A replay reads everything, without a group.
    is_alone: bool,
    is_first: bool,
}

impl SimSource {
    fn new(handle: Handle, scenario: &Scenario, is_alone: bool) -> Self {
        let id = {
            let mut world = handle.world();
            let id = world.new_id();
            let world = &mut *world;
            if !is_alone {
                world.members[handle.member].id = id;
                world.broker.join(id, &mut world.rng);
                world.wake();
            }
            id
        };
        let topics = (0..scenario.tables).map(topic).collect();
        Self {
            handle,
            id,
            topics,
            reading: BTreeMap::new(),
            owned: BTreeSet::new(),
            queue: VecDeque::new(),
            checkpoints: BTreeMap::new(),
            block: scenario.block,
            is_alone,
            is_first: true,
        }
    }

    /// What the group has to say, if anything.
    fn hear(&mut self) -> Option<Polled> {
        let mut world = self.handle.world();
        if self.is_alone {
            if !std::mem::take(&mut self.is_first) {
                return None;
            }
            let all = self.topics.iter().flat_map(|topic| world.broker.partitions(topic)).collect();
            return Some(Polled::Assigned(self.describe(&world, all)));
        }
        if !world.broker.has(self.id) {
            // the group gave it up while it stood still; it lets go of everything and joins anew
            if !self.owned.is_empty() {
                return Some(Polled::Revoked(self.owned.iter().cloned().collect()));
            }
            let world = &mut *world;
            self.id = world.new_id();
            world.members[self.handle.member].id = self.id;
            world.broker.join(self.id, &mut world.rng);
            world.wake();
        }
        match world.broker.tell(self.id)? {
            Told::Assigned(partitions) => {
                self.owned.extend(partitions.iter().cloned());
                for partition in &partitions {
                    self.checkpoints.insert(partition.clone(), world.checkpoint(partition));
                }
                let name = self.handle.name();
                world.note(|| format!("{name}: assigned {partitions:?}"));
                Some(Polled::Assigned(self.describe(&world, partitions)))
            }
            Told::Revoked(partitions) => Some(Polled::Revoked(partitions)),
        }
    }

    fn describe(&self, world: &World, partitions: Vec<TopicPartition>) -> Vec<AssignedPartition> {
        let describe = |partition: TopicPartition| {
            let log = world.broker.logs.get(&partition);
            let (low, high) = log.map_or((0, 0), |log| (log.low, log.high()));
            let committed = world.broker.committed.get(&partition).filter(|_| !self.is_alone).copied();
            AssignedPartition { partition, committed, low, high }
        };
        partitions.into_iter().map(describe).collect()
    }

    /// Some records of partitions that are read, in any interleaving.
    fn fetch(&mut self) -> Option<Records> {
        let mut world = self.handle.world();
        let world = &mut *world;
        let mut records = Records::default();
        let wanted = world.rng.random_range(1..=self.block);
        let mut open: Vec<_> = self.reading.iter_mut().collect();
        while records.len() < wanted && !open.is_empty() {
            let chosen = world.rng.random_range(0..open.len());
            let (partition, next) = &mut open[chosen];
            let run = world.rng.random_range(1..=wanted);
            let Some(log) = world.broker.logs.get(partition) else { break };
            for _ in 0..run {
                let Some(record) = log.get(**next) else { break };
                records.push(&partition.topic, record.at(partition.partition, **next));
                **next += 1;
            }
            if log.get(**next).is_none() {
                open.swap_remove(chosen);
            }
        }
        (!records.is_empty()).then_some(records)
    }
}

impl Source for SimSource {
    const RESUMES: bool = true;

    async fn poll(&mut self, deadline: Instant) -> Result<Polled, Fault> {
        loop {
            self.handle.gate().await;
            if let Some(polled) = self.queue.pop_front().or_else(|| self.hear()) {
                return Ok(polled);
            }
            if let Some(records) = self.fetch() {
                if self.handle.world().rng.random_ratio(1, 4) {
                    let next = self.fetch().map(Polled::Records);
                    self.queue.extend(next);
                }
                return Ok(Polled::Records(records));
            }
            let wake = Arc::clone(&self.handle.world().members[self.handle.member].wake);
            if timeout_at(deadline, wake.notified()).await.is_err() {
                return Ok(Polled::Idle);
            }
        }
    }

    async fn before(&mut self, offsets: Vec<(TopicPartition, i64)>) -> Result<Vec<Before>, Fault> {
        self.handle.gate().await;
        let mut world = self.handle.world();
        if world.rng.random_ratio(1, 10) {
            world.stats.brokers_away += 1;
            return Err(Fault::retry("the brokers do not answer"));
        }
        let look = |(partition, offset): &(TopicPartition, i64)| {
            let Some(log) = world.broker.logs.get(partition) else { return Before::Nowhere };
            match log.get(offset - 1) {
                Some(record) => Before::Record(Witness::of(&record.at(partition.partition, offset - 1))),
                None if *offset > log.high() => Before::Nowhere,
                None => Before::Unknown,
            }
        };
        Ok(offsets.iter().map(look).collect())
    }

    async fn start(&mut self, offsets: Vec<(TopicPartition, i64)>) -> Result<(), Fault> {
        self.handle.gate().await;
        for (partition, offset) in offsets.iter().filter(|_| !self.is_alone) {
            let checkpoint = self.checkpoints.get(partition).copied().unwrap_or_default();
            check::begun(&mut self.handle.world(), partition, *offset, checkpoint);
        }
        self.reading.extend(offsets.into_iter().filter(|(tp, _)| self.is_alone || self.owned.contains(tp)));
        Ok(())
    }

    async fn release(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Fault> {
        self.handle.gate().await;
        for partition in &partitions {
            self.owned.remove(partition);
            self.reading.remove(partition);
        }
        let mut world = self.handle.world();
        world.broker.release(self.id, &partitions);
        world.wake();
        Ok(())
    }

    fn hold(&mut self, partition: TopicPartition) {
        self.reading.remove(&partition);
    }

    fn resume(&mut self, offsets: Vec<(TopicPartition, i64)>) {
        let ours = offsets.into_iter().filter(|(tp, _)| self.is_alone || self.owned.contains(tp));
        let ours: Vec<_> = ours.collect();
        self.handle.world().stats.set_aside += ours.len() as u64;
        self.queue.push_back(Polled::Resumed(ours.iter().map(|(tp, _)| tp.clone()).collect()));
        self.reading.extend(ours);
    }

    fn acknowledge(&mut self, positions: Vec<(TopicPartition, Acknowledged)>) {
        let mut world = self.handle.world();
        let world = &mut *world;
        for (partition, acknowledged) in positions {
            let offset = acknowledged.position.offset;
            let table = self.topics.iter().position(|topic| **topic == *partition.topic).unwrap_or_default();
            check::durable(world, table, &partition, offset, "what was acknowledged");
            if self.is_alone {
                continue;
            }
            if world.commits_lost > 0 {
                world.commits_lost -= 1;
                world.stats.commits_lost += 1;
                continue;
            }
            let is_stale_taken = world.stale_commits > 0;
            world.stale_commits = world.stale_commits.saturating_sub(1);
            world.stats.commits_stale += u64::from(is_stale_taken);
            let is_taken = world.broker.commit(self.id, &partition, acknowledged, is_stale_taken);
            let name = self.handle.name();
            world.note(|| format!("{name}: offset {offset} of {partition}, taken: {is_taken}"));
        }
    }

    async fn close(self) {
        let mut world = self.handle.world();
        let world = &mut *world;
        world.broker.leave(self.id, &mut world.rng);
        world.wake();
    }
}

/// Dead letters that a crash takes away unless they were synced.
struct SimLetters {
    handle: Handle,
    written: Vec<(TopicPartition, i64)>,
}

impl DeadLetters for SimLetters {
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault> {
        self.written.push((letter.partition.clone(), letter.record.offset));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.handle.world().letters.extend(self.written.drain(..));
        Ok(())
    }
}

/// The columns of every table.
///
/// # Panics
/// Never: they are constants.
#[must_use]
pub fn schema() -> Arc<TableSchema> {
    let column = |name, declaration| Column::declared(name, declaration).ok();
    let columns = [column("id", "long"), column("status", "string"), column("note", "string")];
    let columns = columns.into_iter().flatten().collect();
    #[expect(clippy::expect_used, reason = "the schema is a constant")]
    Arc::new(TableSchema::new(columns, &["id"], MetaColumns::default()).expect("a schema"))
}

/// How a pipeline is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A member of the group.
    Member,
    /// A member that ends when everything has been read.
    LastMember,
    /// A replay from the beginning, outside the group.
    Replay,
}

/// The production pipeline over the simulated world.
pub async fn pipeline<L: Lake>(
    handle: &Handle,
    lake: &L,
    scenario: &Scenario,
    schema: &Arc<TableSchema>,
    job: Job,
) -> Pipeline<SimSource, L::Replica, Memory> {
    let is_replay = job == Job::Replay;
    let group = if is_replay { "replay" } else { GROUP };
    let keeps_letters = is_replay || handle.world().members[handle.member].keeps_letters;
    let on_error = if keeps_letters { OnError::DeadLetter } else { OnError::Halt };
    let limits = BatchLimits { records: scenario.batch_records, age: scenario.batch_age, ..BatchLimits::default() };
    let mut tables = Vec::new();
    for table in 0..scenario.tables {
        let replica = lake.open(handle, table, group).await;
        let name = format!("t{table}");
        let accept = if table == 0 { handle.world().accept } else { Accept::default() };
        tables.push(Table::new(&name, &topic(table), schema, limits, on_error, replica).accepting(accept));
    }
    let settings = Settings {
        start_at: if is_replay { StartAt::Earliest } else { StartAt::Resume },
        until_caught_up: job != Job::Member,
        memory: scenario.memory,
        retry_max: scenario.retry_max,
        seed: scenario.seed ^ handle.member() as u64,
    };
    let source = SimSource::new(handle.clone(), scenario, is_replay);
    let letters = SimLetters { handle: handle.clone(), written: Vec::new() };
    let memory = Memory { handle: handle.clone(), limit: scenario.memory + scenario.block * RECORD_BYTES };
    Pipeline::new(source, tables, Box::new(letters), settings, memory)
}

/// No decoded record takes more, with its raw bytes where it leaves out a value.
const RECORD_BYTES: usize = 600;

/// Watches that batches do not take more memory than they may: the limit, and one block that was read below it.
pub struct Memory {
    handle: Handle,
    limit: usize,
}

impl Observer for Memory {
    fn buffered(&mut self, bytes: usize) {
        if bytes > self.limit {
            let text = format!("{}: its batches take {bytes} bytes of {}", self.handle.name(), self.limit);
            self.handle.world().violations.push(text);
        }
    }
}
