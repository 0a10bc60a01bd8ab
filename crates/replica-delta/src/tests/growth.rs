//! Tables whose columns follow the source's: new ones, wider types, and what is dropped.

use change::Decoded;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;

fn growing(columns: &[(&str, &str)]) -> Arc<TableSchema> {
    Arc::new(TableSchema::clone(&schema(columns, &["id"])).growing())
}

pub(super) async fn opened(lake: &Lake, schema: &Arc<TableSchema>) -> DeltaReplica {
    DeltaReplica::open(lake, "t", "memory:///t", "group", Arc::clone(schema)).await.unwrap()
}

/// Rows of `schema`'s table, each with its LSN, as one batch that ends at `offset`.
pub(super) fn batch(schema: &Arc<TableSchema>, offset: i64, rows: &[(u64, &str)]) -> Batch {
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(schema)), BatchBuilder::new(Arc::clone(schema)));
    for (lsn, row) in rows {
        let value = format!(r#"{{"op":"u","after":{row},"source":{{"lsn":{lsn}}}}}"#);
        let (key, value) = (Some(row.as_bytes()), Some(value.as_bytes()));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
    }
    let position = Position { offset, ..Position::default() };
    Batch::new(builder.finish().unwrap(), [(TopicPartition::new("t", 0), position)].into())
}

/// The recorded life of a table, up to `end`, cut where its columns grow.
fn recorded(first: &Arc<TableSchema>, end: i64) -> Vec<Batch> {
    #[derive(Deserialize)]
    struct Line<'a> {
        offset: i64,
        #[serde(borrow)]
        key: &'a RawValue,
        #[serde(borrow)]
        value: &'a RawValue,
    }
    let mut schema = Arc::clone(first);
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(Arc::clone(&schema)));
    let (mut horizon, mut batches) = (Horizon::default(), Vec::new());
    let mut seal = |builder: BatchBuilder, offset: i64| {
        let position = Position { offset, ..Position::default() };
        batches.push(Batch::new(builder.finish().unwrap(), [(TopicPartition::new("t", 0), position)].into()));
    };
    for line in include_str!("../../../../testdata/debezium/schema_change.ndjson").lines() {
        let Line { offset, key, value } = serde_json::from_str(line).unwrap();
        if offset == end {
            break;
        }
        let (key, value) = (Some(key.get().as_bytes()), Some(value.get().as_bytes()));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
        if let Decoded::Grown(grown) = decoder.decode(record, &mut horizon, &mut builder).unwrap() {
            seal(std::mem::replace(&mut builder, BatchBuilder::new(Arc::clone(&grown))), offset);
            (decoder, schema) = (Decoder::new(Arc::clone(&grown)), grown);
            decoder.decode(record, &mut horizon, &mut builder).unwrap();
        }
    }
    assert!(schema.columns().len() > first.columns().len());
    seal(builder, end);
    batches
}

/// The columns of the table and the types that its own metadata gives them.
pub(super) fn columns(replica: &DeltaReplica) -> Vec<String> {
    let snapshot = replica.table.snapshot().unwrap();
    snapshot.schema().fields().map(|field| format!("{} {}", field.name, field.data_type)).collect()
}

#[tokio::test]
async fn a_recorded_table_grows_with_its_source_and_a_replay_changes_nothing() {
    let lake = Lake::default();
    let declared = growing(&[("id", "long"), ("a", "int"), ("b", "string")]);
    let mut replica = opened(&lake, &declared).await;
    for batch in recorded(&declared, 9) {
        apply(&mut replica, batch).await;
    }
    let names: Vec<_> = columns(&replica);
    assert_eq!(names[..4], ["id long", "a long", "b string", "c string"]);
    assert!(names.contains(&"d integer".to_owned()) && names.contains(&"c2 string".to_owned()), "{names:?}");
    let query = "select id, a, b, c, d, c2 from t order by id";
    let expected = "\
+----+----+-------------------+----+---+-----------+
| id | a  | b                 | c  | d | c2        |
+----+----+-------------------+----+---+-----------+
| 1  | 31 |                   |    | 7 |           |
| 2  | 2  | before any change |    |   |           |
| 3  | 3  | c is new          | cc |   |           |
| 4  | 5  |                   |    | 7 | b is gone |
+----+----+-------------------+----+---+-----------+";
    assert_eq!(select(&replica, query).await, expected);

    let version = replica.version();
    let mut again = opened(&lake, &declared).await;
    for batch in recorded(&declared, 9) {
        assert_eq!(apply(&mut again, batch).await.changed(), 0);
    }
    assert_eq!((again.version(), select(&again, query).await), (version, expected.to_owned()));
}

pub(super) async fn select(replica: &DeltaReplica, query: &str) -> String {
    let context = SessionContext::new();
    replica.prepare(&context).unwrap();
    context.register_table("t", replica.provider().await.unwrap()).unwrap();
    let batches = context.sql(query).await.unwrap().collect().await.unwrap();
    arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
}

