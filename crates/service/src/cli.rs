//! The command line.

#![expect(clippy::doc_markdown, reason = "the comments are the help texts")]

use std::{path::PathBuf, str::FromStr};

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Keeps Delta Lake tables equal to PostgreSQL tables, from Debezium's events in Kafka.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    /// The log's form, on stderr.
    #[arg(long, value_enum, default_value_t = LogFormat::Text, global = true)]
    pub(crate) log: LogFormat,
    /// Also log each batch.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for a person.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes a config: tables, columns, types and keys as PostgreSQL's catalog has them and as the connector sends them.
    Init(InitArgs),
    /// Applies events to the replicas, as a member of the consumer group.
    Run(RunArgs),
    /// Applies whole topics once more, from the earliest offset: nothing may change.
    Replay(ReplayArgs),
    /// Shows the records that could not be applied, and applies them after a fix.
    DeadLetters(DeadLettersArgs),
    /// Queries the replicas: each table, and <table>_current without its soft-deleted rows.
    Sql(SqlArgs),
    /// Says how tables, group, slot and connector are doing, what is wrong and what to do. Exit status: 0 nothing is critical, 1
    /// something is, 2 it could not be said.
    Status(StatusArgs),
    /// Compares replicas with their sources, row by row through hashes, and names the rows that differ. Exit status: 0 equal,
    /// 1 drift, 2 could not compare.
    Reconcile(ReconcileArgs),
    /// Gives replicas the source's rows where they differ, under the guard. Without --apply it only says which ones. Exit status
    /// as of reconcile, before the repair.
    Repair(RepairArgs),
    /// Says what an event is and what the replica would do with it, and why.
    Explain(ExplainArgs),
    /// Applies recorded messages, without a broker.
    Simulate(SimulateArgs),
    /// Checks config, topics, partitions and tables, and says what to do about each problem.
    Check(CheckArgs),
    /// Shows what it promises, in one process without any server.
    Demo(DemoArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArg {
    /// The config file.
    #[arg(short, long, default_value = "highwater.toml")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The database, as postgres://user:password@host/database?sslmode=disable|prefer|require|verify-full; by default the
    /// environment variable DATABASE_URL, which keeps the password out of the list of processes.
    #[arg(long, value_name = "URL")]
    pub(crate) source: Option<String>,
    /// The connector's config, as JSON: it decides which tables and columns are sent, and in which form.
    #[arg(long, value_name = "FILE")]
    pub(crate) connector: Option<PathBuf>,
    /// Only this table of those that the connector captures: its schema.table, or a regular expression about it. Can be given
    /// several times.
    #[arg(long, value_name = "REGEX")]
    pub(crate) table: Vec<String>,
    /// The prefix of the topics' names, where --connector does not say it.
    #[arg(long, value_name = "NAME")]
    pub(crate) topic_prefix: Option<String>,
    /// Where the tables are to be, a path or URL; each gets /schema/table.
    #[arg(long, value_name = "ROOT", default_value = "lake")]
    pub(crate) location: String,
    /// Kafka's brokers.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    pub(crate) bootstrap_servers: String,
    /// Write it to this file, which must not be there yet, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// End when everything that is in the topics at the start is durable.
    #[arg(long)]
    pub(crate) until_caught_up: bool,
    #[command(flatten)]
    pub(crate) accept: AcceptArgs,
}

/// What the operator accepts after a table has halted; the log names the option to give.
#[derive(Debug, Default, Args)]
pub(crate) struct AcceptArgs {
    /// Go on where records of this table were removed from the topic before they were read. What they changed is missing until
    /// a new snapshot brings it. Can be given several times, as those below.
    #[arg(long = "accept-gap", value_name = "TABLE")]
    pub(crate) gap: Vec<String>,
    /// Read this table's topic from its beginning where it is not the one that the table was read from: re-created, or another
    /// cluster's.
    #[arg(long = "accept-topic", value_name = "TABLE")]
    pub(crate) topic: Vec<String>,
    /// Soft-delete this table's rows and fill it again from the records since EPOCH, because the source's LSNs have begun again.
    /// Once the table has that epoch the option does nothing.
    #[arg(long = "accept-epoch", value_name = "TABLE@EPOCH")]
    pub(crate) epoch: Vec<TableEpoch>,
}

/// A table and the epoch to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableEpoch {
    pub(crate) table: String,
    pub(crate) since: i64,
}

