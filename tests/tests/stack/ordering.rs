//! The two cases in which a guard on the LSN alone loses rows, provoked on the live servers while highwater runs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::order::Event;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;
use postgres::Client;

use crate::verdict::verdict;

/// Opens a transaction that has written `sql`, and gives its number.
fn begin(client: &mut Client, sql: &str) -> Result<String> {
    client.batch_execute(&format!("begin; {sql}"))?;
    Ok(client.query_one("select pg_current_xact_id()::text", &[])?.get(0))
}

/// Waits until the creation of a slot waits for this transaction.
fn wait_for_waiter(shop: &Shop, transaction: &str) -> Result<()> {
    let waiting = format!(
        "select count(*) from pg_locks where not granted and locktype = 'transactionid' and transactionid::text = '{transaction}'"
    );
    let complaint = "the slot's creation did not come to wait for the transaction";
    wait(Duration::from_secs(60), complaint, || Ok(shop.database.value::<i64>(&waiting)? > 0))
}

/// The last event of `op` for this order.
fn last<'e>(events: &'e [Event], order_id: i64, op: &str) -> Option<&'e Event> {
    let key = format!("{{\"order_id\":{order_id}}}");
    events.iter().rev().find(|event| event.key == key && event.op.as_deref() == Some(op))
}

/// Creating a slot waits twice for the transactions that run at the time. One that starts between the two waits, and is still open when the
/// snapshot is taken, is not in the snapshot; its changes are streamed later, and those made before the snapshot have lower LSNs.
#[test]
fn a_transaction_open_during_the_snapshot_is_not_lost() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "open_across", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("open_across")?, &shop)?;
    shop.generate(300, 0, 0, 1)?;
    shop.database.execute("create table side (n int)")?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;

    let (mut a, mut b, mut c) = (shop.database.client()?, shop.database.client()?, shop.database.client()?);
    let first = begin(&mut a, "insert into side values (1)")?;
    shop.register()?;
    wait_for_waiter(&shop, &first)?;
    let second = begin(&mut b, "insert into side values (2)")?;
    a.batch_execute("commit")?;
    wait_for_waiter(&shop, &second)?;
    begin(&mut c, "update orders set status = 'early' where order_id between 71 and 90")?;
    b.batch_execute("commit")?;
    shop.connect()?;
    wait(Duration::from_secs(60), "no snapshot row came", || Ok(last(&shop.events()?, 90, "r").is_some()))?;
    // The replica holds the snapshot's row before the change arrives, or at least may do so.
    highwater.wait_caught_up(&shop, &mut process)?;
    c.batch_execute("update orders set status = 'late' where order_id between 91 and 110; commit")?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;

    let events = shop.events()?;
    let below = (71..=90).filter(|id| match (last(&events, *id, "r"), last(&events, *id, "u")) {
        (Some(row), Some(change)) => change.lsn < row.lsn && change.offset > row.offset,
        _ => false,
    });
    let below = below.count();
    ensure!(below == 20, "the case did not come about: only {below} of 20 changes lie below their snapshot row");
    verdict("transaction open during the snapshot", &shop, &highwater, watch, &format!("changes_below_snapshot={below}"))?;
    Ok(())
}

/// A snapshot of an idle server names the position where the next WAL record will lie, so the first change after it may have the LSN of
/// the snapshot's rows.
#[test]
fn the_first_change_after_a_re_snapshot_is_not_lost() -> Result<()> {
    /// Another process of the server may write to the WAL in between, such as a checkpoint.
    const ROUNDS: i64 = 6;
    let stack = shared()?;
    let shop = Shop::open(&stack, "again", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("again")?, &shop)?;
    shop.generate(200, 100, 20, 1)?;
    shop.database.execute("insert into orders values (1000, 1, 'first', 1)")?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;
    shop.delivered()?;

    let mut equal = 0;
    let mut rounds = 0;
    while equal == 0 && rounds < ROUNDS {
        rounds += 1;
        let before = last(&shop.events()?, 1000, "r").map(|event| event.offset);
        shop.worker.forget_offsets(&shop.name)?;
        shop.worker.resume(&shop.name)?;
        let anew = || Ok(last(&shop.events()?, 1000, "r").map(|event| event.offset) > before);
        wait(Duration::from_secs(60), "no second snapshot came", anew)?;
        shop.connect()?;
        highwater.wait_caught_up(&shop, &mut process)?;
        shop.database.execute(&format!("update orders set status = 'after snapshot {rounds}' where order_id = 1000"))?;
        shop.delivered()?;
        let events = shop.events()?;
        let row = last(&events, 1000, "r").context("no snapshot row")?;
        let change = last(&events, 1000, "u").context("no change")?;
        equal += i32::from(change.lsn == row.lsn && change.offset > row.offset);
    }
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    ensure!(equal > 0, "the case did not come about: in {rounds} rounds no change had its snapshot's LSN");
    verdict("first change after a re-snapshot", &shop, &highwater, watch, &format!("rounds={rounds} equal_lsn={equal}"))?;
    Ok(())
}
