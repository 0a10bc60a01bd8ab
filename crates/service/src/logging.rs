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
        "error,deltalake_core=off,buoyant_kernel=off,highwater={0},{ours}",
        if verbose { "debug" } else { "info" }
    );
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    match format {
        LogFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
