//! A table that is laid out by its config: partitioned, with properties and comments, and with rows that move.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use highwater_tests::highwater::Highwater;
use highwater_tests::oracle;
use highwater_tests::shop::Shop;
use highwater_tests::stack::shared;

use crate::verdict::figures;

/// A status each that a folder's name has to write in other words, and null.
const STATUSES: &str = "array['new', 'a/b', 'k=v', '100%', 'two words', 'größe 漢字', '''quoted''', null]";

const HEAD: &str = r#"key = ["order_id"]
partition_by = ["status"]
comment = "What was ordered""#;

const PROPERTIES: &str = r#"updated_at = { type = "timestamp", comment = "of the row" }

[table.properties]
"delta.enableChangeDataFeed" = true
"delta.targetFileSize" = 16384
"delta.logRetentionDuration" = "interval 7 days"
"delta.checkpointInterval" = 5
owner = "the shop"
"#;

/// Rows that come, move to the next status, and go, in small transactions.
fn change(shop: &Shop, rounds: std::ops::Range<u32>) -> Result<()> {
    for round in rounds {
        let from = 1 + round * 40;
        shop.database.execute(&format!(
            "insert into orders (order_id, status, amount)
               select n, ({STATUSES})[1 + n % 8], n % 1000 from generate_series({from}, {}) n;
             update orders set status = ({STATUSES})[1 + (order_id + {round}) % 8], updated_at = now()
               where order_id > 0 and order_id % 5 = {round} % 5;
             delete from orders where order_id > 0 and order_id % 23 = {round} % 23",
            from + 39
        ))?;
        thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

/// Fails where the table holds a key twice; gives how many rows and statuses it has.
fn partitions(highwater: &Highwater) -> Result<(String, String)> {
    let counts = highwater.sql("select count(*), count(distinct order_id), count(distinct status) from orders")?;
    let counts: Vec<&str> = counts.lines().last().unwrap_or_default().split(',').collect();
    let [rows, keys, statuses] = counts[..] else { anyhow::bail!("{counts:?}") };
    ensure!(rows == keys, "{rows} rows of {keys} keys");
    Ok((rows.to_owned(), statuses.to_owned()))
}

#[test]
fn rows_move_among_the_partitions_of_a_table_that_its_config_has_laid_out() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "layout", 3)?;
    // a delete then carries nothing but the key
    shop.database.execute("alter table orders replica identity default")?;
    let highwater = Highwater::configure(&stack.scratch.folder("layout")?, &shop)?;
    highwater.change("key = [\"order_id\"]", HEAD)?;
    highwater.change("updated_at = \"timestamp\"\n", PROPERTIES)?;
    change(&shop, 0..5)?;
    shop.connect()?;
    let mut process = highwater.run()?;
    change(&shop, 5..45)?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    process.kill()?;
    change(&shop, 45..60)?;
    shop.delivered()?;
    highwater.catch_up()?;
    let digest = oracle::compare(&shop, &highwater)?;
    let (rows, statuses) = partitions(&highwater)?;

    let first = fs::read_to_string(highwater.table.join("_delta_log/00000000000000000000.json"))?;
    for part in [
        r#""partitionColumns":["status"]"#,
        r#""delta.logRetentionDuration":"interval 7 days""#,
        r#""owner":"the shop""#,
        r#""description":"What was ordered""#,
        "of the row",
    ] {
        ensure!(first.contains(part), "{part} is not in {first}");
    }
    for folder in ["status=new", "status=a%2Fb", "status=__HIVE_DEFAULT_PARTITION__", "_change_data"] {
        ensure!(highwater.table.join(folder).is_dir(), "there is no folder {folder}");
    }
    ensure!(highwater.table.join("_delta_log/_last_checkpoint").is_file(), "no log checkpoint was written");
    let version = highwater.version().unwrap_or_default();
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0 && replay.version_before == replay.version_after, "{replay:?}");

    // other properties are set on a table that is there, other partition columns are not
    highwater.change("interval 7 days", "interval 9 days")?;
    let check = highwater.output(&["check"])?;
    let expected = "property delta.logRetentionDuration will be set to interval 9 days";
    ensure!(check.status.success() && check.stdout.contains(expected), "{}", check.stdout);
    highwater.catch_up()?;
    ensure!(highwater.version() == Some(version + 1), "{:?} after {version}", highwater.version());
    highwater.change("partition_by = [\"status\"]", "partition_by = [\"customer_id\"]")?;
    let check = highwater.output(&["check"])?;
    let expected = "the table is partitioned by (status) and the config says (customer_id)";
    ensure!(!check.status.success() && check.stdout.contains(expected), "{}", check.stdout);
    highwater.change("partition_by = [\"customer_id\"]", "partition_by = [\"status\"]")?;

    // an empty text is no partition value: the row before it stays, the record after the fix goes in
    let id: i64 = shop.database.value("select max(order_id) from orders")?;
    shop.database.execute(&format!("update orders set status = '' where order_id = {id}"))?;
    shop.delivered()?;
    let halted = highwater.output(&["run", "--until-caught-up"])?;
    let expected = "column `status`: the table is partitioned by this column, and an empty text";
    ensure!(!halted.status.success() && halted.stderr.contains(expected), "{}", halted.stderr);
    highwater.change("status = \"string\"", "status = { type = \"string\", unfit = \"null\" }")?;
    highwater.catch_up()?;
    let nulled = highwater.sql(&format!("select count(*) from orders where order_id = {id} and status is null"))?;
    ensure!(nulled.lines().last() == Some("1"), "{nulled}");
    highwater.no_dead_letters()?;
    figures(&format!("layout: rows={rows} statuses={statuses} set={:016x} version={version}", digest.set));
    Ok(())
}
