use arrow::{array::AsArray, datatypes::Int64Type, util::pretty::pretty_format_batches};

use super::*;
use crate::{ChangeBatch, Column, Lsn, MetaColumns, Placeholder, SchemaError, Unfit};

fn schema(columns: &[(&str, &str)], key: &[&str]) -> Arc<TableSchema> {
    let columns = columns.iter().map(|(name, declaration)| Column::declared(name, declaration).unwrap()).collect();
    Arc::new(TableSchema::new(columns, key, MetaColumns::default()).unwrap())
}

fn orders() -> Arc<TableSchema> {
    schema(&[("order_id", "long"), ("status", "string"), ("amount", "decimal(10,2)")], &["order_id"])
}

/// Decodes one record of the orders table, and hands back what it left in the batch.
fn decode(key: Option<&str>, value: Option<&str>) -> (Result<Decoded, Malformed>, ChangeBatch) {
    let mut batch = BatchBuilder::new(orders());
    let record = RecordRef {
        partition: 0,
        offset: 7,
        key: key.map(str::as_bytes),
        value: value.map(str::as_bytes),
        timestamp: None,
        old_key: None,
    };
    let decoded = Decoder::new(orders()).decode(record, &mut Horizon::default(), &mut batch);
    (decoded, batch.finish().unwrap())
}

