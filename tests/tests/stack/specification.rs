//! `sql/apply.sql` on the real PostgreSQL, `change::model` and the Delta replica: three ways from the same messages to the same rows.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use change::model::{self, Value as Cell};
use change::{Lsn, Order};
use highwater_tests::broker::Record;
use highwater_tests::order::events;
use highwater_tests::stack::{repository_file, shared};
use postgres::Client;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::command::{Shape, highwater};
use crate::histories::history;
use crate::verdict::figures;

/// The variable that repeats an earlier run's histories.
const SEED: &str = "HIGHWATER_TEST_SEED";
const HISTORIES: u64 = 48;

/// Order, soft-deleted, status and amount.
type Row = (Order, bool, Option<String>, Option<String>);
type Rows = BTreeMap<i64, Row>;

fn insert(client: &mut Client, lines: &[Value]) -> Result<()> {
    let insert = "insert into messages select * from jsonb_populate_recordset(null::messages, $1::text::jsonb)";
    client.execute(insert, &[&Value::from(lines).to_string()])?;
    Ok(())
}

/// Calls a procedure and gives its named results.
fn call(client: &mut Client, call: &str, names: &[&str]) -> Result<BTreeMap<String, i64>> {
    let row = client.query_one(call, &[]).with_context(|| call.to_owned())?;
    names.iter().map(|name| Ok(((*name).to_owned(), row.try_get(*name)?))).collect()
}

/// Applies a range and checks its account; gives the rows that changed.
fn apply(client: &mut Client, arguments: &str) -> Result<i64> {
    let names = ["received", "merged", "superseded", "guarded", "no_change", "rows_changed"];
    let counts = call(client, &format!("call apply_messages({arguments})"), &names)?;
    let sum: i64 = names[1..5].iter().map(|name| counts[*name]).sum();
    ensure!(counts["received"] == sum, "apply_messages({arguments}) does not add up: {counts:?}");
    Ok(counts["rows_changed"])
}

fn order(anchor: impl TryInto<u64>, lsn: impl TryInto<u64>) -> Result<Order> {
    let lsn_of = |number: Option<u64>| Ok::<_, anyhow::Error>(Lsn::try_from(number.context("not an LSN")?)?);
    Ok(Order { anchor: lsn_of(anchor.try_into().ok())?, lsn: lsn_of(lsn.try_into().ok())? })
}

#[test]
fn the_worked_example_in_plain_sql_gives_its_table_and_a_replay_changes_nothing() -> Result<()> {
    let stack = shared()?;
    let mut client = stack.postgres.create_database("worked_example")?.client()?;
    client.batch_execute(&repository_file("sql/apply.sql")?)?;
    let lines = repository_file("testdata/worked_example/messages.ndjson")?;
    let lines = lines.lines().map(|line| Ok(serde_json::from_str(line)?)).collect::<Result<Vec<Value>>>()?;
    insert(&mut client, &lines)?;
    let columns = "order_id integer not null, status text, amount numeric(10,2)";
    client
        .batch_execute(&format!("call create_replica('shop.public.orders', 'orders', '{columns}', '{{order_id}}')"))?;
    for range in ["1, 4", "5, 8", "9, 11"] {
        apply(&mut client, &format!("'shop.public.orders', {range}"))?;
    }
    let replayed = call(&mut client, "call replay_messages('shop.public.orders')", &["received", "rows_changed"])?;
    ensure!((replayed["received"], replayed["rows_changed"]) == (11, 0), "{replayed:?}");
    let mut table = "order_id\tstatus\tamount\tsource_lsn\tis_deleted\n".to_owned();
    let query = "select format(e'%s\\t%s\\t%s\\t%s\\t%s', order_id, status, amount, source_lsn, is_deleted) \
                 from orders_replica order by order_id";
    for row in client.query(query, &[])? {
        writeln!(table, "{}", row.try_get::<_, String>(0)?)?;
    }
    ensure!(
        table == repository_file("testdata/worked_example/expected.tsv")?,
        "the replica is not the table:\n{table}"
    );
    figures("worked example in SQL: messages=11 rows=4 replay_rows_changed=0");
    Ok(())
}

