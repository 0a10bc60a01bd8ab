//! The harness itself, without highwater: what the other tests take for granted.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use highwater_tests::shop::Shop;
use highwater_tests::stack::{Stack, shared};

use crate::verdict::figures;

/// Last value of each key in the topic, the tombstones apart, against the number of rows in the table.
fn live_keys(shop: &Shop) -> Result<(i64, i64)> {
    let mut rows = BTreeMap::new();
    for event in shop.events()?.into_iter().filter(|event| event.op.is_some()) {
        rows.insert(event.key, event.after);
    }
    let live = rows.values().filter(|after| *after != "null").count();
    let live = i64::try_from(live)?;
    Ok((live, shop.database.value("select count(*) from public.orders")?))
}

#[test]
fn each_server_comes_back_with_its_data_after_a_kill_and_after_a_stop() -> Result<()> {
    let mut stack = shared()?;
    let shop = Shop::open(&stack, "servers", 3)?;
    shop.generate(500, 100, 50, 1)?;
    shop.connect()?;
    shop.delivered()?;
    let first = live_keys(&shop)?;
    ensure!(first.0 == first.1, "{first:?}");

    let change = |stack: &mut Stack, what: &str, seed| -> Result<()> {
        shop.worker.wait_running(&shop.name).with_context(|| what.to_owned())?;
        shop.generate(50, 200, 20, seed)?;
        shop.delivered().with_context(|| format!("after {what}\n{}", stack.connect.log()))
    };
    stack.kafka.freeze()?;
    std::thread::sleep(std::time::Duration::from_millis(500));
    stack.kafka.thaw()?;
    change(&mut stack, "a freeze of kafka", 2)?;
    stack.kafka.kill()?;
    stack.kafka.start()?;
    change(&mut stack, "a kill of kafka", 3)?;
    stack.connect.kill()?;
    stack.connect.start()?;
    change(&mut stack, "a kill of connect", 4)?;
    stack.connect.stop()?;
    stack.connect.start()?;
    change(&mut stack, "a stop of connect", 5)?;
    stack.postgres.kill()?;
    stack.postgres.start()?;
    shop.worker.restart_task(&shop.name)?;
    change(&mut stack, "a kill of postgres", 6)?;
    stack.postgres.stop()?;
    stack.postgres.start()?;
    shop.worker.restart_task(&shop.name)?;
    change(&mut stack, "a stop of postgres", 7)?;

    let (live, rows) = live_keys(&shop)?;
    ensure!(live == rows, "{live} live keys in the topic, {rows} rows in PostgreSQL");
    figures(&format!("servers: records={} live_keys={live} rows={rows}", shop.broker.count(&shop.topic)?));
    Ok(())
}
