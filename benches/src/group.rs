//! What several members achieve, how long a group takes to resume, and what memory a process takes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use highwater_tests::process::Signal;

use crate::{
    events,
    lab::{Group, Lab, batch_times},
    per_second,
};

/// Records in one call of the producer, for a steady load and for one that comes as fast as it can.
const BLOCK: u64 = 1_000;
const BURST: u64 = 10_000;
/// Between two blocks of a steady load: about 4,000 changes a second.
const BEAT: Duration = Duration::from_millis(250);
const STOP: Duration = Duration::from_secs(20);

/// 1, 2 and 4 members, on one table and on four: a load of new rows, and changes spread over them.
pub(crate) fn members(rows: u64, changes: u64) -> Result<()> {
    let lab = Lab::start()?;
    for tables in [1, 4] {
        for members in [1, 2, 4] {
            let name = format!("t{tables}m{members}");
            let mut group = lab.group(&name, tables, "[batch]\nrows = 10_000\nage = \"1s\"\n")?;
            for _ in 0..members {
                group.join("")?;
            }
            group.settled(members)?;
            let load = timed(&mut group, |group| group.topics.fill(events::initial(rows, BURST)))?;
            let loaded = group.logs();
            let change = timed(&mut group, |group| group.topics.fill(events::changes(changes, rows, BURST)))?;
            let logs = group.logs();
            let lost = |log: &str| log.matches("another writer was faster").count();
            let times = |log: &str| {
                let times = batch_times(log);
                let median = times.get(times.len() / 2).copied().unwrap_or_default();
                format!("{} batches, median {median} ms, slowest {} ms", times.len(), times.last().unwrap_or(&0))
            };
            say(&format!(
                "tables {tables}, members {members}: load {load}, {} lost races, {}",
                lost(&loaded),
                times(&loaded)
            ));
            say(&format!(
                "tables {tables}, members {members}: load and changes, changes {change}, {} lost races, {}",
                lost(&logs),
                times(&logs)
            ));
        }
    }
    Ok(())
}

fn timed(group: &mut Group, fill: impl FnOnce(&Group) -> Result<u64>) -> Result<String> {
    let began = Instant::now();
    let events = fill(group)?;
    let filled = began.elapsed();
    group.caught_up()?;
    let took = began.elapsed().as_secs_f64();
    Ok(format!(
        "{events} in {took:.1} s, {:.0}/s (written to Kafka in {:.1} s)",
        per_second(events, took),
        filled.as_secs_f64()
    ))
}

/// Four members under a steady load: one joins, one leaves, one dies. The time until every partition is read again.
pub(crate) fn rebalance(rows: u64) -> Result<()> {
    let lab = Lab::start()?;
    let mut group = lab.group("rebalance", 1, "[batch]\nage = \"500ms\"\n")?;
    group.topics.fill(events::initial(rows, BLOCK))?;
    for _ in 0..3 {
        group.join("")?;
    }
    group.settled(3)?;
    group.caught_up()?;
    under_load(&mut group, rows, |group| {
        let began = Instant::now();
        group.join("")?;
        group.settled(4)?;
        resumed(group, "one joins three", began)?;

        let began = Instant::now();
        let mut leaving = group.members.remove(0);
        leaving.stop(Signal::TERM, STOP)?;
        group.settled(3)?;
        resumed(group, "one of four leaves", began)?;

        group.join("")?;
        group.settled(4)?;
        let began = Instant::now();
        group.members.remove(0).kill()?;
        group.settled(3)?;
        resumed(group, "one of four is killed (session.timeout.ms is 45 s)", began)
    })
}

fn resumed(group: &Group, what: &str, began: Instant) -> Result<()> {
    let settled = began.elapsed().as_secs_f64();
    group.moved_on(&group.acknowledged()?)?;
    say(&format!(
        "{what}: settled after {settled:.1} s, every partition read on after {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// A process killed under load and started again: the time to the next commit.
pub(crate) fn restart(rows: u64) -> Result<()> {
    let lab = Lab::start()?;
    for (name, options) in [("static", "[kafka.options]\n\"group.instance.id\" = \"one\""), ("dynamic", "")] {
        let mut group = lab.group(name, 1, "[batch]\nage = \"500ms\"\n")?;
        group.topics.fill(events::initial(rows, BURST))?;
        group.join(options)?;
        group.caught_up()?;
        under_load(&mut group, rows, |group| {
            for _ in 0..3 {
                group.moved_on(&group.acknowledged()?)?;
                group.members.pop().context("a member")?.kill()?;
                let version = group.version();
                let began = Instant::now();
                group.join(options)?;
                while group.version() == version {
                    thread::sleep(Duration::from_millis(10));
                }
                let took = began.elapsed().as_secs_f64();
                say(&format!("killed and started again, {name} member: next commit after {took:.1} s"));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// A backlog of new rows and of changes spread over them, read by one process under several memory limits.
pub(crate) fn memory(rows: u64, changes: u64) -> Result<()> {
    let lab = Lab::start()?;
    for (tables, limit) in [(1, 1024), (4, 1024), (1, 512), (4, 512)] {
        let settings = format!("[memory]\nlimit = \"{limit}MiB\"\n");
        let group = lab.group(&format!("t{tables}-{limit}"), tables, &settings)?;
        group.topics.fill(events::initial(rows, BURST))?;
        let load = group.catch_up("")?;
        group.topics.fill(events::changes(changes, rows, BURST))?;
        let change = group.catch_up("")?;
        say(&format!("tables {tables}, limit {limit} MiB: peak {load} MiB in the load, {change} MiB in the changes"));
    }
    Ok(())
}

/// Does something while changes come steadily.
fn under_load(group: &mut Group, rows: u64, act: impl FnOnce(&mut Group) -> Result<()>) -> Result<()> {
    let done = AtomicBool::new(false);
    let topics = group.topics.clone();
    thread::scope(|scope| {
        scope.spawn(|| {
            for block in events::changes(u64::MAX / 2, rows, BLOCK) {
                if done.load(Ordering::Relaxed) || topics.fill(std::iter::once(block)).is_err() {
                    break;
                }
                thread::sleep(BEAT);
            }
        });
        let acted = act(group);
        done.store(true, Ordering::Relaxed);
        acted
    })
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn say(figure: &str) {
    println!("{figure}");
}
