//! [`Prepared`]: a schema made ready for the records that were written under it.

use std::sync::Arc;

use crate::{
    avro::{self, Broken},
    client::Registered,
    json_schema,
};

/// A schema that records can be read by.
#[derive(Debug)]
pub(crate) struct Prepared {
    message: Message,
    /// In Connect's JSON form.
    record_schema: Arc<str>,
}

/// How a message is written.
#[derive(Debug)]
enum Message {
    Avro(avro::Type),
    /// As JSON text.
    Json,
}

impl Prepared {
    /// Prepares a schema; `references` are those that it names, each after those that it names itself.
    ///
    /// # Errors
    /// A sentence that says why it cannot be used.
    pub(crate) fn new(registered: &Registered, references: &[(String, String)]) -> Result<Self, String> {
        let (message, record_schema) = match registered.kind.as_str() {
            "AVRO" => {
                let references: Vec<_> = references.iter().map(|(_, text)| text.clone()).collect();
                let (of, record_schema) = avro::parse(&registered.schema, &references)?;
                (Message::Avro(of), record_schema)
            }
            "JSON" => (Message::Json, json_schema::parse(&registered.schema, references)?),
            kind => return Err(format!("it is of the kind {kind}; AVRO and JSON can be read")),
        };
        let record_schema = serde_json::to_string(&record_schema).map_err(|e| e.to_string())?;
        Ok(Self { message, record_schema: record_schema.into() })
    }

    /// The record schema; the same text for as long as this is kept.
    pub(crate) fn record_schema(&self) -> &Arc<str> {
        &self.record_schema
    }

    /// Appends a message's JSON text.
    pub(crate) fn read(&self, message: &[u8], json: &mut Vec<u8>) -> Result<(), Broken> {
        match &self.message {
            Message::Avro(of) => avro::to_json(of, message, json),
            Message::Json => {
                json.extend_from_slice(message);
                Ok(())
            }
        }
    }
}
