//! The change data feed of a replica: what was inserted, and what each row was before and after.

use datafusion::physical_plan::collect;

use super::{
    growth::{batch, select},
    *,
};
use crate::{Layout, Properties};

/// A new table with a feed.
async fn opened(schema: &Arc<TableSchema>) -> DeltaReplica {
    let given = [("delta.enableChangeDataFeed".to_owned(), "true".to_owned())];
    let layout = Layout { properties: Properties::new(given.into()).unwrap(), ..Layout::default() };
    let (lake, schema) = (Lake::default(), Arc::clone(schema));
    DeltaReplica::open_laid_out(&lake, "t", "memory:///t", "group", schema, &layout).await.unwrap()
}

/// The feed from version 1 on: version, kind of change, and some columns.
async fn feed(replica: &DeltaReplica, columns: &str) -> String {
    let context = SessionContext::new();
    let scan = replica.table.clone().scan_cdf().with_starting_version(1);
    let plan = scan.build(&context.state(), None).await.unwrap();
    let schema = plan.schema();
    let batches = collect(plan, context.task_ctx()).await.unwrap();
    let table = datafusion::datasource::MemTable::try_new(schema, vec![batches]).unwrap();
    context.register_table("feed", Arc::new(table)).unwrap();
    let query =
        format!("select _commit_version as v, _change_type as change, {columns} from feed order by id, v, change desc");
    let found = context.sql(&query).await.unwrap().collect().await.unwrap();
    arrow::util::pretty::pretty_format_batches(&found).unwrap().to_string()
}

#[tokio::test]
async fn a_feed_shows_each_change_once_with_the_row_before_and_after_it() {
    let columns = [("id", "long"), ("land", "string"), ("tags", "array<string>"), ("at", "timestamp_ntz@micros")];
    let plain = schema(&columns, &["id"]);
    for partitions in [&[][..], &["land"]] {
        let table = Arc::new(TableSchema::clone(&plain).partitioned_by(partitions).unwrap());
        let mut replica = opened(&table).await;
        let row = |id: u64, land: &str| format!(r#"{{"id":{id},"land":"{land}","tags":["{land}",null],"at":{id}}}"#);
        let (one, two, three) = (row(1, "de"), row(2, "de"), row(3, "fr"));
        apply(&mut replica, batch(&table, 1, &[(8, &one), (8, &two), (8, &three)])).await;
        let (moved, new) = (row(1, "nl"), row(4, "nl"));
        apply(&mut replica, batch(&table, 2, &[(8, &three), (16, &moved), (16, &new)])).await;
        apply(&mut replica, without_row(&table, "d", 24, Some(r#"{"id":2}"#))).await;
        let expected = "\
+---+------------------+----+------+--------+------------+
| v | change           | id | land | tags   | is_deleted |
+---+------------------+----+------+--------+------------+
| 1 | insert           | 1  | de   | [de, ] | false      |
| 2 | update_preimage  | 1  | de   | [de, ] | false      |
| 2 | update_postimage | 1  | nl   | [nl, ] | false      |
| 1 | insert           | 2  | de   | [de, ] | false      |
| 3 | update_preimage  | 2  | de   | [de, ] | false      |
| 3 | update_postimage | 2  | de   | [de, ] | true       |
| 1 | insert           | 3  | fr   | [fr, ] | false      |
| 2 | insert           | 4  | nl   | [nl, ] | false      |
+---+------------------+----+------+--------+------------+";
        assert_eq!(feed(&replica, "id, land, tags, is_deleted").await, expected, "by {partitions:?}");
        let live = select(&replica, "select id, land from t where not is_deleted order by id").await;
        let expected = "\
+----+------+
| id | land |
+----+------+
| 1  | nl   |
| 3  | fr   |
| 4  | nl   |
+----+------+";
        assert_eq!(live, expected);
    }
}

/// A delete, or a truncate, as a batch of its own.
fn without_row(schema: &Arc<TableSchema>, op: &str, lsn: u64, key: Option<&str>) -> Batch {
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(schema)), BatchBuilder::new(Arc::clone(schema)));
    let value = format!(r#"{{"op":"{op}","after":null,"source":{{"lsn":{lsn}}}}}"#);
    let (key, value) = (key.map(str::as_bytes), Some(value.as_bytes()));
    let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
    decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
    Batch::new(builder.finish().unwrap(), Checkpoint::new())
}

#[tokio::test]
async fn a_truncate_and_new_columns_and_types_leave_a_feed_that_can_be_read() {
    let table = |columns: &[(&str, &str)]| Arc::new(TableSchema::clone(&schema(columns, &["id"])).growing());
    let (old, new) =
        (table(&[("id", "long"), ("n", "int")]), table(&[("id", "long"), ("n", "long"), ("more", "string")]));
    let mut replica = opened(&old).await;
    apply(&mut replica, batch(&old, 1, &[(8, r#"{"id":1,"n":1}"#), (8, r#"{"id":2,"n":2}"#)])).await;
    apply(&mut replica, batch(&new, 2, &[(16, r#"{"id":2,"n":5000000000,"more":"m"}"#)])).await;
    apply(&mut replica, without_row(&new, "t", 24, None)).await;
    let expected = "\
+---+------------------+----+------------+------+------------+
| v | change           | id | n          | more | is_deleted |
+---+------------------+----+------------+------+------------+
| 1 | insert           | 1  | 1          |      | false      |
| 4 | update_preimage  | 1  | 1          |      | false      |
| 4 | update_postimage | 1  | 1          |      | true       |
| 1 | insert           | 2  | 2          |      | false      |
| 3 | update_preimage  | 2  | 2          |      | false      |
| 3 | update_postimage | 2  | 5000000000 | m    | false      |
| 4 | update_preimage  | 2  | 5000000000 | m    | false      |
| 4 | update_postimage | 2  | 5000000000 | m    | true       |
+---+------------------+----+------------+------+------------+";
    assert_eq!(feed(&replica, "id, n, more, is_deleted").await, expected);
}
