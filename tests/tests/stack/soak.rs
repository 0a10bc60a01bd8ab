//! A long run in which members come, go, die and freeze, and Kafka, Connect and the store fail, alone and together, under full load. At its
//! end the replica equals the source, by itself.
//!
//! A seed gives the plan of what happens to whom and when; how far everything has come by then is the machine's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::{Highwater, number};
use highwater_tests::oracle;
use highwater_tests::process::Process;
use highwater_tests::s3::S3;
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::{Shared, shared};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::groups::assignments;
use crate::kills::SEED;
use crate::verdict::figures;

/// How long it goes on.
const MINUTES: &str = "HIGHWATER_SOAK_MINUTES";
const MEMBERS: usize = 4;
/// So many are up, or frozen, at any time.
const LEAST: usize = 2;
/// Each server fails once in so many minutes, and at least once.
const SPAN: u64 = 6;
/// For what an hour may have left behind.
const PATIENCE: Duration = Duration::from_mins(30);
/// Changes in one call of the generator.
const ROUND: u32 = 4_000;
/// The generator waits while Debezium has more of the log before it: it is the faster of the two.
const BEHIND: i64 = 64 << 20;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A member that is away comes; one that is there leaves.
    ComeOrGo(usize),
    Kill(usize),
    Freeze(usize, Duration),
    Kafka(End),
    Connect,
    Store(End, Duration),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    /// Kafka ends in good order; the store keeps its connections and does not answer.
    Soft,
}

