//! What an Avro type means, in Kafka Connect's words.
//!
//! A converter of Connect has written that itself (`connect.name`, `connect.type`, `connect.parameters`); other writers
//! have Avro's logical types.

use serde_json::{Map, Value};

use crate::connect::{self, Schema};

/// Takes over what the object that declares a type says of its meaning.
pub(super) fn annotate(schema: &mut Schema, declared: &Map<String, Value>) {
    let text = |name: &str| declared.get(name).and_then(Value::as_str);
    if schema.base == "int32" {
        match text("connect.type") {
            Some("int8") => schema.base = "int8",
            Some("int16") => schema.base = "int16",
            _ => {}
        }
    }
    let logical = text("logicalType");
    schema.add_parameters(declared.get("connect.parameters"));
    if let Some(name) = text("connect.name") {
        schema.name = Some(name.to_owned());
    } else if let Some(name) = logical.and_then(|logical| semantics(logical, schema.base)) {
        schema.name = Some(name.to_owned());
        // beside a connect.name it is 64 where nobody knows it
        if let (connect::DECIMAL, Some(precision)) = (name, number(declared, "precision")) {
            schema.parameters.insert(connect::PRECISION.to_owned(), precision);
        }
    }
    if schema.name.as_deref() == Some(connect::DECIMAL) && !schema.parameters.contains_key(connect::SCALE) {
        let scale = number(declared, "scale").unwrap_or_else(|| "0".to_owned());
        schema.parameters.insert(connect::SCALE.to_owned(), scale);
    }
}

/// Of a logical type on the type that it belongs to; on another one it means nothing.
fn semantics(logical: &str, base: &str) -> Option<&'static str> {
    Some(match (logical, base) {
        ("decimal", "bytes") => connect::DECIMAL,
        ("date", "int32") => connect::DATE,
        ("time-millis", "int32") => connect::TIME,
        ("time-micros", "int64") => connect::MICRO_TIME,
        ("timestamp-millis" | "local-timestamp-millis", "int64") => connect::TIMESTAMP,
        ("timestamp-micros" | "local-timestamp-micros", "int64") => connect::MICRO_TIMESTAMP,
        ("timestamp-nanos" | "local-timestamp-nanos", "int64") => connect::NANO_TIMESTAMP,
        ("uuid", "string") => connect::UUID,
        _ => return None,
    })
}

fn number(declared: &Map<String, Value>, name: &str) -> Option<String> {
    declared.get(name).and_then(Value::as_u64).map(|number| number.to_string())
}
