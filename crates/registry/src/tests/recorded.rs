//! What Kafka Connect's Avro converter wrote, against what it reads back (`testdata/README.md`).

use std::{collections::HashMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use change::{BatchBuilder, Column, Decoded, Decoder, Horizon, MetaColumns, RecordRef, TableSchema};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{client::Registered, prepared::Prepared};

/// With how many records of each change a row, and how many there are.
const RECORDED: [(&str, &str, (usize, usize)); 3] = [
    ("kinds", include_str!("../../../../testdata/registry/kinds.ndjson"), (10, 12)),
    ("types", include_str!("../../../../testdata/registry/types.ndjson"), (50, 72)),
    ("schema_change", include_str!("../../../../testdata/registry/schema_change.ndjson"), (10, 15)),
];

/// A schema, where it has an id, or a record.
#[derive(Deserialize)]
struct Line<'a> {
    id: Option<u32>,
    #[serde(default)]
    schema: String,
    #[serde(borrow)]
    connect: Option<&'a RawValue>,
    #[serde(default)]
    offset: i64,
    key: Option<String>,
    value: Option<String>,
    #[serde(borrow)]
    key_json: Option<&'a RawValue>,
    #[serde(borrow)]
    value_json: Option<&'a RawValue>,
}

/// A record: its bytes under Avro and what the converter makes of them.
struct Recorded<'a> {
    offset: i64,
    key: Option<Part<'a>>,
    value: Option<Part<'a>>,
}

struct Part<'a> {
    prepared: Arc<Prepared>,
    connect: &'a RawValue,
    bytes: Vec<u8>,
    json: &'a RawValue,
}

impl Part<'_> {
    fn read(&self) -> String {
        let mut json = Vec::new();
        self.prepared.read(&self.bytes, &mut json).unwrap();
        String::from_utf8(json).unwrap()
    }

    /// As the JSON converter writes it with its schema.
    fn enveloped(&self) -> String {
        format!("{{\"schema\":{},\"payload\":{}}}", self.connect, self.json)
    }
}

/// The records of a file, in which each schema stands before its first record.
fn recorded(text: &str) -> Vec<Recorded<'_>> {
    let mut schemas = HashMap::new();
    let mut records = Vec::new();
    for line in text.lines() {
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        if let (Some(id), Some(connect)) = (line.id, line.connect) {
            let registered = Registered {
                id: None,
                version: None,
                schema: line.schema,
                kind: "AVRO".into(),
                references: Vec::new(),
            };
            schemas.insert(id, (Arc::new(Prepared::new(&registered, &[]).unwrap()), connect));
            continue;
        }
        let part = |framed: Option<String>, json| {
            let framed = STANDARD.decode(framed?).unwrap();
            let (head, bytes) = framed.split_first_chunk::<5>().unwrap();
            let id = u32::from_be_bytes(head[1..].try_into().unwrap());
            let (prepared, connect) = schemas[&id].clone();
            Some(Part { prepared, connect, bytes: bytes.to_vec(), json: json? })
        };
        let (key, value) = (part(line.key, line.key_json), part(line.value, line.value_json));
        records.push(Recorded { offset: line.offset, key, value });
    }
    assert!(records.len() > 10);
    records
}

/// The same value. Of a float the JSON converter writes the shortest digits of 32 bits.
fn same(ours: &Value, theirs: &Value, name: &str) -> bool {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            a.keys().eq(b.keys()) && a.iter().zip(b).all(|((name, a), (_, b))| same(a, b, name))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, name)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            #[expect(clippy::cast_possible_truncation, reason = "they are floats")]
            let floats = |a, b| f64::to_bits(f64::from(b as f32)) == f64::to_bits(a);
            a.to_bits() == b.to_bits() || (["single", "c_real"].contains(&name) && floats(a, b))
        }
        (a, b) => a == b,
    }
}

/// Without what decides nothing.
fn bare(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(object) => {
            if object.contains_key("optional") {
                for name in ["version", "doc", "default"] {
                    object.remove(name);
                }
            }
            object.values_mut().for_each(|value| *value = bare(value.take()));
        }
        Value::Array(array) => array.iter_mut().for_each(|value| *value = bare(value.take())),
        _ => {}
    }
    schema
}

