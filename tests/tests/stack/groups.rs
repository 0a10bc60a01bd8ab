//! Several members of one consumer group, writing one table: in every way in which a group can share its partitions out.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use highwater_tests::checkpoints::Watch;
use highwater_tests::highwater::Highwater;
use highwater_tests::process::Process;
use highwater_tests::shop::{Shop, wait};
use highwater_tests::stack::shared;

use crate::kills::under_load;
use crate::verdict::verdict;

/// What a process was given, assignment by assignment: `topic/0, topic/1`, or nothing.
pub(crate) fn assignments(process: &Process) -> Vec<String> {
    let log = process.log();
    let given = log.lines().filter_map(|line| line.split_once(" assigned: "));
    given.map(|(_, given)| given.split(" records_ahead").next().unwrap_or_default().trim().to_owned()).collect()
}

/// Waits until a process was given partitions.
pub(crate) fn given(process: &mut Process) -> Result<()> {
    wait(Duration::from_mins(1), "a member was given no partition", || {
        ensure!(process.ended()?.is_none(), "{} ended", process.name());
        Ok(assignments(process).iter().any(|given| !given.is_empty()))
    })
    .with_context(|| process.log())
}

/// Waits until so many members of the group own partitions.
pub(crate) fn owners(shop: &Shop, group: &str, members: usize) -> Result<()> {
    let complaint = format!("there were not {members} members that own partitions");
    wait(Duration::from_mins(1), &complaint, || Ok(shop.broker.members(group)? == members))
}

#[test]
fn two_members_share_a_topic_and_one_takes_over_when_the_other_leaves() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "members", 3)?;
    let first = Highwater::configure(&stack.scratch.folder("members")?, &shop)?;
    let second = first.another("second")?;
    shop.generate(3_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let mut two = second.run()?;
    owners(&shop, &first.group, 2).with_context(|| format!("{}{}", first.tail(&one), second.tail(&two)))?;
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
    let second = first.another("second")?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let mut two = second.run()?;
    owners(&shop, &first.group, 2)?;
    under_load(&shop, || {
        std::thread::sleep(Duration::from_secs(1));
        two.kill()?;
        owners(&shop, &first.group, 1).context("the dead member still owns partitions")?;
        two = second.run()?;
        owners(&shop, &first.group, 2).context("the member did not come back")
    })?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    first.stop(one)?;
    second.stop(two)?;
    verdict("a member killed", &shop, &first, watch, "members=2 kills=1")?;
    Ok(())
}

/// A member joins another under load, leaves and comes back, with these options of the client and with what the broker then calls the
/// group's protocol.
fn comes_and_goes(name: &str, options: &[(&str, &str)], protocol: &str) -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, name, 4)?;
    let first = Highwater::configure(&stack.scratch.folder(name)?, &shop)?;
    first.kafka_options(options)?;
    let second = first.another("second")?;
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    given(&mut one)?;
    // Of a group in which the broker assigns, it tells its members by another request only.
    let expected = (protocol.to_owned(), if protocol.is_empty() { 0 } else { 2 });
    let (changes, (left, two)) = under_load(&shop, || {
        let mut two = second.run()?;
        given(&mut two)?;
        let used = || -> Result<_> { Ok((shop.broker.protocol(&first.group)?, shop.broker.members(&first.group)?)) };
        wait(Duration::from_secs(20), "the group does not use the protocol", || Ok(used()? == expected))
            .with_context(|| format!("{:?}", used()))?;
        let left = second.stop(two)?;
        let mut two = second.run()?;
        given(&mut two)?;
        Ok((left, two))
    })?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    let received = left + first.stop(one)? + second.stop(two)?;
    let records = shop.broker.count(&shop.topic)?;
    let more = format!("changes={changes} received_over_all={received}");
    verdict(name, &shop, &first, watch, &more)?;
    // Nobody died, so what left was durable first.
    ensure!(received == records, "{received} were received of {records}");
    Ok(())
}

/// A session that expires within a test.
pub(crate) const SESSION: [(&str, &str); 2] = [("session.timeout.ms", "3000"), ("heartbeat.interval.ms", "500")];

#[test]
fn eager_assignment_ends_equal_and_reads_nothing_twice() -> Result<()> {
    let range = ("partition.assignment.strategy", "range");
    comes_and_goes("eager", &[SESSION[0], SESSION[1], range], "range")
}

#[test]
fn cooperative_assignment_ends_equal_and_reads_nothing_twice() -> Result<()> {
    comes_and_goes("cooperative", &SESSION, "cooperative-sticky")
}

#[test]
fn the_protocol_in_which_the_broker_assigns_ends_equal_and_reads_nothing_twice() -> Result<()> {
    comes_and_goes("broker_assigns", &[("group.protocol", "consumer")], "")
}

#[test]
fn a_static_member_back_within_its_session_has_its_partitions_and_the_other_kept_its_own() -> Result<()> {
    let stack = shared()?;
    let shop = Shop::open(&stack, "static_member", 4)?;
    let first = Highwater::configure(&stack.scratch.folder("static_member")?, &shop)?;
    let second = first.another("second")?;
    // Under the eager protocol every rebalance shows in every member's log.
    for (member, name) in [(&first, "first"), (&second, "second")] {
        let session = [("session.timeout.ms", "30000"), ("heartbeat.interval.ms", "500")];
        let range = ("partition.assignment.strategy", "range");
        member.kafka_options(&[session[0], session[1], range, ("group.instance.id", name)])?;
    }
    shop.generate(1_000, 0, 0, 1)?;
    shop.connect()?;
    let watch = Watch::start(&shop, &first)?;

    let mut one = first.run()?;
    let mut two = second.run()?;
    let halves = |process: &Process| assignments(process).last().is_some_and(|last| last.split(", ").count() == 2);
    wait(Duration::from_mins(1), "the partitions were not shared", || Ok(halves(&one) && halves(&two)))?;
    let (kept, had) = (assignments(&one), assignments(&two).pop());
    let (changes, ()) = under_load(&shop, || {
        two.kill()?;
        two = second.run()?;
        given(&mut two)?;
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    })?;
    shop.delivered()?;
    first.wait_caught_up(&shop, &mut one)?;
    ensure!(assignments(&two).pop() == had, "it had {had:?} and got {:?}", assignments(&two));
    ensure!(assignments(&one) == kept, "the other had {kept:?}, and then {:?}", assignments(&one));
    first.stop(one)?;
    second.stop(two)?;
    verdict("a static member", &shop, &first, watch, &format!("changes={changes} kills=1"))?;
    Ok(())
}
