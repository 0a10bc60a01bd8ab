//! [`Pipeline`]: the loop. It reads, seals, sends off and acknowledges; it decides nothing about rows.

use std::{collections::HashMap, future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use crate::{
    Applied, Backoff, DeadLetters, Ending, Fault, Flushed, Observer, Polled, Records, Replica, Source, StartAt,
    Summary, Table, TopicPartition,
    aside::PATIENCE,
    fetch::{self, Fetched},
    flush::{self, Flight},
    table::State,
};

/// How a run goes about it.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Where reading begins.
    pub start_at: StartAt,
    /// End when everything that was there at the assignment is durable.
    pub until_caught_up: bool,
    /// How long a table tries again before it halts.
    pub retry_max: Duration,
    /// The bytes of all tables' batches, open or on their way, from which on nothing more is read.
    pub memory: usize,
    /// Decides the pauses between two tries; it should differ between the members of a group.
    pub seed: u64,
}

impl Settings {
    /// The pauses of a table's retries; those of two tables do not coincide either.
    pub(crate) fn backoff(&self, table: usize) -> Backoff {
        Backoff::new(self.retry_max, self.seed.wrapping_add(table as u64))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            start_at: StartAt::Resume,
            until_caught_up: false,
            retry_max: Duration::from_mins(10),
            memory: 256 << 20,
            seed: 1,
        }
    }
}

/// At a stop, so long may a batch that is on its way take to land. Who stops a process often gives it ten seconds, and
/// leaving the group takes some of them.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Without anything to wait for, the loop looks around this often.
const IDLE: Duration = Duration::from_secs(1);

