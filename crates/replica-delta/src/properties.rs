//! [`Properties`]: a table's Delta properties, those that this writer follows.
//!
//! delta-rs passes over a property that it does not know, and one whose value it cannot read, without a word. So what is
//! said here of a table is what its writer does.

use std::collections::BTreeMap;

/// Properties by their names in Delta, of which each is followed by this writer or by the readers of the table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

pub(crate) const CHANGE_DATA_FEED: &str = "delta.enableChangeDataFeed";
pub(crate) const STATS_COLUMNS: &str = "delta.dataSkippingStatsColumns";
pub(crate) const STATS_COUNT: &str = "delta.dataSkippingNumIndexedCols";

/// The form of a value.
#[derive(Debug, Clone, Copy)]
enum Form {
    Boolean,
    /// An integer, 1 or more.
    Positive,
    /// An integer, -1 or more.
    Count,
    /// `interval 30 days`
    Interval,
    /// Column names with commas between them, whose form depends on the columns.
    Columns,
    /// This word.
    Only(&'static str),
}

/// What is followed.
const FOLLOWED: [(&str, Form); 10] = [
    ("delta.checkpointInterval", Form::Positive),
    (STATS_COUNT, Form::Count),
    (STATS_COLUMNS, Form::Columns),
    ("delta.deletedFileRetentionDuration", Form::Interval),
    (CHANGE_DATA_FEED, Form::Boolean),
    ("delta.enableDeletionVectors", Form::Boolean),
    ("delta.enableExpiredLogCleanup", Form::Boolean),
    // the guard rests on it
    ("delta.isolationLevel", Form::Only("Serializable")),
    ("delta.logRetentionDuration", Form::Interval),
    ("delta.targetFileSize", Form::Positive),
];

/// What would break the replica, also where another tool has set it: a name or its beginning, and why.
const BREAKING: [(&str, &str); 4] = [
    ("delta.appendOnly", "a merge replaces files, which an append-only table does not allow"),
    ("delta.columnMapping.", "files are written under the columns' own names"),
    ("delta.constraints.", "a row that was deleted before it was seen is null in all but its key"),
    (
        "delta.setTransactionRetentionDuration",
        "positions, floor and epoch are kept as transactions, which the table would forget",
    ),
];

/// What this writer would not do: a name or its beginning.
const NOT_DONE: [&str; 8] = [
    "delta.autoOptimize.",
    "delta.checkpoint.",
    "delta.checkpointPolicy",
    "delta-rs.",
    "delta.parquet.",
    "delta.randomPrefixLength",
    "delta.randomizeFilePrefixes",
    "delta.tuneFileSizesForRewrites",
];

/// What follows from the other properties.
const OF_THE_PROTOCOL: [&str; 3] = ["delta.feature.", "delta.minReaderVersion", "delta.minWriterVersion"];

impl Properties {
    /// Checks properties. Names that do not begin with `delta.` are the user's own.
    ///
    /// # Errors
    /// A sentence for each that is not known, not followed, or has a value of another form.
    pub fn new(given: BTreeMap<String, String>) -> Result<Self, Vec<String>> {
        let problems: Vec<_> = given.iter().filter_map(|(name, value)| problem(name, value)).collect();
        if problems.is_empty() { Ok(Self(given)) } else { Err(problems) }
    }

    /// The value of a property.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn problem(name: &str, value: &str) -> Option<String> {
    if let Some((_, form)) = FOLLOWED.iter().find(|(known, _)| *known == name) {
        let expected = form.expected();
        return (!form.is_of(value)).then(|| format!("property {name}: expected {expected}"));
    }
    if let Some((_, why)) = BREAKING.iter().find(|(part, _)| is_of(name, part)) {
        return Some(format!("property {name}: {why}"));
    }
    if OF_THE_PROTOCOL.iter().any(|part| is_of(name, part)) {
        return Some(format!(
            "property {name}: the table's protocol follows from its columns and its other properties"
        ));
    }
    if NOT_DONE.iter().any(|part| is_of(name, part)) || name.starts_with("delta.enable") {
        return Some(format!("property {name}: Highwater's writer does not follow it"));
    }
    let is_deltas = name.to_ascii_lowercase().starts_with("delta.");
    let known = FOLLOWED.map(|(name, _)| name).join(", ");
    is_deltas.then(|| format!("property {name}: unknown; expected {known}, or a name of your own without `delta.`"))
}

/// Whether a name is this one, or begins with this beginning, which ends in a point.
fn is_of(name: &str, part: &str) -> bool {
    name == part || part.ends_with('.') && name.starts_with(part)
}

/// Why a table with this configuration cannot be a replica, if it cannot.
pub(crate) fn breaking<'a>(configuration: impl IntoIterator<Item = (&'a String, &'a String)>) -> Option<String> {
    configuration.into_iter().find_map(|(name, value)| {
        let is_off = matches!(value.as_str(), "false" | "none") || name == "delta.columnMapping.maxColumnId";
        // as delta-rs reads it; any other spelling is no level to it
        let is_weak =
            name == "delta.isolationLevel" && matches!(value.as_str(), "writeSerializable" | "snapshotIsolation");
        let found = BREAKING.iter().find(|(part, _)| !is_off && is_of(name, part)).map(|(_, why)| *why);
        let why = found.or(is_weak.then_some("two members could write one key twice"))?;
        Some(format!("the table has the property {name} = {value}: {why}"))
    })
}

