//! Records that cannot be applied: each is named, by place and column and never by value, and costs the good ones nothing.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::executor::block_on;
use highwater_tests::broker::Broker;
use highwater_tests::stack::shared;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use serde_json::{Value, json};

use crate::command::{Shape, highwater};
use crate::verdict::figures;

/// Stands for a value of a row, and must not come up in any log.
pub(crate) const SECRET: &str = "SECRET";
pub(crate) const COLUMNS: [&str; 3] = ["id:long", "name:string", "amount:decimal(12,2)@text"];
const LARGE: usize = 20 << 20;

pub(crate) fn row(id: i64) -> Value {
    json!({"id": id, "name": SECRET, "amount": "1.00"})
}

pub(crate) fn envelope(id: i64, op: &str, after: &Value) -> Value {
    json!({"op": op, "after": after, "source": {"lsn": 1000 + 8 * id, "sequence": "[\"900\",\"1000\"]"}})
}

pub(crate) fn message(offset: i64, key: &Value, value: &Value) -> Value {
    json!({"topic": "t", "partition": 0, "offset": offset, "key": key, "value": value})
}

/// What is wrong, the record's key and value (a JSON string is the text itself), and what the error must say.
type Case = (&'static str, Value, Value, &'static [&'static str]);

fn cases() -> Vec<Case> {
    let key = || json!({"id": 2});
    let with = |name: &str, value: Value| {
        let mut row = row(2);
        row[name] = value;
        envelope(2, "u", &row)
    };
    let without = |field: &str| {
        let mut envelope = envelope(2, "u", &row(2));
        envelope.as_object_mut().and_then(|fields| fields.remove(field));
        envelope
    };
    let mut bad_lsn = without("source");
    bad_lsn["source"] = json!({"lsn": SECRET});
    let mut lacks_amount = row(2);
    lacks_amount.as_object_mut().and_then(|row| row.remove("amount"));
    vec![
        ("malformed JSON", key(), json!("{\"op\":\"u\",\"after\":{\"id\":2,\"name\":\"SECRET"), &["not valid JSON"]),
        ("no JSON at all", key(), json!(SECRET), &["not valid JSON"]),
        ("no object", key(), json!([1, SECRET]), &["not a Debezium envelope"]),
        ("no source", key(), without("source"), &["no source"]),
        ("no op", key(), without("op"), &["no op"]),
        ("unknown op", key(), envelope(2, "SECRET", &row(2)), &["unknown op"]),
        ("unreadable LSN", key(), bad_lsn, &["unreadable lsn"]),
        ("no row", key(), envelope(2, "u", &Value::Null), &["no row in after"]),
        ("a text for a number", key(), with("id", json!(SECRET)), &["column `id`", "integer"]),
        ("a text for a decimal", key(), with("amount", json!(SECRET)), &["column `amount`", "decimal"]),
        ("digits too many", key(), with("amount", json!("1.005")), &["column `amount`", "digits after the point"]),
        ("a number for a text", key(), with("name", json!(7)), &["column `name`", "expected a string"]),
        ("an object for a text", key(), with("name", json!({"a": SECRET})), &["column `name`", "expected a string"]),
        ("a column not configured", key(), with("more", json!(SECRET)), &["column `more`", "not configured"]),
        ("a column missing", key(), envelope(2, "u", &lacks_amount), &["column `amount`", "missing"]),
        ("a null key with a value", Value::Null, envelope(2, "u", &row(2)), &["no key"]),
        ("a key without its column", json!({"other": 2}), envelope(2, "d", &Value::Null), &["column `id`", "key"]),
        (
            "nothing to keep for an unchanged cell",
            key(),
            with("name", json!("__debezium_unavailable_value")),
            &["unchanged value", "no row"],
        ),
    ]
}

pub(crate) fn write_lines(path: &Path, lines: &[Value]) -> Result<()> {
    let text = lines.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n");
    fs::write(path, text).with_context(|| path.display().to_string())
}

pub(crate) fn simulate(file: &Path, more: &[&str]) -> Vec<String> {
    let mut args = vec!["simulate".to_owned(), file.to_string_lossy().into_owned(), "--print".into(), "json".into()];
    args.extend(Shape::new("t", &["id"], &COLUMNS).flags());
    args.extend(more.iter().map(|more| (*more).to_owned()));
    args
}

#[test]
fn each_bad_record_halts_its_table_by_name_after_the_good_ones_before_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("messages.ndjson");
    for (what, key, value, says) in cases() {
        let good = |offset: i64, id: i64| message(offset, &json!({"id": id}), &envelope(id, "c", &row(id)));
        write_lines(&file, &[good(0, 1), message(7, &key, &value), good(8, 3)])?;
        let said = highwater(simulate(&file, &["--batch-rows", "1"]))?;
        ensure!(!said.status.success(), "{what}: exit status 0");
        ensure!(!said.stderr.contains(SECRET), "{what}: a value of a row is in the log: {}", said.stderr);
        let error = said.stderr.lines().find(|line| line.contains("ERROR")).context("no error line")?;
        for part in ["table `table`", "t/0 offset 7"].iter().chain(says) {
            ensure!(error.contains(part), "{what}: `{part}` is not in: {error}");
        }
        let (counts, rows) = (said.counts()?, said.objects()?);
        ensure!(counts["received"] == 1 && counts["merged"] == 1, "{what}: {counts:?}");
        ensure!(rows.len() == 1 && rows[0]["id"] == 1, "{what}: {} rows", rows.len());
    }
    figures(&format!("bad records under halt: cases={}", cases().len()));
    Ok(())
}

#[test]
fn each_bad_record_becomes_a_dead_letter_with_its_bytes_and_the_good_ones_are_applied() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (file, letters) = (folder.path().join("messages.ndjson"), folder.path().join("dead.ndjson"));
    for batch_rows in ["1", "7", "1000"] {
        let _ = fs::remove_file(&letters);
        let (mut lines, mut bad) = (Vec::new(), Vec::new());
        for (number, case) in (0_i64..).zip(cases()) {
            let id = 100 + number;
            lines.push(message(2 * number, &json!({"id": id}), &envelope(id, "c", &row(id))));
            lines.push(message(2 * number + 1, &case.1, &case.2));
            bad.push((2 * number + 1, case));
        }
        write_lines(&file, &lines)?;
        let to = letters.to_string_lossy();
        let more = ["--batch-rows", batch_rows, "--on-error", "dead-letter", "--dead-letters", &*to];
        let said = highwater(simulate(&file, &more))?.success()?;
        ensure!(!said.stderr.contains(SECRET), "a value of a row is in the log: {}", said.stderr);
        let (counts, rows) = (said.counts()?, said.objects()?);
        let all = u64::try_from(bad.len())?;
        ensure!((counts["merged"], counts["dead_lettered"]) == (all, all), "{counts:?}");
        ensure!(rows.len() == bad.len() && rows.iter().all(|row| row["name"] == SECRET), "{} rows", rows.len());

        let written = fs::read_to_string(&letters)?;
        let mut written: Vec<Value> = written.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        written.sort_by_key(|letter| letter["offset"].as_i64());
        ensure!(written.len() == bad.len(), "{} dead letters", written.len());
        for (letter, (offset, (what, key, value, says))) in written.iter().zip(&bad) {
            let text = |json: &Value| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
            let place = json!([letter["table"], letter["topic"], letter["partition"], letter["offset"]]);
            ensure!(place == json!(["table", "t", 0, offset]), "{what}: {place}");
            ensure!(letter["value"] == text(value), "{what}: not the raw value");
            ensure!(key.is_null() && letter["key"].is_null() || letter["key"] == text(key), "{what}: not the raw key");
            let reason = letter["reason"].as_str().unwrap_or_default();
            ensure!(says.iter().all(|part| reason.contains(part)), "{what}: {reason}");
        }
    }
    figures(&format!("bad records under dead-letter: cases={} batchings=3", cases().len()));
    Ok(())
}

