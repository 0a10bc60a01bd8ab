//! [`Backoff`]: the pauses between two attempts at what passes by itself.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{Fault, Remedy, mix};

/// The first pause; it doubles up to [`PAUSE_MAX`], so that a store that comes back is not met by everyone at once,
/// and a short hiccup costs little. After a lost race it stays: whoever waits longer each time loses to those who do not.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Growing pauses, until a limit is reached. Each one is drawn between half and the whole of its length: members
/// that failed together are not to come back together.
#[derive(Debug)]
pub struct Backoff {
    began: Instant,
    limit: Duration,
    pause: Duration,
    random: u64,
}

impl Backoff {
    /// Begins now and gives up after `limit`. `seed` alone decides how long the pauses are.
    #[must_use]
    pub fn new(limit: Duration, seed: u64) -> Self {
        Self { began: Instant::now(), limit, pause: PAUSE_FIRST, random: seed }
    }

    /// Waits before the next attempt of table `name`, after `fault`.
    ///
    /// # Errors
    /// `fault` itself, where it is a halt; a halt that holds it, where the limit would pass meanwhile.
    pub async fn wait(&mut self, name: &str, fault: Fault) -> Result<(), Fault> {
        if fault.remedy == Remedy::Halt {
            return Err(fault);
        }
        let pause = self.draw();
        if fault.remedy == Remedy::Retry {
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        if self.began.elapsed() + pause > self.limit {
            let waited = self.began.elapsed().as_secs();
            return Err(Fault::halt(format!("gave up after {waited} s of trying: {fault}")));
        }
        tracing::warn!(table = name, pause_ms = pause.as_millis(), "will try again: {fault}");
        sleep(pause).await;
        Ok(())
    }

    fn draw(&mut self) -> Duration {
        self.random = self.random.wrapping_add(mix::STEP);
        let half = self.pause / 2;
        let share = u32::try_from(mix::mix(self.random) >> 48).unwrap_or(u32::MAX);
        half + half * share / (1 << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pauses(seed: u64, fault: fn(&'static str) -> Fault) -> Vec<Duration> {
        let mut backoff = Backoff::new(Duration::MAX, seed);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let began = Instant::now();
            backoff.wait("orders", fault("store away")).await.unwrap();
            pauses.push(began.elapsed());
        }
        pauses
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_a_limit_but_after_lost_races_and_differ_by_seed_alone() {
        // the clock counts in milliseconds, and a pause is rounded up to them
        let is_within = |pause: Duration, whole: Duration| {
            assert!(whole / 2 <= pause && pause <= whole + Duration::from_millis(1), "{pause:?} of {whole:?}");
        };
        for seed in 0..100 {
            let mut whole = PAUSE_FIRST;
            for pause in pauses(seed, Fault::retry).await {
                is_within(pause, whole);
                whole = (whole * 2).min(PAUSE_MAX);
            }
            for pause in pauses(seed, Fault::redo).await {
                is_within(pause, PAUSE_FIRST);
            }
        }
        assert_eq!(pauses(1, Fault::retry).await, pauses(1, Fault::retry).await);
        assert_ne!(pauses(1, Fault::retry).await, pauses(2, Fault::retry).await);
    }

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_within_its_limit_with_the_last_fault() {
        let mut backoff = Backoff::new(Duration::from_mins(1), 7);
        let began = Instant::now();
        let gave_up = loop {
            if let Err(fault) = backoff.wait("orders", Fault::retry("store away")).await {
                break fault;
            }
        };
        assert!(gave_up.message.starts_with("gave up after") && gave_up.message.ends_with("store away"), "{gave_up}");
        assert!((Duration::from_secs(30)..=Duration::from_mins(1)).contains(&began.elapsed()));
    }
}
