//! JSON Schema: the payload is JSON text already, and only the record schema is made here.
//!
//! What the schema does not say in a way that is known is left out: such a field's values are read as the table declares
//! them, as in an envelope without a schema.

use serde_json::Value;

use crate::connect::{self, Schema};

/// A schema that contains itself ends there; Debezium's envelopes are 6 types deep.
const DEPTH_MAX: usize = 64;

/// Parses a schema. `references` are the schemas that it may name, each with its name.
///
/// # Errors
/// A sentence that says why the schema cannot be used.
pub(crate) fn parse(text: &str, references: &[(String, String)]) -> Result<Schema, String> {
    let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|_| "it is no JSON".to_owned());
    let root = json(text)?;
    let named = references.iter().map(|(name, text)| Ok((name.as_str(), json(text)?)));
    let named = named.collect::<Result<Vec<_>, String>>()?;
    let document = Document { root: &root, named: &named };
    document.schema(&root, 0).ok_or_else(|| "it does not say what it is the schema of".to_owned())
}

/// A schema and those that it may name.
#[derive(Clone, Copy)]
struct Document<'a> {
    root: &'a Value,
    named: &'a [(&'a str, Value)],
}

impl<'a> Document<'a> {
    fn schema(self, json: &'a Value, depth: usize) -> Option<Schema> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(target) = text(json, "$ref") {
            let (document, json) = self.target(target)?;
            return document.schema(json, depth + 1);
        }
        if let Some(branches) = json.get("oneOf").or_else(|| json.get("anyOf")).and_then(Value::as_array) {
            let mut others = branches.iter().filter(|branch| text(branch, "type") != Some("null"));
            return match (others.next(), others.next()) {
                (Some(only), None) => Some(Schema { optional: branches.len() > 1, ..self.schema(only, depth + 1)? }),
                _ => None,
            };
        }
        let (kind, optional) = kind(json)?;
        let schema = match (text(json, "connect.type"), kind) {
            (Some("int8"), _) => Schema::of("int8"),
            (Some("int16"), _) => Schema::of("int16"),
            (Some("int32"), _) => Schema::of("int32"),
            (Some("float32"), _) => Schema::of("float"),
            (Some("bytes"), _) => Schema::of("bytes"),
            (Some("map"), "object") => Schema::map(self.schema(json.get("additionalProperties")?, depth + 1)?),
            (Some("int64"), _) | (_, "integer") => Schema::of("int64"),
            (Some("float64"), _) | (_, "number") => Schema::of("double"),
            (_, "boolean") => Schema::of("boolean"),
            (_, "string") => Schema::of("string"),
            (_, "array") => Schema::array(self.schema(json.get("items")?, depth + 1)?),
            (_, "object") => Schema { fields: self.fields(json, depth), ..Schema::of("struct") },
            _ => return None,
        };
        let name = text(json, "title").or_else(|| semantics(text(json, "format")?, schema.base));
        let mut schema = Schema { optional, name: name.map(str::to_owned), ..schema };
        schema.add_parameters(json.get("connect.parameters"));
        Some(schema)
    }

    /// The properties in Connect's order, as far as it is known.
    fn fields(self, json: &'a Value, depth: usize) -> Vec<Schema> {
        let properties = json.get("properties").and_then(Value::as_object).into_iter().flatten();
        let mut properties: Vec<_> = properties.collect();
        properties
            .sort_by_key(|(_, property)| property.get("connect.index").and_then(Value::as_u64).unwrap_or(u64::MAX));
        let field = |(name, property): (&String, &'a Value)| {
            Some(Schema { field: Some(name.clone()), ..self.schema(property, depth + 1)? })
        };
        properties.into_iter().filter_map(field).collect()
    }

    /// What `$ref` names: a place in this document, or another document or a place in it.
    fn target(self, target: &str) -> Option<(Self, &'a Value)> {
        let (name, place) = target.split_once('#').unwrap_or((target, ""));
        let root = match name {
            "" => self.root,
            name => self.named.iter().find(|(known, _)| *known == name).map(|(_, json)| json)?,
        };
        Some((Self { root, ..self }, root.pointer(place)?))
    }
}

/// The type, and whether it may be null instead.
fn kind(json: &Value) -> Option<(&str, bool)> {
    match json.get("type")? {
        Value::String(kind) => Some((kind, false)),
        Value::Array(kinds) => {
            let mut others = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            let only = others.next()?;
            others.next().is_none().then_some((only, kinds.len() > 1))
        }
        _ => None,
    }
}

/// Of a format that is not Connect's.
fn semantics(format: &str, base: &str) -> Option<&'static str> {
    match (format, base) {
        ("date", "string") => Some(connect::ISO_DATE),
        ("date-time", "string") => Some(connect::ZONED_TIMESTAMP),
        ("uuid", "string") => Some(connect::UUID),
        _ => None,
    }
}

