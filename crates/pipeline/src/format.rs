//! [`Format`]: from a record's bytes to the JSON text that a decoder reads.
//!
//! JSON is passed on as it is. A key or a value that begins with a zero byte, which no JSON does, is framed as the clients
//! of a schema registry do it: that byte, the id of a schema in four bytes, and the message. What was written under such
//! an id is for [`Schemas`] to read, which may have to fetch the schema first: nothing here waits for it.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use change::{Malformed, RecordRef};

use crate::Fault;

/// The byte before the id of a schema.
const MARK: u8 = 0;

/// Schemas that are known by an id, as a schema registry has them.
pub trait Schemas: fmt::Debug + Send + Sync {
    /// Appends the JSON text of a message, as Kafka Connect's JSON converter writes it, to `json`. `framed` begins with the
    /// zero byte; `part` says for an error what it is of, `key` or `value`.
    ///
    /// # Errors
    /// [`Malformed`] where the schema cannot be used, or the message does not follow it.
    fn read(&self, framed: &[u8], part: &'static str, json: &mut Vec<u8>) -> Result<Reading, Malformed>;

    /// Fetches a schema, so that the next [`Self::read`] knows about it, or knows that there is none.
    fn fetch(&self, id: u32) -> Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + '_>>;
}

/// What [`Schemas`] made of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// It was read; this is its record schema, in Connect's JSON form and the same text each time.
    Json(Arc<str>),
    /// The schema of this id has to be fetched first.
    Unknown(u32),
}

/// A record on its way to a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read<'a> {
    /// A record of JSON, with the record schema of its value where that is known.
    Json(RecordRef<'a>, Option<Arc<str>>),
    /// The schema of this id has to be fetched first.
    Unknown(u32),
}

/// Reads the records of one table.
#[derive(Debug, Default)]
pub struct Format {
    schemas: Option<Arc<dyn Schemas>>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Format {
    /// Reads what is framed with the help of `schemas`; without them it is passed on, to be refused.
    #[must_use]
    pub fn new(schemas: Option<Arc<dyn Schemas>>) -> Self {
        Self { schemas, ..Self::default() }
    }

    /// Reads one record.
    ///
    /// # Errors
    /// [`Malformed`] where a schema cannot be used, or the record does not follow it.
    pub fn read<'a>(&'a mut self, record: RecordRef<'a>) -> Result<Read<'a>, Malformed> {
        let Some(schemas) = &self.schemas else { return Ok(Read::Json(record, None)) };
        let mut read = record;
        if let Some(framed) = framed(record.key) {
            self.key.clear();
            match schemas.read(framed, "key", &mut self.key)? {
                Reading::Json(_) => read.key = Some(&self.key),
                Reading::Unknown(id) => return Ok(Read::Unknown(id)),
            }
        }
        let Some(framed) = framed(record.value) else { return Ok(Read::Json(read, None)) };
        self.value.clear();
        match schemas.read(framed, "value", &mut self.value)? {
            Reading::Json(record_schema) => {
                read.value = Some(&self.value);
                Ok(Read::Json(read, Some(record_schema)))
            }
            Reading::Unknown(id) => Ok(Read::Unknown(id)),
        }
    }

    /// Where what is framed is read.
    #[must_use]
    pub fn schemas(&self) -> Option<&Arc<dyn Schemas>> {
        self.schemas.as_ref()
    }
}

fn framed(bytes: Option<&[u8]>) -> Option<&[u8]> {
    bytes.filter(|bytes| bytes.first() == Some(&MARK))
}
