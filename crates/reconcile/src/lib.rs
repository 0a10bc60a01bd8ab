//! Whether a replica equals its source, and which rows do not.
//!
//! [`Reconciliation::compare`] looks at the source as it is at one moment, whose LSN is W; waits until the replica has
//! come to it ([`catch_up`]); and compares digests of ranges of keys, without the rows that the replica changed after W.
//! What differs, and what moved, is looked at again, row by row and at later moments, until it is equal or stays
//! different ([`settle`]). So a replica that merely is ahead or behind is never reported, and rows that change while they
//! are compared are compared all the same. [`Report`] says what came out, and
//! [`repair`] gives the replica the source's rows for those that differ.

pub mod catch_up;
pub mod compare;
mod fold;
pub mod repair;
pub mod report;
pub mod settle;

pub use catch_up::CatchUp;
pub use compare::{Limits, Reconciliation, Scope, Step};
pub use repair::Repaired;
pub use report::{Difference, Drift, Report, Verdict};
