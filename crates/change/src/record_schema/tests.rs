use std::collections::HashMap;

use super::*;

/// Of the recorded table: its columns, and what the catalog has them declared as. An hstore that is written as JSON says that
/// it is JSON.
const COLUMNS: [(&str, &str); 62] = [
    ("c_smallint", "short"),
    ("c_int", "int"),
    ("c_bigint", "long"),
    ("c_serial", "int"),
    ("c_oid", "long"),
    ("c_numeric_12_2", "decimal(12,2)@base64"),
    ("c_numeric_38_0", "decimal(38,0)@base64"),
    ("c_domain", "decimal(10,4)@base64"),
    ("c_numeric", "numeric"),
    ("c_money", "decimal(19,2)@base64"),
    ("c_real", "float"),
    ("c_double", "double"),
    ("c_bool", "boolean"),
    ("c_bit1", "boolean"),
    ("c_text", "string"),
    ("c_varchar", "string"),
    ("c_varchar20", "string"),
    ("c_char5", "string"),
    ("c_char", "string"),
    ("c_name", "string"),
    ("c_citext", "string"),
    ("c_enum", "string"),
    ("c_uuid", "string"),
    ("c_xml", "string"),
    ("c_inet", "string"),
    ("c_cidr", "string"),
    ("c_macaddr", "string"),
    ("c_macaddr8", "string"),
    ("c_ltree", "string"),
    ("c_tsvector", "string"),
    ("c_int4range", "string"),
    ("c_int8range", "string"),
    ("c_numrange", "string"),
    ("c_tsrange", "string"),
    ("c_tstzrange", "string"),
    ("c_daterange", "string"),
    ("c_json", "json"),
    ("c_jsonb", "json"),
    ("c_hstore", "json"),
    ("c_point", "json"),
    ("c_bytea", "binary"),
    ("c_bit8", "binary"),
    ("c_varbit", "binary"),
    ("c_date", "date"),
    ("c_time", "time@micros"),
    ("c_time3", "time@millis"),
    ("c_timetz", "string"),
    ("c_timestamp", "timestamp_ntz@micros"),
    ("c_timestamp0", "timestamp_ntz@millis"),
    ("c_timestamp3", "timestamp_ntz@millis"),
    ("c_timestamptz", "timestamp"),
    ("c_timestamptz3", "timestamp"),
    ("c_interval", "interval"),
    ("c_int_arr", "array<int>"),
    ("c_bigint_arr", "array<long>"),
    ("c_bool_arr", "array<boolean>"),
    ("c_double_arr", "array<double>"),
    ("c_text_arr", "array<string>"),
    ("c_numeric_arr", "array<decimal(10,2)>@base64"),
    ("c_date_arr", "array<date>"),
    ("c_ts_arr", "array<timestamp_ntz>@micros"),
    ("c_tstz_arr", "array<timestamp>"),
];

#[test]
fn a_record_names_the_columns_and_the_key_of_its_table_where_it_carries_schemas() {
    let line = include_str!("../../../../testdata/debezium/schema_change.ndjson").lines().nth(3).unwrap();
    let record: HashMap<&str, &RawValue> = serde_json::from_str(line).unwrap();
    let value = record["value"].get().as_bytes();
    let wrapped = br#"{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},"payload":{"id":3}}"#;
    let form = EnvelopeForm::Debezium;
    for key in [record["key"].get().as_bytes(), wrapped] {
        let Described { columns, key } = Described::by(&form, key, value).unwrap();
        let columns: Vec<_> = columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect();
        assert_eq!((columns.join(", "), key), ("id long, a int, b string, c string".to_owned(), vec!["id".to_owned()]));
    }
    assert_eq!(Described::by(&form, wrapped, br#"{"op":"c","after":{"id":1}}"#), None);
    assert_eq!(Described::by(&form, b"7", value), None);
    assert_eq!(Described::by(&form, wrapped, b"\xff"), None);
}

#[test]
fn a_record_s_own_schema_gives_the_types_that_the_catalog_gives() {
    let recorded = include_str!("../../../../testdata/debezium/types_schema.json");
    let row = RecordSchema::of_row(recorded, &EnvelopeForm::Debezium).unwrap();
    let found: HashMap<_, _> = row.columns().map(|column| (column.name.clone(), column)).collect();
    for (name, declaration) in COLUMNS {
        let declared = Column::declared(name, declaration).unwrap();
        assert_eq!(found[name].data_type, declared.data_type, "{name}");
        assert!(declared.wire.is_none_or(|wire| found[name].wire == Some(wire)), "{name}: {:?}", found[name].wire);
    }
}
