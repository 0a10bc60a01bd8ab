//! `sim --seed N --count N [--trace]`: plays histories, and exits with 1 if a promise was broken.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use sim::{run::run, scenario::Scenario, shrink::shrink, stats::Stats};

/// Plays random histories through the production pipeline and checks Highwater's promises.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds, counting up.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Print every step of every history.
    #[arg(long)]
    trace: bool,
    /// Threads; every history runs on one.
    #[arg(long, default_value_t = thread::available_parallelism().map_or(1, Into::into))]
    threads: usize,
    /// Stop after this many failing seeds.
    #[arg(long, default_value_t = 1)]
    failures: u64,
}

/// What the histories of one thread came to.
#[derive(Default)]
struct Tally {
    sums: Stats,
    /// In how many histories each thing happened.
    histories: Stats,
    failing: Vec<u64>,
}

impl Tally {
    fn add(&mut self, stats: &Stats) {
        self.sums += *stats;
        self.histories += stats.happened();
    }

    fn join(&mut self, other: Self) {
        self.sums += other.sums;
        self.histories += other.histories;
        self.failing.extend(other.failing);
    }
}

#[expect(clippy::print_stdout, reason = "the command's result")]
fn main() -> ExitCode {
    let args = Args::parse();
    let began = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let work = || {
            let mut tally = Tally::default();
            while failed.load(Ordering::Relaxed) < args.failures {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= args.count {
                    break;
                }
                let seed = args.seed.wrapping_add(index);
                let outcome = run(&Scenario::draw(seed), args.trace);
                for line in &outcome.trace {
                    println!("{line}");
                }
                tally.add(&outcome.stats);
                if !outcome.violations.is_empty() {
                    failed.fetch_add(1, Ordering::Relaxed);
                    tally.failing.push(seed);
                }
            }
            tally
        };
        let threads: Vec<_> = (0..args.threads.max(1)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            if let Ok(found) = thread.join() {
                tally.join(found);
            }
        }
    });
    report(&args, &mut tally, began.elapsed())
}

#[expect(clippy::print_stdout, reason = "the command's result")]
fn report(args: &Args, tally: &mut Tally, took: Duration) -> ExitCode {
    for ((name, histories), (_, sum)) in tally.histories.all().into_iter().zip(tally.sums.all()) {
        println!("{name:>20} {sum:>12} in {histories:>9} histories");
    }
    tally.failing.sort_unstable();
    for &seed in &tally.failing {
        explain(seed);
    }
    let seconds = took.as_secs_f64();
    println!("{} of {} histories failed, seeds from {}, {seconds:.1} s", tally.failing.len(), args.count, args.seed);
    if tally.failing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints what broke, the shortest way to it, and how to see it again.
#[expect(clippy::print_stdout, reason = "the command's result")]
fn explain(seed: u64) {
    let small = shrink(&Scenario::draw(seed));
    let outcome = run(&small, true);
    println!("\nseed {seed} fails; cut down to {} steps:", small.steps.len());
    println!("{:?}", Scenario { steps: Vec::new(), ..small.clone() });
    for line in &outcome.trace {
        println!("  {line}");
    }
    for violation in &outcome.violations {
        println!("  broken: {violation}");
    }
    println!("again: sim --seed {seed} --trace");
}