/// Tables, and the source that feeds them.
pub struct Pipeline<S, R, O> {
    pub(crate) source: S,
    pub(crate) tables: Vec<Table<R>>,
    pub(crate) by_topic: HashMap<Arc<str>, usize>,
    pub(crate) dead_letters: Box<dyn DeadLetters>,
    pub(crate) settings: Settings,
    pub(crate) observer: O,
    pub(crate) flights: JoinSet<Flight<R>>,
    pub(crate) turns: Arc<Semaphore>,
    fetches: JoinSet<Fetched>,
    /// A block that is being decoded, and how far.
    block: (Records, usize),
    pub(crate) assigned_once: bool,
}

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// A pipeline from `source` into `tables`.
    pub fn new(
        source: S,
        tables: Vec<Table<R>>,
        dead_letters: Box<dyn DeadLetters>,
        settings: Settings,
        observer: O,
    ) -> Self {
        let by_topic = tables.iter().enumerate().map(|(index, table)| (Arc::clone(&table.topic), index)).collect();
        Self {
            source,
            tables,
            by_topic,
            dead_letters,
            settings,
            observer,
            flights: JoinSet::new(),
            turns: Arc::new(Semaphore::new(flush::AT_ONCE)),
            fetches: JoinSet::new(),
            block: (Records::default(), 0),
            assigned_once: false,
        }
    }

    /// Runs until `stop`, until everything is caught up where that was asked for, or until every table has halted.
    ///
    /// # Errors
    /// A fault of the source or of the dead letters; a table's own fault halts that table and stands in the summary.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<Summary, Fault> {
        let mut stop = pin!(stop);
        let ending = loop {
            self.decode()?;
            self.observer.buffered(self.bytes());
            self.launch_due()?;
            if self.tables.iter().all(|table| matches!(table.state, State::Halted(_))) {
                break Ending::Halted;
            }
            if self.is_caught_up() {
                self.drain(|_| true).await?;
                break Ending::CaughtUp;
            }
            let blocked = !self.block.0.is_empty() || self.is_out_of_memory();
            let deadline = self.next_deadline();
            let patience = Instant::now() + PATIENCE;
            tokio::select! {
                biased;
                () = &mut stop => break Ending::Stopped,
                Some(flight) = self.flights.join_next() => self.land(flight)?,
                Some(fetched) = self.fetches.join_next() => self.fetched(fetched)?,
                () = sleep_until(patience), if blocked => {}
                polled = self.source.poll(deadline), if !blocked => {
                    let polled = polled?;
                    // a rebalance may have to wait for the store, and a stop is not to wait for that
                    tokio::select! {
                        biased;
                        () = &mut stop => break Ending::Stopped,
                        reacted = self.react(polled) => reacted?,
                    }
                }
            }
        };
        if ending == Ending::Stopped {
            self.land_within(STOP_GRACE).await?;
        }
        self.source.close().await;
        let tables = self.tables.into_iter().map(|table| {
            let fault = match table.state {
                State::Running => None,
                State::Halting(fault) | State::Halted(fault) => Some(fault),
            };
            (table.name, table.counts, fault)
        });
        Ok(Summary { ending, tables: tables.collect() })
    }

    async fn react(&mut self, polled: Polled) -> Result<(), Fault> {
        match polled {
            Polled::Records(records) => {
                self.observer.received(&records);
                self.block = (records, 0);
                Ok(())
            }
            Polled::Assigned(partitions) => self.assign(partitions).await,
            Polled::Revoked(partitions) => self.revoke(partitions).await,
            Polled::Ended(partitions) => {
                self.observer.ended(&partitions);
                for TopicPartition { topic, partition } in partitions {
                    if let Some(&table) = self.by_topic.get(&topic) {
                        self.tables[table].end_reached(partition);
                    }
                }
                Ok(())
            }
            Polled::Resumed(partitions) => {
                self.resumed(&partitions);
                Ok(())
            }
            Polled::OutOfRange(partitions) => self.stop_strayed(partitions).await,
            Polled::Broken(topic, fault) => {
                if let Some(&table) = self.by_topic.get(&topic) {
                    self.tables[table].stop(fault);
                }
                Ok(())
            }
            Polled::Idle => Ok(()),
        }
    }

    /// Decodes the block until it is used up, or until a table takes no more records: its batch is full while its last
    /// one is still on its way, or the schema of its next record is.
    fn decode(&mut self) -> Result<(), Fault> {
        let (block, mut at) = std::mem::take(&mut self.block);
        while let Some((partition, record)) = block.get(at) {
            let open = self.by_topic.get(&partition.topic).map(|&index| (index, &mut self.tables[index]));
            let mut is_done = true;
            if let Some((index, table)) = open.filter(|(_, table)| table.takes(partition.partition)) {
                let lacks_schema = table.lack.is_some();
                if !lacks_schema && !table.is_full() {
                    is_done = table.take(partition, record, self.dead_letters.as_mut())?;
                    fetch::ask(&mut self.fetches, self.settings, index, table);
                } else if !lacks_schema && table.replica.is_some() {
                    Self::launch(
                        &mut self.flights,
                        self.dead_letters.as_mut(),
                        (self.settings, &self.turns),
                        index,
                        table,
                    )?;
                    is_done = false;
                } else if !self.set_aside(index) {
                    self.block = (block, at);
                    return Ok(());
                }
            }
            at += usize::from(is_done);
        }
        Ok(())
    }

    pub(crate) fn land(&mut self, flight: Result<Flight<R>, tokio::task::JoinError>) -> Result<(), Fault> {
        let flight = flight.map_err(|e| Fault::halt(format!("a merge ended abnormally: {e}")))?;
        let Flight { table: index, replica, batch, outcome, took, attempt, effort } = flight;
        let (version, rows) = match outcome {
            Ok(Applied::Committed { version, rows }) => (Some(version), rows),
            Ok(Applied::NothingToDo(rows)) => (None, rows),
            Ok(Applied::Unresolved(rows)) => return self.unresolved(index, replica, batch, &rows),
            Err(fault) => {
                self.tables[index].replica = Some(replica);
                self.halt(index, fault);
                return Ok(());
            }
        };
        let table = &mut self.tables[index];
        table.replica = Some(replica);
        let mut counts = batch.counts;
        counts.add_rows(&rows);
        debug_assert!(counts.adds_up(), "{counts}");
        table.counts += counts;
        if let Some(version) = version {
            table.committed(version, attempt);
        }
        let acknowledged = table.acknowledged(batch.positions);
        self.source.acknowledge(acknowledged);
        tracing::debug!(table = table.name, version, took_ms = took.as_millis(), %counts, "batch is durable");
        let (table, effort, times) = (&table.name, &effort, &batch.times);
        self.observer.flushed(&Flushed { table, counts, rows, version, took, effort, times });
        self.read_on(index);
        Ok(())
    }

    pub(crate) fn halt(&mut self, index: usize, fault: Fault) {
        let table = &mut self.tables[index];
        tracing::error!(table = table.name, "halted: {fault}");
        self.observer.halted(&table.name, &fault);
        for &partition in table.partitions.keys() {
            self.source.hold(TopicPartition { topic: Arc::clone(&table.topic), partition });
        }
        // what was read after the fault is dropped; it was not acknowledged
        table.open = crate::buffer::Open::new(Arc::clone(table.schema()));
        table.state = State::Halted(fault);
    }

    /// At a stop: what is on its way may land, what is not is dropped and read again by whoever comes next.
    async fn land_within(&mut self, grace: Duration) -> Result<(), Fault> {
        let deadline = Instant::now() + grace;
        while let Ok(Some(flight)) = timeout(deadline - Instant::now(), self.flights.join_next()).await {
            self.land(flight)?;
            if self.flights.is_empty() {
                break;
            }
        }
        self.flights.abort_all();
        Ok(())
    }

    fn is_caught_up(&self) -> bool {
        self.settings.until_caught_up
            && self.assigned_once
            && self.block.0.is_empty()
            && self.tables.iter().all(Table::is_caught_up)
    }

    fn next_deadline(&self) -> Instant {
        let due = self.tables.iter().filter(|table| table.replica.is_some()).filter_map(Table::due);
        due.min().unwrap_or_else(|| Instant::now() + IDLE)
    }
}
