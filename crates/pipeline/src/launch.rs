//! When a batch is sent off to its replica: it is full, old enough, the last one of its table, or memory runs out.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

use crate::{
    DeadLetters, Fault, Observer, Pipeline, Replica, Settings, Source, Table,
    flush::{self, Flight},
    table::State,
};

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// Whether there is room for no more records until a batch has landed.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.bytes() >= self.settings.memory
    }

    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().map(Table::bytes).sum()
    }

    /// Sends off each open batch that is full, old enough, or the last one of its table; the largest one where memory
    /// runs out.
    pub(crate) fn launch_due(&mut self) -> Result<(), Fault> {
        let now = Instant::now();
        let free = self.tables.iter().enumerate().filter(|(_, table)| table.replica.is_some());
        let largest = free.max_by_key(|(_, table)| table.open.bytes()).map(|(index, _)| index);
        let crowded = largest.filter(|_| self.is_out_of_memory());
        for (index, table) in self.tables.iter_mut().enumerate() {
            let is_due = table.is_full()
                || crowded == Some(index)
                || table.due().is_some_and(|due| due <= now)
                || matches!(table.state, State::Halting(_));
            if is_due && table.replica.is_some() {
                Self::launch(
                    &mut self.flights,
                    self.dead_letters.as_mut(),
                    (self.settings, &self.turns),
                    index,
                    table,
                )?;
            }
            if let State::Halting(fault) = &table.state
                && table.open.is_empty()
                && table.replica.is_some()
            {
                let fault = fault.clone();
                self.halt(index, fault);
                return self.launch_due();
            }
        }
        Ok(())
    }

    pub(crate) fn launch(
        flights: &mut JoinSet<Flight<R>>,
        dead_letters: &mut dyn DeadLetters,
        (settings, turns): (Settings, &Arc<Semaphore>),
        index: usize,
        table: &mut Table<R>,
    ) -> Result<(), Fault> {
        if table.open.is_empty() {
            return Ok(());
        }
        let Some(replica) = table.replica.take() else { return Ok(()) };
        dead_letters.sync()?;
        let batch = table.seal()?;
        let (name, read_back) = (table.name.clone(), table.read_back.clone());
        flights.spawn(flush::fly(index, name, replica, batch, read_back, settings, Arc::clone(turns)));
        Ok(())
    }

    /// Sends off the open batches of some tables and waits until they have landed.
    pub(crate) async fn drain(&mut self, which: impl Fn(&Table<R>) -> bool) -> Result<(), Fault> {
        loop {
            for (index, table) in self.tables.iter_mut().enumerate().filter(|(_, table)| which(table)) {
                if table.replica.is_some() {
                    Self::launch(
                        &mut self.flights,
                        self.dead_letters.as_mut(),
                        (self.settings, &self.turns),
                        index,
                        table,
                    )?;
                }
            }
            if self.tables.iter().filter(|table| which(table)).all(|table| table.replica.is_some()) {
                return Ok(());
            }
            if let Some(flight) = self.flights.join_next().await {
                self.land(flight)?;
            }
        }
    }
}
