//! [`Summary`]: what a run did, and why it ended.

use crate::{Counts, Fault};

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything that was there at the start is durable.
    CaughtUp,
    /// It was told to stop.
    Stopped,
    /// No table is left that takes records.
    Halted,
}

/// What a run did.
#[derive(Debug)]
pub struct Summary {
    /// Why it ended.
    pub ending: Ending,
    /// By table: its name, the account of its records, and why it halted, if it did.
    pub tables: Vec<(String, Counts, Option<Fault>)>,
}