#[test]
fn random_histories_through_sql_model_and_replica_leave_equal_rows() -> Result<()> {
    let seed: u64 = match std::env::var(SEED) {
        Ok(seed) => seed.parse().with_context(|| format!("{SEED} is no number"))?,
        Err(_) => rand::random_range(0..1_000_000_000),
    };
    figures(&format!("specification: {SEED}={seed}"));
    let stack = shared()?;
    let folder = stack.scratch.folder("specification")?;
    let mut client = stack.postgres.create_database("specification")?.client()?;
    client.batch_execute(&repository_file("sql/apply.sql")?)?;
    let (mut messages, mut ranges, mut deleted, mut truncated) = (0, 0, 0, 0);
    for number in 0..HISTORIES {
        let history = history(seed, number);
        let topic = format!("history{number}");
        let lines: Vec<Value> = history.records.iter().map(|record| line(&topic, record)).collect::<Result<_>>()?;
        let file = folder.join(format!("{topic}.ndjson"));
        std::fs::write(&file, lines.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n"))?;
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
        let expected = modelled(&history.records)?;
        let (in_sql, calls) = through_sql(&mut client, &topic, &lines, &mut random)?;
        let batch_rows = [2, 5, 11, 30, 64, 1000][random.random_range(0..6)];
        let in_delta = simulated(&file, &topic, batch_rows)?;
        let place = format!("seed {seed}, history {number}, {}", file.display());
        for (rows, name) in [(&in_sql, "sql/apply.sql"), (&in_delta, "the Delta replica")] {
            equal(&expected, rows, history.has_truncate).with_context(|| {
                format!("{name} differs from the model: {place}, batch rows {batch_rows}; HIGHWATER_TEST_KEEP keeps it")
            })?;
        }
        messages += lines.len();
        ranges += calls;
        deleted += expected.values().filter(|row| row.1).count();
        truncated += usize::from(history.has_truncate);
    }
    figures(&format!(
        "specification: histories={HISTORIES} with_truncates={truncated} messages={messages} sql_ranges={ranges} \
         soft_deleted_rows={deleted}"
    ));
    Ok(())
}

fn line(topic: &str, record: &Record) -> Result<Value> {
    let json = |bytes: &Option<Vec<u8>>| -> Result<Value> {
        Ok(bytes.as_deref().map(serde_json::from_slice).transpose()?.unwrap_or_default())
    };
    let (key, value) = (json(&record.key)?, json(&record.value)?);
    Ok(json!({"topic": topic, "partition": record.partition, "offset": record.offset, "key": key, "value": value}))
}

/// One message after the other through the reference model, ordered apart from the product's decoder.
fn modelled(records: &[Record]) -> Result<Rows> {
    let mut replica = model::Replica::<i64, String>::new(2);
    for event in events(records)? {
        let order = order(event.anchor, event.lsn)?;
        let id = serde_json::from_str::<Value>(&event.key).ok().and_then(|key| key["id"].as_i64());
        match (event.op.as_deref(), id) {
            (None, _) => {}
            (Some("t"), _) => replica.truncate(order),
            (Some("d"), Some(id)) => _ = replica.apply(id, order, model::Change::Delete),
            (Some(_), Some(id)) => {
                let after: Value = serde_json::from_str(&event.after)?;
                let cell = |name: &str| Cell::Sent(after[name].as_str().map(str::to_owned));
                replica.apply(id, order, model::Change::Upsert(vec![cell("status"), cell("amount")]));
            }
            (Some(op), None) => bail!("{op} without a key"),
        }
    }
    let row = |row: model::Row<String>| -> Result<Row> {
        let [status, amount] = row.values.try_into().ok().context("two values")?;
        Ok((row.order, row.is_deleted, status, amount))
    };
    replica.rows.into_iter().map(|(id, stored)| Ok((id, row(stored)?))).collect()
}

/// Random ranges of offsets, earlier ones again, and everything once more at the end, which must change nothing.
fn through_sql(client: &mut Client, topic: &str, lines: &[Value], random: &mut StdRng) -> Result<(Rows, usize)> {
    let columns = "id bigint not null, status text, amount numeric(12,2)";
    client.batch_execute(&format!("call create_replica('{topic}', '{topic}', '{columns}', '{{id}}')"))?;
    insert(client, lines)?;
    client.batch_execute("analyze messages")?;
    let last = lines.iter().filter_map(|line| line["offset"].as_i64()).max().context("no messages")?;
    let (mut next, mut calls) = (0, 0);
    while next <= last {
        let from = if random.random_bool(0.3) { random.random_range(0..=next) } else { next };
        let to = (next + random.random_range(0..20)).min(last);
        apply(client, &format!("'{topic}', {from}, {to}"))?;
        (next, calls) = (to + 1, calls + 1);
    }
    let changed = call(client, &format!("call replay_messages('{topic}')"), &["rows_changed"])?["rows_changed"];
    ensure!(changed == 0, "the replay in SQL of {topic} changed {changed} rows");
    let query = format!("select id, source_anchor, source_lsn, is_deleted, status, amount::text from {topic}_replica");
    let row = |row: postgres::Row| -> Result<(i64, Row)> {
        let order = order(row.try_get::<_, i64>(1)?, row.try_get::<_, i64>(2)?)?;
        Ok((row.try_get(0)?, (order, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?)))
    };
    Ok((client.query(&query, &[])?.into_iter().map(row).collect::<Result<Rows>>()?, calls))
}

fn simulated(file: &Path, topic: &str, batch_rows: u32) -> Result<Rows> {
    let shape = Shape::new(topic, &["id"], &["id:long", "status:string", "amount:decimal(12,2)@text"]);
    let mut args = vec!["simulate".to_owned(), file.to_string_lossy().into_owned()];
    args.extend(["--print".into(), "json".into(), "--batch-rows".into(), batch_rows.to_string()]);
    args.extend(shape.flags());
    let said = highwater(args)?.success()?;
    said.counts()?;
    let row = |row: &Value| -> Result<(i64, Row)> {
        let order =
            order(row["source_anchor"].as_i64().context("no anchor")?, row["source_lsn"].as_i64().context("no LSN")?)?;
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        let is_deleted = row["is_deleted"].as_bool().context("no is_deleted")?;
        Ok((row["id"].as_i64().context("no id")?, (order, is_deleted, text("status"), text("amount"))))
    };
    said.objects()?.iter().map(row).collect()
}

/// Equal live rows with their orders. Soft-deleted rows too, but after a truncate: a row that came and went within one batch leaves none.
fn equal(expected: &Rows, got: &Rows, has_truncate: bool) -> Result<()> {
    let compared = |row: &&Row| !has_truncate || !row.1;
    for id in expected.keys().chain(got.keys()) {
        let (ours, theirs) = (expected.get(id).filter(compared), got.get(id).filter(compared));
        ensure!(ours == theirs, "key {id}: {theirs:?}, not {ours:?}");
    }
    Ok(())
}
