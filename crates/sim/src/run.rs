//! Runs a [`Scenario`] to its end, and says what did not hold.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use change::TableSchema;
use pipeline::{Ending, Fault, Summary, TopicPartition};
use rand::Rng;
use tokio::{
    task::JoinHandle,
    time::{Duration, Instant, sleep, timeout},
};

use crate::{
    accident,
    broker::SESSION,
    check,
    connector::topic,
    envelope::{Record, Truth, record_key},
    lake::{Lake, SimTable, Simulated},
    member::{Handle, Job, pipeline, schema},
    postgres::Write,
    scenario::{Scenario, What},
    stats::Stats,
    world::World,
};

/// No history may take longer than this to come to rest, in its own time.
const REST: Duration = Duration::from_hours(2);

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What did not hold; empty where all is well.
    pub violations: Vec<String>,
    /// What happened how often.
    pub stats: Stats,
    /// The trace, where one was wanted.
    pub trace: Vec<String>,
}

/// Runs `scenario` over the simulated lake.
#[must_use]
pub fn run(scenario: &Scenario, is_traced: bool) -> Outcome {
    run_on(Simulated, scenario, is_traced)
}

/// Runs `scenario` over `lake`, in a time of its own.
///
/// # Panics
/// Never: a runtime without I/O needs nothing from the system.
#[must_use]
pub fn run_on<L: Lake>(lake: L, scenario: &Scenario, is_traced: bool) -> Outcome {
    #[expect(clippy::expect_used, reason = "a runtime without I/O needs nothing from the system")]
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = Arc::new(Mutex::new(World::new(scenario, is_traced)));
        let (scenario, lake) = (Arc::new(scenario.clone()), Arc::new(lake));
        let history = History { world, lake, scenario, schema: schema() };
        if timeout(REST, history.play()).await.is_err() {
            history.world().violations.push("it does not come to rest".to_owned());
        }
        let mut world = history.world();
        let stats = finish(&mut world);
        Outcome {
            violations: std::mem::take(&mut world.violations),
            stats,
            trace: world.trace.take().unwrap_or_default(),
        }
    })
}

fn finish(world: &mut World) -> Stats {
    Stats {
        rows: world.lake.tables.iter().map(|table| table.rows.rows.len() as u64).sum(),
        versions: world.lake.tables.iter().map(|table| table.version).sum(),
        rebalances: world.broker.rebalances,
        commits_refused: world.broker.refused,
        conflicts: world.lake.conflicts,
        answers_lost: world.lake.lost_answers,
        store_failures: world.lake.failures,
        snapshots: world.connector.snapshots,
        ..world.stats
    }
}

/// A history that is being played.
struct History<L> {
    world: Arc<Mutex<World>>,
    lake: Arc<L>,
    scenario: Arc<Scenario>,
    schema: Arc<TableSchema>,
}

impl<L: Lake> History<L> {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn play(&self) {
        let members: Vec<_> = (0..self.scenario.members).map(|member| self.spawn(member)).collect();
        for (at, step) in self.scenario.steps.iter().enumerate() {
            sleep(step.after).await;
            let mut world = self.world();
            if at == self.scenario.steps.len() / 2 {
                world.backup = world.source.clone();
            }
            world.note(|| format!("{:?}", step.what));
            act(&mut world, &step.what);
            if !world.violations.is_empty() {
                return;
            }
        }
        self.stop(members).await;
        self.drain_source();
        if !self.world().violations.is_empty() {
            return;
        }
        if let Some(accident) = self.scenario.accident {
            accident::happens(&mut self.world(), accident);
        }
        let told = self.last_member().await;
        if let Some(told) = told {
            accident::accept(&mut self.world(), &told);
            self.last_member().await;
        }
        check::equality(&mut self.world());
        if self.world().violations.is_empty() {
            self.replay().await;
        }
    }

    fn spawn(&self, member: usize) -> JoinHandle<()> {
        let handle = Handle::new(&self.world, member);
        tokio::spawn(live(handle, Arc::clone(&self.lake), Arc::clone(&self.scenario), Arc::clone(&self.schema)))
    }

    /// The trouble ends; some members leave in good order, others are killed.
    async fn stop(&self, members: Vec<JoinHandle<()>>) {
        {
            let mut world = self.world();
            world.lake.mishaps.clear();
            world.lake.outage_until = None;
            (world.commits_lost, world.stale_commits) = (0, 0);
        }
        for (member, task) in members.into_iter().enumerate() {
            let is_killed = {
                let mut world = self.world();
                let is_killed = world.rng.random_ratio(1, 3);
                let control = &mut world.members[member];
                (control.crash_in, control.is_over) = (None, true);
                control.leave.notify_one();
                is_killed
            };
            if is_killed {
                task.abort();
            }
            _ = task.await;
            let mut world = self.world();
            let id = std::mem::take(&mut world.members[member].id);
            world.broker.silence(id, Instant::now(), None);
        }
        sleep(SESSION + Duration::from_secs(1)).await;
        self.world().wake();
    }

    /// What is open ends, and everything is delivered.
    fn drain_source(&self) {
        let mut world = self.world();
        for tx in world.source.open() {
            world.source.commit(tx);
        }
        while world.connect(1000) > 0 {}
    }

