//! [`RecordSchema`]: what a record says of its own fields, as `schemas.enable=true` writes it before the payload.
//!
//! The names are those of Debezium's documentation of the PostgreSQL connector, "Data type mappings".

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Column, DataType, EnvelopeForm, TableSchema, wire::Wire};

/// A record's schema, or that of one of its fields. Only what decides a value's type and meaning is read.
#[derive(Deserialize)]
pub(crate) struct RecordSchema<'a> {
    #[serde(default, borrow)]
    fields: Vec<RecordSchema<'a>>,
    field: Option<Cow<'a, str>>,
    /// Connect's own type.
    #[serde(rename = "type")]
    base: Option<&'a str>,
    /// The semantic type.
    name: Option<&'a str>,
    /// Of an array.
    items: Option<Box<RecordSchema<'a>>>,
    #[serde(default, borrow)]
    parameters: Parameters<'a>,
}

#[derive(Default, Deserialize)]
struct Parameters<'a> {
    scale: Option<&'a str>,
    #[serde(rename = "connect.decimal.precision")]
    precision: Option<&'a str>,
}

impl<'a> RecordSchema<'a> {
    /// The schema of a row, as a record of this form carries it; `None` where `text` is no such record's schema.
    pub(crate) fn of_row(text: &'a str, form: &EnvelopeForm) -> Option<Self> {
        let mut record: Self = serde_json::from_str(text).ok()?;
        match form {
            EnvelopeForm::Debezium => record.fields.into_iter().find(|field| field.field.as_deref() == Some("after")),
            EnvelopeForm::Flattened(flattening) => {
                record.fields.retain(|field| !field.field.as_deref().is_some_and(|name| flattening.has_added(name)));
                Some(record)
            }
        }
    }

    /// The form of each of the table's columns.
    pub(crate) fn wires(&self, table: &TableSchema) -> Vec<Option<Wire>> {
        let wires = table.columns().iter().map(|column| {
            let field = self.fields.iter().find(|field| field.field.as_deref() == Some(column.source.as_str()));
            field.and_then(|field| field.wire(column.source_type())).or(column.wire)
        });
        wires.collect()
    }

    /// The columns that it names, those of types that are not known apart.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Column> {
        self.fields.iter().filter_map(|field| {
            let data_type = field.data_type()?;
            Some(Column { wire: field.wire(&data_type), ..Column::new(field.field.as_deref()?, data_type) })
        })
    }

    fn wire(&self, data_type: &DataType) -> Option<Wire> {
        if let (DataType::Array(element), Some(items)) = (data_type, &self.items) {
            return items.wire(element);
        }
        let wire = match (self.semantics(), self.base) {
            ("Decimal", _) => match self.scale()? {
                scale if data_type.scale() == Some(scale) => Wire::Base64,
                scale => Wire::Scaled(scale),
            },
            ("Bits", _) => Wire::Base64,
            ("Timestamp" | "Time", _) => Wire::Millis,
            ("MicroTimestamp" | "MicroTime", _) => Wire::Micros,
            ("NanoTimestamp" | "NanoTime", _) => Wire::Nanos,
            ("Date", _) => Wire::Days,
            (_, Some("string")) => Wire::Text,
            (_, Some("bytes")) => Wire::Base64,
            _ => return None,
        };
        wire.fits(data_type).then_some(wire)
    }

    fn data_type(&self) -> Option<DataType> {
        Some(match (self.semantics(), self.base?) {
            ("Decimal", _) => self.decimal(),
            ("VariableScaleDecimal", _) => DataType::Numeric { scale: None },
            ("Date" | "IsoDate", _) => DataType::Date,
            ("Time" | "MicroTime" | "NanoTime" | "IsoTime", _) => DataType::Time,
            ("Timestamp" | "MicroTimestamp" | "NanoTimestamp" | "IsoTimestamp", _) => DataType::TimestampNtz,
            ("ZonedTimestamp", _) => DataType::Timestamp,
            ("Interval" | "MicroDuration" | "NanoDuration", _) => DataType::Interval,
            ("Json", _) | (_, "struct") => DataType::Json,
            (_, "map") => DataType::Hstore,
            (_, "boolean") => DataType::Boolean,
            (_, "int8" | "int16") => DataType::Short,
            (_, "int32") => DataType::Int,
            (_, "int64") => DataType::Long,
            (_, "float" | "float32") => DataType::Float,
            (_, "double" | "float64") => DataType::Double,
            (_, "string") => DataType::String,
            (_, "bytes") => DataType::Binary,
            (_, "array") => match self.items.as_ref()?.data_type()? {
                DataType::Array(_) => return None,
                element => DataType::Array(Box::new(element)),
            },
            _ => return None,
        })
    }

    /// One without a precision is `money`, 64 bits.
    fn decimal(&self) -> DataType {
        let scale = self.scale().and_then(|scale| scale.try_into().ok());
        let precision = self.parameters.precision.map_or(Some(19), |precision| precision.parse().ok());
        match (precision, scale) {
            (Some(precision @ 1..=38), Some(scale @ 0..)) if scale <= i16::from(precision) => {
                DataType::Decimal { precision, scale: scale.try_into().unwrap_or_default() }
            }
            (_, scale) => DataType::Numeric { scale },
        }
    }

    /// Of a decimal.
    fn scale(&self) -> Option<i32> {
        self.parameters.scale?.parse().ok()
    }

    /// The last part of the semantic type's name.
    fn semantics(&self) -> &'a str {
        let known = ["io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."];
        let name = self.name.unwrap_or_default();
        known.iter().find_map(|family| name.strip_prefix(family)).unwrap_or_default()
    }
}

/// What a record says of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The columns, those of types that are not known apart.
    pub columns: Vec<Column>,
    /// The names of the key columns.
    pub key: Vec<String>,
}

#[derive(Deserialize)]
struct Wrapper<'a> {
    #[serde(borrow)]
    schema: &'a RawValue,
}

impl Described {
    /// What the key and the value of a record say; `None` where the value carries no schema, or the key is no object.
    #[must_use]
    pub fn by(form: &EnvelopeForm, key: &[u8], value: &[u8]) -> Option<Self> {
        let value: Wrapper<'_> = serde_json::from_slice(value).ok()?;
        Self::with(form, key, value.schema.get())
    }

    /// What the key of a record says, and the record schema of its value; `None` where the latter is none of a row, or the
    /// key is no object.
    #[must_use]
    pub fn with(form: &EnvelopeForm, key: &[u8], record_schema: &str) -> Option<Self> {
        let columns = RecordSchema::of_row(record_schema, form)?.columns().collect();
        // without a schema the key is the row's part itself
        let key = match serde_json::from_slice::<Wrapper<'_>>(key) {
            Ok(key) => {
                let schema: RecordSchema<'_> = serde_json::from_str(key.schema.get()).ok()?;
                schema.fields.iter().filter_map(|field| field.field.as_deref().map(str::to_owned)).collect()
            }
            Err(_) => {
                serde_json::from_slice::<serde_json::Map<_, _>>(key).ok()?.into_iter().map(|(name, _)| name).collect()
            }
        };
        Some(Self { columns, key })
    }
}

#[cfg(test)]
mod tests;
