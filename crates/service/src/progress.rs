//! Progress: a bar on a terminal, a line for each table otherwise.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pipeline::{Fault, Flushed, Observer, TopicPartition};

/// Shows records that became durable, of those that lay ahead.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        if std::io::stderr().is_terminal() {
            let style =
                ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} records, {per_sec}, {eta} left {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.enable_steady_tick(Duration::from_millis(200));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self { bar }
    }
}

impl Observer for Progress {
    fn assigned(&mut self, partitions: &[TopicPartition], ahead: u64) {
        self.bar.inc_length(ahead);
        let names: Vec<_> = partitions.iter().map(ToString::to_string).collect();
        self.bar.suspend(|| tracing::info!(records_ahead = ahead, "assigned: {}", names.join(", ")));
    }

    fn flushed(&mut self, flushed: &Flushed<'_>) {
        self.bar.inc(flushed.counts.received);
        self.bar.set_message(format!(
            "{} {}",
            flushed.table,
            flushed.version.map_or_else(String::new, |v| format!("v{v}"))
        ));
    }

    fn halted(&mut self, _table: &str, _fault: &Fault) {
        self.bar.abandon();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
