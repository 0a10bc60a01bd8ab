//! [`Connector`]: Debezium between the database's log and the topics.
//!
//! It snapshots at a place P of the log and streams what commits after P. Its own offsets are kept now and then; a
//! crash takes it back to the last ones, so that it delivers again, or, where none were kept yet, to a new snapshot,
//! after which the changes in between never arrive.

use std::collections::{BTreeMap, BTreeSet};

use pipeline::TopicPartition;
use rand::{Rng, rngs::StdRng};

use crate::{
    broker::Broker,
    envelope::{Place, Record, Truth, record_key, upsert, without_row},
    postgres::{Change, Committed, Effect, Mark, Postgres, Row, TRUNCATED},
};

/// The topic of a table.
#[must_use]
pub fn topic(table: usize) -> String {
    format!("shop.public.t{table}")
}

/// Where the connector stands in the log: everything that its offsets hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Offsets {
    /// The transaction, and the change within it.
    transaction: usize,
    change: usize,
    /// The commit before the transaction.
    committed: Option<u64>,
    /// The address of the last event.
    lsn: u64,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    New,
    /// Rows of a snapshot that are still to be written.
    Snapshot(Vec<(usize, i64, Row, Place)>),
    Streaming,
}

/// The connector.
#[derive(Debug, Default)]
pub struct Connector {
    phase: Phase,
    at: Offsets,
    kept: Option<Offsets>,
    /// The chunk whose window is open.
    window: bool,
    /// The keys of that chunk that were changed meanwhile.
    changed: BTreeSet<(usize, i64)>,
    /// Whether updates leave out notes that did not change.
    pub leaves_out: bool,
    /// Keys that were deleted while nobody watched: their rows may stay in the replica.
    pub ghosts: BTreeSet<(usize, i64)>,
    /// The tables of the publication.
    pub tables: usize,
    /// Snapshots so far.
    pub snapshots: u64,
    /// The clock of source and brokers, where it can be relied on.
    pub clock: Option<i64>,
    /// What the clock said when the snapshot began.
    snapshot_began: i64,
}

/// What the connector writes with.
pub struct Output<'a> {
    /// The topics.
    pub broker: &'a mut Broker,
    /// Chooses the partition of records without a key, and clocks that cannot be relied on.
    pub rng: &'a mut StdRng,
}

impl Output<'_> {
    fn partition(&mut self, table: usize, key: Option<i64>) -> Option<TopicPartition> {
        let partitions = self.broker.partitions(&topic(table));
        let count = partitions.len().max(1);
        let index = match key {
            // any hash will do, as long as it spreads neighbours
            Some(key) => usize::try_from(key.unsigned_abs().wrapping_mul(0x9E37_79B9) >> 3).unwrap_or(0) % count,
            None => self.rng.random_range(0..count),
        };
        partitions.into_iter().nth(index)
    }

    fn write(&mut self, table: usize, key: i64, place: Place, timestamp: i64, value: String) -> Option<TopicPartition> {
        let partition = self.partition(table, Some(key))?;
        let horizon = &mut self.broker.logs.get_mut(&partition)?.horizon;
        let truth = Truth::Change { key, order: place.order(horizon) };
        let record = Record { key: Some(record_key(key)), value: Some(value), timestamp, truth };
        self.broker.append(&partition, record, !matches!(place, Place::Streamed { .. }));
        Some(partition)
    }
}

impl Connector {
    /// Writes up to `count` records. Says how many; 0 means that there is nothing to write now.
    pub fn work(&mut self, source: &mut Postgres, output: &mut Output<'_>, count: usize) -> usize {
        let mut written = 0;
        while written < count {
            match &mut self.phase {
                Phase::New if (0..self.tables).any(|table| source.is_locked(table)) => break,
                Phase::New => {
                    self.snapshot_began = self.now(output);
                    self.begin_snapshot(source);
                }
                Phase::Snapshot(rows) => match rows.pop() {
                    Some((table, key, row, place)) => {
                        let value = upsert('r', key, &row, true, place, self.snapshot_began);
                        let timestamp = self.now(output);
                        output.write(table, key, place, timestamp, value);
                        written += 1;
                    }
                    None => self.phase = Phase::Streaming,
                },
                Phase::Streaming => {
                    let Some(transaction) = source.log.get(self.at.transaction) else { break };
                    written += self.stream(transaction, output);
                }
            }
        }
        written
    }

    /// Keeps the offsets, as Connect does now and then.
    pub fn keep(&mut self) {
        if matches!(self.phase, Phase::Streaming) {
            self.kept = Some(self.at);
        }
    }

    /// Whether the transaction after a snapshot has been passed, whose events do not name the commit before.
    #[must_use]
    pub fn is_anchored(&self) -> bool {
        matches!(self.phase, Phase::Streaming) && self.at.committed.is_some()
    }

    /// A crash. With `forget` the kept offsets are lost, too, as when an operator deletes them.
    pub fn crash(&mut self, forget: bool) {
        self.window = false;
        if forget {
            self.kept = None;
        }
        match self.kept {
            Some(kept) => (self.at, self.phase) = (kept, Phase::Streaming),
            None => self.phase = Phase::New,
        }
    }