/// What one JSON value becomes in a column `c` with this declaration.
pub(super) fn one_value(declaration: &str, token: &str, placeholder: Placeholder) -> Result<ChangeBatch, Malformed> {
    let schema = schema(&[("id", "long"), ("c", declaration)], &["id"]);
    let schema = Arc::new(TableSchema::clone(&schema).with_placeholder(placeholder));
    one_change(&schema, "u", r#"{"id":1}"#, &format!(r#"{{"id":1,"c":{token}}}"#))
}

/// The batch of one change event.
pub(super) fn one_change(
    schema: &Arc<TableSchema>,
    op: &str,
    key: &str,
    after: &str,
) -> Result<ChangeBatch, Malformed> {
    let value = format!(r#"{{"op":"{op}","after":{after},"source":{{"lsn":8}}}}"#);
    let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
    let mut batch = BatchBuilder::new(Arc::clone(schema));
    let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
    Decoder::new(Arc::clone(schema)).decode(record, &mut Horizon::default(), &mut batch)?;
    Ok(batch.finish().unwrap())
}

/// The names and the values of a batch's one row, without what Highwater adds.
pub(super) fn shown(batch: &ChangeBatch) -> (Vec<String>, Vec<String>) {
    let fields = batch.rows.schema();
    let names = fields.fields().iter().map(|field| field.name().clone());
    let options = arrow::util::display::FormatOptions::default().with_null("null");
    let text = |column| arrow::util::display::ArrayFormatter::try_new(column, &options).unwrap().value(0).to_string();
    let width = batch.rows.num_columns() - 3;
    (names.take(width).collect(), batch.rows.columns()[..width].iter().map(|column| text(column)).collect())
}

const KEY: Option<&str> = Some(r#"{"order_id":1}"#);
const ROW: &str = r#"{"order_id":1,"status":"paid","amount":"25.00"}"#;

fn order(anchor: u64, lsn: u64) -> Order {
    Order { anchor: Lsn::try_from(anchor).unwrap(), lsn: Lsn::try_from(lsn).unwrap() }
}

#[test]
fn a_row_change_becomes_one_row_of_exact_values() {
    let value = format!(
        r#"{{"before":null,"after":{ROW},"source":{{"lsn":120,"sequence":"[\"110\",\"120\"]","snapshot":null}},"op":"u"}}"#
    );
    let (decoded, batch) = decode(KEY, Some(&value));
    assert_eq!(decoded, Ok(Decoded::Change(Op::Update, order(110, 120))));
    let expected = "\
+----------+--------+--------+------------+---------------+------------+
| order_id | status | amount | source_lsn | source_anchor | is_deleted |
+----------+--------+--------+------------+---------------+------------+
| 1        | paid   | 25.00  | 120        | 110           | false      |
+----------+--------+--------+------------+---------------+------------+";
    assert_eq!(pretty_format_batches(&[batch.rows]).unwrap().to_string(), expected);
    assert_eq!((batch.partitions[0], batch.offsets[0]), (0, 7));
}

#[test]
fn of_a_delete_only_the_record_key_is_read() {
    let value =
        r#"{"op":"d","before":{"order_id":0,"status":"invented","amount":"AA=="},"after":null,"source":{"lsn":160}}"#;
    let (decoded, batch) = decode(KEY, Some(value));
    assert_eq!(decoded, Ok(Decoded::Change(Op::Delete, order(160, 160))));
    assert_eq!(batch.rows.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 1);
    assert!(batch.rows.column(1).is_null(0) && batch.rows.column(2).is_null(0));
    assert!(batch.rows.column(5).as_boolean().value(0));
}

#[test]
fn records_that_change_no_row_are_told_by_their_shape() {
    let table = [
        (KEY, None, NoChange::Tombstone),
        (None, None, NoChange::Tombstone),
        (KEY, Some("null"), NoChange::Tombstone),
        (KEY, Some(r#"{"schema":null,"payload":null}"#), NoChange::Tombstone),
        (Some(r#"{"serverName":"shop"}"#), Some(r#"{"ts_ms":1796027027296}"#), NoChange::Heartbeat),
        (None, Some(r#"{"status":"BEGIN","id":"571:53195829","ts_ms":1486500577125}"#), NoChange::TransactionMarker),
        (
            None,
            Some(r#"{"op":"m","source":{"lsn":1,"table":""},"message":{"prefix":"p","content":"aGk="}}"#),
            NoChange::LogicalMessage,
        ),
    ];
    for (key, value, expected) in table {
        let (decoded, batch) = decode(key, value);
        assert_eq!(decoded, Ok(Decoded::NoChange(expected)), "{value:?}");
        assert_eq!(batch.rows.num_rows(), 0);
    }
}

#[test]
fn a_truncate_ends_the_batch() {
    let (decoded, batch) =
        decode(None, Some(r#"{"op":"t","before":null,"after":null,"source":{"lsn":90,"sequence":"[\"80\",\"90\"]"}}"#));
    assert_eq!(decoded, Ok(Decoded::Truncate(order(80, 90))));
    assert_eq!(batch.truncate, Some(order(80, 90)));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn bad_records_are_named_without_their_values_and_leave_no_row() {
    let envelope = |after: &str| format!(r#"{{"op":"c","after":{after},"source":{{"lsn":1}}}}"#);
    let table: &[(Option<&str>, String, &str)] = &[
        (KEY, r#"{"op":"#.into(), "the value is not valid JSON (byte 6)"),
        (KEY, String::new(), "the value is not valid JSON (byte 0)"),
        (KEY, "{} trailing".into(), "the value is not valid JSON (byte 4)"),
        (KEY, "[1,2]".into(), "not a Debezium envelope: the value is not an object"),
        (KEY, "42".into(), "not a Debezium envelope: the value is not an object"),
        (KEY, "{}".into(), "not a Debezium envelope: it has no op"),
        (KEY, r#"{"ddl":"SECRET","source":{}}"#.into(), "not a Debezium envelope: it has no op"),
        (KEY, r#"{"op":"x","source":{"lsn":1}}"#.into(), "unknown op: expected one of r, c, u, d, t, m"),
        (KEY, r#"{"op":7}"#.into(), "unknown op: expected one of r, c, u, d, t, m"),
        (KEY, format!(r#"{{"op":"c","after":{ROW}}}"#), "not a Debezium envelope: it has no source block"),
        (
            KEY,
            format!(r#"{{"op":"c","after":{ROW},"source":"SECRET"}}"#),
            "not a Debezium envelope: its source block is not an object",
        ),
        (
            KEY,
            format!(r#"{{"op":"c","after":{ROW},"source":{{}}}}"#),
            "the source block names no LSN to order the event by",
        ),
        (
            KEY,
            format!(r#"{{"op":"c","after":{ROW},"source":{{"lsn":"SECRET"}}}}"#),
            "the source block has an unreadable lsn",
        ),
        (KEY, format!(r#"{{"op":"c","after":{ROW},"source":{{"lsn":-1}}}}"#), "the source block has an unreadable lsn"),
        (
            KEY,
            format!(r#"{{"op":"c","after":{ROW},"source":{{"lsn":1,"sequence":"[SECRET]"}}}}"#),
            "the source block has an unreadable sequence",
        ),
        (KEY, envelope("null"), "not a Debezium envelope: it has no row in after"),
        (KEY, envelope("7"), "not a Debezium envelope: the value is not an object"),
        (None, envelope(ROW), "the record has no key; set a primary key or message.key.columns"),
        (Some("null"), envelope(ROW), "the record has no key; set a primary key or message.key.columns"),
        (
            KEY,
            envelope(r#"{"order_id":1,"status":"SECRET","amount":"1.00","extra":"SECRET"}"#),
            "column `extra`: not configured for this table; add it under [table.columns], or leave it out with exclude_columns",
        ),
        (
            KEY,
            envelope(r#"{"order_id":1,"status":"SECRET"}"#),
            "column `amount`: missing in the event; drop it from [table.columns] or check the connector's column filters",
        ),
        (
            KEY,
            envelope(r#"{"order_id":1,"order_id":2,"status":"a","amount":"1.00"}"#),
            "column `order_id`: stands twice in the row",
        ),
        (
            KEY,
            envelope(r#"{"order_id":"SECRET","status":"a","amount":"1.00"}"#),
            "column `order_id`: expected an integer of 64 bits, found a string",
        ),
        (
            KEY,
            envelope(r#"{"order_id":1.5,"status":"a","amount":"1.00"}"#),
            "column `order_id`: expected an integer of 64 bits, found a number that is no integer of 64 bits",
        ),
        (
            KEY,
            envelope(r#"{"order_id":9223372036854775808,"status":"a","amount":"1.00"}"#),
            "column `order_id`: expected an integer of 64 bits, found a number that is no integer of 64 bits",
        ),
        (
            KEY,
            envelope(r#"{"order_id":1,"status":{"SECRET":1},"amount":"1.00"}"#),
            "column `status`: expected a string, found an object",
        ),
        (
            KEY,
            envelope(r#"{"order_id":1,"status":"a","amount":"1.005"}"#),
            r#"column `amount`: has more digits after the point than the column; unfit = "null" or "raw" keeps such rows"#,
        ),
        (
            KEY,
            r#"{"op":"d","before":null,"after":{"order_id":1},"source":{"lsn":1}}"#.into(),
            "not a Debezium envelope: a delete has a row in after",
        ),
        (
            Some(r#"{"id":1}"#),
            r#"{"op":"d","after":null,"source":{"lsn":1}}"#.into(),
            "column `order_id`: the record key lacks this key column",
        ),
        (Some("{"), r#"{"op":"d","after":null,"source":{"lsn":1}}"#.into(), "the key is not valid JSON (byte 1)"),
        (
            Some("7"),
            r#"{"op":"d","after":null,"source":{"lsn":1}}"#.into(),
            "not a Debezium envelope: the record key is not an object",
        ),
    ];
    for (key, value, expected) in table {
        let (decoded, batch) = decode(*key, Some(value));
        let message = decoded.expect_err(value).to_string();
        assert_eq!(message, *expected, "{value}");
        assert!(!message.contains("SECRET"), "{message}");
        assert_eq!(batch.rows.num_rows(), 0, "{value}");
    }
    let (decoded, _) = decode(KEY, Some("{\"op\":\"\u{0}\"}"));
    assert!(decoded.is_err());
    let mut batch = BatchBuilder::new(orders());
    let record = RecordRef {
        partition: 0,
        offset: 0,
        key: None,
        value: Some(b"{\"op\":\"\xff\"}"),
        timestamp: None,
        old_key: None,
    };
    let decoded = Decoder::new(orders()).decode(record, &mut Horizon::default(), &mut batch);
    assert_eq!(decoded, Err(Problem::NotJson { part: "value", byte: 7 }.into()));
}

#[test]
fn a_record_schema_decides_the_units() {
    let schema = schema(&[("id", "long"), ("at", "timestamp_ntz"), ("amount", "decimal(12,0)")], &["id"]);
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut batch = BatchBuilder::new(schema);
    let record = |name: &str, at: &str| {
        format!(
            r#"{{"schema":{{"type":"struct","fields":[{{"type":"struct","field":"after","fields":[
            {{"type":"int64","field":"id"}},{{"type":"int64","name":"{name}","field":"at"}},
            {{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{{"scale":"0"}},"field":"amount"}}]}}]}},
            "payload":{{"op":"c","after":{{"id":1,"at":{at},"amount":"1234"}},"source":{{"lsn":8}}}}}}"#
        )
    };
    for (name, at) in [
        ("io.debezium.time.Timestamp", "1709210096789"),
        ("io.debezium.time.MicroTimestamp", "1709210096789000"),
        ("io.debezium.time.NanoTimestamp", "1709210096789000000"),
        ("org.apache.kafka.connect.data.Timestamp", "1709210096789"),
    ] {
        let value = record(name, at);
        let key = br#"{"schema":{"type":"struct"},"payload":{"id":1}}"#;
        let record = RecordRef {
            partition: 0,
            offset: 0,
            key: Some(key),
            value: Some(value.as_bytes()),
            timestamp: None,
            old_key: None,
        };
        decoder.decode(record, &mut Horizon::default(), &mut batch).unwrap();
    }
    let rows = batch.finish().unwrap().rows;
    let at = rows.column(1).as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
    assert!(at.values().iter().all(|&micros| micros == 1_709_210_096_789_000), "{at:?}");
}

#[test]
fn a_decimal_is_read_at_the_scale_that_its_record_has() {
    let columns = [("id", "long"), ("d", "decimal(12,4)"), ("n", "numeric"), ("a", "array<decimal(12,4)>@base64")];
    let columns = columns.map(|(name, declared)| Column::declared(name, declared).unwrap());
    let schema = Arc::new(TableSchema::new(columns.to_vec(), &["id"], MetaColumns::default()).unwrap().growing());
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut decode = |scale: u8, value: &str| {
        let decimal = format!(
            r#""type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{{"scale":"{scale}","connect.decimal.precision":"9"}}"#
        );
        let value = format!(
            r#"{{"schema":{{"type":"struct","fields":[{{"type":"struct","field":"after","fields":[
            {{"type":"int64","field":"id"}},{{{decimal},"field":"d"}},{{{decimal},"field":"n"}},
            {{"type":"array","items":{{{decimal}}},"field":"a"}}]}}]}},
            "payload":{{"op":"c","after":{{"id":1,"d":"{value}","n":"{value}","a":["{value}"]}},"source":{{"lsn":8}}}}}}"#
        );
        let mut batch = BatchBuilder::new(Arc::clone(&schema));
        let record = RecordRef {
            partition: 0,
            offset: 0,
            key: Some(br#"{"id":1}"#),
            value: Some(value.as_bytes()),
            timestamp: None,
            old_key: None,
        };
        decoder.decode(record, &mut Horizon::default(), &mut batch)?;
        let rows = batch.finish().unwrap().rows;
        let decimals =
            |array: &dyn arrow::array::Array| array.as_primitive::<arrow::datatypes::Decimal128Type>().value(0);
        Ok((
            decimals(rows.column(1)),
            rows.column(2).as_string::<i32>().value(0).to_owned(),
            decimals(rows.column(3).as_list::<i32>().values()),
        ))
    };
    assert_eq!(decode(4, "ZA=="), Ok((100, "0.0100".to_owned(), 100)));
    assert_eq!(decode(2, "ZA=="), Ok((10_000, "1.00".to_owned(), 10_000)));
    assert_eq!(decode(0, "1234"), Ok((-26_588_240_000, "-2658824".to_owned(), -26_588_240_000)));
    let finer: Result<_, Malformed> = decode(5, "ZQ==");
    assert_eq!(finer, Err(Problem::Unfit("has more digits after the point than the column").at("d")));
}

#[test]
fn every_form_of_an_unchanged_value_is_told_from_a_value() {
    let bytes: Vec<String> = "__debezium_unavailable_value".bytes().map(|byte| byte.to_string()).collect();
    let integers = format!("[{}]", bytes.join(","));
    let hex = "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565";
    let unchanged = [
        ("string", r#""__debezium_unavailable_value""#.to_owned()),
        ("json", r#""__debezium_unavailable_value""#.to_owned()),
        ("binary", r#""X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==""#.to_owned()),
        ("binary@hex", format!("\"{hex}\"")),
        ("array<string>", r#"["__debezium_unavailable_value"]"#.to_owned()),
        ("array<int>", integers.clone()),
        ("array<long>", integers.clone()),
        ("hstore", r#""{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}""#.to_owned()),
        ("hstore", r#"{"__debezium_unavailable_value":"__debezium_unavailable_value"}"#.to_owned()),
    ];
    let values = [
        ("string", r#""__debezium_unavailable_value.""#.to_owned()),
        ("string", format!("\"{hex}\"")),
        ("json", r#""\"__debezium_unavailable_value\"""#.to_owned()),
        ("array<string>", r#"["__debezium_unavailable_value","x"]"#.to_owned()),
        ("array<string>", "[null]".to_owned()),
        ("array<string>", "[]".to_owned()),
        ("array<int>", integers.replacen("95", "96", 1)),
        ("array<int>", "[]".to_owned()),
        ("hstore", r#"{"__debezium_unavailable_value":"x"}"#.to_owned()),
        ("hstore", "{}".to_owned()),
    ];
    let decode = |declaration: &str, token: &str, placeholder: Placeholder| {
        one_value(declaration, token, placeholder).unwrap().has_unchanged()
    };
    for (declaration, token) in &unchanged {
        assert!(decode(declaration, token, Placeholder::default()), "{declaration} {token}");
        let other: Placeholder = "hex:ff".parse().unwrap();
        assert!(!decode(declaration, token, other), "{declaration} {token}");
    }
    for (declaration, token) in &values {
        assert!(!decode(declaration, token, Placeholder::default()), "{declaration} {token}");
    }
    assert!(decode("string", "\"gone\"", "gone".parse().unwrap()));
    assert!(decode("binary@hex", "\"00ff\"", "hex:00ff".parse().unwrap()));
    assert!(decode("array<int>", "[0,255]", "hex:00FF".parse().unwrap()));
    for bad in ["", "hex:", "hex:0", "hex:zz"] {
        assert!(bad.parse::<Placeholder>().is_err(), "{bad}");
    }
}

#[test]
fn unchanged_toasted_values_are_marked_and_never_stored() {
    let unchanged = r#"{"op":"u","after":{"order_id":1,"status":"__debezium_unavailable_value","amount":"1.00"},"source":{"lsn":1}}"#;
    let (_, batch) = decode(KEY, Some(unchanged));
    assert!(batch.has_unchanged());
    assert!(batch.rows.column(1).is_null(0));
    let text = r#"{"op":"u","after":{"order_id":1,"status":"not __debezium_unavailable_value","amount":"1.00"},"source":{"lsn":1}}"#;
    assert!(!decode(KEY, Some(text)).1.has_unchanged());
    let insert = unchanged.replace(r#""op":"u""#, r#""op":"c""#);
    assert_eq!(decode(KEY, Some(&insert)).0, Err(Problem::LeftOut.at("status")));
}

#[test]
fn a_create_may_leave_out_a_value_where_it_names_the_key_that_its_row_had_before() {
    let insert = |op: &str| {
        let after = r#"{"id":1,"status":"__debezium_unavailable_value"}"#;
        format!(r#"{{"op":"{op}","after":{after},"source":{{"lsn":8,"sequence":"[\"4\",\"8\"]"}}}}"#)
    };
    let columns = vec![Column::declared("id", "long").unwrap(), Column::declared("status", "string").unwrap()];
    let schema = Arc::new(TableSchema::new(columns, &["id"], MetaColumns::default()).unwrap());
    let decode = |op: &str, old_key: Option<&'static str>| {
        let mut batch = BatchBuilder::new(Arc::clone(&schema));
        let (value, old_key) = (insert(op), old_key.map(str::as_bytes));
        let (key, value) = (Some(&br#"{"id":1}"#[..]), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key };
        let decoded = Decoder::new(Arc::clone(&schema)).decode(record, &mut Horizon::default(), &mut batch);
        decoded.map(|_| batch.finish().unwrap().moved.unwrap())
    };
    let moved = |old_key| {
        let moved = decode("c", Some(old_key)).unwrap();
        let column = |index: usize| moved.deletes.column(index);
        let long = |index: usize| column(index).as_primitive::<Int64Type>().iter().next().unwrap();
        assert_eq!(
            (moved.rows.as_slice(), long(2), long(3), column(4).as_boolean().value(0)),
            (&[0][..], Some(8), Some(4), true)
        );
        long(0)
    };
    assert_eq!(moved(r#"{"id":7}"#), Some(7));
    assert_eq!(moved(r#"{"id":"Struct{7}"}"#), None, "an unreadable one is no key");
    assert_eq!(decode("c", None), Err(Problem::LeftOut.at("status")));
    assert_eq!(decode("r", Some(r#"{"id":7}"#)), Err(Problem::LeftOut.at("status")));
}

#[test]
fn an_integer_that_a_real_cannot_hold_is_refused() {
    for (declaration, greatest) in [("float", 1_i64 << 24), ("double", 1 << 53)] {
        assert!(one_value(declaration, &greatest.to_string(), Placeholder::default()).is_ok());
        assert!(one_value(declaration, &(greatest + 1).to_string(), Placeholder::default()).is_err());
    }
}

#[test]
fn a_key_that_reads_like_the_placeholder_is_refused() {
    let schema = schema(&[("id", "string"), ("v", "int")], &["id"]);
    let key = r#"{"id":"__debezium_unavailable_value"}"#;
    let row = r#"{"id":"__debezium_unavailable_value","v":1}"#;
    for (op, after) in [("u", row), ("c", row), ("r", row), ("d", "null")] {
        let value = format!(r#"{{"op":"{op}","after":{after},"source":{{"lsn":8}}}}"#);
        let mut batch = BatchBuilder::new(Arc::clone(&schema));
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
        let decoded = Decoder::new(Arc::clone(&schema)).decode(record, &mut Horizon::default(), &mut batch);
        assert_eq!(decoded, Err(Problem::KeyLeftOut.at("id")), "{op}");
    }
}

/// What became of a recorded table.
struct Life {
    batches: Vec<ChangeBatch>,
    /// What changed, in words.
    changes: Vec<String>,
    /// The offset of the record that was refused, and why.
    end: Result<(), (i64, Malformed)>,
}

/// Decodes the recorded life of a table whose columns change all the time.
fn recorded_changes(first: TableSchema) -> Life {
    #[derive(Deserialize)]
    struct Line<'a> {
        offset: i64,
        #[serde(borrow)]
        key: &'a RawValue,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let mut schema = Arc::new(first);
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(Arc::clone(&schema)));
    let (mut batches, mut changes, mut horizon) = (Vec::new(), Vec::new(), Horizon::default());
    let mut end = Ok(());
    for line in include_str!("../../../../testdata/debezium/schema_change.ndjson").lines() {
        let Line { offset, key, value } = serde_json::from_str(line).unwrap();
        let (key, value) = (Some(key.get().as_bytes()), Some(value.get().as_bytes()).filter(|&value| value != b"null"));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        let mut outcome = decoder.decode(record, &mut horizon, &mut builder);
        if let Ok(Decoded::Grown(grown)) = outcome {
            changes.push(format!("{offset}: {}", grown.since(&schema)));
            schema = grown;
            decoder = Decoder::new(Arc::clone(&schema));
            batches.push(std::mem::replace(&mut builder, BatchBuilder::new(Arc::clone(&schema))).finish().unwrap());
            outcome = decoder.decode(record, &mut horizon, &mut builder);
        }
        changes.extend(decoder.newly_gone().into_iter().map(|gone| format!("{offset}: no {gone}")));
        if let Err(malformed) = outcome {
            end = Err((offset, malformed));
            break;
        }
    }
    batches.push(builder.finish().unwrap());
    Life { batches, changes, end }
}

#[test]
fn a_growing_table_follows_the_source_until_a_type_becomes_another_one() {
    let first = TableSchema::clone(&schema(&[("id", "long"), ("a", "int"), ("b", "string")], &["id"])).growing();
    let Life { batches, changes, end } = recorded_changes(first);
    let expected = ["2: `c` string", "4: `d` int", "5: no `b`", "7: `a` int -> long", "7: no `b`", "8: `c2` string"];
    assert_eq!(changes[..6], expected);
    assert_eq!(changes[6..], ["8: no `b`", "8: no `c`"]);
    let found = Problem::Type { expected: "an integer of 32 bits", found: "a string" };
    assert_eq!(end, Err((9, found.at("d"))));
    let rows: Vec<_> = batches
        .into_iter()
        .map(|batch| batch.rows.project(&(0..batch.schema.columns().len()).collect::<Vec<_>>()).unwrap())
        .collect();
    let tables: Vec<_> =
        rows.iter().map(|rows| pretty_format_batches(std::slice::from_ref(rows)).unwrap().to_string()).collect();
    let expected = "\
+----+---------------------+---+-----------+---+
| id | a                   | b | c         | d |
+----+---------------------+---+-----------+---+
| 4  | 9223372036854775807 |   | b is gone | 7 |
+----+---------------------+---+-----------+---+";
    assert_eq!(tables[3], expected);
}

#[test]
fn a_table_that_does_not_grow_refuses_a_new_column_and_one_that_is_gone() {
    let first = schema(&[("id", "long"), ("a", "int"), ("b", "string")], &["id"]);
    let Life { changes, end, .. } = recorded_changes(TableSchema::clone(&first));
    assert_eq!((changes, end), (Vec::new(), Err((2, Problem::UnknownColumn.at("c")))));
    let without_c = TableSchema::clone(&first).passing_over(["c", "d"].map(str::to_owned));
    assert_eq!(recorded_changes(without_c).end, Err((5, Problem::ColumnMissing.at("b"))));
}

#[test]
fn what_a_column_cannot_hold_is_refused_or_null_and_counted_or_kept_as_text() {
    let columns = |unfit: Unfit| {
        let declared = [("at", "timestamp_ntz@micros"), ("z", "timestamp"), ("d", "date"), ("n", "decimal(4,2)@text")];
        let column = |(name, declared): (&str, &str)| Column::declared(name, declared).unwrap().with_unfit(unfit);
        [vec![Column::declared("id", "long").unwrap()], declared.map(column).to_vec()].concat()
    };
    let row = |at: &str, z: &str, d: &str, n: &str| {
        format!(r#"{{"op":"u","after":{{"id":1,"at":{at},"z":{z},"d":{d},"n":{n}}},"source":{{"lsn":8}}}}"#)
    };
    let rows = [
        row("9223372036825200000", r#""infinity""#, "2147483647", r#""NaN""#),
        row("0", r#""1970-01-01T00:00:00Z""#, "0", r#""123.45""#),
        row("0", r#""__debezium_unavailable_value""#, "null", r#""1.50""#),
    ];
    let decode = |unfit: Unfit, value: &str| {
        let schema = Arc::new(TableSchema::new(columns(unfit), &["id"], MetaColumns::default()).unwrap());
        let (mut decoder, mut batch) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(schema));
        let (key, value) = (Some(&br#"{"id":1}"#[..]), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
        decoder.decode(record, &mut Horizon::default(), &mut batch)?;
        let rows = batch.finish().unwrap().rows;
        let shown = (1..rows.num_columns() - 3).filter(|&column| column != 2).collect::<Vec<_>>();
        let shown = pretty_format_batches(&[rows.project(&shown).unwrap()]).unwrap().to_string();
        let shown = shown.lines().nth(3).unwrap().split('|').map(str::trim).collect::<Vec<_>>().join("|");
        Ok::<_, Malformed>((shown, decoder.nulled()))
    };
    assert!(matches!(decode(Unfit::Refuse, &rows[0]), Err(Malformed { problem: Problem::Unfit(_), .. })));
    assert_eq!(decode(Unfit::Null, &rows[0]), Ok(("||||".to_owned(), 4)));
    let raw = "||||9223372036825200000|infinity|2147483647|NaN|";
    assert_eq!(decode(Unfit::Raw, &rows[0]), Ok((raw.to_owned(), 0)));
    let fits = "|1970-01-01T00:00:00|1970-01-01|";
    assert_eq!(decode(Unfit::Raw, &rows[1]), Ok((format!("{fits}||||123.45|"), 0)));
    assert!(decode(Unfit::Raw, &rows[2]).is_err(), "a value of another shape is refused all the same");
    let companion = row("0", "null", "0", "null").replace(r#""n":null"#, r#""n":null,"n__raw":"x""#);
    assert_eq!(decode(Unfit::Raw, &companion), Err(Problem::UnknownColumn.at("n__raw")));
    let key = Column::declared("id", "date").unwrap().with_unfit(Unfit::Null);
    let refused = TableSchema::new(vec![key], &["id"], MetaColumns::default());
    assert_eq!(refused, Err(SchemaError::MustRefuse("id".to_owned())));
}
