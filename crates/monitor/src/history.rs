//! [`History`]: a table's last hour, a point every ten seconds.

use std::{collections::VecDeque, time::Duration};

use serde::{Deserialize, Serialize};

/// The time between two points.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// An hour of them.
const POINTS: usize = 360;

/// Series of points, oldest first; `null` where nothing is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Seconds from one point to the next.
    pub step_seconds: u64,
    /// Records between what is acknowledged and the topic's end.
    pub lag: VecDeque<Option<u64>>,
    /// Records that became durable in a second.
    pub rate: VecDeque<Option<f32>>,
    /// The freshness in seconds that 99 of 100 events did not exceed.
    pub freshness: VecDeque<Option<f32>>,
}

impl History {
    pub(crate) fn push(&mut self, lag: Option<u64>, rate: f32, freshness: Option<f32>) {
        self.step_seconds = STEP.as_secs();
        if self.lag.len() >= POINTS {
            self.lag.pop_front();
            self.rate.pop_front();
            self.freshness.pop_front();
        }
        self.lag.push_back(lag);
        self.rate.push_back(Some(rate));
        self.freshness.push_back(freshness);
    }
}
