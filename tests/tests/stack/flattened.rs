//! Topics that Debezium's `ExtractNewRecordState` has flattened, in every mode that leaves a sign of a delete.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use highwater_tests::broker::Record;
use highwater_tests::highwater::Highwater;
use highwater_tests::oracle;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;
use serde_json::Value;

use crate::command::highwater;
use crate::kills::under_load;
use crate::verdict::figures;

const FIELDS: &str = "op,lsn,source.sequence,source.snapshot,source.ts_ms";

/// A shop whose connector flattens, with `handling` of deletes, and a table that expects `deletes`.
fn open(stack: &highwater_tests::stack::Stack, handling: &str, deletes: &str) -> Result<(Shop, Highwater)> {
    let shop = Shop::open(stack, &format!("flattened_{}", handling.replace('-', "_")), 3)?;
    let settings = [
        ("transforms", "unwrap"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("transforms.unwrap.delete.tombstone.handling.mode", handling),
        ("transforms.unwrap.add.fields", FIELDS),
        ("transforms.unwrap.replace.null.with.default", "false"),
    ];
    let shop = shop.with_connector(&settings);
    let highwater = Highwater::configure(&stack.scratch.folder(&shop.name)?, &shop)?;
    let halt = "on_error = \"halt\"\n";
    highwater.change(halt, &format!("{halt}envelope = \"flattened\"\nflattened = {{ deletes = \"{deletes}\" }}\n"))?;
    Ok((shop, highwater))
}

/// Everything that happens to rows one by one, keys that change and come back among it.
fn change_keys(shop: &Shop) -> Result<()> {
    for sql in [
        "begin; delete from orders where order_id <= 20; \
         insert into orders select n, n, 'again', n, '2024-07-01Z' from generate_series(1, 20) n; commit",
        "delete from orders where order_id between 21 and 60",
        "insert into orders select n, null, null, null, '2024-07-02Z' from generate_series(21, 40) n",
        "update orders set order_id = order_id + 900000 where order_id between 61 and 80",
        "update orders set order_id = order_id - 900000 where order_id between 900061 and 900070",
        "begin; insert into orders values (101001, 1, 'a', 1); delete from orders where order_id = 101001; commit",
    ] {
        shop.database.execute(sql)?;
    }
    Ok(())
}

/// What the topic shows: events that were delivered twice, rewritten deletes, and null values.
#[derive(Debug, Default)]
struct Seen {
    again: usize,
    rewritten: usize,
    nulls: usize,
}

fn seen(records: &[Record]) -> Result<Seen> {
    let (mut seen, mut events) = (Seen::default(), HashSet::new());
    for record in records {
        let value = record.value.as_deref().map_or(Ok(Value::Null), serde_json::from_slice).context("no JSON")?;
        let row = value.get("payload").unwrap_or(&value);
        if row.is_null() {
            seen.nulls += 1;
            continue;
        }
        seen.rewritten += usize::from(row["__deleted"] == "true");
        let event = (record.partition, record.key.clone(), row["__op"].to_string(), row["__lsn"].to_string());
        seen.again += usize::from(!events.insert(event));
    }
    Ok(seen)
}

/// The replica equals PostgreSQL, and the whole topic once more changes nothing.
fn verdict(test: &str, shop: &Shop, highwater: &Highwater, more: &str) -> Result<Seen> {
    let records = shop.records()?;
    let digest = oracle::compare(shop, highwater)?;
    highwater.no_dead_letters()?;
    let (version, replay) = (highwater.version(), highwater.replay()?);
    ensure!(replay.rows_changed == 0 && highwater.version() == version, "{replay:?}");
    oracle::compare(shop, highwater)?;
    let seen = seen(&records)?;
    figures(&format!(
        "{test}: records={} redelivered={} rewritten_deletes={} null_values={} rows_compared={} set_hash={:016x} \
         replay_changed=0 {more}",
        records.len(),
        seen.again,
        seen.rewritten,
        seen.nulls,
        digest.rows,
        digest.set,
    ));
    Ok(seen)
}

/// Connect is killed under load until something was delivered twice.
fn kills_of_connect(handling: &str, deletes: &str) -> Result<Seen> {
    /// Most often the first is enough; each may come right after a commit of the source's offsets.
    const BOUND: u32 = 5;
    let mut stack = shared()?;
    let (shop, highwater) = open(&stack, handling, deletes)?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let mut process = highwater.run()?;
    let (changes, kills) = under_load(&shop, || {
        wait(Duration::from_mins(1), "connect committed no offset", || shop.worker.has_streamed_offsets(&shop.name))?;
        for kill in 1..=BOUND {
            let start = shop.broker.count(&shop.topic)?;
            let grown = || Ok(shop.broker.count(&shop.topic)? > start + 1_500);
            wait(Duration::from_mins(1), "the topic does not grow", grown)?;
            stack.connect.kill()?;
            stack.connect.start()?;
            shop.worker.wait_running(&shop.name)?;
            shop.delivered()?;
            if seen(&shop.records()?)?.again > 0 {
                return Ok(kill);
            }
        }
        Ok(BOUND)
    })?;
    change_keys(&shop)?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    let seen =
        verdict(&format!("flattened {handling}"), &shop, &highwater, &format!("kills={kills} changes={changes}"))?;
    ensure!(seen.again > 0, "{kills} kills and nothing was delivered twice: nothing is proven");
    Ok(seen)
}

#[test]
fn rewritten_deletes_of_a_killed_connector_end_equal() -> Result<()> {
    let seen = kills_of_connect("rewrite", "rewrite")?;
    ensure!(seen.rewritten > 0 && seen.nulls == 0, "the case did not come about: {seen:?}");
    Ok(())
}

#[test]
fn tombstones_alone_of_a_killed_connector_end_equal() -> Result<()> {
    let seen = kills_of_connect("tombstone", "tombstone")?;
    ensure!(seen.rewritten == 0 && seen.nulls > 0, "the case did not come about: {seen:?}");
    Ok(())
}

/// The other two modes, the one wrapped beside its schema.
#[test]
fn both_kinds_of_tombstones_end_equal_with_and_without_a_schema() -> Result<()> {
    let stack = shared()?;
    for (handling, deletes, has_schema) in
        [("rewrite-with-tombstone", "rewrite", true), ("delete-to-tombstone", "tombstone", false)]
    {
        let (shop, highwater) = open(&stack, handling, deletes)?;
        let schemas = has_schema.to_string();
        let converters = ["key.converter.schemas.enable", "value.converter.schemas.enable"];
        let shop = shop.with_connector(&converters.map(|converter| (converter, schemas.as_str())));
        shop.generate(300, 0, 0, 1)?;
        shop.connect()?;
        shop.generate(300, 600, 100, 2)?;
        change_keys(&shop)?;
        shop.delivered()?;
        highwater.catch_up()?;
        let seen = verdict(&format!("flattened {handling}"), &shop, &highwater, &format!("schema={has_schema}"))?;
        let is_rewritten = deletes == "rewrite";
        ensure!(seen.nulls > 0 && (seen.rewritten > 0) == is_rewritten, "the case did not come about: {seen:?}");
    }
    Ok(())
}

/// A topic that begins again has smaller offsets, and by them all of its records would look old.
#[test]
fn a_topic_of_tombstones_that_was_created_anew_is_filled_again_under_an_epoch() -> Result<()> {
    let stack = shared()?;
    let (broker, folder) = (stack.kafka.broker(), stack.scratch.folder("flattened-anew")?);
    let topic = "flattened.anew";
    let config = folder.join("highwater.toml").to_string_lossy().into_owned();
    let text = format!(
        "[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"{topic}\"\n[[table]]\nname = \"things\"\ntopic = \"{topic}\"\n\
         location = \"{}/things\"\nkey = [\"id\"]\nenvelope = \"flattened\"\nflattened = {{ deletes = \"tombstone\" }}\n\
         columns = {{ id = \"long\", note = \"string\" }}\n",
        broker.bootstrap,
        folder.display(),
    );
    std::fs::write(&config, text)?;
    let put = |id: i64, note: Option<&str>| {
        let value = note.map(|note| format!(r#"{{"id":{id},"note":"{note}"}}"#));
        let key = format!(r#"{{"id":{id}}}"#);
        broker.produce(topic, 0, Some(key.as_bytes()), value.as_deref().map(str::as_bytes))
    };
    let run = |more: &[&str]| highwater(["run", "--until-caught-up", "--config", &config].iter().chain(more));
    let rows = || -> Result<String> {
        let query = "select id || note from things_current order by id";
        let said = highwater(["sql", "--config", &config, "--print", "csv", query])?.success()?;
        Ok(said.stdout.lines().skip(1).collect::<Vec<_>>().join(" "))
    };
    broker.create_topic(topic, 1)?;
    for (id, note) in [(1, Some("a")), (2, Some("a")), (3, Some("a")), (2, None)] {
        put(id, note)?;
    }
    run(&[])?.success()?;
    ensure!(rows()? == "1a 3a", "{}", rows()?);
    broker.delete_topic(topic)?;
    broker.create_topic(topic, 1)?;
    for (id, note) in [(1, Some("b")), (2, Some("b"))] {
        put(id, note)?;
    }
    for refused in [&[][..], &["--accept-topic", "things"]] {
        let said = run(refused)?;
        let remedy = "`highwater run --accept-epoch things@1`";
        ensure!(!said.status.success() && said.stderr.contains(remedy), "{refused:?}: {}", said.stderr);
        ensure!(rows()? == "1a 3a", "{}", rows()?);
    }
    for _ in 0..2 {
        run(&["--accept-epoch", "things@1"])?.success()?;
        ensure!(rows()? == "1b 2b", "{}", rows()?);
    }
    put(1, None)?;
    run(&[])?.success()?;
    ensure!(rows()? == "2b", "{}", rows()?);
    let said = highwater(["replay", "--config", &config, "--table", "things"])?.success()?;
    ensure!(said.stdout.contains("rows_changed=0"), "{}", said.stdout);
    figures("flattened anew: halted=2 accepted=1 replay_changed=0");
    Ok(())
}
