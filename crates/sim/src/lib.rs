//! A deterministic simulation of everything around Highwater's pipeline.
//!
//! One seed is one history: [`scenario`] draws it as plain data, [`run`] plays it on a runtime whose time is its own,
//! and the same seed gives the same trace to the letter. The database ([`postgres`]), Debezium ([`connector`],
//! [`envelope`]), the brokers with their consumer group ([`broker`]) and the lake ([`lake`]) are simulated; the
//! pipeline that the members ([`member`]) run, the decoder and the reference model are the production ones.
//! [`check`] says what must hold at every commit and acknowledgement and at the end. [`shrink`] cuts a failing
//! history down.

pub mod accident;
pub mod broker;
pub mod check;
pub mod connector;
pub mod contract;
pub mod envelope;
pub mod lake;
pub mod member;
pub mod postgres;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod stats;
pub mod world;

#[cfg(test)]
mod tests;
