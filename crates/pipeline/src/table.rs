//! [`Table`]: a table's decoder, its open batch and its replica.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use change::{Decoded, Decoder, Horizon, RecordRef, TableSchema};
use tokio::time::Instant;

use crate::{
    Accept, Acknowledged, Batch, BatchLimits, Checkpoint, Counts, DeadLetters, Epoch, Fault, Format, Letter, Mark,
    Position, Read, ReadBack, Replica, Schemas, TopicPartition, Witness, buffer::Open, start,
};

/// No more writers than these count, and no rest is longer.
const TURNS_MAX: u64 = 8;
const REST_MAX: Duration = Duration::from_secs(5);

/// What a record that cannot be decoded or applied does to its table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// The table stops before the record; nothing after it is read.
    #[default]
    Halt,
    /// The record goes to the dead letters and the table goes on.
    DeadLetter,
}

/// A table of the pipeline.
#[derive(Debug)]
pub struct Table<R> {
    pub(crate) name: String,
    pub(crate) topic: Arc<str>,
    pub(crate) limits: BatchLimits,
    pub(crate) on_error: OnError,
    pub(crate) state: State,
    pub(crate) open: Open,
    pub(crate) counts: Counts,
    /// `None` while a batch is on its way.
    pub(crate) replica: Option<R>,
    /// The memory that the batch on its way takes, and since when it is.
    pub(crate) flying_bytes: usize,
    pub(crate) flying_since: Instant,
    /// The version of its last commit.
    version: Option<u64>,
    /// Until then other writers of the table have their turn.
    pub(crate) rests_until: Instant,
    pub(crate) partitions: BTreeMap<i32, Reading>,
    /// What the operator accepts at an assignment.
    pub(crate) accept: Accept,
    /// The epoch under which records are decoded, from the first assignment on.
    pub(crate) epoch: Option<Epoch>,
    pub(crate) format: Format,
    /// Where values are looked up that an event left out.
    pub(crate) read_back: Option<Arc<dyn ReadBack>>,
    /// The schema that its next record needs and that is being fetched.
    pub(crate) lack: Option<Lack>,
    decoder: Decoder,
    /// What the source's columns have grown to, until the open batch of the old ones is sealed.
    grown: Option<Arc<TableSchema>>,
}

/// Whether a table takes records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It stops as soon as what was read before the fault is durable.
    Halting(Fault),
    Halted(Fault),
}

/// A schema that a table waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lack {
    pub(crate) id: u32,
    pub(crate) since: Instant,
}

/// An assigned partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) position: Position,
    /// The end of the partition when it was assigned.
    pub(crate) end: i64,
    pub(crate) flow: Flow,
}

/// Whether a partition's records are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    /// Its table was set aside.
    Held,
    /// It is to be read on, and what comes until the source says so was read before.
    Resuming,
}

impl<R> Table<R> {
    /// A table named `name`, fed from `topic`, kept in `replica`.
    pub fn new(
        name: &str,
        topic: &str,
        schema: &Arc<TableSchema>,
        limits: BatchLimits,
        on_error: OnError,
        replica: R,
    ) -> Self {
        Self {
            name: name.to_owned(),
            topic: topic.into(),
            limits,
            on_error,
            state: State::Running,
            open: Open::new(Arc::clone(schema)),
            counts: Counts::default(),
            replica: Some(replica),
            flying_bytes: 0,
            flying_since: Instant::now(),
            version: None,
            rests_until: Instant::now(),
            partitions: BTreeMap::new(),
            accept: Accept::default(),
            epoch: None,
            format: Format::default(),
            read_back: None,
            lack: None,
            decoder: Decoder::new(Arc::clone(schema)),
            grown: None,
        }
    }

    /// The same table, with what the operator accepts for it.
    #[must_use]
    pub fn accepting(self, accept: Accept) -> Self {
        Self { accept, ..self }
    }

