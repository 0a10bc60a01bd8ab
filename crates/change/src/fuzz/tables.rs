//! The tables that the fuzzer's records are of.

use std::sync::{Arc, LazyLock};

use crate::{Column, Mask, MetaColumns, Placeholder, Secret, SourceTables, TableSchema, Unfit};

type Columns = [(&'static str, &'static str)];

const ORDERS: &Columns = &[
    ("order_id", "long"),
    ("customer_id", "long"),
    ("status", "string"),
    ("amount", "decimal(10,2)"),
    ("updated_at", "timestamp"),
];
const PLAIN: &Columns = &[
    ("id", "long"),
    ("o", "boolean"),
    ("h", "short"),
    ("i", "int"),
    ("f", "float"),
    ("d", "double"),
    ("m", "decimal(12,2)"),
    ("s", "string"),
    ("n", "numeric"),
    ("b", "binary"),
    ("day", "date"),
    ("at", "timestamp"),
    ("ts", "timestamp_ntz"),
    ("t", "time"),
    ("iv", "interval"),
    ("j", "json"),
    ("hs", "hstore"),
];
const FORMS: &Columns = &[
    ("id", "long"),
    ("m", "decimal(38,10)@base64"),
    ("mt", "decimal(4,2)@text"),
    ("nb", "numeric(1000,-2)@base64"),
    ("nt", "numeric@text"),
    ("u", "binary@base64url"),
    ("x", "binary@hex"),
    ("day", "date@text"),
    ("at", "timestamp@nanos"),
    ("ms", "timestamp_ntz@millis"),
    ("tm", "time@millis"),
    ("tu", "time@micros"),
    ("tn", "time@nanos"),
];
const ARRAYS: &Columns = &[
    ("id", "long"),
    ("i", "array<int>"),
    ("l", "array<long>"),
    ("f", "array<float>"),
    ("m", "array<decimal(12,2)>@base64"),
    ("n", "array<numeric>"),
    ("s", "array<string>"),
    ("b", "array<binary>"),
    ("day", "array<date>"),
    ("at", "array<timestamp>"),
    ("ts", "array<timestamp_ntz>@micros"),
    ("t", "array<time>@micros"),
    ("j", "array<json>"),
];
const KEYS: &Columns = &[
    ("s", "string"),
    ("n", "numeric@text"),
    ("m", "decimal(12,2)@text"),
    ("b", "binary"),
    ("day", "date"),
    ("ts", "timestamp_ntz@micros"),
    ("t", "time@text"),
    ("o", "boolean"),
    ("f", "float"),
    ("v", "string"),
];

/// One of each kind: strict, lenient, growing, of arrays, of every form, with other placeholders, with other keys, with masks and
/// of a topic with other tables.
pub(super) static TABLES: LazyLock<[Arc<TableSchema>; 10]> = LazyLock::new(|| {
    let keys = ["s", "n", "m", "b", "day", "ts", "t", "o", "f"];
    let tables = [
        table(ORDERS, &["order_id"], Unfit::Refuse),
        table(PLAIN, &["id"], Unfit::Refuse),
        table(FORMS, &["id"], Unfit::Null),
        table(ARRAYS, &["id"], Unfit::Refuse),
        table(ORDERS, &["order_id"], Unfit::Refuse).passing_over(["secret".to_owned()]).growing(),
        table(PLAIN, &["id"], Unfit::Raw).growing(),
        table(PLAIN, &["id"], Unfit::Null).with_placeholder(placeholder("hex:6f00ff")),
        table(ARRAYS, &["id"], Unfit::Refuse).with_placeholder(placeholder("x")).growing(),
        table(KEYS, &keys, Unfit::Refuse),
        masked(ORDERS).of_sources(SourceTables::One("public.orders".into())).growing(),
    ];
    tables.map(Arc::new)
});

/// A table with a column of each type that can become wider.
pub(super) static GROWING: LazyLock<Arc<TableSchema>> = LazyLock::new(|| {
    let columns = [("id", "short"), ("i", "int"), ("f", "float"), ("m", "decimal(10,2)"), ("l", "array<int>")];
    Arc::new(table(&columns, &["id"], Unfit::Raw).growing())
});

/// `unfit` is for the columns that may have it.
fn table(columns: &Columns, key: &[&str], unfit: Unfit) -> TableSchema {
    let columns = columns.iter().map(|(name, declaration)| {
        let must_refuse = key.contains(name) || declaration.starts_with("array");
        let column = Column::declared(name, declaration)?;
        Ok(if must_refuse { column } else { column.with_unfit(unfit) })
    });
    let table =
        columns.collect::<Result<_, _>>().and_then(|columns| TableSchema::new(columns, key, MetaColumns::default()));
    table.unwrap_or_else(|error| unreachable!("{error}"))
}

/// A table whose columns, but for the key, have other names and no values in clear.
fn masked(columns: &Columns) -> TableSchema {
    let mask = || Secret::new(&[7; 16]).map(Mask::HmacSha256);
    let columns = columns.iter().map(|(name, declaration)| {
        let column = Column::declared(name, declaration)?;
        Ok(if *name == "order_id" { column } else { column.named(&format!("masked {name}")).masked(mask()?) })
    });
    let table = columns
        .collect::<Result<_, _>>()
        .and_then(|columns| TableSchema::new(columns, &["order_id"], MetaColumns::default()));
    table.unwrap_or_else(|error| unreachable!("{error}"))
}

fn placeholder(text: &str) -> Placeholder {
    text.parse().unwrap_or_else(|error| unreachable!("{error}"))
}
