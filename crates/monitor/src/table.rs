//! [`TableFacts`]: what is known of one table.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use pipeline::{Counts, Effort, Flushed, RowCounts};

use crate::{
    histogram::Histogram,
    history::{History, STEP},
    state::PartitionLag,
    status::{self, Files, Freshness, Halted, Lag, Partition, Rows, Verified},
};

/// Seconds, as Prometheus gets them.
const SECONDS: &[f64] = &[0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0];
const RECORDS: &[f64] = &[1.0, 10.0, 100.0, 1e3, 5e3, 1e4, 2.5e4, 5e4, 1e5, 2.5e5, 1e6];
/// Seconds for the quantiles of [`Freshness`], each a quarter above the one before it or less.
const FINE: &[f64] = &[
    0.05, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.1, 1.4, 1.7, 2.1, 2.6, 3.2, 4.0, 5.0, 6.2, 7.5,
    9.0, 11.0, 14.0, 17.0, 21.0, 26.0, 32.0, 40.0, 50.0, 60.0, 75.0, 90.0, 120.0, 150.0, 180.0, 240.0, 300.0, 400.0,
    500.0, 650.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 604_800.0,
];
/// [`Freshness`] is of the last five minutes.
const FRESHNESS_STEPS: usize = 30;

/// A table, as the pipeline and those who look from outside tell of it.
#[derive(Debug)]
pub(crate) struct TableFacts {
    pub(crate) topic: String,
    pub(crate) location: String,
    pub(crate) since: Timestamp,
    pub(crate) halted: Option<Halted>,
    pub(crate) version: Option<u64>,
    pub(crate) last_commit_at: Option<Timestamp>,
    pub(crate) last_batch_at: Option<Timestamp>,
    pub(crate) counts: Counts,
    pub(crate) rows_changed: RowCounts,
    pub(crate) records_read: u64,
    pub(crate) bytes_read: u64,
    pub(crate) committed: u64,
    pub(crate) without_effect: u64,
    pub(crate) batch_records: Histogram,
    pub(crate) batch_seconds: Histogram,
    pub(crate) steps: BTreeMap<&'static str, Duration>,
    pub(crate) effort: Effort,
    pub(crate) freshness: Histogram,
    pub(crate) rows: Option<Rows>,
    pub(crate) files: Option<Files>,
    pub(crate) letters: u64,
    pub(crate) verified: Option<Verified>,
    pub(crate) history: History,
    /// The offsets that the table's own commits hold, by partition.
    pub(crate) checkpoint: BTreeMap<i32, i64>,
    partitions: Option<Vec<PartitionLag>>,
    fresh: VecDeque<Histogram>,
    newest_ms: Option<i64>,
    /// The partitions of which everything was read, and nothing since.
    ended: BTreeSet<i32>,
    /// Where a partition ended when everything of it was durable: markers of transactions may stand before it, which no
    /// position passes.
    done_to: BTreeMap<i32, i64>,
    /// Records that were read and are not durable.
    pending: u64,
    /// What was durable at the last point of the history.
    durable_before: u64,
}

impl TableFacts {
    pub(crate) fn new(topic: String, location: String, now: Timestamp) -> Self {
        Self {
            topic,
            location,
            since: now,
            halted: None,
            version: None,
            last_commit_at: None,
            last_batch_at: None,
            counts: Counts::default(),
            rows_changed: RowCounts::default(),
            records_read: 0,
            bytes_read: 0,
            committed: 0,
            without_effect: 0,
            batch_records: Histogram::new(RECORDS),
            batch_seconds: Histogram::new(SECONDS),
            steps: BTreeMap::new(),
            effort: Effort::default(),
            freshness: Histogram::new(SECONDS),
            rows: None,
            files: None,
            letters: 0,
            verified: None,
            history: History::default(),
            checkpoint: BTreeMap::new(),
            partitions: None,
            fresh: VecDeque::from([Histogram::new(FINE)]),
            newest_ms: None,
            ended: BTreeSet::new(),
            done_to: BTreeMap::new(),
            pending: 0,
            durable_before: 0,
        }
    }

    /// Its process begins to read it, perhaps once more.
    pub(crate) fn opened(&mut self) {
        self.halted = None;
        self.assigned();
    }

