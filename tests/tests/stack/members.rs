//! Members under load: frozen, joined and left by others, without their broker, racing each other, waiting for a slow store.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::process::Process;
use highwater_tests::s3::S3;
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;

use crate::groups::{SESSION, assignments, given, owners};
use crate::kills::under_load;
use crate::s3::committed;
use crate::verdict::verdict;

/// Waits until the table has so many more versions.
fn goes_on(highwater: &Highwater, versions: u64) -> Result<()> {
    let enough = highwater.version().unwrap_or(0) + versions;
    wait(Duration::from_mins(1), "the table did not go on", || Ok(highwater.version() >= Some(enough)))
}

#[test]
fn a_member_frozen_past_its_session_does_no_harm_when_it_goes_on() -> Result<()> {
    const FREEZES: u32 = 3;
    let stack = shared()?;
    let shop = Shop::open(&stack, "frozen", 4)?;
    let first = Highwater::configure(&stack.scratch.folder("frozen")?, &shop)?;
    let second = first.another("second")?;
    // Whenever it is frozen, it holds a batch.
    second.change("age = \"300ms\"", "age = \"2s\"")?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let mut two = second.run()?;
    let (changes, ()) = under_load(&shop, || {
        for _ in 0..FREEZES {
            owners(&shop, &first.group, 2)?;
            goes_on(&first, 1)?;
            std::thread::sleep(Duration::from_millis(150));
            two.freeze()?;
            owners(&shop, &first.group, 1)?;
            goes_on(&first, 3)?;
            two.thaw()?;
        }
        owners(&shop, &first.group, 2)
    })?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    let received = first.stop(one)? + second.stop(two)?;
    let again = received - shop.broker.count(&shop.topic)?;
    let more = format!("freezes={FREEZES} changes={changes} received_again={again}");
    verdict("a frozen member", &shop, &first, watch, &more)?;
    ensure!(again > 0, "the frozen member never held a record that the other took over: nothing is proven");
    Ok(())
}

#[test]
fn members_that_come_and_go_under_load_lose_nothing_and_read_little_twice() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "coming", 6)?;
    let first = Highwater::configure(&stack.scratch.folder("coming")?, &shop)?;
    let others = [first.another("second")?, first.another("third")?, first.another("fourth")?];
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    given(&mut one)?;
    let (changes, (joined_ms, left_ms, received)) = under_load(&shop, || {
        goes_on(&first, 3)?;
        let began = Instant::now();
        let mut processes = others.iter().map(Highwater::run).collect::<Result<Vec<Process>>>()?;
        owners(&shop, &first.group, 4)?;
        let joined = began.elapsed().as_millis();
        goes_on(&first, 10)?;
        let began = Instant::now();
        let mut received = first.stop(std::mem::replace(&mut one, processes.remove(0)))?;
        received += others[1].stop(processes.remove(0))?;
        owners(&shop, &first.group, 2)?;
        let left = began.elapsed().as_millis();
        goes_on(&first, 5)?;
        received += others[2].stop(processes.remove(0))?;
        Ok((joined, left, received))
    })?;
    shop.delivered()?;
    others[0].wait_caught_up(&shop, &mut one)?;
    let received = received + others[0].stop(one)?;
    let records = shop.broker.count(&shop.topic)?;
    let more = format!(
        "members=1,4,2,1 changes={changes} joined_ms={joined_ms} left_ms={left_ms} received_again={}",
        received - records
    );
    verdict("members come and go", &shop, &first, watch, &more)?;
    // A batch without an effective row is no commit, and its offsets may be acknowledged late: some tombstones come twice.
    ensure!((records..records + records / 20).contains(&received), "{received} were received of {records}");
    Ok(())
}

