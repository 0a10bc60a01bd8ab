//! The mapping against docs/types.md, whose table is measured on recordings.

use super::{column, modes, table};
use crate::{Sent, columns};

/// The modes of the table's columns, by their headings.
const MODES: [(&str, &str); 5] = [
    ("string, adaptive, interval string", r#"{"decimal.handling.mode": "string", "interval.handling.mode": "string"}"#),
    ("precise, adaptive", "{}"),
    (
        "string, isostring, interval string, hex, hstore map",
        r#"{"decimal.handling.mode": "string", "time.precision.mode": "isostring", "interval.handling.mode": "string",
            "binary.handling.mode": "hex", "hstore.handling.mode": "map", "include.unknown.datatypes": "true"}"#,
    ),
    ("string, connect", r#"{"decimal.handling.mode": "string", "time.precision.mode": "connect"}"#),
    (
        "double, adaptive_time_microseconds, base64-url-safe",
        r#"{"decimal.handling.mode": "double", "time.precision.mode": "adaptive_time_microseconds",
            "binary.handling.mode": "base64-url-safe"}"#,
    ),
];

fn document() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/types.md")).unwrap()
}

#[test]
fn each_type_is_declared_as_the_document_declares_it() {
    let document = document();
    let rows: Vec<Vec<&str>> = document
        .lines()
        .skip_while(|line| !line.starts_with("| PostgreSQL |"))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows[0][2..], MODES.map(|(heading, _)| heading), "the document has other modes");
    let mut compared = 0;
    for row in &rows[2..] {
        let declared: Vec<&str> = row[1].split(" / ").map(|declaration| declaration.trim_matches('`')).collect();
        let sql = row[0];
        let table = table(&[("c", sql)]);
        for (mode, (heading, json)) in MODES.iter().enumerate() {
            let plan = columns(&table, &modes(json)).remove(0);
            let cell = row[2 + mode];
            if cell == "left out" {
                assert!(matches!(plan.sent, Sent::LeftOut(_)), "{sql} under {heading}: {:?}", plan.sent);
                continue;
            }
            let expected = declared.get(mode).unwrap_or(&declared[0]);
            assert_eq!(plan.sent, Sent::As((*expected).to_owned()), "{sql} under {heading}");
            assert!(plan.declared().is_some(), "{sql} under {heading}: {expected} is no declaration");
            // what an array loses, it loses by its value: a note would stand beside every one
            let by_type = cell.contains("another value") && !sql.ends_with("[]");
            let loses = by_type || cell.contains("refused: all");
            assert!(!loses || !plan.notes.is_empty(), "{sql} under {heading} loses something, and no note says so");
            compared += 1;
        }
    }
    assert_eq!((rows.len() - 2, compared), (75, 5 * 67 + 8), "eight types are left out in four of the modes");
}

#[test]
fn what_the_connector_leaves_out_is_what_the_document_leaves_out() {
    let document = document();
    let line = document.lines().find(|line| line.contains("are left out by the connector")).unwrap();
    let (names, _) = line.split_once(" are left out").unwrap();
    let names: Vec<&str> = names.split('`').skip(1).step_by(2).chain(["composite"]).collect();
    assert!(names.len() >= 8 && line.contains("composite"), "{names:?}");
    for name in names {
        let table = table(&[("c", name)]);
        for (json, expected) in [
            (r#"{"include.unknown.datatypes": true}"#, "binary"),
            (r#"{"include.unknown.datatypes": "true", "binary.handling.mode": "hex"}"#, "binary@hex"),
        ] {
            assert_eq!(columns(&table, &modes(json))[0].sent, Sent::As(expected.to_owned()), "{name}");
        }
        let left_out = &columns(&table, &modes("{}"))[0].sent;
        assert!(matches!(left_out, Sent::LeftOut(reason) if reason.contains(name)), "{name}: {left_out:?}");
    }
}

#[test]
fn a_column_of_the_catalog_reads_as_in_sql() {
    for (sql, name, modifier) in [
        ("numeric(12,2)", "numeric", Some(786_438)),
        ("numeric(2,-3)", "numeric", Some(133_121)),
        ("bit(8)", "bit", Some(8)),
    ] {
        let column = column("c", sql);
        assert_eq!((column.base.name.as_str(), column.modifier), (name, modifier));
    }
}
