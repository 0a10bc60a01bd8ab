//! [`ReadBack`]: the source itself, asked for values that an event left out and that the replica has no row to take from.
//!
//! What is read is at least as new as the event, and every later change of it comes as an event of its own, so the
//! replica converges. Where the source has no row with the key any more, its delete, or the change of its key, follows in
//! the log: the event is passed over, and counts as superseded.

use std::{fmt, future::Future, pin::Pin};

use change::{LeftOut, TableSchema, left_out::Found};

use crate::{Batch, Fault};

/// Values for each row that was asked for; `None` where there is no such row.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Option<Found>>, Fault>> + Send + 'a>>;

/// The table in the source.
pub trait ReadBack: fmt::Debug + Send + Sync {
    /// The values of the columns of `left_out`, which are those of `schema`, for each of its keys.
    ///
    /// # Errors
    /// A retry where the source does not answer; a halt where it refuses, or is none that the events can be of.
    fn read<'a>(&'a self, schema: &'a TableSchema, left_out: &'a LeftOut) -> Answer<'a>;
}

/// Reads what these rows of the batch leave out, and hands back the batch with it.
pub(crate) async fn fill(read_back: &dyn ReadBack, batch: &Batch, rows: &[usize]) -> Result<Batch, Fault> {
    let schema = &batch.changes.schema;
    let left_out = batch.changes.left_out(rows).map_err(Fault::halt)?;
    let answer = read_back.read(schema, &left_out).await?;
    if answer.len() != rows.len() {
        return Err(Fault::halt("the source answered for another number of rows than it was asked for"));
    }
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    for (&row, values) in rows.iter().zip(answer) {
        match values {
            Some(values) => found.push((row, values)),
            None => gone.push(row),
        }
    }
    tracing::debug!(found = found.len(), gone = gone.len(), "read back from the source what events left out");
    let filled = batch.with_found(&left_out.columns, &found).map_err(|malformed| {
        Fault::halt(format!("what an event left out cannot be taken from the source: {malformed}; correct its type"))
    })?;
    let mut filled = filled.without(&gone)?;
    filled.counts.superseded += gone.len() as u64;
    Ok(filled)
}
