//! Every type of PostgreSQL on the real stack, under several sets of the connector's modes: PostgreSQL and DataFusion write each value
//! as a text, in SQL, and the texts are compared.

#[path = "types/cases.rs"]
mod cases;
#[path = "types/columns.rs"]
mod columns;
#[path = "types/document.rs"]
mod document;
#[path = "types/kinds.rs"]
mod kinds;
#[path = "types/losses.rs"]
mod losses;
#[path = "types/modes.rs"]
pub(crate) mod modes;
#[path = "types/random.rs"]
mod random;
#[path = "types/source.rs"]
mod source;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use highwater_tests::highwater::Highwater;
use highwater_tests::stack::shared;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;

use self::cases::{Witness, cases, id, rows};
use self::columns::{COLUMNS, Column};
use self::document::{Outcome, Outcomes, Way, check_recorded, check_table};
use self::kinds::Kind;
use self::modes::{MODES, Mode};
use self::source::{Rows, Source};
use crate::kills::SEED;
use crate::verdict::figures;

#[test]
fn every_value_of_every_type_becomes_what_the_document_says_in_every_mode() -> Result<()> {
    let start = Instant::now();
    let stack = shared()?;
    let source = Source::open(&stack, "types", |_, _| true)?;
    let highwater = source.configure(&stack.scratch.folder("types")?)?;
    let mut witness = Witness::new(&source, &highwater);
    source.insert(&rows(Way::Snapshot, 0))?;
    source.connect()?;
    let mut process = highwater.run()?;
    source.delivered(&highwater, &mut process)?;
    let mut found = witness.outcomes(&[Way::Snapshot], 0)?;
    source.insert(&rows(Way::Streamed, 0))?;
    source.delivered(&highwater, &mut process)?;
    found.extend(witness.outcomes(&[Way::Streamed], 0)?);
    check_recorded(&source, &cases(), id)?;

    let both = [Way::Snapshot, Way::Streamed];
    let as_inserted = |what: &str, again: Outcomes| {
        for ((mode, way, column, value), outcome) in again {
            let inserted = &found[&(mode, Way::Streamed, column, value)];
            let at = format!("{}, column {column}, value {value}, {what} where there was a {way:?} row", mode.name());
            ensure!(outcome == *inserted, "{at}: {outcome:?}, but inserted: {inserted:?}");
        }
        Ok(())
    };
    both.iter().try_for_each(|way| source.update(&rows(*way, 1)))?;
    source.delivered(&highwater, &mut process)?;
    as_inserted("updated", witness.outcomes(&both, 1)?)?;
    source.delete()?;
    source.delivered(&highwater, &mut process)?;
    witness.none_left()?;
    both.iter().try_for_each(|way| source.insert(&rows(*way, 2)))?;
    source.delivered(&highwater, &mut process)?;
    as_inserted("inserted again", witness.outcomes(&both, 2)?)?;
    highwater.stop(process)?;
    check_table(&found)?;

    let count = |wanted: fn(&Outcome) -> bool| found.values().filter(|outcome| wanted(outcome)).count();
    figures(&format!(
        "types: columns={} values={} modes={} exact={} refused={} another={} dead_letters={} seconds={:.0}",
        COLUMNS.len(),
        cases().len(),
        MODES.len(),
        count(|outcome| *outcome == Outcome::Exact),
        count(|outcome| *outcome == Outcome::Refused),
        count(|outcome| matches!(outcome, Outcome::Another(_))),
        highwater.dead_letters()?.len(),
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Rows of random values that come in a snapshot, and as many that are streamed.
const ROWS: i64 = 300;
/// One in so many cells is null.
const NULLS: u32 = 12;
/// At most so many differences are named.
const NAMED: usize = 20;

/// Has `reconcile` compare all rows under the recommended modes; then changes each column in a row of its own, of which nobody is
/// told, has it named, and repaired. Gives how many columns those were.
fn reconcile(source: &Source, highwater: &Highwater, random: &mut StdRng) -> Result<usize> {
    let mode = Mode::Recommended;
    source.let_in(highwater, mode)?;
    let command = |more: &[&str]| -> Result<Value> {
        let output = highwater.output(&[&["reconcile", mode.name(), "--json", "--grace", "2"], more].concat())?;
        serde_json::from_str(&output.stdout).with_context(|| format!("{}\n{}", output.stdout, output.stderr))
    };
    let report = command(&["--show-values"])?;
    ensure!(report["verdict"] == "equal" && report["source"]["rows"].as_u64() > Some(0), "{report}");
    // some columns cannot be told apart after what the connector does
    let columns: Vec<_> = source.columns(mode).filter(|column| column.kind != Kind::VarBits).collect();
    let mut expected = BTreeMap::new();
    for (id, column) in (1..).zip(&columns) {
        expected.insert(id.to_string(), column.name.to_owned());
    }
    source.change_unseen((1..).zip(&columns).map(|(id, column)| (id, *column, (column.random)(random))))?;
    let named = |report: &Value| -> Result<BTreeMap<String, String>> {
        let rows = report["drift"].as_array().context("no drift")?.iter().map(|row| {
            let names = row["columns"].as_array().into_iter().flatten().filter_map(|column| column["column"].as_str());
            Ok((row["key"][0].as_str().context("no key")?.to_owned(), names.collect::<Vec<_>>().join(",")))
        });
        rows.collect()
    };
    let report = command(&["--repair", "--show-values"])?;
    let found = named(&report)?;
    ensure!(report["verdict"] == "drift" && found.iter().all(|(id, name)| expected.get(id) == Some(name)), "{report}");
    let unchanged: Vec<_> = expected.iter().filter(|(id, _)| !found.contains_key(*id)).map(|(_, name)| name).collect();
    ensure!(unchanged.len() <= 6, "not named: {unchanged:?}");
    let report = command(&["--show-values"])?;
    ensure!(report["verdict"] == "equal", "{report}");
    Ok(found.len())
}

fn random_rows(random: &mut StdRng, ids: std::ops::RangeInclusive<i64>) -> Rows {
    let cell = |column: &Column, random: &mut StdRng| {
        let is_null = !column.is_random() || random.random_ratio(1, NULLS);
        if is_null { None } else { Some((column.random)(random)) }
    };
    ids.map(|id| (id, COLUMNS.iter().map(|column| cell(column, random)).collect())).collect()
}

/// Compares all rows of each mode; gives how many values, that is cells that are not null, were equal.
fn compare(source: &Source, highwater: &Highwater) -> Result<usize> {
    let (mut values, mut differences) = (0, Vec::new());
    for mode in MODES {
        let columns: Vec<_> = source.columns(mode).collect();
        let ours = source.rows(mode, |column| column.kind.arrives(mode, column.name))?;
        let theirs = source.replica(highwater, mode)?;
        ensure!(ours.keys().eq(theirs.keys()), "{}: {} rows for {}", mode.name(), theirs.len(), ours.len());
        for ((id, ours), theirs) in ours.iter().zip(theirs.values()) {
            for (column, (expected, found)) in columns.iter().zip(ours.iter().zip(theirs)) {
                values += usize::from(expected.is_some());
                if expected != found {
                    let (mode, column) = (mode.name(), column.name);
                    differences.push(format!("{mode}, column {column}, row {id}: {found:?}, expected {expected:?}"));
                }
            }
        }
    }
    let count = differences.len();
    differences.truncate(NAMED);
    ensure!(count == 0, "{count} of {values} values differ:\n{}", differences.join("\n"));
    Ok(values)
}

#[test]
fn random_values_of_every_type_arrive_as_they_are_by_snapshot_insert_and_update() -> Result<()> {
    let start = Instant::now();
    let seed: u64 = match std::env::var(SEED) {
        Ok(seed) => seed.parse().with_context(|| format!("{SEED} is no number"))?,
        Err(_) => rand::random_range(0..1_000_000_000),
    };
    figures(&format!("random values: {SEED}={seed}"));
    let random = &mut StdRng::seed_from_u64(seed);
    let stack = shared()?;
    let source = Source::open(&stack, "random_types", |column, mode| {
        column.is_random() && column.kind.arrives(mode, column.name).is_some()
    })?;
    let highwater = source.configure(&stack.scratch.folder("random_types")?)?;
    source.insert(&random_rows(random, 1..=ROWS))?;
    source.connect()?;
    let mut process = highwater.run()?;
    source.insert(&random_rows(random, ROWS + 1..=2 * ROWS))?;
    source.delivered(&highwater, &mut process)?;
    highwater.no_dead_letters()?;
    let mut values = compare(&source, &highwater)?;
    source.update(&random_rows(random, 1..=2 * ROWS))?;
    source.delivered(&highwater, &mut process)?;
    highwater.no_dead_letters()?;
    values += compare(&source, &highwater)?;
    let reconciled = reconcile(&source, &highwater, random)?;
    highwater.stop(process)?;
    ensure!(values >= 100_000, "only {values} values");
    ensure!(reconciled >= 50, "only {reconciled} columns were changed and named");
    figures(&format!(
        "random values: values={values} columns={} changed_and_named={reconciled} rows={} modes={} different=0 seconds={:.0}",
        COLUMNS.len(),
        2 * ROWS,
        MODES.len(),
        start.elapsed().as_secs_f64()
    ));
    Ok(())
}
