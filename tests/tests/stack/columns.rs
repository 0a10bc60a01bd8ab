//! Columns that have another name in the replica, and columns of which nothing but masks reach it.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use highwater_tests::highwater::Highwater;
use highwater_tests::shop::Shop;
use highwater_tests::stack::{Stack, shared};

use crate::verdict::figures;

const SECRET: &str = "the secret of the test of columns";
/// Stands in every value that is masked, and in none that is not.
const CLEAR: &str = "in-the-clear";
/// Stands in a column without a mask: what a search for the other one would find.
const SHOWN: &str = "as-it-is";
/// The first key. Ten digits of each key are these.
const FIRST: i64 = 910_000_000_001;
const DIGITS: &str = "9100000000";

const COLUMNS: &str = r#"order_id = { type = "long", name = "order_key", mask = "hmac-sha256" }
email = { type = "string", mask = "hmac-sha256" }
"E-Mail (invoice)" = { type = "string", name = "email_of_invoice", mask = "hmac-sha256" }
"The Note" = { type = "string", name = "note", mask = "hmac-sha256" }
born = { type = "date", mask = "null" }
"#;

/// A shop with names that a Delta table had better not have, and values that are TOASTed; only keys of old rows are sent.
fn shop_of_customers(stack: &Stack) -> Result<Shop> {
    let shop = Shop::open(stack, "columns", 3)?;
    shop.database.execute(
        "create extension pgcrypto;
         alter table orders replica identity default;
         alter table orders add column email text, add column \"E-Mail (invoice)\" text, add column \"The Note\" text, add column born date;
         alter table orders alter column \"The Note\" set storage external",
    )?;
    Ok(shop)
}

/// Rows with keys from [`FIRST`] on; every seventh has nothing to mask but its key.
fn insert(shop: &Shop, rows: std::ops::Range<i64>) -> Result<()> {
    let (from, to) = (FIRST + rows.start, FIRST + rows.end - 1);
    shop.database.execute(&format!(
        "insert into orders (order_id, status, amount, email, \"E-Mail (invoice)\", \"The Note\", born)
         select n, '{SHOWN}', n % 100, '{CLEAR}-' || n || '@example.org', 'Rechnung {CLEAR} für ' || n, repeat('{CLEAR} ', 500) || n,
             date '1970-01-01' + (n % 10000)::int
         from generate_series({from}, {to}) n where n % 7 > 0;
         insert into orders (order_id, status) select n, '{SHOWN}' from generate_series({from}, {to}) n where n % 7 = 0"
    ))
}

/// Compares every row with the masks that PostgreSQL makes itself; gives how many there are.
fn compare(shop: &Shop, highwater: &Highwater) -> Result<usize> {
    let mask = |column: &str| format!("encode(hmac({column}::text, '{SECRET}', 'sha256'), 'hex')");
    let masks = ["order_id", "email", "\"E-Mail (invoice)\"", "\"The Note\""].map(mask);
    let [key, email, of_invoice, note] = &masks;
    let source: String = shop.database.value(&format!(
        "select string_agg(concat({key}, ',', status, ',', amount, ',', {email}, ',', {of_invoice}, ',', {note}, ','), E'\\n' \
         order by {key}) from orders"
    ))?;
    let replica = highwater.sql(
        "select order_key, status, amount, email, email_of_invoice, note, born from orders_current order by order_key",
    )?;
    let (source, replica): (Vec<_>, Vec<_>) = (source.lines().collect(), replica.lines().skip(1).collect());
    for (source, replica) in source.iter().zip(&replica) {
        ensure!(source == replica, "source {source}\nreplica {replica}");
    }
    ensure!(source.len() == replica.len(), "{} rows in the source, {} in the replica", source.len(), replica.len());
    Ok(source.len())
}

