//! Columns that go by another name in the replica, and columns that hold masks.

use change::{Mask, Secret, Unfit};

use super::{
    growth::{batch, columns, opened, select},
    *,
};

fn column(source: &str, declaration: &str) -> Column {
    Column::declared(source, declaration).unwrap()
}

fn hmac() -> Mask {
    Mask::HmacSha256(Secret::new(b"the secret of a test").unwrap())
}

fn table(columns: Vec<Column>, key: &str) -> Arc<TableSchema> {
    Arc::new(TableSchema::new(columns, &[key], MetaColumns::default()).unwrap().growing())
}

/// One change event of `schema`'s table as a batch that ends at `offset`; its LSN is 8 an offset.
fn event(schema: &Arc<TableSchema>, offset: i64, op: &str, key: &str, after: &str) -> Batch {
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(schema)), BatchBuilder::new(Arc::clone(schema)));
    let value = format!(r#"{{"op":"{op}","after":{after},"source":{{"lsn":{}}}}}"#, offset * 8);
    let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
    let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None };
    decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
    let position = Position { offset, ..Position::default() };
    Batch::new(builder.finish().unwrap(), [(TopicPartition::new("t", 0), position)].into())
}

#[tokio::test]
async fn a_renamed_and_masked_key_finds_its_row_for_an_update_and_a_delete() {
    let lake = Lake::default();
    let columns = vec![column("Id", "long").named("id").masked(hmac()), column("The Note", "string").named("note")];
    let schema = table(columns, "Id");
    let mut replica = opened(&lake, &schema).await;
    for (offset, op, id, note) in [
        (1, "c", 1, r#""one""#),
        (2, "c", 2, r#""two""#),
        (3, "u", 1, r#""once more""#),
        (4, "u", 2, r#""__debezium_unavailable_value""#),
        (5, "d", 2, ""),
    ] {
        let (key, row) = (format!(r#"{{"Id":{id}}}"#), format!(r#"{{"Id":{id},"The Note":{note}}}"#));
        let after = if op == "d" { "null" } else { row.as_str() };
        apply(&mut replica, event(&schema, offset, op, &key, after)).await;
    }
    // python3: hmac.new(b"the secret of a test", b"1", hashlib.sha256).hexdigest()
    let expected = "\
+------------------------------------------------------------------+-----------+------------+
| id                                                               | note      | is_deleted |
+------------------------------------------------------------------+-----------+------------+
| c5222e6bf3a1947b01f92c629942c0248543f92ab6b5041ff7149bea57bff158 | once more | false      |
| 38ff10ff79bfa97968b25f8efe0586126379d217d647f9ae82692b5f8fd41866 | two       | true       |
+------------------------------------------------------------------+-----------+------------+";
    assert_eq!(select(&replica, "select id, note, is_deleted from t order by note").await, expected);
}

#[tokio::test]
async fn a_masked_column_that_gets_wider_in_the_source_is_no_change_of_the_table() {
    let lake = Lake::default();
    let narrow = table(vec![column("id", "long"), column("n", "int").masked(hmac())], "id");
    let wide = Arc::new(narrow.extended_by([column("n", "long")]).unwrap().unwrap());
    let mut replica = opened(&lake, &narrow).await;
    apply(&mut replica, batch(&narrow, 2, &[(8, r#"{"id":1,"n":7}"#)])).await;
    let before = replica.version();
    apply(&mut replica, batch(&wide, 3, &[(16, r#"{"id":2,"n":7}"#), (16, r#"{"id":3,"n":5000000000}"#)])).await;
    assert_eq!(replica.version(), before + 1);
    assert_eq!(columns(&replica)[..2], ["id long", "n string"]);
    let counts = select(&replica, "select count(*) as total, count(distinct n) as masks from t").await;
    assert!(counts.contains("| 3     | 2     |"), "{counts}");
}

#[tokio::test]
async fn a_column_under_a_new_name_is_a_new_one_and_the_old_one_keeps_what_it_had() {
    let lake = Lake::default();
    let old = table(vec![column("id", "long"), column("remark", "string")], "id");
    let new = table(vec![column("id", "long"), column("remark", "string").named("note")], "id");
    let mut replica = opened(&lake, &old).await;
    apply(&mut replica, batch(&old, 2, &[(8, r#"{"id":1,"remark":"old"}"#), (8, r#"{"id":2,"remark":"old"}"#)])).await;
    let mut replica = opened(&lake, &new).await;
    apply(&mut replica, batch(&new, 3, &[(16, r#"{"id":2,"remark":"new"}"#)])).await;
    let expected = "\
+----+--------+------+
| id | remark | note |
+----+--------+------+
| 1  | old    |      |
| 2  |        | new  |
+----+--------+------+";
    assert_eq!(select(&replica, "select id, remark, note from t order by id").await, expected);
}

#[tokio::test]
async fn a_column_and_its_table_that_cannot_go_together_are_named_in_both_words() {
    let lake = Lake::default();
    opened(&lake, &table(vec![column("id", "long"), column("n", "int")], "id")).await;
    let masked = table(vec![column("id", "long"), column("N", "int").named("n").masked(hmac())], "id");
    let refused = DeltaReplica::open(&lake, "t", "memory:///t", "group", masked).await.err().unwrap();
    assert_eq!(refused.remedy, Remedy::Halt);
    let expected = "column `N` (`n` in the replica) is int in the table and string in the config";
    assert!(refused.message.contains(expected), "{}", refused.message);
}

#[tokio::test]
async fn a_table_gets_the_companion_of_a_column_that_is_to_keep_what_does_not_fit() {
    let lake = Lake::default();
    let with = |unfit| table(vec![column("id", "long"), column("day", "date").with_unfit(unfit)], "id");
    let (before, after) = (with(Unfit::Refuse), with(Unfit::Raw));
    let mut replica = opened(&lake, &before).await;
    apply(&mut replica, batch(&before, 2, &[(8, r#"{"id":1,"day":0}"#)])).await;
    let mut replica = opened(&lake, &after).await;
    apply(&mut replica, batch(&after, 3, &[(16, r#"{"id":2,"day":2147483647}"#)])).await;
    apply(&mut replica, batch(&after, 4, &[(24, r#"{"id":2,"day":2147483647}"#), (24, r#"{"id":3,"day":1}"#)])).await;
    let expected = "\
+----+------------+------------+
| id | day        | day__raw   |
+----+------------+------------+
| 1  | 1970-01-01 |            |
| 2  |            | 2147483647 |
| 3  | 1970-01-02 |            |
+----+------------+------------+";
    assert_eq!(select(&replica, "select id, day, day__raw from t order by id").await, expected);
}
