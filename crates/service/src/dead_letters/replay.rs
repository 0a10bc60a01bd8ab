//! `dead-letters replay`: the letters once more, through decoder, newest and guard. Those that are applied leave the
//! file, and the others stay with their new reason.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Result;
use pipeline::{Blocks, Counts, Letters, OnError, Pipeline, Place, Refused, StartAt};

use crate::{
    assemble,
    cli::LettersReplayArgs,
    config::{Config, TableConfig},
    run, stop,
};

pub(crate) async fn replay(args: &LettersReplayArgs) -> Result<ExitCode> {
    let Outcome { lines, left } = outcome(args).await?;
    print(&lines);
    Ok(if left == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What became of the letters: a line for each table, and how many of those that were asked for are still in the file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    lines: Vec<String>,
    left: u64,
}

async fn outcome(args: &LettersReplayArgs) -> Result<Outcome> {
    let config = Config::read(&args.config.config)?.discovered().await?;
    let tables = match &args.table {
        Some(name) => vec![config.table(Some(name))?.clone()],
        None => config.tables.clone(),
    };
    let Some(letters) = Letters::hold(super::path(&config)?)? else { return Ok(Outcome::default()) };
    let asked = letters.places().filter(|place| args.table.as_ref().is_none_or(|name| *place.table == **name)).cloned();
    let (known, unknown): (Vec<_>, Vec<_>) = asked.partition(|place| tables.iter().any(|table| table.is_of(place)));
    for ((table, topic), letters) in count(unknown.iter().map(|place| (&place.table, &place.partition.topic))) {
        tracing::warn!("{letters} letter(s) of table `{table}` and topic {topic} stay: the config has no such table");
    }
    let read = count(known.iter().map(|place| &*place.table));
    let tables: Vec<_> = tables.into_iter().filter(|table| read.contains_key(&*table.name)).collect();

    let refused = Refused::default();
    let summary = apply(&config, &tables, &letters, known.clone(), refused.clone()).await?;
    let refused = refused.take();
    let mut left = unknown.len() as u64;
    let mut applied = Vec::new();
    let mut lines = Vec::new();
    for (table, (name, counts, fault)) in tables.iter().zip(&summary.tables) {
        let read = read.get(&**name).copied().unwrap_or_default();
        // after a fault or a stop, some letters' fate is not known, and to apply one again is harmless
        let is_complete = fault.is_none() && counts.received == read;
        let stay = if is_complete { counts.dead_lettered } else { read };
        if is_complete {
            applied.push(table);
        }
        left += stay;
        lines.push(line(name, read, counts, stay));
    }
    letters
        .rewrite(|place| applied.iter().any(|table| table.is_of(place)) && !refused.contains_key(place), &refused)?;
    run::report(&summary);
    Ok(Outcome { lines, left })
}

/// Runs the letters of `places` through the production pipeline.
///
/// The group is one of their own. Under the main group, the commit would set its position in the table to the letter's,
/// and that may lie ahead of records which the main group has not applied yet: it would pass over them.
async fn apply(
    config: &Config,
    tables: &[TableConfig],
    letters: &Letters,
    places: Vec<Place>,
    refused: Refused,
) -> Result<pipeline::Summary> {
    let group = config.kafka.as_ref().map_or("highwater", |kafka| &kafka.group);
    let group = format!("{group}-dead-letters");
    let lake = assemble::lake(config);
    let schemas = assemble::schemas(config)?;
    let mut assembled = Vec::new();
    for table in tables {
        let table = TableConfig { on_error: OnError::DeadLetter, ..table.clone() };
        assembled.push(assemble::table(&lake, config, &table, &group, schemas.clone()).await?);
    }
    // where an earlier replay came to says nothing about these letters
    let settings = assemble::settings(config, StartAt::Committed, true);
    let source = Blocks::new(letters.blocks(places));
    let pipeline = Pipeline::new(source, assembled, Box::new(refused), settings, ());
    Ok(pipeline.run(stop::requested()).await?)
}

impl TableConfig {
    /// Whether a letter is of this table, and of the topic that it has now.
    fn is_of(&self, place: &Place) -> bool {
        *self.name == *place.table && *self.topic == *place.partition.topic
    }
}

fn count<T: Ord>(of: impl Iterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    for each in of {
        *counts.entry(each).or_default() += 1;
    }
    counts
}

fn line(name: &str, read: u64, counts: &Counts, left: u64) -> String {
    let Counts { merged, superseded, guarded, no_change, dead_lettered, .. } = counts;
    format!(
        "table={name} read={read} merged={merged} superseded={superseded} guarded={guarded} no_change={no_change} \
         refused={dead_lettered} left={left}"
    )
}

#[expect(clippy::print_stdout, reason = "the command's result")]
fn print(lines: &[String]) {
    for line in lines {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path};

    use datafusion::prelude::SessionContext;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        cli::{ConfigArg, SimulateArgs, TableArgs},
        print, simulate, sql,
    };

    fn configured(dir: &Path, amount: &str) -> LettersReplayArgs {
        let (config, dir) = (dir.join("highwater.toml"), dir.display());
        let text = format!(
            "[dead_letters]\npath = \"{dir}/dead.ndjson\"\n[[table]]\nname = \"things\"\ntopic = \"t\"\n\
             location = \"{dir}/things\"\nkey = [\"id\"]\non_error = \"dead-letter\"\n\
             columns = {{ id = \"long\", amount = \"{amount}\" }}\n"
        );
        fs::write(&config, text).unwrap();
        LettersReplayArgs { config: ConfigArg { config }, table: None }
    }

    /// Applies records, from offset 0 on.
    async fn apply(dir: &Path, args: &LettersReplayArgs, values: Vec<Value>) {
        let line = |(offset, value): (usize, Value)| {
            let key = json!({"id": value["after"]["id"]});
            json!({"topic": "t", "partition": 0, "offset": offset, "key": key, "value": value}).to_string()
        };
        let lines: Vec<_> = values.into_iter().enumerate().map(line).collect();
        let file = dir.join("messages.ndjson");
        fs::write(&file, lines.join("\n")).unwrap();
        let config = Some(args.config.config.clone());
        let args = SimulateArgs {
            table: TableArgs { config, table: None, topic: None, key: Vec::new(), column: Vec::new() },
            into: Some(dir.join("things").display().to_string()),
            batch_rows: None,
            on_error: None,
            dead_letters: Some(dir.join("dead.ndjson")),
            print: None,
            files: vec![file],
        };
        simulate::simulate(args).await.unwrap();
    }

    fn event(op: &str, id: i64, amount: &str, sequence: [Option<u64>; 2]) -> Value {
        let [_, lsn] = sequence;
        let sequence = json!(sequence.map(|lsn| lsn.map(|lsn| lsn.to_string()))).to_string();
        json!({"op": op, "after": {"id": id, "amount": amount}, "source": {"lsn": lsn, "sequence": sequence}})
    }

    async fn rows(args: &LettersReplayArgs) -> (String, u64) {
        let config = Config::read(&args.config.config).unwrap();
        let replica = sql::open(&assemble::lake(&config), &config.tables[0]).await.unwrap();
        let context = SessionContext::new();
        sql::register(&context, "things", &replica).await.unwrap();
        let rows = context.sql("select id, amount, source_anchor from things order by id").await.unwrap();
        let mut out = Vec::new();
        for batch in rows.collect().await.unwrap() {
            print::json(&batch, &mut out).unwrap();
        }
        (String::from_utf8(out).unwrap(), replica.version())
    }

    #[tokio::test]
    async fn after_a_fix_letters_are_applied_where_they_belong_and_the_rest_stays() {
        const ONE: &str = "ZA==";
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let wrong = configured(dir, "decimal(12,2)@base64");
        let values = vec![
            event("r", 1, ONE, [None, Some(1000)]),
            // ordered by the horizon of the snapshot before it, not by that of the one after it
            event("u", 1, "2.50", [None, Some(900)]),
            event("r", 1, ONE, [None, Some(5000)]),
            event("c", 2, "3.00", [Some(1050), Some(1100)]),
            event("u", 2, ONE, [Some(1150), Some(1200)]),
            event("c", 3, "7.00", [Some(5100), Some(5200)]),
            event("u", 3, "8.00", [Some(5200), Some(5300)]),
            event("c", 4, "1.005", [Some(5300), Some(5400)]),
        ];
        apply(dir, &wrong, values).await;
        let path = dir.join("dead.ndjson");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"table\":\"things\",\"topic\":\"former\",\"partition\":0,\"offset\":9,\"reason\":\"r\"}\n")
            .unwrap();
        let before = rows(&wrong).await;

        let unmended = outcome(&wrong).await.unwrap();
        let line = "table=things read=5 merged=0 superseded=0 guarded=0 no_change=0 refused=5 left=5";
        assert_eq!(unmended, Outcome { lines: vec![line.to_owned()], left: 6 });
        assert_eq!(rows(&wrong).await, before);

        let mended = configured(dir, "decimal(12,2)@text");
        let replayed = outcome(&mended).await.unwrap();
        let line = "table=things read=5 merged=1 superseded=1 guarded=2 no_change=0 refused=1 left=1";
        assert_eq!(replayed, Outcome { lines: vec![line.to_owned()], left: 2 });
        let (expected, version) = (
            r#"{"id":1,"amount":"1.00","source_anchor":4999}
{"id":2,"amount":"1.00","source_anchor":1150}
{"id":3,"amount":"8.00","source_anchor":5200}
"#,
            before.1 + 1,
        );
        assert_eq!(rows(&mended).await, (expected.to_owned(), version));
        let left = fs::read_to_string(&path).unwrap();
        let left: Vec<Value> = left.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(left.iter().map(|letter| &letter["offset"]).collect::<Vec<_>>(), [7, 9]);
        assert!(left[0]["reason"].as_str().unwrap().contains("column `amount`"), "{left:?}");

        let again = outcome(&mended).await.unwrap();
        assert_eq!((again.left, rows(&mended).await), (2, (expected.to_owned(), version)));
        assert_eq!(
            outcome(&LettersReplayArgs { table: Some("others".into()), ..mended }).await.unwrap_err().to_string(),
            "no table `others` in the config; there are: things"
        );
    }

    #[tokio::test]
    async fn a_crash_before_the_letters_leave_the_file_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let wrong = configured(dir, "decimal(12,2)@base64");
        let values = vec![event("c", 1, "1.50", [Some(90), Some(100)]), event("c", 2, "2.50", [Some(90), Some(110)])];
        apply(dir, &wrong, values).await;
        let mended = configured(dir, "decimal(12,2)@text");
        let path = dir.join("dead.ndjson");
        let letters = fs::read(&path).unwrap();
        assert_eq!(outcome(&mended).await.unwrap().left, 0);
        let applied = rows(&mended).await;
        // the crash came between the commit and the new file, which may lie half-written beside the old one
        fs::write(&path, letters).unwrap();
        fs::write(dir.join("dead.ndjson.new"), "{\"ta").unwrap();
        let again = outcome(&mended).await.unwrap();
        let line = "table=things read=2 merged=0 superseded=0 guarded=2 no_change=0 refused=0 left=0";
        assert_eq!(again, Outcome { lines: vec![line.to_owned()], left: 0 });
        assert_eq!((rows(&mended).await, fs::read_to_string(&path).unwrap()), (applied, String::new()));
    }
}
