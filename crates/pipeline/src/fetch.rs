//! A table whose next record has a schema that is not known yet waits for it, while the loop goes on.
//!
//! The record stays where it is. As with a batch that does not land, the other tables wait for a moment and then go on
//! without this one (`aside`).

use std::sync::Arc;

use tokio::task::{JoinError, JoinSet};

use crate::{
    Fault, Observer, Pipeline, Replica, Settings, Source, Table,
    format::Schemas,
    table::{Lack, State},
};

/// A schema was fetched for a table, or given up.
pub(crate) struct Fetched {
    table: usize,
    outcome: Result<(), Fault>,
}

/// Asks for the schema that `table` lacks, if it lacks one, until the registry answers or the table has to halt.
pub(crate) fn ask<R>(fetches: &mut JoinSet<Fetched>, settings: Settings, index: usize, table: &Table<R>) {
    if let (Some(Lack { id, .. }), Some(schemas)) = (table.lack, table.format.schemas()) {
        fetches.spawn(fetch(index, table.name.clone(), Arc::clone(schemas), id, settings));
    }
}

async fn fetch(table: usize, name: String, schemas: Arc<dyn Schemas>, id: u32, settings: Settings) -> Fetched {
    let mut backoff = settings.backoff(table);
    let outcome = loop {
        match schemas.fetch(id).await {
            Ok(()) => break Ok(()),
            Err(fault) => {
                if let Err(given_up) = backoff.wait(&name, fault).await {
                    break Err(given_up);
                }
            }
        }
    };
    Fetched { table, outcome }
}

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// Goes on with a table that waited for a schema.
    pub(crate) fn fetched(&mut self, fetched: Result<Fetched, JoinError>) -> Result<(), Fault> {
        let fetched = fetched.map_err(|e| Fault::halt(format!("the fetch of a schema ended abnormally: {e}")))?;
        let Fetched { table: index, outcome } = fetched;
        let table = &mut self.tables[index];
        table.lack = None;
        match outcome {
            Ok(()) if table.state == State::Running => self.read_on(index),
            Ok(()) => {}
            Err(fault) => table.stop(fault),
        }
        Ok(())
    }
}
