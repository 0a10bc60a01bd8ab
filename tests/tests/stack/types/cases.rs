//! Every value in a row of its own, so that what becomes of it is its own doing, and [`Witness`], who looks at each.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use highwater_tests::highwater::Highwater;
use serde_json::Value;

use super::columns::{COLUMNS, Column};
use super::document::{Outcome, Outcomes, Way};
use super::modes::{MODES, Mode};
use super::source::{Rows, Source};

/// Every column with each of its values, by index.
pub(crate) fn cases() -> Vec<(&'static Column, usize)> {
    COLUMNS.iter().flat_map(|column| (0..column.values.len()).map(move |value| (column, value))).collect()
}

/// The row of a case; the one after the last case's holds nothing but nulls.
pub(crate) fn id(way: Way, case: usize) -> i64 {
    let base = if way == Way::Snapshot { 1_000 } else { 2_000 };
    base + i64::try_from(case).unwrap_or_default()
}

/// The value of a case after so many changes.
fn shifted((column, value): (&'static Column, usize), changes: usize) -> usize {
    (value + changes) % column.values.len()
}

/// The rows of all cases after so many changes, and the one of nulls.
pub(crate) fn rows(way: Way, changes: usize) -> Rows {
    let nulls = vec![None; COLUMNS.len()];
    let row = |case: (&'static Column, usize)| {
        let text = case.0.values[shifted(case, changes)];
        let cell = |column: &Column| (column.name == case.0.name).then(|| text.to_owned());
        COLUMNS.iter().map(cell).collect()
    };
    let rows = cases().into_iter().map(row).chain([nulls]);
    rows.enumerate().map(|(case, row)| (id(way, case), row)).collect()
}

/// Looks at the replicas after each step.
#[derive(Debug)]
pub(crate) struct Witness<'a> {
    source: &'a Source,
    highwater: &'a Highwater,
    /// Each replica after the step before.
    before: BTreeMap<Mode, Rows>,
    /// The dead letters by then.
    letters: usize,
}

impl<'a> Witness<'a> {
    pub(crate) fn new(source: &'a Source, highwater: &'a Highwater) -> Self {
        Self { source, highwater, before: BTreeMap::new(), letters: 0 }
    }

    /// What became of the rows of some ways with their newest change. Every other cell must hold null, and a row that was refused must be as
    /// it was before.
    pub(crate) fn outcomes(&mut self, ways: &[Way], changes: usize) -> Result<Outcomes> {
        let refused = self.refused()?;
        let mut outcomes = Outcomes::new();
        for mode in MODES {
            let columns: Vec<_> = self.source.columns(mode).collect();
            let ours = self.source.rows(mode, |column| Some(column.kind.source(column.name)))?;
            let theirs = self.source.replica(self.highwater, mode)?;
            let before = self.before.insert(mode, theirs.clone()).unwrap_or_default();
            let cases = cases().into_iter().enumerate();
            for (index, case) in cases {
                let (column, value) = (case.0, shifted(case, changes));
                let place = columns.iter().position(|carried| carried.name == column.name);
                for way in ways {
                    let id = id(*way, index);
                    let at = format!("{}, column {}, value {value}, row {id}", mode.name(), column.name);
                    let outcome = match (refused.get(&(mode, id)), theirs.get(&id), place) {
                        (Some(named), kept, Some(_)) => {
                            ensure!(named == column.name, "{at}: refused for {named}");
                            ensure!(kept == before.get(&id), "{at}: refused, and yet the replica's row has changed");
                            Outcome::Refused
                        }
                        (None, Some(found), place) => {
                            let expected = &ours[&id];
                            let differs = |other: &usize| Some(*other) != place && expected[*other] != found[*other];
                            if let Some(other) = (0..columns.len()).find(differs) {
                                let (name, found, expected) = (columns[other].name, &found[other], &expected[other]);
                                bail!("{at}: {name} has {found:?} for {expected:?}");
                            }
                            let Some(place) = place else { continue };
                            let (expected, found) = (&expected[place], &found[place]);
                            if expected == found { Outcome::Exact } else { Outcome::Another(found.clone()) }
                        }
                        (refused, found, _) => bail!("{at}: refused={refused:?}, found={}", found.is_some()),
                    };
                    outcomes.insert((mode, *way, column.name, value), outcome);
                }
            }
            for nulls in ways.iter().map(|way| id(*way, self::cases().len())) {
                ensure!(theirs.get(&nulls) == ours.get(&nulls), "{}: the row of nulls {nulls}", mode.name());
            }
            let more = theirs.keys().find(|id| !ours.contains_key(id));
            ensure!(more.is_none(), "{}: row {more:?} is too many", mode.name());
        }
        Ok(outcomes)
    }

    /// Insists on replicas without rows, and on no new dead letter.
    pub(crate) fn none_left(&mut self) -> Result<()> {
        ensure!(self.refused()?.is_empty(), "deletes were refused");
        for mode in MODES {
            let left = self.source.replica(self.highwater, mode)?;
            ensure!(left.is_empty(), "{}: {} rows are left", mode.name(), left.len());
            self.before.insert(mode, left);
        }
        Ok(())
    }

    /// The column that each new dead letter names, by mode and row.
    fn refused(&mut self) -> Result<BTreeMap<(Mode, i64), String>> {
        let letters = self.highwater.dead_letters()?;
        let mut refused = BTreeMap::new();
        for letter in &letters[self.letters..] {
            let mode = MODES.into_iter().find(|mode| letter["table"] == mode.name()).context("a letter of no table")?;
            let key: Value = serde_json::from_str(letter["key"].as_str().context("a letter without a key")?)?;
            let reason = letter["reason"].as_str().unwrap_or_default();
            let column = reason.split('`').nth(1).with_context(|| format!("no column in: {reason}"))?;
            refused.insert((mode, key["id"].as_i64().context("no id")?), column.to_owned());
        }
        ensure!(refused.len() == letters.len() - self.letters, "a record was refused twice");
        self.letters = letters.len();
        Ok(refused)
    }
}
