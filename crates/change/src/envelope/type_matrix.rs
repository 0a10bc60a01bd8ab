//! The type matrix: every value of `testdata/debezium/types.tsv`, as Debezium wrote it in each of its modes, decoded
//! under the declaration that docs/types.md recommends. The document's table is written by this test
//! (`HIGHWATER_UPDATE=1` renews it) and compared by it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use arrow::array::ArrayRef;

use super::*;
use crate::Placeholder;

/// By column: its type in PostgreSQL, its declaration, and the wire form in each of [`MODES`] (empty: none needed).
pub(crate) const COLUMNS: [(&str, &str, &str, [&str; 4]); 62] = [
    ("c_smallint", "smallint", "short", [""; 4]),
    ("c_int", "integer", "int", [""; 4]),
    ("c_bigint", "bigint", "long", [""; 4]),
    ("c_serial", "serial", "int", [""; 4]),
    ("c_oid", "oid", "long", [""; 4]),
    ("c_numeric_12_2", "numeric(12,2)", "decimal(12,2)", ["@base64", "@text", "@text", ""]),
    ("c_numeric_38_0", "numeric(38,0)", "decimal(38,0)", ["@base64", "@text", "@text", ""]),
    ("c_domain", "domain over numeric(10,4)", "decimal(10,4)", ["@base64", "@text", "@text", ""]),
    ("c_numeric", "numeric", "numeric", ["", "@text", "@text", ""]),
    ("c_money", "money", "decimal(19,2)", ["@base64", "@text", "@text", ""]),
    ("c_real", "real", "float", [""; 4]),
    ("c_double", "double precision", "double", [""; 4]),
    ("c_bool", "boolean", "boolean", [""; 4]),
    ("c_bit1", "bit(1)", "boolean", [""; 4]),
    ("c_text", "text", "string", [""; 4]),
    ("c_varchar", "varchar", "string", [""; 4]),
    ("c_varchar20", "varchar(20)", "string", [""; 4]),
    ("c_char5", "char(5)", "string", [""; 4]),
    ("c_char", "\"char\"", "string", [""; 4]),
    ("c_name", "name", "string", [""; 4]),
    ("c_citext", "citext", "string", [""; 4]),
    ("c_enum", "enum", "string", [""; 4]),
    ("c_uuid", "uuid", "string", [""; 4]),
    ("c_xml", "xml", "string", [""; 4]),
    ("c_inet", "inet", "string", [""; 4]),
    ("c_cidr", "cidr", "string", [""; 4]),
    ("c_macaddr", "macaddr", "string", [""; 4]),
    ("c_macaddr8", "macaddr8", "string", [""; 4]),
    ("c_ltree", "ltree", "string", [""; 4]),
    ("c_tsvector", "tsvector", "string", [""; 4]),
    ("c_int4range", "int4range", "string", [""; 4]),
    ("c_int8range", "int8range", "string", [""; 4]),
    ("c_numrange", "numrange", "string", [""; 4]),
    ("c_tsrange", "tsrange", "string", [""; 4]),
    ("c_tstzrange", "tstzrange", "string", [""; 4]),
    ("c_daterange", "daterange", "string", [""; 4]),
    ("c_json", "json", "json", [""; 4]),
    ("c_jsonb", "jsonb", "json", [""; 4]),
    ("c_hstore", "hstore", "hstore", [""; 4]),
    ("c_point", "point", "json", [""; 4]),
    ("c_bytea", "bytea", "binary", ["", "@hex", "", ""]),
    ("c_bit8", "bit(8)", "binary", [""; 4]),
    ("c_varbit", "bit varying", "binary", [""; 4]),
    ("c_date", "date", "date", ["", "@text", "", ""]),
    ("c_time", "time", "time", ["@micros", "@text", "@millis", "@micros"]),
    ("c_time3", "time(3)", "time", ["@millis", "@text", "@millis", "@micros"]),
    ("c_timetz", "time with time zone", "string", [""; 4]),
    ("c_timestamp", "timestamp", "timestamp_ntz", ["@micros", "@text", "@millis", "@micros"]),
    ("c_timestamp0", "timestamp(0)", "timestamp_ntz", ["@millis", "@text", "@millis", "@millis"]),
    ("c_timestamp3", "timestamp(3)", "timestamp_ntz", ["@millis", "@text", "@millis", "@millis"]),
    ("c_timestamptz", "timestamp with time zone", "timestamp", [""; 4]),
    ("c_timestamptz3", "timestamp(3) with time zone", "timestamp", [""; 4]),
    ("c_interval", "interval", "interval", [""; 4]),
    ("c_int_arr", "integer[]", "array<int>", [""; 4]),
    ("c_bigint_arr", "bigint[]", "array<long>", [""; 4]),
    ("c_bool_arr", "boolean[]", "array<boolean>", [""; 4]),
    ("c_double_arr", "double precision[]", "array<double>", [""; 4]),
    ("c_text_arr", "text[], uuid[], enum[]", "array<string>", [""; 4]),
    ("c_numeric_arr", "numeric(10,2)[]", "array<decimal(10,2)>", ["@base64", "@text", "@text", ""]),
    ("c_date_arr", "date[]", "array<date>", ["", "@text", "", ""]),
    ("c_ts_arr", "timestamp[]", "array<timestamp_ntz>", ["@micros", "@text", "@millis", "@micros"]),
    ("c_tstz_arr", "timestamp with time zone[]", "array<timestamp>", [""; 4]),
];

