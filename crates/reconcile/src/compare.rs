//! [`Reconciliation`]: the comparison of one table.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use change::{Lsn, comparable::Digest};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use pipeline::Fault;
use replica_delta::{
    Compared, DeltaReplica, ReplicaView,
    view::{Cut, Range, RowState},
};
use source_postgres::{ComparedTable, Key, KeyOrder, KeyRange, PostgresSettings, QueryLimits, SourceView};

use crate::{
    CatchUp, Report,
    fold::fold,
    report::Took,
    settle::{self, Open, Seen},
};

/// What a comparison may cost.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of the source's queries.
    pub queries: QueryLimits,
    /// Before each range, on each connection.
    pub pause: Duration,
    /// The rows of a range.
    pub range_rows: u64,
    /// How often rows that differ or move are looked at again.
    pub looks: u32,
    /// So many rows that differ are named.
    pub named: usize,
}

/// Which rows are compared.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Those of this range.
    pub range: KeyRange,
    /// Those of so many ranges of it, from the first one on; `None` for all.
    pub ranges: Option<usize>,
    /// Those of this share of these, from 0 to 1; `None` for all.
    pub sample: Option<f64>,
}

/// What it is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It waits until the replica has come to an LSN.
    Waiting(Lsn),
    /// It has read so many more rows of the replica.
    Read(usize),
    /// It will compare so many rows, in ranges.
    Comparing {
        /// In all of them.
        rows: u64,
    },
    /// A range of so many rows was compared.
    Compared(u64),
    /// It looks again at so many rows.
    Looking {
        /// How many.
        rows: usize,
    },
}

/// The comparison of a table with its replica.
pub struct Reconciliation {
    /// The database.
    pub source: PostgresSettings,
    /// The table there.
    pub table: Arc<ComparedTable>,
    /// Its replica.
    pub replica: DeltaReplica,
    /// How to wait for the replica.
    pub catch_up: CatchUp,
    /// What it may cost.
    pub limits: Limits,
}

impl Reconciliation {
    /// Compares the rows of `scope`; `step` is told what it is at.
    ///
    /// # Errors
    /// A fault that says why nothing can be said.
    pub async fn compare(&mut self, scope: &Scope, step: &mut (dyn FnMut(Step) + Send)) -> Result<Report, Fault> {
        let mut took = Took::default();
        let mut clock = Instant::now();
        let mut lap = || std::mem::replace(&mut clock, Instant::now()).elapsed();
        let source = self.look().await?;
        step(Step::Waiting(source.lsn()));
        let replica = self.arrived(source.lsn()).await?;
        took.waiting = lap();
        let KeyRange { after, up_to } = &scope.range;
        let cut = Cut { lsn: source.lsn(), rows: self.limits.range_rows, ranges: scope.ranges };
        let ranges = replica.ranges(after.as_ref(), up_to.as_ref(), cut, |rows| step(Step::Read(rows)));
        let ranges = between(scope, ranges.await?);
        let end = ranges.last().and_then(|(range, _)| range.up_to.clone()).filter(|end| Some(end) != up_to.as_ref());
        took.replica = lap();
        let taken = sample(scope, ranges);
        step(Step::Comparing { rows: taken.iter().map(|(_, range)| range.digest.rows).sum() });
        let digests = self.digests(&source, &taken, step).await?;
        took.source = lap();

        let differing = taken.iter().zip(&digests).filter(|((_, range), digest)| range.digest != **digest);
        let differing: Vec<_> = differing.map(|(range, _)| range).collect();
        let (mut open, is_cut) = candidates(&source, &replica, &differing, self.limits.named).await?;
        took.narrowing = lap();
        let moved: Vec<&Key> = taken.iter().flat_map(|(_, range)| &range.moved).collect();
        open.extend(moved.iter().map(|&key| (key.clone(), None)));

        let mut report = Report {
            lsn: source.lsn(),
            version: replica.version(),
            end,
            source: fold(&digests),
            replica: fold(taken.iter().map(|(_, range)| &range.digest)),
            ranges: (taken.len(), differing.len()),
            moved: moved.len(),
            looks: 0,
            drift: Vec::new(),
            has_more: false,
            unsettled: 0,
            left_out: self.table.left_out().to_vec(),
            took,
        };
        // or the source would keep old rows for it until the end
        drop(source);
        let settled = settle::settle(self, open, step).await?;
        (report.looks, report.drift, report.has_more) = (settled.looks, settled.drift, settled.has_more);
        report.has_more |= is_cut;
        report.unsettled = settled.unsettled;
        report.took.settling = lap();
        Ok(report)
    }

    /// The source as it is now.
    pub(crate) async fn look(&self) -> Result<SourceView, Fault> {
        SourceView::open(&self.source, Arc::clone(&self.table), self.limits.queries).await.map_err(Fault::halt)
    }

