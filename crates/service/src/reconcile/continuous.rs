//! `reconcile --continuous`: walks over the keys of the tables again and again, a part at a time, each part as of a moment of
//! its own, and writes down up to where each table is known to be equal.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use change::Lsn;
use jiff::Timestamp;
use monitor::status::Verified;
use reconcile::{Scope, Verdict};
use serde::{Deserialize, Serialize};
use source_postgres::KeyRange;

use super::{could_not, mend, open, output};
use crate::{
    cli::ReconcileArgs,
    config::{Config, TableConfig},
    stop,
};

/// After a table could not be compared.
const PAUSE: Duration = Duration::from_secs(30);

/// What is known of the tables, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State(BTreeMap<String, Known>);

/// What the last walk over a table found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Known {
    /// Every change that was committed before this LSN is in the replica, and nothing else; of the last walk that found no
    /// difference, or repaired it.
    verified_through: Option<String>,
    /// When that walk ended.
    verified_at: Option<Timestamp>,
    /// When the last walk ended.
    walked_at: Option<Timestamp>,
    /// The rows that it compared.
    rows: u64,
    /// The rows that it found to differ.
    drift: usize,
    /// Those that changed at every look.
    unsettled: usize,
    /// Whether it repaired what it found.
    #[serde(default)]
    is_repaired: bool,
}

/// What the walk that writes to `path` has found, by table.
pub(crate) fn found(path: &Path) -> Result<BTreeMap<String, Verified>> {
    let State(tables) = read(path)?;
    let verified = |known: Known| Verified {
        through: known.verified_through,
        at: known.verified_at,
        walked_at: known.walked_at,
        rows: known.rows,
        drift: known.drift as u64,
        unsettled: known.unsettled as u64,
        is_repaired: known.is_repaired,
    };
    Ok(tables.into_iter().map(|(name, known)| (name, verified(known))).collect())
}

/// Walks until it is told to stop.
pub(super) async fn walk(config: &Config, tables: &[&TableConfig], args: &ReconcileArgs) -> Result<u8> {
    let path = args.state.as_ref().or(config.reconcile_state.as_ref());
    let mut state = path.map_or_else(|| Ok(State::default()), |path| read(path))?;
    let walking = async {
        loop {
            for table in tables {
                match over(config, table, args).await {
                    Ok(walk) => {
                        state.add(&table.name, &walk);
                        if let Some(path) = path {
                            write(path, &state)?;
                        }
                    }
                    Err(error) => {
                        could_not(&error.context(format!("table {}", table.name)));
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
    };
    tokio::select! {
        walked = walking => walked,
        () = stop::requested() => Ok(0),
    }
}

/// What a walk over a table found.
struct Walk {
    through: Option<Lsn>,
    rows: u64,
    drift: usize,
    unsettled: usize,
    is_repaired: bool,
}

async fn over(config: &Config, table: &TableConfig, args: &ReconcileArgs) -> Result<Walk> {
    let mut reconciliation = open(config, table, args).await?;
    let mut walk = Walk { through: None, rows: 0, drift: 0, unsettled: 0, is_repaired: args.repair };
    let mut after = None;
    loop {
        let range = KeyRange { after, up_to: None };
        let scope = Scope { range, ranges: Some(args.part_ranges), sample: None };
        let report = reconciliation.compare(&scope, &mut |_| {}).await?;
        let repaired = mend(&mut reconciliation, &report, config, table, args).await?;
        if report.verdict() != Verdict::Equal {
            let sides = output::Sides { name: &table.name, table: &reconciliation.table };
            output::print(sides, &report, repaired, args)?;
        }
        walk.through = Some(walk.through.map_or(report.lsn, |through| through.min(report.lsn)));
        walk.rows += report.replica.rows;
        walk.drift += report.drift.len();
        walk.unsettled += report.unsettled;
        after = report.end;
        if after.is_none() {
            return Ok(walk);
        }
        tokio::time::sleep(Duration::from_millis(args.pause)).await;
    }
}

impl State {
    fn add(&mut self, table: &str, walk: &Walk) {
        let now = Timestamp::now();
        let &Walk { through, rows, drift, unsettled, is_repaired } = walk;
        let known = self.0.entry(table.to_owned()).or_default();
        if (drift == 0 || is_repaired) && unsettled == 0 {
            known.verified_through = through.map(|lsn| lsn.to_string());
            known.verified_at = Some(now);
        }
        (known.walked_at, known.rows, known.drift, known.unsettled) = (Some(now), rows, drift, unsettled);
        known.is_repaired = is_repaired;
        let through = known.verified_through.as_deref().unwrap_or("nothing yet");
        tracing::info!(table, rows, drift, unsettled, verified_through = through, "walked over a table");
    }
}

fn read(path: &Path) -> Result<State> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{} is no state of a walk", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(State::default()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// A reader sees the old state or the new one.
fn write(path: &Path, state: &State) -> Result<()> {
    let doing = || format!("writing {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(folder).with_context(doing)?;
    serde_json::to_writer_pretty(&file, state).with_context(doing)?;
    file.persist(path).map(drop).with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(lsn: u64, drift: usize, unsettled: usize, is_repaired: bool) -> Walk {
        Walk { through: Some(Lsn::try_from(lsn).unwrap()), rows: 7, drift, unsettled, is_repaired }
    }

    #[test]
    fn a_table_is_verified_by_a_walk_without_differences_or_with_repairs() {
        let through = |walks: &[Walk]| {
            let mut state = State::default();
            for walk in walks {
                state.add("orders", walk);
            }
            (state.0["orders"].verified_through.clone(), state.0["orders"].drift)
        };
        assert_eq!(through(&[walk(1, 0, 0, false)]), (Some("0/1".into()), 0));
        assert_eq!(through(&[walk(1, 0, 0, false), walk(2, 3, 0, false)]), (Some("0/1".into()), 3));
        assert_eq!(through(&[walk(1, 0, 1, false)]), (None, 0));
        assert_eq!(through(&[walk(1, 0, 0, false), walk(2, 3, 0, true)]), (Some("0/2".into()), 3));
    }

    #[test]
    fn a_state_is_read_back_and_what_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut state = read(&path).unwrap();
        state.add("orders", &walk(9, 0, 0, false));
        write(&path, &state).unwrap();
        assert_eq!(read(&path).unwrap().0["orders"].verified_through.as_deref(), Some("0/9"));
        std::fs::write(&path, "[]").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("is no state of a walk"));
    }
}