    /// Runs a pipeline until it has read everything, and looks at the tables then.
    async fn run_to_end(&self, handle: &Handle, job: Job) -> Result<Summary, Fault> {
        let pipeline = pipeline(handle, &*self.lake, &self.scenario, &self.schema, job).await;
        let ended = pipeline.run(std::future::pending()).await;
        for table in 0..self.scenario.tables {
            let newest = self.lake.table(handle, table).await;
            self.world().lake.tables[table] = newest;
        }
        ended
    }

    /// Reads everything to its end. What the operator is told to accept, if anything, is handed back.
    async fn last_member(&self) -> Option<String> {
        let handle = Handle::new(&self.world, 0);
        self.world().members[0].keeps_letters = true;
        self.world().members[0].paused_until = None;
        let ended = self.run_to_end(&handle, Job::LastMember).await;
        let mut world = self.world();
        match ended {
            Ok(mut summary) => {
                let told = accident::told(&mut world, &mut summary);
                account(&mut world, &summary, "the last member");
                told
            }
            Err(fault) => {
                world.violations.push(format!("the last member ended: {fault}"));
                None
            }
        }
    }

    /// P1: everything once more, from the beginning, changes nothing.
    async fn replay(&self) {
        let handle = Handle::new(&self.world, 0);
        let before = self.world().lake.tables.clone();
        let ended = self.run_to_end(&handle, Job::Replay).await;
        let mut world = self.world();
        let summary = match ended {
            Ok(summary) => summary,
            Err(fault) => {
                world.violations.push(format!("the replay ended: {fault}"));
                return;
            }
        };
        account(&mut world, &summary, "the replay");
        let records = world.broker.count(|_| true);
        let poison = poison(&world);
        let sum =
            |of: fn(&pipeline::Counts) -> u64| summary.tables.iter().map(|(_, counts, _)| of(counts)).sum::<u64>();
        world.stats.replayed += records;
        for (what, found, expected) in [
            ("received", sum(|counts| counts.received), records),
            ("dead letters", sum(|counts| counts.dead_lettered), poison),
            ("merged", sum(|counts| counts.merged), 0),
            ("rows changed", sum(|counts| counts.rows_changed), 0),
        ] {
            if found != expected {
                world.violations.push(format!("the replay: {what} {found} instead of {expected}"));
            }
        }
        for (table, before) in before.iter().enumerate() {
            let after = &world.lake.tables[table];
            if after.rows != before.rows || after.version != before.version {
                world.violations.push(format!("the replay changed t{table}"));
            }
        }
    }
}

/// Bad records that a replay meets.
fn poison(world: &World) -> u64 {
    let of = |(table, replica): (usize, &SimTable)| {
        let logs = world.broker.partitions(&topic(table)).into_iter().filter_map(|tp| world.broker.logs.get(&tp));
        logs.flat_map(|log| &log.records).filter(|record| record.is_poison(replica.epoch.since)).count() as u64
    };
    world.lake.tables.iter().enumerate().map(of).sum()
}

/// A run that ended by itself: every record is accounted for, and no table halted but for a bad record, or for a store
/// that was away longer than the member waits.
fn account(world: &mut World, summary: &Summary, who: &str) {
    for (table, counts, fault) in &summary.tables {
        world.stats.received += counts.received;
        if !counts.adds_up() {
            world.violations.push(format!("{who}: the account of {table} does not add up: {counts}"));
        }
        let Some(fault) = fault else { continue };
        let names_bad_record = fault.message.contains("on_error = \"dead-letter\"");
        if names_bad_record && world.stats.poison > 0 {
            world.stats.halts += 1;
            // the operator reads the message and does what it says
            for member in &mut world.members {
                member.keeps_letters = true;
            }
        } else if fault.message.starts_with("gave up after") {
            world.stats.gave_up += 1;
        } else {
            world.violations.push(format!("{who}: {table} halted: {fault}"));
        }
    }
}

/// A member's life: it is started again whenever it ends.
async fn live<L: Lake>(handle: Handle, lake: Arc<L>, scenario: Arc<Scenario>, schema: Arc<TableSchema>) {
    loop {
        let (killed, leave) = {
            let world = handle.world();
            let control = world.control(&handle);
            (Arc::clone(&control.killed), Arc::clone(&control.leave))
        };
        let run =
            async { pipeline(&handle, &*lake, &scenario, &schema, Job::Member).await.run(leave.notified()).await };
        let ended = tokio::select! {
            biased;
            () = killed.notified() => None,
            ended = run => Some(ended),
        };
        let pause = {
            let mut world = handle.world();
            let world = &mut *world;
            let name = handle.name();
            match ended {
                None => {
                    world.stats.kills += 1;
                    world.note(|| format!("{name}: killed"));
                    let id = std::mem::take(&mut world.members[handle.member()].id);
                    world.broker.silence(id, Instant::now(), None);
                }
                Some(Ok(summary)) => {
                    world.stats.leaves += u64::from(summary.ending == Ending::Stopped);
                    world.note(|| format!("{name}: {:?}", summary.ending));
                    account(world, &summary, &name);
                }
                Some(Err(fault)) => world.violations.push(format!("{name} ended: {fault}")),
            }
            if world.control(&handle).is_over {
                return;
            }
            Duration::from_millis(world.rng.random_range(0..15_000))
        };
        sleep(pause).await;
    }
}

