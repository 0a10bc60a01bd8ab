//! Tables in `s3://`, against an S3 server that checks signatures and honours conditional puts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use highwater_tests::highwater::{Highwater, Output};
use highwater_tests::oracle;
use highwater_tests::process::Process;
use highwater_tests::s3::{BUCKET, Recorded, S3, SECRET};
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;

use crate::verdict::figures;

const WORKED_EXAMPLE: &str = "testdata/worked_example/messages.ndjson";
const WORKED_EXAMPLE_COLUMNS: &str = "order_id = \"long\"\nstatus = \"string\"\namount = \"decimal(12,2)@text\"\n";

/// 414 messages with an incremental snapshot and a truncate.
const ORDERS: &str = "testdata/debezium/orders_lsn.ndjson";
const ORDERS_COLUMNS: &str = "order_id = \"long\"\ncustomer_id = \"long\"\nstatus = \"string\"\n\
     amount = \"decimal(12,2)@base64\"\nupdated_at = \"timestamp\"\n";

/// Records a batch of them.
const BATCH: u32 = 8;

fn at(table: &str) -> String {
    format!("s3://{BUCKET}/{table}")
}

#[test]
fn a_table_in_s3_is_written_and_read_back_and_a_rerun_commits_nothing() -> Result<()> {
    let scratch = Scratch::new("s3")?;
    let server = S3::start_new(&scratch)?;
    let began = Instant::now();
    let home = scratch.folder("written")?;
    let table = Recorded::configure(&home, &server.store(SECRET), &at("written"), WORKED_EXAMPLE_COLUMNS)?;

    table.apply(WORKED_EXAMPLE, 4)?;
    let rows = table.rows()?;
    let first = server.versions("written");
    table.apply(WORKED_EXAMPLE, 4)?;

    let expected = "order_id,status,amount,source_lsn,is_deleted\n1,shipped,25.00,120,false\n2,paid,10.00,160,true\n\
                    3,paid,60.00,150,false\n4,paid,15.00,170,false\n";
    let query = "select order_id, status, amount, source_lsn, is_deleted from orders order by order_id";
    let asked = table.ask(query)?;
    ensure!(asked.stdout == expected, "{}{}", asked.stdout, asked.stderr);
    ensure!(rows == table.rows()? && rows == table.in_memory(WORKED_EXAMPLE, 4)?, "{rows}");
    ensure!(first == server.versions("written"), "the rerun made commits");
    figures(&format!("s3 written: rows={} versions={} took_ms={}", rows.lines().count() - 1, first.len(), ms(began)));
    Ok(())
}

#[test]
fn two_writers_at_once_make_the_table_of_one() -> Result<()> {
    let scratch = Scratch::new("s3")?;
    let server = S3::start_new(&scratch)?;
    let began = Instant::now();
    let home = scratch.folder("shared")?;
    let table = Recorded::configure(&home, &server.store(SECRET), &at("shared"), ORDERS_COLUMNS)?;

    let writers = [table.start(ORDERS, BATCH)?, table.start(ORDERS, BATCH)?];
    let (mut commits, mut lost) = (Vec::new(), 0);
    for writer in writers {
        let output = table.end(writer)?;
        ensure!(output.status.success(), "{}\n{}", output.status, output.stderr);
        commits.push(committed(&output.stderr));
        lost += output.stderr.matches("another writer was faster").count();
    }

    ensure!(table.rows()? == table.in_memory(ORDERS, BATCH)?, "two writers made another table than one");
    // Without a conditional put both would believe that a version is theirs, and the work of one would be gone.
    let both: Vec<_> = commits[0].intersection(&commits[1]).collect();
    ensure!(both.is_empty(), "two writers committed the versions {both:?}");
    ensure!(lost > 0, "the writers never met");
    let (versions, commits) = (server.versions("shared").len(), [commits[0].len(), commits[1].len()]);
    figures(&format!(
        "s3 two writers: versions={versions} batches_with_changes={commits:?} lost_races={lost} took_ms={}",
        ms(began)
    ));
    Ok(())
}

