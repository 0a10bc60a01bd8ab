//! [`SimReplica`]: the pipeline's replica over a simulated lake.
//!
//! The rows are those of the reference model, `change::model`; what is simulated is everything around them: the
//! snapshot that a member works on, the race of two commits for one version, an answer that gets lost, a store that
//! fails. [`crate::contract`] holds it and the real replica to the same behaviour.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
};

use arrow::{
    array::{Array, AsArray},
    datatypes::Int64Type,
};
use change::{
    ChangeBatch, Order,
    model::{self, Change, Value},
};
use pipeline::{Applied, Batch, Checkpoint, Epoch, Fault, Replica, RowCounts, TopicPartition};
use tokio::time::{Duration, Instant, sleep};

use crate::{
    check,
    envelope::order,
    member::{GROUP, Handle},
};

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// It fails before anything is written.
    Fails,
    /// It is done, and the answer gets lost.
    AnswerLost,
    /// It takes this long.
    Slow(Duration),
}

/// A table of the lake.
#[derive(Debug, Clone)]
pub struct SimTable {
    /// Commits so far.
    pub version: u64,
    /// The rows and the floor.
    pub rows: model::Replica<i64, String>,
    /// By group: the positions.
    pub positions: BTreeMap<String, Checkpoint>,
    /// Which table it is.
    pub epoch: Epoch,
}

impl Default for SimTable {
    fn default() -> Self {
        Self { version: 0, rows: model::Replica::new(2), positions: BTreeMap::new(), epoch: Epoch::default() }
    }
}

impl SimTable {
    /// An empty table, known by `number`.
    #[must_use]
    pub fn created(number: i64) -> Self {
        Self { epoch: Epoch { table: number, since: 0 }, ..Self::default() }
    }

    /// Begins the epoch since `since`, as `run --accept-epoch` does.
    pub fn begin_epoch(&mut self, since: i64) {
        self.version += 1;
        self.epoch.since = since;
        self.positions.clear();
        self.rows.begin_epoch();
    }
}

/// The lake.
#[derive(Debug, Default)]
pub struct SimLake {
    /// The newest version of each table.
    pub tables: Vec<SimTable>,
    /// An older version of each.
    pub older: Vec<SimTable>,
    /// What goes wrong with the next commits.
    pub mishaps: Vec<Mishap>,
    /// Until then no call succeeds.
    pub outage_until: Option<Instant>,
    /// Commits that lost a race.
    pub conflicts: u64,
    /// Commits of which the answer got lost.
    pub lost_answers: u64,
    /// Calls that failed.
    pub failures: u64,
}

impl SimLake {
    /// A lake of empty tables.
    #[must_use]
    pub fn of(tables: usize) -> Self {
        let tables: Vec<_> = (1..).take(tables).map(SimTable::created).collect();
        Self { older: tables.clone(), tables, ..Self::default() }
    }

    /// Whether the store does not answer now; if so, one more call has failed.
    pub fn is_away(&mut self) -> bool {
        let is_away = self.outage_until.is_some_and(|until| until > Instant::now());
        self.failures += u64::from(is_away);
        is_away
    }
}

/// What the members of a history write to.
pub trait Lake: Send + Sync + 'static {
    /// A member's view of a table.
    type Replica: Replica;

    /// Opens a table for a member. `group` is the group whose positions it keeps.
    fn open(&self, handle: &Handle, table: usize, group: &str) -> impl Future<Output = Self::Replica> + Send;

    /// The newest version of a table.
    fn table(&self, handle: &Handle, table: usize) -> impl Future<Output = SimTable> + Send;
}

/// The simulated lake, which is in the [`crate::world::World`].
#[derive(Debug, Clone, Copy)]
pub struct Simulated;

impl Lake for Simulated {
    type Replica = SimReplica;

    async fn open(&self, handle: &Handle, table: usize, group: &str) -> SimReplica {
        SimReplica { handle: handle.clone(), table, group: group.to_owned(), loaded: None }
    }

    async fn table(&self, handle: &Handle, table: usize) -> SimTable {
        handle.world().lake.tables[table].clone()
    }
}

/// A member's view of a table in the simulated lake.
pub struct SimReplica {
    handle: Handle,
    table: usize,
    group: String,
    /// The version that it has loaded.
    loaded: Option<SimTable>,
}

impl SimReplica {
    async fn reach(&self, what: &str) -> Result<(), Fault> {
        self.handle.gate().await;
        if self.handle.world().lake.is_away() {
            return Err(Fault::retry(format!("the store does not answer at {what}")));
        }
        Ok(())
    }

    async fn load(&mut self) -> Result<SimTable, Fault> {
        if let Some(loaded) = &self.loaded {
            return Ok(loaded.clone());
        }
        self.reach("reading the newest version").await?;
        let loaded = self.handle.world().lake.tables[self.table].clone();
        self.loaded = Some(loaded.clone());
        Ok(loaded)
    }

    async fn commit(&mut self, next: SimTable) -> Result<u64, Fault> {
        let mishap = self.handle.world().lake.mishaps.pop();
        if let Some(Mishap::Slow(time)) = mishap {
            sleep(time).await;
        }
        self.reach("committing").await?;
        if mishap == Some(Mishap::Fails) {
            self.handle.world().lake.failures += 1;
            return Err(Fault::retry("the store failed before the commit"));
        }
        {
            let mut world = self.handle.world();
            let world = &mut *world;
            let stored = &world.lake.tables[self.table];
            if stored.version + 1 != next.version {
                world.lake.conflicts += 1;
                return Err(Fault::redo("another writer was faster"));
            }
            if self.group == GROUP {
                check::owned(world, self.table, &next, self.handle.member());
            }
            check::commit(world, self.table, next.clone(), &self.handle.name());
        }
        // the commit is there; the member may crash before it knows
        self.handle.gate().await;
        if mishap == Some(Mishap::AnswerLost) {
            self.handle.world().lake.lost_answers += 1;
            return Err(Fault::retry("no answer to the commit"));
        }
        let version = next.version;
        self.loaded = Some(next);
        Ok(version)
    }