/// Does what a step says.
fn act(world: &mut World, what: &What) {
    let now = Instant::now();
    match *what {
        What::Write { tx, table, key, write } => {
            let is_done = world.source.write(tx, table, key, write);
            world.stats.truncates += u64::from(is_done && write == Write::Truncate);
            world.stats.key_changes += u64::from(is_done && matches!(write, Write::Move(_)));
        }
        What::Commit(tx) => _ = world.source.commit(tx),
        What::Abort(tx) => _ = world.source.abort(tx),
        What::Connect(count) => _ = world.connect(count),
        What::KeepOffsets => world.connector.keep(),
        What::ConnectorCrash { forget } => {
            world.stats.connector_crashes += 1;
            world.connector.crash(forget);
        }
        What::Blocking(table) => {
            world.stats.blocking_snapshots += 1;
            world.connector.block(&world.source, table);
        }
        What::Chunk { table, from, tx } => {
            if !world.source.is_locked(table) {
                world.stats.incremental_chunks += 1;
                world.source.read_chunk(table, from..from + 4, |source| _ = source.commit(tx));
            }
        }
        What::Poison(table) => {
            let value = ["{", "{\"op\":\"x\"}", "[]", "{\"op\":\"c\",\"after\":null,\"source\":{\"lsn\":8}}"];
            let value = value[world.rng.random_range(0..value.len())];
            world.stats.poison += 1;
            insert(world, table, Some(record_key(0)), Some(value), Truth::Poison);
        }
        What::NoChange(table) => {
            let value = [None, Some("{\"ts_ms\":1}"), Some("{\"op\":\"m\",\"source\":{\"lsn\":8},\"message\":{}}")];
            let value = value[world.rng.random_range(0..value.len())];
            insert(world, table, None, value, Truth::NoChange);
        }
        What::Repeat(count) => {
            let partitions: Vec<_> = world.broker.logs.keys().cloned().collect();
            let chosen = world.rng.random_range(0..partitions.len());
            let poison = world.broker.count(|truth| *truth == Truth::Poison);
            world.stats.duplicates += world.broker.repeat(&partitions[chosen], count) as u64;
            world.stats.poison += world.broker.count(|truth| *truth == Truth::Poison) - poison;
        }
        What::Kill { member, at } => world.members[member].crash_in = Some(at),
        What::Pause { member, time } => {
            world.stats.pauses += 1;
            let control = &mut world.members[member];
            control.paused_until = Some(now + time);
            let id = control.id;
            world.broker.silence(id, now, Some(now + time));
        }
        What::Leave(member) => world.members[member].leave.notify_one(),
        What::Rebalance => world.broker.rebalance(&mut world.rng),
        What::Mishap(mishap) => world.lake.mishaps.push(mishap),
        What::Outage(time) => {
            world.stats.outages += 1;
            world.lake.outage_until = Some(now + time);
        }
        What::LoseCommits(count) => world.commits_lost += count,
        What::StaleCommits(count) => world.stale_commits += count,
        // what retention has taken, a lost table cannot read again; and a new partition shows no sign of a restored source
        What::Trim | What::AddPartition if world.has_accident => {}
        What::AddPartition => add_partition(world),
        What::Trim => trim(world),
    }
    world.wake();
}

/// Puts a record that is not the connector's into a topic.
fn insert(world: &mut World, table: usize, key: Option<String>, value: Option<&str>, truth: Truth) {
    let partitions = world.broker.partitions(&topic(table));
    let chosen = world.rng.random_range(0..partitions.len());
    let timestamp = world.connector.clock.unwrap_or_else(|| world.rng.random_range(1..2_000_000_000_000));
    world.broker.append(&partitions[chosen], Record { key, value: value.map(str::to_owned), timestamp, truth }, false);
}

/// A key may move to another partition then. The events that leave out notes, and those that need the snapshot's
/// place, are right only beside what they rest on (docs/adr/0001-ordering.md), so they are spared.
fn add_partition(world: &mut World) {
    if world.connector.leaves_out || !world.connector.is_anchored() {
        return;
    }
    for table in 0..world.connector.tables {
        let count = i32::try_from(world.broker.partitions(&topic(table)).len()).unwrap_or_default();
        world.broker.add_partition(TopicPartition::new(topic(table), count));
    }
    world.stats.partitions_added += 1;
    world.broker.rebalance(&mut world.rng);
}

/// Retention, as it should be set up: it keeps what has not been read.
fn trim(world: &mut World) {
    let partitions: Vec<_> = world.broker.logs.keys().cloned().collect();
    for partition in partitions {
        let committed = world.broker.committed.get(&partition).map_or(0, |acknowledged| acknowledged.position.offset);
        world.stats.trimmed += world.broker.trim(&partition, committed.min(world.checkpoint(&partition)));
    }
}
