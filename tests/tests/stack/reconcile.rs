//! `highwater reconcile`: a replica that is equal is found equal while everything moves, and of one that is not each row is named.
//!
//! Rows come to differ as they do where a connector loses events: the publication does not have the table for a moment.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use highwater_tests::highwater::{Highwater, Output};
use highwater_tests::process::Signal;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::{HOST, shared};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::kills::{SEED, under_load, under_rounds};
use crate::verdict::figures;

/// Lets a config reach the source.
pub(crate) fn with_source(highwater: &Highwater, shop: &Shop) -> Result<()> {
    let (port, database) = (shop.database.port, &shop.database.name);
    let section = format!("[source]\nurl = \"postgres://cdc:cdc@{HOST}:{port}/{database}\"\n\n[batch]");
    highwater.change("[batch]", &section)
}

/// A number that a longer run sets: `HIGHWATER_RECONCILE_ROWS`, `_RUNS` and `_TRIALS`.
fn setting(name: &str, default: u32) -> Result<u32> {
    match std::env::var(format!("HIGHWATER_RECONCILE_{name}")) {
        Ok(number) => number.parse().with_context(|| format!("HIGHWATER_RECONCILE_{name} is no number")),
        Err(_) => Ok(default),
    }
}

/// Rows of orders, faster than the generator makes them.
fn fill(shop: &Shop, rows: u32) -> Result<()> {
    shop.database.execute(&format!(
        "insert into orders select nextval('order_ids'), n % 1000, 'filled', n / 7.0, clock_timestamp() \
         from generate_series(1, {rows}) n"
    ))
}

/// What a comparison says, with its exit status.
fn reconcile(highwater: &Highwater, arguments: &[&str]) -> Result<(i32, Value)> {
    let range_rows = if setting("ROWS", 0)? > 100_000 { "10000" } else { "200" };
    let output = highwater
        .output(&[&["reconcile", "--json", "--grace", "2", "--range-rows", range_rows], arguments].concat())?;
    let said = serde_json::from_str(&output.stdout).with_context(|| said(&output))?;
    Ok((output.status.code().context("it was killed")?, said))
}

/// Lets a test end with a comparison: the replica, which has come to the end, equals the source.
pub(crate) fn equal(shop: &Shop, highwater: &Highwater) -> Result<()> {
    with_source(highwater, shop)?;
    let (status, report) = reconcile(highwater, &["--show-values"])?;
    ensure!(status == 0 && report["source"] == report["replica"], "{report}");
    Ok(())
}

fn said(output: &Output) -> String {
    format!("{}\n{}", output.stdout, output.stderr)
}

