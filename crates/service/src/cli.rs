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
