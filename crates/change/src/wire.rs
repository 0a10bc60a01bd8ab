//! [`Wire`]: how a column's values are written in an envelope.
//!
//! An envelope without a schema does not say whether `1709210096789` counts milli- or microseconds. The unit comes
//! from the table's declaration or from the envelope's own schema, and is never guessed from a magnitude.

use std::{fmt, str::FromStr};

use serde::Deserialize;

use crate::{DataType, SchemaError, TableSchema};

/// The form of a column's values on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// A decimal as digits in a string (`decimal.handling.mode=string`), or a time in ISO 8601.
    Text,
    /// A decimal as base64 of its big-endian unscaled integer (`decimal.handling.mode=precise`).
    Base64,
    /// A date as days since 1970-01-01.
    Days,
    /// A time as milliseconds since 1970-01-01.
    Millis,
    /// A time as microseconds since 1970-01-01.
    Micros,
    /// A time as nanoseconds since 1970-01-01.
    Nanos,
}

impl Wire {
    /// Whether a column of this type can be written so.
    #[must_use]
    pub fn fits(self, data_type: DataType) -> bool {
        match data_type {
            DataType::Decimal { .. } => matches!(self, Self::Text | Self::Base64),
            DataType::Date => matches!(self, Self::Text | Self::Days),
            DataType::Timestamp | DataType::TimestampNtz => {
                matches!(self, Self::Text | Self::Millis | Self::Micros | Self::Nanos)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Base64 => "base64",
            Self::Days => "days",
            Self::Millis => "millis",
            Self::Micros => "micros",
            Self::Nanos => "nanos",
        })
    }
}

impl FromStr for Wire {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        [Self::Text, Self::Base64, Self::Days, Self::Millis, Self::Micros, Self::Nanos]
            .into_iter()
            .find(|wire| wire.to_string() == text)
            .ok_or_else(|| SchemaError::UnknownWire(text.to_owned()))
    }
}

/// The schema of a record, as `schemas.enable=true` writes it before the payload. Only what decides a value's
/// meaning is read: the field's base type and its semantic name.
#[derive(Deserialize)]
struct RecordSchema<'a> {
    #[serde(default, borrow)]
    fields: Vec<RecordSchema<'a>>,
    field: Option<&'a str>,
    #[serde(rename = "type")]
    base: Option<&'a str>,
    name: Option<&'a str>,
}

/// The wire form of each column by a record's own schema; `None` where the schema cannot be read as an envelope's.
/// A column that the schema does not name, or names with a type of no special form, keeps its declared form.
pub(crate) fn from_record_schema(schema: &str, table: &TableSchema) -> Option<Vec<Option<Wire>>> {
    let record: RecordSchema<'_> = serde_json::from_str(schema).ok()?;
    let row = record.fields.iter().find(|f| f.field == Some("after"))?;
    let wires = table.columns().iter().map(|column| {
        let field = row.fields.iter().find(|f| f.field == Some(column.name.as_str()));
        field.and_then(|f| wire_of(f, column.data_type)).or(column.wire)
    });
    Some(wires.collect())
}

/// Semantic names: Debezium's documentation of the PostgreSQL connector, "Data type mappings".
fn wire_of(field: &RecordSchema<'_>, data_type: DataType) -> Option<Wire> {
    let wire = match (field.name, field.base) {
        (Some("org.apache.kafka.connect.data.Decimal"), _) => Wire::Base64,
        (Some("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp"), _) => Wire::Millis,
        (Some("io.debezium.time.MicroTimestamp"), _) => Wire::Micros,
        (Some("io.debezium.time.NanoTimestamp"), _) => Wire::Nanos,
        (Some("io.debezium.time.Date" | "org.apache.kafka.connect.data.Date"), _) => Wire::Days,
        (_, Some("string")) => Wire::Text,
        _ => return None,
    };
    wire.fits(data_type).then_some(wire)
}