impl Form {
    fn is_of(self, value: &str) -> bool {
        let integer = value.parse::<i64>().ok();
        match self {
            Self::Boolean => matches!(value, "true" | "false"),
            Self::Positive => integer.is_some_and(|integer| integer >= 1),
            Self::Count => integer.is_some_and(|integer| integer >= -1),
            Self::Interval => is_interval(value),
            Self::Columns => true,
            Self::Only(word) => value == word,
        }
    }

    fn expected(self) -> String {
        match self {
            Self::Boolean => "true or false".to_owned(),
            Self::Positive => "an integer, 1 or more (a size in bytes)".to_owned(),
            Self::Count => "an integer, or -1 for all columns".to_owned(),
            Self::Interval => "`interval N UNIT` with seconds, minutes, hours, days or weeks".to_owned(),
            Self::Columns => "column names with commas between them".to_owned(),
            Self::Only(word) => format!("\"{word}\": the guard rests on it"),
        }
    }
}

/// As delta-rs reads one: no months or years, no fractions.
fn is_interval(value: &str) -> bool {
    const UNITS: [&str; 5] = ["second", "minute", "hour", "day", "week"];
    let words: Vec<&str> = value.split_whitespace().collect();
    let ["interval", number, unit] = words[..] else { return false };
    let unit = unit.strip_suffix('s').unwrap_or(unit);
    // a span that is no duration would overflow in delta-rs
    number.parse::<u32>().is_ok() && UNITS.contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, value: &str) -> String {
        Properties::new([(name.to_owned(), value.to_owned())].into()).err().unwrap_or_default().join("; ")
    }

    #[test]
    fn what_is_followed_is_taken_in_the_form_that_delta_rs_reads() {
        for (name, value) in [
            ("delta.targetFileSize", "67108864"),
            ("delta.checkpointInterval", "10"),
            ("delta.dataSkippingNumIndexedCols", "-1"),
            ("delta.dataSkippingStatsColumns", "id,`a b`"),
            ("delta.logRetentionDuration", "interval 30 days"),
            ("delta.deletedFileRetentionDuration", "interval 1 week"),
            ("delta.enableChangeDataFeed", "true"),
            ("delta.enableDeletionVectors", "false"),
            ("delta.enableExpiredLogCleanup", "false"),
            ("delta.isolationLevel", "Serializable"),
            ("owner", "team orders"),
            ("highwater.note", ""),
        ] {
            assert_eq!(problems(name, value), "", "{name} = {value}");
        }
    }

    #[test]
    fn what_delta_rs_would_pass_over_is_refused() {
        for (name, value, expected) in [
            ("delta.targetFileSize", "64mb", "expected an integer, 1 or more (a size in bytes)"),
            ("delta.targetFileSize", "0", "expected an integer, 1 or more"),
            ("delta.enableChangeDataFeed", "yes", "expected true or false"),
            ("delta.logRetentionDuration", "30 days", "expected `interval N UNIT`"),
            ("delta.logRetentionDuration", "interval 1 month", "expected `interval N UNIT`"),
            ("delta.deletedFileRetentionDuration", "interval -1 days", "expected `interval N UNIT`"),
            ("delta.dataSkippingNumIndexedCols", "-2", "expected an integer, or -1"),
            ("delta.isolationLevel", "WriteSerializable", "expected \"Serializable\": the guard rests on it"),
            ("delta.appendOnly", "true", "a merge replaces files"),
            ("delta.columnMapping.mode", "name", "under the columns' own names"),
            ("delta.constraints.positive", "amount > 0", "is null in all but its key"),
            ("delta.setTransactionRetentionDuration", "interval 7 days", "the table would forget"),
            ("delta.minWriterVersion", "7", "the table's protocol follows"),
            ("delta.feature.rowTracking", "supported", "the table's protocol follows"),
            ("delta.enableRowTracking", "true", "does not follow it"),
            ("delta.autoOptimize.autoCompact", "true", "does not follow it"),
            ("delta.parquet.compression.codec", "zstd", "does not follow it"),
            ("delta.targetFilesize", "1", "unknown; expected delta.checkpointInterval"),
            ("Delta.targetFileSize", "1", "unknown; expected"),
        ] {
            let found = problems(name, value);
            assert!(found.contains(name) && found.contains(expected), "{name} = {value}: {found}");
        }
    }

    #[test]
    fn a_table_that_another_tool_has_set_up_is_refused_where_a_property_would_break_it() {
        let breaking = |name: &str, value: &str| breaking([(&name.to_owned(), &value.to_owned())]);
        for (name, value) in [
            ("delta.appendOnly", "true"),
            ("delta.columnMapping.mode", "name"),
            ("delta.constraints.positive", "amount > 0"),
            ("delta.setTransactionRetentionDuration", "interval 7 days"),
            ("delta.isolationLevel", "writeSerializable"),
        ] {
            assert!(breaking(name, value).is_some_and(|why| why.contains(name)), "{name}");
        }
        for (name, value) in [
            ("delta.appendOnly", "false"),
            ("delta.columnMapping.mode", "none"),
            ("delta.columnMapping.maxColumnId", "7"),
            ("delta.autoOptimize.autoCompact", "true"),
            // what other engines call it: delta-rs reads no level and keeps to the strict one
            ("delta.isolationLevel", "WriteSerializable"),
        ] {
            assert_eq!(breaking(name, value), None, "{name}");
        }
    }
}
