//! [`Problem`]: what is wrong, and what to do. The names are those of the alerts in `deploy/prometheus/rules.yml` and of the
//! runbook's sections; the limits are the same there.

use jiff::{Timestamp, ToSpan as _};
use serde::{Deserialize, Serialize};

use crate::status::{Connector, Phase, Slot, Status, Table};

/// WAL that a slot may keep before it is worth a look, where the server has no limit.
const RETAINED_BYTES: u64 = 1 << 30;
/// Seconds, for 99 of 100 events.
const STALE_SECONDS: f64 = 300.0;
/// A table that lags and has had no batch for so long is stuck.
const STUCK_MINUTES: i64 = 10;
/// A lag that has only grown for so many points of the history, to so many records, is one that will not pass by itself.
const LAG_POINTS: usize = 90;
const LAG_RECORDS: u64 = 100_000;
/// A comparison is good for a day.
const VERIFIED_HOURS: i64 = 24;
/// The writer makes a log checkpoint every 50 commits; opening the table takes about 1 ms for each commit since.
const LOG_COMMITS: u64 = 500;
/// Small files that a compaction would join.
const SMALL_FILES: u64 = 200;
/// A warning of the log that says that something is tried again; pauses are 30 s at most.
const RETRIED_SECONDS: i64 = 60;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Data does not arrive, is wrong, or is about to be lost.
    Critical,
    /// It becomes critical if nobody acts.
    Warning,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Its alert.
    pub name: String,
    /// What it is about.
    pub subject: String,
    /// What is wrong.
    pub what: String,
    /// What to do.
    #[serde(rename = "do")]
    pub remedy: String,
    /// The section of the runbook.
    pub runbook: String,
}

fn problem(severity: Severity, name: &str, subject: String, what: String, remedy: impl Into<String>) -> Problem {
    let runbook = format!("docs/runbook.md#{}", name.to_lowercase());
    Problem { severity, name: name.to_owned(), subject, what, remedy: remedy.into(), runbook }
}

/// What is wrong in a picture, worst first. `last_batch` says when a table had its last batch, or since when it is watched.
pub(crate) fn of(status: &Status, last_batch: impl Fn(&str) -> Option<Timestamp>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if status.state == Phase::Away {
        problems.push(away(status));
    }
    if let Some(error) = &status.kafka_error {
        problems.push(problem(
            Severity::Critical,
            "HighwaterKafkaDown",
            "Kafka".into(),
            error.clone(),
            "see whether the brokers run, and whether [kafka] names them",
        ));
    }
    problems.extend(status.slot.iter().filter_map(slot));
    problems.extend(status.connector.iter().filter_map(connector));
    for table in &status.tables {
        of_table(table, status, last_batch(&table.name), &mut problems);
    }
    problems.sort_by_key(|problem| problem.severity);
    problems
}

fn away(status: &Status) -> Problem {
    let members = status.members.as_ref().map_or(0, Vec::len);
    let what = match members {
        0 => "no process answers, and the group has no member".to_owned(),
        _ => format!("no process answers, and the group has {members} members"),
    };
    let remedy = "start `highwater run`, or say with --url where its [http] listens";
    problem(
        if members == 0 { Severity::Critical } else { Severity::Warning },
        "HighwaterDown",
        format!("group {}", status.group),
        what,
        remedy,
    )
}

