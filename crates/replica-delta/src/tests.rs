//! The replica against the reference model, and the promises one by one.

mod columns;
mod epochs;
mod feed;
mod growth;
mod layout;
mod moved;
mod partitions;
mod vectors;
mod view;

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use change::{
    BatchBuilder, Column, Decoder, Horizon, MetaColumns, RecordRef, TableSchema,
    model::{self, Change, Value},
};
use datafusion::prelude::SessionContext;
use pipeline::{Applied, Batch, Checkpoint, Position, Remedy, Replica, RowCounts, TopicPartition, Witness};
use proptest::{collection::vec, prelude::*};

use crate::{DeltaReplica, Lake, checkpoint};

mod histories;

fn schema(columns: &[(&str, &str)], key: &[&str]) -> Arc<TableSchema> {
    let columns = columns.iter().map(|(name, declaration)| Column::declared(name, declaration).unwrap()).collect();
    Arc::new(TableSchema::new(columns, key, MetaColumns::default()).unwrap())
}

fn orders() -> Arc<TableSchema> {
    schema(&[("id", "long"), ("status", "string"), ("note", "string")], &["id"])
}

/// One event of a history: what it does, and where it stands.
#[derive(Debug, Clone)]
enum Event {
    Upsert { id: u8, order: (u8, u8), status: Option<u8>, note: Option<u8> },
    Delete { id: u8, order: (u8, u8) },
    Truncate { order: (u8, u8) },
}

