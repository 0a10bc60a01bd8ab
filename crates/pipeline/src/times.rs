//! [`SourceTimes`]: when a batch's events happened in the source.

/// The times of events, each up to a tenth of a second: runs of one time, in the order in which the events were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceTimes(Vec<(i64, u64)>);

/// What is told apart, in milliseconds. Events of one transaction share their time, so runs are long.
const GRAIN_MS: i64 = 100;

impl SourceTimes {
    /// Notes an event of `source.ts_ms`, milliseconds since 1970; one that names none has a time of 0 and is passed over.
    pub(crate) fn push(&mut self, ts_ms: i64) {
        let time = ts_ms.div_euclid(GRAIN_MS);
        match self.0.last_mut() {
            _ if ts_ms <= 0 => {}
            Some((last, events)) if *last == time => *events += 1,
            _ => self.0.push((time, 1)),
        }
    }

    /// For each run, the milliseconds since 1970 and how many events.
    pub fn iter(&self) -> impl Iterator<Item = (i64, u64)> {
        self.0.iter().map(|&(time, events)| (time.saturating_mul(GRAIN_MS), events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_time_are_a_run_and_those_without_one_are_none() {
        let mut times = SourceTimes::default();
        for ts_ms in [0, 1_796_027_027_296, 1_796_027_027_201, 1_796_027_027_300, -5, 1_796_027_027_296] {
            times.push(ts_ms);
        }
        let runs: Vec<_> = times.iter().collect();
        assert_eq!(runs, [(1_796_027_027_200, 2), (1_796_027_027_300, 1), (1_796_027_027_200, 1)]);
    }
}
