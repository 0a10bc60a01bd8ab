//! The source's columns change under load, while members come, go and are killed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use highwater_tests::highwater::Highwater;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;

use crate::verdict::figures;

const SCHEMAS: [(&str, &str); 2] =
    [("key.converter.schemas.enable", "true"), ("value.converter.schemas.enable", "true")];

/// Changes rows, of the columns that no test changes, until it is `done`; gives how many transactions.
fn load(shop: &Shop, done: &AtomicBool) -> Result<u32> {
    let mut transactions = 0;
    while !done.load(Ordering::Relaxed) {
        let (from, turn) = (1_000 + transactions * 20, transactions % 50);
        shop.database.execute(&format!(
            "insert into orders (order_id, status, amount) select n, 'new', n % 100 from generate_series({from}, {}) n;
             update orders set amount = amount + 1 where order_id % 50 = {turn};
             delete from orders where order_id % 400 = {turn} and order_id > 400",
            from + 19
        ))?;
        transactions += 1;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(transactions)
}

/// Compares these columns of every row, as text.
pub(crate) fn compare(shop: &Shop, highwater: &Highwater, columns: &[&str]) -> Result<usize> {
    compare_as(shop, highwater, columns, columns)
}

/// The same, where the two write a column in different words.
fn compare_as(shop: &Shop, highwater: &Highwater, of_source: &[&str], of_replica: &[&str]) -> Result<usize> {
    let list = of_source.join(", ',', ");
    let source: String = shop
        .database
        .value(&format!("select string_agg(concat(order_id, ',', {list}), E'\\n' order by order_id) from orders"))?;
    let query = format!("select order_id, {} from orders_current order by order_id", of_replica.join(", "));
    let replica = highwater.sql(&query)?;
    let replica: Vec<&str> = replica.lines().skip(1).collect();
    let source: Vec<&str> = source.lines().collect();
    for (source, replica) in source.iter().zip(&replica) {
        ensure!(source == replica, "source {source}\nreplica {replica}");
    }
    ensure!(source.len() == replica.len(), "{} rows in the source, {} in the replica", source.len(), replica.len());
    Ok(source.len())
}

/// Alters the table while members come, go and are killed, until all of it is in the replica; gives the number of kills.
fn altered(shop: &Shop, first: &Highwater, second: &Highwater, done: &AtomicBool) -> Result<u32> {
    let alter = |what: &str| shop.database.execute(&format!("alter table orders {what}"));
    let goes_on = || {
        let enough = first.version().unwrap_or(0) + 4;
        wait(Duration::from_mins(1), "the table did not go on", || Ok(first.version() >= Some(enough)))
    };
    let mut one = first.run()?;
    let mut two = second.run()?;
    goes_on()?;
    alter("add column note text")?;
    alter("add column small integer")?;
    shop.database.execute("update orders set note = 'n' || order_id, small = order_id where order_id % 3 = 0")?;
    goes_on()?;
    one.kill()?;
    shop.database.execute("begin; lock table orders in access exclusive mode; update orders set note = 'in a transaction' where order_id % 5 = 0;
        alter table orders add column late timestamp; update orders set late = '2024-02-29 12:34:56.789' where order_id % 5 = 0; commit")?;
    one = first.run()?;
    alter("alter column small type bigint")?;
    alter("drop column customer_id")?;
    shop.database.execute("update orders set small = 5000000000 + order_id where order_id % 7 = 0")?;
    goes_on()?;
    one.kill()?;
    two.kill()?;
    alter("rename column note to remark")?;
    alter("add column price numeric(10,4) not null default 1.5")?;
    alter("alter column amount type numeric(20,2)")?;
    one = first.run()?;
    two = second.run()?;
    goes_on()?;
    done.store(true, Ordering::Relaxed);
    // rows that nothing has touched since the last change have nothing that says so
    shop.database.execute("update orders set amount = amount + 1")?;
    shop.delivered()?;
    first.wait_caught_up(shop, &mut one)?;
    first.stop(one)?;
    second.stop(two)?;
    Ok(3)
}

#[test]
fn columns_that_come_go_and_widen_under_load_with_kills_arrive() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "evolution", 3)?.with_connector(&SCHEMAS);
    let first = Highwater::configure(&stack.scratch.folder("evolution")?, &shop)?;
    let second = first.another("second")?;
    shop.generate(500, 0, 0, 1)?;
    shop.connect()?;
    let done = AtomicBool::new(false);
    let (transactions, kills) = thread::scope(|scope| -> Result<(u32, u32)> {
        let load = scope.spawn(|| load(&shop, &done));
        let kills = altered(&shop, &first, &second, &done);
        done.store(true, Ordering::Relaxed);
        Ok((load.join().map_err(|_| anyhow!("the load panicked"))??, kills?))
    })?;
    first.no_dead_letters()?;
    let columns = ["md5(status)", "amount", "remark", "small", "to_char(late, '%Y-%m-%d %H:%M:%S%.3f')", "price"];
    let mut of_source = columns;
    of_source[4] = "to_char(late, 'YYYY-MM-DD HH24:MI:SS.MS')";
    let rows = compare_as(&shop, &first, &of_source, &columns)?;
    let old = first.sql("select count(customer_id) from orders_current")?;
    let replay = first.replay()?;
    ensure!(replay.rows_changed == 0 && replay.version_before == replay.version_after, "{replay:?}");
    let log = first.run_logs()? + &second.run_logs()?;
    let growths = log.matches("the table has new columns or types").count();
    ensure!(log.contains("the events lack column `customer_id`"), "{log}");
    figures(&format!(
        "evolution: rows_compared={rows} transactions={transactions} kills={kills} growths={growths} \
         records={} customer_ids_left={}",
        shop.broker.count(&shop.topic)?,
        old.lines().last().context("no count")?,
    ));
    Ok(())
}

