//! Configs as they are written.

use std::fmt::Write as _;

use toml::{Table as Toml, Value};

use super::{modes, table};
use crate::{Catalog, Draft, Drafted, table::Table};

const DRAFT: Draft<'_> = Draft {
    database: "shop",
    topic_prefix: "shop",
    location: "s3://bucket/lake/",
    bootstrap_servers: "localhost:9092",
};

fn drafted(tables: Vec<Table>, json: &str) -> (Drafted, Toml) {
    let drafted = DRAFT.write(&Catalog { tables, unmatched: Vec::new() }, &modes(json));
    let document = drafted.text.parse().unwrap_or_else(|error| panic!("{error}: {}", drafted.text));
    (drafted, document)
}

fn named(schema: &str, name: &str, mut table: Table) -> Table {
    table.schema = schema.to_owned();
    table.name = name.to_owned();
    table
}

fn orders() -> Table {
    let columns = [
        ("order_id", "bigint"),
        ("amount", "numeric(12,2)"),
        ("area", "box"),
        ("updated_at", "timestamp with time zone"),
    ];
    named("public", "orders", table(&columns))
}

#[test]
fn a_config_has_every_table_with_what_is_known_about_it() {
    let mut orders = orders();
    orders.comment = Some("What was ordered".to_owned());
    orders.columns[1].comment = Some("in euro".to_owned());
    let json = r#"{"skipped.operations": "none", "unavailable.value.placeholder": "gone"}"#;
    let (drafted, _) = drafted(vec![orders], json);
    let expected = r#"# From the catalog of database shop (${DATABASE_URL}), by highwater init.
# The forms of values are those of a connector with decimal.handling.mode=precise, time.precision.mode=adaptive,
# interval.handling.mode=numeric, binary.handling.mode=bytes, include.unknown.datatypes=false.
# highwater.example.toml has every other section and setting.

[kafka]
bootstrap_servers = "localhost:9092"
group = "highwater"

[[table]]
name = "orders"
topic = "shop.public.orders"
location = "s3://bucket/lake/public/orders"
key = ["order_id"]
comment = "What was ordered"
unavailable_value_placeholder = "gone"

[table.columns]
order_id = "long"
amount = { type = "decimal(12,2)@base64", comment = "in euro" } # NaN arrives as null; decimal.handling.mode=string sends it, and it is refused
# `area` is left out: the connector does not know box; include.unknown.datatypes=true sends the bytes of its text
updated_at = "timestamp"
"#;
    assert_eq!(drafted.text, expected);
    assert_eq!((drafted.tables, drafted.refused), (1, Vec::new()));
}

const TEXT: &str = "a\rb\u{1}c \"d\" 'e' \\ = true\n\n# f";

#[test]
fn any_name_and_comment_is_read_back_as_it_was() {
    let names = [
        "id",
        "Order ID",
        "a.b",
        "say \"hi\"",
        "it's",
        "back\\slash",
        "#hash",
        "[x]",
        "=",
        "select",
        "größe",
        "漢字",
        "😀",
        "tab\there",
        "line\nfeed",
        "\u{7f}",
        " ",
        "1",
        "true",
        "${HOME}",
    ];
    let columns: Vec<(&str, &str)> = names.iter().map(|&name| (name, "numeric(12,2)")).collect();
    let mut table = named("my schema", "My \"Table\"\n.", table(&columns));
    table.comment = Some(TEXT.to_owned());
    for column in &mut table.columns {
        column.comment = Some(format!("{TEXT} {}", column.name.replace("${", "$")));
    }
    table.primary_key = names[..19].iter().map(|&name| name.to_owned()).collect();
    let (drafted, document) = drafted(vec![table], "{}");
    assert_eq!(drafted.refused, Vec::new());
    let table = &document["table"][0];
    let found: Vec<&str> = table["columns"].as_table().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, names);
    let key: Vec<&str> = table["key"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(key, names[..19]);
    for name in names {
        let expected = format!("{TEXT} {}", name.replace("${", "$"));
        assert_eq!(table["columns"][name]["comment"].as_str(), Some(&*expected));
    }
    assert_eq!(table["comment"].as_str(), Some(TEXT));
    assert_eq!(table["name"].as_str(), Some("My \"Table\"\n."));
    assert_eq!(table["topic"].as_str(), Some("shop.my_schema.My__Table__."));
    assert_eq!(table["source"].as_str(), Some("my schema.My \"Table\"\n."));
    assert_eq!(table["location"].as_str(), Some("s3://bucket/lake/my_schema/My__Table__."));
}

