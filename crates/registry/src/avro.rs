//! Avro: a schema's types, as far as the bytes of their values go.
//!
//! A record is read by the very schema that it was written with, so there is nothing to resolve: defaults and aliases
//! are of no interest. What a converter of Kafka Connect says beyond Avro (`connect.name` and the like) is no part of the
//! types here; it goes into the record schema.

mod logical;
mod parse;
mod read;

use std::sync::Arc;

pub(crate) use parse::parse;
pub(crate) use read::{Broken, to_json};

/// A type. Those that have a name in the schema are shared by the places that name them.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    /// So many bytes.
    Fixed(usize),
    /// Its symbols, each as a JSON string.
    Enum(Arc<[String]>),
    Array(Arc<Type>),
    /// Its values; the keys are strings.
    Map(Arc<Type>),
    Record(Arc<[Field]>),
    /// Of its branches one at most is not null.
    Union(Arc<[Type]>),
}

/// A field of a record.
#[derive(Debug)]
pub(crate) struct Field {
    name: String,
    /// What stands before its value: the name as a JSON string, and a colon.
    label: String,
    of: Type,
}

#[cfg(test)]
mod tests;