    /// The same table, whose records may have been written under `schemas`.
    #[must_use]
    pub fn reading(self, schemas: Option<Arc<dyn Schemas>>) -> Self {
        Self { format: Format::new(schemas), ..self }
    }

    /// The same table, which looks up in the source what events left out. Under a masked key no row is found, so there
    /// it does not.
    #[must_use]
    pub fn reading_back(self, read_back: Option<Arc<dyn ReadBack>>) -> Self {
        let has_plain_key = self.schema().has_plain_key();
        Self { read_back: read_back.filter(|_| has_plain_key), ..self }
    }

    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        self.decoder.schema()
    }

    /// Whether a record of this partition is to be decoded. Those of partitions that are not ours any more, and of a
    /// table that is stopping or set aside, are passed over: their offsets are not acknowledged, so whoever reads next
    /// gets them.
    pub(crate) fn takes(&self, partition: i32) -> bool {
        self.state == State::Running && self.partitions.get(&partition).is_some_and(|reading| reading.flow == Flow::On)
    }

    /// Whether the open batch takes no more records.
    pub(crate) fn is_full(&self) -> bool {
        self.grown.is_some() || self.open.is_full(&self.limits)
    }

    /// Decodes a record into the open batch. A record that cannot be decoded becomes a dead letter or halts the table.
    /// `false`: the record is for the batch after this one, which has more columns, or it lacks its schema.
    pub(crate) fn take(
        &mut self,
        partition: &TopicPartition,
        record: RecordRef<'_>,
        dead_letters: &mut dyn DeadLetters,
    ) -> Result<bool, Fault> {
        let Some(Reading { position, .. }) = self.partitions.get_mut(&record.partition) else { return Ok(true) };
        let before = position.horizon;
        let mut horizon = before;
        // what came before the epoch has its order in another LSN space
        if record.timestamp.is_some_and(|at| self.epoch.is_some_and(|epoch| at < epoch.since)) {
            self.open.counts.guarded += 1;
            position.pass(&record, horizon);
            self.open.advance(partition, *position);
            return Ok(true);
        }
        let batch = &mut self.open.builder;
        let decoded = match self.format.read(record) {
            Ok(Read::Json(json, None)) => self.decoder.decode(json, &mut horizon, batch),
            Ok(Read::Json(json, Some(schema))) => self.decoder.decode_described(json, &schema, &mut horizon, batch),
            Ok(Read::Unknown(id)) => {
                self.lack = Some(Lack { id, since: Instant::now() });
                return Ok(false);
            }
            Err(malformed) => Err(malformed),
        };
        match decoded {
            Ok(Decoded::NoChange(_)) => self.open.counts.no_change += 1,
            Ok(Decoded::Truncate(_)) => {}
            Ok(Decoded::Restart(restart)) => {
                self.state = State::Halting(start::restarted(&self.name, partition, &record, restart));
                return Ok(true);
            }
            Ok(Decoded::Grown(schema)) => {
                tracing::info!(
                    table = self.name,
                    "the source has new columns or types: {}",
                    schema.since(self.schema())
                );
                self.grown = Some(schema);
                if self.open.is_empty() {
                    self.grow();
                }
                return Ok(false);
            }
            Ok(Decoded::Change(..)) => {
                self.open.times.push(horizon.at);
                if self.open.builder.newest_is_partial() {
                    self.open.keep_raw(partition, &record, before);
                }
            }
            Err(malformed) => match self.on_error {
                OnError::Halt => {
                    let (table, offset) = (&self.name, record.offset);
                    self.state = State::Halting(Fault::halt(format!(
                        "table `{table}`, {partition} offset {offset}: {malformed}; mend the source or the config, \
                         or set on_error = \"dead-letter\""
                    )));
                    return Ok(true);
                }
                OnError::DeadLetter => {
                    let reason = malformed.to_string();
                    let (table, horizon) = (&self.name, before);
                    dead_letters.write(&Letter { table, partition, record, horizon, reason: &reason })?;
                    self.open.counts.dead_lettered += 1;
                }
            },
        }
        position.pass(&record, horizon);
        self.open.advance(partition, *position);
        self.open.counts.nulled += self.decoder.nulled();
        for column in self.decoder.newly_gone() {
            tracing::warn!(table = self.name, "the events lack column {column}: rows that change have null there now");
        }
        Ok(true)
    }

    /// Decodes what follows under the columns that the source has now. The open batch has to be empty.
    fn grow(&mut self) {
        if let Some(schema) = self.grown.take() {
            self.open = Open::new(Arc::clone(&schema));
            self.decoder = Decoder::new(schema);
        }
    }

    /// Whether everything that was there when its partitions were assigned has been read.
    pub(crate) fn is_caught_up(&self) -> bool {
        let done = |reading: &Reading| reading.position.offset >= reading.end;
        match self.state {
            State::Running => self.partitions.values().all(done),
            State::Halting(_) => false,
            State::Halted(_) => true,
        }
    }

    /// Stops as soon as what was read so far is durable.
    pub(crate) fn stop(&mut self, fault: Fault) {
        if self.state == State::Running {
            self.state = State::Halting(fault);
        }
    }

    /// The memory that its batches take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.open.bytes() + if self.replica.is_none() { self.flying_bytes } else { 0 }
    }

    /// Seals the open batch.
    pub(crate) fn seal(&mut self) -> Result<Batch, Fault> {
        (self.flying_bytes, self.flying_since) = (self.open.bytes(), Instant::now());
        let batch = self.open.seal(self.decoder.schema(), self.epoch.unwrap_or_default().since)?;
        self.grow();
        Ok(batch)
    }

    /// A commit made `version`; its last attempt took `attempt`. Where others have committed since the last one, they are
    /// given as much time as they took turns: without it who has the smallest batch wins every race.
    pub(crate) fn committed(&mut self, version: u64, attempt: Duration) {
        let others = self.version.map_or(0, |last| version.saturating_sub(last + 1)).min(TURNS_MAX);
        let rest = attempt.saturating_mul(u32::try_from(others).unwrap_or_default());
        self.rests_until = Instant::now() + rest.min(REST_MAX);
        self.version = Some(version);
    }

    /// Since when it takes no records, where it takes none.
    pub(crate) fn stands_still_since(&self) -> Instant {
        self.lack.map_or(self.flying_since, |lack| lack.since)
    }

    /// When the open batch is old enough, and the other writers have had their turn.
    pub(crate) fn due(&self) -> Option<Instant> {
        Some(self.open.due(&self.limits)?.max(self.rests_until))
    }

    /// Everything up to now of this partition has been read.
    pub(crate) fn end_reached(&mut self, partition: i32) {
        if let Some(reading) = self.partitions.get_mut(&partition)
            && reading.flow == Flow::On
        {
            reading.end = reading.end.min(reading.position.offset);
        }
    }
}

impl Position {
    /// Moves past a record. One that is read again, as a recorded file may hold one, does not move it back.
    fn pass(&mut self, record: &RecordRef<'_>, horizon: Horizon) {
        self.horizon = horizon;
        if record.offset >= self.offset {
            self.offset = record.offset.saturating_add(1);
            self.witness = Witness::of(record);
        }
    }
}

impl<R: Replica> Table<R> {
    /// The positions of a durable batch, each with what the table's commits hold now.
    pub(crate) fn acknowledged(&self, positions: Checkpoint) -> Vec<(TopicPartition, Acknowledged)> {
        let epoch = self.epoch.unwrap_or_default();
        let acknowledge = |(partition, position)| {
            let checkpoint = self.replica.as_ref().map_or(0, |replica| replica.held(&partition));
            (partition, Acknowledged { position, mark: Some(Mark { epoch, checkpoint }) })
        };
        positions.into_iter().map(acknowledge).collect()
    }
}
