//! Measures the way from records to a durable table, one workload a process so that peak memory means something; and
//! highwater processes on a real broker.
//!
//! docs/benchmarks.md has the figures and how they were taken.

mod events;
mod group;
mod lab;
mod reconcile;
mod spill;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use change::{BatchBuilder, Column, Decoder, Horizon, MetaColumns, TableSchema};
use clap::{Parser, ValueEnum};
use pipeline::{BatchLimits, Blocks, Flushed, LogOnly, Observer, OnError, Pipeline, Records, Settings, StartAt, Table};
use replica_delta::{DeltaReplica, Lake};

use crate::spill::Spilled;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Events made at once.
const BLOCK: u64 = 10_000;

#[derive(Parser)]
struct Args {
    #[arg(value_enum)]
    workload: Workload,
    /// Rows of the initial load.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Changes on top of it.
    #[arg(long, default_value_t = 200_000)]
    changes: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Workload {
    /// Decoding alone, one thread.
    Decode,
    /// Snapshot rows into an empty local table, in batches of 100,000.
    Load,
    /// Changes uniform over the loaded table, in batches of 10,000.
    Scattered,
    /// 1, 2 and 4 members on one table and on four.
    Members,
    /// Four members: one joins, one leaves, one is killed.
    Rebalance,
    /// A process is killed and started again.
    Restart,
    /// Peak memory under a limit.
    Memory,
    /// A table is compared with its source.
    Reconcile,
}

fn schema() -> Result<Arc<TableSchema>> {
    let columns = [
        ("order_id", "long"),
        ("customer_id", "long"),
        ("status", "string"),
        ("amount", "decimal(12,2)@text"),
        ("updated_at", "timestamp"),
    ];
    let columns =
        columns.iter().map(|(name, declaration)| Column::declared(name, declaration)).collect::<Result<_, _>>()?;
    Ok(Arc::new(TableSchema::new(columns, &["order_id"], MetaColumns::default())?))
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    match args.workload {
        Workload::Decode => decode(args.rows),
        Workload::Load => {
            let dir = tempfile::tempdir()?;
            run("load", &dir, events::initial(args.rows, BLOCK), 100_000).await
        }
        Workload::Scattered => {
            let dir = tempfile::tempdir()?;
            run("(load)", &dir, events::initial(args.rows, BLOCK), 100_000).await?;
            run("scattered", &dir, events::changes(args.changes, args.rows, BLOCK), 10_000).await
        }
        Workload::Members => group::members(args.rows, args.changes),
        Workload::Rebalance => group::rebalance(args.rows),
        Workload::Restart => group::restart(args.rows),
        Workload::Memory => group::memory(args.rows, args.changes),
        // its client of PostgreSQL blocks
        Workload::Reconcile => tokio::task::spawn_blocking(move || reconcile::reconcile(args.rows)).await?,
    }
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn decode(count: u64) -> Result<()> {
    let blocks: Vec<Records> = events::changes(count, 1_000_000, BLOCK).collect();
    let bytes: usize = blocks.iter().map(Records::bytes).sum();
    let schema = schema()?;
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let began = Instant::now();
    for block in &blocks {
        let mut batch = BatchBuilder::new(Arc::clone(&schema));
        let mut horizon = Horizon::default();
        for index in 0..block.len() {
            let (_, record) = block.get(index).context("a record")?;
            decoder.decode(record, &mut horizon, &mut batch)?;
        }
        batch.finish()?;
    }
    let took = began.elapsed().as_secs_f64();
    let megabytes = u32::try_from(bytes >> 20).map(f64::from)?;
    println!(
        "decode: {count} events in {took:.2} s, {:.0} events/s, {:.0} MiB/s",
        per_second(count, took),
        megabytes / took
    );
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for a person")]
fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

/// Batches' times.
struct Times(std::sync::mpsc::Sender<Duration>);

impl Observer for Times {
    fn flushed(&mut self, flushed: &Flushed<'_>) {
        _ = self.0.send(flushed.took);
    }
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
async fn run(name: &str, dir: &tempfile::TempDir, blocks: impl Iterator<Item = Records>, batch: usize) -> Result<()> {
    let spilled = dir.path().join("events");
    let events = spill::write(&spilled, blocks)?;
    let schema = schema()?;
    let location = dir.path().join("orders");
    let replica =
        DeltaReplica::open(&Lake::default(), "orders", &location.to_string_lossy(), "bench", Arc::clone(&schema))
            .await?;
    let limits = BatchLimits { records: batch, bytes: usize::MAX, age: Duration::from_hours(1) };
    let table = Table::new("orders", events::TOPIC, &schema, limits, OnError::Halt, replica);
    let settings = Settings {
        start_at: StartAt::Earliest,
        until_caught_up: true,
        retry_max: Duration::from_secs(1),
        memory: usize::MAX,
        ..Settings::default()
    };
    let (send, times) = std::sync::mpsc::channel();
    let source = Blocks::new(Spilled::open(&spilled, batch.min(10_000))?);
    let pipeline = Pipeline::new(source, vec![table], Box::new(LogOnly), settings, Times(send));
    let began = Instant::now();
    let summary = pipeline.run(std::future::pending()).await?;
    let took = began.elapsed().as_secs_f64();
    let (_, counts, fault) = summary.tables.into_iter().next().context("a table")?;
    ensure!(fault.is_none() && counts.received == events, "{fault:?}");
    let mut times: Vec<Duration> = times.try_iter().collect();
    times.sort();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "{name}: {events} events in {took:.2} s, {:.0} events/s, {} batches, median {:.3} s; {counts}; peak memory {} MiB",
        per_second(events, took),
        times.len(),
        median.as_secs_f64(),
        peak_memory_mib()?
    );
    Ok(())
}

fn peak_memory_mib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse::<u64>()? / 1024)
}
