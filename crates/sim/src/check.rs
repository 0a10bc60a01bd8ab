//! What must hold at every step, and at the end.

use std::collections::BTreeMap;

use pipeline::{Epoch, TopicPartition};

use crate::{connector::topic, envelope::Truth, lake::SimTable, member::GROUP, world::World};

/// A table has a new version: no row goes back in the order, no floor and no position does, and the checkpoint is not ahead of
/// what the table holds.
pub fn commit(world: &mut World, table: usize, next: SimTable, who: &str) {
    world.note(|| {
        let positions = next.positions.values().flatten();
        let positions: Vec<_> = positions.map(|(tp, position)| format!("{tp}={}", position.offset)).collect();
        format!("{who}: t{table} version {} at {}", next.version, positions.join(" "))
    });
    let before = std::mem::replace(&mut world.lake.tables[table], next);
    if before.version.is_multiple_of(3) {
        world.lake.older[table] = before.clone();
    }
    let after = &world.lake.tables[table];
    let mut broken = Vec::new();
    for (key, row) in &before.rows.rows {
        match after.rows.rows.get(key) {
            None => broken.push(format!("t{table}: the row of key {key} is gone")),
            Some(now) if now.order < row.order => {
                broken.push(format!("t{table}: key {key} went back from {} to {}", row.order, now.order));
            }
            Some(now) if now.order == row.order && now != row => {
                broken.push(format!("t{table}: key {key} changed at one order {}", row.order));
            }
            Some(_) => {}
        }
    }
    if after.rows.floor < before.rows.floor {
        broken.push(format!("t{table}: the floor went back"));
    }
    for (group, positions) in &before.positions {
        for (partition, position) in positions {
            let now = after.positions.get(group).and_then(|positions| positions.get(partition));
            // a new topic is read from its beginning
            if !world.accept.topic && now.is_none_or(|now| now.offset < position.offset) {
                broken.push(format!("t{table}: the checkpoint of {partition} went back"));
            }
        }
    }
    let ends: Vec<_> = after.positions.values().flatten().map(|(tp, at)| (tp.clone(), at.offset)).collect();
    world.violations.append(&mut broken);
    for (partition, offset) in ends {
        durable(world, table, &partition, offset, "the checkpoint");
    }
}

/// A member moves the positions of its own partitions only: what it has let go of was durable before. One that the
/// group has given up does not know better.
pub fn owned(world: &mut World, table: usize, next: &SimTable, member: usize) {
    let id = world.members[member].id;
    let known = world.lake.tables[table].positions.get(GROUP);
    let moved = next.positions.get(GROUP).into_iter().flatten().filter(|(partition, position)| {
        let before = known.and_then(|known| known.get(*partition)).map_or(0, |position| position.offset);
        position.offset > before && world.broker.is_foreign(id, partition)
    });
    let broken: Vec<_> = moved.map(|(tp, _)| format!("member {member} moves {tp}, which it has let go")).collect();
    world.violations.extend(broken);
}

/// Reading begins at or after the checkpoint that was there at the assignment, unless the store lists commits late.
pub fn begun(world: &mut World, partition: &TopicPartition, offset: i64, checkpoint: i64) {
    if offset < checkpoint && world.stats.accidents + world.stats.listed_late == 0 {
        world.violations.push(format!("{partition} is read again from {offset}, the checkpoint is at {checkpoint}"));
    }
}

/// Everything before `offset` has had its effect, or is a dead letter. After an accident only the end counts: where a
/// table has lost commits, a record that was delivered on two partitions may have to come again on the one of them.
pub fn durable(world: &mut World, table: usize, partition: &TopicPartition, offset: i64, what: &str) {
    if world.stats.accidents > 0 {
        return;
    }
    let Some(log) = world.broker.logs.get(partition) else { return };
    if offset > log.high() {
        world.violations.push(format!("{what} of {partition} is at {offset}, the log ends at {}", log.high()));
        return;
    }
    let from = world.durable.get(partition).copied().unwrap_or(0);
    let SimTable { rows, epoch: Epoch { since, .. }, .. } = &world.lake.tables[table];
    let since = *since;
    for at in from.max(log.low)..offset {
        let record = log.get(at).filter(|record| record.timestamp >= since);
        let has_effect = match record.map(|record| record.truth) {
            None | Some(Truth::NoChange) => true,
            Some(Truth::Truncate(order)) => rows.floor >= order,
            Some(Truth::Poison) => world.letters.contains(&(partition.clone(), at)),
            Some(Truth::Change { key, order }) => order <= rows.rows.get(&key).map_or(rows.floor, |row| row.order),
        };
        if !has_effect {
            let text = format!("{what} of {partition} is at {offset}, but the record at {at} is not durable");
            world.violations.push(text);
            return;
        }
    }
    let known = world.durable.entry(partition.clone()).or_insert(0);
    *known = offset.max(*known);
}

/// At the end: the replica's live rows are the source's.
pub fn equality(world: &mut World) {
    let mut broken = Vec::new();
    for (table, replica) in world.lake.tables.iter().enumerate() {
        let source = world.source.rows(table);
        let live: BTreeMap<_, _> = replica.rows.live().collect();
        for (key, row) in &source {
            let expected = [Some(format!("s{}", row.status)), row.note.map(|note| format!("n{note}"))];
            match live.get(key) {
                None => broken.push(format!("t{table}: key {key} is missing")),
                Some(found) if **found != expected => {
                    broken.push(format!("t{table}: key {key} is {found:?}, the source has {expected:?}"));
                }
                Some(_) => {}
            }
        }
        for key in live.keys().filter(|key| !source.contains_key(key)) {
            if !world.connector.ghosts.contains(&(table, **key)) {
                broken.push(format!("t{table}: key {key} is live, the source has deleted it"));
            }
        }
        for partition in world.broker.partitions(&topic(table)) {
            let Some(log) = world.broker.logs.get(&partition) else { continue };
            for at in log.low..log.high() {
                let is_poison = log.get(at).is_some_and(|record| record.is_poison(replica.epoch.since));
                if is_poison && !world.letters.contains(&(partition.clone(), at)) {
                    broken.push(format!("{partition}: the bad record at {at} is no dead letter"));
                }
            }
        }
    }
    world.violations.append(&mut broken);
}
