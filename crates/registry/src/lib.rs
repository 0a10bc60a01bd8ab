//! Records whose schemas are in a schema registry.
//!
//! A converter with a registry writes the id of a schema before each key and value, and the message in Avro or as JSON
//! ([`pipeline::Format`] tells such records from others). [`Registry`] fetches each schema once ([`Client`]) and makes two
//! things of it: a record schema in the form in which Kafka Connect's JSON converter writes it (`connect`), from `avro` or
//! `json_schema`, and the way from a message's bytes to JSON text. The decoder then reads what it reads anyway. Whatever
//! the schema says of a type's meaning is what the connector said, so it decides as with `schemas.enable=true`.
//!
//! Nothing panics on input, and no error holds a value of a row or a secret.

mod avro;
mod client;
mod connect;
mod json_schema;
mod prepared;
mod registry;
mod settings;

pub use client::{Client, Reference, Registered};
pub use registry::Registry;
pub use settings::{Login, RegistrySettings};

#[cfg(test)]
mod tests;
