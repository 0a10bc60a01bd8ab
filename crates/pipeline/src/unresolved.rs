//! Rows that leave out values, which neither the batch nor the table has.

use std::sync::Arc;

use crate::{Batch, Fault, Letter, Observer, OnError, Pipeline, Replica, Source, flush};

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// Rows that leave out values which nobody has: dead letters, after which the rest is sent off again.
    pub(crate) fn unresolved(
        &mut self,
        index: usize,
        replica: R,
        mut batch: Batch,
        rows: &[usize],
    ) -> Result<(), Fault> {
        const REASON: &str = "leaves out an unchanged value, and the table has no row to take it from";
        let table = &mut self.tables[index];
        for (partition, record, horizon) in rows.iter().filter_map(|&row| batch.raw(row)) {
            if table.on_error == OnError::Halt {
                let fault =
                    Fault::halt(format!("table `{}`, {partition} offset {}: {REASON}", table.name, record.offset));
                table.replica = Some(replica);
                self.halt(index, fault);
                return Ok(());
            }
            self.dead_letters.write(&Letter { table: &table.name, partition, record, horizon, reason: REASON })?;
        }
        self.dead_letters.sync()?;
        batch.counts.dead_lettered += rows.len() as u64;
        let batch = batch.without(rows)?;
        self.flights.spawn(flush::fly(
            index,
            table.name.clone(),
            replica,
            batch,
            table.read_back.clone(),
            self.settings,
            Arc::clone(&self.turns),
        ));
        Ok(())
    }
}
