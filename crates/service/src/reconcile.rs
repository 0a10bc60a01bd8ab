//! `reconcile`: whether replicas equal their sources.

mod continuous;
mod output;

use std::{io::IsTerminal as _, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reconcile::{CatchUp, Limits, Reconciliation, Repaired, Report, Scope, Step, Verdict};
use replica_delta::DeltaReplica;
use source_kafka::TopicEnds;
use source_postgres::{ComparedTable, Delivery, Key, KeyRange, QueryLimits, compared_table};

pub(crate) use self::continuous::found;
use crate::{
    assemble,
    cli::{ReconcileArgs, RepairArgs},
    config::{Config, TableConfig},
};

pub(crate) async fn repair(args: RepairArgs) -> Result<ExitCode> {
    let is_dry_run = !args.apply;
    reconcile(ReconcileArgs { repair: args.apply, ..args.compare }).await.inspect(|_| {
        if is_dry_run {
            output::dry_run();
        }
    })
}

pub(crate) async fn reconcile(args: ReconcileArgs) -> Result<ExitCode> {
    match compare(&args).await {
        Ok(verdict) => Ok(ExitCode::from(verdict)),
        Err(error) => {
            could_not(&error);
            Ok(ExitCode::from(COULD_NOT))
        }
    }
}

const DRIFT: u8 = 1;
const COULD_NOT: u8 = 2;

/// Compares each table, and gives the exit status: the worst of all.
async fn compare(args: &ReconcileArgs) -> Result<u8> {
    let config = Config::read(&args.config.config)?.discovered().await?;
    let tables = chosen(&config, &args.tables)?;
    if tables.len() > 1 && (args.after.is_some() || args.up_to.is_some()) {
        bail!("--after and --up-to are about one table: name it");
    }
    if args.continuous {
        return continuous::walk(&config, &tables, args).await;
    }
    let (mut has_drift, mut failed) = (false, false);
    for table in tables {
        match one(&config, table, args).await {
            Ok(verdict) => {
                has_drift |= verdict == Verdict::Drift;
                failed |= verdict == Verdict::Unsettled;
            }
            Err(error) => {
                could_not(&error.context(format!("table {}", table.name)));
                failed = true;
            }
        }
    }
    Ok(match (has_drift, failed) {
        (true, _) => DRIFT,
        (false, true) => COULD_NOT,
        (false, false) => 0,
    })
}

/// The tables that were named, or all.
fn chosen<'a>(config: &'a Config, names: &[String]) -> Result<Vec<&'a TableConfig>> {
    if let Some(name) = names.iter().find(|name| !config.tables.iter().any(|table| table.name == **name)) {
        bail!("the config has no table `{name}`");
    }
    Ok(config.tables.iter().filter(|table| names.is_empty() || names.contains(&table.name)).collect())
}

async fn one(config: &Config, table: &TableConfig, args: &ReconcileArgs) -> Result<Verdict> {
    let mut reconciliation = open(config, table, args).await?;
    let compared = Arc::clone(&reconciliation.table);
    let scope = Scope {
        range: KeyRange {
            after: args.after.as_deref().map(|text| key(text, &compared)).transpose()?,
            up_to: args.up_to.as_deref().map(|text| key(text, &compared)).transpose()?,
        },
        ranges: None,
        sample: args.sample.map(|percent| f64::from(percent) / 100.0),
    };
    let bar = bar(&table.name);
    let report = reconciliation.compare(&scope, &mut |step| show(&bar, step)).await;
    bar.finish_and_clear();
    let report = report?;
    let repaired = mend(&mut reconciliation, &report, config, table, args).await?;
    output::print(output::Sides { name: &table.name, table: &compared }, &report, repaired, args)?;
    Ok(report.verdict())
}

/// A table and its replica, ready to be compared.
async fn open(config: &Config, table: &TableConfig, args: &ReconcileArgs) -> Result<Reconciliation> {
    let source = config.source.as_ref().context("[source] is missing: add the url of the source's database")?;
    let kafka = config.kafka.as_ref().context("[kafka] is missing: add bootstrap_servers")?;
    let (schema, name) = table.source_table.as_ref().with_context(|| {
        format!("topic {} does not end with schema.table: name it with source = \"schema.table\"", table.topic)
    })?;
    let lake = assemble::lake(config);
    let replica =
        DeltaReplica::existing(&lake, &table.name, &table.location, &kafka.group, table.schema.clone()).await?;
    let replica = replica.with_context(|| format!("there is nothing at {} yet; run first", table.location))?;
    let columns = replica.source_columns();
    let compared = compared_table(&source.settings, schema, name, &columns, replica.stored().key()).await?;
    let primary = source.primary.as_ref().unwrap_or(&source.settings);
    Ok(Reconciliation {
        source: source.settings.clone(),
        table: Arc::new(compared),
        replica,
        catch_up: CatchUp {
            delivery: Delivery::open(primary, source.slot.clone()).await?,
            topic: TopicEnds::new(kafka, &table.topic)?,
            patience: Duration::from_secs(args.wait),
            grace: Duration::from_secs(args.grace),
            announces: args.announce,
            memory: config.memory,
        },
        limits: Limits {
            queries: QueryLimits {
                statement: Duration::from_secs(args.statement_time),
                connections: args.connections.into(),
            },
            pause: Duration::from_millis(args.pause),
            range_rows: args.range_rows,
            looks: args.looks,
            named: args.limit,
        },
    })
}

/// Repairs what differs, where that is wanted, and writes it down.
async fn mend(
    reconciliation: &mut Reconciliation,
    report: &Report,
    config: &Config,
    table: &TableConfig,
    args: &ReconcileArgs,
) -> Result<Option<Repaired>> {
    if !args.repair {
        return Ok(None);
    }
    let repaired = reconciliation.repair(&report.drift, config.retry_max).await.context("repairing")?;
    if let Some(path) = &args.record {
        output::record(path, &table.name, report)?;
    }
    Ok(Some(repaired))
}

/// A key from the command line.
fn key(text: &str, table: &ComparedTable) -> Result<Key> {
    let width = table.key().count();
    let parts: Vec<Option<String>> = if width == 1 {
        vec![Some(text.to_owned())]
    } else {
        serde_json::from_str(text)
            .context("a key of several columns is a JSON array of texts, such as [\"a\", \"7\"]")?
    };
    if parts.len() != width {
        bail!("the key has {width} columns, and the one that was given {}", parts.len());
    }
    Ok(parts)
}

fn bar(table: &str) -> ProgressBar {
    let bar = ProgressBar::new(0);
    if std::io::stderr().is_terminal() {
        let style =
            ProgressStyle::with_template("{prefix} {bar:30} {human_pos}/{human_len} rows, {per_sec}, {eta} left {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(table.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
    } else {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar
}

fn show(bar: &ProgressBar, step: Step) {
    match step {
        Step::Waiting(lsn) => bar.set_message(format!("waiting for the replica to come to {lsn}")),
        Step::Read(rows) => {
            bar.set_message("reading the replica");
            bar.inc_length(rows as u64);
            bar.inc(rows as u64);
        }
        Step::Comparing { rows } => {
            bar.reset();
            bar.set_length(rows);
            bar.set_message("comparing with the source");
        }
        Step::Compared(rows) => bar.inc(rows),
        Step::Looking { rows } => bar.set_message(format!("looking again at {rows} rows")),
    }
}

#[expect(clippy::print_stderr, reason = "the answer to the user")]
fn could_not(error: &anyhow::Error) {
    eprintln!("highwater: could not compare: {error:#}");
}
