//! The plain way: a snapshot, the stream after it, a replay of all of it.

use anyhow::{Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::postgres::Postgres;
use highwater_tests::shop::Shop;
use highwater_tests::stack::shared;

use crate::reconcile::equal;
use crate::verdict::{figures, verdict};

#[test]
fn a_snapshot_and_the_stream_after_it_arrive_over_three_partitions() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "streaming", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("streaming")?, &shop)?;
    shop.generate(5_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;
    shop.generate(2_000, 8_000, 1_000, 2)?;
    shop.generate_slowly(200, 1_000, 200, 3)?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    ensure!(shop.broker.end_offsets(&shop.topic)?.iter().all(|end| *end > 0), "a partition is empty");
    verdict("snapshot then stream", &shop, &highwater, watch, "")?;
    Ok(())
}

#[test]
fn a_run_until_caught_up_ends_with_the_same_table() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "batch", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("batch")?, &shop)?;
    shop.generate(2_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    for seed in 2..4 {
        shop.generate(500, 2_000, 300, seed)?;
        shop.delivered()?;
        highwater.catch_up()?;
    }
    verdict("until caught up, twice", &shop, &highwater, watch, "")?;
    Ok(())
}

#[test]
fn a_replay_from_the_earliest_offset_changes_no_row_and_makes_no_version() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "replaying", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("replaying")?, &shop)?;
    shop.generate(3_000, 0, 0, 1)?;
    shop.connect()?;
    shop.generate(500, 5_000, 800, 2)?;
    shop.delivered()?;
    let watch = Watch::start(&shop, &highwater)?;
    highwater.catch_up()?;
    let version = highwater.version();
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0 && replay.version_before == replay.version_after, "{replay:?}");
    ensure!(highwater.version() == version, "the replay made version {:?} after {version:?}", highwater.version());
    verdict("replay", &shop, &highwater, watch, &format!("replay={replay:?}"))?;
    equal(&shop, &highwater)?;
    Ok(())
}

#[test]
fn postgresql_15_is_followed_as_16_is() -> Result<()> {
    let stack = shared()?;
    let postgres = Postgres::start_15(&stack.scratch)?;
    let shop = Shop::open_on(&postgres, &stack, "debian", 3)?;
    let version: String = shop.database.value("show server_version")?;
    ensure!(version.starts_with("15."), "PostgreSQL {version}");
    let highwater = Highwater::configure(&stack.scratch.folder("debian")?, &shop)?;
    shop.generate(2_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;
    shop.generate(500, 3_000, 300, 2)?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    verdict("PostgreSQL 15", &shop, &highwater, watch, "")?;
    let sixteen: String = stack.postgres.database("postgres").value("show server_version")?;
    ensure!(sixteen.starts_with("16."), "the shared stack runs PostgreSQL {sixteen}");
    figures(&format!("versions: PostgreSQL {version} here, {sixteen} in the other tests"));
    Ok(())
}