impl Event {
    fn record(&self) -> (Option<String>, String) {
        let source = |(anchor, lsn): (u8, u8)| format!(r#"{{"lsn":{lsn},"sequence":"[\"{anchor}\",\"{lsn}\"]"}}"#);
        // the lowest value of a column stands for one that was not sent
        let text = |value: Option<u8>| match value {
            None => "null".to_owned(),
            Some(0) => "\"__debezium_unavailable_value\"".to_owned(),
            Some(value) => format!("\"v{value}\""),
        };
        let key = |id: &u8| Some(format!(r#"{{"id":{id}}}"#));
        match self {
            Self::Upsert { id, order, status, note } => {
                let after = format!(r#"{{"id":{id},"status":{},"note":{}}}"#, text(*status), text(*note));
                (key(id), format!(r#"{{"op":"u","after":{after},"source":{}}}"#, source(*order)))
            }
            Self::Delete { id, order } => {
                (key(id), format!(r#"{{"op":"d","after":null,"source":{}}}"#, source(*order)))
            }
            Self::Truncate { order } => (None, format!(r#"{{"op":"t","after":null,"source":{}}}"#, source(*order))),
        }
    }

    fn apply_to(&self, model: &mut model::Replica<u8, String>) {
        let order_of = |(anchor, lsn): (u8, u8)| change::Order {
            anchor: change::Lsn::try_from(u64::from(anchor)).unwrap(),
            lsn: change::Lsn::try_from(u64::from(lsn)).unwrap(),
        };
        let value = |value: Option<u8>| match value {
            Some(0) => Value::Unchanged,
            value => Value::Sent(value.map(|v| format!("v{v}"))),
        };
        match self {
            Self::Upsert { id, order, status, note } => {
                model.apply(*id, order_of(*order), Change::Upsert(vec![value(*status), value(*note)]));
            }
            Self::Delete { id, order } => _ = model.apply(*id, order_of(*order), Change::Delete),
            Self::Truncate { order } => model.truncate(order_of(*order)),
        }
    }
}

/// Decodes events into batches of at most `size`, each ending at a truncate.
fn batches(schema: &Arc<TableSchema>, events: &[Event], size: usize) -> Vec<Batch> {
    let mut decoder = Decoder::new(Arc::clone(schema));
    let mut builder = BatchBuilder::new(Arc::clone(schema));
    let mut batches = Vec::new();
    let mut offset = 0;
    let mut seal = |builder: &mut BatchBuilder, offset: i64| {
        let sealed = std::mem::replace(builder, BatchBuilder::new(Arc::clone(schema)));
        let position = Position { offset, ..Position::default() };
        batches.push(Batch::new(sealed.finish().unwrap(), [(TopicPartition::new("t", 0), position)].into()));
    };
    for event in events {
        let (key, value) = event.record();
        let (key, value) = (key.as_ref().map(String::as_bytes), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
        offset += 1;
        if builder.is_truncated() || builder.rows() >= size {
            seal(&mut builder, offset);
        }
    }
    seal(&mut builder, offset);
    batches
}

async fn open(lake: &Lake) -> DeltaReplica {
    DeltaReplica::open(lake, "orders", "memory:///orders", "group", orders()).await.unwrap()
}

/// Applies a batch as the pipeline does: rows that cannot be resolved are left out. Says what changed.
async fn apply(replica: &mut DeltaReplica, mut batch: Batch) -> RowCounts {
    loop {
        match replica.apply(&batch).await.unwrap() {
            Applied::Committed { rows, .. } | Applied::NothingToDo(rows) => return rows,
            Applied::Unresolved(rows) => {
                let keep = (0..batch.changes.rows.num_rows()).map(|row| Some(!rows.contains(&row))).collect();
                let epoch = batch.epoch;
                batch = Batch::new(batch.changes.filter(&keep).unwrap(), batch.positions.clone());
                batch.epoch = epoch;
            }
        }
    }
}

/// The whole table by key, as text.
async fn rows(replica: &DeltaReplica) -> Vec<Vec<Option<String>>> {
    let context = SessionContext::new();
    replica.prepare(&context).unwrap();
    let frame = context.read_table(replica.provider().await.unwrap()).unwrap();
    let mut rows: Vec<Vec<Option<String>>> = frame.collect().await.unwrap().iter().flat_map(texts).collect();
    rows.sort();
    rows
}

fn texts(batch: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let options = arrow::util::display::FormatOptions::new();
    let columns: Vec<_> =
        batch.columns().iter().map(|c| arrow::util::display::ArrayFormatter::try_new(c, &options).unwrap()).collect();
    let text = |row: usize, column: usize| {
        (!batch.column(column).is_null(row)).then(|| columns[column].value(row).to_string())
    };
    (0..batch.num_rows()).map(|row| (0..columns.len()).map(|column| text(row, column)).collect()).collect()
}

fn model_rows(model: &model::Replica<u8, String>) -> Vec<Vec<Option<String>>> {
    let mut rows: Vec<_> = model
        .rows
        .iter()
        .map(|(id, row)| {
            let mut columns = vec![Some(id.to_string())];
            columns.extend(row.values.iter().cloned());
            columns.push(Some(row.order.lsn.as_long().to_string()));
            columns.push(Some(row.order.anchor.as_long().to_string()));
            columns.push(Some(row.is_deleted.to_string()));
            columns
        })
        .collect();
    rows.sort();
    rows
}

fn event() -> impl Strategy<Value = Event> {
    let order = (1_u8..12, 1_u8..12);
    let value = || proptest::option::weighted(0.9, 0_u8..4);
    prop_oneof![
        12 => (0_u8..5, order.clone(), value(), value())
            .prop_map(|(id, order, status, note)| Event::Upsert { id, order, status, note }),
        4 => (0_u8..5, order.clone()).prop_map(|(id, order)| Event::Delete { id, order }),
        1 => order.prop_map(|order| Event::Truncate { order }),
    ]
}

/// A history in which an order names one event of a key: the same event may come again, another one may not.
fn history() -> impl Strategy<Value = Vec<Event>> {
    vec((event(), any::<prop::sample::Index>(), 0_u8..5), 1..40).prop_map(|drawn| {
        let mut history: Vec<Event> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for (event, earlier, again) in drawn {
            let is_new = match &event {
                Event::Upsert { id, order, .. } | Event::Delete { id, order } => known.insert((Some(*id), *order)),
                Event::Truncate { order } => known.insert((None, *order)),
            };
            if again == 0 && !history.is_empty() {
                history.push(earlier.get(&history).clone());
            } else if is_new {
                history.push(event);
            }
        }
        history
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// P2, P3, P6: any history, in any batching, gives the model's rows, soft-deleted ones and orders among them.
    #[test]
    fn any_batching_of_any_history_equals_the_model(events in history(), size in 1_usize..20) {
        block_on(async {
            let mut model = model::Replica::new(2);
            for event in &events {
                event.apply_to(&mut model);
            }
            let lake = Lake::default();
            let mut replica = open(&lake).await;
            for batch in batches(&orders(), &events, size) {
                apply(&mut replica, batch).await;
            }
            prop_assert_eq!(rows(&replica).await, model_rows(&model));

            // P1: all of it once more, in one batch and in others
            let (before, version) = (rows(&replica).await, replica.version());
            for batch in batches(&orders(), &events, size + 7) {
                let counts = apply(&mut replica, batch).await;
                prop_assert!(counts.changed() == 0 || events.iter().any(leaves_out), "{:?}", counts);
            }
            if !events.iter().any(leaves_out) {
                prop_assert_eq!(rows(&replica).await, before);
                prop_assert_eq!(replica.version(), version);
            }
            Ok(())
        })?;
    }
}

/// An update that could not be resolved the first time may be, the second time.
fn leaves_out(event: &Event) -> bool {
    matches!(event, Event::Upsert { status: Some(0), .. } | Event::Upsert { note: Some(0), .. })
}

fn upsert(id: u8, at: u8, status: u8) -> Event {
    Event::Upsert { id, order: (at, at), status: Some(status), note: None }
}

#[tokio::test]
async fn positions_are_in_the_commit_and_never_move_back() {
    let lake = Lake::default();
    let mut replica = open(&lake).await;
    let tp = TopicPartition::new("t", 0);
    let mut batches = batches(&orders(), &[upsert(1, 1, 1), upsert(2, 2, 1), upsert(3, 3, 1)], 1);
    let lsn = |lsn: u64| change::Lsn::try_from(lsn).unwrap();
    let position = |offset| Position {
        offset,
        horizon: Horizon { snapshots: lsn(77), streamed: lsn(offset.cast_unsigned()), at: offset },
        witness: Witness::from_long(offset + 1),
    };
    for (batch, offset) in batches.iter_mut().zip([10, 20, 15]) {
        batch.positions = [(tp.clone(), position(offset))].into();
        replica.apply(batch).await.unwrap();
    }
    let stored = open(&lake).await.checkpoint(std::slice::from_ref(&tp)).await.unwrap();
    assert_eq!(stored, Checkpoint::from([(tp.clone(), position(20))]));
    let mut other = DeltaReplica::open(&lake, "orders", "memory:///orders", "other", orders()).await.unwrap();
    assert_eq!(other.checkpoint(&[tp]).await.unwrap(), Checkpoint::new());
}

#[tokio::test]
async fn a_writer_that_was_overtaken_does_it_again_on_the_new_version() {
    let lake = Lake::default();
    let (mut first, mut second) = (open(&lake).await, open(&lake).await);
    second.checkpoint(&[TopicPartition::new("t", 0)]).await.unwrap();
    apply(&mut first, batches(&orders(), &[upsert(1, 5, 1)], 9).remove(0)).await;
    // the second has not seen that commit, and inserts the same key with an older order
    let stale = batches(&orders(), &[upsert(1, 4, 2), upsert(2, 4, 2)], 9).remove(0);
    assert_eq!(second.apply(&stale).await.unwrap_err().remedy, Remedy::Redo);
    let Applied::Committed { rows: counts, .. } = second.apply(&stale).await.unwrap() else { panic!("nothing done") };
    assert_eq!((counts.inserted, counts.guarded), (1, 1));
    let found = rows(&second).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[0][1].as_deref(), Some("v1"));
}

#[tokio::test]
async fn keys_of_every_kind_match_null_and_nan_among_them() {
    let columns =
        [("A b", "string"), ("select", "double"), ("t.s", "timestamp"), ("n", "decimal(5,1)@text"), ("ünï", "boolean")];
    let schema = schema(&columns, &["A b", "select", "t.s", "n"]);
    let lake = Lake::default();
    let mut replica = DeltaReplica::open(&lake, "odd", "memory:///odd", "g", Arc::clone(&schema)).await.unwrap();
    let keys = [
        r#""A b":null,"select":1.5,"t.s":"2024-01-01T00:00:00Z","n":"1.5""#,
        r#""A b":"x","select":"NaN","t.s":null,"n":null"#,
        r#""A b":"O'Brien \"q\" {}","select":-0.0,"t.s":"2024-01-01T00:00:00.000001Z","n":"-0.1""#,
    ];
    for (lsn, flag) in [(8, "true"), (16, "false"), (16, "true")] {
        let mut decoder = Decoder::new(Arc::clone(&schema));
        let mut builder = BatchBuilder::new(Arc::clone(&schema));
        for (offset, key) in (0_i64..).zip(keys) {
            let value = format!(r#"{{"op":"u","after":{{{key},"ünï":{flag}}},"source":{{"lsn":{lsn}}}}}"#);
            let key = format!("{{{key}}}");
            let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
            let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
            decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
        }
        replica.apply(&Batch::new(builder.finish().unwrap(), Checkpoint::new())).await.unwrap();
    }
    let found = rows(&replica).await;
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found.iter().all(|row| row[4].as_deref() == Some("false")), "{found:?}");
}

#[tokio::test]
async fn arrays_and_documents_are_kept_by_an_update_that_leaves_them_out_and_by_a_delete() {
    let columns = [
        ("id", "numeric@text"),
        ("tags", "array<string>"),
        ("counts", "array<int>"),
        ("prices", "array<decimal(10,2)>@text"),
        ("days", "array<date>"),
        ("doc", "json"),
        ("pairs", "hstore"),
        ("at", "time@micros"),
        ("span", "interval"),
    ];
    let schema = schema(&columns, &["id"]);
    let lake = Lake::default();
    let open = || DeltaReplica::open(&lake, "all", "memory:///all", "g", Arc::clone(&schema));
    let full = r#""tags":["a",null,"b,c \"d\""],"counts":[],"prices":["1.10",null],"days":[19723],"doc":"{\"a\": [1.0]}","pairs":"{\"k\":null}","at":86400000000,"span":"P1Y2M""#;
    let nulls = r#""tags":null,"counts":[1],"prices":null,"days":null,"doc":null,"pairs":null,"at":null,"span":null"#;
    let left_out = full
        .replace(r#"["a",null,"b,c \"d\""]"#, r#"["__debezium_unavailable_value"]"#)
        .replace(r#""{\"a\": [1.0]}""#, r#""__debezium_unavailable_value""#)
        .replace("86400000000", "1");
    let steps = [
        ("12345678901234567890123456789012345678901234567890.5", "c", full, 8),
        ("-1", "c", nulls, 8),
        ("12345678901234567890123456789012345678901234567890.5", "u", &left_out, 16),
        ("-1", "u", full, 24),
        ("-1", "d", "", 32),
    ];
    for (id, op, rest, lsn) in steps {
        let mut replica = open().await.unwrap();
        let (mut decoder, mut builder) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(Arc::clone(&schema)));
        let key = format!(r#"{{"id":"{id}"}}"#);
        let after = if op == "d" { "null".to_owned() } else { format!(r#"{{"id":"{id}",{rest}}}"#) };
        let value = format!(r#"{{"op":"{op}","after":{after},"source":{{"lsn":{lsn}}}}}"#);
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
        decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
        replica.apply(&Batch::new(builder.finish().unwrap(), Checkpoint::new())).await.unwrap();
    }
    let found = rows(&open().await.unwrap()).await;
    let text = |row: &Vec<Option<String>>| row.iter().map(|cell| cell.clone().unwrap_or_default()).collect::<Vec<_>>();
    let kept = |id: &'static str, at: &'static str, lsn: &'static str, deleted: &'static str| {
        let pairs = r#"{"k":null}"#;
        let document = r#"{"a": [1.0]}"#;
        let tags = r#"[a, , b,c "d"]"#;
        let anchor = lsn;
        [id, tags, "[]", "[1.10, ]", "[2024-01-01]", document, pairs, at, "P1Y2M", lsn, anchor, deleted]
    };
    assert_eq!(text(&found[0]), kept("-1", "24:00:00.000000", "32", "true"));
    let id = "12345678901234567890123456789012345678901234567890.5";
    assert_eq!(text(&found[1]), kept(id, "00:00:00.000001", "16", "false"));
}

#[tokio::test]
async fn a_table_with_other_columns_is_refused_with_each_difference() {
    let lake = Lake::default();
    open(&lake).await;
    let other = schema(&[("id", "int"), ("status", "string"), ("extra", "string")], &["id"]);
    let refused = DeltaReplica::open(&lake, "orders", "memory:///orders", "g", other).await;
    let message = refused.err().unwrap().message;
    for expected in [
        "column `id` is long in the table and int in the config",
        "`extra` is not in the table",
        "`note` of the table is not in the config",
    ] {
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn on_a_local_disk_the_table_is_there_after_it_was_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("lake/orders");
    let location = location.to_str().unwrap();
    let lake = Lake::default();
    let mut replica = DeltaReplica::open(&lake, "orders", location, "g", orders()).await.unwrap();
    let events: Vec<_> = (0..60).map(|i| upsert(i % 7, i + 1, i % 3 + 1)).collect();
    for batch in batches(&orders(), &events, 1) {
        replica.apply(&batch).await.unwrap();
        replica.maintain().await.unwrap();
    }
    let reopened = DeltaReplica::open(&lake, "orders", location, "g", orders()).await.unwrap();
    assert_eq!(rows(&reopened).await, rows(&replica).await);
    assert_eq!(reopened.version(), 60);
    assert!(
        std::path::Path::new(location).join("_delta_log/_last_checkpoint").exists(),
        "no log checkpoint was written"
    );
    let position = checkpoint::app_id("g", &TopicPartition::new("t", 0), 0);
    assert_eq!(position, "highwater/g/t/0");
}

#[tokio::test]
async fn without_permission_the_fault_says_what_to_check() {
    let denied = DeltaReplica::open(&Lake::default(), "orders", "/proc/lake/orders", "g", orders()).await;
    let fault = denied.err().unwrap();
    assert!(fault.message.contains("table `orders` at /proc/lake/orders"), "{fault}");
    let bad = DeltaReplica::open(&Lake::default(), "orders", "ftp://x/y", "g", orders()).await.err().unwrap();
    assert!(bad.message.contains("unknown scheme ftp"), "{bad}");
}
