//! [`Laps`]: how long each step of a batch takes.

use std::time::Instant;

use pipeline::Work;

/// A watch that notes each step's time in a [`Work`].
pub(crate) struct Laps {
    pub(crate) work: Work,
    since: Instant,
}

impl Laps {
    pub(crate) fn start() -> Self {
        Self { work: Work::default(), since: Instant::now() }
    }

    /// A step has ended.
    pub(crate) fn lap(&mut self, step: &'static str) {
        let now = Instant::now();
        self.work.steps.push((step, now.duration_since(self.since)));
        self.since = now;
    }
}