#[test]
fn a_server_that_dies_and_one_that_freezes_under_load_lose_nothing() -> Result<()> {
    let scratch = Scratch::new("s3")?;
    let mut server = S3::start_new(&scratch)?;
    let began = Instant::now();
    let home = scratch.folder("outage")?;
    let table = Recorded::configure(&home, &server.store(SECRET), &at("outage"), ORDERS_COLUMNS)?;

    let writer = table.start(ORDERS, BATCH)?;
    reaches(&server, 15)?;
    server.kill()?;
    let killed_at = server.versions("outage").len();
    server.start()?;
    reaches(&server, killed_at + 15)?;
    server.freeze()?;
    let frozen_at = server.versions("outage").len();
    std::thread::sleep(Duration::from_secs(1));
    server.thaw()?;

    let output = table.end(writer)?;
    ensure!(output.status.success(), "{}\n{}", output.status, output.stderr);
    let versions = server.versions("outage").len();
    ensure!(frozen_at < versions, "it was frozen after the end");
    ensure!(table.rows()? == table.in_memory(ORDERS, BATCH)?, "the outages left another table");
    figures(&format!(
        "s3 outage: killed_at_version={killed_at} frozen_at_version={frozen_at} versions={versions} took_ms={}",
        ms(began)
    ));
    Ok(())
}

#[test]
fn an_outage_that_outlasts_the_store_s_own_retries_is_waited_for() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "s3_outage", 3)?;
    let mut server = S3::start_new(&stack.scratch)?;
    let mut highwater = Highwater::configure(&stack.scratch.folder("s3_outage")?, &shop)?;
    highwater.store_in(&server, "outlasted")?;
    shop.generate(200, 100, 20, 1)?;
    shop.connect()?;
    shop.delivered()?;
    highwater.catch_up()?;

    let mut process = highwater.run()?;
    process.wait_until("reading", Duration::from_mins(1), || shop.broker.members(&highwater.group).ok() == Some(1))?;
    server.kill()?;
    let began = Instant::now();
    shop.generate(100, 100, 20, 2)?;
    shop.delivered()?;
    // Attempts fail in different places: a file of rows is read or written, and from the second on the log is read again.
    let given_up = |process: &Process| process.log().matches("will try again").count();
    wait(Duration::from_mins(2), "the store's own retries did not end", || {
        ensure!(process.ended()?.is_none(), "it ended in the outage{}", process.log());
        Ok(given_up(&process) >= 5)
    })?;
    let (attempts, away) = (given_up(&process), ms(began));
    server.start()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    let digest = oracle::compare(&shop, &highwater)?;
    figures(&format!(
        "s3 long outage: away_ms={away} failed_attempts={attempts} rows_compared={} set_hash={:016x}",
        digest.rows, digest.set
    ));
    Ok(())
}

#[test]
fn a_store_that_cannot_be_used_ends_the_process_with_the_table_s_name_and_the_reason() -> Result<()> {
    let scratch = Scratch::new("s3")?;
    let mut server = S3::start_new(&scratch)?;
    let home = scratch.folder("refused")?;
    let mut took = Vec::new();
    let mut refused = |store: &str, location: &str, reasons: &[&str]| -> Result<()> {
        let table = Recorded::configure(&home, store, location, WORKED_EXAMPLE_COLUMNS)?;
        let began = Instant::now();
        let Output { status, stderr, .. } = table.end(table.start(WORKED_EXAMPLE, 4)?)?;
        took.push(ms(began));
        ensure!(status.code() == Some(1), "{status}\n{stderr}");
        let named = format!("table `orders` at {location}");
        for part in reasons.iter().chain([&&*named]) {
            ensure!(stderr.contains(part), "no {part:?} in: {stderr}");
        }
        Ok(())
    };

    refused(&server.store("another"), &at("refused"), &["SignatureDoesNotMatch", "check the store's credentials"])?;
    refused(&server.store(SECRET), "s3://no-bucket/refused", &["NoSuchBucket", "create the bucket"])?;
    let store = server.store(SECRET);
    server.kill()?;
    refused(&store, &at("refused"), &["retries"])?;
    figures(&format!("s3 refused: took_ms={took:?} for wrong key, no bucket, no server"));
    Ok(())
}

/// The versions that a writer's log claims for its batches that changed rows.
pub(crate) fn committed(log: &str) -> BTreeSet<u64> {
    let lines = log.lines().filter(|line| line.contains("batch is durable") && !line.ends_with("rows_changed=0"));
    lines.filter_map(|line| line.split_once(" version=")?.1.split(' ').next()?.parse().ok()).collect()
}

/// Waits until the table `outage` has so many versions.
fn reaches(server: &S3, versions: usize) -> Result<()> {
    let there = || Ok(server.versions("outage").len() >= versions);
    wait(Duration::from_mins(1), &format!("the table never had {versions} versions"), there)
}

fn ms(began: Instant) -> u128 {
    began.elapsed().as_millis()
}
