//! Hand-made schemas and bytes: the edges. What a real converter writes is in `crate::tests::recorded`.

use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use super::*;
use crate::connect::Schema;

fn parsed(schema: &Value) -> (Type, Schema) {
    parse(&schema.to_string(), &[]).unwrap()
}

fn refused(schema: &Value) -> String {
    parse(&schema.to_string(), &[]).unwrap_err()
}

fn read(of: &Type, bytes: &[u8]) -> Result<Value, Broken> {
    let mut json = Vec::new();
    to_json(of, bytes, &mut json)?;
    Ok(serde_json::from_slice(&json).unwrap())
}

/// A record of one field `a`.
fn record_of(of: &Value) -> Value {
    json!({"type": "record", "name": "r", "fields": [{"name": "a", "type": of}]})
}

/// The record schema of a field.
fn described(of: &Value) -> Value {
    let (_, schema) = parsed(&record_of(of));
    let mut field = serde_json::to_value(&schema.fields[0]).unwrap();
    field.as_object_mut().unwrap().remove("field");
    field
}

#[test]
fn a_type_without_a_name_of_connect_means_what_its_logical_type_says() {
    let named = |base: &str, logical: &str| described(&json!({"type": base, "logicalType": logical}));
    let cases = [
        ("int", "date", "int32", "org.apache.kafka.connect.data.Date"),
        ("int", "time-millis", "int32", "org.apache.kafka.connect.data.Time"),
        ("long", "time-micros", "int64", "io.debezium.time.MicroTime"),
        ("long", "timestamp-millis", "int64", "org.apache.kafka.connect.data.Timestamp"),
        ("long", "local-timestamp-millis", "int64", "org.apache.kafka.connect.data.Timestamp"),
        ("long", "timestamp-micros", "int64", "io.debezium.time.MicroTimestamp"),
        ("long", "local-timestamp-micros", "int64", "io.debezium.time.MicroTimestamp"),
        ("long", "timestamp-nanos", "int64", "io.debezium.time.NanoTimestamp"),
        ("string", "uuid", "string", "io.debezium.data.Uuid"),
    ];
    for (base, logical, connect, name) in cases {
        assert_eq!(named(base, logical), json!({"type": connect, "optional": false, "name": name}), "{logical}");
    }
    for (base, logical) in [("string", "date"), ("int", "timestamp-millis"), ("long", "unheard-of")] {
        assert_eq!(named(base, logical).get("name"), None, "{logical} on {base}");
    }
    let debezium =
        json!({"type": "long", "logicalType": "timestamp-millis", "connect.name": "io.debezium.time.Timestamp"});
    assert_eq!(described(&debezium)["name"], "io.debezium.time.Timestamp");
}