    /// What was read before an assignment and was not ours is never going to be durable.
    pub(crate) fn assigned(&mut self) {
        self.pending = 0;
        self.ended.clear();
    }

    pub(crate) fn received(&mut self, partition: i32, records: u64, bytes: u64) {
        self.records_read += records;
        self.bytes_read += bytes;
        self.pending += records;
        self.ended.remove(&partition);
    }

    pub(crate) fn ended(&mut self, partition: i32) {
        self.ended.insert(partition);
    }

    pub(crate) fn flushed(&mut self, flushed: &Flushed<'_>, now: Timestamp) {
        let &Flushed { counts, rows, version, took, effort, times, .. } = flushed;
        self.counts += counts;
        self.pending = self.pending.saturating_sub(counts.received);
        self.last_batch_at = Some(now);
        match version {
            Some(version) => {
                self.committed += 1;
                self.version = Some(version);
                self.last_commit_at = Some(now);
            }
            None => self.without_effect += 1,
        }
        self.rows_changed.inserted += rows.inserted;
        self.rows_changed.updated += rows.updated;
        self.rows_changed.deleted += rows.deleted + rows.emptied;
        #[expect(clippy::cast_precision_loss, reason = "for a histogram")]
        self.batch_records.observe(counts.received as f64, 1);
        self.batch_seconds.observe(took.as_secs_f64(), 1);
        for (step, took) in &effort.work.steps {
            *self.steps.entry(step).or_default() += *took;
        }
        self.effort.lost_races += effort.lost_races;
        self.effort.retries += effort.retries;
        self.effort.work.files_written += effort.work.files_written;
        self.effort.work.files_removed += effort.work.files_removed;
        self.effort.work.rows_copied += effort.work.rows_copied;
        let now_ms = now.as_millisecond();
        for (ts_ms, events) in times.iter() {
            let age = Duration::from_millis(u64::try_from(now_ms - ts_ms).unwrap_or(0)).as_secs_f64();
            self.freshness.observe(age, events);
            if let Some(fresh) = self.fresh.back_mut() {
                fresh.observe(age, events);
            }
            self.newest_ms = self.newest_ms.max(Some(ts_ms));
        }
    }

    /// How far the group has come in its partitions.
    pub(crate) fn looked_at(&mut self, partitions: Vec<PartitionLag>) {
        for found in &partitions {
            if self.pending == 0 && self.ended.contains(&found.partition) {
                self.done_to.insert(found.partition, found.end);
            }
        }
        self.partitions = Some(partitions);
    }

    /// A point of the history is due.
    pub(crate) fn tick(&mut self) {
        #[expect(clippy::cast_precision_loss, reason = "for a chart")]
        let rate = (self.counts.received - self.durable_before) as f32 / STEP.as_secs_f32();
        self.durable_before = self.counts.received;
        #[expect(clippy::cast_possible_truncation, reason = "for a chart")]
        let freshness = self.fresh.back().and_then(|fresh| fresh.quantile(0.99)).map(|seconds| seconds as f32);
        self.history.push(self.lag().map(|lag| lag.records), rate, freshness);
        if self.fresh.len() >= FRESHNESS_STEPS {
            self.fresh.pop_front();
        }
        self.fresh.push_back(Histogram::new(FINE));
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = i32> {
        self.partitions.iter().flatten().map(|found| found.partition)
    }

    pub(crate) fn lag(&self) -> Option<Lag> {
        let partitions = self.partitions.as_ref()?;
        let records = partitions.iter().map(|found| self.behind(found)).sum();
        let bytes_about = (self.records_read > 0).then(|| {
            u64::try_from(u128::from(records) * u128::from(self.bytes_read) / u128::from(self.records_read))
                .unwrap_or(u64::MAX)
        });
        Some(Lag { records, bytes_about })
    }

    fn behind(&self, found: &PartitionLag) -> u64 {
        let done = self.done_to.get(&found.partition).copied().unwrap_or_default();
        // what retention has taken is not ahead any more, and is told of when the partition is assigned
        let from = found.committed.unwrap_or(found.low).max(done).max(found.low);
        u64::try_from(found.end.saturating_sub(from)).unwrap_or(0)
    }

    pub(crate) fn recent_freshness(&self) -> Option<Freshness> {
        let mut fresh = Histogram::new(FINE);
        self.fresh.iter().for_each(|step| fresh.add(step));
        Some(Freshness {
            p50_seconds: fresh.quantile(0.5)?,
            p99_seconds: fresh.quantile(0.99)?,
            newest_at: self.newest_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok()),
        })
    }

