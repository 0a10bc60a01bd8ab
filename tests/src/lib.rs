//! The real stack as plain processes, for tests: PostgreSQL, Kafka, Kafka Connect with Debezium, and the `highwater`
//! binary against them. No containers, no services of the machine; everything listens on 127.0.0.1 and lives in one temporary
//! folder, so several stacks run at once and nothing is left behind.
//!
//! The way through it:
//!
//! 1. [`packages`] lays the servers' files in the user's cache, once, through Maven.
//! 2. [`process`] starts one program and answers for its end; [`scratch`] is the temporary folder.
//! 3. [`postgres`], [`kafka`] and [`connect`] are the servers; [`stack`] is the three of them together.
//! 4. [`broker`] looks into topics and groups; [`order`] computes the (anchor, LSN) order of what is there.
//! 5. [`shop`] is one source database with its [`connector`] and topic, made from the same SQL and JSON files as the compose file's.
//! 6. [`highwater`] configures and runs the binary; [`oracle`] compares the replica with PostgreSQL, [`checkpoints`] the
//!    committed offsets with the Delta log.
//! 7. [`s3`] is an S3 server, with recorded messages into a table there; it needs no stack. [`registry`] is a schema registry.
//!
//! `scripts/test` runs all of it, `cargo test --release --workspace --test stack NAME` some of it; it needs Java, Maven, util-linux, the `highwater` binary in the same target
//! folder and, for one test, Debian's PostgreSQL 15. What is missing fails a test, with what to install. Settings, all optional: `HIGHWATER_BIN`
//! (another binary), `HIGHWATER_TEST_SEED` (the moments of an earlier run's kills, its random histories and values, the soak's plan), `HIGHWATER_SOAK_MINUTES` (3),
//! `HIGHWATER_TEST_KEEP` (keep folders and logs), `HIGHWATER_UPDATE` (write anew what the types' test compares with: the table of docs/types.md
//! and `testdata/debezium/types.tsv`).

#![allow(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a harness for our own tests: it speaks to whoever runs them, and panics where it breaks its own promise"
)]

pub mod broker;
pub mod checkpoints;
pub mod connect;
pub mod connector;
pub mod highwater;
pub mod kafka;
pub mod oracle;
pub mod order;
pub mod packages;
pub mod postgres;
pub mod process;
pub mod registry;
pub mod s3;
pub mod scratch;
pub mod shop;
pub mod stack;
