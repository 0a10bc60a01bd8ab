//! The `highwater` binary: it reads the config, wires source, pipeline and replicas, and prints. No logic of its own.

mod accept;
mod assemble;
mod catalog;
mod check;
mod cli;
mod config;
mod dead_letters;
mod demo;
mod discover;
mod explain;
mod init;
mod logging;
mod print;
mod progress;
mod reconcile;
mod recorded;
mod run;
mod shape;
mod simulate;
mod sql;
mod status;
mod stop;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

/// Merges allocate and free large buffers on many threads, which mimalloc does in about half of glibc's time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::init(cli.log, cli.verbose);
    logging::pass_over_expected_panics();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into()),
    };
    let outcome = runtime.block_on(async {
        match cli.command {
            Command::Init(args) => init::init(args).await,
            Command::Run(args) => Box::pin(run::run(args)).await,
            Command::Replay(args) => run::replay(args).await,
            Command::DeadLetters(args) => dead_letters::dead_letters(args).await,
            Command::Sql(args) => sql::sql(args).await,
            Command::Status(args) => status::status(args).await,
            Command::Reconcile(args) => reconcile::reconcile(args).await,
            Command::Repair(args) => reconcile::repair(args).await,
            Command::Explain(args) => explain::explain(args).await,
            Command::Simulate(args) => simulate::simulate(args).await,
            Command::Check(args) => check::check(args).await,
            Command::Demo(args) => demo::demo(args).await,
        }
    });
    // a merge that is being dropped must not hold up the exit
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    match outcome {
        Ok(code) => code,
        // whoever read our output has read enough
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |io: &std::io::Error| io.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| match cause.downcast_ref::<arrow::error::ArrowError>() {
        Some(arrow::error::ArrowError::IoError(_, io)) => of(io),
        Some(arrow::error::ArrowError::CsvError(text)) => text.contains("Broken pipe"),
        _ => cause.downcast_ref::<std::io::Error>().is_some_and(of),
    })
}

#[expect(clippy::print_stderr, reason = "the answer to the user")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("highwater: {error:#}");
    ExitCode::FAILURE
}
