//! [`Report`]: what a comparison found.

use std::time::Duration;

use change::{Lsn, Order, comparable::Digest};
use source_postgres::{Key, LeftOutColumn};

/// What a comparison of a table found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The LSN at which the source was looked at first.
    pub lsn: Lsn,
    /// The version of the replica that was compared then.
    pub version: u64,
    /// The last key that was compared, where the scope did not come to its end.
    pub end: Option<Key>,
    /// What stands for the rows of the source, and for those of the replica, but for the moved ones. Its ordered hash is over
    /// those of the ranges.
    pub source: Digest,
    /// The same of the replica.
    pub replica: Digest,
    /// So many ranges were compared, and so many of them differed at first.
    pub ranges: (usize, usize),
    /// So many rows the replica had changed after the LSN; each was compared by itself.
    pub moved: usize,
    /// How often rows were looked at again.
    pub looks: u32,
    /// The rows that differ, up to as many as were to be named.
    pub drift: Vec<Drift>,
    /// Whether more rows differ than are named.
    pub has_more: bool,
    /// Rows that changed at every look.
    pub unsettled: usize,
    /// The columns that were not compared.
    pub left_out: Vec<LeftOutColumn>,
    /// How long each part took.
    pub took: Took,
}

/// How long the parts of a comparison took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// Waiting for the replica at first.
    pub waiting: Duration,
    /// Hashing the replica.
    pub replica: Duration,
    /// Hashing the source, with the pauses.
    pub source: Duration,
    /// Finding the rows in which ranges differ, on both sides.
    pub narrowing: Duration,
    /// Looking again at rows, with the waits for the replica.
    pub settling: Duration,
}

/// A row that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Its key.
    pub key: Key,
    /// In what way.
    pub difference: Difference,
    /// Where the replica's row stands, a deleted one too; `None` where it never had one.
    pub order: Option<Order>,
}

/// How a row of the replica differs from the source's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The source has it, and the replica has not, or has deleted it.
    Missing,
    /// The replica has it, and the source has not.
    Extra,
    /// Both have it, and these columns differ.
    Different(Vec<ColumnDifference>),
}

/// A column that differs: its name in the source, and its texts on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDifference {
    /// The column.
    pub column: String,
    /// What the source holds; `None` for null.
    pub source: Option<String>,
    /// What the replica holds.
    pub replica: Option<String>,
}

/// What a comparison comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every row that was compared is equal.
    Equal,
    /// Rows differ.
    Drift,
    /// No row is known to differ, but some changed at every look.
    Unsettled,
}

impl Report {
    /// What it comes to.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self {
            Self { drift, .. } if !drift.is_empty() => Verdict::Drift,
            Self { unsettled: 1.., .. } => Verdict::Unsettled,
            _ => Verdict::Equal,
        }
    }
}

impl Difference {
    /// In a word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Different(_) => "different",
        }
    }
}
