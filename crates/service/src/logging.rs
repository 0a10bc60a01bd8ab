//! The log: to stderr, quiet in normal operation.

use std::io::IsTerminal;

use std::sync::OnceLock;

use monitor::Monitor;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter, Layer,
    layer::{Context, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

use crate::cli::LogFormat;

/// Who shows the log's warnings, beside the log.
static SHOWN_BY: OnceLock<Monitor> = OnceLock::new();

/// From now on warnings and errors are shown by `monitor`, too.
pub(crate) fn show_warnings_by(monitor: &Monitor) {
    // there is one process, and one monitor of it
    _ = SHOWN_BY.set(monitor.clone());
}

/// Hands warnings and errors to the monitor.
struct Warnings;

impl<S: Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        let Some(monitor) = SHOWN_BY.get().filter(|_| level <= Level::WARN) else { return };
        let mut line = Line::default();
        event.record(&mut line);
        monitor.note(level.as_str(), line.table, line.message);
    }
}

#[derive(Default)]
struct Line {
    message: String,
    table: Option<String>,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "table" => self.table = Some(value.to_owned()),
            "message" => value.clone_into(&mut self.message),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "table" => self.table = Some(format!("{value:?}")),
            "message" => self.message = format!("{value:?}"),
            _ => {}
        }
    }
}

/// Sets up the log. `RUST_LOG` overrides what is logged. The libraries' own words on lost races and retries are left
/// out: Highwater says what came of them.
pub(crate) fn init(format: LogFormat, verbose: bool) {
    let ours = if verbose { "debug" } else { "info" };
    let names = ["change", "pipeline", "source_kafka", "replica_delta", "service"];
    let ours = names.map(|name| format!("highwater_{name}={ours}")).join(",");
    let default = format!(
        "error,deltalake_core=off,buoyant_kernel=off,rdkafka=off,librdkafka=off,highwater={0},{ours}",
        if verbose { "debug" } else { "info" }
    );
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let subscriber = tracing_subscriber::registry().with(filter).with(Warnings);
    match format {
        LogFormat::Text => subscriber.with(log.with_ansi(std::io::stderr().is_terminal())).init(),
        LogFormat::Json => subscriber.with(log.json().flatten_event(true)).init(),
    }
}

/// Lets a panic pass silently that delta-rs expects: where an upload cannot be finished (a full disk), it aborts an
/// upload that has been shut down already, catches the panic of that, and reports the error itself.
pub(crate) fn pass_over_expected_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", std::panic::Location::file);
        if file.contains("object_store-") && file.ends_with("src/buffered.rs") {
            tracing::debug!("an upload was aborted after it could not be finished");
        } else {
            report(panic);
        }
    }));
}
