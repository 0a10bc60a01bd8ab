//! [`Schema`]: a record schema in the form in which Kafka Connect's JSON converter writes it before a payload.
//!
//! Only what decides a value's type and meaning is written: versions, docs and defaults are not.

use std::collections::BTreeMap;

use serde::Serialize;

/// The semantic types that stand for what Avro and JSON Schema say in words of their own.
pub(crate) const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";
pub(crate) const DATE: &str = "org.apache.kafka.connect.data.Date";
pub(crate) const TIME: &str = "org.apache.kafka.connect.data.Time";
pub(crate) const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";
pub(crate) const MICRO_TIME: &str = "io.debezium.time.MicroTime";
pub(crate) const MICRO_TIMESTAMP: &str = "io.debezium.time.MicroTimestamp";
pub(crate) const NANO_TIMESTAMP: &str = "io.debezium.time.NanoTimestamp";
pub(crate) const ZONED_TIMESTAMP: &str = "io.debezium.time.ZonedTimestamp";
pub(crate) const ISO_DATE: &str = "io.debezium.time.IsoDate";
pub(crate) const UUID: &str = "io.debezium.data.Uuid";

/// A decimal's parameters.
pub(crate) const SCALE: &str = "scale";
pub(crate) const PRECISION: &str = "connect.decimal.precision";

/// The schema of a record or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Schema {
    /// Connect's own type: `int8`, `int16`, `int32`, `int64`, `float`, `double`, `boolean`, `string`, `bytes`, `array`,
    /// `map` or `struct`.
    #[serde(rename = "type")]
    pub(crate) base: &'static str,
    /// Of a struct.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) fields: Vec<Schema>,
    /// Of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) items: Option<Box<Schema>>,
    /// Of a map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keys: Option<Box<Schema>>,
    /// Of a map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) values: Option<Box<Schema>>,
    pub(crate) optional: bool,
    /// The semantic type, or a struct's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) parameters: BTreeMap<String, String>,
    /// Its name in the struct that it is a field of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
}

impl Schema {
    pub(crate) fn of(base: &'static str) -> Self {
        Self {
            base,
            fields: Vec::new(),
            items: None,
            keys: None,
            values: None,
            optional: false,
            name: None,
            parameters: BTreeMap::new(),
            field: None,
        }
    }

    pub(crate) fn array(items: Self) -> Self {
        Self { items: Some(Box::new(items)), ..Self::of("array") }
    }

    pub(crate) fn map(values: Self) -> Self {
        Self { keys: Some(Box::new(Self::of("string"))), values: Some(Box::new(values)), ..Self::of("map") }
    }

    /// The strings among the values of `connect.parameters`.
    pub(crate) fn add_parameters(&mut self, parameters: Option<&serde_json::Value>) {
        let given = parameters.and_then(serde_json::Value::as_object).into_iter().flatten();
        self.parameters.extend(given.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))));
    }
}