/// A config over one Kafka topic, with its lake and dead letters in `folder`.
pub(crate) fn config(folder: &Path, bootstrap: &str, topic: &str, on_error: &str) -> Result<String> {
    let file = folder.join(format!("{on_error}.toml"));
    let folder = folder.display();
    let text = format!(
        "[kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{topic}\"\n[retry]\nmax = \"2s\"\n\
         [dead_letters]\npath = \"{folder}/dead.ndjson\"\n\
         [[table]]\nname = \"things\"\ntopic = \"{topic}\"\nlocation = \"{folder}/things\"\nkey = [\"id\"]\n\
         on_error = \"{on_error}\"\n[table.columns]\nid = \"long\"\nname = \"string\"\namount = \"decimal(12,2)@text\"\n"
    );
    fs::write(&file, text)?;
    Ok(file.to_string_lossy().into_owned())
}

fn large_topic(broker: &Broker, topic: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &broker.bootstrap).set("broker.address.family", "v4").create()?;
    let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1)).set("max.message.bytes", "52428800");
    for made in block_on(admin.create_topics([&new], &AdminOptions::new()))? {
        made.map_err(|(topic, code)| anyhow::anyhow!("can't create topic {topic}: {code}"))?;
    }
    broker.bounds(topic)?;
    Ok(())
}

