use std::{collections::BTreeMap, sync::Arc};

use arrow::array::{Array, AsArray, RecordBatch};
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    Column, EnvelopeForm, Lsn, MetaColumns, Restart, TableSchema,
    model::{Change, Replica, Value, Verdict},
};

mod captures;

const KEY: &str = r#"{"order_id":1}"#;

/// A table with a few columns of the shop's orders.
fn orders(flattening: Flattening) -> Arc<TableSchema> {
    let columns = [("order_id", "long"), ("status", "string")].map(|(name, declared)| Column::declared(name, declared));
    let columns = columns.into_iter().collect::<Result<_, _>>().unwrap();
    let table = TableSchema::new(columns, &["order_id"], MetaColumns::default()).unwrap();
    Arc::new(table.with_form(EnvelopeForm::Flattened(Arc::new(flattening))).unwrap())
}

fn by(deletes: Deletes) -> Flattening {
    Flattening::new("__", deletes)
}

/// Decodes one record of offset 7, and hands back what it left in the batch.
fn decode(flattening: Flattening, key: Option<&str>, value: Option<&str>) -> (Result<Decoded, Malformed>, RecordBatch) {
    let mut horizon = Horizon::default();
    let decoded = decode_at(flattening, 7, key, value, &mut horizon);
    if matches!(decoded.0, Ok(Decoded::NoChange(_))) {
        assert_eq!(horizon, Horizon::default());
    }
    decoded
}

fn decode_at(
    flattening: Flattening,
    offset: i64,
    key: Option<&str>,
    value: Option<&str>,
    horizon: &mut Horizon,
) -> (Result<Decoded, Malformed>, RecordBatch) {
    let schema = orders(flattening);
    let mut batch = BatchBuilder::new(Arc::clone(&schema));
    let (key, value) = (key.map(str::as_bytes), value.map(str::as_bytes));
    let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
    let decoded = Decoder::new(schema).decode(record, horizon, &mut batch);
    (decoded, batch.finish().unwrap().rows)
}

fn order(anchor: u64, lsn: u64) -> Order {
    Order { anchor: Lsn::try_from(anchor).unwrap(), lsn: Lsn::try_from(lsn).unwrap() }
}

