//! How Highwater is doing: for a person, a probe and Prometheus.
//!
//! [`Monitor`] is told what happens: by the pipeline, whose [`Observer`](pipeline::Observer) it is, and by whoever looks at
//! the group, the slot, the connector and the tables from outside. All that is shown comes from there: [`Status`] is its
//! picture, with the [`problems`] that follow from it; [`metrics`] has the same numbers for Prometheus; [`http`] serves both,
//! and the page that draws the first.

mod access;
mod client;
mod connector;
mod histogram;
mod history;
pub mod http;
pub mod metrics;
mod monitor;
pub mod problems;
mod state;
pub mod status;
mod table;

pub use access::Token;
pub use client::fetch;
pub use connector::ConnectClient;
pub use monitor::Monitor;
pub use state::{Broken, Group, PartitionLag};
pub use status::Status;
