//! SIGKILL in the middle of the load: of highwater, and of Connect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::reconcile::equal;
use crate::verdict::{figures, verdict};

const KILLS: u32 = 10;
/// Set it to have the moments of an earlier run again.
pub(crate) const SEED: &str = "HIGHWATER_TEST_SEED";

/// Makes changes at a modest rate until `body` has ended; gives the number of changes and what the body gave.
pub(crate) fn under_load<T>(shop: &Shop, body: impl FnOnce() -> Result<T>) -> Result<(u32, T)> {
    under_rounds(|round| shop.generate_slowly(100, 350, 50, 1_000 + round).map(|()| 500), body)
}

/// The same with rounds of changes of the caller's own; each gives how many it made.
pub(crate) fn under_rounds<T>(
    round: impl Fn(u64) -> Result<u32> + Sync,
    body: impl FnOnce() -> Result<T>,
) -> Result<(u32, T)> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| -> Result<u32> {
            let (mut rounds, mut changes) = (0, 0);
            while !done.load(Ordering::Relaxed) {
                rounds += 1;
                changes += round(rounds)?;
            }
            Ok(changes)
        });
        let result = body();
        done.store(true, Ordering::Relaxed);
        let changes = load.join().expect("the load does not panic")?;
        Ok((changes, result?))
    })
}

#[test]
fn ten_kills_of_highwater_under_load_lose_and_double_nothing() -> Result<()> {
    let seed = match std::env::var(SEED) {
        Ok(seed) => seed.parse().with_context(|| format!("{SEED} is no number"))?,
        Err(_) => rand::random_range(0..1_000_000_u64),
    };
    figures(&format!("kills of highwater: {SEED}={seed}"));
    let mut random = StdRng::seed_from_u64(seed);
    let stack = shared()?;
    let shop = Shop::open(&stack, "killed", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("killed")?, &shop)?;
    shop.generate(3_000, 0, 0, seed)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;

    let (changes, moved) = under_load(&shop, || {
        let mut moved = 0;
        for kill in 0..KILLS {
            let before = highwater.version();
            let mut process = highwater.run()?;
            if kill % 2 == 0 {
                // Any moment, the start and the wait for the dead member's partitions among them.
                std::thread::sleep(Duration::from_millis(random.random_range(100..5_000)));
            } else {
                // Right after a commit to the table: about when its offsets are acknowledged.
                let start = Instant::now();
                while highwater.version() == before && start.elapsed() < Duration::from_secs(20) {
                    ensure!(process.ended()?.is_none(), "it ended by itself{}", highwater.tail(&process));
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(Duration::from_millis(random.random_range(0..30)));
            }
            ensure!(process.ended()?.is_none(), "it ended by itself{}", highwater.tail(&process));
            process.kill()?;
            moved += u32::from(highwater.version() != before);
        }
        Ok(moved)
    })?;
    ensure!(moved >= KILLS / 2, "only {moved} of {KILLS} killed processes had committed something");

    shop.delivered()?;
    highwater.catch_up()?;
    let version = highwater.version();
    let replay = highwater.replay()?;
    ensure!(replay.rows_changed == 0 && highwater.version() == version, "{replay:?}");
    let more = format!("seed={seed} kills={KILLS} killed_after_commits={moved} changes={changes} replay_changed=0");
    verdict("kills of highwater", &shop, &highwater, watch, &more)?;
    equal(&shop, &highwater)?;
    Ok(())
}

#[test]
fn kills_of_connect_under_load_re_deliver_and_the_replica_is_right() -> Result<()> {
    /// Most often the first is enough; each may come right after a commit of the source's offsets.
    const BOUND: u32 = 5;
    let mut stack = shared()?;
    let shop = Shop::open(&stack, "connect_killed", 3)?;
    let highwater = Highwater::configure(&stack.scratch.folder("connect_killed")?, &shop)?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &highwater)?;
    let mut process = highwater.run()?;

    let (changes, kills) = under_load(&shop, || {
        // Killed before its first commit of offsets, Debezium takes a new snapshot and never sends what happened in the gap.
        wait(Duration::from_mins(1), "connect committed no offset", || shop.worker.has_streamed_offsets(&shop.name))?;
        for kill in 1..=BOUND {
            let start = shop.broker.count(&shop.topic)?;
            let grown = || Ok(shop.broker.count(&shop.topic)? > start + 1_500);
            wait(Duration::from_mins(1), "the topic does not grow", grown)?;
            stack.connect.kill()?;
            stack.connect.start()?;
            shop.worker.wait_running(&shop.name)?;
            shop.delivered()?;
            if shop.events()?.iter().any(|event| event.again) {
                return Ok(kill);
            }
        }
        Ok(BOUND)
    })?;
    shop.delivered()?;
    highwater.wait_caught_up(&shop, &mut process)?;
    highwater.stop(process)?;
    let more = format!("kills={kills} changes={changes}");
    let events = verdict("kills of connect", &shop, &highwater, watch, &more)?;
    equal(&shop, &highwater)?;
    ensure!(events.iter().any(|event| event.again), "{kills} kills and nothing was delivered twice: nothing is proven");
    Ok(())
}
