//! No value of a row is in an error.

use serde::de::IgnoredAny;

use crate::{Malformed, Problem, RecordRef, TableSchema};

/// What the fuzzer writes into values; no name of a column and no text of ours has it.
const MARKER: &str = "SECRET";

/// A column that an error names is one of the table's, or the record has a field of that name; and whatever else an error
/// says is ours.
pub(super) fn check(malformed: &Malformed, record: RecordRef<'_>, schema: &TableSchema) {
    if let Some(quoted) = &malformed.column {
        let is_known = schema.columns().iter().any(|column| quoted.starts_with(&format!("`{}`", column.source)));
        let name = quoted.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or_default();
        let mut parts = [record.key, record.value].into_iter().flatten();
        assert!(is_known || parts.any(|json| has_field(json, name)), "an error names what is no column");
    }
    // which names two columns, and those may be called anything
    if !matches!(malformed.problem, Problem::NewColumn(_)) {
        assert!(!malformed.problem.to_string().contains(MARKER), "an error has a value");
    }
}

/// Whether this string stands before a colon anywhere. What is no JSON tells nothing: its fault may come right after a name.
fn has_field(json: &[u8], name: &str) -> bool {
    let is_json = serde_json::from_slice::<IgnoredAny>(json).is_ok();
    let quotes = (0..json.len()).filter(|&at| json[at] == b'"');
    !is_json
        || quotes.map(|at| &json[at..]).any(|from| {
            let mut strings = serde_json::Deserializer::from_slice(from).into_iter::<String>();
            let is_name = strings.next().is_some_and(|text| text.is_ok_and(|text| text == name));
            is_name && from[strings.byte_offset()..].trim_ascii_start().starts_with(b":")
        })
}