#[test]
fn kafka_killed_and_stopped_under_load_is_waited_for() -> Result<()> {
    let mut stack = shared()?;
    let shop = Shop::open(&stack, "kafka_restarts", 3)?;
    let first = Highwater::configure(&stack.scratch.folder("kafka_restarts")?, &shop)?;
    let second = first.another("second")?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let two = second.run()?;
    let (changes, ()) = under_load(&shop, || {
        owners(&shop, &first.group, 2)?;
        // Without its broker before its first commit of offsets, Debezium takes a new snapshot and never sends what happened in the gap.
        wait(Duration::from_mins(1), "connect committed no offset", || shop.worker.has_streamed_offsets(&shop.name))?;
        stack.kafka.kill()?;
        stack.kafka.start()?;
        goes_on(&first, 3)?;
        stack.kafka.stop()?;
        stack.kafka.start()?;
        goes_on(&first, 3)?;
        owners(&shop, &first.group, 2)
    })?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    first.stop(one)?;
    second.stop(two)?;
    verdict("kafka restarts", &shop, &first, watch, &format!("kills=1 stops=1 changes={changes}"))?;
    Ok(())
}

#[test]
fn two_members_that_merge_at_once_both_commit() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "racing", 2)?;
    let mut first = Highwater::configure(&stack.scratch.folder("racing")?, &shop)?;
    first.change("rows = 100000", "rows = 200")?;
    first.verbose = true;
    let second = first.another("second")?;
    shop.generate(500, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let two = second.run()?;
    owners(&shop, &first.group, 2)?;
    shop.generate(2_000, 4_000, 500, 2)?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    let logs = [one.log(), two.log()];
    first.stop(one)?;
    second.stop(two)?;
    let commits = logs.each_ref().map(|log| committed(log));
    let lost = logs.each_ref().map(|log| log.matches("another writer was faster").count());
    let more = format!("commits={:?} lost_races={lost:?}", [commits[0].len(), commits[1].len()]);
    verdict("two members merge at once", &shop, &first, watch, &more)?;
    ensure!(commits.iter().all(|versions| versions.len() > 5), "one of them committed little: {more}");
    ensure!(commits[0].is_disjoint(&commits[1]), "both committed the same version");
    ensure!(lost.iter().sum::<usize>() > 0, "they never met: {more}");
    Ok(())
}

#[test]
fn a_merge_of_three_poll_intervals_costs_no_membership() -> Result<()> {
    const INTERVAL: Duration = Duration::from_secs(6);
    let stack = shared()?;
    // One partition: whoever loses it, the other has it.
    let shop = Shop::open(&stack, "slow_merge", 1)?;
    let scratch = Scratch::new("s3")?;
    let mut server = S3::start_new(&scratch)?;
    let mut first = Highwater::configure(&stack.scratch.folder("slow_merge")?, &shop)?;
    first.store_in(&server, "slow_merge")?;
    // Small batches, so that one waits behind the slow one, and the consumer behind that.
    first.change("rows = 100000", "rows = 50")?;
    let interval = INTERVAL.as_millis().to_string();
    first.kafka_options(&[SESSION[0], SESSION[1], ("max.poll.interval.ms", &interval)])?;
    let second = first.another("second")?;
    shop.generate(200, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    given(&mut one)?;
    let two = second.run()?;
    let joined = || Ok(!assignments(&two).is_empty());
    wait(Duration::from_mins(1), "the second member did not join", joined)?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    let before = (assignments(&one), assignments(&two));

    server.freeze()?;
    let version = first.version();
    shop.generate_slowly(100, 400, 50, 2)?;
    std::thread::sleep(3 * INTERVAL);
    ensure!(first.version() == version, "the merge was over before the store was back");
    server.thaw()?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    let after = (assignments(&one), assignments(&two));
    ensure!(before == after, "there was a rebalance: {before:?}, then {after:?}{}", first.tail(&one));
    let received = first.stop(one)?;
    ensure!(second.stop(two)? == 0, "the second member read records");
    let more = format!("merge_ms={} interval_ms={interval} received={received}", (3 * INTERVAL).as_millis());
    verdict("a slow merge", &shop, &first, watch, &more)?;
    ensure!(received == shop.broker.count(&shop.topic)?, "records were read twice");
    Ok(())
}