#[test]
fn a_table_that_cannot_be_replicated_is_a_comment() {
    let mut keyless = named("public", "log\nbook", table(&[("at", "timestamp"), ("Note", "text"), ("x\ny", "text")]));
    keyless.primary_key.clear();
    let referring = named("public", "refers", table(&[("${HOME}", "bigint")]));
    let (drafted, document) = drafted(vec![keyless, orders(), referring], "{}");
    assert_eq!(document["table"].as_array().unwrap().len(), 1);
    let refused: Vec<&str> = drafted.refused.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((drafted.tables, refused), (1, vec!["public.log\nbook", "public.refers"]));
    assert!(drafted.text.contains("# Cannot be replicated: no key: add a primary key"), "{}", drafted.text);
    assert!(
        drafted.text.contains("\n# [[table]]\n") && drafted.text.contains("\n# Note = \"string\"\n"),
        "{}",
        drafted.text
    );
}

#[test]
fn names_topics_and_locations_are_each_tables_own() {
    let tables = ["public", "sales"]
        .map(|schema| named(schema, "orders", orders()))
        .into_iter()
        .chain([named("a b", "c", orders()), named("a_b", "c", orders())]);
    let (drafted, document) = drafted(tables.collect(), "{}");
    let names: Vec<_> =
        document["table"].as_array().unwrap().iter().map(|table| table["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["public_orders", "sales_orders", "a b_c"]);
    assert_eq!(drafted.refused[0].0, "a_b.c");
    assert!(drafted.refused[0].1[0].contains("another table into its topic shop.a_b.c"), "{:?}", drafted.refused);
}

#[test]
fn other_names_for_highwaters_columns_are_written_down() {
    let table = table(&[("id", "bigint"), ("is_deleted", "boolean")]);
    let (_, document) = drafted(vec![table], "{}");
    let meta = document["table"][0]["meta_columns"].as_table().unwrap();
    assert_eq!((meta.len(), meta["is_deleted"].as_str()), (1, Some("_is_deleted")));
}

#[test]
fn what_would_halt_a_table_is_handed_back() {
    let (drafted, _) = drafted(vec![table(&[("id", "bigint"), ("place", "vector")])], r#"{"topic.delimiter": "_"}"#);
    assert_eq!(drafted.unread, ["public.t.place"]);
    assert!(
        drafted.text.contains("# `place` halts the table: ") && drafted.text.contains("\"shop_public_t\""),
        "{}",
        drafted.text
    );
}

#[test]
fn a_comment_that_a_config_cannot_hold_stands_above_in_lines_that_are_not_long() {
    let mut long = orders();
    long.columns[0].comment = Some("of ${HOME}".to_owned());
    long.comment = Some((0..60).fold("${HOME} ".to_owned(), |mut text, n| {
        write!(text, "word{n} ").unwrap();
        text
    }));
    let (drafted, _) = drafted(vec![long], "{}");
    assert!(drafted.text.contains("# of ${HOME}\norder_id = \"long\"\n"), "{}", drafted.text);
    let of_comment = drafted.text.lines().filter(|line| line.contains("word"));
    let lengths: Vec<usize> = of_comment.map(str::len).collect();
    assert!(lengths.len() > 1 && lengths.iter().all(|&length| length <= 120), "{lengths:?}");
}
