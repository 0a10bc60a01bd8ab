//! The table of docs/types.md, made of what became of each value, and `testdata/debezium/types.tsv`, made of what the connector wrote.
//! `HIGHWATER_UPDATE=1` renews both; otherwise they are compared.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::value::RawValue;

use super::columns::{COLUMNS, Column};
use super::modes::{MODES, Mode};
use super::source::{Source, Text};

/// Where the table begins in the document.
const BEGIN: &str = "<!-- written by a test: tests/tests/stack/types.rs -->\n";
/// Set it to renew what a test compares.
const UPDATE: &str = "HIGHWATER_UPDATE";

/// How a value comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Streamed,
    Snapshot,
}

/// What becomes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Exact,
    Refused,
    Another(Text),
}

/// By mode, way, column and index of the value; without the columns that a mode leaves out.
pub(crate) type Outcomes = BTreeMap<(Mode, Way, &'static str, usize), Outcome>;

/// A value as the document and the recorded file write it: in quotes, on one line.
fn quoted(value: &str) -> String {
    format!("'{}'", value.escape_debug().to_string().replace("\\'", "''").replace("\\\"", "\""))
}

fn cell(outcomes: &Outcomes, mode: Mode, column: &Column) -> String {
    let (mut exact, mut refused, mut another) = (0, Vec::new(), Vec::new());
    for (index, value) in column.values.iter().enumerate() {
        let outcome = |way| outcomes.get(&(mode, way, column.name, index));
        let (Some(streamed), Some(snapshot)) = (outcome(Way::Streamed), outcome(Way::Snapshot)) else {
            return "left out".into();
        };
        let ways = [(streamed, " streamed"), (snapshot, " in a snapshot")];
        let ways = if streamed == snapshot { &[(streamed, "")] } else { &ways[..] };
        for (outcome, way) in ways {
            let value = format!("`{}`{way}", quoted(value));
            match outcome {
                Outcome::Exact => exact += 1,
                Outcome::Refused => refused.push(value),
                Outcome::Another(Some(found)) => another.push(format!("{value} as `{}`", quoted(found))),
                Outcome::Another(None) => another.push(format!("{value} as null")),
            }
        }
    }
    let mut parts = Vec::new();
    if exact > 0 {
        parts.push("exact".to_owned());
    }
    if refused.len() == column.values.len() {
        refused = vec!["all".into()];
    }
    for (what, values) in [("refused", refused), ("**another value**", another)] {
        if !values.is_empty() {
            parts.push(format!("{what}: {}", values.join(", ")));
        }
    }
    parts.join("; ")
}

/// Compares the document's table with what became of each value.
pub(crate) fn check_table(outcomes: &Outcomes) -> Result<()> {
    let heads = MODES.map(Mode::title).join(" | ");
    let mut table = format!("| PostgreSQL | declared as | {heads} |\n|---|---{}|\n", "|---".repeat(MODES.len()));
    for column in COLUMNS {
        let mut declarations: Vec<_> = MODES.iter().filter_map(|mode| column.kind.declaration(*mode)).collect();
        if declarations.iter().all(|other| *other == declarations[0]) {
            declarations.truncate(1);
        }
        let cells: Vec<_> = MODES.iter().map(|mode| cell(outcomes, *mode, column).replace('|', "\\|")).collect();
        writeln!(table, "| {} | `{}` | {} |", column.title(), declarations.join("` / `"), cells.join(" | "))?;
    }
    let path = file("docs/types.md");
    let document = std::fs::read_to_string(&path)?;
    let (before, old) = document.split_once(BEGIN).context("the document has no place for the table")?;
    let (_, after) = old.split_once("\n\n").context("the table has no end")?;
    settle(&path, &format!("{before}{BEGIN}{table}\n{after}"))
}

/// Compares the recorded file with what the connectors wrote of each value; `rows` are the ids, by way and index of the case.
pub(crate) fn check_recorded(
    source: &Source,
    cases: &[(&'static Column, usize)],
    id: fn(Way, usize) -> i64,
) -> Result<()> {
    let mut written = BTreeMap::new();
    for mode in MODES {
        for record in source.records(mode)? {
            type Fields = HashMap<String, Box<RawValue>>;
            let envelope: Fields = serde_json::from_slice(record.value.as_deref().context("a tombstone")?)?;
            let row: Fields = serde_json::from_str(envelope["after"].get())?;
            written.insert((mode, row["id"].get().parse::<i64>()?), row);
        }
    }
    let heads = MODES.map(|mode| format!("{0} streamed\t{0} in a snapshot", mode.title()));
    let mut lines = format!("PostgreSQL\tvalue\t{}\n", heads.join("\t"));
    for (index, (column, value)) in cases.iter().enumerate() {
        write!(lines, "{}\t{}", column.title(), quoted(column.values[*value]))?;
        for (mode, way) in MODES.iter().flat_map(|mode| [(*mode, Way::Streamed), (*mode, Way::Snapshot)]) {
            let row =
                written.get(&(mode, id(way, index))).with_context(|| format!("no {way:?} row of {}", column.name))?;
            write!(lines, "\t{}", row.get(column.name).map_or("", |token| token.get()))?;
        }
        lines.push('\n');
    }
    settle(&file("testdata/debezium/types.tsv"), &lines)
}

fn settle(path: &Path, text: &str) -> Result<()> {
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path, text)?;
    }
    let kept = std::fs::read_to_string(path)?;
    let differing = kept.lines().zip(text.lines()).find(|(kept, found)| kept != found);
    ensure!(kept == text, "{} is not what was found, renew it with {UPDATE}=1: {differing:?}", path.display());
    Ok(())
}

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
