//! The two cases in which a guard on the LSN alone loses rows, provoked on the live servers while highwater runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
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
    wait(Duration::from_mins(1), complaint, || Ok(shop.database.value::<i64>(&waiting)? > 0))
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
    wait(Duration::from_mins(1), "no snapshot row came", || Ok(last(&shop.events()?, 90, "r").is_some()))?;
    // The replica holds the snapshot's row before the change arrives, or at least may do so.
    highwater.wait_caught_up(&shop, &mut process)?;
    c.batch_execute("update orders set status = 'late' where order_id between 91 and 110; commit")?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;

    let below = changes_below_their_rows(&shop.events()?);
    ensure!(below == 20, "the case did not come about: only {below} of 20 changes lie below their snapshot row");
    verdict(
        "transaction open during the snapshot",
        &shop,
        &highwater,
        watch,
        &format!("changes_below_snapshot={below}"),
    )?;
    Ok(())
}

/// A snapshot with a new slot holds the state at the slot's start, which is the end of the WAL at that moment: the rows carry this position, and so
/// may the first change after it, which is not in the snapshot. Each row is changed once only: a lost change stays visible.
///
/// (With a slot that was there before, the rows are read a little later than the position that they carry: changes with an LSN equal to it or
/// above are in them already, and are delivered again.)
#[test]
fn the_first_change_after_a_re_snapshot_is_not_lost() -> Result<()> {
    /// The snapshot may also fall between a change and its commit, or before a WAL record of another kind.
    const ROUNDS: u32 = 8;
    let stack = shared()?;
    let shop = Shop::open(&stack, "again", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("again")?, &shop)?;
    shop.generate(200, 100, 20, 1)?;
    // One row a page, with room for its second version: so a change is one WAL record, with none of locking or pruning before it.
    shop.database.execute("alter table orders set (fillfactor = 10)")?;
    shop.database
        .execute("insert into orders select n, n, repeat('x', 600), 1 from generate_series(100000, 102999) n")?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;

    let (mut equal, mut rounds, mut next) = (0, 0, 100_000_i64);
    while equal == 0 && rounds < ROUNDS {
        rounds += 1;
        shop.worker.forget_offsets(&shop.name)?;
        shop.drop_slot()?;
        let snapshots = |events: &[Event]| events.iter().filter(|event| event.op.as_deref() == Some("r")).count();
        let before = snapshots(&shop.events()?);
        let snapshot_came = AtomicBool::new(false);
        next = std::thread::scope(|scope| -> Result<i64> {
            let changes = scope.spawn(|| -> Result<i64> {
                let mut client = shop.database.client()?;
                let mut order_id = next;
                while !snapshot_came.load(Ordering::Relaxed) {
                    client.execute("update orders set status = 'changed' where order_id = $1", &[&order_id])?;
                    order_id += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(order_id)
            });
            let anew = || Ok(snapshots(&shop.events()?) > before);
            let came =
                shop.worker.resume(&shop.name).and_then(|()| wait(Duration::from_mins(1), "no snapshot came", anew));
            std::thread::sleep(Duration::from_millis(300));
            snapshot_came.store(true, Ordering::Relaxed);
            let outcome = changes.join().expect("the changes do not panic");
            came.and(outcome)
        })?;
        shop.delivered()?;
        equal = equal_to_snapshot(&shop.events()?);
    }
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    ensure!(equal > 0, "the case did not come about: in {rounds} rounds no change had its snapshot's LSN");
    let more = format!("re_snapshots={rounds} changes={} equal_lsn={equal}", next - 100_000);
    verdict("first change after a re-snapshot", &shop, &highwater, watch, &more)?;
    Ok(())
}

/// A transaction that is open across an incremental snapshot: its change was made before and has a lower LSN than the snapshot's row, which
/// does not hold it, and is delivered after it.
#[test]
fn a_transaction_open_across_an_incremental_snapshot_is_not_lost() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "incremental", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("incremental")?, &shop)?;
    shop.generate(300, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;
    shop.delivered()?;

    let mut open = shop.database.client()?;
    begin(&mut open, "update orders set status = 'before' where order_id between 71 and 90")?;
    // Moves the stream beyond the open change.
    shop.delivered()?;
    let rows = |events: &[Event]| events.iter().filter(|event| event.op.as_deref() == Some("r")).count();
    let before = rows(&shop.events()?);
    let signal = r#"{"type": "incremental", "data-collections": ["public.orders"]}"#;
    shop.database.execute(&format!("insert into debezium_signal values ('again', 'execute-snapshot', '{signal}')"))?;
    let complaint = "the incremental snapshot did not come";
    wait(Duration::from_mins(1), complaint, || Ok(rows(&shop.events()?) >= before + 300))?;
    highwater.wait_caught_up(&shop, &mut process)?;
    open.batch_execute("commit")?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;

    let below = changes_below_their_rows(&shop.events()?);
    ensure!(below == 20, "the case did not come about: {below} of 20 changes lie below their snapshot row");
    let more = format!("changes_below_snapshot={below}");
    verdict("transaction open across an incremental snapshot", &shop, &highwater, watch, &more)?;
    Ok(())
}

/// How many of the rows 71 to 90 have a change that came after their snapshot row and has a lower LSN.
fn changes_below_their_rows(events: &[Event]) -> usize {
    let below = |id: &i64| match (last(events, *id, "r"), last(events, *id, "u")) {
        (Some(row), Some(change)) => change.lsn < row.lsn && change.offset > row.offset,
        _ => false,
    };
    (71..=90).filter(below).count()
}

/// How many changes carry the LSN of an earlier snapshot row of their key.
fn equal_to_snapshot(events: &[Event]) -> usize {
    let mut rows = HashMap::new();
    let mut equal = 0;
    for event in events {
        match event.op.as_deref() {
            Some("r") => _ = rows.insert((event.partition, &event.key), event.lsn),
            Some("u") => equal += usize::from(rows.get(&(event.partition, &event.key)) == Some(&event.lsn)),
            _ => {}
        }
    }
    equal
}
