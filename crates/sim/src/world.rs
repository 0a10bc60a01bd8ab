//! [`World`]: everything that is simulated, behind one lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use pipeline::{Accept, TopicPartition};
use rand::{SeedableRng, rngs::StdRng};
use tokio::{sync::Notify, time::Instant};

use crate::{
    broker::{Broker, Protocol},
    connector::{Connector, Output, topic},
    lake::{SimLake, SimTable},
    member::{GROUP, Handle},
    postgres::Postgres,
    scenario::Scenario,
    stats::Stats,
};

/// What is done to a member from outside.
#[derive(Debug, Default)]
pub struct Control {
    /// It is killed at the so many-th await from now on.
    pub crash_in: Option<u32>,
    /// It stands still until then.
    pub paused_until: Option<Instant>,
    /// Its id in the group, new with each start; 0 while it is dead.
    pub id: u64,
    /// Its tables keep dead letters, or halt.
    pub keeps_letters: bool,
    /// Something may be there to be polled.
    pub wake: Arc<Notify>,
    /// It has reached the await at which it is killed.
    pub killed: Arc<Notify>,
    /// It has to leave in good order.
    pub leave: Arc<Notify>,
    /// It is not started again.
    pub is_over: bool,
}

/// The simulated world.
#[derive(Debug)]
pub struct World {
    /// All chance in the run comes from here.
    pub rng: StdRng,
    /// When the run began.
    pub began: Instant,
    /// The source.
    pub source: Postgres,
    /// Debezium.
    pub connector: Connector,
    /// Kafka.
    pub broker: Broker,
    /// The store.
    pub lake: SimLake,
    /// The dead letters that are durable.
    pub letters: BTreeSet<(TopicPartition, i64)>,
    /// Up to where the records of each partition are known to be durable.
    pub durable: BTreeMap<TopicPartition, i64>,
    /// A backup of the source.
    pub backup: Postgres,
    /// An accident waits at the end.
    pub has_accident: bool,
    /// What the operator accepts at the next start.
    pub accept: Accept,
    /// The members, and what is done to them.
    pub members: Vec<Control>,
    /// Offset commits that will get lost.
    pub commits_lost: u32,
    /// Offset commits of a former owner that will be taken all the same.
    pub stale_commits: u32,
    /// What happened how often.
    pub stats: Stats,
    /// What did not hold.
    pub violations: Vec<String>,
    /// The trace, if one is wanted.
    pub trace: Option<Vec<String>>,
    ids: u64,
}

impl World {
    /// The world at the beginning of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, is_traced: bool) -> Self {
        let mut broker = Broker::default();
        broker.protocol = if scenario.is_cooperative { Protocol::Cooperative } else { Protocol::Eager };
        for table in 0..scenario.tables {
            for partition in 0..scenario.partitions {
                broker.add_partition(TopicPartition::new(topic(table), partition));
            }
        }
        let mut connector = Connector::default();
        (connector.leaves_out, connector.tables) = (scenario.leaves_out, scenario.tables);
        connector.clock = scenario.is_clock_true.then_some(1_000_000);
        let control = || Control { keeps_letters: scenario.keeps_letters, ..Control::default() };
        Self {
            rng: StdRng::seed_from_u64(scenario.seed),
            began: Instant::now(),
            source: Postgres::default(),
            connector,
            broker,
            lake: SimLake::of(scenario.tables),
            letters: BTreeSet::new(),
            durable: BTreeMap::new(),
            backup: Postgres::default(),
            has_accident: scenario.accident.is_some(),
            accept: Accept::default(),
            members: (0..scenario.members).map(|_| control()).collect(),
            commits_lost: 0,
            stale_commits: 0,
            stats: Stats::default(),
            violations: Vec::new(),
            trace: is_traced.then(Vec::new),
            ids: 0,
        }
    }

    /// Writes a line of the trace.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>8.3} {}", self.began.elapsed().as_secs_f64(), line()));
        }
    }

    /// What is done to a handle's member.
    #[must_use]
    pub fn control(&self, handle: &Handle) -> &Control {
        &self.members[handle.member()]
    }

    /// The offset of a partition in its table's commits.
    #[must_use]
    pub fn checkpoint(&self, partition: &TopicPartition) -> i64 {
        let held = |table: &SimTable| Some(table.positions.get(GROUP)?.get(partition)?.offset);
        self.lake.tables.iter().find_map(held).unwrap_or(0)
    }

    /// A new id for a member that starts.
    pub fn new_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Lets the connector write up to `count` records.
    pub fn connect(&mut self, count: usize) -> usize {
        let mut output = Output { broker: &mut self.broker, rng: &mut self.rng };
        let written = self.connector.work(&mut self.source, &mut output, count);
        self.stats.records += written as u64;
        self.wake();
        written
    }

    /// Something may be there to be polled.
    pub fn wake(&mut self) {
        if self.broker.expire(Instant::now(), &mut self.rng) {
            self.stats.sessions_expired += 1;
        }
        for member in &self.members {
            member.wake.notify_one();
        }
    }
}