fn slot(slot: &Slot) -> Option<Problem> {
    let subject = if slot.name.is_empty() { "source".to_owned() } else { format!("slot {}", slot.name) };
    let of = |severity, name, what: String, remedy: &str| Some(problem(severity, name, subject.clone(), what, remedy));
    if let Some(error) = &slot.error {
        return of(
            Severity::Warning,
            "HighwaterSourceDown",
            error.clone(),
            "see whether the source runs, and whether [source] url is right",
        );
    }
    if slot.missing || slot.wal_status.as_deref() == Some("lost") {
        let what =
            if slot.missing { "there is no such slot" } else { "the server has removed WAL that the slot needed" };
        let remedy = "changes since then do not arrive: have the connector make the slot anew with a new snapshot, then \
                      `highwater reconcile`";
        return of(Severity::Critical, "HighwaterSlotMissing", what.into(), remedy);
    }
    let retained = slot.retained_bytes.unwrap_or_default();
    let gib = |bytes: u64| {
        #[expect(clippy::cast_precision_loss, reason = "for a person")]
        let bytes = bytes as f64;
        if bytes >= 1e9 { format!("{:.1} GB", bytes / 1e9) } else { format!("{:.1} MB", bytes / 1e6) }
    };
    if !slot.active {
        let what = format!(
            "no connector reads it; it keeps {} of WAL on the source's disk, and more each moment",
            gib(retained)
        );
        let remedy =
            "see whether Connect runs and the connector with it; a slot that nobody needs any more is to be dropped";
        return of(Severity::Critical, "HighwaterSlotInactive", what, remedy);
    }
    let near = slot
        .limit_bytes
        .is_some_and(|limit| retained > limit / 2 || slot.safe_wal_bytes.is_some_and(|safe| safe < limit / 4));
    if near || retained > RETAINED_BYTES {
        let limit = slot.limit_bytes.map_or_else(String::new, |limit| format!(" of at most {}", gib(limit)));
        let what = format!("it keeps {}{limit} of WAL on the source's disk", gib(retained));
        let remedy =
            "see why the connector is behind: its log, a long transaction on the source, a heartbeat that is not set";
        let severity = if near { Severity::Critical } else { Severity::Warning };
        return of(severity, "HighwaterSlotLag", what, remedy);
    }
    None
}

fn connector(connector: &Connector) -> Option<Problem> {
    let Connector { name, state, tasks, restart, error, .. } = connector;
    let of = |severity, what: String, remedy: &str| {
        Some(problem(severity, "HighwaterConnectorDown", format!("connector {name}"), what, remedy))
    };
    if let Some(error) = error {
        return of(
            Severity::Critical,
            format!("Connect: {error}"),
            "see whether Kafka Connect runs, and whether [connect] url is right",
        );
    }
    let bad = tasks.iter().find(|task| task.state != "RUNNING");
    match state.as_deref() {
        Some("MISSING") => of(
            Severity::Critical,
            "the worker does not know the connector".into(),
            "register it (connectors/*.json), or correct [connect] name",
        ),
        Some("PAUSED" | "STOPPED") => of(
            Severity::Warning,
            format!("it is {}; the slot keeps WAL meanwhile", state.as_deref().unwrap_or_default()),
            &format!("resume it: curl -X PUT '{}'", restart_to_resume(restart)),
        ),
        Some("RUNNING") if bad.is_none() && !tasks.is_empty() => None,
        Some("RUNNING") if tasks.is_empty() => {
            of(Severity::Critical, "it has no task".into(), "see Connect's log: its config may be refused")
        }
        state => {
            let (what, why) = match bad {
                Some(task) => (format!("task {} is {}", task.id, task.state), task.why.as_deref()),
                None => (format!("it is {}", state.unwrap_or("unknown")), None),
            };
            let what = why.map_or_else(|| what.clone(), |why| format!("{what}: {why}"));
            of(Severity::Critical, what, &format!("mend what it names, then: {restart}"))
        }
    }
}

/// `.../connectors/NAME/resume`, from the command that restarts it.
fn restart_to_resume(restart: &str) -> String {
    let url = restart.split('\'').nth(1).unwrap_or_default();
    url.split_once("/restart").map_or_else(String::new, |(connector, _)| format!("{connector}/resume"))
}

