//! The vocabulary of Highwater and its specification.
//!
//! An event's way through this crate: [`envelope`] reads a Debezium message, [`order`] says where it stands
//! among the events of its key, [`cell`] turns each JSON value into the column's exact value, a
//! [`mask`] takes its place where the [`column`] has one, and [`batch`] collects the rows as Arrow arrays of the table's
//! [`schema`], which [`evolution`] lets grow with the source's. [`model`] says in about a hundred lines what a replica must
//! do with those events; everything else in Highwater is measured against it. [`comparable`] writes stored values as the
//! source's SQL does.
//!
//! Nothing here does I/O, and nothing panics on input.

pub mod batch;
pub mod canonical;
pub mod cell;
pub mod column;
pub mod comparable;
pub mod data_type;
pub mod decimal;
pub mod envelope;
pub mod evolution;
pub mod form;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod left_out;
pub mod lsn;
pub mod malformed;
pub mod mask;
pub mod model;
pub mod numeric;
pub mod op;
pub mod order;
mod partition;
pub mod placeholder;
pub mod record;
pub mod record_schema;
pub mod schema;
pub mod source_row;
pub mod source_tables;
pub mod time;
pub mod wire;

pub use batch::{BatchBuilder, ChangeBatch, Moved};
pub use column::{Column, Unfit};
pub use comparable::Comparable;
pub use data_type::DataType;
pub use envelope::{Decoded, Decoder, NoChange};
pub use form::{Deletes, EnvelopeForm, Flattening, Metadata};
pub use left_out::LeftOut;
pub use lsn::Lsn;
pub use malformed::{Malformed, Problem};
pub use mask::{Mask, Masked, Secret};
pub use op::Op;
pub use order::{Horizon, Order, Restart};
pub use placeholder::Placeholder;
pub use record::RecordRef;
pub use record_schema::Described;
pub use schema::{MetaColumns, SchemaError, TableSchema};
pub use source_row::SourceRow;
pub use source_tables::SourceTables;