#[test]
fn a_decimal_has_the_scale_and_the_precision_that_its_writer_knows() {
    let decimal = |more: Value| {
        let mut of = json!({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 3});
        of.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        described(&of)["parameters"].clone()
    };
    assert_eq!(decimal(json!({})), json!({"scale": "3", "connect.decimal.precision": "64"}));
    let of_connect = json!({"connect.name": "org.apache.kafka.connect.data.Decimal"});
    assert_eq!(decimal(of_connect), json!({"scale": "3"}), "the converter writes 64 where it knows no precision");
    let with_parameters = json!({
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "9"}
    });
    assert_eq!(decimal(with_parameters), json!({"scale": "2", "connect.decimal.precision": "9"}));
    let fixed = json!({"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9});
    let expected = json!({"scale": "0", "connect.decimal.precision": "9"});
    assert_eq!(described(&fixed)["parameters"], expected);
}

#[test]
fn names_are_found_by_the_rules_of_namespaces_in_other_documents_too() {
    let inner = json!({"type": "fixed", "name": "other.space.Two", "size": 2});
    let outer = json!({
        "type": "record", "name": "Outer", "namespace": "one.space", "fields": [
            {"name": "a", "type": {"type": "enum", "name": "Mood", "symbols": ["sad", "o\"k"]}},
            {"name": "b", "type": ["null", "Mood"]},
            {"name": "c", "type": "one.space.Mood"},
            {"name": "d", "type": {"type": "record", "name": "deep.Inner", "fields": [
                {"name": "e", "type": "other.space.Two"},
                {"name": "f", "type": ["string"]}
            ]}},
            {"name": "g", "type": "deep.Inner"}
        ]
    });
    let (of, schema) = parse(&outer.to_string(), &[inner.to_string()]).unwrap();
    let deep = [1, 2, 0, 2, b'x'];
    let bytes = [&[2, 2, 0, 2][..], &deep, &deep].concat();
    let deep = json!({"e": "AQI=", "f": "x"});
    assert_eq!(read(&of, &bytes), Ok(json!({"a": "o\"k", "b": "sad", "c": "o\"k", "d": deep, "g": deep})));
    assert_eq!(schema.fields[3].name.as_deref(), Some("deep.Inner"));
    assert!(schema.fields[1].optional && !schema.fields[2].optional);
}

#[test]
fn collections_come_in_blocks_with_and_without_their_sizes() {
    let (of, _) = parsed(&record_of(&json!({"type": "array", "items": "int"})));
    let expected = Ok(json!({"a": [1, -1, 2]}));
    assert_eq!(read(&of, &[6, 2, 1, 4, 0]), expected);
    assert_eq!(read(&of, &[2, 2, 3, 4, 1, 4, 0]), expected);
    assert_eq!(read(&of, &[0]), Ok(json!({"a": []})));
    let (of, _) = parsed(&record_of(&json!({"type": "map", "values": ["null", "boolean"]})));
    assert_eq!(read(&of, &[4, 2, b'x', 2, 1, 2, b'y', 0, 0]), Ok(json!({"a": {"x": true, "y": null}})));
}

#[test]
fn numbers_are_exact_at_their_edges() {
    let (of, _) = parsed(&json!("long"));
    let most = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
    assert_eq!(read(&of, &most), Ok(json!(i64::MIN)));
    assert_eq!(read(&of, &[&[0xFE][..], &most[1..]].concat()), Ok(json!(i64::MAX)));
    let broken = |what| Err(Broken::from(what));
    assert_eq!(read(&of, &[&most[..9], &[2]].concat()), broken("an integer has more than 64 bits"));
    assert_eq!(read(&of, &[0x80; 11]), broken("an integer has more than 64 bits"));
    let (of, _) = parsed(&json!("int"));
    assert_eq!(read(&of, &[0xFF, 0xFF, 0xFF, 0xFF, 0x0F]), Ok(json!(i32::MIN)));
    assert_eq!(read(&of, &[0x80, 0x80, 0x80, 0x80, 0x10]), broken("an int has more than 32 bits"));
}

#[test]
fn broken_bytes_are_refused_by_the_name_of_their_field() {
    let cases: [(Value, &[u8], &str); 12] = [
        (json!("string"), &[6, b'a'], "the bytes end before the record does"),
        (json!("string"), &[1], "a length is negative"),
        (json!("string"), &[2, 0xFF], "a string is not UTF-8"),
        (json!("bytes"), &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F], "the bytes end before the record does"),
        (json!("boolean"), &[2], "a boolean is neither 0 nor 1"),
        (json!("double"), &[0; 7], "the bytes end before the record does"),
        (json!(["null", "int"]), &[4, 0], "a union's index has no branch"),
        (json!(["null", "int"]), &[1, 0], "a union's index has no branch"),
        (json!({"type": "enum", "name": "e", "symbols": ["x"]}), &[2], "an enum's index has no symbol"),
        (json!({"type": "fixed", "name": "f", "size": 3}), &[0, 0], "the bytes end before the record does"),
        (
            json!({"type": "array", "items": "int"}),
            &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 0],
            "the bytes end before the record does",
        ),
        (
            json!({"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}),
            &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            "an element takes no bytes",
        ),
    ];
    for (of, bytes, what) in cases {
        let (outer, _) = parsed(&record_of(&of));
        assert_eq!(read(&outer, bytes), Err(Broken { field: Some("a".into()), what }), "{of}");
    }
    let (of, _) = parsed(&record_of(&json!("boolean")));
    let broken = Broken { field: None, what: "bytes are left over after the record" };
    assert_eq!(read(&of, &[1, 0]), Err(broken));
}

#[test]
fn a_schema_that_cannot_be_used_says_why() {
    let inner = json!({"type": "record", "name": "deep", "fields": [{"name": "b", "type": ["int", "string"]}]});
    let itself = json!({"type": "record", "name": "n.r", "fields": [{"name": "a", "type": ["null", "r"]}]});
    let mut deep = json!("int");
    for _ in 0..DEEP {
        deep = json!({"type": "array", "items": deep});
    }
    let cases = [
        (json!(7), "a type is neither a name, a list nor an object"),
        (json!("text"), "type `text` is not defined"),
        (json!({}), "a type has no `type`"),
        (json!({"type": "record", "name": "r"}), "a type has no `fields`"),
        (json!({"type": "record", "fields": []}), "a type has no `name`"),
        (json!({"type": "fixed", "name": "f", "size": -1}), "a fixed type's size is no number"),
        (record_of(&json!("null")), "field `a`: a type is null and nothing else"),
        (record_of(&json!(["null"])), "field `a`: a union has no type beside null"),
        (record_of(&inner), "field `b`: a union has more than one type beside null"),
        (itself, "field `a`: type `n.r` contains itself"),
        (deep, "it is more than 64 types deep"),
    ];
    for (schema, why) in cases {
        assert_eq!(refused(&schema), why);
    }
    assert_eq!(parse("{", &[]).unwrap_err(), "it is no JSON");
}

const DEEP: usize = 64;

#[test]
fn a_schema_that_names_itself_larger_and_larger_is_refused_before_it_is() {
    // each record holds the one before it ten times
    let mut fields = vec![json!({"name": "r0", "type": {"type": "record", "name": "r0", "fields": []}})];
    for level in 1..12 {
        let inner: Vec<_> =
            (0..10).map(|n| json!({"name": format!("f{n}"), "type": format!("r{}", level - 1)})).collect();
        let of = json!({"type": "record", "name": format!("r{level}"), "fields": inner});
        fields.push(json!({"name": format!("r{level}"), "type": of}));
    }
    let schema = json!({"type": "record", "name": "all", "fields": fields});
    assert!(refused(&schema).ends_with("it has more than 100000 types"));
}

/// Every kind of type.
fn everything() -> Type {
    let fields = json!([
        {"name": "boolean", "type": "boolean"},
        {"name": "int", "type": ["null", "int"]},
        {"name": "long", "type": "long"},
        {"name": "float", "type": ["float", "null"]},
        {"name": "double", "type": "double"},
        {"name": "bytes", "type": ["null", "bytes"]},
        {"name": "string", "type": "string"},
        {"name": "fixed", "type": {"type": "fixed", "name": "f", "size": 3}},
        {"name": "enum", "type": {"type": "enum", "name": "e", "symbols": ["x", "y"]}},
        {"name": "array", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "f"}}},
        {"name": "empty", "type": {"type": "array", "items": {"type": "record", "name": "empty", "fields": []}}}
    ]);
    parsed(&json!({"type": "record", "name": "everything", "fields": fields})).0
}

