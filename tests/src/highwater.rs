//! The `highwater` binary as a process, with a config for one shop or for tables of a test's own.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::{Map, Value};

use crate::broker::Broker;
use crate::process::{Process, Program, tail};
use crate::s3::{BUCKET, S3, SECRET};
use crate::shop::{Shop, wait};

/// The binary to test, where it is not the one built beside the tests.
pub const BINARY: &str = "HIGHWATER_BIN";

/// The usual [`Highwater::patience`].
const PATIENCE: Duration = Duration::from_mins(2);

/// How one member of a group is configured.
#[derive(Debug)]
pub struct Highwater {
    binary: PathBuf,
    home: PathBuf,
    config: PathBuf,
    /// The consumer group.
    pub group: String,
    /// The first table's folder.
    pub table: PathBuf,
    /// How long a command that ends by itself may take, and the lag to become zero.
    pub patience: Duration,
    /// Whether it logs each batch.
    pub verbose: bool,
    calls: AtomicU32,
}

/// What a finished command said.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What `replay` reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Rows that the replay changed.
    pub rows_changed: i64,
    /// The table's version at its start.
    pub version_before: i64,
    /// The table's version at its end.
    pub version_after: i64,
}

impl Highwater {
    /// Writes a config for the shop's topic into `home`, which also gets the table and the logs.
    pub fn configure(home: &Path, shop: &Shop) -> Result<Self> {
        let table = home.join("lake/orders");
        let group = format!("highwater-{}", shop.name);
        Self::configure_tables(home, &shop.broker, &group, &table, &orders(&shop.topic, &table))
    }

    /// The same with `sections` for its tables, each a `[[table]]`; `table` is the folder of the first of them.
    pub fn configure_tables(home: &Path, broker: &Broker, group: &str, table: &Path, sections: &str) -> Result<Self> {
        std::fs::create_dir_all(home)?;
        let config = home.join("highwater.toml");
        std::fs::write(&config, settings(broker, group, &dead_letters(&config)) + sections)?;
        let (home, group, table) = (home.into(), group.into(), table.into());
        let (patience, verbose, calls) = (PATIENCE, false, AtomicU32::new(0));
        Ok(Self { binary: binary()?, home, config, group, table, patience, verbose, calls })
    }

    /// A second member of the same group, for the same table and with the same settings.
    pub fn another(&self, name: &str) -> Result<Self> {
        let config = self.config.with_file_name(format!("{name}.toml"));
        std::fs::copy(&self.config, &config)?;
        let (binary, home, group, table) =
            (self.binary.clone(), self.home.clone(), self.group.clone(), self.table.clone());
        let (patience, verbose, calls) = (self.patience, self.verbose, AtomicU32::new(0));
        let member = Self { binary, home, config, group, table, patience, verbose, calls };
        let path = |config: &Path| dead_letters(config).display().to_string();
        member.change(&path(&self.config), &path(&member.config))?;
        Ok(member)
    }

    /// Replaces a part of the config's text.
    pub fn change(&self, part: &str, by: &str) -> Result<()> {
        let text = std::fs::read_to_string(&self.config)?;
        ensure!(text.contains(part), "`{part}` is not in {}", self.config.display());
        Ok(std::fs::write(&self.config, text.replace(part, by))?)
    }

    /// Replaces all of `[kafka.options]`.
    pub fn kafka_options(&self, options: &[(&str, &str)]) -> Result<()> {
        const SECTION: &str = "[kafka.options]\n";
        let text = std::fs::read_to_string(&self.config)?;
        let (_, old) = text.split_once(SECTION).context("no [kafka.options]")?;
        let old = old.split_once("\n\n").map_or(old, |(old, _)| old);
        let new: Vec<String> = options.iter().map(|(name, value)| format!("\"{name}\" = \"{value}\"")).collect();
        self.change(&format!("{SECTION}{old}"), &format!("{SECTION}{}", new.join("\n")))
    }

    /// Puts the table into an S3 server's bucket, before the first run.
    pub fn store_in(&mut self, server: &S3, table: &str) -> Result<()> {
        self.change(&self.table.display().to_string(), &format!("s3://{BUCKET}/{table}"))?;
        self.change("[batch]", &format!("{}\n[batch]", server.store(SECRET)))?;
        self.table = server.folder(table);
        Ok(())
    }