#[test]
fn bytes_that_are_no_text_and_messages_of_20_megabytes_come_through_kafka_or_are_refused_by_name() -> Result<()> {
    let stack = shared()?;
    let broker = stack.kafka.broker();
    let folder = stack.scratch.folder("refusals")?;
    large_topic(&broker, "refusals")?;
    let put = |key: &[u8], value: &[u8]| broker.produce("refusals", 0, Some(key), Some(value));
    let good = |id: i64| envelope(id, "c", &row(id)).to_string().into_bytes();
    let large =
        |id: i64| envelope(id, "c", &json!({"id": id, "name": "x".repeat(LARGE), "amount": "1.00"})).to_string();
    let no_text = [b"{\"op\":\"SECRET".as_slice(), &[0xff, 0xfe, 0], b"\"}"].concat();
    let cut_off = large(4).into_bytes()[..LARGE].to_vec();
    put(b"{\"id\":1}", &good(1))?;
    put(b"{\"id\":2}", large(2).as_bytes())?;
    put(b"{\"id\":3}", &no_text)?;
    put(b"{\"id\":4}", &cut_off)?;
    put(&[0xc3, 0x28], envelope(5, "d", &Value::Null).to_string().as_bytes())?;
    put(b"{\"id\":6}", &good(6))?;

    let halting = config(&folder, &broker.bootstrap, "refusals", "halt")?;
    let said = highwater(["run", "--until-caught-up", "--config", &halting])?;
    ensure!(!said.status.success(), "under halt: exit status 0");
    for part in ["table `things`", "refusals/0 offset 2", "not valid JSON"] {
        ensure!(said.stderr.contains(part), "`{part}` is not in: {}", said.stderr);
    }
    ensure!(!said.stderr.contains(SECRET) && said.stderr.len() < 10_000, "values or too much: {}", said.stderr.len());
    ensure!(said.counts()?["merged"] == 2, "{:?}", said.counts()?);
    ensure!(broker.committed("refusals", "refusals")? == [Some(2)], "{:?}", broker.committed("refusals", "refusals")?);

    let lenient = config(&folder, &broker.bootstrap, "refusals", "dead-letter")?;
    let said = highwater(["run", "--until-caught-up", "--config", &lenient])?.success()?;
    let counts = said.counts()?;
    ensure!((counts["received"], counts["merged"], counts["dead_lettered"]) == (4, 1, 3), "{counts:?}");
    ensure!(!said.stderr.contains(SECRET) && said.stderr.len() < 10_000, "values or too much: {}", said.stderr.len());
    let letters = fs::read_to_string(folder.join("dead.ndjson"))?;
    let letters: Vec<Value> = letters.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(letters.len() == 3, "{} dead letters", letters.len());
    ensure!(letters[0]["value_base64"] == STANDARD.encode(&no_text), "not the raw bytes of the value");
    ensure!(letters[1]["value"].as_str().map(str::as_bytes) == Some(&cut_off), "not the raw bytes of a large value");
    ensure!(letters[2]["key_base64"] == STANDARD.encode([0xc3, 0x28]), "not the raw bytes of the key");
    let query = "select id, length(name) as length from things_current order by id";
    let table = highwater(["sql", "--config", &lenient, "--print", "csv", query])?.success()?.stdout;
    ensure!(table == format!("id,length\n1,6\n2,{LARGE}\n6,6\n"), "{table}");
    figures(&format!("refusals through kafka: messages=6 bytes_of_the_largest={} dead_letters=3", large(2).len()));
    Ok(())
}
