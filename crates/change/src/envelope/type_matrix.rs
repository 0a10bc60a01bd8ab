//! The type matrix: every value of `testdata/debezium/types.tsv`, as Debezium wrote it in each of its modes, decoded
//! under the declarations of docs/types.md, becomes what the table there says. Both were written by the test of the
//! real stack (tests/tests/stack/types.rs), which compares with PostgreSQL itself; this one needs no server.

use std::{collections::BTreeMap, fs, path::PathBuf};

use arrow::array::ArrayRef;

use super::*;
use crate::Placeholder;

/// Where the table begins in the document.
const BEGIN: &str = "<!-- written by a test: tests/tests/stack/types.rs -->\n";
/// As the document tells apart how a value came; in the order of the file's columns, two for each mode.
const WAYS: [&str; 2] = [" streamed", " in a snapshot"];

fn read(path: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

/// A type's line of the table.
struct Line<'a> {
    /// One for each mode, or one for all of them.
    declarations: Vec<&'a str>,
    /// One for each mode.
    cells: Vec<&'a str>,
}

fn table(document: &str) -> BTreeMap<&str, Line<'_>> {
    let (_, table) = document.split_once(BEGIN).unwrap();
    let (table, _) = table.split_once("\n\n").unwrap();
    let lines = table.lines().skip(2).map(|line| {
        let mut cells = line.trim_start_matches("| ").trim_end_matches(" |").split(" | ");
        let (title, declarations) = (cells.next().unwrap(), cells.next().unwrap());
        let declarations = declarations.split(" / ").map(|declaration| declaration.trim_matches('`')).collect();
        (title, Line { declarations, cells: cells.collect() })
    });
    lines.collect()
}

/// Whether a list of a cell's values has this one, for the way it came.
fn lists(list: &str, value: &str, way: &str) -> bool {
    let value = format!("`{value}`");
    let mut found = list.match_indices(&value).filter(|(at, _)| !list[..*at].ends_with(" as "));
    list == "all"
        || found.any(|(at, _)| {
            let after = &list[at + value.len()..];
            after.starts_with(way) || !WAYS.iter().any(|other| after.starts_with(other))
        })
}

/// A value under a declaration; `None` where it is refused.
fn decoded(declaration: &str, token: &str) -> Option<ArrayRef> {
    let batch = tests::one_value(declaration, token, Placeholder::default()).ok()?;
    Some(Arc::clone(batch.rows.column(1)))
}

#[test]
fn every_type_in_every_mode_is_exact_or_refused_as_the_document_says() {
    let (document, recorded) = (read("docs/types.md"), read("testdata/debezium/types.tsv"));
    let table = table(&document);
    for line in recorded.lines().skip(1) {
        let mut fields = line.split('\t');
        let (title, value) = (fields.next().unwrap(), fields.next().unwrap());
        let Line { declarations, cells } = &table[title];
        let (mut exact, mut another) = (Vec::new(), Vec::new());
        for (index, token) in fields.enumerate() {
            let (mode, way) = (index / WAYS.len(), WAYS[index % WAYS.len()]);
            let cell = cells[mode].replace("\\|", "|");
            if cell == "left out" {
                assert_eq!(token, "", "{title}, {value}, mode {mode}{way}");
                continue;
            }
            let (rest, others) = cell.split_once("**another value**: ").unwrap_or((&cell, ""));
            let refused = rest.split_once("refused: ").map_or("", |(_, refused)| refused.trim_end_matches("; "));
            let found = decoded(declarations.get(mode).unwrap_or(&declarations[0]), token);
            assert_eq!(found.is_none(), lists(refused, value, way), "{title}, {value}, mode {mode}{way}: {token}");
            if let Some(found) = found {
                if lists(others, value, way) { &mut another } else { &mut exact }.push(found);
            }
        }
        assert!(exact.iter().all(|other| exact[..1].contains(other)), "{title}, {value}: {exact:?}");
        assert!(exact.iter().all(|exact| !another.contains(exact)), "{title}, {value}: {exact:?}, {another:?}");
    }
}