    fn program(&self, command: &[&str]) -> Program {
        let member = self.config.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{member}-{}-{}", self.calls.fetch_add(1, Ordering::Relaxed), command[0]);
        let config = self.config.to_string_lossy();
        Program::new(&name, &self.binary, self.home.join(format!("{name}.err")))
            .args(self.verbose.then_some("--verbose"))
            .args([command[0], "--config", &*config])
            .args(command[1..].iter().copied())
            .output(self.home.join(format!("{name}.out")))
    }

    /// Starts `run`: it goes on until it is stopped or killed.
    pub fn run(&self) -> Result<Process> {
        self.program(&["run"]).start()
    }

    /// Starts another command that goes on until it is stopped.
    pub fn start(&self, command: &[&str]) -> Result<Process> {
        self.program(command).start()
    }

    /// Runs a command to its end, whatever its status.
    pub fn output(&self, command: &[&str]) -> Result<Output> {
        let program = self.program(command);
        let status = program.start()?.wait(self.patience)?;
        let read = |path: &Path| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let stdout = program.output.as_deref().map(read).transpose()?.unwrap_or_default();
        Ok(Output { status, stdout, stderr: read(&program.log)? })
    }

    fn success(&self, command: &[&str]) -> Result<Output> {
        let output = self.output(command)?;
        ensure!(output.status.success(), "highwater {}: {}\n{}", command[0], output.status, output.stderr);
        Ok(output)
    }

    /// `run --until-caught-up`.
    pub fn catch_up(&self) -> Result<Output> {
        let output = self.success(&["run", "--until-caught-up"])?;
        account(&output.stderr)?;
        Ok(output)
    }

    /// `replay --table orders`.
    pub fn replay(&self) -> Result<Replay> {
        self.replay_of("orders")
    }

    /// `replay` of a table.
    pub fn replay_of(&self, table: &str) -> Result<Replay> {
        let output = self.success(&["replay", "--table", table])?;
        let number =
            |name: &str| number(&output.stdout, name).with_context(|| format!("no {name} in: {}", output.stdout));
        Ok(Replay {
            rows_changed: number("rows_changed")?,
            version_before: number("version_before")?,
            version_after: number("version_after")?,
        })
    }

    /// `sql --print csv`.
    pub fn sql(&self, query: &str) -> Result<String> {
        Ok(self.success(&["sql", "--print", "csv", query])?.stdout)
    }

    /// `sql --print json`: an object a row.
    pub fn rows(&self, query: &str) -> Result<Vec<Map<String, Value>>> {
        let output = self.success(&["sql", "--print", "json", query])?.stdout;
        output.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Waits until the group has acknowledged all that lies in the shop's topic.
    pub fn wait_caught_up(&self, shop: &Shop, process: &mut Process) -> Result<()> {
        self.wait_acknowledged(&shop.broker, &shop.topic, process)
    }

    /// Waits until the group has acknowledged all that lies in a topic.
    pub fn wait_acknowledged(&self, broker: &Broker, topic: &str, process: &mut Process) -> Result<()> {
        wait(self.patience, &format!("group {} did not come to the end of its topic", self.group), || {
            if let Some(status) = process.ended()? {
                bail!("{} ended: {status}\n{}", process.name(), process.log());
            }
            let ends = broker.end_offsets(topic)?;
            let committed = broker.committed(&self.group, topic)?;
            Ok(ends.iter().zip(&committed).all(|(end, committed)| committed.unwrap_or(0) == *end))
        })
        .with_context(|| process.log())
    }

    /// Stops a running one by SIGTERM and insists on the promised exit: status 0 within 10 s, with every record accounted for. Gives how many
    /// it received.
    pub fn stop(&self, mut process: Process) -> Result<i64> {
        let status = process.stop(Signal::TERM, Duration::from_secs(10))?;
        ensure!(
            status.success(),
            "{}: {status} on SIGTERM, where 0 within 10 s is promised\n{}",
            process.name(),
            process.log()
        );
        account(&process.log())
    }

    /// The records of this member that went to the dead letters so far.
    pub fn dead_letters(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(dead_letters(&self.config)).unwrap_or_default();
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// Fails where a record of this member went to the dead letters, for a test that makes none that should.
    pub fn no_dead_letters(&self) -> Result<()> {
        let text = std::fs::read_to_string(dead_letters(&self.config)).unwrap_or_default();
        ensure!(text.is_empty(), "{} records went to the dead letters: {text:.2000}", text.lines().count());
        Ok(())
    }

    /// The newest version of the table; None before the first.
    pub fn version(&self) -> Option<u64> {
        let log = std::fs::read_dir(self.table.join("_delta_log")).ok()?;
        log.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.parse().ok()).max()
    }

    /// The logs of all its processes that were started by [`run`](Self::run), one after the other.
    pub fn run_logs(&self) -> Result<String> {
        let member = self.config.file_stem().unwrap_or_default().to_string_lossy();
        let mut logs = String::new();
        for call in 0..self.calls.load(Ordering::Relaxed) {
            let log = self.home.join(format!("{member}-{call}-run.err"));
            if log.exists() {
                logs += &String::from_utf8_lossy(&std::fs::read(log)?);
            }
        }
        Ok(logs)
    }

    /// The end of the last log of a process of this member, for an error's text.
    pub fn tail(&self, process: &Process) -> String {
        tail(&self.home.join(format!("{}.err", process.name())))
    }
}

/// The binary: the one that [`BINARY`] names, else the one built beside the tests.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(BINARY) {
        let path = PathBuf::from(path);
        ensure!(path.is_file(), "{BINARY} names {}, which is no file", path.display());
        return Ok(path);
    }
    // The test binary is target/<profile>/deps/stack-<hash>.
    let tests = std::env::current_exe()?;
    let beside = tests.ancestors().nth(2).context("the test binary has no folder")?.join("highwater");
    ensure!(
        beside.is_file(),
        "no highwater binary at {}: build it with `cargo build --release --workspace --all-targets`, or set {BINARY}",
        beside.display()
    );
    Ok(beside)
}

