//! Dead letters after a fix of the config: they are shown without values, and applied under the guard to where they belong.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use highwater_tests::broker::Broker;
use highwater_tests::stack::shared;
use serde_json::{Value, json};

use crate::command::highwater;
use crate::refusals::SECRET;
use crate::verdict::figures;

const TOPIC: &str = "letters";
/// What the source writes, and what was declared by mistake.
const RIGHT: &str = "decimal(12,2)@text";
const WRONG: &str = "decimal(12,2)@base64";

/// A config whose lake and dead letters lie in a folder named as its group.
fn config(folder: &Path, bootstrap: &str, group: &str, amount: &str) -> Result<String> {
    let home = folder.join(group);
    fs::create_dir_all(&home)?;
    let file = home.join("highwater.toml");
    let home = home.display();
    let text = format!(
        "[kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{group}\"\n[dead_letters]\npath = \"{home}/dead.ndjson\"\n\
         [[table]]\nname = \"things\"\ntopic = \"{TOPIC}\"\nlocation = \"{home}/things\"\nkey = [\"id\"]\n\
         on_error = \"dead-letter\"\n[table.columns]\nid = \"long\"\nname = \"string\"\namount = \"{amount}\"\n"
    );
    fs::write(&file, text)?;
    Ok(file.to_string_lossy().into_owned())
}

/// Events whose amount is a number are refused under the wrong declaration. Some come before good events of their key,
/// some after, and one is none at all.
fn produce(broker: &Broker) -> Result<()> {
    let amounts = [
        ("c", 1, None),
        ("u", 1, Some("3.00")),
        ("c", 2, Some("1.25")),
        ("d", 2, None),
        ("c", 3, Some("4.00")),
        ("u", 3, None),
        ("c", 4, Some("5.00")),
        ("u", 4, Some("5.50")),
        ("c", 6, None),
    ];
    for (number, (op, id, amount)) in (0_i64..).zip(amounts) {
        let after = if op == "d" { Value::Null } else { json!({"id": id, "name": SECRET, "amount": amount}) };
        let lsn = 1000 + 8 * number;
        let source = json!({"lsn": lsn, "sequence": format!("[\"{}\",\"{lsn}\"]", lsn - 4)});
        let (key, value) =
            (json!({"id": id}).to_string(), json!({"op": op, "after": after, "source": source}).to_string());
        broker.produce(TOPIC, 0, Some(key.as_bytes()), Some(value.as_bytes()))?;
    }
    broker.produce(TOPIC, 0, Some(b"{\"id\":7}"), Some(format!("{{\"op\":\"{SECRET}").as_bytes()))
}

/// Every column of the rows that are there, and the order of those that are deleted.
fn rows(config: &str) -> Result<String> {
    let sql = |query| Ok(highwater(["sql", "--config", config, "--print", "csv", query])?.success()?.stdout);
    let deleted: Result<String> = sql("select id, source_lsn, source_anchor from things where is_deleted order by id");
    Ok(sql("select * from things_current order by id")? + &deleted?)
}

/// How many commits the table has.
fn commits(config: &str) -> Result<usize> {
    let log = Path::new(config).with_file_name("things").join("_delta_log");
    let names = fs::read_dir(log)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(names.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")).count())
}

#[test]
fn dead_letters_are_applied_after_a_fix_as_if_they_had_been_good_from_the_start() -> Result<()> {
    let stack = shared()?;
    let broker = stack.kafka.broker();
    let folder = stack.scratch.folder("letters")?;
    broker.create_topic(TOPIC, 1)?;
    produce(&broker)?;
    let made = |group: &str, amount: &str| config(&folder, &broker.bootstrap, group, amount);

    let file = made("letters-mended", WRONG)?;
    let said = highwater(["run", "--until-caught-up", "--config", &file])?.success()?;
    let counts = said.counts()?;
    ensure!((counts["received"], counts["dead_lettered"]) == (10, 6), "{counts:?}");
    let committed = broker.committed("letters-mended", TOPIC)?;

    let list = highwater(["dead-letters", "--config", &file])?.success()?.stdout;
    for part in ["6 dead letter(s)", "column `amount`", "not valid JSON"] {
        ensure!(list.contains(part), "`{part}` is not in: {list}");
    }
    ensure!(!list.contains(SECRET), "a value of a row is in: {list}");
    let letters = highwater(["dead-letters", "list", "--json", "--config", &file])?.success()?;
    ensure!(!letters.stdout.contains(SECRET), "a value of a row is in: {}", letters.stdout);
    let offsets: Vec<_> = letters.objects()?.iter().filter_map(|letter| letter["offset"].as_i64()).collect();
    ensure!(offsets == [1, 2, 4, 6, 7, 9], "{offsets:?}");
    let values = highwater(["dead-letters", "list", "--show-values", "--config", &file])?.success()?.stdout;
    ensure!(values.contains(SECRET), "no values: {values}");

    let file = made("letters-mended", RIGHT)?;
    let replay = || highwater(["dead-letters", "replay", "--config", &file]);
    let path = Path::new(&file).with_file_name("dead.ndjson");
    let running = File::open(&path)?;
    running.lock_shared().context("cannot lock")?;
    let refused = replay()?;
    ensure!(!refused.status.success() && refused.stderr.contains("stop it first"), "{}", refused.stderr);
    drop(running);

    let replayed = replay()?;
    let expected = "table=things read=6 merged=2 superseded=1 guarded=2 no_change=0 refused=1 left=1\n";
    ensure!(replayed.stdout == expected && !replayed.status.success(), "{}{}", replayed.stdout, replayed.stderr);
    ensure!(fs::read_to_string(&path)?.lines().count() == 1, "more than the one letter that is no JSON is left");

    let at_once = made("letters-at-once", RIGHT)?;
    highwater(["run", "--until-caught-up", "--config", &at_once])?.success()?;
    let (expected, found) = (rows(&at_once)?, rows(&file)?);
    ensure!(expected == found && expected.lines().count() == 7, "expected {expected}, found {found}");

    let commits_before = commits(&file)?;
    let again = replay()?;
    let expected = "table=things read=1 merged=0 superseded=0 guarded=0 no_change=0 refused=1 left=1\n";
    ensure!(again.stdout == expected, "{}{}", again.stdout, again.stderr);
    ensure!(broker.committed("letters-mended", TOPIC)? == committed, "the main group's offsets moved");
    let resumed = highwater(["run", "--until-caught-up", "--config", &file])?.success()?;
    ensure!(resumed.counts()?["received"] == 0, "{:?}", resumed.counts()?);
    ensure!(commits(&file)? == commits_before, "a replay of nothing made commits");
    figures("dead letters after a fix: letters=6 merged=2 superseded=1 guarded=2 left=1");
    Ok(())
}