fn row(more: &str) -> String {
    format!(r#"{{"order_id":1,"status":"paid",{more}}}"#)
}

#[test]
fn a_rewritten_row_has_the_order_of_its_envelope() {
    let table = [
        (r#""__deleted":"false","__op":"u","__lsn":90,"__source_sequence":"[\"120\",\"90\"]""#, Op::Update, (120, 90)),
        (
            r#""__deleted":"false","__op":"u","__source_lsn":"90","__sequence":"[\"120\",\"90\"]""#,
            Op::Update,
            (120, 90),
        ),
        (r#""__deleted":false,"__op":"c","__lsn":90,"__source_sequence":"[null,\"90\"]""#, Op::Create, (90, 90)),
        (r#""__deleted":"false","__op":"u","__lsn":90"#, Op::Update, (90, 90)),
        (r#""__deleted":"false","__op":"r","__lsn":90,"__source_snapshot":"last""#, Op::Read, (89, 90)),
        (r#""__deleted":"false","__op":"r","__lsn":null,"__source_sequence":"[\"80\",\"96\"]""#, Op::Read, (95, 96)),
        (r#""__deleted":"true","__op":"d","__lsn":90,"__source_sequence":"[\"120\",\"90\"]""#, Op::Delete, (120, 90)),
        (r#""__deleted":true,"__lsn":90"#, Op::Delete, (90, 90)),
        (r#""__op":"d","__lsn":90"#, Op::Delete, (90, 90)),
        (
            r#""__deleted":"false","__op":"c","__lsn":8,"__table":"orders","__source_txId":{"a":[1]}"#,
            Op::Create,
            (8, 8),
        ),
    ];
    for (fields, op, (anchor, lsn)) in table {
        let (decoded, rows) = decode(by(Deletes::Rewrite), Some(KEY), Some(&row(fields)));
        assert_eq!(decoded, Ok(Decoded::Change(op, order(anchor, lsn))), "{fields}");
        let status = rows.column(1).as_string::<i32>();
        assert_eq!(status.is_null(0), op == Op::Delete, "{fields}");
        assert_eq!(rows.column(4).as_boolean().value(0), op == Op::Delete, "{fields}");
    }
}

#[test]
fn where_a_tombstone_is_the_only_sign_of_a_delete_offsets_order_every_event() {
    let table = [
        (Some(row(r#""__op":"r","__lsn":90,"__source_sequence":"[null,\"90\"]""#)), Op::Read, 90),
        (Some(row(r#""__op":"c","__lsn":90"#)), Op::Create, 90),
        (Some(r#"{"order_id":1,"status":"paid"}"#.to_owned()), Op::Update, 0),
        (Some(row(r#""__op":"u","__lsn":null"#)), Op::Update, 0),
        (Some(row(r#""__deleted":"true","__op":"d","__lsn":90"#)), Op::Delete, 90),
        (Some(row(r#""__deleted":"true""#)), Op::Delete, 0),
        (Some("null".to_owned()), Op::Delete, 0),
        (Some(r#"{"schema":{"type":"struct","optional":true},"payload":null}"#.to_owned()), Op::Delete, 0),
        (None, Op::Delete, 0),
    ];
    for (value, op, lsn) in table {
        let mut horizon = Horizon::default();
        let decoded = decode_at(by(Deletes::Tombstone), 41, Some(KEY), value.as_deref(), &mut horizon).0;
        assert_eq!(decoded, Ok(Decoded::Change(op, order(42, lsn))), "{value:?}");
        assert_eq!(horizon, Horizon::default(), "{value:?}");
    }
    let nobody_s = decode(by(Deletes::Tombstone), None, None).0;
    assert_eq!(nobody_s, Err(Problem::NoKey.into()));
    let nowhere = decode_at(by(Deletes::Tombstone), -1, Some(KEY), None, &mut Horizon::default()).0;
    assert_eq!(nowhere, Err(Problem::NoOffset.into()));
}

#[test]
fn of_a_deleted_row_only_the_record_key_is_read() {
    for (deletes, expected) in [(Deletes::Rewrite, order(90, 90)), (Deletes::Tombstone, order(8, 90))] {
        let invented = r#"{"order_id":0,"status":{"no":"text"},"gone":1,"__deleted":"true","__op":"d","__lsn":90}"#;
        let (decoded, rows) = decode(by(deletes), Some(KEY), Some(invented));
        assert_eq!(decoded, Ok(Decoded::Change(Op::Delete, expected)));
        assert_eq!(rows.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 1);
    }
}

#[test]
fn a_left_out_value_is_unchanged_in_an_update_and_refused_elsewhere() {
    let left_out = |fields: &str| format!(r#"{{"order_id":1,"status":"__debezium_unavailable_value"{fields}}}"#);
    let decode = |deletes, fields: &str| decode(by(deletes), Some(KEY), Some(&left_out(fields))).0;
    assert!(decode(Deletes::Rewrite, r#","__deleted":"false","__op":"u","__lsn":8"#).is_ok());
    assert!(decode(Deletes::Tombstone, r#","__op":"u""#).is_ok());
    let refused = Err(Problem::LeftOut.at("status"));
    assert_eq!(decode(Deletes::Rewrite, r#","__deleted":"false","__op":"c","__lsn":8"#), refused);
    assert_eq!(decode(Deletes::Tombstone, r#","__op":"r""#), refused);
    let unknown = decode(Deletes::Tombstone, "").unwrap_err();
    assert_eq!(unknown.to_string(), "the row says nothing in `__op`; add op to the transform's add.fields");
}

#[test]
fn what_the_transform_passes_on_is_told_by_its_shape() {
    let table = [
        (r#"{"ts_ms":1796027027296}"#, Some(NoChange::Heartbeat)),
        (r#"{"schema":{"type":"struct"},"payload":{"ts_ms":1796027027296}}"#, Some(NoChange::Heartbeat)),
        (r#"{"op":"m","source":{"lsn":1},"message":{"prefix":"p"}}"#, Some(NoChange::LogicalMessage)),
        (r#"{"op":"c","after":{"order_id":1,"status":"a"},"source":{"lsn":1}}"#, None),
        ("{}", None),
        // it might be a row
        (r#"{"status":"BEGIN","id":"571:53195829","ts_ms":1486500577125}"#, None),
        (r#"{"ts_ms":1796027027296,"order_id":1}"#, None),
        (r#"{"ts_ms":1796027027296,"__op":"c"}"#, None),
    ];
    for (value, expected) in table {
        for deletes in [Deletes::Rewrite, Deletes::Tombstone] {
            let (decoded, rows) = decode(by(deletes), Some(KEY), Some(value));
            assert_eq!(decoded.ok(), expected.map(Decoded::NoChange), "{value}");
            assert_eq!(rows.num_rows(), 0);
        }
    }
    assert_eq!(decode(by(Deletes::Rewrite), Some(KEY), None).0, Ok(Decoded::NoChange(NoChange::Tombstone)));
    let marker = r#"{"status":"BEGIN","id":"571:53195829","ts_ms":1486500577125}"#;
    let columns = vec![Column::declared("n", "long").unwrap()];
    let table = TableSchema::new(columns, &["n"], MetaColumns::default()).unwrap();
    let table = Arc::new(table.with_form(EnvelopeForm::Flattened(Arc::default())).unwrap());
    let record = RecordRef {
        partition: 0,
        offset: 0,
        key: None,
        value: Some(marker.as_bytes()),
        timestamp: None,
        old_key: None,
    };
    let mut batch = BatchBuilder::new(Arc::clone(&table));
    let decoded = Decoder::new(table).decode(record, &mut Horizon::default(), &mut batch);
    assert_eq!(decoded, Ok(Decoded::NoChange(NoChange::TransactionMarker)));
}

#[test]
fn bad_rows_are_named_without_their_values_and_leave_no_row() {
    let table: &[(Option<&str>, String, &str)] = &[
        (Some(KEY), "[1]".into(), "not a Debezium envelope: the value is not an object"),
        (Some(KEY), r#"{"order_id":"#.into(), "the value is not valid JSON (byte 12)"),
        (
            Some(KEY),
            row(r#""__deleted":"false","__lsn":1"#),
            "the row says nothing in `__op`; add op to the transform's add.fields",
        ),
        (
            Some(KEY),
            row(r#""__op":"c","__lsn":1"#),
            "the row says nothing in `__deleted`; set the transform's delete.tombstone.handling.mode to rewrite, or the \
             table's deletes to \"tombstone\"",
        ),
        (
            Some(KEY),
            row(r#""__deleted":"false","__op":"c""#),
            "the row says nothing in `__lsn`; add lsn and source.sequence to the transform's add.fields",
        ),
        (
            Some(KEY),
            row(r#""__deleted":"false","__op":"r","__lsn":null"#),
            "the row says nothing in `__lsn`; add lsn and source.sequence to the transform's add.fields",
        ),
        (Some(KEY), row(r#""__op":"SECRET""#), "column `__op`: is none of r, c, u, d"),
        (Some(KEY), row(r#""__op":"t""#), "column `__op`: is none of r, c, u, d"),
        (Some(KEY), row(r#""__deleted":"SECRET""#), "column `__deleted`: is neither true nor false"),
        (Some(KEY), row(r#""__lsn":"SECRET""#), "column `__lsn`: is no LSN"),
        (Some(KEY), row(r#""__source_sequence":"SECRET""#), "column `__sequence`: is no sequence of two LSNs"),
        (
            None,
            row(r#""__deleted":"false","__op":"c","__lsn":1"#),
            "the record has no key; set a primary key or message.key.columns",
        ),
        (
            Some(KEY),
            row(r#""__deleted":"false","__op":"c","__lsn":1,"extra":"SECRET""#),
            "column `extra`: not configured for this table; add it under [table.columns], or leave it out with exclude_columns",
        ),
        (
            Some(KEY),
            r#"{"order_id":1,"__deleted":"false","__op":"c","__lsn":1}"#.into(),
            "column `status`: missing in the event; drop it from [table.columns] or check the connector's column filters",
        ),
        (
            Some(KEY),
            r#"{"order_id":"SECRET","status":"a","__deleted":"false","__op":"c","__lsn":1}"#.into(),
            "column `order_id`: expected an integer of 64 bits, found a string",
        ),
        (
            Some(KEY),
            r#"{"before":null,"after":{"order_id":1,"status":"SECRET"},"op":"c","source":{"lsn":1}}"#.into(),
            "an envelope, not a flattened row; set the table's envelope to \"debezium\"",
        ),
    ];
    for (key, value, expected) in table {
        let (decoded, rows) = decode(by(Deletes::Rewrite), *key, Some(value));
        let message = decoded.expect_err(value).to_string();
        assert_eq!(message, *expected, "{value}");
        assert!(!message.contains("SECRET"), "{message}");
        assert_eq!(rows.num_rows(), 0, "{value}");
    }
}

#[test]
fn lsns_that_begin_again_are_seen_where_a_sequence_tells_initial_snapshots_from_others() {
    let reached = Horizon { streamed: order(0, 120).lsn, at: 1000, ..Horizon::default() };
    let snapshot =
        |more: &str| row(&format!(r#""__deleted":"false","__op":"r","__lsn":60,"__source_ts_ms":2000{more}"#));
    let decode = |deletes, more: &str| decode_at(by(deletes), 9, Some(KEY), Some(&snapshot(more)), &mut { reached }).0;
    let restart = Restart { lsn: order(0, 64).lsn, reached: reached.streamed, taken_at: 2000 };
    let sequence = r#","__source_sequence":"[null,\"64\"]""#;
    assert_eq!(decode(Deletes::Rewrite, sequence), Ok(Decoded::Restart(restart)));
    assert_eq!(decode(Deletes::Rewrite, ""), Ok(Decoded::Change(Op::Read, order(59, 60))));
    assert_eq!(decode(Deletes::Tombstone, sequence), Ok(Decoded::Change(Op::Read, order(10, 60))));
}

#[test]
fn a_record_schema_decides_the_units_of_a_flattened_row() {
    let columns = [("schema", "string"), ("at", "timestamp_ntz"), ("n", "decimal(12,0)")];
    let columns = columns.iter().map(|(name, declared)| Column::declared(name, declared).unwrap()).collect();
    let table = TableSchema::new(columns, &["schema"], MetaColumns::default()).unwrap();
    let table = Arc::new(table.with_form(EnvelopeForm::Flattened(Arc::default())).unwrap());
    let (mut decoder, mut batch) = (Decoder::new(Arc::clone(&table)), BatchBuilder::new(table));
    let payload =
        |at| format!(r#"{{"schema":"s","at":{at},"n":"1234","__deleted":"false","__op":"c","__lsn":8,"__table":"t"}}"#);
    for (name, at) in [
        ("io.debezium.time.Timestamp", "1709210096789"),
        ("io.debezium.time.MicroTimestamp", "1709210096789000"),
        ("io.debezium.time.NanoTimestamp", "1709210096789000000"),
    ] {
        let schema = format!(
            r#"{{"type":"struct","fields":[{{"type":"string","field":"schema"}},{{"type":"int64","name":"{name}","field":"at"}},
            {{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{{"scale":"0"}},"field":"n"}},{{"type":"string","field":"__op"}}]}}"#
        );
        let value = format!(r#"{{"schema":{schema},"payload":{}}}"#, payload(at));
        let key = br#"{"schema":{"type":"struct"},"payload":{"schema":"s"}}"#;
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
fn columns_may_have_the_names_of_the_wrapper_s_fields() {
    let columns = ["schema", "payload"].map(|name| Column::declared(name, "string").unwrap());
    let table = TableSchema::new(columns.to_vec(), &["schema"], MetaColumns::default()).unwrap();
    let table = Arc::new(table.with_form(EnvelopeForm::Flattened(Arc::new(by(Deletes::Tombstone)))).unwrap());
    let (key, value) = (&br#"{"schema":"s"}"#[..], &br#"{"schema":"s","payload":null}"#[..]);
    let record =
        RecordRef { partition: 0, offset: 0, key: Some(key), value: Some(value), timestamp: None, old_key: None };
    let mut batch = BatchBuilder::new(Arc::clone(&table));
    let decoded = Decoder::new(table).decode(record, &mut Horizon::default(), &mut batch);
    assert_eq!(decoded, Ok(Decoded::Change(Op::Update, order(1, 0))));
}

/// What happens to a key in the source.
#[derive(Debug, Clone)]
enum Event {
    Put(i64, u8),
    /// An update that leaves the status out, of a row that is there.
    Touch(i64),
    Delete(i64),
}

impl Event {
    fn record(&self) -> (String, Option<String>) {
        match self {
            Self::Put(id, status) => {
                let key = format!(r#"{{"order_id":{id}}}"#);
                (key, Some(format!(r#"{{"order_id":{id},"status":"s{status}"}}"#)))
            }
            Self::Touch(id) => {
                let row = format!(r#"{{"order_id":{id},"status":"__debezium_unavailable_value","__op":"u"}}"#);
                (format!(r#"{{"order_id":{id}}}"#), Some(row))
            }
            Self::Delete(id) => (format!(r#"{{"order_id":{id}}}"#), None),
        }
    }
}

/// A history of four keys, and the rows that it leaves in the source.
fn history() -> impl Strategy<Value = (Vec<Event>, BTreeMap<i64, String>)> {
    let event = prop_oneof![
        3 => (0_i64..4, any::<u8>()).prop_map(|(id, status)| Event::Put(id, status)),
        1 => (0_i64..4).prop_map(Event::Touch),
        1 => (0_i64..4).prop_map(Event::Delete),
    ];
    vec(event, 1..30).prop_map(|mut history| {
        let mut source = BTreeMap::new();
        history.retain(|event| match event {
            Event::Put(id, status) => {
                source.insert(*id, format!("s{status}"));
                true
            }
            Event::Touch(id) => source.contains_key(id),
            Event::Delete(id) => source.remove(id).is_some(),
        });
        (history, source)
    })
}

/// Reads a log, of partition 0, into a replica from an offset on; gives the verdict on each record.
fn read(schema: &Arc<TableSchema>, log: &[&Event], from: usize, replica: &mut Replica<i64, String>) -> Vec<Verdict> {
    let mut decoder = Decoder::new(Arc::clone(schema));
    let mut read = |(offset, event): (usize, &&Event)| {
        let (key, value) = event.record();
        let (key, value) = (Some(key.as_bytes()), value.as_deref().map(str::as_bytes));
        let offset = offset.try_into().unwrap();
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        apply(&mut decoder, record, &mut Horizon::default(), replica).unwrap()
    };
    log.iter().enumerate().skip(from).map(&mut read).collect()
}

/// Decodes one record and applies what it says; `None` where it changes nothing.
fn apply(
    decoder: &mut Decoder,
    record: RecordRef<'_>,
    horizon: &mut Horizon,
    replica: &mut Replica<i64, String>,
) -> Option<Verdict> {
    let mut batch = BatchBuilder::new(Arc::clone(decoder.schema()));
    let Decoded::Change(op, order) = decoder.decode(record, horizon, &mut batch).unwrap() else { return None };
    let changes = batch.finish().unwrap();
    let key = changes.rows.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0);
    let text = changes.rows.column(1).as_string::<i32>();
    let change = match op {
        Op::Delete => Change::Delete,
        _ if changes.has_unchanged() => Change::Upsert(vec![Value::Unchanged]),
        _ => Change::Upsert(vec![Value::Sent((!text.is_null(0)).then(|| text.value(0).to_owned()))]),
    };
    Some(replica.apply(key, order, change))
}

proptest! {
    /// A connector that crashes delivers a part of its history again, from somewhere before the crash on and in its order.
    /// A reader that crashes reads the log again, from anywhere.
    #[test]
    fn any_part_that_is_delivered_or_read_again_ends_in_the_source_s_rows(
        (history, source) in history(),
        crashes in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..5),
        readers in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..5),
    ) {
        let mut log: Vec<&Event> = Vec::new();
        let mut next = 0;
        for (stops, begins) in crashes {
            let stop = next + stops.index(history.len() + 1 - next);
            log.extend(&history[next..stop]);
            next = begins.index(stop + 1);
        }
        log.extend(&history[next..]);

        let schema = orders(by(Deletes::Tombstone));
        let mut replica = Replica::new(1);
        let mut from = 0;
        for (stops, begins) in readers {
            let stop = from + stops.index(log.len() + 1 - from);
            read(&schema, &log[..stop], from, &mut replica);
            from = begins.index(stop + 1);
        }
        read(&schema, &log, from, &mut replica);

        let live: BTreeMap<_, _> = replica.live().map(|(id, values)| (*id, values[0].clone().unwrap())).collect();
        prop_assert_eq!(live, source);

        let before = replica.clone();
        let verdicts = read(&schema, &log, 0, &mut replica);
        prop_assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Guarded));
        prop_assert_eq!(replica, before);
    }
}