    /// Its part of the picture.
    pub(crate) fn status(&self, name: &str, reads: bool) -> status::Table {
        let Counts { received, merged, superseded, guarded, no_change, dead_lettered, rows_changed, nulled } =
            self.counts;
        let partition = |found: &PartitionLag| Partition {
            partition: found.partition,
            checkpoint: self.checkpoint.get(&found.partition).copied(),
            committed: found.committed,
            end: found.end,
            lag: self.behind(found),
            member: found.member.clone(),
        };
        status::Table {
            name: name.to_owned(),
            topic: self.topic.clone(),
            location: self.location.clone(),
            state: match &self.halted {
                Some(_) => status::TableState::Halted,
                None if reads => status::TableState::Running,
                None => status::TableState::Unknown,
            },
            halted: self.halted.clone(),
            version: self.version,
            last_commit_at: self.last_commit_at,
            rows: self.rows,
            files: self.files,
            records: status::Records {
                received,
                merged,
                superseded,
                guarded,
                no_change,
                dead_lettered,
                nulled,
                rows_changed,
            },
            lag: self.lag(),
            freshness: self.recent_freshness(),
            conflicts: self.effort.lost_races,
            retries: self.effort.retries,
            dead_letters_waiting: self.letters,
            partitions: self.partitions.iter().flatten().map(partition).collect(),
            verified: self.verified.clone(),
            history: self.history.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pipeline::{SourceTimes, Work};

    use super::*;

    fn facts() -> TableFacts {
        TableFacts::new("shop.public.orders".into(), "lake/orders".into(), Timestamp::UNIX_EPOCH)
    }

    fn flush(facts: &mut TableFacts, received: u64) {
        let (effort, times) = (Effort { lost_races: 1, retries: 2, work: Work::default() }, SourceTimes::default());
        let counts = Counts { received, merged: received, ..Counts::default() };
        let rows = RowCounts { inserted: received, ..RowCounts::default() };
        let took = Duration::from_secs(1);
        let flushed = Flushed { table: "orders", counts, rows, version: Some(7), took, effort: &effort, times: &times };
        facts.flushed(&flushed, Timestamp::UNIX_EPOCH);
    }

    fn partition(end: i64, committed: Option<i64>) -> PartitionLag {
        PartitionLag { partition: 0, low: 0, end, committed, member: None }
    }

    fn records(facts: &TableFacts) -> u64 {
        facts.lag().unwrap().records
    }

    #[test]
    fn what_is_read_and_not_durable_lags_and_a_marker_at_the_end_does_not() {
        let mut facts = facts();
        assert_eq!(facts.lag(), None);
        facts.received(0, 10, 1000);
        facts.looked_at(vec![partition(11, None)]);
        assert_eq!(facts.lag(), Some(Lag { records: 11, bytes_about: Some(1100) }));
        // offset 10 is the marker of the transaction: all is read, and not yet durable
        facts.ended(0);
        facts.looked_at(vec![partition(11, None)]);
        assert_eq!(records(&facts), 11);
        flush(&mut facts, 10);
        facts.looked_at(vec![partition(11, Some(10))]);
        assert_eq!(records(&facts), 0);
        facts.looked_at(vec![partition(14, Some(10))]);
        assert_eq!(records(&facts), 0, "the end was reached again, the source says");
        facts.received(0, 1, 100);
        facts.looked_at(vec![partition(16, Some(10))]);
        assert_eq!(records(&facts), 2);
    }

    #[test]
    fn the_history_has_a_point_for_each_step_and_an_hour_of_them() {
        let mut facts = facts();
        flush(&mut facts, 50);
        facts.tick();
        assert_eq!((facts.history.rate[0], facts.history.lag[0], facts.history.freshness[0]), (Some(5.0), None, None));
        for _ in 0..400 {
            facts.tick();
        }
        assert_eq!((facts.history.rate.len(), facts.history.rate[0]), (360, Some(0.0)));
        assert_eq!((facts.status("orders", true).conflicts, facts.effort.retries), (1, 2));
    }
}
