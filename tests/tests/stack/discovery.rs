//! Tables that the config does not name: those of every topic that matches, as their records describe them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use highwater_tests::broker::{Broker, committed};
use highwater_tests::highwater::{binary, number};
use highwater_tests::process::{Process, Program, Signal};
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::wait;
use highwater_tests::stack::shared;

use crate::command::highwater;
use crate::verdict::figures;

const PATIENCE: Duration = Duration::from_mins(2);

/// A record of a table with the columns `id` and `note`, that says so itself.
fn record(id: i64) -> (String, String) {
    let key = |schema: &str| format!(r#"{{"schema":{schema},"payload":{{"id":{id}}}}}"#);
    let id_field = r#"{"type":"int64","optional":false,"field":"id"}"#;
    let row = format!(
        r#"{{"type":"struct","fields":[{id_field},{{"type":"string","optional":true,"field":"note"}}],"field":"after"}}"#
    );
    let value = format!(
        r#"{{"schema":{{"type":"struct","fields":[{row}]}},"payload":{{"op":"c","after":{{"id":{id},"note":"n{id}"}},"source":{{"lsn":{}}}}}}}"#,
        8 * (id + 1)
    );
    (key(&format!(r#"{{"type":"struct","fields":[{id_field}]}}"#)), value)
}

fn fill(broker: &Broker, topic: &str, ids: std::ops::Range<i64>) -> Result<()> {
    let records: Vec<_> = ids.map(record).collect();
    broker.produce_all(topic, records.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())))
}

/// Does it for each topic, several at once.
fn each(topics: &[String], act: impl Fn(&str) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let all = |part: &[String]| part.iter().try_for_each(|topic| act(topic));
        let threads: Vec<_> =
            topics.chunks(topics.len().div_ceil(16)).map(|part| scope.spawn(move || all(part))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

fn configured(scratch: &Scratch, broker: &Broker, group: &str) -> Result<String> {
    let path = scratch.path().join("highwater.toml");
    let text = format!(
        "[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"{group}\"\nnew_topics_every = \"1s\"\n\
         [batch]\nage = \"500ms\"\n[[table]]\ntopics = '{group}\\.(\\w+)'\nname = \"$1\"\nlocation = \"{}/$1\"\n",
        broker.bootstrap,
        scratch.path().join("lake").display()
    );
    std::fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

/// Waits until the group has acknowledged all of these topics.
fn caught_up(broker: &Broker, group: &str, topics: &[String], process: &mut Process) -> Result<()> {
    for topic in topics {
        wait(PATIENCE, &format!("{topic} is not caught up"), || {
            ensure!(process.ended()?.is_none(), "{}", process.log());
            let acknowledged = broker.committed(group, topic)?;
            Ok(acknowledged.iter().zip(broker.end_offsets(topic)?).all(|(a, end)| a.unwrap_or(0) == end))
        })?;
    }
    Ok(())
}

#[test]
fn topics_that_match_become_tables_and_so_do_those_that_come_while_it_runs() -> Result<()> {
    const GROUP: &str = "discovery";
    let stack = shared()?;
    let scratch = Scratch::new(GROUP)?;
    let broker = &stack.kafka.broker();
    let topic = |name: &str| format!("{GROUP}.{name}");
    for name in ["first", "empty", "plain"] {
        broker.create_topic(&topic(name), 2)?;
    }
    broker.create_topic("another.first", 1)?;
    fill(broker, &topic("first"), 0..50)?;
    fill(broker, "another.first", 0..1)?;
    broker.produce(
        &topic("plain"),
        0,
        Some(br#"{"id":1}"#),
        Some(br#"{"op":"c","after":{"id":1},"source":{"lsn":8}}"#),
    )?;
    let config = configured(&scratch, broker, GROUP)?;

    let checked = highwater(["check", "--config", &config])?;
    ensure!(checked.stdout.contains("table first: topic discovery.first has 2 partition(s)"), "{}", checked.stdout);
    ensure!(checked.stdout.contains("discovery.plain: its records do not name their columns"), "{}", checked.stdout);

    let log = scratch.path().join("run.err");
    let mut process = Program::new("discovery", binary()?, &log).args(["run", "--config", &config]).start()?;
    caught_up(broker, GROUP, &[topic("first")], &mut process)?;
    let began = Instant::now();
    broker.create_topic(&topic("later"), 2)?;
    fill(broker, &topic("later"), 0..70)?;
    fill(broker, &topic("empty"), 0..5)?;
    fill(broker, &topic("first"), 50..60)?;
    caught_up(broker, GROUP, &["first", "later", "empty"].map(topic), &mut process)?;
    let took = began.elapsed().as_millis();
    let status = process.stop(Signal::TERM, Duration::from_secs(10))?;
    ensure!(status.success(), "{status}\n{}", process.log());
    let said = process.log();
    ensure!(said.contains("topic discovery.plain is left out"), "{said}");
    // one account for each table, over all the times that the tables were put together
    let received: BTreeMap<&str, i64> = ["first", "later", "empty"]
        .into_iter()
        .map(|name| {
            let line = said.lines().rev().find(|line| line.contains(&format!("table {name}: ")));
            Ok((name, line.and_then(|line| number(line, "received")).context("no account")?))
        })
        .collect::<Result<_>>()?;
    ensure!(received.values().copied().eq([5, 60, 70]), "{received:?}");
    let counts =
        "select (select count(*) from first) f, (select count(*) from later) l, (select count(note) from empty) e";
    let rows = highwater(["sql", "--config", &config, "--print", "csv", counts])?.success()?;
    ensure!(rows.stdout.lines().last() == Some("60,70,5"), "{}", rows.stdout);
    let again = highwater(["replay", "--config", &config, "--table", "later"])?;
    ensure!(again.stdout.contains("rows_changed=0"), "{}", again.stdout);
    figures(&format!("discovery: new topics caught up after {took} ms, looked for every 1000 ms"));
    Ok(())
}

#[test]
fn two_hundred_tables_live_in_one_process_within_its_memory() -> Result<()> {
    const GROUP: &str = "many";
    const TABLES: usize = 200;
    const ROWS: i64 = 200;
    let stack = shared()?;
    let scratch = Scratch::new(GROUP)?;
    let broker = &stack.kafka.broker();
    let topics: Vec<String> = (0..TABLES).map(|table| format!("{GROUP}.t{table}")).collect();
    // each call makes a client of its own, which takes its time
    each(&topics, |topic| {
        broker.create_topic(topic, 1)?;
        fill(broker, topic, 0..ROWS)
    })?;
    let config = configured(&scratch, broker, GROUP)?;
    let text = std::fs::read_to_string(&config)? + "[memory]\nlimit = \"512MiB\"\n";
    std::fs::write(&config, text)?;
    let log = scratch.path().join("run.err");
    let began = Instant::now();
    let mut process = Program::new("many", binary()?, &log).args(["run", "--config", &config]).start()?;
    // one client for all: each new one has to find the group first
    let reader = broker.reader(GROUP)?;
    let mut wait_for = |topics: &[String], end: i64| {
        wait(PATIENCE, &format!("the group has not read {end} records of each topic"), || {
            ensure!(process.ended()?.is_none(), "{}", process.log());
            for topic in topics {
                if committed(&reader, topic, 1)? != [Some(end)] {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    };
    wait_for(&topics, ROWS)?;
    let filled = began.elapsed().as_millis();
    // one busy table does not hold up the others
    fill(broker, &topics[0], ROWS..ROWS + 200_000)?;
    let began = Instant::now();
    each(&topics[1..], |topic| fill(broker, topic, ROWS..ROWS + 1))?;
    wait_for(&topics[1..], ROWS + 1)?;
    let others = began.elapsed().as_millis();
    wait_for(&topics[..1], ROWS + 200_000)?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let peak: Option<i64> =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    let peak: i64 = peak.context("no VmHWM")? / 1024;
    let status = process.stop(Signal::TERM, Duration::from_secs(10))?;
    ensure!(status.success(), "{status}\n{}", process.log());
    let all =
        (1..TABLES).map(|table| format!("select count(*) n from t{table}")).collect::<Vec<_>>().join(" union all ");
    let rows =
        highwater(["sql", "--config", &config, "--print", "csv", &format!("select sum(n), min(n) from ({all})")])?;
    let rows = rows.success()?.stdout;
    let expected = format!("{},{}", (ROWS + 1) * (i64::try_from(TABLES)? - 1), ROWS + 1);
    ensure!(rows.lines().last() == Some(&expected), "{rows}");
    figures(&format!(
        "many tables: tables={TABLES} filled_ms={filled} others_beside_a_busy_one_ms={others} peak_mib={peak} limit_mib=512"
    ));
    ensure!(peak < 512 * 6 / 5, "{peak} MiB are more than the limit and a fifth");
    Ok(())
}