/// Some values of the types of [`everything`], in its order.
type Row = (bool, Option<i32>, i64, Option<f32>, f64, Option<Vec<u8>>, String, [u8; 3], bool, Vec<Option<String>>);

fn encoded(row: &Row) -> Vec<u8> {
    let long = |value: i64| {
        let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
        let mut bytes = Vec::new();
        while bits > 0x7F {
            bytes.push(u8::try_from(bits & 0x7F).unwrap() | 0x80);
            bits >>= 7;
        }
        bytes.push(u8::try_from(bits).unwrap());
        bytes
    };
    let counted = |bytes: &[u8]| [long(i64::try_from(bytes.len()).unwrap()), bytes.to_vec()].concat();
    let (boolean, int, number, float, double, bytes, string, fixed, symbol, array) = row;
    let mut all = vec![u8::from(*boolean)];
    all.extend(int.map_or(vec![0], |int| [vec![2], long(int.into())].concat()));
    all.extend(long(*number));
    all.extend(float.map_or(vec![2], |float| [vec![0], float.to_le_bytes().to_vec()].concat()));
    all.extend(double.to_le_bytes());
    all.extend(bytes.as_ref().map_or(vec![0], |bytes| [vec![2], counted(bytes)].concat()));
    all.extend(counted(string.as_bytes()));
    all.extend(fixed);
    all.push(u8::from(*symbol) * 2);
    if !array.is_empty() {
        all.extend(long(i64::try_from(array.len()).unwrap()));
    }
    for item in array {
        all.extend(item.as_ref().map_or(vec![0], |item| [vec![2], counted(item.as_bytes())].concat()));
    }
    // the array's end, an empty map, and an empty array
    all.extend([0, 0, 0]);
    all
}