#[test]
fn a_strict_table_halts_at_the_first_new_column_and_goes_on_once_it_is_declared() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "strict", 1)?.with_connector(&SCHEMAS);
    let highwater = Highwater::configure(&stack.scratch.folder("strict")?, &shop)?;
    highwater.change("on_error = \"halt\"", "on_error = \"halt\"\nschema_changes = \"strict\"")?;
    shop.generate(100, 0, 0, 1)?;
    shop.connect()?;
    shop.delivered()?;
    highwater.catch_up()?;
    shop.database
        .execute("alter table orders add column note text; update orders set note = 'x' where order_id = 1")?;
    shop.delivered()?;
    let halted = highwater.output(&["run", "--until-caught-up"])?;
    ensure!(!halted.status.success() && halted.stderr.contains("column `note`: not configured"), "{}", halted.stderr);
    let acknowledged = shop.broker.committed(&highwater.group, &shop.topic)?;
    ensure!(acknowledged != shop.broker.end_offsets(&shop.topic)?.into_iter().map(Some).collect::<Vec<_>>());

    highwater.change("[table.columns]", "[table.columns]\nnote = \"string\"")?;
    let refused = highwater.output(&["run", "--until-caught-up"])?;
    ensure!(refused.stderr.contains("column `note` is not in the table"), "{}", refused.stderr);
    highwater.change("schema_changes = \"strict\"", "schema_changes = \"evolve\"")?;
    highwater.catch_up()?;
    let rows = compare(&shop, &highwater, &["md5(status)", "amount", "note"])?;
    figures(&format!("strict: rows_compared={rows}"));
    Ok(())
}

#[test]
fn without_schemas_a_declared_column_is_added_and_a_type_that_became_another_is_refused() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "plain_evolution", 1)?;
    let highwater = Highwater::configure(&stack.scratch.folder("plain_evolution")?, &shop)?;
    shop.generate(100, 0, 0, 1)?;
    shop.connect()?;
    shop.delivered()?;
    highwater.catch_up()?;
    shop.database.execute("alter table orders add column small integer; update orders set small = order_id")?;
    shop.delivered()?;
    let halted = highwater.output(&["run", "--until-caught-up"])?;
    ensure!(halted.stderr.contains("column `small`: not configured"), "{}", halted.stderr);
    highwater.change("[table.columns]", "[table.columns]\nsmall = \"int\"")?;
    highwater.catch_up()?;
    compare(&shop, &highwater, &["md5(status)", "small"])?;

    shop.database
        .execute("alter table orders alter column small type bigint; update orders set small = small + 5000000000")?;
    shop.delivered()?;
    let halted = highwater.output(&["run", "--until-caught-up"])?;
    ensure!(halted.stderr.contains("column `small`: does not fit the column's bits"), "{}", halted.stderr);
    highwater.change("small = \"int\"", "small = \"long\"")?;
    highwater.catch_up()?;
    let rows = compare(&shop, &highwater, &["md5(status)", "small"])?;

    shop.database.execute("alter table orders alter column small type text; update orders set small = 'x' || small")?;
    shop.delivered()?;
    let halted = highwater.output(&["run", "--until-caught-up"])?;
    ensure!(
        halted.stderr.contains("column `small`: expected an integer of 64 bits, found a string"),
        "{}",
        halted.stderr
    );
    highwater.change("small = \"long\"\n", "")?;
    highwater.change("on_error = \"halt\"", "on_error = \"halt\"\nexclude_columns = [\"small\"]")?;
    highwater.catch_up()?;
    compare(&shop, &highwater, &["md5(status)", "amount"])?;
    figures(&format!("evolution without schemas: rows_compared={rows}"));
    Ok(())
}
