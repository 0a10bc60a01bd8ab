//! [`Effort`]: what a batch cost.

use std::time::Duration;

/// What it took to make a batch durable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effort {
    /// How often another writer was faster.
    pub lost_races: u64,
    /// How often a store or server did not answer.
    pub retries: u64,
    /// What the replica says of its last attempt.
    pub work: Work,
}

/// What a replica did for a batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// How long each step took, in their order.
    pub steps: Vec<(&'static str, Duration)>,
    /// Data files that were written.
    pub files_written: u64,
    /// Data files that the table lost.
    pub files_removed: u64,
    /// Rows that were written again as they were, because they share a file with others.
    pub rows_copied: u64,
}