impl FromStr for TableEpoch {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "write TABLE@EPOCH, as the log of the halted table names it";
        let (table, since) = text.rsplit_once('@').ok_or(FORM)?;
        Ok(Self { table: table.to_owned(), since: since.parse().map_err(|_| FORM)? })
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Only this table.
    #[arg(long)]
    pub(crate) table: Option<String>,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct DeadLettersArgs {
    #[command(flatten)]
    pub(crate) list: LettersArgs,
    #[command(subcommand)]
    pub(crate) action: Option<DeadLettersAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLettersAction {
    /// Lists them, and how many there are by table and reason. This is the default.
    List(LettersArgs),
    /// Applies them under the guard, after a fix: what is applied leaves the file, the rest stays with its new reason and makes
    /// the exit status 1. No highwater may run with that file meanwhile.
    Replay(LettersReplayArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LettersArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Only letters of this table.
    #[arg(long)]
    pub(crate) table: Option<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print keys and values too.
    #[arg(long)]
    pub(crate) show_values: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LettersReplayArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Only letters of this table.
    #[arg(long)]
    pub(crate) table: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// The form of the result.
    #[arg(long, value_enum, default_value_t = Print::Text)]
    pub(crate) print: Print,
    /// The query, in DataFusion's SQL.
    pub(crate) query: String,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Only these tables.
    #[arg(value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    /// Only keys after this one. A key of several columns is a JSON array of texts.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) after: Option<String>,
    /// Only keys up to this one.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub(crate) up_to: Option<String>,
    /// Only a random share of the ranges, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(crate) sample: Option<u8>,
    /// Rows a range, which is what one query reads.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) range_rows: u64,
    /// Connections that query the source at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) connections: u8,
    /// Milliseconds between two queries of a connection.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub(crate) pause: u64,
    /// The longest that a query may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) statement_time: u64,
    /// How long to wait for the replica, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub(crate) wait: u64,
    /// Where nothing tells that Kafka has what the source's server sent (an idle source): wait so many seconds for it.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) grace: u64,
    /// How often rows that differ, or change meanwhile, are looked at again.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) looks: u32,
    /// How many rows that differ are named.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
    /// Go over the tables again and again until it is stopped, a part at a time, and print what differs. --pause bounds the load.
    #[arg(long, conflicts_with_all = ["after", "up_to", "sample"])]
    pub(crate) continuous: bool,
    /// With --continuous: ranges that are compared as of one moment.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) part_ranges: usize,
    /// With --continuous: keep in this file, as JSON, up to which LSN each table is known to be equal.
    #[arg(long, value_name = "FILE", requires = "continuous")]
    pub(crate) state: Option<PathBuf>,
    /// Repair the rows that differ, as repair --apply does.
    #[arg(long)]
    pub(crate) repair: bool,
    /// Append each row that was repaired to this file, as a JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Write a message into the source's WAL, so that the slot of an idle source moves. The connector sends it to the topic
    /// <prefix>.message, which has to be there.
    #[arg(long)]
    pub(crate) announce: bool,
    /// Print the values that differ, too.
    #[arg(long)]
    pub(crate) show_values: bool,
    /// Print the query by which a person can check the totals with psql.
    #[arg(long)]
    pub(crate) show_sql: bool,
    /// One JSON object a table.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// Do it.
    #[arg(long)]
    pub(crate) apply: bool,
    #[command(flatten)]
    pub(crate) compare: ReconcileArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Print {
    /// A table.
    Text,
    /// A header and one line a row.
    Csv,
    /// One object a line.
    Json,
}

/// A table, from the config or from flags.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// The config file; without it, the table is described by --key and --column.
    #[arg(short, long)]
    pub(crate) config: Option<PathBuf>,
    /// The config's table, where it has several.
    #[arg(long, requires = "config")]
    pub(crate) table: Option<String>,
    /// The topic; other topics in the input are left out. Needed where the input has several.
    #[arg(long, conflicts_with = "config")]
    pub(crate) topic: Option<String>,
    /// A key column; once for each.
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub(crate) key: Vec<String>,
    /// A column and its type, in order: boolean, short, int, long, float, double, decimal(p,s), string, binary, date,
    /// timestamp, timestamp_ntz; where its form on the wire is not clear also @text, @base64, @millis, @micros, @nanos.
    #[arg(long, value_name = "NAME:TYPE", conflicts_with = "config")]
    pub(crate) column: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// The form of the answer: text, or one JSON object a line.
    #[arg(long, value_enum, default_value_t = Print::Text)]
    pub(crate) print: Print,
    /// A file of envelopes or recorded messages, one a line; stdin by default. Each is explained as if those before
    /// it had been applied.
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Where the table lies; memory by default.
    #[arg(long, value_name = "LOCATION")]
    pub(crate) into: Option<String>,
    /// Records a batch.
    #[arg(long, value_name = "N")]
    pub(crate) batch_rows: Option<usize>,
    /// What a record that cannot be applied does.
    #[arg(long, value_enum)]
    pub(crate) on_error: Option<OnErrorArg>,
    /// Where dead letters go; by default only their reasons are logged.
    #[arg(long, value_name = "FILE")]
    pub(crate) dead_letters: Option<PathBuf>,
    /// Print every row and column at the end, soft-deleted rows too.
    #[arg(long, value_enum)]
    pub(crate) print: Option<Print>,
    /// Recorded messages, one JSON object a line with topic, partition, offset, key and value, or as kcat -J writes
    /// them; also gzipped.
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnErrorArg {
    /// Stop before the record.
    Halt,
    /// Go on without it.
    DeadLetter,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// A running process, as http://host:port; by default the address of the config's [http]. The first one that answers is
    /// shown. Where none does, what is to be seen from outside is shown.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Vec<String>,
    /// One JSON object, as /status gives it.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it again every so many seconds, until stopped.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) watch: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArg,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where the demo's tables go; a new temporary folder by default.
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Events of the generated shop.
    #[arg(long, default_value_t = 100_000)]
    pub(crate) events: u64,
    /// The generator's seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
