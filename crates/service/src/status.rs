//! `status`: how everything is doing, in a terminal.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::ExitCode,
    time::Duration,
};

use anyhow::Result;
use bytesize::ByteSize;
use jiff::Timestamp;
use monitor::{
    Monitor, Status,
    problems::Severity,
    status::{Connector, Phase, Slot, Table, TableState},
};

use crate::{
    cli::StatusArgs,
    config::{Config, HttpConfig},
    print, stop,
    watch::Watch,
};

const CRITICAL: u8 = 1;
const COULD_NOT: u8 = 2;
/// Clears the screen and goes to its beginning.
const CLEAR: &str = "\x1b[2J\x1b[H";

pub(crate) async fn status(args: StatusArgs) -> Result<ExitCode> {
    match args.watch {
        None => {
            let status = match now(&args).await {
                Ok(status) => status,
                Err(error) => {
                    could_not(&error);
                    return Ok(ExitCode::from(COULD_NOT));
                }
            };
            show(&status, &args, "")?;
            let is_critical = status.problems.iter().any(|problem| problem.severity == Severity::Critical);
            Ok(ExitCode::from(if is_critical { CRITICAL } else { 0 }))
        }
        Some(seconds) => {
            let watching = async {
                loop {
                    match now(&args).await {
                        Ok(status) => show(&status, &args, if io::stdout().is_terminal() { CLEAR } else { "" })?,
                        Err(error) => could_not(&error),
                    }
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
            };
            tokio::select! {
                watched = watching => watched,
                () = stop::requested() => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

#[expect(clippy::print_stderr, reason = "the answer to the user")]
fn could_not(error: &anyhow::Error) {
    eprintln!("highwater: no status: {error:#}");
}

/// What a process says; what is seen from outside where none answers.
async fn now(args: &StatusArgs) -> Result<Status> {
    let config = Config::read(&args.config.config)?;
    let urls = if args.url.is_empty() { config.http.iter().map(address).collect() } else { args.url.clone() };
    let token = config.http.as_ref().and_then(|http| http.token.as_ref());
    let mut silent = Vec::new();
    for url in &urls {
        match monitor::fetch(url, token).await {
            Ok(status) => return Ok(status),
            Err(why) => silent.push(why),
        }
    }
    let config = config.discovered().await?;
    let group = config.kafka.as_ref().map_or("", |kafka| kafka.group.as_str());
    let monitor = Monitor::from_outside(group);
    for table in &config.tables {
        monitor.table(&table.name, &table.topic, &table.location);
    }
    for why in silent {
        monitor.note("WARN", None, why);
    }
    Watch::new(&config, &monitor).once().await;
    Ok(monitor.status())
}

/// Where a process of this config on this machine is to be asked.
fn address(http: &HttpConfig) -> String {
    let mut listen = http.listen;
    if listen.ip().is_unspecified() {
        listen.set_ip(match listen.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{listen}")
}

fn show(status: &Status, args: &StatusArgs, before: &str) -> Result<()> {
    let text = if args.json { serde_json::to_string(status)? + "\n" } else { text(status) };
    let mut out = io::stdout().lock();
    out.write_all(before.as_bytes())?;
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The whole picture, for a person: what is wrong first.
fn text(status: &Status) -> String {
    let mut out = String::new();
    // a String takes everything
    _ = write(&mut out, status);
    out
}

fn write(out: &mut String, status: &Status) -> std::fmt::Result {
    let count = |severity| status.problems.iter().filter(|problem| problem.severity == severity).count();
    let (critical, warnings) = (count(Severity::Critical), count(Severity::Warning));
    let health = match (critical, warnings) {
        (0, 0) => "all is well".to_owned(),
        (0, _) => format!("{warnings} to look at"),
        _ => format!("{critical} critical, {warnings} to look at"),
    };
    let state = match status.state {
        Phase::Starting => "starting",
        Phase::Running => "running",
        Phase::Halted => "halted",
        Phase::Stopping => "stopping",
        Phase::Away => "no process answers",
    };
    let since = status.started_at.map_or_else(String::new, |at| format!(" since {} ago", ago(at, status.at)));
    writeln!(out, "group {}: {state}{since}; {health}", status.group)?;
    for problem in &status.problems {
        let severity = if problem.severity == Severity::Critical { "CRITICAL" } else { "WARNING" };
        writeln!(out, "\n{severity} {}: {}", problem.subject, problem.what)?;
        writeln!(out, "  do: {}", problem.remedy)?;
        writeln!(out, "  {} ({})", problem.runbook, problem.name)?;
    }
    writeln!(out, "\n{}", tables(status))?;
    for table in status.tables.iter().filter(|table| !table.partitions.is_empty()) {
        writeln!(out, "{} reads {}: {}", table.name, table.topic, partitions(table))?;
    }
    if let Some(error) = &status.kafka_error {
        writeln!(out, "group: unknown: {error}")?;
    }
    for member in status.members.iter().flatten() {
        let reads = if member.partitions.is_empty() { "nothing".to_owned() } else { member.partitions.join(" ") };
        writeln!(out, "member {} at {}: {reads}", member.client, member.host.trim_start_matches('/'))?;
    }
    if let Some(slot) = &status.slot {
        writeln!(out, "{}", slot_line(slot))?;
    }
    if let Some(connector) = &status.connector {
        writeln!(out, "{}", connector_line(connector))?;
    }
    for line in status.recent.iter().take(5) {
        writeln!(out, "{} ago {}: {}", ago(line.at, status.at), line.level, line.message)?;
    }
    Ok(())
}

fn tables(status: &Status) -> comfy_table::Table {
    let names = [
        "table",
        "state",
        "version",
        "commit",
        "rows",
        "deleted",
        "files",
        "lag",
        "bytes",
        "fresh p50",
        "p99",
        "received",
        "merged",
        "superseded",
        "guarded",
        "no change",
        "dead",
        "verified",
    ];
    let mut shown = print::headed(&names);
    for table in &status.tables {
        let seconds = |seconds: Option<f64>| seconds.map_or_else(unknown, |seconds| format!("{seconds:.1} s"));
        let state = match table.state {
            TableState::Running => "running",
            TableState::Halted => "HALTED",
            TableState::Unknown => "?",
        };
        let freshness = table.freshness;
        let of_process = |count: u64| if status.started_at.is_some() { count.to_string() } else { unknown() };
        shown.add_row([
            table.name.clone(),
            state.to_owned(),
            table.version.map_or_else(unknown, |version| version.to_string()),
            table.last_commit_at.map_or_else(unknown, |at| format!("{} ago", ago(at, status.at))),
            table.rows.map_or_else(unknown, |rows| rows.live.to_string()),
            table.rows.map_or_else(unknown, |rows| rows.deleted.to_string()),
            table.files.map_or_else(unknown, |files| files.count.to_string()),
            table.lag.map_or_else(unknown, |lag| lag.records.to_string()),
            table.lag.and_then(|lag| lag.bytes_about).map_or_else(unknown, bytes),
            seconds(freshness.map(|freshness| freshness.p50_seconds)),
            seconds(freshness.map(|freshness| freshness.p99_seconds)),
            of_process(table.records.received),
            of_process(table.records.merged),
            of_process(table.records.superseded),
            of_process(table.records.guarded),
            of_process(table.records.no_change),
            format!("{} ({})", of_process(table.records.dead_lettered), table.dead_letters_waiting),
            verified(table, status.at),
        ]);
    }
    shown
}

fn unknown() -> String {
    "?".to_owned()
}

fn verified(table: &Table, now: Timestamp) -> String {
    let Some(verified) = &table.verified else { return "never".to_owned() };
    let through = verified.through.as_deref().unwrap_or("not yet");
    let when = verified.at.map_or_else(String::new, |at| format!(", {} ago", ago(at, now)));
    let drift = if verified.drift > 0 { format!(", {} rows differ", verified.drift) } else { String::new() };
    format!("{through}{when}{drift}")
}

fn partitions(table: &Table) -> String {
    let offset = |offset: Option<i64>| offset.map_or_else(unknown, |offset| offset.to_string());
    let one = |partition: &monitor::status::Partition| {
        format!(
            "{}: checkpoint {} committed {} end {}",
            partition.partition,
            offset(partition.checkpoint),
            offset(partition.committed),
            partition.end
        )
    };
    table.partitions.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn slot_line(slot: &Slot) -> String {
    let name = if slot.name.is_empty() { "slot".to_owned() } else { format!("slot {}", slot.name) };
    if let Some(error) = &slot.error {
        return format!("{name}: unknown: {error}");
    }
    if slot.missing {
        return format!("{name}: missing");
    }
    let active = if slot.active { "active" } else { "INACTIVE" };
    let known = |number: Option<u64>| number.map_or_else(unknown, bytes);
    let limit = match (slot.limit_bytes, slot.safe_wal_bytes) {
        (Some(limit), safe) => format!(" of at most {}, {} left", bytes(limit), known(safe)),
        (None, _) => ", without a limit".to_owned(),
    };
    let status = slot.wal_status.as_deref().unwrap_or("?");
    let confirmed = slot.confirmed_lsn.as_deref().unwrap_or("?");
    format!("{name}: {active}, {status}, keeps {} of WAL{limit}, confirmed {confirmed}", known(slot.retained_bytes))
}

fn connector_line(connector: &Connector) -> String {
    let Connector { name, state, tasks, restart, error, .. } = connector;
    if let Some(error) = error {
        return format!("connector {name}: unknown: {error}");
    }
    let tasks: Vec<_> = tasks.iter().map(|task| format!("task {} {}", task.id, task.state)).collect();
    format!("connector {name}: {}, {}; to restart: {restart}", state.as_deref().unwrap_or("?"), tasks.join(", "))
}

fn bytes(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

/// How long ago, in the largest unit that fits.
fn ago(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_and_what_to_do_stand_first() {
        let monitor = Monitor::from_outside("highwater");
        monitor.table("orders", "shop.public.orders", "lake/orders");
        monitor.slot(Slot { name: "s".into(), retained_bytes: Some(3 << 30), ..Slot::default() });
        monitor.group(Ok(monitor::Group::default()));
        let text = text(&monitor.status());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "group highwater: no process answers; 2 critical, 0 to look at");
        assert_eq!(lines[2], "CRITICAL group highwater: no process answers, and the group has no member");
        assert!(lines[3].starts_with("  do: start `highwater run`"), "{text}");
        assert!(text.contains("CRITICAL slot s: no connector reads it; it keeps 3.2 GB of WAL"), "{text}");
        assert!(text.contains("slot s: INACTIVE, ?, keeps 3.0 GiB of WAL, without a limit"), "{text}");
    }

    #[test]
    fn a_process_is_asked_on_this_machine() {
        let at = |listen: &str| address(&HttpConfig { listen: listen.parse().unwrap(), token: None });
        assert_eq!(at("0.0.0.0:9184"), "http://127.0.0.1:9184");
        assert_eq!(at("[::]:80"), "http://[::1]:80");
        assert_eq!(at("10.0.0.1:80"), "http://10.0.0.1:80");
    }
}
