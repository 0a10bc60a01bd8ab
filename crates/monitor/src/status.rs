//! [`Status`]: the picture of a moment, as `/status` and `highwater status` give it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use crate::{history::History, problems::Problem};

/// How a process, its tables and what is around them are doing. `None` is what is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Highwater's version.
    pub version: String,
    /// Since when the process runs; `None` where none has answered.
    pub started_at: Option<Timestamp>,
    /// The moment of this picture.
    pub at: Timestamp,
    /// The consumer group.
    pub group: String,
    /// What the process is doing.
    pub state: Phase,
    /// What is wrong, worst first.
    pub problems: Vec<Problem>,
    /// The memory of the batches.
    pub memory: Memory,
    /// The tables, by name.
    pub tables: Vec<Table>,
    /// The members of the group.
    pub members: Option<Vec<Member>>,
    /// Why the brokers could not be asked, if they could not.
    pub kafka_error: Option<String>,
    /// The connector's replication slot.
    pub slot: Option<Slot>,
    /// The connector.
    pub connector: Option<Connector>,
    /// Warnings and errors of the log, newest first.
    pub recent: Vec<Recent>,
}

/// What a process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It opens its tables, or waits for topics.
    Starting,
    /// It reads.
    Running,
    /// Every table has halted.
    Halted,
    /// It was told to stop.
    Stopping,
    /// No process has answered.
    Away,
}

/// Bytes in batches, open or on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What they take, about.
    pub buffered_bytes: u64,
    /// From here on nothing more is read.
    pub limit_bytes: u64,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name in the config.
    pub name: String,
    /// The topic that it is fed from.
    pub topic: String,
    /// Where it lies.
    pub location: String,
    /// Whether it takes records.
    pub state: TableState,
    /// Why it does not.
    pub halted: Option<Halted>,
    /// Its newest known version.
    pub version: Option<u64>,
    /// When this process committed last.
    pub last_commit_at: Option<Timestamp>,
    /// Its rows.
    pub rows: Option<Rows>,
    /// Its data files.
    pub files: Option<Files>,
    /// The account of the records that this process made durable.
    pub records: Records,
    /// How far it is behind its topic.
    pub lag: Option<Lag>,
    /// How old events of the last five minutes were when they became durable.
    pub freshness: Option<Freshness>,
    /// Races lost to other writers.
    pub conflicts: u64,
    /// Attempts that a store or server did not answer.
    pub retries: u64,
    /// Dead letters in the file.
    pub dead_letters_waiting: u64,
    /// The partitions of its topic.
    pub partitions: Vec<Partition>,
    /// What the last comparison with the source found.
    pub verified: Option<Verified>,
    /// The last hour.
    pub history: History,
}

/// Whether a table takes records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableState {
    /// It does.
    Running,
    /// It has halted.
    Halted,
    /// It is not known.
    Unknown,
}

/// A halt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halted {
    /// When.
    pub at: Timestamp,
    /// Why, and what to do.
    pub why: String,
}

/// Rows by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rows {
    /// Rows that the source has.
    pub live: u64,
    /// Soft-deleted rows.
    pub deleted: u64,
}

/// A table's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    /// Data files.
    pub count: u64,
    /// Those that a compaction would join.
    pub small: u64,
    /// Their size.
    pub bytes: u64,
    /// Commits since the last log checkpoint.
    pub log_since_checkpoint: u64,
}

/// Records by outcome, as [`pipeline::Counts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "pipeline::Counts has them")]
pub struct Records {
    pub received: u64,
    pub merged: u64,
    pub superseded: u64,
    pub guarded: u64,
    pub no_change: u64,
    pub dead_lettered: u64,
    pub nulled: u64,
    pub rows_changed: u64,
}

/// A lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lag {
    /// Records from what is acknowledged to the topic's end.
    pub records: u64,
    /// Their bytes, by the mean of the records that were read.
    pub bytes_about: Option<u64>,
}

/// How old events were when they became durable: the batch's commit minus `source.ts_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Freshness {
    /// Half of them were this old at most.
    pub p50_seconds: f64,
    /// 99 of 100.
    pub p99_seconds: f64,
    /// When the newest of them happened in the source.
    pub newest_at: Option<Timestamp>,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Its number.
    pub partition: i32,
    /// The offset in the table's own commits.
    pub checkpoint: Option<i64>,
    /// The offset that the group has committed.
    pub committed: Option<i64>,
    /// The offset after its last record.
    pub end: i64,
    /// Records in between.
    pub lag: u64,
    /// The id of the member that reads it.
    pub member: Option<String>,
}

/// What `highwater reconcile --continuous` has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Every change before this LSN is in the replica, and nothing else.
    pub through: Option<String>,
    /// When that was found.
    pub at: Option<Timestamp>,
    /// When the last walk over the table ended.
    pub walked_at: Option<Timestamp>,
    /// The rows that it compared.
    pub rows: u64,
    /// Those that differed.
    pub drift: u64,
    /// Those that changed at every look.
    pub unsettled: u64,
    /// Whether those that differed were repaired.
    #[serde(default)]
    pub is_repaired: bool,
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub id: String,
    /// Its `client.id`.
    pub client: String,
    /// Where it is, as the broker sees it.
    pub host: String,
    /// The partitions that it reads, as `topic/partition`.
    pub partitions: Vec<String>,
}

/// A replication slot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// Whether a connector reads it.
    pub active: bool,
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// Bytes of WAL that it keeps on the server's disk.
    pub retained_bytes: Option<u64>,
    /// Bytes that may still be written before it can be lost, where the server limits it.
    pub safe_wal_bytes: Option<u64>,
    /// The server's limit.
    pub limit_bytes: Option<u64>,
    /// Everything before has been delivered.
    pub confirmed_lsn: Option<String>,
    /// The oldest WAL that it needs.
    pub restart_lsn: Option<String>,
    /// The server has no such slot.
    pub missing: bool,
    /// Why the server could not be asked.
    pub error: Option<String>,
}

/// A connector, by Kafka Connect's REST API.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connector {
    /// Its name.
    pub name: String,
    /// `RUNNING`, `PAUSED`, `STOPPED`, `FAILED`, `UNASSIGNED`, ...; `MISSING` where the worker does not know it.
    pub state: Option<String>,
    /// Where it runs.
    pub worker: Option<String>,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// The command that starts again what has failed.
    pub restart: String,
    /// Why the worker could not be asked.
    pub error: Option<String>,
}

/// A connector's task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its number.
    pub id: i64,
    /// As the connector's.
    pub state: String,
    /// Where it runs.
    pub worker: Option<String>,
    /// The first line of what it failed with.
    pub why: Option<String>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    /// When.
    pub at: Timestamp,
    /// `WARN` or `ERROR`.
    pub level: String,
    /// The table that it is about.
    pub table: Option<String>,
    /// What it says.
    pub message: String,
}