    /// The replica, when it has come to an LSN.
    pub(crate) async fn arrived(&mut self, lsn: Lsn) -> Result<ReplicaView, Fault> {
        let columns = self.table.columns().iter().map(|column| (column.position, column.comparable.clone()));
        let compared = Compared {
            columns: columns.collect(),
            key: self.table.key().cloned().collect(),
            by_text: self.table.order() == KeyOrder::Text,
        };
        self.catch_up.wait(&mut self.replica, &compared, lsn).await
    }

    /// The source's digest of each range.
    async fn digests(
        &self,
        source: &SourceView,
        ranges: &[(KeyRange, Range)],
        step: &mut (dyn FnMut(Step) + Send),
    ) -> Result<Vec<Digest>, Fault> {
        let is_whole = ranges.first().is_some_and(|(range, _)| range.after.is_none())
            && ranges.last().is_some_and(|(range, _)| range.up_to.is_none())
            && ranges.windows(2).all(|pair| pair[0].0.up_to == pair[1].0.after);
        if self.table.order() == KeyOrder::Text && is_whole {
            let ends: Vec<Key> = ranges.iter().filter_map(|(range, _)| range.up_to.clone()).collect();
            let moved: Vec<Key> = ranges.iter().flat_map(|(_, range)| range.moved.iter().cloned()).collect();
            return source.digests(&ends, &moved).await.map_err(Fault::halt);
        }
        let connections = self.limits.queries.connections.max(1);
        let each = ranges.iter().enumerate().map(async |(turn, (bounds, range))| {
            tokio::time::sleep(self.limits.pause).await;
            source.digest(turn, bounds, &range.moved).await.map_err(Fault::halt)
        });
        let mut digests = Vec::with_capacity(ranges.len());
        let mut found = stream::iter(each).buffered(connections);
        while let Some(digest) = found.try_next().await? {
            step(Step::Compared(digest.rows));
            digests.push(digest);
        }
        Ok(digests)
    }
}

/// The replica's ranges with both their ends.
fn between(scope: &Scope, ranges: Vec<Range>) -> Vec<(KeyRange, Range)> {
    let mut after = scope.range.after.clone();
    let both = ranges.into_iter().map(|range| {
        let bounds = KeyRange { after: after.take(), up_to: range.end.clone() };
        after.clone_from(&range.end);
        (bounds, range)
    });
    both.collect()
}

/// A random share of the ranges, in order.
fn sample(scope: &Scope, ranges: Vec<(KeyRange, Range)>) -> Vec<(KeyRange, Range)> {
    let Some(share) = scope.sample else { return ranges };
    let last = ranges.len().saturating_sub(1);
    let chosen = rand::random_range(0..=last);
    let taken =
        ranges.into_iter().enumerate().filter(|(at, _)| *at == chosen || rand::random_bool(share.clamp(0.0, 1.0)));
    taken.map(|(_, range)| range).collect()
}

/// The rows in which ranges differ, of the first ones until there are more than are to be named; and whether it left some
/// out.
async fn candidates(
    source: &SourceView,
    replica: &ReplicaView,
    ranges: &[&(KeyRange, Range)],
    named: usize,
) -> Result<(Open, bool), Fault> {
    /// The replica is read once for so many ranges.
    const AT_ONCE: usize = 32;
    let mut open = Open::new();
    for ranges in ranges.chunks(AT_ONCE) {
        if open.len() > named {
            return Ok((open, true));
        }
        let bounds: Vec<_> = ranges.iter().map(|(bounds, _)| (bounds.after.as_ref(), bounds.up_to.as_ref())).collect();
        let moved: HashSet<&Key> = ranges.iter().flat_map(|(_, range)| &range.moved).collect();
        let mut rows: HashMap<Key, RowState> = HashMap::new();
        for (key, row) in replica.rows(&bounds).await? {
            if moved.contains(&key) {
                continue;
            }
            match rows.entry(key) {
                std::collections::hash_map::Entry::Occupied(mut known) => known.get_mut().join(row),
                std::collections::hash_map::Entry::Vacant(free) => _ = free.insert(row),
            }
        }
        for (bounds, range) in ranges {
            for (key, hash) in source.rows(bounds, &range.moved).await.map_err(Fault::halt)? {
                let row = rows.remove(&key);
                if row.as_ref().and_then(|row| row.hash.as_ref()) != Some(&hash) {
                    open.insert(key, Some(Seen { source: Some(hash), replica: row }));
                }
            }
        }
        let extra = rows.into_iter().map(|(key, row)| (key, Some(Seen { source: None, replica: Some(row) })));
        open.extend(extra);
    }
    Ok((open, false))
}
