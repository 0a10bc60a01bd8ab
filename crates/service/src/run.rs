//! `run` and `replay`.

use std::{pin::pin, process::ExitCode};

use anyhow::{Context, Result};
use pipeline::{Counts, Ending, Pipeline, StartAt, Summary, Table};
use replica_delta::{DeltaReplica, Lake};
use source_kafka::{KafkaSettings, KafkaSource};

use crate::{
    assemble,
    cli::{AcceptArgs, ReplayArgs, RunArgs},
    config::{Config, TableConfig},
    progress::Progress,
    sql, stop,
};

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?;
    let kafka = kafka(&config)?.clone();
    let tables: Vec<_> = config.tables.iter().collect();
    tracing::info!(group = kafka.group, tables = tables.len(), "starting");
    args.accept.check(&config)?;
    let summary = stream(&config, &kafka, &tables, StartAt::Resume, args.until_caught_up, &args.accept).await?;
    tracing::info!("ended: {}", reason(summary.ending));
    Ok(report(&summary))
}

/// Reads whole topics under a group of its own and commits no offsets.
pub(crate) async fn replay(args: ReplayArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?;
    let tables: Vec<_> = match &args.table {
        Some(name) => vec![config.table(Some(name))?],
        None => config.tables.iter().collect(),
    };
    let kafka = kafka(&config)?;
    let group = format!("{}-replay-{}", kafka.group, std::process::id());
    let kafka = KafkaSettings { group, commits: false, ..kafka.clone() };
    let lake = assemble::lake(&config);
    let before = versions(&lake, &tables).await?;
    let nothing = AcceptArgs::default();
    let summary = stream(&config, &kafka, &tables, StartAt::Earliest, true, &nothing).await?;
    let after = versions(&lake, &tables).await?;
    for (((name, counts, _), before), after) in summary.tables.iter().zip(before).zip(after) {
        print_replay(name, counts, before, after);
    }
    Ok(report(&summary))
}

#[expect(clippy::print_stdout, reason = "the command's result")]
fn print_replay(name: &str, counts: &Counts, before: u64, after: u64) {
    println!("table={name} {counts} version_before={before} version_after={after}");
}

async fn versions(lake: &Lake, tables: &[&TableConfig]) -> Result<Vec<u64>> {
    let mut versions = Vec::new();
    for table in tables {
        versions.push(sql::open(lake, table).await?.version());
    }
    Ok(versions)
}

fn kafka(config: &Config) -> Result<&KafkaSettings> {
    config.kafka.as_ref().context("the config has no [kafka] section")
}

async fn stream(
    config: &Config,
    kafka: &KafkaSettings,
    tables: &[&TableConfig],
    start_at: StartAt,
    until_caught_up: bool,
    accept: &AcceptArgs,
) -> Result<Summary> {
    let mut stop = pin!(stop::requested());
    let assembled = tokio::select! {
        biased;
        // the store may be away, which is waited for
        () = &mut stop => return Ok(Summary { ending: Ending::Stopped, tables: Vec::new() }),
        assembled = assemble(config, kafka, tables, accept) => assembled?,
    };
    let topics: Vec<_> = tables.iter().map(|table| table.topic.as_str()).collect();
    let source = KafkaSource::subscribe(kafka, &topics)?;
    let settings = assemble::settings(config, start_at, until_caught_up);
    let pipeline = Pipeline::new(source, assembled, assemble::dead_letters(config)?, settings, Progress::new());
    Ok(pipeline.run(stop).await?)
}

async fn assemble(
    config: &Config,
    kafka: &KafkaSettings,
    tables: &[&TableConfig],
    accept: &AcceptArgs,
) -> Result<Vec<Table<DeltaReplica>>> {
    let lake = assemble::lake(config);
    accept.begin_epochs(&lake, config, &kafka.group).await?;
    let mut assembled = Vec::new();
    for table in tables {
        let assembled_table = assemble::table(&lake, config, table, &kafka.group).await?;
        assembled.push(assembled_table.accepting(accept.of(&table.name)));
    }
    Ok(assembled)
}

fn reason(ending: Ending) -> &'static str {
    match ending {
        Ending::CaughtUp => "caught up",
        Ending::Stopped => "stopped",
        Ending::Halted => "no table is left to go on with",
    }
}

/// Logs each table's account; a halted table fails the command.
pub(crate) fn report(summary: &Summary) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (name, counts, fault) in &summary.tables {
        tracing::info!("table {name}: {counts}");
        if fault.is_some() {
            code = ExitCode::FAILURE;
        }
    }
    code
}
