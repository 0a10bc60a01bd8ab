//! Gives a sealed batch to its replica, and acts on what goes wrong: the one place where a [`Remedy`] is carried out.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use crate::{Applied, Batch, Effort, Fault, ReadBack, Remedy, Replica, Settings, read_back};

/// So many batches are merged at once, whatever the number of tables: each one takes memory beyond its batch's own. The
/// others wait their turn, first come, first served.
pub(crate) const AT_ONCE: usize = 8;

/// Lost races in a row before there is a pause between two: what another writer did may not be listed yet.
const REDO_AT_ONCE: u32 = 5;

/// A batch on its way to the replica, and back with its outcome.
pub(crate) struct Flight<R> {
    pub(crate) table: usize,
    pub(crate) replica: R,
    pub(crate) batch: Batch,
    pub(crate) outcome: Result<Applied, Fault>,
    pub(crate) took: Duration,
    /// Of that, the last attempt.
    pub(crate) attempt: Duration,
    pub(crate) effort: Effort,
}

/// Applies `batch` until it is durable or the table has to halt, which it does after `settings.retry_max` without success.
/// What its events leave out and nobody has is read back from the source, where there is a connection to it.
pub(crate) async fn fly<R: Replica>(
    table: usize,
    name: String,
    mut replica: R,
    mut batch: Batch,
    read_back: Option<Arc<dyn ReadBack>>,
    settings: Settings,
    turns: Arc<Semaphore>,
) -> Flight<R> {
    let began = Instant::now();
    let mut backoff = settings.backoff(table);
    let mut effort = Effort::default();
    let mut lost_races = 0;
    let mut attempted;
    let outcome = loop {
        // given back before any pause: a table that waits for its store holds up no other
        let turn = turns.acquire().await;
        attempted = Instant::now();
        let applied = replica.apply(&batch).await;
        drop(turn);
        let fault = match (applied, &read_back) {
            (Ok(Applied::Unresolved(rows)), Some(source)) => match read_back::fill(&**source, &batch, &rows).await {
                Ok(filled) => {
                    batch = filled;
                    continue;
                }
                Err(fault) => fault,
            },
            (Ok(applied), _) => break Ok(applied),
            (Err(fault), _) => fault,
        };
        match fault.remedy {
            Remedy::Redo => effort.lost_races += 1,
            Remedy::Retry => effort.retries += 1,
            Remedy::Halt => {}
        }
        if fault.remedy == Remedy::Redo && lost_races < REDO_AT_ONCE {
            lost_races += 1;
            tracing::debug!(table = name, lost_races, "another writer was faster: {fault}");
            continue;
        }
        if let Err(given_up) = backoff.wait(&name, fault).await {
            break Err(given_up);
        }
    };
    let (took, attempt) = (began.elapsed(), attempted.elapsed());
    if matches!(outcome, Ok(Applied::Committed { .. }))
        && let Err(fault) = replica.maintain().await
    {
        tracing::warn!(table = name, "housekeeping failed and is tried again later: {fault}");
    }
    effort.work = replica.take_work();
    Flight { table, replica, batch, outcome, took, attempt, effort }
}
