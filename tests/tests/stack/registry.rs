//! Topics that are written in Avro through a schema registry.

use std::time::Duration;

use anyhow::{Result, ensure};
use highwater_tests::highwater::Highwater;
use highwater_tests::oracle;
use highwater_tests::registry::Registry;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;

use crate::evolution::compare;
use crate::verdict::figures;

#[test]
fn avro_from_a_registry_that_comes_and_goes_arrives_with_its_new_columns_and_replays_to_nothing() -> Result<()> {
    let stack = shared()?;
    let mut registry = Registry::start_new(&stack.scratch)?;
    let converters = registry.converters();
    let converters: Vec<_> = converters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let shop = Shop::open(&stack, "avro", 3)?.with_connector(&converters);
    let highwater = Highwater::configure(&stack.scratch.folder("avro")?, &shop)?;
    shop.generate(2_000, 0, 0, 1)?;
    shop.connect()?;
    shop.generate(500, 2_000, 300, 2)?;
    shop.delivered()?;

    // without the section, the record is refused and the setting named
    let refused = highwater.output(&["run", "--until-caught-up"])?;
    ensure!(!refused.status.success() && refused.stderr.contains("add [schema_registry]"), "{}", refused.stderr);
    highwater.change("[batch]", &format!("[schema_registry]\nurl = \"{}\"\n\n[batch]", registry.url()))?;
    let check = highwater.output(&["check"])?;
    ensure!(check.stdout.contains("avro.public.orders-value has AVRO schema"), "{}", check.stdout);

    // a registry that is away at the start, and comes back
    registry.kill()?;
    let mut process = highwater.run()?;
    let away = || process.log().contains("will try again: schema registry");
    wait(Duration::from_secs(30), "the registry was not missed", || Ok(away()))?;
    ensure!(highwater.version().unwrap_or_default() == 0, "rows came from nowhere");
    registry.start()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    let first = oracle::compare(&shop, &highwater)?;

    // what was fetched is kept; a new schema is fetched when the first record has it
    shop.generate(0, 500, 50, 3)?;
    shop.database.execute("alter table orders add column note text; alter table orders add column seen timestamp")?;
    shop.database.execute(
        "update orders set note = 'n' || order_id, seen = '2024-02-29 12:34:56.789012' where order_id % 3 = 0",
    )?;
    shop.generate(100, 500, 50, 4)?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    highwater.no_dead_letters()?;
    let second = oracle::compare(&shop, &highwater)?;
    let rows = compare(&shop, &highwater, &["amount", "note"])?;
    let micros =
        highwater.sql("select count(*) from orders_current where seen = timestamp '2024-02-29 12:34:56.789012'")?;
    let source: i64 = shop.database.value("select count(seen) from orders")?;
    ensure!(micros.lines().nth(1) == Some(source.to_string().as_str()) && source > 0, "{micros}");
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0 && replay.version_before == replay.version_after, "{replay:?}");
    let records = shop.records()?;
    ensure!(records.iter().flat_map(|record| &record.value).all(|value| value.first() == Some(&0)), "not only Avro");
    figures(&format!("avro: records={} rows_compared={rows} digests={first:?} {second:?}", records.len()));
    Ok(())
}
