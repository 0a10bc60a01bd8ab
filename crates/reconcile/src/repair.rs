//! Repair: the rows that differ are read from the source once more and applied through the guard.
//!
//! A row gets the order just above the one that the replica has for its key. So an event that the replica has seen, and
//! that is delivered again, stays below it, and whatever is still to come stands above it: also the change of a
//! transaction that was open when the row was read. A row that a member changed in the meantime is guarded.

use std::time::Duration;

use change::{ChangeBatch, SourceRow};
use pipeline::{Applied, Backoff, Batch, Checkpoint, Fault, Remedy, Replica as _};
use source_postgres::Key;

use crate::{Drift, Reconciliation};

/// What became of rows that differed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The version of the replica that has them; `None` where nothing was written.
    pub version: Option<u64>,
    /// Rows that the replica got, or got other values.
    pub written: u64,
    /// Rows that it has deleted.
    pub deleted: u64,
    /// Rows that had been changed in the meantime.
    pub guarded: u64,
}

impl Reconciliation {
    /// Repairs rows that differ. It is tried again, up to `patience`, where another writer was faster.
    ///
    /// # Errors
    /// A fault that says why a row cannot be repaired; then none was.
    pub async fn repair(&mut self, drift: &[Drift], patience: Duration) -> Result<Repaired, Fault> {
        if drift.is_empty() {
            return Ok(Repaired::default());
        }
        let keys: Vec<Key> = drift.iter().map(|row| row.key.clone()).collect();
        let found = self.look().await?.values(&keys).await.map_err(Fault::halt)?;
        let rows: Vec<SourceRow> = drift
            .iter()
            .zip(found)
            .map(|(row, values)| SourceRow {
                order: row.order.unwrap_or_else(|| self.replica.floor()).just_above(),
                is_deleted: values.is_none(),
                values: values.unwrap_or_else(|| self.table.key_tokens(&row.key)),
            })
            .collect();
        let changes = ChangeBatch::of_source(self.replica.stored(), &rows).map_err(|malformed| {
            Fault::halt(format!("a row of the source cannot be repaired: {malformed}; correct its type"))
        })?;
        let mut batch = Batch::new(changes, Checkpoint::new());
        batch.epoch = self.replica.epoch().since;
        let mut backoff = Backoff::new(patience, rand::random());
        loop {
            match self.replica.apply(&batch).await {
                Ok(Applied::Committed { version, rows }) => {
                    let written = rows.inserted + rows.updated;
                    return Ok(Repaired {
                        version: Some(version),
                        written,
                        deleted: rows.deleted,
                        guarded: rows.guarded,
                    });
                }
                Ok(Applied::NothingToDo(rows)) => {
                    return Ok(Repaired { guarded: rows.guarded, ..Repaired::default() });
                }
                Ok(Applied::Unresolved(_)) => return Err(Fault::halt("a row of the source leaves out values")),
                Err(fault) if fault.remedy == Remedy::Halt => return Err(fault),
                Err(fault) => backoff.wait("repair", fault).await?,
            }
        }
    }
}
