//! [`Histogram`]: how often values fell between bounds.

/// Counts by bucket: up to and with each bound, and above the last.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts a value that came so many times.
    pub(crate) fn observe(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += times;
        #[expect(clippy::cast_precision_loss, reason = "a sum of floats")]
        let times = times as f64;
        self.sum += value * times;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// Each bucket's upper bound and count.
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        self.bounds.iter().copied().chain([f64::INFINITY]).zip(self.counts.iter().copied()).collect()
    }

    /// Adds what another one of the same bounds has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }

    /// The value that `share` of those counted do not exceed, about: even within a bucket. `None` where there are none.
    #[expect(clippy::cast_precision_loss, reason = "it is about")]
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = self.count() as f64 * share;
        let mut below = 0.0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            if below + count as f64 >= wanted {
                let from = bucket.checked_sub(1).map_or(0.0, |before| self.bounds[before]);
                let to = self.bounds.get(bucket).copied().unwrap_or(from);
                return Some(from + (to - from) * (wanted - below) / count as f64);
            }
            below += count as f64;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_in_the_bucket_of_its_value() {
        let mut seconds = Histogram::new(&[1.0, 2.0, 4.0]);
        assert_eq!(seconds.quantile(0.5), None);
        seconds.observe(1.0, 50);
        seconds.observe(3.0, 49);
        seconds.observe(100.0, 1);
        assert_eq!(seconds.buckets(), [(1.0, 50), (2.0, 0), (4.0, 49), (f64::INFINITY, 1)]);
        assert!((seconds.sum() - 297.0).abs() < 1e-9);
        let at = |share| seconds.quantile(share).unwrap();
        assert!(at(0.5) <= 1.0 && (2.0..=4.0).contains(&at(0.99)) && (at(1.0) - 4.0).abs() < 1e-9);
    }
}