    async fn apply_batch(&mut self, batch: &Batch) -> Result<Applied, Fault> {
        let loaded = self.load().await?;
        if batch.epoch != loaded.epoch.since {
            return Err(Fault::halt("another member accepted a new epoch"));
        }
        self.reach("reading the rows").await?;
        let mut next = loaded.clone();
        let mut counts = match reduce(&loaded.rows, &mut next.rows, &batch.changes) {
            Ok(counts) => counts,
            Err(unresolved) => return Ok(Applied::Unresolved(unresolved)),
        };
        if let Some(truncate) = batch.changes.truncate {
            counts.truncated = truncate > loaded.rows.floor;
            counts.guarded += u64::from(!counts.truncated);
            if counts.truncated {
                counts.emptied = next.rows.rows.values().filter(|row| row.order < truncate).count() as u64;
                next.rows.truncate(truncate);
            }
        }
        if counts.merged() == 0 {
            return Ok(Applied::NothingToDo(counts));
        }
        let known = next.positions.entry(self.group.clone()).or_default();
        for (partition, position) in &batch.positions {
            let known = known.entry(partition.clone()).or_default();
            if known.offset < position.offset {
                *known = *position;
            }
        }
        next.version += 1;
        let version = self.commit(next).await?;
        Ok(Applied::Committed { version, rows: counts })
    }
}

impl Replica for SimReplica {
    async fn checkpoint(&mut self, partitions: &[TopicPartition]) -> Result<Checkpoint, Fault> {
        self.loaded = None;
        let loaded = self.load().await?;
        let known = loaded.positions.get(&self.group).cloned().unwrap_or_default();
        Ok(known.into_iter().filter(|(partition, _)| partitions.contains(partition)).collect())
    }

    fn held(&self, partition: &TopicPartition) -> i64 {
        let positions = self.loaded.as_ref().and_then(|loaded| loaded.positions.get(&self.group));
        positions.and_then(|positions| positions.get(partition)).map_or(0, |position| position.offset)
    }

    fn epoch(&self) -> Epoch {
        self.loaded.as_ref().map(|loaded| loaded.epoch).unwrap_or_default()
    }

    async fn rewind(&mut self, positions: &Checkpoint) -> Result<(), Fault> {
        let mut next = self.load().await?;
        next.version += 1;
        next.positions.entry(self.group.clone()).or_default().extend(positions.clone());
        self.commit(next).await.map(drop)
    }

    async fn apply(&mut self, batch: &Batch) -> Result<Applied, Fault> {
        let applied = self.apply_batch(batch).await;
        if applied.is_err() {
            self.loaded = None;
        }
        applied
    }

    async fn maintain(&mut self) -> Result<(), Fault> {
        self.reach("housekeeping").await
    }
}

/// Applies a batch's rows to `next` one by one, and counts as a replica does that first picks the newest of each key.
/// The rows that leave out a value which nobody has are handed back instead.
fn reduce(
    stored: &model::Replica<i64, String>,
    next: &mut model::Replica<i64, String>,
    changes: &ChangeBatch,
) -> Result<RowCounts, Vec<usize>> {
    let events: Vec<_> = (0..changes.rows.num_rows()).map(|row| event(changes, row)).collect();
    let mut winners: BTreeMap<i64, (Order, usize)> = BTreeMap::new();
    for (row, (key, order, _)) in events.iter().enumerate() {
        let newest = winners.entry(*key).or_insert((*order, row));
        if *order >= newest.0 {
            *newest = (*order, row);
        }
    }
    let mut counts = RowCounts { superseded: (events.len() - winners.len()) as u64, ..RowCounts::default() };
    let mut verdicts = Vec::new();
    for (key, order, change) in events.iter().cloned() {
        verdicts.push(next.apply(key, order, change));
    }
    let mut unresolved = BTreeSet::new();
    for (key, (order, row)) in winners {
        let before = stored.rows.get(&key);
        if order <= before.map_or(stored.floor, |row| row.order) {
            counts.guarded += 1;
        } else if verdicts[row] == model::Verdict::Unresolved {
            unresolved.insert(row);
        } else if events[row].2 == Change::Delete {
            counts.deleted += 1;
        } else if before.is_some() {
            counts.updated += 1;
        } else {
            counts.inserted += 1;
        }
    }
    if unresolved.is_empty() { Ok(counts) } else { Err(unresolved.into_iter().collect()) }
}

/// A row of a batch as an event of the model.
fn event(changes: &ChangeBatch, row: usize) -> (i64, Order, Change<String>) {
    let long = |column: usize| changes.rows.column(column).as_primitive::<Int64Type>().value(row);
    let (key, lsn, anchor) = (long(0), long(3), long(4));
    let address = |long: i64| u64::try_from(long).unwrap_or_default();
    let order = order(address(anchor), address(lsn));
    if changes.rows.column(5).as_boolean().value(row) {
        return (key, order, Change::Delete);
    }
    let value = |column: usize| {
        let is_unchanged = changes.unchanged[column].as_ref().is_some_and(|unchanged| unchanged.value(row));
        let text = changes.rows.column(column).as_string::<i32>();
        if is_unchanged {
            return Value::Unchanged;
        }
        Value::Sent((!text.is_null(row)).then(|| text.value(row).to_owned()))
    };
    (key, order, Change::Upsert(vec![value(1), value(2)]))
}
