//! `run` and `replay`.

use std::{pin::pin, process::ExitCode};

use anyhow::{Context, Result};
use pipeline::{Backoff, Counts, Ending, Pipeline, StartAt, Summary, Table};
use replica_delta::{DeltaReplica, Lake};
use source_kafka::{KafkaSettings, KafkaSource};

use crate::{
    assemble,
    cli::{AcceptArgs, ReplayArgs, RunArgs},
    config::{Config, TableConfig},
    discover,
    progress::Progress,
    sql, stop,
};

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?;
    let kafka = kafka(&config)?.clone();
    let mut accept = args.accept;
    let mut total: Option<Summary> = None;
    let mut stop = pin!(stop::requested());
    let mut is_first = true;
    let ending = loop {
        let whole = tokio::select! {
            biased;
            () = &mut stop => break Ending::Stopped,
            whole = config.clone().discovered() => whole?,
        };
        if is_first {
            accept.check(&whole)?;
        }
        let tables: Vec<_> = whole.tables.iter().collect();
        tracing::info!(group = kafka.group, tables = tables.len(), "starting");
        let topics = tables.iter().map(|table| table.topic.clone()).collect();
        let mut has_new_topics = false;
        let interrupted = async {
            tokio::select! {
                biased;
                () = &mut stop => {}
                () = discover::appeared(&config, topics), if !args.until_caught_up => has_new_topics = true,
            }
        };
        if tables.is_empty() {
            anyhow::ensure!(!args.until_caught_up, "no topic that the config names has a record yet");
            interrupted.await;
        } else {
            let summary =
                stream(&whole, &kafka, &tables, StartAt::Resume, args.until_caught_up, &accept, interrupted).await?;
            total = Some(match total {
                Some(before) => before.followed_by(summary),
                None => summary,
            });
        }
        // what was accepted was accepted for what stood in the log, not for what may come
        (accept, is_first) = (AcceptArgs::default(), false);
        if !has_new_topics {
            break total.as_ref().map_or(Ending::Stopped, |summary| summary.ending);
        }
    };
    tracing::info!("ended: {}", reason(ending));
    Ok(total.as_ref().map_or(ExitCode::SUCCESS, report))
}

/// Reads whole topics under a group of its own and commits no offsets.
pub(crate) async fn replay(args: ReplayArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?.discovered().await?;
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
    let stop = stop::requested();
    let summary = stream(&config, &kafka, &tables, StartAt::Earliest, true, &nothing, stop).await?;
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
    stop: impl Future<Output = ()>,
) -> Result<Summary> {
    let mut stop = pin!(stop);
    let (source, assembled) = tokio::select! {
        biased;
        // the store and the brokers may be away, which is waited for
        () = &mut stop => return Ok(Summary { ending: Ending::Stopped, tables: Vec::new() }),
        assembled = assemble(config, kafka, tables, accept) => assembled?,
    };
    let settings = assemble::settings(config, start_at, until_caught_up);
    let pipeline = Pipeline::new(source, assembled, assemble::dead_letters(config)?, settings, Progress::new());
    Ok(pipeline.run(stop).await?)
}

async fn assemble(
    config: &Config,
    kafka: &KafkaSettings,
    tables: &[&TableConfig],
    accept: &AcceptArgs,
) -> Result<(KafkaSource, Vec<Table<DeltaReplica>>)> {
    let lake = assemble::lake(config);
    accept.begin_epochs(&lake, config, &kafka.group).await?;
    let schemas = assemble::schemas(config)?;
    let mut assembled = Vec::new();
    for table in tables {
        let assembled_table = assemble::table(&lake, config, table, &kafka.group, schemas.clone()).await?;
        assembled.push(assembled_table.accepting(accept.of(&table.name)));
    }
    Ok((subscribe(config, kafka, tables).await?, assembled))
}

async fn subscribe(config: &Config, kafka: &KafkaSettings, tables: &[&TableConfig]) -> Result<KafkaSource> {
    let mut backoff = Backoff::new(config.retry_max, assemble::seed());
    loop {
        let topics: Vec<_> = tables.iter().map(|table| table.topic.clone()).collect();
        let kafka = kafka.clone();
        // librdkafka waits for the brokers on this thread
        let subscribe = tokio::task::spawn_blocking(move || KafkaSource::subscribe(&kafka, &topics));
        match subscribe.await? {
            Ok(source) => return Ok(source),
            Err(fault) => backoff.wait("all", fault).await?,
        }
    }
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
