//! Eleven messages with everything that goes wrong in practice, in three batches.

use std::{path::Path, sync::mpsc};

use anyhow::{Result, ensure};
use datafusion::prelude::{SessionContext, col};
use pipeline::{Counts, Flushed, Observer, StartAt};

use super::{Broker, DemoTable};
use crate::{print, recorded::Recorded, sql};

const MESSAGES: &str = include_str!("../../../../testdata/worked_example/messages.ndjson");
const EXPECTED: &str = include_str!("../../../../testdata/worked_example/expected.tsv");
const TOPIC: &str = "shop.public.orders";
const COLUMNS: [(&str, &str); 3] = [("order_id", "int"), ("status", "string"), ("amount", "decimal(10,2)")];

#[expect(clippy::print_stdout, reason = "the command's result")]
pub(super) async fn show(broker: &Broker, dir: &Path) -> Result<()> {
    println!("The worked example: eleven messages, in batches of four.\n");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let messages: Vec<_> = MESSAGES
        .lines()
        .map(|line| Recorded::parse(line).map_err(anyhow::Error::msg))
        .map(|message| message.map(|m| (0, m.key.map(text).unwrap_or_default(), m.value.map(text))))
        .collect::<Result<_>>()?;
    broker.fill(TOPIC, 1, &messages)?;
    let table = DemoTable::new("worked_example", TOPIC, dir, &COLUMNS, "order_id")?;
    let (send, batches) = mpsc::channel();
    table.catch_up(broker, "demo-example", StartAt::Resume, 4, EachBatch(send)).await?;
    for (number, (counts, version)) in batches.iter().enumerate() {
        println!("Batch {}: {counts}", number + 1);
        println!("{}\n", at_version(&table, version).await?);
    }
    let before = table.version().await?;
    let replay = table.catch_up(broker, "demo-example-replay", StartAt::Earliest, 100, ()).await?;
    let after = table.version().await?;
    println!("Replay of all eleven: {} rows changed, version {before} before and {after} after.", replay.rows_changed);
    ensure!(replay.rows_changed == 0 && before == after, "the replay changed the table");
    let rows = rows(&table).await?;
    ensure!(rows == expected(), "the table differs from the expected one");
    println!("The table equals the expected one, row by row.");
    Ok(())
}

/// Hands on the counts and the version of each batch.
struct EachBatch(mpsc::Sender<(Counts, Option<u64>)>);

impl Observer for EachBatch {
    fn flushed(&mut self, flushed: &Flushed<'_>) {
        // the receiver is there until the run has ended
        _ = self.0.send((flushed.counts, flushed.version));
    }
}

/// The table as a batch left it.
async fn at_version(table: &DemoTable, version: Option<u64>) -> Result<comfy_table::Table> {
    let mut replica = table.open("").await?;
    if let Some(version) = version {
        replica.travel_to(version).await?;
    }
    let context = SessionContext::new();
    sql::register(&context, table.name, &replica).await?;
    let rows = context.table(table.name).await?.sort(vec![col("order_id").sort(true, true)])?;
    let names: Vec<_> = table.schema.arrow().fields().iter().map(|field| field.name().as_str()).collect();
    print::table(&rows.collect().await?, &names)
}

async fn rows(table: &DemoTable) -> Result<Vec<Vec<String>>> {
    let replica = table.open("").await?;
    let context = SessionContext::new();
    sql::register(&context, table.name, &replica).await?;
    let rows = context.table(table.name).await?.sort(vec![col("order_id").sort(true, true)])?;
    let mut json = Vec::new();
    for batch in rows.select_columns(&["order_id", "status", "amount", "source_lsn", "is_deleted"])?.collect().await? {
        print::json(&batch, &mut json)?;
    }
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |line: &str| {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)?;
        Ok(["order_id", "status", "amount", "source_lsn", "is_deleted"]
            .iter()
            .map(|name| text(&object[*name]))
            .collect())
    };
    String::from_utf8(json)?.lines().map(row).collect()
}

fn expected() -> Vec<Vec<String>> {
    let boolean = |text: &str| match text {
        "t" => "true".to_owned(),
        "f" => "false".to_owned(),
        other => other.to_owned(),
    };
    EXPECTED.lines().skip(1).map(|line| line.split('\t').map(boolean).collect()).collect()
}
