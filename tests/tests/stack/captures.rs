//! The recorded captures of `testdata/`, through `simulate` and `explain`, against what a few lines of this file make of them. No servers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::MultiGzDecoder;
use highwater_tests::broker::Record;
use highwater_tests::order::{Event, events};
use serde_json::{Map, Value};

use crate::command::{Shape, highwater};
use crate::verdict::figures;

const ORDERS: &[&str] =
    &["order_id:long", "customer_id:long", "status:string", "amount:decimal(12,2)", "updated_at:timestamp"];
/// Digits after the point of every decimal in the captures.
const SCALE: usize = 2;

type Row = Map<String, Value>;

fn testdata(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(file)
}

/// The topics whose records have keys, by file.
fn captures() -> Vec<(&'static str, Shape)> {
    let orders = |topic| Shape::new(topic, &["order_id"], ORDERS);
    let keys = |table, key: &[&'static str], columns: &[&'static str]| {
        ("keys.ndjson", Shape::new(&format!("keys.public.{table}"), key, columns))
    };
    let not_null = ["id:int", "v:string", "n:int", "m:decimal(12,2)", "ts:timestamp", "d:int", "b:boolean"];
    vec![
        ("orders.ndjson", orders("shop.public.orders")),
        ("orders_lsn.ndjson", orders("shop.public.orders")),
        ("snapshot_open_tx.ndjson", orders("late.public.orders")),
        keys("nopk", &["a", "b"], &["a:int", "b:string", "c:int"]),
        keys("compkey", &["tenant", "id"], &["tenant:string", "id:int", "v:string"]),
        keys("rid_notnull", &["id"], &not_null),
        keys("rid_default", &["id"], &["id:int", "v:string", "w:int"]),
        keys("rid_index", &["id"], &["id:int", "u:int", "v:string"]),
        keys("rid_nothing", &["id"], &["id:int", "v:string"]),
    ]
}

/// The lines of a capture that are of `topic`.
fn lines(file: &Path, topic: &str) -> Result<Vec<Value>> {
    let open = std::fs::File::open(file).with_context(|| file.display().to_string())?;
    let is_gzip = file.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn BufRead> =
        if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(open))) } else { Box::new(BufReader::new(open)) };
    let mut lines = Vec::new();
    for line in reader.lines() {
        let line: Value = serde_json::from_str(&line?)?;
        if line["topic"] == topic {
            lines.push(line);
        }
    }
    Ok(lines)
}

/// A decimal's text from the base64 of its big-endian unscaled number.
fn decimal(base64: &str) -> Result<String> {
    let bytes = STANDARD.decode(base64)?;
    let sign = if bytes.first().is_some_and(|first| *first > 127) { -1 } else { 0 };
    let unscaled = bytes.iter().fold(sign, |number: i128, byte| number * 256 + i128::from(*byte));
    let digits = format!("{:0width$}", unscaled.abs(), width = SCALE + 1);
    let (whole, fraction) = digits.split_at(digits.len() - SCALE);
    Ok(format!("{}{whole}.{fraction}", if unscaled < 0 { "-" } else { "" }))
}

/// The same instant has the same text then: no zeros at its end.
fn instant(text: &str) -> String {
    let text = text.trim_end_matches('Z');
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text.into() }
}

/// A row as both sides are to have it, from one column on to the next.
fn plain(row: &Value, shape: &Shape, decimals_are_base64: bool) -> Result<Row> {
    let column = |declared: &&str| -> Result<(String, Value)> {
        let (name, data_type) = declared.split_once(':').context("no type")?;
        let value = match &row[name] {
            Value::String(text) if data_type.starts_with("decimal") && decimals_are_base64 => decimal(text)?.into(),
            Value::String(text) if data_type == "timestamp" => instant(text).into(),
            value => value.clone(),
        };
        Ok((name.to_owned(), value))
    };
    shape.columns.iter().map(column).collect()
}

fn key(row: &Value, shape: &Shape) -> String {
    shape.key.iter().map(|name| row[*name].to_string()).collect::<Vec<_>>().join(",")
}

/// The last event of each key in topic order, truncates included: what is there at the end.
fn last_of_each_key(lines: &[Value], shape: &Shape) -> Result<BTreeMap<String, Row>> {
    let mut live = BTreeMap::new();
    for line in lines {
        let value = &line["value"];
        match value["op"].as_str() {
            None => {}
            Some("t") => live.clear(),
            Some("d") => _ = live.remove(&key(&line["key"], shape)),
            Some(_) => _ = live.insert(key(&line["key"], shape), plain(&value["after"], shape, true)?),
        }
    }
    Ok(live)
}

