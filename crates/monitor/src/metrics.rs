//! What Prometheus scrapes: the facts of [`Monitor`], written anew at each scrape. docs/monitoring.md lists the names.

use std::fmt::Error;

use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

use crate::{
    histogram::Histogram,
    monitor::Monitor,
    state::State,
    status::{Connector, Slot, Verified},
    table::TableFacts,
};

/// The content type of [`scrape`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics, in the text form of `OpenMetrics`.
///
/// # Errors
/// None: a `String` takes everything.
pub fn scrape(monitor: &Monitor) -> Result<String, Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(monitor.clone()));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

type Labels<'a> = [(&'static str, &'a str)];

/// Writes one metric after the other.
struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn each(
        &mut self,
        (name, help): (&str, &str),
        kind: MetricType,
        samples: impl FnOnce(&mut MetricEncoder<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        samples(&mut self.0.encode_descriptor(name, help, None, kind)?)
    }

    /// A gauge of the process.
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> Result<(), Error> {
        self.each((name, help), MetricType::Gauge, |metric| metric.encode_gauge(&value))
    }

    /// A gauge that may be unknown.
    fn known(&mut self, name: &str, help: &str, labels: &Labels<'_>, value: Option<f64>) -> Result<(), Error> {
        self.each((name, help), MetricType::Gauge, |metric| match value {
            Some(value) => metric.encode_family(&labels)?.encode_gauge(&value),
            None => Ok(()),
        })
    }

    /// A gauge of each table that it is known of.
    fn table_gauge(
        &mut self,
        (name, help): (&str, &str),
        state: &State,
        value: impl Fn(&TableFacts) -> Option<f64>,
    ) -> Result<(), Error> {
        self.each((name, help), MetricType::Gauge, |metric| {
            for (table, facts) in &state.tables {
                if let Some(value) = value(facts) {
                    metric.encode_family(&[("table", table.as_str())])?.encode_gauge(&value)?;
                }
            }
            Ok(())
        })
    }

    /// A counter of each table.
    fn table_counter(
        &mut self,
        (name, help): (&str, &str),
        state: &State,
        value: impl Fn(&TableFacts) -> u64,
    ) -> Result<(), Error> {
        self.each((name, help), MetricType::Counter, |metric| {
            for (table, facts) in &state.tables {
                let labels = [("table", table.as_str())];
                metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value(facts), None)?;
            }
            Ok(())
        })
    }

    /// Counters of each table, told apart by a label.
    fn table_counters<const N: usize>(
        &mut self,
        (name, help): (&str, &str),
        state: &State,
        label: &'static str,
        values: impl Fn(&TableFacts) -> [(&'static str, u64); N],
    ) -> Result<(), Error> {
        self.each((name, help), MetricType::Counter, |metric| {
            for (table, facts) in &state.tables {
                for (kind, value) in values(facts) {
                    let labels = [("table", table.as_str()), (label, kind)];
                    metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
                }
            }
            Ok(())
        })
    }

    fn table_histogram(
        &mut self,
        (name, help): (&str, &str),
        state: &State,
        of: impl Fn(&TableFacts) -> &Histogram,
    ) -> Result<(), Error> {
        self.each((name, help), MetricType::Histogram, |metric| {
            for (table, facts) in &state.tables {
                let found = of(facts);
                let labels = [("table", table.as_str())];
                let mut of_table = metric.encode_family(&labels)?;
                of_table.encode_histogram::<NoLabelSet>(found.sum(), found.count(), &found.buckets(), None)?;
            }
            Ok(())
        })
    }
}

impl Collector for Monitor {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let state = self.state();
        let mut writer = Writer(encoder);
        process(&mut writer, &state)?;
        records(&mut writer, &state)?;
        batches(&mut writer, &state)?;
        tables(&mut writer, &state)?;
        verified(&mut writer, &state)?;
        slot(&mut writer, state.slot.as_ref())?;
        connector(&mut writer, state.connector.as_ref())
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has floats")]
fn float(number: u64) -> f64 {
    number as f64
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

fn process(writer: &mut Writer<'_>, state: &State) -> Result<(), Error> {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    writer.known("highwater_build_info", "Highwater's version; 1", &version, Some(1.0))?;
    let started = state.started_at.map(seconds);
    writer.known("highwater_up_since_timestamp_seconds", "When the process began", &[], started)?;
    let memory = state.memory;
    writer.gauge("highwater_buffered_bytes", "Bytes of batches, open or on their way", float(memory.buffered_bytes))?;
    let help = "Bytes of batches from which on nothing more is read";
    writer.gauge("highwater_buffer_limit_bytes", help, float(memory.limit_bytes))?;
    let members = state.members.as_ref();
    let known = members.and_then(|members| members.as_ref().ok()).map(|members| float(members.len() as u64));
    writer.known("highwater_group_members", "Members of the consumer group", &[], known)?;
    let up = members.map(|members| f64::from(members.is_ok()));
    writer.known("highwater_kafka_up", "Whether the brokers answered", &[], up)
}

fn records(writer: &mut Writer<'_>, state: &State) -> Result<(), Error> {
    let read = ("highwater_records_read", "Records that were read, durable or not");
    writer.table_counter(read, state, |facts| facts.records_read)?;
    let bytes = ("highwater_read_bytes", "Bytes of their keys and values");
    writer.table_counter(bytes, state, |facts| facts.bytes_read)?;
    let outcome = ("highwater_records", "Records that are durable, by what became of them");
    writer.table_counters(outcome, state, "outcome", |TableFacts { counts, .. }| {
        [
            ("merged", counts.merged),
            ("superseded", counts.superseded),
            ("guarded", counts.guarded),
            ("no_change", counts.no_change),
            ("dead_lettered", counts.dead_lettered),
        ]
    })?;
    let rows = ("highwater_rows", "Rows of the table that changed");
    writer.table_counters(rows, state, "change", |TableFacts { rows_changed, .. }| {
        [("inserted", rows_changed.inserted), ("updated", rows_changed.updated), ("deleted", rows_changed.deleted)]
    })?;
    let nulled = ("highwater_values_nulled", "Values that did not fit their column and became null, as configured");
    writer.table_counter(nulled, state, |facts| facts.counts.nulled)
}

fn batches(writer: &mut Writer<'_>, state: &State) -> Result<(), Error> {
    let batches = ("highwater_batches", "Batches that are durable, by whether they made a commit");
    writer.table_counters(batches, state, "result", |facts| {
        [("committed", facts.committed), ("without_effect", facts.without_effect)]
    })?;
    let size = ("highwater_batch_records", "Records of a batch");
    writer.table_histogram(size, state, |facts| &facts.batch_records)?;
    let took = ("highwater_batch_seconds", "From the sealing of a batch until it was durable");
    writer.table_histogram(took, state, |facts| &facts.batch_seconds)?;
    let steps = ("highwater_step_seconds", "Time spent in each step of the batches' last attempts");
    writer.each(steps, MetricType::Counter, |metric| {
        for (table, facts) in &state.tables {
            for (step, took) in &facts.steps {
                let labels = [("table", table.as_str()), ("step", step)];
                let mut of_table = metric.encode_family(&labels)?;
                of_table.encode_counter::<NoLabelSet, _, f64>(&took.as_secs_f64(), None)?;
            }
        }
        Ok(())
    })?;
    for (name, help, value) in [
        ("highwater_files_written", "Data files written", (|f| f.effort.work.files_written) as fn(&TableFacts) -> u64),
        ("highwater_files_removed", "Data files that batches took out of the table", |f| f.effort.work.files_removed),
        ("highwater_rows_copied", "Rows written again as they were, beside changed ones", |f| {
            f.effort.work.rows_copied
        }),
        ("highwater_conflicts", "Races lost to other writers of the table", |f| f.effort.lost_races),
        ("highwater_retries", "Attempts that a store or server did not answer", |f| f.effort.retries),
    ] {
        writer.table_counter((name, help), state, value)?;
    }
    let freshness = ("highwater_freshness_seconds", "Age of events when they became durable, by source.ts_ms");
    writer.table_histogram(freshness, state, |facts| &facts.freshness)
}

fn tables(writer: &mut Writer<'_>, state: &State) -> Result<(), Error> {
    let lag = ("highwater_lag_records", "Records between what the group has acknowledged and the topic's end");
    writer.table_gauge(lag, state, |facts| facts.lag().map(|lag| float(lag.records)))?;
    let bytes = ("highwater_lag_bytes", "Their bytes, about");
    writer.table_gauge(bytes, state, |facts| facts.lag()?.bytes_about.map(float))?;
    let commit = ("highwater_last_commit_timestamp_seconds", "When this process committed last");
    writer.table_gauge(commit, state, |facts| facts.last_commit_at.map(seconds))?;
    let version = ("highwater_table_version", "The table's newest known version");
    writer.table_gauge(version, state, |facts| facts.version.map(float))?;
    writer.each(("highwater_table_rows", "Rows of the table"), MetricType::Gauge, |metric| {
        for (table, facts) in &state.tables {
            let Some(rows) = facts.rows else { continue };
            for (kind, value) in [("live", rows.live), ("deleted", rows.deleted)] {
                metric.encode_family(&[("table", table.as_str()), ("state", kind)])?.encode_gauge(&float(value))?;
            }
        }
        Ok(())
    })?;
    let files =
        |of: fn(crate::status::Files) -> u64| move |facts: &TableFacts| facts.files.map(|files| float(of(files)));
    let count = ("highwater_table_files", "Data files");
    writer.table_gauge(count, state, files(|files| files.count))?;
    let small = ("highwater_table_small_files", "Data files that a compaction would join");
    writer.table_gauge(small, state, files(|files| files.small))?;
    writer.table_gauge(("highwater_table_bytes", "Bytes of the data files"), state, files(|files| files.bytes))?;
    let log = ("highwater_table_log_commits", "Commits since the last log checkpoint");
    writer.table_gauge(log, state, files(|files| files.log_since_checkpoint))?;
    let halted = ("highwater_table_halted", "Whether the table has halted");
    writer.table_gauge(halted, state, |facts| Some(f64::from(facts.halted.is_some())))?;
    let letters = ("highwater_dead_letters", "Dead letters in the file");
    writer.table_gauge(letters, state, |facts| Some(float(facts.letters)))
}

fn verified(writer: &mut Writer<'_>, state: &State) -> Result<(), Error> {
    let of = |value: fn(&Verified) -> Option<f64>| move |facts: &TableFacts| facts.verified.as_ref().and_then(value);
    for (name, help, value) in [
        (
            "highwater_verified_timestamp_seconds",
            "When the table was found equal to its source",
            (|v| v.at.map(seconds)) as fn(&Verified) -> Option<f64>,
        ),
        ("highwater_verified_lsn", "The LSN up to which it was", |v| v.through.as_deref().and_then(lsn)),
        ("highwater_reconcile_drift_rows", "Rows that differed in the last walk and were not repaired", |v| {
            Some(if v.is_repaired { 0.0 } else { float(v.drift) })
        }),
        ("highwater_reconcile_unsettled_rows", "Rows that changed at every look", |v| Some(float(v.unsettled))),
        ("highwater_reconcile_timestamp_seconds", "When the last walk ended", |v| v.walked_at.map(seconds)),
    ] {
        writer.table_gauge((name, help), state, of(value))?;
    }
    Ok(())
}

/// `X/Y` as a number; exact up to 2^53, which is 8 PiB of WAL.
fn lsn(text: &str) -> Option<f64> {
    let (high, low) = text.split_once('/')?;
    let half = |text| u32::from_str_radix(text, 16).ok().map(u64::from);
    Some(float((half(high)? << 32) | half(low)?))
}

fn slot(writer: &mut Writer<'_>, slot: Option<&Slot>) -> Result<(), Error> {
    let up = slot.map(|slot| f64::from(slot.error.is_none()));
    writer.known("highwater_source_up", "Whether the source answered", &[], up)?;
    let labels = [("slot", slot.map_or("", |slot| slot.name.as_str()))];
    let asked = slot.filter(|slot| slot.error.is_none());
    let there = asked.filter(|slot| !slot.missing);
    let present = asked.map(|slot| f64::from(!slot.missing));
    writer.known("highwater_slot_present", "Whether the source has the slot", &labels, present)?;
    let active = there.map(|slot| f64::from(slot.active));
    writer.known("highwater_slot_active", "Whether a connector reads the slot", &labels, active)?;
    let lost = there.map(|slot| f64::from(slot.wal_status.as_deref() == Some("lost")));
    writer.known("highwater_slot_lost", "Whether the server has removed WAL that it needs", &labels, lost)?;
    let retained = there.and_then(|slot| slot.retained_bytes).map(float);
    writer.known("highwater_slot_retained_bytes", "WAL that the slot keeps on the source's disk", &labels, retained)?;
    let safe = there.and_then(|slot| slot.safe_wal_bytes).map(float);
    writer.known("highwater_slot_safe_bytes", "WAL that may be written before the slot can be lost", &labels, safe)?;
    let limit = there.and_then(|slot| slot.limit_bytes).map(float);
    writer.known("highwater_slot_limit_bytes", "max_slot_wal_keep_size", &labels, limit)
}

fn connector(writer: &mut Writer<'_>, connector: Option<&Connector>) -> Result<(), Error> {
    let up = connector.map(|connector| f64::from(connector.error.is_none()));
    writer.known("highwater_connect_up", "Whether Kafka Connect answered", &[], up)?;
    let name = connector.map_or("", |connector| connector.name.as_str());
    let labels = [("connector", name)];
    let asked = connector.filter(|connector| connector.error.is_none());
    let is = |state: &'static str| asked.map(|connector| f64::from(connector.state.as_deref() == Some(state)));
    writer.known("highwater_connector_running", "Whether the connector runs", &labels, is("RUNNING"))?;
    writer.known("highwater_connector_failed", "Whether it has failed", &labels, is("FAILED"))?;
    writer.each(("highwater_connector_tasks", "Its tasks by state"), MetricType::Gauge, |metric| {
        let Some(connector) = asked else { return Ok(()) };
        let count = |is: fn(&str) -> bool| connector.tasks.iter().filter(|task| is(&task.state)).count() as u64;
        for (state, tasks) in [
            ("running", count(|state| state == "RUNNING")),
            ("failed", count(|state| state == "FAILED")),
            ("other", count(|state| !matches!(state, "RUNNING" | "FAILED"))),
        ] {
            metric.encode_family(&[("connector", name), ("state", state)])?.encode_gauge(&float(tasks))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use pipeline::{Fault, Observer as _};

    use super::*;
    use crate::status::{Files, Rows, Task};

    #[test]
    fn what_is_known_has_a_sample_and_what_is_not_has_none() {
        let mut monitor = Monitor::of_process("highwater", 1 << 20);
        monitor.table("a \"quoted\" one", "t", "l");
        let text = scrape(&monitor).unwrap();
        assert!(text.ends_with("# EOF\n"));
        assert!(text.contains("highwater_table_halted{table=\"a \\\"quoted\\\" one\"} 0.0\n"), "{text}");
        for unknown in ["lag_records{", "slot_active{", "connector_running{", "verified_lsn{", "kafka_up "] {
            assert!(!text.contains(&format!("\nhighwater_{unknown}")), "{unknown}");
        }

        monitor.halted("a \"quoted\" one", &Fault::halt("no more"));
        let files = Files { count: 3, small: 1, bytes: 10, log_since_checkpoint: 2 };
        monitor.census("a \"quoted\" one", Rows { live: 5, deleted: 2 }, files);
        monitor.slot(Slot { name: "s".into(), limit_bytes: Some(7), ..Slot::default() });
        let task = Task { id: 0, state: "FAILED".into(), worker: None, why: None };
        let state = Some("RUNNING".to_owned());
        monitor.connector(Connector { name: "c".into(), state, tasks: vec![task], ..Connector::default() });
        let verified = Verified {
            through: Some("1/10".into()),
            at: None,
            walked_at: None,
            rows: 1,
            drift: 3,
            unsettled: 0,
            is_repaired: false,
        };
        monitor.verified([("a \"quoted\" one".to_owned(), verified)].into());
        let text = scrape(&monitor).unwrap();
        for sample in [
            "highwater_table_halted{table=\"a \\\"quoted\\\" one\"} 1.0",
            "highwater_table_rows{table=\"a \\\"quoted\\\" one\",state=\"deleted\"} 2.0",
            "highwater_slot_active{slot=\"s\"} 0.0",
            "highwater_slot_limit_bytes{slot=\"s\"} 7.0",
            "highwater_connector_running{connector=\"c\"} 1.0",
            "highwater_connector_tasks{connector=\"c\",state=\"failed\"} 1.0",
            "highwater_verified_lsn{table=\"a \\\"quoted\\\" one\"} 4294967312.0",
            "highwater_reconcile_drift_rows{table=\"a \\\"quoted\\\" one\"} 3.0",
            "highwater_records_total{table=\"a \\\"quoted\\\" one\",outcome=\"merged\"} 0",
            "highwater_freshness_seconds_bucket{le=\"+Inf\",table=\"a \\\"quoted\\\" one\"} 0",
        ] {
            assert!(text.contains(&format!("\n{sample}\n")), "{sample} in {text}");
        }
    }
}