fn of_table(table: &Table, status: &Status, last_batch: Option<Timestamp>, problems: &mut Vec<Problem>) {
    let name = &table.name;
    let mut add = |severity, alert: &str, what: String, remedy: String| {
        problems.push(problem(severity, alert, format!("table {name}"), what, remedy));
    };
    if let Some(halted) = &table.halted {
        let remedy = "do what it says, then start highwater again; nothing was lost: it goes on where it stopped";
        add(Severity::Critical, "HighwaterTableHalted", halted.why.clone(), remedy.into());
    }
    let lag = table.lag.map_or(0, |lag| lag.records);
    let is_older = |at: Timestamp, hours: i64, minutes: i64| {
        at.checked_add(hours.hours().minutes(minutes)).is_ok_and(|at| at < status.at)
    };
    let reads = status.started_at.is_some() && table.halted.is_none();
    let retried = status.recent.iter().find(|line| {
        let is_recent = line.at.checked_add(RETRIED_SECONDS.seconds()).is_ok_and(|until| until > status.at);
        let is_of_it = line.table.as_ref().is_some_and(|of| of == name || of == "all");
        is_recent && is_of_it && line.message.starts_with("will try again") && last_batch.is_none_or(|at| at < line.at)
    });
    if reads && let Some(line) = retried {
        let what = line.message.trim_start_matches("will try again: ").to_owned();
        let remedy =
            "mend what it names; highwater goes on by itself when that answers, and halts the table after [retry] max";
        add(Severity::Critical, "HighwaterStuck", what, remedy.into());
    } else if reads && lag > 0 && last_batch.is_some_and(|at| is_older(at, 0, STUCK_MINUTES)) {
        let what = format!("{lag} records wait, and no batch was applied for {STUCK_MINUTES} minutes");
        let has_reader = table.partitions.iter().any(|partition| partition.member.is_some());
        let remedy = if has_reader {
            "see the last warnings of the log: a store, a registry or a lock may not answer"
        } else {
            "no member of the group reads its partitions: see whether another one holds them and is hung, or was killed"
        };
        add(Severity::Critical, "HighwaterStuck", what, remedy.into());
    }
    if table.freshness.is_some_and(|freshness| freshness.p99_seconds > STALE_SECONDS) {
        let seconds = table.freshness.map_or(0.0, |freshness| freshness.p99_seconds);
        let what =
            format!("of the last minutes' events one in a hundred was {seconds:.0} s old or more when it was applied");
        let remedy = "a catch-up passes by itself: see whether the lag falls; else see which of connector, Kafka and highwater is slow";
        add(Severity::Warning, "HighwaterStale", what, remedy.into());
    }
    if lag > LAG_RECORDS && has_grown(table) {
        let what = format!("it is {lag} records behind, and more each minute");
        let remedy =
            "larger batches ([batch] rows, age) apply more records a second; more members share more partitions";
        add(Severity::Warning, "HighwaterLag", what, remedy.into());
    }
    if table.dead_letters_waiting > 0 {
        let what = format!("{} records could not be applied and wait in the file", table.dead_letters_waiting);
        let remedy =
            "`highwater dead-letters` says which and why; after a fix `highwater dead-letters replay` applies them";
        add(Severity::Warning, "HighwaterDeadLetters", what, remedy.into());
    }
    if let Some(verified) = &table.verified {
        if verified.drift > 0 && !verified.is_repaired {
            let what = format!("{} rows differ from the source", verified.drift);
            let remedy =
                format!("`highwater reconcile {name}` names them, `highwater repair {name} --apply` mends them");
            add(Severity::Critical, "HighwaterDrift", what, remedy);
        } else if verified.unsettled > 0 {
            let what = format!("{} rows changed at every look and could not be compared", verified.unsettled);
            add(
                Severity::Warning,
                "HighwaterDrift",
                what,
                format!("`highwater reconcile {name} --looks 30` looks longer"),
            );
        }
        if verified.at.or(verified.walked_at).is_some_and(|at| is_older(at, VERIFIED_HOURS, 0)) {
            let what = "it was not found equal to its source for a day".to_owned();
            let remedy = "see whether `highwater reconcile --continuous` runs, and what it says";
            add(Severity::Warning, "HighwaterNotVerified", what, remedy.into());
        }
    }
    if let Some(files) = table.files {
        if files.log_since_checkpoint > LOG_COMMITS {
            let what = format!(
                "{} commits since the last log checkpoint: opening the table gets slow",
                files.log_since_checkpoint
            );
            let remedy = format!("`highwater maintain {name}` writes one; see the log for why the writer does not");
            add(Severity::Warning, "HighwaterLogCheckpointOverdue", what, remedy);
        }
        if files.small > SMALL_FILES {
            let what = format!("{} small files: reading the table gets slow", files.small);
            add(
                Severity::Warning,
                "HighwaterCompactionOverdue",
                what,
                format!("`highwater maintain {name}` joins them"),
            );
        }
    }
}

/// Whether the lag has only grown for a quarter of an hour.
fn has_grown(table: &Table) -> bool {
    let lag = &table.history.lag;
    let recent: Vec<u64> = lag.iter().rev().take(LAG_POINTS).copied().flatten().collect();
    // newest first; a third of the time on each side, so that one slow batch is no trend
    let third = LAG_POINTS / 3;
    recent.len() == LAG_POINTS && recent[..third].iter().min() > recent[LAG_POINTS - third..].iter().max()
}