#[test]
fn a_replica_is_found_equal_again_and_again_under_load() -> Result<()> {
    let (rows, runs) = (setting("ROWS", 3_000)?, setting("RUNS", 8)?);
    let stack = shared()?;
    let shop = Shop::open(&stack, "reconciled", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("reconciled")?, &shop)?;
    with_source(&highwater, &shop)?;
    fill(&shop, rows)?;
    shop.connect()?;
    let mut process = highwater.run()?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    let is_long = rows > 100_000;
    let start = Instant::now();
    let load = |round| {
        if is_long {
            // as fast as it goes
            shop.generate(200, 700, 100, 1_000 + round).map(|()| 1_000)
        } else {
            shop.generate_slowly(100, 350, 50, 1_000 + round).map(|()| 500)
        }
    };
    let (changes, (rows, moved)) = under_rounds(load, || {
        let (mut rows, mut moved) = (0, 0);
        for run in 0..runs {
            let connections = if run % 2 == 0 { "1" } else { "2" };
            let (status, report) = reconcile(&highwater, &["--connections", connections])?;
            ensure!(status == 0 && report["verdict"] == "equal", "{report}");
            ensure!(report["source"] == report["replica"] || report["ranges_looked_into"] != 0, "{report}");
            rows += report["source"]["rows"].as_u64().context("no rows")?;
            moved += report["moved"].as_u64().context("no moved rows")?;
        }
        Ok((rows, moved))
    })?;
    ensure!(rows > 0 && moved > 0, "{rows} rows were compared, and {moved} had moved");
    highwater.stop(process)?;
    figures(&format!(
        "reconciled under load: runs={runs} changes={changes} rows_compared={rows} moved={moved} seconds={:.0}",
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Changes that nobody is told of; gives what becomes of each row in the replica.
fn lose(shop: &Shop, random: &mut StdRng, trial: u32) -> Result<BTreeMap<String, &'static str>> {
    let mut expected = BTreeMap::new();
    let mut changes = vec!["alter publication shop_pub drop table orders".to_owned()];
    let mut rows: Vec<i64> = Vec::new();
    let count = random.random_range(1..=6);
    let mut client = shop.database.client()?;
    let query = format!("select order_id from orders where order_id > 0 order by random() limit {count}");
    for row in client.query(query.as_str(), &[])? {
        rows.push(row.get(0));
    }
    for row in rows {
        let kind = ["extra", "amount", "status", "updated_at", "customer_id"][random.random_range(0..5)];
        changes.push(match kind {
            "extra" => format!("delete from orders where order_id = {row}"),
            "amount" => format!("update orders set amount = coalesce(amount, 0) + 0.01 where order_id = {row}"),
            "status" => {
                format!("update orders set status = coalesce(status || ' ', 'it was null') where order_id = {row}")
            }
            "updated_at" => {
                format!("update orders set updated_at = updated_at + interval '1 microsecond' where order_id = {row}")
            }
            _ => format!(
                "update orders set customer_id = case when customer_id is null then 7 end where order_id = {row}"
            ),
        });
        expected.insert(row.to_string(), kind);
    }
    if random.random_bool(0.5) {
        let row = 10_000_000 + trial;
        changes.push(format!("insert into orders (order_id, status) values ({row}, 'nobody knows')"));
        expected.insert(row.to_string(), "missing");
    }
    // each a transaction of its own, as the publication counts at the time of a change
    changes.push("alter publication shop_pub add table orders".to_owned());
    changes.iter().try_for_each(|change| shop.database.execute(change))?;
    Ok(expected)
}

/// The rows that a comparison names, with their kind, or the one column in which they differ.
fn named(report: &Value) -> Result<BTreeMap<String, String>> {
    let rows = report["drift"].as_array().context("no drift")?.iter().map(|row| {
        let key = row["key"][0].as_str().context("no key")?.to_owned();
        let columns: Vec<_> = row["columns"].as_array().context("no columns")?.iter().collect();
        let kind = match (row["difference"].as_str(), columns.as_slice()) {
            (Some("different"), [column]) => column["column"].as_str().context("no column")?.to_owned(),
            (Some(kind), []) => kind.to_owned(),
            _ => row.to_string(),
        };
        Ok((key, kind))
    });
    rows.collect()
}

#[test]
fn rows_that_differ_are_named_each_by_its_kind_at_rest_and_under_load() -> Result<()> {
    let (rows, trials) = (setting("ROWS", 3_000)?, setting("TRIALS", 6)?);
    let seed: u64 = match std::env::var(SEED) {
        Ok(seed) => seed.parse().with_context(|| format!("{SEED} is no number"))?,
        Err(_) => rand::random_range(0..1_000_000_000),
    };
    figures(&format!("drift: {SEED}={seed}"));
    let random = &mut StdRng::seed_from_u64(seed);
    let stack = shared()?;
    let shop = Shop::open(&stack, "drifted", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("drifted")?, &shop)?;
    with_source(&highwater, &shop)?;
    let record = stack.scratch.folder("drifted-record")?.join("repaired.ndjson");
    fill(&shop, rows)?;
    shop.connect()?;
    let mut process = highwater.run()?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    let mut planted = 0;
    for trial in 0..trials {
        let lost = lose(&shop, random, trial)?;
        planted += lost.len();
        let (status, report) = reconcile(&highwater, &[])?;
        ensure!(status == 1 && report["verdict"] == "drift", "{lost:?}\n{report}");
        let expected = lost.iter().map(|(key, kind)| (key.clone(), (*kind).to_owned())).collect();
        ensure!(named(&report)? == expected, "{lost:?}\n{report}");

        if trial % 3 == 0 {
            let dry = highwater.output(&["repair", "--grace", "2"])?;
            ensure!(dry.stderr.contains("nothing was changed"), "{}", said(&dry));
        }
        let (status, report) = reconcile(&highwater, &["--repair", "--record", &record.to_string_lossy()])?;
        ensure!(status == 1 && named(&report)? == expected, "{report}");
        let count = |what: &str| report["repaired"][what].as_u64().unwrap_or_default();
        let extra = lost.values().filter(|kind| **kind == "extra").count() as u64;
        ensure!((count("deleted"), count("written")) == (extra, lost.len() as u64 - extra), "{lost:?}\n{report}");
        let (status, report) = reconcile(&highwater, &[])?;
        ensure!(status == 0 && report["source"] == report["replica"], "{report}");
    }
    let recorded = std::fs::read_to_string(&record)?.lines().count();
    ensure!(recorded == planted, "{recorded} rows were recorded of {planted}");
    // what was repaired changes as everything else does
    shop.database.execute("update orders set status = 'again', amount = 1")?;
    let (status, report) = reconcile(&highwater, &[])?;
    ensure!(status == 0, "{report}");

    // rows beyond the load's reach, which nobody is told of while it runs
    shop.database
        .execute("insert into orders (order_id, status) select n, 'still' from generate_series(-1000, -101) n")?;
    under_load(&shop, || {
        for change in [
            "alter publication shop_pub set (publish = 'insert')",
            "update orders set status = 'unheard of' where order_id = -500",
            "delete from orders where order_id = -501",
            "alter publication shop_pub set (publish = 'insert, update, delete, truncate')",
        ] {
            shop.database.execute(change)?;
        }
        let (status, report) = reconcile(&highwater, &["--up-to", "-101"])?;
        let expected =
            BTreeMap::from([("-500".to_owned(), "status".to_owned()), ("-501".to_owned(), "extra".to_owned())]);
        ensure!(status == 1 && named(&report)? == expected, "{report}");
        Ok(())
    })?;
    highwater.stop(process)?;
    figures(&format!("drift: trials={trials} rows={planted} false_alarms=0"));
    Ok(())
}

#[test]
fn who_cannot_compare_says_why_and_what_to_do() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "incomparable", 1)?;
    let highwater = Highwater::configure(&stack.scratch.folder("incomparable")?, &shop)?;
    shop.generate(50, 0, 0, 1)?;
    shop.connect()?;
    let refused = |arguments: &[&str], sign: &str| -> Result<()> {
        let output = highwater.output(&[&["reconcile"], arguments].concat())?;
        ensure!(output.status.code() == Some(2) && output.stderr.contains(sign), "{sign}: {}", said(&output));
        Ok(())
    };
    refused(&[], "[source] is missing")?;
    with_source(&highwater, &shop)?;
    refused(&["nothing"], "the config has no table `nothing`")?;
    refused(&[], "run first")?;
    highwater.catch_up()?;
    shop.generate(50, 0, 0, 2)?;
    shop.delivered()?;
    refused(&["--wait", "4", "--grace", "1"], "is highwater running")?;
    highwater.catch_up()?;
    let (status, report) = reconcile(&highwater, &[])?;
    ensure!(status == 0 && report["source"]["rows"].as_i64() >= Some(100), "{report}");

    // what a person sees with psql
    let output = highwater.output(&["reconcile", "--show-sql"])?;
    let (first, sql) = output.stdout.split_once("set timezone").with_context(|| said(&output))?;
    let mut client = shop.database.client()?;
    let messages = client.simple_query(&format!("set timezone{sql}"))?;
    let row = messages.iter().find_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = row.context("no row")?;
    let column = |name: &str| row.get(name).unwrap_or_default();
    let line = format!("rows={} ordered={} sum={}", column("rows"), column("ordered"), column("sum"));
    ensure!(first.matches(&line).count() == 2, "{first}\n{line}");
    Ok(())
}

