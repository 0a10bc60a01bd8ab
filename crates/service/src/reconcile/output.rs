//! A report on stdout, for a person or as JSON.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result};
use change::comparable::Digest;
use reconcile::{Difference, Drift, Repaired, Report, Verdict};
use serde_json::{Value, json};
use source_postgres::{ComparedTable, Key};

use crate::{cli::ReconcileArgs, print};

/// What was compared.
pub(super) struct Sides<'a> {
    pub(super) name: &'a str,
    pub(super) table: &'a ComparedTable,
}

pub(super) fn print(
    Sides { name, table }: Sides<'_>,
    report: &Report,
    repaired: Option<Repaired>,
    args: &ReconcileArgs,
) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout());
    if args.json {
        writeln!(out, "{}", as_json(name, report, repaired, args.show_values))?;
        return Ok(out.flush()?);
    }
    let word = word(report.verdict());
    let (ranges, differing) = report.ranges;
    writeln!(
        out,
        "{name}: {word} at LSN {}, version {}: {ranges} range(s), {differing} of them looked into; {} row(s) had changed \
         since and were compared one by one in {} look(s)",
        report.lsn, report.version, report.moved, report.looks
    )?;
    for (side, digest) in [("source", &report.source), ("replica", &report.replica)] {
        writeln!(out, "  {side:<8} rows={} ordered={} sum={}", digest.rows, digest.ordered, digest.sum)?;
    }
    for column in &report.left_out {
        writeln!(out, "  column `{}` was not compared: {}", column.name, column.reason)?;
    }
    if report.unsettled > 0 {
        writeln!(out, "  {} row(s) changed at every look: compare them when they rest", report.unsettled)?;
    }
    if !report.drift.is_empty() {
        writeln!(out, "{}", drift(&report.drift, args.show_values))?;
        let more = if report.has_more { ", and there are more: --limit names them" } else { "" };
        writeln!(out, "  {} row(s) differ{more}", report.drift.len())?;
    }
    if let Some(Repaired { version, written, deleted, guarded }) = repaired {
        let version = version.map_or_else(String::new, |version| format!(" in version {version}"));
        writeln!(out, "  repaired{version}: {written} written, {deleted} deleted, {guarded} had changed meanwhile")?;
    }
    if args.show_sql {
        writeln!(out, "{}", table.oracle(args.range_rows))?;
    }
    Ok(out.flush()?)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::Drift => "drift",
        Verdict::Unsettled => "not settled",
    }
}

fn drift(rows: &[Drift], shows_values: bool) -> comfy_table::Table {
    let mut header = vec!["key", "difference", "the replica's LSN", "columns"];
    if shows_values {
        header.extend(["source", "replica"]);
    }
    let mut table = print::headed(&header);
    for row in rows {
        let columns: &[_] = if let Difference::Different(columns) = &row.difference { columns } else { &[] };
        let lines = |of: &dyn Fn(&reconcile::report::ColumnDifference) -> String| {
            columns.iter().map(of).collect::<Vec<_>>().join("\n")
        };
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "null".to_owned());
        let mut cells = vec![
            key(&row.key),
            row.difference.word().to_owned(),
            row.order.map_or_else(|| "-".to_owned(), |order| order.lsn.to_string()),
            lines(&|column| column.column.clone()),
        ];
        if shows_values {
            cells.extend([lines(&|column| text(&column.source)), lines(&|column| text(&column.replica))]);
        }
        table.add_row(cells);
    }
    table
}

/// A key as it is given on the command line.
fn key(key: &Key) -> String {
    match key.as_slice() {
        [Some(text)] => text.clone(),
        parts => json!(parts).to_string(),
    }
}

/// Says how to go on.
#[expect(clippy::print_stderr, reason = "the answer to the user")]
pub(super) fn dry_run() {
    eprintln!("highwater: nothing was changed; with --apply, rows that differ are repaired");
}

/// Appends the rows that were repaired to a file.
pub(super) fn record(path: &Path, name: &str, report: &Report) -> Result<()> {
    let doing = || format!("writing what was repaired to {}", path.display());
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path).with_context(doing)?;
    let mut out = io::BufWriter::new(file);
    let at = jiff::Timestamp::now();
    for row in &report.drift {
        let mut line = row_as_json(row, false);
        line["table"] = json!(name);
        line["at"] = json!(at.to_string());
        writeln!(out, "{line}").with_context(doing)?;
    }
    out.flush().with_context(doing)
}

fn row_as_json(row: &Drift, shows_values: bool) -> Value {
    let columns: &[_] = if let Difference::Different(columns) = &row.difference { columns } else { &[] };
    let named = columns.iter().map(|column| {
        let mut named = json!({"column": column.column});
        if shows_values {
            named["source"] = json!(column.source);
            named["replica"] = json!(column.replica);
        }
        named
    });
    let lsn = row.order.map(|order| order.lsn.to_string());
    json!({"key": row.key, "difference": row.difference.word(), "lsn": lsn, "columns": named.collect::<Vec<_>>()})
}

fn as_json(name: &str, report: &Report, repaired: Option<Repaired>, shows_values: bool) -> Value {
    let digest =
        |digest: &Digest| json!({"rows": digest.rows, "ordered": digest.ordered, "sum": digest.sum.to_string()});
    let drift: Vec<_> = report.drift.iter().map(|row| row_as_json(row, shows_values)).collect();
    let repaired = repaired.map(|Repaired { version, written, deleted, guarded }| {
        json!({"version": version, "written": written, "deleted": deleted, "guarded": guarded})
    });
    let left_out: Vec<_> =
        report.left_out.iter().map(|column| json!({"column": column.name, "reason": column.reason})).collect();
    json!({
        "table": name,
        "verdict": word(report.verdict()),
        "lsn": report.lsn.to_string(),
        "version": report.version,
        "source": digest(&report.source),
        "replica": digest(&report.replica),
        "ranges": report.ranges.0,
        "ranges_looked_into": report.ranges.1,
        "moved": report.moved,
        "looks": report.looks,
        "drift": drift,
        "has_more": report.has_more,
        "unsettled": report.unsettled,
        "not_compared": left_out,
        "repaired": repaired,
        "took_ms": {
            "waiting": report.took.waiting.as_millis(),
            "replica": report.took.replica.as_millis(),
            "source": report.took.source.as_millis(),
            "narrowing": report.took.narrowing.as_millis(),
            "settling": report.took.settling.as_millis(),
        },
    })
}