fn real(value: f64, json: &Value) -> bool {
    match json.as_str() {
        Some("NaN") => value.is_nan(),
        Some("Infinity") => value == f64::INFINITY,
        Some("-Infinity") => value == f64::NEG_INFINITY,
        _ => json.as_f64().map(f64::to_bits) == Some(value.to_bits()),
    }
}

proptest! {
    #[test]
    fn every_value_arrives_as_it_was(row: Row) {
        let json = read(&everything(), &encoded(&row)).unwrap();
        let (boolean, int, number, float, double, bytes, string, fixed, symbol, array) = &row;
        prop_assert_eq!(&json["boolean"], &json!(boolean));
        prop_assert_eq!(&json["int"], &json!(int));
        prop_assert_eq!(&json["long"], &json!(number));
        prop_assert!(float.map_or(json["float"].is_null(), |float| real(float.into(), &json["float"])));
        prop_assert!(real(*double, &json["double"]));
        let base64 = |bytes: &[u8]| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
        prop_assert_eq!(&json["bytes"], &json!(bytes.as_ref().map(|bytes| base64(bytes))));
        prop_assert_eq!(&json["string"], &json!(string));
        prop_assert_eq!(&json["fixed"], &json!(base64(fixed)));
        prop_assert_eq!(&json["enum"], &json!(if *symbol { "y" } else { "x" }));
        prop_assert_eq!(&json["array"], &json!(array));
    }

    /// The text is at most some times as long as the bytes: a byte makes a null, or a character's escape.
    #[test]
    fn whatever_bytes_are_read_or_refused_and_never_make_a_long_text(bytes in vec(any::<u8>(), 0..400), row: Row, at: usize, byte: u8) {
        let of = everything();
        let mut json = Vec::new();
        _ = to_json(&of, &bytes, &mut json);
        prop_assert!(json.len() <= 300 + 8 * bytes.len());
        // and bytes that are nearly right
        let mut encoded = encoded(&row);
        let at = at % encoded.len();
        encoded[at] = byte;
        json.clear();
        _ = to_json(&of, &encoded, &mut json);
        prop_assert!(json.len() <= 300 + 25 * encoded.len());
        json.clear();
        prop_assert!(to_json(&of, &encoded[..at], &mut json).is_err());
    }

    #[test]
    fn whatever_text_is_a_schema_or_is_refused(text in "\\PC*", name in "[a-z.]{0,4}", size: u64) {
        _ = parse(&text, &[]);
        let schema = json!({"type": "record", "name": name, "fields": [
            {"name": "a", "type": {"type": "fixed", "name": "f", "size": size}}, {"name": "b", "type": text}
        ]});
        _ = parse(&schema.to_string(), &[]);
    }
}