/// How many files of a folder, at any depth, hold these bytes.
fn files_with(folder: &Path, bytes: &[u8]) -> Result<usize> {
    let mut found = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        found += if path.is_dir() {
            files_with(&path, bytes)?
        } else {
            usize::from(fs::read(&path)?.windows(bytes.len()).any(|window| window == bytes))
        };
    }
    Ok(found)
}

#[test]
fn masked_and_renamed_columns_follow_the_source_and_no_clear_value_reaches_the_lake_or_the_log() -> Result<()> {
    let stack = shared()?;
    let shop = shop_of_customers(&stack)?;
    let folder = stack.scratch.folder("columns")?;
    let highwater = Highwater::configure(&folder, &shop)?;
    let secret = folder.join("secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    highwater.change("order_id = \"long\"\n", COLUMNS)?;
    highwater.change("[batch]", &format!("[masking]\nsecret = \"${{file:{}}}\"\n[batch]", secret.display()))?;
    insert(&shop, 0..150)?;
    shop.connect()?;
    insert(&shop, 150..300)?;
    shop.delivered()?;
    highwater.catch_up()?;
    let rows_first = compare(&shop, &highwater)?;

    // the notes are left out of the updates, as they did not change; a new key comes with a new note
    shop.database.execute(&format!(
        "update orders set status = status || '-twice', email = '{CLEAR}@example.org' where order_id % 3 = 0;
         update orders set \"E-Mail (invoice)\" = null where order_id % 5 = 0;
         delete from orders where order_id % 11 = 0 and order_id > 0;
         update orders set order_id = order_id + 1000000, \"The Note\" = 'moved {CLEAR}' where order_id % 13 = 0 and order_id > 0"
    ))?;
    shop.delivered()?;
    let caught_up = highwater.catch_up()?;
    let rows = compare(&shop, &highwater)?;
    ensure!(rows < rows_first, "{rows_first} rows before the deletes, {rows} after");
    shop.database.execute("delete from orders where order_id > 0")?;
    insert(&shop, 100..200)?;
    shop.delivered()?;
    highwater.catch_up()?;
    let last = compare(&shop, &highwater)?;
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0 && replay.version_before == replay.version_after, "{replay:?}");
    highwater.no_dead_letters()?;

    ensure!(shop.records()?.iter().any(|record| {
        let value = record.value.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        value.contains(CLEAR) && value.contains(DIGITS)
    }));
    let everything = highwater.sql("select * from orders")?;
    ensure!(everything.contains(SHOWN), "a search of the rows finds nothing at all");
    ensure!(files_with(&highwater.table, SHOWN.as_bytes())? > 0, "a search of the files finds nothing at all");
    for clear in [CLEAR.as_bytes(), DIGITS.as_bytes(), b"Rechnung", SECRET.as_bytes(), &FIRST.to_le_bytes()] {
        let files = files_with(&highwater.table, clear)?;
        ensure!(files == 0, "{} stands in {files} files of the table", String::from_utf8_lossy(clear));
    }
    for (what, said) in [("the rows", &everything), ("the log", &caught_up.stderr), ("the output", &caught_up.stdout)] {
        for clear in [CLEAR, DIGITS, SECRET] {
            ensure!(!said.contains(clear), "{clear} stands in {what}");
        }
    }

    let deleted = highwater.sql("select count(*) from orders where is_deleted")?;
    // Debezium cannot tell two such columns apart, but another program may
    highwater.change("\"The Note\"", "EMAIL = \"string\"\n\"The Note\"")?;
    let check = highwater.output(&["check"])?;
    let both =
        "columns `email` and `EMAIL` go by one name, as Delta ignores case; give one of them another with name =";
    ensure!(!check.status.success() && check.stdout.contains(both), "{}", check.stdout);
    figures(&format!(
        "columns: rows_compared={} keys_deleted_and_moved={} records={}",
        rows_first + rows + last,
        deleted.lines().last().unwrap_or_default(),
        shop.broker.count(&shop.topic)?,
    ));
    Ok(())
}
