//! Gives a sealed batch to its replica, and acts on what goes wrong: the one place where a [`Remedy`] is carried out.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Applied, Batch, Fault, Remedy, Replica};

/// The first pause between two attempts; it doubles up to [`PAUSE_MAX`], so that a store that comes back is not
/// met by all tables at once, and a short hiccup costs little.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Lost races in a row before the pauses of a retry begin: another writer then has a clear advantage.
const REDO_AT_ONCE: u32 = 5;

/// A batch on its way to the replica, and back with its outcome.
pub(crate) struct Flight<R> {
    pub(crate) table: usize,
    pub(crate) replica: R,
    pub(crate) batch: Batch,
    pub(crate) outcome: Result<Applied, Fault>,
    pub(crate) took: Duration,
}

/// Applies `batch` until it is durable or the table has to halt, which it does after `retry_max` without success.
pub(crate) async fn fly<R: Replica>(
    table: usize,
    name: String,
    mut replica: R,
    batch: Batch,
    retry_max: Duration,
) -> Flight<R> {
    let began = Instant::now();
    let mut pause = PAUSE_FIRST;
    let mut lost_races = 0;
    let outcome = loop {
        let fault = match replica.apply(&batch).await {
            Ok(applied) => break Ok(applied),
            Err(fault) => fault,
        };
        match fault.remedy {
            Remedy::Halt => break Err(fault),
            Remedy::Redo if lost_races < REDO_AT_ONCE => {
                lost_races += 1;
                tracing::debug!(table = name, lost_races, "another writer was faster: {fault}");
                continue;
            }
            Remedy::Redo | Remedy::Retry => {}
        }
        if began.elapsed() + pause > retry_max {
            let waited = began.elapsed().as_secs();
            break Err(Fault::halt(format!("gave up after {waited} s of trying: {fault}")));
        }
        tracing::warn!(table = name, pause_ms = pause.as_millis(), "will try again: {fault}");
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    };
    let took = began.elapsed();
    if matches!(outcome, Ok(Applied::Committed { .. }))
        && let Err(fault) = replica.maintain().await
    {
        tracing::warn!(table = name, "housekeeping failed and is tried again later: {fault}");
    }
    Flight { table, replica, batch, outcome, took }
}
