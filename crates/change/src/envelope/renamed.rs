//! Columns that have another name in the replica than in the source.

use super::{
    tests::{one_change, shown},
    *,
};
use crate::{Column, DataType, MetaColumns, SchemaError, Unfit};

/// The awkward ones of PostgreSQL: anything may stand between double quotes.
fn awkward() -> Arc<TableSchema> {
    let column =
        |source: &str, declaration: &str, name: &str| Column::declared(source, declaration).unwrap().named(name);
    let columns = vec![
        column("Order ID", "long", "order_id"),
        column("email", "string", "email"),
        column("EMAIL", "string", "email_of_invoice"),
        column("a \"quoted\" \\ name", "string", "quoted"),
        column("ключ", "decimal(6,2)@text", "klyuch"),
        column("Paid until", "timestamp_ntz@text", "paid_until").with_unfit(Unfit::Raw),
        // one's name is the other's source
        column("left", "int", "right"),
        column("right", "int", "left"),
    ];
    Arc::new(TableSchema::new(columns, &["Order ID"], MetaColumns::default()).unwrap())
}

const KEY: &str = r#"{"Order ID":1}"#;

fn row(rest: &str) -> String {
    format!(
        r#"{{"Order ID":1,"EMAIL":"big","email":"small","a \"quoted\" \\ name":"q",
        "\u043a\u043b\u044e\u0447":"1.5","left":-1,"right":1,{rest}}}"#
    )
}

#[test]
fn events_name_a_column_as_the_source_does_and_batches_as_the_replica_does() {
    let (names, values) = shown(&one_change(&awkward(), "u", KEY, &row(r#""Paid until":"infinity""#)).unwrap());
    let expected = [
        ("order_id", "1"),
        ("email", "small"),
        ("email_of_invoice", "big"),
        ("quoted", "q"),
        ("klyuch", "1.50"),
        ("paid_until", "null"),
        ("right", "-1"),
        ("left", "1"),
        ("paid_until__raw", "infinity"),
    ];
    assert_eq!((names, values), expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().unzip());

    let deleted = one_change(&awkward(), "d", KEY, "null").unwrap();
    assert_eq!(shown(&deleted).1, ["1", "null", "null", "null", "null", "null", "null", "null", "null"]);
    assert_eq!(awkward().key_names().collect::<Vec<_>>(), ["order_id"]);
}

#[test]
fn a_refusal_names_a_column_as_the_source_does_and_then_as_the_replica_does() {
    let refused = |key: &str, row: &str, op| one_change(&awkward(), op, key, row).unwrap_err().to_string();
    let good = row(r#""Paid until":null"#);
    let table = [
        (
            good.replace(r#""Order ID":1"#, r#""Order ID":"x""#),
            "column `Order ID` (`order_id` in the replica): expected",
        ),
        (good.replace(r#""email":"small","#, ""), "column `email`: missing in the event"),
        (good.replace(r#""EMAIL":"big","#, ""), "column `EMAIL` (`email_of_invoice` in the replica): missing"),
        (row(r#""Paid until":null,"order_id":1"#), "column `order_id`: not configured for this table"),
        (row(r#""Paid until":null,"paid_until__raw":"x""#), "column `paid_until__raw`: not configured"),
        (row(r#""Paid until":null,"EMAIL":"big""#), "column `EMAIL` (`email_of_invoice` in the replica): stands twice"),
        (row(r#""Paid until":7"#), "column `Paid until` (`paid_until` in the replica): expected a time in ISO 8601"),
    ];
    for (row, expected) in table {
        let message = refused(KEY, &row, "c");
        assert!(message.starts_with(expected), "{message}");
    }
    let message = refused(r#"{"order_id":1}"#, "null", "d");
    assert_eq!(message, "column `Order ID` (`order_id` in the replica): the record key lacks this key column");
}

#[test]
fn a_record_schema_speaks_of_the_source_s_names() {
    let columns = vec![
        Column::declared("Id", "long").unwrap().named("id"),
        Column::declared("Paid At", "timestamp_ntz").unwrap().named("paid_at"),
        Column::declared("Total", "decimal(6,2)").unwrap().named("total"),
    ];
    let schema = Arc::new(TableSchema::new(columns, &["Id"], MetaColumns::default()).unwrap());
    let row = r#"{"schema":{"type":"struct","fields":[{"type":"struct","field":"after","fields":[
        {"type":"int64","field":"Id"},{"type":"int64","name":"io.debezium.time.Timestamp","field":"Paid At"},
        {"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","field":"Total"}]}]},
        "payload":{"op":"c","after":{"Id":1,"Paid At":1709210096789,"Total":"1234"},"source":{"lsn":8}}}"#;
    let (mut decoder, mut batch) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(schema));
    let (key, value) = (Some(&br#"{"Id":1}"#[..]), Some(row.as_bytes()));
    let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
    decoder.decode(record, &mut Horizon::default(), &mut batch).unwrap_err();
    let row = row.replace(r#""1234""#, r#""BNI=""#);
    let record = RecordRef { value: Some(row.as_bytes()), ..record };
    decoder.decode(record, &mut Horizon::default(), &mut batch).unwrap();
    let (names, values) = shown(&batch.finish().unwrap());
    assert_eq!(names, ["id", "paid_at", "total"]);
    assert_eq!(values, ["1", "2024-02-29T12:34:56.789", "12.34"]);
}

#[test]
fn a_table_grows_by_the_source_s_names() {
    let columns = vec![Column::declared("Id", "int").unwrap().named("id"), Column::declared("b", "string").unwrap()];
    let before = TableSchema::new(columns, &["Id"], MetaColumns::default()).unwrap().growing();
    let extended = |name, data_type| before.extended_by([Column::new(name, data_type)]);
    assert_eq!(extended("Id", DataType::Int), Ok(None));
    let grown =
        before.extended_by([Column::new("Id", DataType::Long), Column::new("c", DataType::Int)]).unwrap().unwrap();
    let fields: Vec<_> = grown.arrow().fields().iter().take(3).map(|field| field.name().as_str()).collect();
    assert_eq!(fields, ["id", "b", "c"]);
    assert_eq!(grown.since(&before), "`Id` (`id` in the replica) int -> long, `c` int");
    // the name is taken in the replica
    let same = SchemaError::SameName("`Id` (`id` in the replica)".to_owned(), "`id`".to_owned());
    assert!(same.to_string().contains("give one of them another with name = "), "{same}");
    assert_eq!(extended("id", DataType::Int), Err(same));
    assert_eq!(before.passing_over(["id".to_owned()]).extended_by([Column::new("id", DataType::Int)]), Ok(None));
}