#[test]
fn a_walk_over_the_keys_says_up_to_where_a_table_is_equal_and_mends_it() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "walked", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("walked")?, &shop)?;
    with_source(&highwater, &shop)?;
    fill(&shop, 2_000)?;
    shop.connect()?;
    let mut process = highwater.run()?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    let state = stack.scratch.folder("walked-state")?.join("state.json");
    let state_file = state.to_string_lossy();
    let mut walk = highwater.start(&[
        "reconcile",
        "--continuous",
        "--range-rows",
        "100",
        "--part-ranges",
        "8",
        "--pause",
        "1",
        "--grace",
        "1",
        "--repair",
        "--state",
        &state_file,
    ])?;
    let known = |what: &str| -> Result<Value> {
        if !state.exists() {
            return Ok(Value::Null);
        }
        Ok(serde_json::from_str::<Value>(&std::fs::read_to_string(&state)?)?["orders"][what].clone())
    };
    let walked = Duration::from_mins(2);
    wait(walked, "no walk ended", || Ok(known("verified_through")?.is_string()))?;
    ensure!(known("rows")?.as_u64() >= Some(2_000), "{} rows", known("rows")?);
    let before = known("verified_through")?;
    let lost = lose(&shop, &mut StdRng::seed_from_u64(7), 1)?;
    wait(walked, "no difference was found", || Ok(known("drift")?.as_u64() > Some(0)))?;
    wait(walked, "it was not mended", || {
        Ok(known("drift")?.as_u64() == Some(0) && known("verified_through")? != before)
    })?;
    let status = walk.stop(Signal::TERM, Duration::from_secs(20))?;
    ensure!(status.success(), "{status} on SIGTERM\n{}", walk.log());
    let (status, report) = reconcile(&highwater, &[])?;
    ensure!(status == 0, "{report}");
    highwater.stop(process)?;
    figures(&format!("walked over: lost={} mended={}", lost.len(), lost.len()));
    Ok(())
}