/// Of the file: the columns that hold a mode's values, streamed or (the second of the first mode) of a snapshot.
const MODES: [&[usize]; 4] = [&[4, 5], &[6], &[7], &[8]];
/// Where the table begins in the document.
const BEGIN: &str = "<!-- written by a test: crates/change/src/envelope/type_matrix.rs -->\n";

/// The mode whose value is the truth: it keeps all digits, but writes 24:00 as 00:00.
fn truth(declaration: &str) -> usize {
    usize::from(declaration != "time")
}

fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A value under a declaration; `None` where it is refused.
fn decoded(declaration: &str, token: &str) -> Option<ArrayRef> {
    // the file was written with a space after each comma of an object, as no connector does
    let token = match serde_json::from_str::<serde_json::Value>(token) {
        Ok(object @ serde_json::Value::Object(_)) => object.to_string(),
        _ => token.to_owned(),
    };
    let batch = tests::one_value(declaration, &token, Placeholder::default()).ok()?;
    Some(Arc::clone(batch.rows.column(1)))
}

/// How often a mode kept a value, refused it, or sent another one.
#[derive(Default)]
struct Tally {
    kept: u32,
    refused: Vec<String>,
    other: Vec<String>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.kept > 0 {
            parts.push("exact".to_owned());
        }
        for (what, values) in [("refused", &self.refused), ("**another value**", &self.other)] {
            if !values.is_empty() {
                parts.push(format!("{what}: {}", values.join(", ")));
            }
        }
        f.write_str(&parts.join("; "))
    }
}

#[test]
fn every_type_in_every_mode_is_exact_or_refused_as_the_document_says() {
    let recorded = fs::read_to_string(file("testdata/debezium/types.tsv")).unwrap();
    let lines: Vec<Vec<&str>> = recorded.split('\n').skip(1).map(|line| line.split('\t').collect()).collect();
    let mut by_column = BTreeMap::<&str, Vec<&Vec<&str>>>::new();
    for line in lines.iter().filter(|line| line.len() > 8) {
        by_column.entry(line[1]).or_default().push(line);
    }
    let mut table =
        "| PostgreSQL | declared as | precise, adaptive | string, isostring, hex, interval string | string, \
                     connect | double, adaptive_time_microseconds |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for (column, postgres, declaration, wires) in COLUMNS {
        let mode_of_truth = truth(declaration);
        let mut cells = Vec::new();
        for (mode, fields) in MODES.iter().enumerate() {
            let mut tally = Tally::default();
            for line in &by_column[column] {
                let token = line[MODES[mode_of_truth][0]];
                let truth = decoded(&format!("{declaration}{}", wires[mode_of_truth]), token);
                for &field in *fields {
                    let found = decoded(&format!("{declaration}{}", wires[mode]), line[field]);
                    let value = || {
                        let of_snapshot = if field == 5 { " in a snapshot" } else { "" };
                        let value = if line[3] == "ordinary" { "any".to_owned() } else { format!("`{}`", line[3]) };
                        format!("{value}{of_snapshot}")
                    };
                    match (&truth, &found) {
                        (_, None) => tally.refused.push(value()),
                        (Some(truth), Some(found)) if truth == found => tally.kept += 1,
                        _ => tally.other.push(value()),
                    }
                }
            }
            tally.refused.dedup_by(|b, a| b.starts_with(&**a));
            cells.push(tally.to_string());
        }
        let declared = if wires.iter().all(|wire| *wire == wires[0]) {
            format!("`{declaration}{}`", wires[0])
        } else {
            let each: Vec<_> = wires.iter().map(|wire| format!("`{declaration}{wire}`")).collect();
            each.join(" / ")
        };
        writeln!(table, "| {postgres} | {declared} | {} |", cells.join(" | ")).unwrap();
    }

    let document = fs::read_to_string(file("docs/types.md")).unwrap();
    let (before, old) = document.split_once(BEGIN).unwrap();
    let (_, after) = old.split_once("\n\n").unwrap();
    let renewed = format!("{before}{BEGIN}{table}\n{after}");
    if std::env::var_os("HIGHWATER_UPDATE").is_some() {
        fs::write(file("docs/types.md"), &renewed).unwrap();
    }
    assert_eq!(fs::read_to_string(file("docs/types.md")).unwrap(), renewed, "renew it with HIGHWATER_UPDATE=1");
}
