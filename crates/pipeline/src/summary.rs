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

impl Summary {
    /// This run and the one that followed it, in one account.
    #[must_use]
    pub fn followed_by(self, mut next: Self) -> Self {
        for (name, counts, fault) in self.tables {
            match next.tables.iter_mut().find(|(known, ..)| *known == name) {
                Some((_, known, _)) => *known += counts,
                None => next.tables.push((name, counts, fault)),
            }
        }
        next
    }
}