/// What Debezium 3.6 does when it is killed before it has committed an offset: it takes a new snapshot, and what happened in between
/// never arrives. A row that was deleted then stays in the replica.
#[test]
fn rows_that_were_deleted_while_a_connector_had_no_slot_are_found_and_removed() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "gap", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("gap")?, &shop)?;
    with_source(&highwater, &shop)?;
    fill(&shop, 1_000)?;
    shop.connect()?;
    let mut process = highwater.run()?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    shop.worker.forget_offsets(&shop.name)?;
    shop.drop_slot()?;
    shop.database.execute(
        "delete from orders where order_id % 100 = 7; update orders set status = 'gap' where order_id % 100 = 8",
    )?;
    let gone: i64 = shop.database.value("select 1000 - count(*) from orders where order_id > 0")?;
    shop.worker.resume(&shop.name)?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    let (status, report) = reconcile(&highwater, &["--repair"])?;
    let found = named(&report)?;
    ensure!(
        status == 1 && found.len() == usize::try_from(gone)? && found.values().all(|kind| kind == "extra"),
        "{report}"
    );
    let (status, report) = reconcile(&highwater, &[])?;
    ensure!(status == 0 && report["source"] == report["replica"], "{report}");
    highwater.stop(process)?;
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0, "a replay changed {replay:?}");
    figures(&format!("gap of a re-snapshot: deleted={gone} found={} repaired={}", found.len(), found.len()));
    Ok(())
}

/// A key of two columns, of which one is ordered by neither its bytes nor the replica's way, and changes.
#[test]
fn rows_of_a_key_of_several_columns_in_any_order_are_compared() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "composite", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("composite")?, &shop)?;
    with_source(&highwater, &shop)?;
    highwater.change("key = [\"order_id\"]", "key = [\"status\", \"order_id\"]")?;
    shop.database.execute(
        "create extension citext; alter table orders drop constraint orders_pkey; alter table orders alter status type citext; \
         alter table orders add unique (order_id), add primary key (status, order_id); \
         insert into orders select n, n, (array['new', 'Ärger', 'it''s', 'b\\', ''])[1 + n % 5], n \
         from generate_series(1, 2000) n",
    )?;
    shop.connect()?;
    let mut process = highwater.run()?;
    shop.delivered()?;
    shop.database.execute(
        "update orders set status = 'moved' where order_id % 50 = 3; delete from orders where order_id % 50 = 4",
    )?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    let (status, report) = reconcile(&highwater, &[])?;
    ensure!(status == 0 && report["source"] == report["replica"] && report["ranges"].as_u64() > Some(5), "{report}");
    for change in [
        "alter publication shop_pub drop table orders",
        "update orders set status = 'it''s not', amount = 1 where order_id = 7",
        "update orders set amount = -1 where order_id = 8",
        "alter publication shop_pub add table orders",
    ] {
        shop.database.execute(change)?;
    }
    let keys = |report: &Value| -> Result<Vec<String>> {
        let rows = report["drift"].as_array().context("no drift")?.iter();
        Ok(rows.map(|row| format!("{} {} {}", row["difference"], row["key"][0], row["key"][1])).collect())
    };
    let (status, report) = reconcile(&highwater, &["--repair"])?;
    let expected = ["\"extra\" \"it's\" \"7\"", "\"missing\" \"it's not\" \"7\"", "\"different\" \"b\\\\\" \"8\""];
    let (mut found, mut expected) = (keys(&report)?, expected.map(str::to_owned).to_vec());
    found.sort();
    expected.sort();
    ensure!(status == 1 && found == expected, "{found:?}\n{report}");
    let (status, report) = reconcile(&highwater, &["--after", "[\"b\\\\\", \"0\"]"])?;
    ensure!(status == 0 && report["source"]["rows"].as_u64() > Some(1), "{report}");
    let (status, report) = reconcile(&highwater, &[])?;
    ensure!(status == 0 && report["source"] == report["replica"], "{report}");
    highwater.stop(process)?;
    figures("composite key: rows=2000 named=3 repaired=3");
    Ok(())
}