#[tokio::test]
async fn a_wider_declaration_rewrites_the_table_once_and_keeps_its_rows_positions_and_floor() {
    let lake = Lake::default();
    let narrow = growing(&[("id", "int"), ("n", "decimal(6,2)"), ("f", "float")]);
    let mut replica = opened(&lake, &narrow).await;
    let rows = [(8, r#"{"id":1,"n":"1.50","f":0.5}"#), (16, r#"{"id":2,"n":"-2.25","f":null}"#)];
    apply(&mut replica, batch(&narrow, 2, &rows)).await;

    let wide = growing(&[("id", "long"), ("n", "decimal(10,4)@text"), ("f", "double"), ("more", "string")]);
    let mut replica = opened(&lake, &wide).await;
    let before = replica.version();
    let partition = TopicPartition::new("t", 0);
    assert_eq!(replica.checkpoint(std::slice::from_ref(&partition)).await.unwrap()[&partition].offset, 2);
    let more =
        [(8, r#"{"id":1,"n":"9","f":9,"more":"late"}"#), (24, r#"{"id":5000000000,"n":"0.0001","f":0.1,"more":"x"}"#)];
    let counts = apply(&mut replica, batch(&wide, 3, &more)).await;
    assert_eq!((counts.guarded, counts.inserted, replica.version()), (1, 1, before + 2));
    assert_eq!(columns(&replica)[..4], ["id long", "n decimal(10,4)", "f double", "more string"]);
    let expected = "\
+------------+---------+-----+------+
| id         | n       | f   | more |
+------------+---------+-----+------+
| 1          | 1.5000  | 0.5 |      |
| 2          | -2.2500 |     |      |
| 5000000000 | 0.0001  | 0.1 | x    |
+------------+---------+-----+------+";
    assert_eq!(select(&replica, "select id, n, f, more from t order by id").await, expected);

    // a config that was not told decodes into the wide types all the same
    let old = opened(&lake, &narrow).await;
    let types: Vec<_> = old.schema().columns().iter().map(|column| column.data_type.to_string()).collect();
    assert_eq!(types, ["long", "decimal(10,4)", "double"]);
}

#[tokio::test]
async fn of_two_members_that_add_a_column_at_once_one_reads_the_table_again() {
    let lake = Lake::default();
    let old = growing(&[("id", "long"), ("a", "int")]);
    let new = growing(&[("id", "long"), ("a", "long"), ("b", "string")]);
    let mut first = opened(&lake, &old).await;
    apply(&mut first, batch(&old, 1, &[(8, r#"{"id":1,"a":1}"#)])).await;
    let mut second = opened(&lake, &old).await;
    second.checkpoint(&[TopicPartition::new("t", 0)]).await.unwrap();
    apply(&mut first, batch(&new, 2, &[(16, r#"{"id":2,"a":2,"b":"two"}"#)])).await;

    // the second one knows nothing of it yet, and brings a row of the old columns, then the new ones as well
    for (offset, schema, row) in [(3, &old, r#"{"id":3,"a":3}"#), (4, &new, r#"{"id":1,"a":5000000000,"b":"one"}"#)] {
        let batch = batch(schema, offset, &[(24, row)]);
        let mut attempts = 0;
        loop {
            attempts += 1;
            match second.apply(&batch).await {
                Err(fault) if fault.remedy == Remedy::Redo => {}
                applied => {
                    applied.unwrap();
                    break;
                }
            }
        }
        assert_eq!(attempts, if offset == 3 { 2 } else { 1 });
    }
    let expected = "\
+----+------------+-----+
| id | a          | b   |
+----+------------+-----+
| 1  | 5000000000 | one |
| 2  | 2          | two |
| 3  | 3          |     |
+----+------------+-----+";
    assert_eq!(select(&second, "select id, a, b from t order by id").await, expected);
    // created, a row, the rewrite with its row, two rows: the second member did not grow it again
    assert_eq!(second.version(), 5);
}

#[tokio::test]
async fn what_cannot_become_the_declared_type_is_named_before_anything_is_read() {
    let lake = Lake::default();
    opened(&lake, &growing(&[("id", "long"), ("a", "int"), ("b", "string")])).await;
    let open = async |schema: Arc<TableSchema>| {
        let opened = DeltaReplica::open(&lake, "t", "memory:///t", "group", schema).await;
        opened.err().map(|fault| (fault.remedy, fault.message))
    };
    let (remedy, message) = open(growing(&[("id", "long"), ("a", "string")])).await.unwrap();
    assert_eq!(remedy, Remedy::Halt);
    assert!(message.contains("column `a` is int in the table and string in the config"), "{message}");
    let strict = schema(&[("id", "long"), ("a", "long"), ("c", "string")], &["id"]);
    let (_, message) = open(strict).await.unwrap();
    for problem in
        ["`a` is int in the table and long", "`c` is not in the table", "`b` of the table is not in the config"]
    {
        assert!(message.contains(problem), "{message}");
    }
    assert_eq!(open(growing(&[("id", "long"), ("c", "string")])).await, None);
}