    /// The source was restored: the connector knows nothing of it.
    pub fn restored(&mut self) {
        self.crash(true);
        self.at = Offsets::default();
        self.clock = self.clock.map(|clock| clock + 1000);
    }

    /// An ad-hoc snapshot of a table that holds up the stream. The wish for it comes through the stream, so a commit is
    /// known by then.
    pub fn block(&mut self, source: &Postgres, table: usize) {
        if self.is_anchored() && !source.is_locked(table) {
            let place = self.ad_hoc(false);
            self.snapshot_began = self.clock.unwrap_or_default();
            let rows = source.rows(table).into_iter().map(|(key, row)| (table, key, row, place));
            self.phase = Phase::Snapshot(rows.collect());
        }
    }

    fn ad_hoc(&self, incremental: bool) -> Place {
        Place::AdHoc { committed: self.at.committed, lsn: self.at.lsn, incremental }
    }

    fn begin_snapshot(&mut self, source: &mut Postgres) {
        self.snapshots += 1;
        let at = source.advance();
        let end = source.log.len();
        let skipped = source.log.get(self.at.transaction..end).unwrap_or_default();
        let mut rows = Vec::new();
        let mut present = BTreeSet::new();
        for table in 0..self.tables {
            for (key, row) in source.rows(table) {
                present.insert((table, key));
                rows.push((table, key, row, Place::Initial(at)));
            }
        }
        // what was deleted in the part of the log that is jumped over, nobody will say
        if self.snapshots > 1 {
            let changes = skipped.iter().flat_map(|transaction| &transaction.changes);
            let mut gone = BTreeSet::new();
            for change in changes {
                match change.effect {
                    Effect::Truncate => gone.extend((0..64).map(|key| (change.table, key))),
                    _ => _ = gone.insert((change.table, change.key)),
                }
            }
            self.ghosts.extend(gone.difference(&present));
        }
        self.phase = Phase::Snapshot(rows);
        self.at = Offsets { transaction: end, change: 0, committed: None, lsn: at };
        self.kept = None;
    }

    /// Writes the next event of a transaction, or passes its end. Says how many records that were.
    fn stream(&mut self, transaction: &Committed, output: &mut Output<'_>) -> usize {
        if let Some(change) = transaction.changes.get(self.at.change) {
            self.at.change += 1;
            self.at.lsn = change.lsn;
            self.changed.insert((change.table, change.key));
            return self.write(change, output);
        }
        let mut written = 0;
        self.at = Offsets {
            transaction: self.at.transaction + 1,
            change: 0,
            committed: Some(transaction.lsn),
            lsn: transaction.lsn,
        };
        match &transaction.mark {
            Some(Mark::Low) => {
                self.window = true;
                self.changed.clear();
            }
            Some(Mark::High { table, chunk }) if std::mem::take(&mut self.window) => {
                written = self.close_window(*table, chunk, output);
            }
            _ => {}
        }
        written
    }

    fn close_window(&mut self, table: usize, chunk: &BTreeMap<i64, Row>, output: &mut Output<'_>) -> usize {
        let place = self.ad_hoc(true);
        let truncated = self.changed.iter().any(|(t, key)| *t == table && *key == TRUNCATED);
        let kept = chunk.iter().filter(|(key, _)| !truncated && !self.changed.contains(&(table, **key)));
        let kept: Vec<_> = kept.collect();
        let mut written = 0;
        for (&key, row) in kept {
            let clock = self.now(output);
            output.write(table, key, place, clock, upsert('r', key, row, true, place, clock));
            written += 1;
        }
        written
    }

    /// What the clock says; one that cannot be relied on jumps.
    fn now(&mut self, output: &mut Output<'_>) -> i64 {
        match &mut self.clock {
            Some(clock) => {
                *clock += 1;
                *clock
            }
            None => output.rng.random_range(1..2_000_000_000_000),
        }
    }

    fn write(&mut self, change: &Change, output: &mut Output<'_>) -> usize {
        let Change { table, key, lsn, ref effect } = *change;
        let place = Place::Streamed { committed: self.at.committed, lsn };
        let clock = self.now(output);
        match effect {
            Effect::Insert(row) => {
                output.write(table, key, place, clock, upsert('c', key, row, true, place, clock));
                1
            }
            Effect::Update { row, note_changed } => {
                let note_sent = *note_changed || !self.leaves_out;
                output.write(table, key, place, clock, upsert('u', key, row, note_sent, place, clock));
                1
            }
            Effect::Delete => {
                let partition = output.write(table, key, place, clock, without_row('d', place, clock));
                if let Some(partition) = partition {
                    let key = Some(record_key(key));
                    let tombstone = Record { key, value: None, timestamp: clock, truth: Truth::NoChange };
                    output.broker.append(&partition, tombstone, false);
                }
                2
            }
            Effect::Truncate => {
                if let Some(partition) = output.partition(table, None)
                    && let Some(log) = output.broker.logs.get_mut(&partition)
                {
                    let truth = Truth::Truncate(place.order(&mut log.horizon));
                    let value = Some(without_row('t', place, clock));
                    output.broker.append(&partition, Record { key: None, value, timestamp: clock, truth }, false);
                }
                1
            }
        }
    }
}
