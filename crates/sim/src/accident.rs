//! Accidents with a table, its topic or the source, and what the operator does about them.
//!
//! They happen while no member runs. The next one either reads on without harm, or halts the table and names the
//! command that helps; the operator then does what it says.

use std::mem;

use pipeline::{Accept, Summary};

use crate::{connector::topic, lake::SimTable, scenario::Accident, world::World};

/// More keys than any scenario has.
const KEYS: std::ops::Range<i64> = 0..64;

/// The accident happens, to the first table.
pub fn happens(world: &mut World, accident: Accident) {
    let partitions = world.broker.partitions(&topic(0));
    world.note(|| format!("{accident:?}"));
    world.stats.accidents += 1;
    match accident {
        Accident::LostTable => world.lake.tables[0] = SimTable::created(100),
        Accident::OlderTable => {
            let older = world.lake.older[0].clone();
            world.lake.tables[0] = older;
        }
        Accident::NewTopic => {
            for partition in &partitions {
                world.broker.logs.insert(partition.clone(), crate::broker::Log::default());
            }
            world.connector.crash(true);
        }
        Accident::OlderSource => {
            let backup = mem::take(&mut world.backup);
            world.source.restore(backup);
            world.connector.restored();
        }
    }
    for partition in &partitions {
        world.durable.remove(partition);
    }
    if matches!(accident, Accident::NewTopic | Accident::OlderSource) {
        // a new snapshot says nothing of the rows that are gone, unless the table is emptied for it
        world.connector.ghosts.extend((0..world.connector.tables).flat_map(|table| KEYS.map(move |key| (table, key))));
        while world.connect(1000) > 0 {}
    }
}

/// The command that the first table's fault names, if it is one of those that accept an accident. The fault is taken
/// out of the summary then.
pub fn told(world: &mut World, summary: &mut Summary) -> Option<String> {
    world.accept = Accept::default();
    if !world.has_accident {
        return None;
    }
    let (_, _, fault) = summary.tables.first_mut()?;
    let message = fault.as_ref()?.message.clone();
    let (_, command) = message.split_once("`highwater run --accept-")?;
    let (command, _) = command.split_once('`')?;
    *fault = None;
    world.stats.accepted += 1;
    world.note(|| format!("the operator: --accept-{command}"));
    Some(command.to_owned())
}

/// The operator does what the table's fault said.
pub fn accept(world: &mut World, command: &str) {
    match command.split_once(' ') {
        Some(("gap", "t0")) => world.accept.gap = true,
        Some(("topic", "t0")) => world.accept.topic = true,
        Some(("epoch", epoch)) => {
            let since = epoch.strip_prefix("t0@").and_then(|since| since.parse().ok());
            match since {
                Some(since) => {
                    world.lake.tables[0].begin_epoch(since);
                    // whatever is live now was sent in the new epoch
                    world.connector.ghosts.retain(|(table, _)| *table != 0);
                }
                None => world.violations.push(format!("what is one to make of --accept-{command}?")),
            }
        }
        _ => world.violations.push(format!("what is one to make of --accept-{command}?")),
    }
}