fn plan(random: &mut StdRng, length: Duration) -> Vec<(Duration, Event)> {
    let mut plan = Vec::new();
    let mut at = Duration::from_secs(5);
    while at < length {
        let member = random.random_range(0..MEMBERS);
        let event = match random.random_range(0..10) {
            0..4 => Event::ComeOrGo(member),
            4..7 => Event::Kill(member),
            _ => Event::Freeze(member, Duration::from_millis(random.random_range(1_000..10_000))),
        };
        plan.push((at, event));
        at += Duration::from_millis(random.random_range(2_000..8_000));
    }
    let spans = u32::try_from(length.as_secs() / 60 / SPAN).unwrap_or(0).max(1);
    let span = length / spans;
    let away = (span / 6).clamp(Duration::from_secs(15), Duration::from_mins(1));
    for start in (0..spans).map(|n| span * n) {
        let mut end = || if random.random_bool(0.5) { End::Kill } else { End::Soft };
        for event in [Event::Kafka(end()), Event::Connect, Event::Store(end(), away)] {
            plan.push((start + span.mul_f64(random.random_range(0.1..0.8)), event));
        }
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}

struct Member {
    highwater: Highwater,
    process: Option<Process>,
    thaw_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Tally {
    kills: u32,
    freezes: u32,
    leaves: u32,
    kafka_restarts: u32,
    connect_kills: u32,
    outages: u32,
    outage: Duration,
}

struct Soak<'a> {
    stack: Shared,
    shop: &'a Shop,
    store: S3,
    /// When it began, when it is to end, and how it came about.
    outage: Option<(Instant, Instant, End)>,
    members: Vec<Member>,
    tally: Tally,
}

impl Soak<'_> {
    fn run(&mut self, plan: &[(Duration, Event)], length: Duration) -> Result<()> {
        let (began, mut minute) = (Instant::now(), 0);
        let mut plan = plan.iter().peekable();
        while began.elapsed() < length {
            if let Some((_, event)) = plan.next_if(|(at, _)| *at <= began.elapsed()) {
                self.apply(*event).with_context(|| format!("{event:?} after {:?}", began.elapsed()))?;
            }
            self.tend(Instant::now()).with_context(|| format!("after {:?}", began.elapsed()))?;
            if began.elapsed().as_secs() / 60 > minute {
                minute = began.elapsed().as_secs() / 60;
                let versions = self.members[0].highwater.version();
                figures(&format!("soak: minute={minute} version={versions:?} {:?}", self.tally));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        // whatever is still to end
        self.tend(Instant::now() + PATIENCE)
    }

    fn up(&self) -> usize {
        self.members.iter().filter(|member| member.process.is_some()).count()
    }

    fn apply(&mut self, event: Event) -> Result<()> {
        let up = self.up();
        match event {
            Event::ComeOrGo(index) => {
                let member = &mut self.members[index];
                match member.process.take() {
                    None => member.process = Some(member.highwater.run()?),
                    Some(process) if up > LEAST && member.thaw_at.is_none() && has_joined(&process) => {
                        member.highwater.stop(process)?;
                        self.tally.leaves += 1;
                    }
                    stays => member.process = stays,
                }
            }
            Event::Kill(index) => {
                let member = &mut self.members[index];
                if let Some(mut process) = member.process.take() {
                    process.kill()?;
                    member.thaw_at = None;
                    self.tally.kills += 1;
                }
            }
            Event::Freeze(index, away) => {
                let member = &mut self.members[index];
                if let (Some(process), None) = (&mut member.process, member.thaw_at) {
                    process.freeze()?;
                    member.thaw_at = Some(Instant::now() + away);
                    self.tally.freezes += 1;
                }
            }
            Event::Kafka(end) => {
                if end == End::Kill { self.stack.kafka.kill() } else { self.stack.kafka.stop() }?;
                self.stack.kafka.start()?;
                self.tally.kafka_restarts += 1;
            }
            Event::Connect => {
                self.stack.connect.kill()?;
                self.stack.connect.start()?;
                self.shop.worker.wait_running(&self.shop.name)?;
                self.tally.connect_kills += 1;
            }
            Event::Store(end, away) if self.outage.is_none() => {
                if end == End::Kill { self.store.kill() } else { self.store.freeze() }?;
                self.outage = Some((Instant::now(), Instant::now() + away, end));
                self.tally.outages += 1;
            }
            Event::Store(..) => {}
        }
        let missing = LEAST.saturating_sub(self.up());
        for member in self.members.iter_mut().filter(|member| member.process.is_none()).take(missing) {
            member.process = Some(member.highwater.run()?);
        }
        Ok(())
    }

    /// Ends what was to end by `now`; nobody may have ended by himself.
    fn tend(&mut self, now: Instant) -> Result<()> {
        if let Some((began, _, end)) = self.outage.take_if(|(_, until, _)| *until <= now) {
            if end == End::Kill { self.store.start() } else { self.store.thaw() }?;
            self.tally.outage += began.elapsed();
        }
        for member in &mut self.members {
            let Some(process) = &mut member.process else { continue };
            if member.thaw_at.take_if(|at| *at <= now).is_some() {
                process.thaw()?;
            }
            if let Some(status) = process.ended()? {
                anyhow::bail!("{} ended by itself: {status}{}", process.name(), member.highwater.tail(process));
            }
        }
        Ok(())
    }

    /// All leave but one, which goes to the end and leaves too.
    fn end(&mut self) -> Result<()> {
        let mut up: Vec<_> =
            self.members.iter_mut().filter_map(|member| Some((&member.highwater, member.process.take()?))).collect();
        let (last, mut process) = up.pop().context("no member is up")?;
        for (highwater, process) in up {
            wait(PATIENCE, "a member did not join", || Ok(has_joined(&process)))?;
            highwater.stop(process)?;
        }
        last.wait_caught_up(self.shop, &mut process)?;
        last.stop(process)?;
        Ok(())
    }
}

/// A member that comes waits for its store first, and joins the group then.
fn has_joined(process: &Process) -> bool {
    !assignments(process).is_empty()
}

/// How much of PostgreSQL's log Debezium has not confirmed.
fn behind(shop: &Shop) -> Result<i64> {
    let lag = "pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint";
    shop.database.value(&format!("select {lag} from pg_replication_slots where slot_name = '{}'", shop.name))
}

/// Makes changes as fast as Debezium takes them; gives their number. Few inserts and as many deletes, since the replica keeps deleted rows
/// and each merge writes all.
fn load(shop: &Shop, done: &AtomicBool) -> Result<u64> {
    let mut rounds = 0;
    while !done.load(Ordering::Relaxed) {
        if behind(shop)? > BEHIND {
            std::thread::sleep(Duration::from_millis(200));
            continue;
        }
        rounds += 1;
        shop.generate(ROUND / 100, ROUND / 100 * 98, ROUND / 100, rounds)?;
    }
    Ok(rounds * u64::from(ROUND))
}

fn setting(name: &str, default: u64) -> Result<u64> {
    std::env::var(name).map_or(Ok(default), |text| text.parse().with_context(|| format!("{name} is no number")))
}

#[test]
fn a_soak_ends_equal() -> Result<()> {
    let length = Duration::from_mins(setting(MINUTES, 3)?);
    let seed = setting(SEED, rand::random_range(0..1_000_000))?;
    figures(&format!("soak: {SEED}={seed} {MINUTES}={}", length.as_secs() / 60));
    let plan = plan(&mut StdRng::seed_from_u64(seed), length);

    let stack = shared()?;
    let shop = Shop::open(&stack, "soak", 6)?;
    // An hour's records are 25 GB
    shop.broker.compress(&shop.topic)?;
    let scratch = Scratch::new("s3")?;
    let store = S3::start_new(&scratch)?;
    let mut first = Highwater::configure(&stack.scratch.folder("soak")?, &shop)?;
    first.store_in(&store, "soak")?;
    first.change("age = \"300ms\"", "age = \"1s\"")?;
    (first.verbose, first.patience) = (true, PATIENCE);
    let names = ["second", "third", "fourth"];
    let mut all = names.iter().map(|name| first.another(name)).collect::<Result<Vec<_>>>()?;
    all.push(first);
    shop.generate(20_000, 0, 0, seed)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &all[0])?;
    // Killed before its first commit of offsets, Debezium takes a new snapshot and never sends what happened in the gap.
    let committed = || {
        shop.generate(10, 10, 10, seed)?;
        shop.worker.has_streamed_offsets(&shop.name)
    };
    wait(Duration::from_mins(1), "connect committed no offset", committed)?;

    let members = all.into_iter().map(|highwater| Member { highwater, process: None, thaw_at: None }).collect();
    let mut soak = Soak { stack, shop: &shop, store, outage: None, members, tally: Tally::default() };
    let done = AtomicBool::new(false);
    let changes = std::thread::scope(|scope| {
        let load = scope.spawn(|| load(&shop, &done));
        let ran = soak.run(&plan, length);
        done.store(true, Ordering::Relaxed);
        let changes = load.join().expect("the load does not panic");
        ran.and(changes)
    })?;

    wait(PATIENCE, "debezium stays behind", || Ok(behind(&shop)? < BEHIND / 8))?;
    shop.delivered()?;
    soak.end()?;
    let (highwater, tally) = (&soak.members[0].highwater, &soak.tally);
    let samples = watch.stop()?.len();
    let digest = oracle::compare(&shop, highwater)?;
    let (version, replay) = (highwater.version(), highwater.replay()?);
    ensure!(replay.rows_changed == 0 && highwater.version() == version, "{replay:?} after version {version:?}");
    // What died between a commit and its line in the log is not among them.
    let (mut received, mut batches, mut lost_races, mut assignments) = (0, 0, 0, 0);
    for member in &soak.members {
        member.highwater.no_dead_letters()?;
        let logs = member.highwater.run_logs()?;
        let durable: Vec<_> = logs
            .lines()
            .filter(|line| line.contains("batch is durable"))
            .filter_map(|line| number(line, "received"))
            .collect();
        received += durable.iter().sum::<i64>();
        batches += durable.len();
        lost_races += logs.matches("another writer was faster").count();
        assignments += logs.matches(" assigned: ").count();
    }
    let records = shop.broker.count(&shop.topic)?;
    figures(&format!(
        "soak: seed={seed} minutes={} changes={changes} records={records} received_by_all={received} received_again={} batches={batches} \
         lost_races={lost_races} assignments={assignments} kills={} freezes={} leaves={} kafka_restarts={} connect_kills={} \
         store_outages={} store_outage_s={} versions={} offset_samples={samples} rows_compared={} set_hash={:016x} replay_changed={}",
        length.as_secs() / 60,
        received - records,
        tally.kills,
        tally.freezes,
        tally.leaves,
        tally.kafka_restarts,
        tally.connect_kills,
        tally.outages,
        tally.outage.as_secs(),
        version.unwrap_or_default(),
        digest.rows,
        digest.set,
        replay.rows_changed,
    ));
    Ok(())
}