/// The live rows that `simulate` ends with.
fn simulated(file: &Path, shape: &Shape, batch_rows: u32) -> Result<BTreeMap<String, Row>> {
    let mut args = vec!["simulate".to_owned(), file.to_string_lossy().into_owned()];
    args.extend(["--print".into(), "json".into(), "--batch-rows".into(), batch_rows.to_string()]);
    args.extend(shape.flags());
    let said = highwater(args)?.success()?;
    said.counts()?;
    let rows = said.objects()?;
    let live = rows.iter().filter(|row| row["is_deleted"] == false);
    live.map(|row| Ok((key(row, shape), plain(row, shape, false)?))).collect()
}

#[test]
fn a_replica_of_a_capture_equals_the_last_event_of_each_key_in_any_batches() -> Result<()> {
    let (mut compared, mut rows, mut events) = (0, 0, 0);
    for (file, shape) in captures() {
        let path = testdata("debezium").join(file);
        let lines = lines(&path, &shape.topic)?;
        let expected = last_of_each_key(&lines, &shape)?;
        for batch_rows in [1, 7, 100, 100_000] {
            let replica = simulated(&path, &shape, batch_rows)?;
            ensure!(replica == expected, "{file}, {} in batches of {batch_rows}: not equal", shape.topic);
            (compared, rows, events) = (compared + 1, rows + replica.len(), events + lines.len());
        }
    }
    figures(&format!("captures: replicas={compared} messages={events} rows_compared={rows}"));
    Ok(())
}

#[test]
fn a_replica_of_the_mixed_capture_equals_the_source_in_small_and_in_large_batches() -> Result<()> {
    let shape = Shape::new("shop.public.orders", &["order_id"], ORDERS);
    let path = testdata("debezium/mix.ndjson.gz");
    let lines = lines(&path, &shape.topic)?;
    let expected = last_of_each_key(&lines, &shape)?;
    let source = std::fs::read_to_string(testdata("debezium/mix.final.txt"))?;
    let field = |row: &Row, name| row[name].as_str().unwrap_or_default().to_owned();
    for batch_rows in [100, 100_000] {
        let replica = simulated(&path, &shape, batch_rows)?;
        ensure!(replica == expected, "in batches of {batch_rows}: not the last events");
        let mut text: Vec<_> =
            replica.values().map(|r| (r["order_id"].as_i64(), field(r, "status"), field(r, "amount"))).collect();
        text.sort();
        let text: Vec<_> = text.iter().map(|(id, s, a)| format!("{}|{s}|{a}", id.unwrap_or_default())).collect();
        let mut source: Vec<_> = source.lines().collect();
        source.sort_by_key(|line| line.split('|').next().and_then(|id| id.parse::<i64>().ok()));
        ensure!(text == source, "in batches of {batch_rows}: not the source's rows");
    }
    let envelopes = lines.iter().filter(|line| !line["value"].is_null()).count();
    figures(&format!("mixed capture: messages={} envelopes={envelopes} rows={}", lines.len(), expected.len()));
    Ok(())
}

/// What the replica is to do with each event, by a map of orders.
fn actions(events: &[Event]) -> Vec<&'static str> {
    let mut stored: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut floor = (0, 0);
    let mut action = |event: &'_ Event, key| {
        let order = (event.anchor, event.lsn);
        let Some(op) = event.op.as_deref() else { return "no change" };
        if op == "t" {
            if order <= floor {
                return "guarded";
            }
            floor = order;
            for stored in stored.values_mut() {
                *stored = order.max(*stored);
            }
            return "truncate";
        }
        let before = stored.get(key).copied();
        if order <= before.unwrap_or(floor) {
            return "guarded";
        }
        stored.insert(key, order);
        match (op, before) {
            ("d", _) => "delete",
            (_, None) => "insert",
            _ => "update",
        }
    };
    events.iter().map(|event| action(event, event.key.as_str())).collect()
}

