//! [`Placeholder`]: what a connector writes in place of a TOASTed value that an update did not send.

use std::str::FromStr;

use crate::SchemaError;

/// Debezium's default of `unavailable.value.placeholder`.
const DEFAULT: &str = "__debezium_unavailable_value";

/// The connector's `unavailable.value.placeholder`. A value is one only as a whole: a text that contains it is a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    bytes: Vec<u8>,
    /// The object with one entry that stands in an hstore.
    object: String,
}

impl Placeholder {
    fn new(bytes: Vec<u8>) -> Self {
        let text = serde_json::Value::from(String::from_utf8_lossy(&bytes));
        let object = format!("{{{text}:{text}}}");
        Self { bytes, object }
    }

    /// In a text, and in JSON.
    pub(crate) fn is_text(&self, text: &str) -> bool {
        text.as_bytes() == self.bytes
    }

    pub(crate) fn is_bytes(&self, bytes: &[u8]) -> bool {
        *bytes == *self.bytes
    }

    /// In an hstore, whichever way the connector writes it.
    pub(crate) fn is_object(&self, json: &str) -> bool {
        json == self.object
    }

    /// In an array of integers: the bytes, each as a number.
    pub(crate) fn is_integers(&self, integers: impl ExactSizeIterator<Item = Option<i64>>) -> bool {
        integers.len() == self.bytes.len() && integers.zip(&self.bytes).all(|(found, &byte)| found == Some(byte.into()))
    }
}

impl Default for Placeholder {
    fn default() -> Self {
        Self::new(DEFAULT.into())
    }
}

impl FromStr for Placeholder {
    type Err = SchemaError;

    /// As the connector's configuration has it: a text, or `hex:` and bytes.
    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let bytes = match text.strip_prefix("hex:") {
            Some(digits) => crate::wire::from_hex(digits).ok_or(SchemaError::BadPlaceholder)?,
            None => text.into(),
        };
        if bytes.is_empty() { Err(SchemaError::BadPlaceholder) } else { Ok(Self::new(bytes)) }
    }
}