fn text<'a>(json: &'a Value, name: &str) -> Option<&'a str> {
    json.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A field that may be null, as Confluent's converter writes it.
    fn optional(index: u64, mut of: Value) -> Value {
        if let Some(of) = of.as_object_mut() {
            of.retain(|_, value| !value.is_null());
        }
        json!({"connect.index": index, "oneOf": [{"type": "null"}, of]})
    }

    fn described(schema: &Value) -> Value {
        serde_json::to_value(parse(&schema.to_string(), &[]).unwrap()).unwrap()
    }

    #[test]
    fn an_envelope_of_confluent_s_converter_becomes_connect_s_record_schema() {
        let decimal = json!({
            "type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.version": 1, "connect.type": "bytes",
            "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"}
        });
        let micros = json!({"type": "integer", "title": "io.debezium.time.MicroTimestamp", "connect.type": "int64"});
        let days = json!({"type": "integer", "title": "io.debezium.time.Date", "connect.type": "int32"});
        let row = json!({"type": "object", "title": "shop.public.orders.Value", "properties": {
            "amount": optional(2, decimal),
            "at": optional(3, micros),
            "id": {"type": "integer", "connect.index": 0, "connect.type": "int32"},
            "bytes": optional(4, json!({"type": "string", "connect.type": "bytes"})),
            "note": optional(1, json!({"type": "string", "default": "x"})),
            "days": optional(5, json!({"type": "array", "items": {"oneOf": [{"type": "null"}, days]}})),
            "real": optional(6, json!({"type": "number", "connect.type": "float32"})),
            "pairs": optional(7, json!({
                "type": "object", "connect.type": "map", "additionalProperties": {"type": "string"}
            }))
        }});
        let envelope = json!({"type": "object", "title": "shop.public.orders.Envelope", "connect.version": 2, "properties": {
            "op": {"type": "string", "connect.index": 1},
            "after": optional(0, row)
        }});
        let expected = json!({
            "type": "struct", "optional": false, "name": "shop.public.orders.Envelope", "fields": [
                {"type": "struct", "optional": true, "name": "shop.public.orders.Value", "field": "after", "fields": [
                    {"type": "int32", "optional": false, "field": "id"},
                    {"type": "string", "optional": true, "field": "note"},
                    {"type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
                     "parameters": {"scale": "2", "connect.decimal.precision": "12"}, "field": "amount"},
                    {"type": "int64", "optional": true, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
                    {"type": "bytes", "optional": true, "field": "bytes"},
                    {"type": "array", "optional": true, "field": "days",
                     "items": {"type": "int32", "optional": true, "name": "io.debezium.time.Date"}},
                    {"type": "float", "optional": true, "field": "real"},
                    {"type": "map", "optional": true, "field": "pairs", "keys": {"type": "string", "optional": false},
                     "values": {"type": "string", "optional": false}}
                ]},
                {"type": "string", "optional": false, "field": "op"}
            ]
        });
        assert_eq!(described(&envelope), expected);
    }

    #[test]
    fn a_schema_of_another_writer_says_what_it_says() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": ["integer", "null"]},
            "b": {"type": "number"},
            "c": {"type": "string", "format": "date-time"},
            "d": {"type": "string", "format": "date"},
            "e": {"type": "string", "format": "uuid"},
            "f": {"type": "integer", "format": "date"},
            "g": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "h": {"type": "number", "connect.type": "int64"}
        }});
        let found = described(&schema);
        let field = |index: usize| {
            let field = &found["fields"][index];
            (field["type"].as_str().unwrap(), field["name"].as_str(), field["optional"].as_bool().unwrap())
        };
        assert_eq!(field(0), ("int64", None, true));
        assert_eq!(field(1), ("double", None, false));
        assert_eq!(field(2), ("string", Some("io.debezium.time.ZonedTimestamp"), false));
        assert_eq!(field(3), ("string", Some("io.debezium.time.IsoDate"), false));
        assert_eq!(field(4), ("string", Some("io.debezium.data.Uuid"), false));
        assert_eq!(field(5), ("int64", None, false));
        assert_eq!(field(6), ("boolean", None, true));
        assert_eq!(field(7), ("int64", None, false));
    }

    #[test]
    fn what_is_named_is_found_here_or_in_another_document_and_what_is_not_is_left_out() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"$ref": "#/definitions/A"},
                "b": {"$ref": "other.json"},
                "c": {"$ref": "other.json#/$defs/C"},
                "d": {"$ref": "nowhere.json"},
                "e": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
                "f": {"$ref": "#/properties/f"},
                "g": true
            },
            "definitions": {"A": {"type": "boolean"}}
        });
        let other = json!({"type": "string", "$defs": {"C": {"type": "number"}}});
        let found = parse(&schema.to_string(), &[("other.json".into(), other.to_string())]).unwrap();
        let fields: Vec<_> = found.fields.iter().map(|field| (field.field.as_deref().unwrap(), field.base)).collect();
        assert_eq!(fields, [("a", "boolean"), ("b", "string"), ("c", "double")]);
        assert_eq!(parse("{}", &[]).unwrap_err(), "it does not say what it is the schema of");
        assert_eq!(parse("{", &[]).unwrap_err(), "it is no JSON");
    }
}
