//! `run` and `replay`.

use std::{pin::pin, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use monitor::{
    Monitor,
    http::{self, Site},
    status::Phase,
};
use pipeline::{Backoff, Counts, Ending, Observer, Pipeline, StartAt, Summary, Table};
use replica_delta::{DeltaReplica, Lake};
use source_kafka::{KafkaSettings, KafkaSource};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    assemble,
    cli::{AcceptArgs, ReplayArgs, RunArgs},
    config::{Config, HttpConfig, TableConfig},
    discover, logging,
    progress::Progress,
    sql, stop,
    watch::Watch,
};

/// A process whose last table has halted stays for so long where it says how it is doing, so that page and scrape can tell why;
/// then its supervisor starts it again, and it tries again.
const HALTED_STAYS: Duration = Duration::from_mins(1);
/// Beyond `[retry] max` the loop may be away for so long before the process is no longer held to be alive.
const LOOP_PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn run(args: RunArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?;
    let kafka = kafka(&config)?.clone();
    let monitor = Monitor::of_process(&kafka.group, assemble::batches_memory(&config));
    logging::show_warnings_by(&monitor);
    let is_shown = show(&config, &monitor).await?;
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
                () = &mut stop => monitor.is_now(Phase::Stopping),
                () = discover::appeared(&config, topics), if !args.until_caught_up => has_new_topics = true,
            }
        };
        if tables.is_empty() {
            anyhow::ensure!(!args.until_caught_up, "no topic that the config names has a record yet");
            interrupted.await;
        } else {
            monitor.is_now(Phase::Starting);
            for table in &tables {
                monitor.table(&table.name, &table.topic, &table.location);
            }
            let watching = is_shown.then(|| AbortOnDrop(tokio::spawn(Watch::new(&whole, &monitor).on())));
            let observer = (Progress::new(), monitor.clone());
            let summary = stream(
                &whole,
                &kafka,
                &tables,
                (StartAt::Resume, args.until_caught_up),
                &accept,
                observer,
                interrupted,
            );
            let summary = summary.await?;
            drop(watching);
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
    if ending == Ending::Halted && is_shown && !args.until_caught_up {
        monitor.is_now(Phase::Halted);
        tracing::error!("no table is left to go on with; ends in {} s", HALTED_STAYS.as_secs());
        tokio::select! {
            () = &mut stop => {}
            () = tokio::time::sleep(HALTED_STAYS) => {}
        }
    }
    tracing::info!("ended: {}", reason(ending));
    Ok(total.as_ref().map_or(ExitCode::SUCCESS, report))
}

/// Serves what the monitor knows, where the config says so.
async fn show(config: &Config, monitor: &Monitor) -> Result<bool> {
    let Some(HttpConfig { listen, token }) = &config.http else { return Ok(false) };
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("[http]: cannot listen on {listen}; choose another address"))?;
    tracing::info!("how it is doing: http://{}/", listener.local_addr()?);
    let patience = config.retry_max.saturating_add(LOOP_PATIENCE);
    let site = Site { monitor: monitor.clone(), token: token.clone(), patience };
    tokio::spawn(async {
        if let Err(error) = http::serve(listener, site).await {
            tracing::error!("[http]: {error}");
        }
    });
    Ok(true)
}

/// A task that goes on only as long as this is held.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
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
    let how = (StartAt::Earliest, true);
    let summary = stream(&config, &kafka, &tables, how, &nothing, Progress::new(), stop).await?;
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
    (start_at, until_caught_up): (StartAt, bool),
    accept: &AcceptArgs,
    observer: impl Observer,
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
    let pipeline = Pipeline::new(source, assembled, assemble::dead_letters(config)?, settings, observer);
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
