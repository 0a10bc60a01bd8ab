//! The real stack: every fact here is proven with real servers and the real binary. See the package's first page for how.
//!
//! The tests run one after another against one stack, whatever the number of test threads. Each prints a line that starts with
//! `figures:`, past the test runner's capture.

#![allow(clippy::expect_used, reason = "a test may panic")]

#[path = "stack/accidents.rs"]
mod accidents;
#[path = "stack/captures.rs"]
mod captures;
#[path = "stack/catalog.rs"]
mod catalog;
#[path = "stack/changes.rs"]
mod changes;
#[path = "stack/columns.rs"]
mod columns;
#[path = "stack/command.rs"]
mod command;
#[path = "stack/discovery.rs"]
mod discovery;
#[path = "stack/evolution.rs"]
mod evolution;
#[path = "stack/flattened.rs"]
mod flattened;
#[path = "stack/groups.rs"]
mod groups;
#[path = "stack/histories.rs"]
mod histories;
#[path = "stack/kills.rs"]
mod kills;
#[path = "stack/layout.rs"]
mod layout;
#[path = "stack/letters.rs"]
mod letters;
#[path = "stack/members.rs"]
mod members;
#[path = "stack/ordering.rs"]
mod ordering;
#[path = "stack/outages.rs"]
mod outages;
#[path = "stack/readback.rs"]
mod readback;
#[path = "stack/reconcile.rs"]
mod reconcile;
#[path = "stack/refusals.rs"]
mod refusals;
#[path = "stack/registry.rs"]
mod registry;
#[path = "stack/routing.rs"]
mod routing;
#[path = "stack/s3.rs"]
mod s3;
#[path = "stack/servers.rs"]
mod servers;
#[path = "stack/soak.rs"]
mod soak;
#[path = "stack/specification.rs"]
mod specification;
#[path = "stack/streaming.rs"]
mod streaming;
#[path = "stack/tables.rs"]
mod tables;
#[path = "stack/types.rs"]
mod types;
#[path = "stack/verdict.rs"]
mod verdict;