#[test]
fn explain_gives_each_captured_message_its_order_and_its_action() -> Result<()> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (file, shape) in captures() {
        let path = testdata("debezium").join(file);
        let bytes = |json: &Value| (!json.is_null()).then(|| json.to_string().into_bytes());
        let record = |line: &Value| -> Result<Record> {
            let partition = usize::try_from(line["partition"].as_u64().context("no partition")?)?;
            let offset = line["offset"].as_i64().context("no offset")?;
            Ok(Record { partition, offset, key: bytes(&line["key"]), value: bytes(&line["value"]) })
        };
        let records = lines(&path, &shape.topic)?.iter().map(record).collect::<Result<Vec<_>>>()?;
        let events = events(&records)?;
        let mut args = vec!["explain".to_owned(), path.to_string_lossy().into_owned(), "--print".into(), "json".into()];
        args.extend(shape.flags());
        let explained = highwater(args)?.success()?.objects()?;
        ensure!(explained.len() == events.len(), "{file}: {} of {} lines", explained.len(), events.len());
        for ((event, action), explained) in events.iter().zip(actions(&events)).zip(&explained) {
            let order = event.op.is_some().then_some((event.anchor, event.lsn));
            let theirs = explained["anchor"].as_u64().zip(explained["lsn"].as_u64());
            let place = format!("{}/{} offset {}", shape.topic, event.partition, event.offset);
            ensure!(explained["place"] == place, "{} is not {place}", explained["place"]);
            ensure!(order == theirs, "{file}, {place}: order {theirs:?}, not {order:?}");
            ensure!(explained["action"] == action, "{file}, {place}: {}, not {action}", explained["action"]);
            *seen.entry(action).or_default() += 1;
        }
    }
    let seen: Vec<_> = seen.iter().map(|(action, count)| format!("{}={count}", action.replace(' ', "_"))).collect();
    figures(&format!("explained messages: {}", seen.join(" ")));
    Ok(())
}

#[test]
fn explain_refuses_each_captured_change_without_a_key_by_its_place() -> Result<()> {
    let path = testdata("debezium/keys.ndjson");
    let shape = Shape::new("keys.public.nopk_nokey", &["a", "b"], &["a:int", "b:string", "c:int"]);
    let lines = lines(&path, &shape.topic)?;
    let mut args = vec!["explain".to_owned(), path.to_string_lossy().into_owned(), "--print".into(), "json".into()];
    args.extend(shape.flags());
    let explained = highwater(args)?.success()?.objects()?;
    ensure!(explained.len() == lines.len() && !lines.is_empty(), "{} of {} lines", explained.len(), lines.len());
    for (line, explained) in lines.iter().zip(&explained) {
        let place = format!("{}/{} offset {}", shape.topic, line["partition"], line["offset"]);
        let action = if line["value"].is_null() { "no change" } else { "halt" };
        ensure!(explained["place"] == place && explained["action"] == action, "{place}: {explained}, not {action}");
        let why = explained["why"].as_str().unwrap_or_default();
        ensure!(action == "no change" || why.contains("no key"), "{place}: {why}");
    }
    figures(&format!("explained messages without a key: {}", lines.len()));
    Ok(())
}

#[test]
fn the_worked_example_gives_its_table_in_three_batches_in_one_and_message_by_message() -> Result<()> {
    let messages = testdata("worked_example/messages.ndjson");
    let columns = ["order_id:long", "status:string", "amount:decimal(12,2)"];
    let shape = Shape::new("shop.public.orders", &["order_id"], &columns);
    let expected = std::fs::read_to_string(testdata("worked_example/expected.tsv"))?;
    // 4 messages a batch: offsets 1 to 4, 5 to 8, 9 to 11.
    for batch_rows in ["4", "100", "1"] {
        let mut args = vec!["simulate".to_owned(), messages.to_string_lossy().into_owned()];
        args.extend(["--print", "json", "--batch-rows", batch_rows].map(str::to_owned));
        args.extend(shape.flags());
        let said = highwater(args)?.success()?;
        ensure!(said.counts()?["received"] == 11, "{}", said.stderr);
        let mut table = "order_id\tstatus\tamount\tsource_lsn\tis_deleted\n".to_owned();
        for row in said.objects()? {
            let text = |name: &str| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
            let deleted = if row["is_deleted"] == true { "t" } else { "f" };
            let cells = ["order_id", "status", "amount", "source_lsn"].map(text);
            writeln!(table, "{}\t{deleted}", cells.join("\t"))?;
        }
        ensure!(table == expected, "in batches of {batch_rows}:\n{table}");
    }
    figures("worked example: batchings=3 rows=4");
    Ok(())
}