#[test]
fn a_message_and_its_schema_are_what_the_json_converter_makes_of_them() {
    for (name, text, _) in RECORDED {
        for Recorded { offset, key, value } in recorded(text) {
            for part in [key, value].into_iter().flatten() {
                let ours: Value = serde_json::from_str(&part.read()).unwrap();
                let theirs: Value = serde_json::from_str(part.json.get()).unwrap();
                assert!(same(&ours, &theirs, ""), "{name} {offset}:\n{ours}\n{theirs}");
                let ours: Value = serde_json::from_str(part.prepared.record_schema()).unwrap();
                let theirs = bare(serde_json::from_str(part.connect.get()).unwrap());
                assert_eq!(ours, theirs, "{name} {offset}");
            }
        }
    }
}

/// A record for the decoder.
struct Message {
    offset: i64,
    key: String,
    value: Option<String>,
    record_schema: Option<Arc<str>>,
}

/// Decodes messages under the columns that they bring along; gives the last columns, and each outcome with its row.
fn decoded(messages: &[Message]) -> (Arc<TableSchema>, Vec<String>) {
    let id = Column::declared("id", "long").unwrap();
    let schema = TableSchema::new(vec![id], &["id"], MetaColumns::default()).unwrap().growing();
    let mut decoder = Decoder::new(Arc::new(schema));
    let mut horizon = Horizon::default();
    let mut outcomes = Vec::new();
    for Message { offset, key, value, record_schema } in messages {
        let (key, value) = (Some(key.as_bytes()), value.as_ref().map(String::as_bytes));
        let record = RecordRef { partition: 0, offset: *offset, key, value, timestamp: None, old_key: None };
        let mut decode = |decoder: &mut Decoder| {
            let mut batch = BatchBuilder::new(Arc::clone(decoder.schema()));
            let outcome = match record_schema {
                Some(schema) => decoder.decode_described(record, schema, &mut horizon, &mut batch),
                None => decoder.decode(record, &mut horizon, &mut batch),
            };
            (outcome, batch.finish().unwrap())
        };
        let (mut outcome, mut batch) = decode(&mut decoder);
        if let Ok(Decoded::Grown(schema)) = outcome {
            decoder = Decoder::new(schema);
            (outcome, batch) = decode(&mut decoder);
        }
        outcomes.push(format!("{outcome:?} {:?} {:?}", batch.rows, batch.unchanged));
    }
    (Arc::clone(decoder.schema()), outcomes)
}

#[test]
fn a_table_gets_the_same_rows_and_columns_from_avro_and_from_json_with_schemas() {
    for (name, text, counts) in RECORDED {
        let records = recorded(text);
        // the capture of the schema changes has keys without a schema, which were left out
        let key = |part: Option<String>| part.unwrap_or_else(|| r#"{"id":1}"#.to_owned());
        let avro = records.iter().map(|Recorded { offset, key: id, value }| Message {
            offset: *offset,
            key: key(id.as_ref().map(Part::read)),
            value: value.as_ref().map(Part::read),
            record_schema: value.as_ref().map(|value| Arc::clone(value.prepared.record_schema())),
        });
        let json = records.iter().map(|Recorded { offset, key: id, value }| Message {
            offset: *offset,
            key: key(id.as_ref().map(Part::enveloped)),
            value: value.as_ref().map(Part::enveloped),
            record_schema: None,
        });
        let (ours, theirs) = (decoded(&avro.collect::<Vec<_>>()), decoded(&json.collect::<Vec<_>>()));
        assert_eq!(ours.0, theirs.0, "{name}");
        assert!(ours.0.columns().len() > 4, "{name}: {:?}", ours.0.columns());
        for ((ours, theirs), record) in ours.1.iter().zip(&theirs.1).zip(&records) {
            assert_eq!(ours, theirs, "{name} {}", record.offset);
        }
        // the rest are tombstones, and values that no table can hold
        let changes = ours.1.iter().filter(|outcome| outcome.starts_with("Ok(Change")).count();
        assert_eq!((changes, records.len()), counts, "{name}");
    }
}
