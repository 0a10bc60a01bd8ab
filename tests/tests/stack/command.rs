//! The `highwater` binary over recorded messages or a config of the test's own, run to its end.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use highwater_tests::highwater::binary;
use serde_json::Value;

/// Seconds after which a command is killed, and its test fails.
const PATIENCE: &str = "120";

/// What a command said at its end.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A table's topic, key and columns, as flags.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) topic: String,
    pub(crate) key: Vec<&'static str>,
    pub(crate) columns: Vec<&'static str>,
}

impl Shape {
    pub(crate) fn new(topic: &str, key: &[&'static str], columns: &[&'static str]) -> Self {
        Self { topic: topic.into(), key: key.into(), columns: columns.into() }
    }

    /// `--topic`, `--key` and `--column`.
    pub(crate) fn flags(&self) -> Vec<String> {
        let keys = self.key.iter().flat_map(|name| ["--key", name]);
        let columns = self.columns.iter().flat_map(|column| ["--column", column]);
        let all = ["--topic", &self.topic].into_iter().chain(keys).chain(columns);
        all.map(str::to_owned).collect()
    }
}

/// Runs `highwater` with `args` to its end, whatever its status. It must not panic.
pub(crate) fn highwater<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Result<Said> {
    under(&[], args)
}

/// The same by way of another program, such as `setpriv`, that runs the command it is given.
pub(crate) fn under<S: AsRef<OsStr>>(wrapper: &[&str], args: impl IntoIterator<Item = S>) -> Result<Said> {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", PATIENCE]).args(wrapper).arg(binary()?).args(args).stdin(Stdio::null());
    let output = command.output().context("coreutils' timeout is needed")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = Said { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) };
    ensure!(!said.stderr.contains("panicked"), "it panicked: {}", said.stderr);
    Ok(said)
}

impl Said {
    /// Insists on status 0.
    pub(crate) fn success(self) -> Result<Self> {
        ensure!(self.status.success(), "{}: {}\n{}", self.status, self.stdout, self.stderr);
        Ok(self)
    }

    /// The counts at the end of its log, which must add up.
    pub(crate) fn counts(&self) -> Result<BTreeMap<String, u64>> {
        let line = self.stderr.lines().rev().find(|line| line.contains("received="));
        let line = line.with_context(|| format!("no counts in: {}", self.stderr))?;
        let counts: BTreeMap<String, u64> = line
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?)))
            .collect();
        let fates = ["merged", "superseded", "guarded", "no_change", "dead_lettered"];
        let sum: u64 = fates.iter().filter_map(|fate| counts.get(*fate)).sum();
        ensure!(counts.get("received") == Some(&sum), "not every record is accounted for: {line}");
        Ok(counts)
    }

    /// Standard output as one JSON object a line.
    pub(crate) fn objects(&self) -> Result<Vec<Value>> {
        self.stdout.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}
