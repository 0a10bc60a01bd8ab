//! What PostgreSQL knows about its tables, and the config of Highwater that follows from it.
//!
//! The way: [`PostgresSettings`] come from a URL, and [`connect`] makes a connection of them. [`Catalog::read`] asks
//! the system catalog for the [`table::Table`]s that a [`Selection`] takes. [`Modes`] are what a Debezium connector's
//! config says about the form of values. [`columns`] maps each column to its declaration under those modes, as
//! docs/types.md has it; [`TablePlan`] adds the key and everything that an operator should know; and [`Draft`] writes
//! it all down as a config with comments.
//!
//! [`SourceTable`] reads from a table what its events left out. [`SourceView`] says what a [`ComparedTable`] held at one
//! moment, range by range; [`Delivery`], how far the connector has come.
//!
//! What is said here about the connector was read from Debezium 3.6.1 and seen in recordings of it.

mod catalog;
mod comparable;
mod compared;
mod connect;
mod declare;
mod delivery;
mod draft;
mod error;
mod key;
mod modes;
mod patterns;
mod plan;
mod plans;
mod read_back;
mod selection;
mod settings;
mod slot;
pub mod table;
#[cfg(test)]
mod tests;
mod tls;
mod toast;
mod topic;
mod view;

pub use catalog::Catalog;
pub use compared::{ComparedColumn, ComparedTable, Key, KeyOrder, LeftOutColumn};
pub use connect::connect;
pub use declare::{ColumnPlan, Sent, columns};
pub use delivery::{Delivery, SlotPlace};
pub use draft::{Draft, Drafted};
pub use error::PostgresError;
pub use modes::{BinaryMode, DecimalMode, IntervalMode, Modes, ModesError, TimeMode};
pub use plan::TablePlan;
pub use plans::plans;
pub use read_back::SourceTable;
pub use selection::Selection;
pub use settings::PostgresSettings;
pub use slot::{SlotState, SlotWatch};
pub use view::{KeyRange, QueryLimits, SourceView, compared_table};
