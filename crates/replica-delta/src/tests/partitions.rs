//! Partitioned tables: a row lies in one partition, whichever way it came there and whatever the partition's value.

use super::{
    growth::{batch, columns, select},
    *,
};

fn by(schema: &Arc<TableSchema>, columns: &[&str]) -> Arc<TableSchema> {
    Arc::new(TableSchema::clone(schema).partitioned_by(columns).unwrap())
}

async fn opened(lake: &Lake, location: &str, schema: &Arc<TableSchema>) -> DeltaReplica {
    DeltaReplica::open(lake, "t", location, "group", Arc::clone(schema)).await.unwrap()
}

/// Deletes by key, as one batch that ends at `offset`.
fn deletes(schema: &Arc<TableSchema>, offset: i64, keys: &[(u64, &str)]) -> Batch {
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(schema)), BatchBuilder::new(Arc::clone(schema)));
    for (lsn, key) in keys {
        let value = format!(r#"{{"op":"d","after":null,"source":{{"lsn":{lsn}}}}}"#);
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
    }
    let position = Position { offset, ..Position::default() };
    Batch::new(builder.finish().unwrap(), [(TopicPartition::new("t", 0), position)].into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The rows move among partitions, null's among them, by updates that may leave the partition's value out.
    #[test]
    fn any_history_over_a_partitioned_table_equals_the_model_and_a_replay_changes_nothing(
        events in history(),
        size in 1_usize..20,
        columns in prop::sample::select(vec![vec!["note"], vec!["status"], vec!["note", "status"], vec!["id"]]),
    ) {
        block_on(async {
            let mut model = model::Replica::new(2);
            for event in &events {
                event.apply_to(&mut model);
            }
            let (lake, schema) = (Lake::default(), by(&orders(), &columns));
            let mut replica = opened(&lake, "memory:///orders", &schema).await;
            for batch in batches(&schema, &events, size) {
                apply(&mut replica, batch).await;
            }
            prop_assert_eq!(rows(&replica).await, model_rows(&model));

            let version = replica.version();
            for batch in batches(&schema, &events, size + 7) {
                apply(&mut replica, batch).await;
            }
            if !events.iter().any(leaves_out) {
                prop_assert_eq!((rows(&replica).await, replica.version()), (model_rows(&model), version));
            }
            Ok(())
        })?;
    }
}

/// The partition columns of [`odd`], of every type that one may have.
const ODD: [(&str, &str); 9] = [
    ("The Land=%/x", "string"),
    ("b", "boolean"),
    ("s", "short"),
    ("l", "long"),
    ("n", "decimal(12,3)@text"),
    ("d", "date"),
    ("at", "timestamp"),
    ("wall", "timestamp_ntz@micros"),
    ("clock", "time@micros"),
];

/// A row of [`ODD`] columns whose values are those of number `i`, nulls for the last one.
fn odd(id: u64, i: usize) -> String {
    const TEXTS: [&str; 11] = [
        "a/b",
        "k=v",
        "a b ",
        "100%",
        "%2F",
        "ünïcode 雪 🦆",
        "O'Brien",
        ".",
        "..",
        "null",
        "\\\"q\\\" \\\\ \\n\\t#?&+:*",
    ];
    const VALUES: [[&str; 8]; 4] = [
        [
            "true",
            "-32768",
            "-9223372036854775808",
            "\"-999999999.999\"",
            "-719162",
            "\"0001-01-01T00:00:00Z\"",
            "-1",
            "0",
        ],
        ["false", "0", "0", "\"-0.001\"", "0", "\"1969-12-31T23:59:59.999999Z\"", "0", "86400000000"],
        ["true", "1", "1", "\"0\"", "19782", "\"2024-02-29T12:34:56.000001Z\"", "1709210096000001", "1"],
        [
            "false",
            "32767",
            "9223372036854775807",
            "\"5.100\"",
            "2932896",
            "\"9999-12-31T23:59:59.999999Z\"",
            "253402300799999999",
            "45296789012",
        ],
    ];
    let text = TEXTS.get(i).map_or_else(|| "null".to_owned(), |text| format!("\"{text}\""));
    let values = if i < TEXTS.len() { VALUES[i % VALUES.len()] } else { ["null"; 8] };
    let named = ODD.iter().zip([text.as_str()].into_iter().chain(values));
    let cells: Vec<_> = named.map(|((name, _), value)| format!("\"{name}\":{value}")).collect();
    format!("{{\"id\":{id},\"note\":\"{id}\",{}}}", cells.join(","))
}

#[tokio::test]
async fn partition_values_of_every_kind_are_what_they_are_without_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let lake = Lake::default();
    let declared: Vec<_> = [("id", "long"), ("note", "string")].into_iter().chain(ODD).collect();
    let plain = schema(&declared, &["id"]);
    let all: Vec<&str> = ODD.iter().map(|(name, _)| *name).collect();
    let mut cases = vec![("memory:///all".to_owned(), all)];
    for (name, _) in ODD {
        let folder = dir.path().join(format!("by {}", name.replace('/', "_")));
        cases.push((folder.to_str().unwrap().to_owned(), vec![name]));
    }
    let row = |id: u64, i: u64| odd(id, usize::try_from(i % 12).unwrap());
    let steps: [Vec<(u64, String)>; 3] = [
        // inserts, then rows that move to the next value with some that are new, then some that move far
        (0..12).map(|id| (8, row(id, id))).collect(),
        (0..18).map(|id| (16, row(id, id + 1))).collect(),
        (0..18).step_by(4).map(|id| (24, row(id, id + 7))).collect(),
    ];
    let keys: Vec<_> = (0..24).step_by(3).map(|id| (32, format!(r#"{{"id":{id}}}"#))).collect();
    let expected = {
        let mut replica = opened(&lake, "memory:///plain", &plain).await;
        run(&mut replica, &plain, &steps, &keys).await;
        rows(&replica).await
    };
    assert_eq!(expected.len(), 20);
    for (location, columns) in cases {
        let schema = by(&plain, &columns);
        let mut replica = opened(&lake, &location, &schema).await;
        run(&mut replica, &schema, &steps, &keys).await;
        assert_eq!(replica.table.snapshot().unwrap().metadata().partition_columns(), &columns[..]);
        assert_eq!(rows(&replica).await, expected, "by {columns:?}");
        let (version, reopened) = (replica.version(), &mut opened(&lake, &location, &schema).await);
        run(reopened, &schema, &steps, &keys).await;
        assert_eq!((reopened.version(), rows(reopened).await), (version, expected.clone()), "by {columns:?}");
    }
}

async fn run(
    replica: &mut DeltaReplica,
    schema: &Arc<TableSchema>,
    steps: &[Vec<(u64, String)>],
    keys: &[(u64, String)],
) {
    fn borrowed(rows: &[(u64, String)]) -> Vec<(u64, &str)> {
        rows.iter().map(|(lsn, row)| (*lsn, row.as_str())).collect()
    }
    for (offset, step) in (1..).zip(steps) {
        apply(replica, batch(schema, offset, &borrowed(step))).await;
    }
    apply(replica, deletes(schema, 9, &borrowed(keys))).await;
}

#[tokio::test]
async fn a_key_column_can_be_a_partition_column() {
    let lake = Lake::default();
    let schema = by(&schema(&[("land", "string"), ("id", "long"), ("note", "string")], &["land", "id"]), &["land"]);
    let mut replica = opened(&lake, "memory:///t", &schema).await;
    let row = |land: &str, id: u64, note: &str| format!(r#"{{"land":{land},"id":{id},"note":"{note}"}}"#);
    for (offset, lsn, note) in [(1, 8, "first"), (2, 16, "second")] {
        let rows: Vec<_> = ["\"a/b 'c'\"", "\"50%\"", "null"].map(|land| (lsn, row(land, 1, note))).into();
        let rows: Vec<_> = rows.iter().map(|(lsn, row)| (*lsn, row.as_str())).collect();
        apply(&mut replica, batch(&schema, offset, &rows)).await;
    }
    let keys = [(24, r#"{"land":"50%","id":1}"#), (24, r#"{"land":null,"id":1}"#), (24, r#"{"land":"never","id":1}"#)];
    apply(&mut replica, deletes(&schema, 3, &keys)).await;
    let expected = "\
+---------+----+--------+------------+
| land    | id | note   | is_deleted |
+---------+----+--------+------------+
| 50%     | 1  | second | true       |
| a/b 'c' | 1  | second | false      |
| never   | 1  |        | true       |
|         | 1  | second | true       |
+---------+----+--------+------------+";
    assert_eq!(select(&replica, "select land, id, note, is_deleted from t order by land").await, expected);
}

#[tokio::test]
async fn of_two_writers_that_bring_one_key_to_two_partitions_the_slower_one_redoes() {
    let (lake, schema) = (Lake::default(), by(&orders(), &["status"]));
    let mut first = opened(&lake, "memory:///t", &schema).await;
    let row = |lsn, status: &str| (lsn, format!(r#"{{"id":1,"status":"{status}","note":null}}"#));
    for (older, newer) in [(row(8, "a"), row(16, "b")), (row(24, "c"), row(32, "d"))] {
        let mut second = opened(&lake, "memory:///t", &schema).await;
        second.checkpoint(&[TopicPartition::new("t", 0)]).await.unwrap();
        apply(&mut first, batch(&schema, 1, &[(newer.0, &newer.1)])).await;
        let stale = batch(&schema, 1, &[(older.0, &older.1)]);
        assert_eq!(second.apply(&stale).await.unwrap_err().remedy, Remedy::Redo);
        assert_eq!(apply(&mut second, stale).await.guarded, 1);
        assert_eq!(rows(&second).await, rows(&first).await);
        assert_eq!(rows(&second).await.len(), 1);
    }
}

#[tokio::test]
async fn a_partitioned_table_grows_by_columns_and_by_types_those_of_its_partitions_among_them() {
    let lake = Lake::default();
    let table = |columns: &[(&str, &str)]| {
        Arc::new(TableSchema::clone(&schema(columns, &["id"])).growing().partitioned_by(&["n", "p"]).unwrap())
    };
    let narrow = table(&[("id", "int"), ("n", "int"), ("p", "decimal(6,2)"), ("note", "string")]);
    let wide =
        table(&[("id", "long"), ("n", "long"), ("p", "decimal(10,4)@text"), ("note", "string"), ("more", "string")]);
    let mut replica = opened(&lake, "memory:///t", &narrow).await;
    let old = [(8, r#"{"id":1,"n":-7,"p":"1.50","note":"x"}"#), (8, r#"{"id":2,"n":null,"p":null,"note":null}"#)];
    apply(&mut replica, batch(&narrow, 1, &old)).await;
    let new = [
        (16, r#"{"id":5000000000,"n":5000000000,"p":"0.0001","note":"y","more":"m"}"#),
        (16, r#"{"id":2,"n":-7,"p":"1.5","note":"moved","more":"m"}"#),
    ];
    apply(&mut replica, batch(&wide, 2, &new)).await;
    assert_eq!(columns(&replica)[..5], ["id long", "n long", "p decimal(10,4)", "note string", "more string"]);
    assert_eq!(replica.table.snapshot().unwrap().metadata().partition_columns(), ["n", "p"]);
    let expected = "\
+------------+------------+--------+-------+------+
| id         | n          | p      | note  | more |
+------------+------------+--------+-------+------+
| 1          | -7         | 1.5000 | x     |      |
| 2          | -7         | 1.5000 | moved | m    |
| 5000000000 | 5000000000 | 0.0001 | y     | m    |
+------------+------------+--------+-------+------+";
    assert_eq!(select(&replica, "select id, n, p, note, more from t order by id").await, expected);
}

#[tokio::test]
async fn an_epoch_empties_every_partition() {
    let (lake, schema) = (Lake::default(), by(&orders(), &["status"]));
    let mut replica = opened(&lake, "memory:///t", &schema).await;
    let rows = [(8, r#"{"id":1,"status":"a","note":"x"}"#), (8, r#"{"id":2,"status":null,"note":"y"}"#)];
    apply(&mut replica, batch(&schema, 1, &rows)).await;
    assert!(replica.begin_epoch(1000).await.unwrap());
    let expected = "\
+----+--------+------+------------+------------+
| id | status | note | source_lsn | is_deleted |
+----+--------+------+------------+------------+
| 1  | a      | x    | 0          | true       |
| 2  |        | y    | 0          | true       |
+----+--------+------+------------+------------+";
    let query = "select id, status, note, source_lsn, is_deleted from t order by id";
    assert_eq!(select(&replica, query).await, expected);
}

#[tokio::test]
async fn a_table_keeps_its_partition_columns_and_a_config_that_names_others_is_refused() {
    let lake = Lake::default();
    opened(&lake, "memory:///t", &by(&orders(), &["status", "note"])).await;
    opened(&lake, "memory:///t", &by(&orders(), &["note", "status"])).await;
    // a config that names none takes what is there
    let taken = opened(&lake, "memory:///t", &orders()).await;
    assert_eq!(taken.schema().partition_names().collect::<Vec<_>>(), ["status", "note"]);
    let plain = "memory:///plain";
    opened(&lake, plain, &orders()).await;
    for (location, columns, there) in [("memory:///t", "note", "(status, note)"), (plain, "status", "()")] {
        let refused = DeltaReplica::open(&lake, "t", location, "group", by(&orders(), &[columns])).await.err().unwrap();
        assert_eq!(refused.remedy, Remedy::Halt);
        let expected = format!("the table is partitioned by {there} and the config says ({columns})");
        assert!(refused.message.contains(&expected), "{refused}");
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_for_a_folders_name_halts_without_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (lake, schema) = (Lake::default(), by(&orders(), &["status"]));
    let mut replica = opened(&lake, dir.path().to_str().unwrap(), &schema).await;
    let row = format!(r#"{{"id":1,"status":"{}","note":null}}"#, "x".repeat(300));
    let fault = replica.apply(&batch(&schema, 1, &[(8, &row)])).await.unwrap_err();
    assert_eq!((fault.remedy, replica.version()), (Remedy::Halt, 0));
    assert!(fault.message.contains("a value of a partition column is too long for a folder's name"), "{fault}");
    assert!(fault.message.contains("status=***") && !fault.message.contains("xxx"), "{fault}");
}
