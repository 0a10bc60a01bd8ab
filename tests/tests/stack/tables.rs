//! Several tables in one process, each from its own topic.

use std::time::Duration;

use anyhow::{Result, ensure};
use highwater_tests::broker::Broker;
use highwater_tests::highwater::{binary, number};
use highwater_tests::process::{Program, Signal};
use highwater_tests::s3::{BUCKET, S3, SECRET};
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::wait;
use highwater_tests::stack;

use crate::command::highwater;
use crate::verdict::figures;

const ROWS: i64 = 40;

fn section(name: &str, topic: &str, lake: &str) -> String {
    format!(
        "[[table]]\nname = \"{name}\"\ntopic = \"{topic}\"\nlocation = \"{lake}/{name}\"\nkey = [\"id\"]\n\
         columns = {{ id = \"long\", note = \"string\" }}\n"
    )
}

#[test]
fn a_table_that_halts_leaves_the_others_of_its_process_alone() -> Result<()> {
    let stack = stack::shared()?;
    let scratch = Scratch::new("tables")?;
    let broker = &stack.kafka.broker();
    for (topic, partitions) in [("tables.a", 2), ("tables.b", 3), ("tables.bad", 1)] {
        broker.create_topic(topic, partitions)?;
        for id in 0..ROWS {
            let partition = usize::try_from(id)? % partitions;
            let key = format!(r#"{{"id":{id}}}"#);
            let note = if topic == "tables.bad" && id == 10 { "7" } else { "\"x\"" };
            let value = format!(r#"{{"op":"c","after":{{"id":{id},"note":{note}}},"source":{{"lsn":{}}}}}"#, id + 1);
            broker.produce(topic, partition, Some(key.as_bytes()), Some(value.as_bytes()))?;
        }
    }
    let lake = scratch.path().join("lake");
    let mut config = format!("[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"tables\"\n", broker.bootstrap);
    for name in ["a", "b", "bad"] {
        config += &section(name, &format!("tables.{name}"), &lake.to_string_lossy());
    }
    let path = scratch.path().join("tables.toml");
    std::fs::write(&path, config)?;
    let path = path.to_string_lossy();

    let run = highwater(["run", "--config", &path, "--until-caught-up"])?;
    ensure!(!run.status.success(), "a halted table must fail the run");
    ensure!(
        run.stderr.contains("table `bad`, tables.bad/0 offset 10: column `note`: expected a string"),
        "{}",
        run.stderr
    );
    let counts = "select (select count(*) from a) a, (select count(*) from b) b, (select count(*) from bad) bad";
    let rows = highwater(["sql", "--config", &path, "--print", "csv", counts])?.success()?;
    ensure!(rows.stdout.lines().last() == Some("40,40,10"), "{}", rows.stdout);
    ensure!(broker.committed("tables", "tables.bad")? == [Some(10)], "{:?}", broker.committed("tables", "tables.bad")?);
    ensure!(broker.committed("tables", "tables.a")? == [Some(20), Some(20)]);

    let again = highwater(["replay", "--config", &path, "--table", "a"])?;
    ensure!(again.stdout.contains("rows_changed=0"), "{}", again.stdout);
    figures(&format!("tables: tables=3 halted=1 rows={}", 2 * ROWS + 10));
    Ok(())
}

fn insert(broker: &Broker, topic: &str, ids: std::ops::Range<i64>) -> Result<()> {
    let records: Vec<_> = ids
        .map(|id| {
            let value = format!(r#"{{"op":"c","after":{{"id":{id},"note":"x"}},"source":{{"lsn":{}}}}}"#, id + 1);
            (format!(r#"{{"id":{id}}}"#), value)
        })
        .collect();
    broker.produce_all(topic, records.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())))
}

#[test]
fn a_table_whose_store_is_away_is_set_aside_and_the_other_one_goes_on() -> Result<()> {
    const PATIENCE: Duration = Duration::from_mins(2);
    let stack = stack::shared()?;
    let scratch = Scratch::new("aside")?;
    let mut store = S3::start_new(&scratch)?;
    let broker = &stack.kafka.broker();
    let [away, near] = ["aside.away", "aside.near"];
    broker.create_topic(away, 2)?;
    broker.create_topic(near, 2)?;
    let local = scratch.path().join("lake");
    let mut config = format!(
        "[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"aside\"\n[batch]\nrows = 10\nage = \"200ms\"\n{}\n",
        broker.bootstrap,
        store.store(SECRET)
    );
    config += &section("away", away, &format!("s3://{BUCKET}"));
    config += &section("near", near, &local.to_string_lossy());
    let path = scratch.path().join("aside.toml");
    std::fs::write(&path, config)?;
    let path = path.to_string_lossy();
    let log = scratch.path().join("run.err");
    let mut process = Program::new("aside", binary()?, &log).args(["--verbose", "run", "--config", &path]).start()?;
    let mut caught_up = |topic: &str| {
        wait(PATIENCE, &format!("{topic} is not caught up"), || {
            ensure!(process.ended()?.is_none(), "{}", process.log());
            let acknowledged = broker.committed("aside", topic)?;
            Ok(acknowledged.iter().zip(broker.end_offsets(topic)?).all(|(a, end)| a.unwrap_or(0) == end))
        })
    };
    insert(broker, away, 0..100)?;
    insert(broker, near, 0..100)?;
    caught_up(away)?;
    caught_up(near)?;

    store.kill()?;
    insert(broker, away, 100..200)?;
    // the member has read the first ones by the time that the others come
    std::thread::sleep(Duration::from_secs(1));
    for round in 1..5 {
        insert(broker, near, round * 100..(round + 1) * 100)?;
        caught_up(near)?;
    }
    ensure!(broker.committed("aside", away)? != broker.end_offsets(away)?.into_iter().map(Some).collect::<Vec<_>>());
    store.start()?;
    caught_up(away)?;
    let status = process.stop(Signal::TERM, Duration::from_secs(10))?;
    ensure!(status.success(), "{status}");

    let said = process.log();
    let (set_aside, retries) = (said.matches("set aside").count(), said.matches("will try again").count());
    ensure!(set_aside > 0, "{said}");
    let counts = "select (select count(*) from away) a, (select count(*) from near) n";
    let rows = highwater(["sql", "--config", &path, "--print", "csv", counts])?.success()?;
    ensure!(rows.stdout.lines().last() == Some("200,500"), "{}", rows.stdout);
    let received: i64 =
        said.lines().filter(|line| line.contains("table ")).filter_map(|line| number(line, "received")).sum();
    figures(&format!("aside: set_aside={set_aside} retries={retries} received={received} of 700"));
    ensure!(received == 700, "what was dropped unread is not counted as received, and what was read again is: once");
    Ok(())
}
