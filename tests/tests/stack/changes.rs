//! Kinds of changes that are more than a new version of a row.

use anyhow::{Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::order::Event;
use highwater_tests::shop::Shop;
use highwater_tests::stack::shared;

use crate::verdict::verdict;

/// Runs `rounds` of SQL against a shop of 500 orders, in one go (all in one batch, or nearly) and, in a second shop, with a wait for the
/// replica after each (so that each meets the state that the one before has left). Both must end right.
fn changes(name: &str, rounds: &[&str], came_about: impl Fn(&[Event]) -> bool) -> Result<()> {
    let stack = shared()?;
    for stepwise in [false, true] {
        let mode = if stepwise { "stepwise" } else { "at_once" };
        let shop = Shop::open(&stack, &format!("{name}_{mode}"), 3)?;
        let highwater = Highwater::configure(&stack.scratch.folder(&shop.name)?, &shop)?;
        shop.generate(500, 0, 0, 1)?;
        shop.connect()?;
        let watch = Watch::start(&shop, &highwater)?;
        if stepwise {
            let mut process = highwater.run()?;
            for sql in rounds {
                shop.delivered()?;
                highwater.wait_caught_up(&shop, &mut process)?;
                shop.database.execute(sql)?;
            }
            shop.delivered()?;
            highwater.wait_caught_up(&shop, &mut process)?;
            highwater.stop(process)?;
        } else {
            rounds.iter().try_for_each(|sql| shop.database.execute(sql))?;
            shop.delivered()?;
            highwater.catch_up()?;
        }
        let events = verdict(&format!("{name} {mode}"), &shop, &highwater, watch, &format!("rounds={}", rounds.len()))?;
        ensure!(came_about(&events), "the case did not come about");
    }
    Ok(())
}

fn has(events: &[Event], op: &str) -> bool {
    events.iter().any(|event| event.op.as_deref() == Some(op))
}

#[test]
fn a_changed_key_leaves_its_old_row_deleted_and_its_new_row_whole() -> Result<()> {
    let rounds = [
        "update orders set order_id = order_id + 10000 where order_id <= 100",
        "update orders set order_id = order_id + 10000, status = 'moved' where order_id between 101 and 150",
        // Back to keys that were deleted a moment ago, and onto the key of another deleted row.
        "update orders set order_id = order_id - 10000 where order_id between 10001 and 10050",
        "begin; delete from orders where order_id = 200; update orders set order_id = 200 where order_id = 201; commit",
        // Round a circle within one transaction.
        "begin; update orders set order_id = 90001 where order_id = 210; update orders set order_id = 210 where order_id = 211; \
         update orders set order_id = 211 where order_id = 90001; commit",
    ];
    changes("key_change", &rounds, |events| has(events, "d") && has(events, "c"))
}

#[test]
fn a_row_deleted_and_inserted_again_is_the_new_row() -> Result<()> {
    let rounds = [
        "begin; delete from orders where order_id <= 50; \
         insert into orders select n, n, 'again', n, '2024-07-01Z' from generate_series(1, 50) n; commit",
        "delete from orders where order_id between 51 and 100",
        "insert into orders select n, null, null, null, '2024-07-02Z' from generate_series(51, 100) n",
        "delete from orders where order_id between 76 and 100",
        "begin; insert into orders values (101001, 1, 'a', 1); delete from orders where order_id = 101001; \
         insert into orders values (101001, 2, 'b', 2); delete from orders where order_id = 101001; commit",
    ];
    changes("delete_insert", &rounds, |events| events.iter().any(|event| event.op.is_none()) && has(events, "c"))
}

#[test]
fn a_truncate_empties_the_replica_and_later_rows_stay() -> Result<()> {
    let rounds = [
        "update orders set status = 'before' where order_id <= 200",
        "truncate orders",
        "insert into orders select n, n, 'after', n from generate_series(1, 100) n",
        "begin; truncate orders; insert into orders select n, n, 'same transaction', n from generate_series(50, 149) n; commit",
        "update orders set amount = 7 where order_id between 60 and 70",
    ];
    changes("truncated", &rounds, |events| has(events, "t"))
}
