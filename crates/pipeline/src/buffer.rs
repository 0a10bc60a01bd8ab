//! [`Batch`]: a table's sealed run of events; and the open one that it is sealed from.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use change::{BatchBuilder, ChangeBatch, Horizon, Malformed, RecordRef, TableSchema, left_out::Found};
use tokio::time::Instant;

use crate::{Checkpoint, Counts, Fault, Position, SourceTimes, TopicPartition};

/// When a batch is sealed: at whichever limit it meets first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Records, those that change no row among them. A merge costs about the same for 100,000 events as for
    /// 10,000, so more is cheaper until memory counts: 100,000 rows of 600 bytes are 60 MB.
    pub records: usize,
    /// Bytes of decoded rows.
    pub bytes: usize,
    /// The age of the oldest record in the batch: how far the replica may lag behind when little happens. Each
    /// batch is a Delta commit, and a table with many commits gets slow to read.
    pub age: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { records: 100_000, bytes: 64 << 20, age: Duration::from_secs(5) }
    }
}

/// A sealed batch of one table and the positions that it completes.
#[derive(Debug)]
pub struct Batch {
    /// The row changes.
    pub changes: ChangeBatch,
    /// Where each partition stands after the batch.
    pub positions: Checkpoint,
    /// The epoch under which its records were decoded, as [`Epoch::since`](crate::Epoch::since).
    pub epoch: i64,
    /// What is known of its records so far.
    pub(crate) counts: Counts,
    /// When its events happened.
    pub(crate) times: SourceTimes,
    /// The raw records of the rows that leave out values: such a row may become a dead letter.
    partial: BTreeMap<usize, Raw>,
}

/// A record of its own.
#[derive(Debug, Clone)]
struct Raw {
    partition: TopicPartition,
    offset: i64,
    key: Option<Box<[u8]>>,
    value: Option<Box<[u8]>>,
    timestamp: Option<i64>,
    old_key: Option<Box<[u8]>>,
    horizon: Horizon,
}

impl Batch {
    /// A batch of `changes` that ends at `positions`.
    #[must_use]
    pub fn new(changes: ChangeBatch, positions: Checkpoint) -> Self {
        Self {
            changes,
            positions,
            epoch: 0,
            counts: Counts::default(),
            times: SourceTimes::default(),
            partial: BTreeMap::new(),
        }
    }

    /// The raw record of a row that leaves out values, and the horizon before it.
    pub(crate) fn raw(&self, row: usize) -> Option<(&TopicPartition, RecordRef<'_>, Horizon)> {
        let raw = self.partial.get(&row)?;
        let (partition, offset) = (raw.partition.partition, raw.offset);
        let record = RecordRef {
            partition,
            offset,
            key: raw.key.as_deref(),
            value: raw.value.as_deref(),
            timestamp: raw.timestamp,
            old_key: raw.old_key.as_deref(),
        };
        Some((&raw.partition, record, raw.horizon))
    }

    /// The batch with what was found for rows that leave out values, each with those of `columns`.
    pub(crate) fn with_found(&self, columns: &[usize], found: &[(usize, Found)]) -> Result<Self, Malformed> {
        let changes = self.changes.clone().with_found(columns, found)?;
        Ok(Self {
            changes,
            positions: self.positions.clone(),
            times: self.times.clone(),
            partial: self.partial.clone(),
            ..*self
        })
    }

    /// The batch without some of its rows.
    pub(crate) fn without(self, rows: &[usize]) -> Result<Self, Fault> {
        let kept: Vec<usize> = (0..self.changes.rows.num_rows()).filter(|row| !rows.contains(row)).collect();
        let keep = (0..self.changes.rows.num_rows()).map(|row| Some(!rows.contains(&row))).collect();
        let partial = kept.iter().enumerate().filter_map(|(new, old)| Some((new, self.partial.get(old)?.clone())));
        Ok(Self { partial: partial.collect(), changes: self.changes.filter(&keep).map_err(Fault::halt)?, ..self })
    }
}

/// The batch that a table is filling.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) builder: BatchBuilder,
    pub(crate) counts: Counts,
    pub(crate) times: SourceTimes,
    positions: Checkpoint,
    partial: BTreeMap<usize, Raw>,
    /// The memory that the raw records take.
    partial_bytes: usize,
    opened: Option<Instant>,
}

impl Open {
    pub(crate) fn new(schema: Arc<TableSchema>) -> Self {
        Self {
            builder: BatchBuilder::new(schema),
            counts: Counts::default(),
            times: SourceTimes::default(),
            positions: Checkpoint::new(),
            partial: BTreeMap::new(),
            partial_bytes: 0,
            opened: None,
        }
    }

    /// Notes that the record before `position` is in.
    pub(crate) fn advance(&mut self, partition: &TopicPartition, position: Position) {
        self.counts.received += 1;
        self.opened.get_or_insert_with(Instant::now);
        match self.positions.get_mut(partition) {
            Some(known) => *known = position,
            None => _ = self.positions.insert(partition.clone(), position),
        }
    }

    /// Keeps the raw record of the row that was added last, and the horizon before it.
    pub(crate) fn keep_raw(&mut self, partition: &TopicPartition, record: &RecordRef<'_>, horizon: Horizon) {
        let raw = Raw {
            partition: partition.clone(),
            offset: record.offset,
            key: record.key.map(Into::into),
            value: record.value.map(Into::into),
            timestamp: record.timestamp,
            old_key: record.old_key.map(Into::into),
            horizon,
        };
        self.partial_bytes += raw.key.as_ref().map_or(0, |key| key.len()) + raw.value.as_ref().map_or(0, |v| v.len());
        self.partial.insert(self.builder.rows() - 1, raw);
    }

    /// The memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.builder.bytes() + self.partial_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.opened.is_none()
    }

    pub(crate) fn is_full(&self, limits: &BatchLimits) -> bool {
        let records = usize::try_from(self.counts.received).unwrap_or(usize::MAX);
        self.builder.is_truncated() || records >= limits.records || self.bytes() >= limits.bytes
    }

    /// When the batch is too old to wait for more; `None` while it is empty.
    pub(crate) fn due(&self, limits: &BatchLimits) -> Option<Instant> {
        self.opened.map(|opened| opened + limits.age)
    }

    /// Seals the batch, whose records were decoded under `epoch`, and begins the next one.
    pub(crate) fn seal(&mut self, schema: &Arc<TableSchema>, epoch: i64) -> Result<Batch, Fault> {
        let Self { builder, positions, counts, times, partial, .. } =
            std::mem::replace(self, Self::new(Arc::clone(schema)));
        let changes = builder.finish().map_err(Fault::halt)?;
        Ok(Batch { changes, positions, epoch, counts, times, partial })
    }
}
