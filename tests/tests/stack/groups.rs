//! Several members of one consumer group, writing one table.

use anyhow::{Context, Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;
use std::time::Duration;

use crate::verdict::verdict;

#[test]
fn two_members_share_a_topic_and_one_takes_over_when_the_other_leaves() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "members", 3)?;
    let first = Highwater::configure(&stack.scratch.folder("members")?, &shop)?;
    let second = first.another(&shop, "second")?;
    shop.generate(3_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let mut two = second.run()?;
    let both = || Ok(shop.broker.members(&first.group)? == 2);
    wait(Duration::from_mins(1), "two members did not own partitions", both)
        .with_context(|| format!("{}{}", first.tail(&one), second.tail(&two)))?;
    shop.generate_slowly(300, 3_000, 300, 2)?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    ensure!(shop.broker.members(&first.group)? == 2, "a member was lost{}{}", first.tail(&one), second.tail(&two));
    ensure!(two.ended()?.is_none(), "the second member ended{}", second.tail(&two));

    // The first leaves in the middle of the load; the second takes its partitions over.
    std::thread::scope(|scope| -> Result<()> {
        let load = scope.spawn(|| shop.generate_slowly(300, 2_000, 300, 3));
        std::thread::sleep(Duration::from_secs(1));
        first.stop(one)?;
        load.join().expect("the load does not panic")
    })?;
    shop.delivered()?;
    second.wait_caught_up(&shop, &mut two)?;
    second.stop(two)?;
    verdict("two members", &shop, &first, watch, "members=2 left=1")?;
    Ok(())
}

#[test]
fn a_killed_member_s_partitions_go_to_the_other_and_it_comes_back() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "member_killed", 3)?;
    let first = Highwater::configure(&stack.scratch.folder("member_killed")?, &shop)?;
    let second = first.another(&shop, "second")?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let mut two = second.run()?;
    let owners = |members| {
        wait(Duration::from_mins(1), "not as many members own partitions", || {
            Ok(shop.broker.members(&first.group)? == members)
        })
    };
    owners(2)?;
    std::thread::scope(|scope| -> Result<()> {
        let load = scope.spawn(|| shop.generate_slowly(1_000, 7_000, 1_000, 2));
        std::thread::sleep(Duration::from_secs(1));
        two.kill()?;
        owners(1).context("the dead member still owns partitions")?;
        two = second.run()?;
        owners(2).context("the member did not come back")?;
        load.join().expect("the load does not panic")
    })?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    first.stop(one)?;
    second.stop(two)?;
    verdict("a member killed", &shop, &first, watch, "members=2 kills=1")?;
    Ok(())
}
