//! What the real transform wrote, of one history: orders 31, 50 and 51 of a snapshot, then 60 and 62 are inserted, 60 is
//! updated twice and becomes 61, and 50 and 61 are deleted.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;

const REWRITE: &str = include_str!("../../../../../../testdata/debezium/flattened_rewrite.ndjson");
const REWRITE_WITH_TOMBSTONE: &str =
    include_str!("../../../../../../testdata/debezium/flattened_rewrite_with_tombstone.ndjson");
const DROP: &str = include_str!("../../../../../../testdata/debezium/flattened_drop.ndjson");

/// A record of a capture.
#[derive(Clone)]
struct Captured {
    key: String,
    value: Option<String>,
}

/// Their offsets are 0 and on.
fn captured(text: &str) -> Vec<Captured> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        key: &'a RawValue,
        #[serde(borrow)]
        value: Option<&'a RawValue>,
    }
    let record = |line| {
        let Line { key, value } = serde_json::from_str(line).unwrap();
        Captured { key: key.to_string(), value: value.map(RawValue::to_string) }
    };
    text.lines().map(record).collect()
}

fn schema(deletes: Deletes) -> Arc<TableSchema> {
    let columns = [
        ("order_id", "long"),
        ("status", "string"),
        ("customer_id", "long"),
        ("amount", "decimal(12,2)@base64"),
        ("updated_at", "timestamp"),
    ];
    let columns = columns.iter().map(|(name, declared)| Column::declared(name, declared).unwrap()).collect();
    let table = TableSchema::new(columns, &["order_id"], MetaColumns::default()).unwrap();
    Arc::new(table.with_form(EnvelopeForm::Flattened(Arc::new(by(deletes)))).unwrap())
}

/// Reads the records from an offset on; gives how many changed a row.
fn read(deletes: Deletes, records: &[Captured], from: usize, replica: &mut Replica<i64, String>) -> usize {
    let mut decoder = Decoder::new(schema(deletes));
    let mut horizon = Horizon::default();
    let mut merged = 0;
    for (offset, Captured { key, value }) in (0..).zip(records).skip(from) {
        let (key, value) = (Some(key.as_bytes()), value.as_deref().map(str::as_bytes));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        merged += usize::from(apply(&mut decoder, record, &mut horizon, replica) == Some(Verdict::Merged));
    }
    merged
}

/// The source's rows are there and nothing else is; reading any part of the records again changes nothing, and a part
/// that the connector delivers again leaves the same rows.
fn ends_right(deletes: Deletes, records: &[Captured]) {
    const LIVE: [(i64, Option<&str>); 3] = [(31, Some("after-truncate")), (51, Some("snap")), (62, None)];
    fn live(replica: &Replica<i64, String>) -> Vec<(i64, Option<&str>)> {
        replica.live().map(|(id, values)| (*id, values[0].as_deref())).collect()
    }
    let mut replica = Replica::new(1);
    assert!(read(deletes, records, 0, &mut replica) > 0);
    assert_eq!(live(&replica), LIVE);
    let gone: Vec<_> = replica.rows.iter().filter(|(_, row)| row.is_deleted).map(|(id, _)| *id).collect();
    assert_eq!(gone, [50, 60, 61]);
    for from in 0..records.len() {
        let before = replica.clone();
        assert_eq!(read(deletes, records, from, &mut replica), 0, "from {from}");
        assert_eq!(replica, before, "from {from}");

        let delivered_again = [records, &records[from..]].concat();
        let mut replica = Replica::new(1);
        read(deletes, &delivered_again, 0, &mut replica);
        assert_eq!(live(&replica), LIVE, "delivered again from {from}");
    }
}

#[test]
fn rewritten_deletes_end_right() {
    let records = captured(REWRITE);
    assert_eq!(records.len(), 11);
    ends_right(Deletes::Rewrite, &records);
    ends_right(Deletes::Tombstone, &records);
}

#[test]
fn tombstones_after_rewritten_deletes_change_nothing() {
    let records = captured(REWRITE_WITH_TOMBSTONE);
    assert_eq!(records.iter().filter(|record| record.value.is_none()).count(), 3);
    ends_right(Deletes::Rewrite, &records);
    ends_right(Deletes::Tombstone, &records);
}

/// Without their rewritten deletes, these records are those of the modes that leave nothing but the tombstone.
#[test]
fn tombstones_alone_end_right_with_and_without_other_fields() {
    let mut records = captured(REWRITE_WITH_TOMBSTONE);
    records.retain(|record| record.value.as_ref().is_none_or(|value| value.contains(r#""__deleted":"false""#)));
    assert_eq!(records.len(), 11);
    ends_right(Deletes::Tombstone, &records);
    for value in records.iter_mut().filter_map(|record| record.value.as_mut()) {
        value.truncate(value.find(",\"__").unwrap());
        value.push('}');
    }
    ends_right(Deletes::Tombstone, &records);
}

/// It leaves no sign of a delete at all: a table that counts on rewritten ones refuses its rows.
#[test]
fn dropped_deletes_are_refused_where_rewritten_ones_are_expected() {
    let records = captured(DROP);
    let mut replica = Replica::new(1);
    read(Deletes::Tombstone, &records, 0, &mut replica);
    assert_eq!(replica.live().count(), 6, "three rows that the source has not got");

    let bare = records[0].value.clone().unwrap();
    let with_fields = bare.replace('}', r#","__op":"r","__lsn":8}"#);
    let schema = schema(Deletes::Rewrite);
    let (mut decoder, mut batch) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(schema));
    for (value, field) in [(bare, "__op"), (with_fields, "__deleted")] {
        let (key, value) = (Some(records[0].key.as_bytes()), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
        let refused = decoder.decode(record, &mut Horizon::default(), &mut batch).unwrap_err();
        assert!(refused.to_string().contains(field), "{refused}");
    }
}
