//! The log: to stderr, quiet in normal operation.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

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
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
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
