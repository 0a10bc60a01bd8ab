//! The replica over Delta Lake.
//!
//! A batch's way: [`schema`] lets the table grow where the batch has more columns, `moved` gives rows of other keys than before what they leave out, [`newest`] reduces it to one event a key, [`guard`] compares those with the stored rows, [`fold`]
//! gives each the values that it does not carry itself, [`merge`] writes the rest (a delta-rs MERGE, or an append where every key is new) and puts the
//! batch's positions ([`checkpoint`]) into the same commit. [`truncate`] empties the table up to an order.
//! [`layout`] says what a table is created with beside its columns: [`properties`], statistics, comments.
//! [`view`] is what a version holds, as it is compared with the source.
//! [`store`] opens local folders, S3 and memory; what it writes to a local disk is synced before the call returns,
//! so that a commit is durable before its offsets are acknowledged.

mod census;
pub mod checkpoint;
mod commit;
mod data_file;
pub mod durable;
pub mod fault;
pub mod fold;
pub mod guard;
mod laps;
pub mod layout;
pub mod merge;
mod moved;
pub mod newest;
pub mod properties;
pub mod replica;
pub mod schema;
pub mod store;
pub mod truncate;
pub mod view;

pub use census::Census;
pub use guard::Verdict;
pub use layout::Layout;
pub use properties::Properties;
pub use replica::DeltaReplica;
pub use store::Lake;
pub use view::{Compared, ReplicaView};

#[cfg(test)]
mod tests;