fn dead_letters(config: &Path) -> PathBuf {
    config.with_extension("dead-letters.ndjson")
}

/// Checks the sums that highwater logs at its end: every record received was merged, superseded, guarded, without change, or a dead letter.
/// Gives how many were received.
fn account(log: &str) -> Result<i64> {
    let line =
        log.lines().rev().find(|line| line.contains("received=")).with_context(|| format!("no counts in: {log}"))?;
    let count = |name: &str| number(line, name).with_context(|| format!("no {name} in: {line}"));
    let fates = ["merged", "superseded", "guarded", "no_change", "dead_lettered"];
    let sum = fates.iter().map(|name| count(name)).sum::<Result<i64>>()?;
    ensure!(sum == count("received")?, "not every record is accounted for: {line}");
    Ok(sum)
}

/// The number after `name` and what separates them, in `name=5` as in `"name": 5`.
pub fn number(text: &str, name: &str) -> Option<i64> {
    let (_, rest) = text.rsplit_once(name)?;
    let rest = rest.trim_start_matches(['"', ' ', ':', '=']);
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Short session: a killed member's partitions are given away after it. Short age: many batches, so many places to be killed at.
fn settings(broker: &Broker, group: &str, dead_letters: &Path) -> String {
    let (bootstrap, dead_letters) = (&broker.bootstrap, dead_letters.display());
    format!(
        r#"[kafka]
bootstrap_servers = "{bootstrap}"
group = "{group}"

[kafka.options]
"session.timeout.ms" = "3000"
"heartbeat.interval.ms" = "500"

[batch]
rows = 100000
bytes = "64MiB"
age = "300ms"

[dead_letters]
path = "{dead_letters}"

"#
    )
}

fn orders(topic: &str, table: &Path) -> String {
    let table = table.display();
    format!(
        r#"[[table]]
name = "orders"
topic = "{topic}"
location = "{table}"
key = ["order_id"]
on_error = "halt"

[table.columns]
order_id = "long"
customer_id = "long"
status = "string"
amount = "decimal(12,2)@base64"
updated_at = "timestamp"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::{account, number};

    #[test]
    fn a_record_without_a_fate_is_noticed() {
        let counts = |received| {
            format!("x\nINFO received={received} merged=4 superseded=3 guarded=2 no_change=1 dead_lettered=0\n")
        };
        assert_eq!(account(&counts(10)).unwrap(), 10);
        assert!(account(&counts(11)).is_err());
        assert!(account("nothing").is_err());
    }

    #[test]
    fn numbers_are_found_in_text_and_in_json() {
        let text = "rows_changed=0 version_before=5 version_after=12";
        assert_eq!([number(text, "rows_changed"), number(text, "version_after")], [Some(0), Some(12)]);
        assert_eq!(number(r#"{"rows_changed": 7, "x": 1}"#, "rows_changed"), Some(7));
        assert_eq!(number("nothing", "rows_changed"), None);
    }
}
