//! Checks that offsets are acknowledged only after their effect is durable: a committed offset of the group is never ahead of the
//! checkpoint in the Delta log.
//!
//! The exact invariant: at any moment, read the group's committed offset and *then* the checkpoint (the `txn` action of the partition in the
//! newest version of the table). Where committed > checkpoint, every record between the two may change nothing: it is a tombstone, or its
//! key had an order as great before, in its partition. For a batch without an effective row makes no Delta commit, and its offsets are
//! acknowledged all the same. Reading in that order makes the check sound where a checkpoint only grows, which is checked for every version.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::broker::committed;
use crate::highwater::Highwater;
use crate::order::Event;
use crate::shop::Shop;

const INTERVAL: Duration = Duration::from_millis(50);

/// Committed offset and checkpoint of each partition at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The group's offset; 0 where it has none.
    pub committed: Vec<i64>,
    /// The next offset by the Delta log; 0 where it has none.
    pub checkpoint: Vec<i64>,
}

/// A thread that takes samples while the test goes on.
#[derive(Debug)]
pub struct Watch {
    ending: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Sample>>>,
}

/// Figures of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Differing samples.
    pub samples: usize,
    /// Samples in which an offset was ahead, over records that may change nothing.
    pub ahead: usize,
}

impl Watch {
    /// Begins to sample.
    pub fn start(shop: &Shop, highwater: &Highwater) -> Result<Self> {
        let reader = shop.broker.reader(&highwater.group)?;
        let (topic, partitions) = (shop.topic.clone(), shop.partitions);
        let mut log = DeltaLog::new(highwater, &topic, partitions);
        let ending = Arc::new(AtomicBool::new(false));
        let told = ending.clone();
        let thread = std::thread::spawn(move || {
            let mut samples: Vec<Sample> = Vec::new();
            loop {
                let last = told.load(Ordering::Relaxed);
                // While a server is down there is nothing to sample; the last sample counts, though.
                match committed(&reader, &topic, partitions) {
                    Ok(committed) => {
                        let committed = committed.into_iter().map(|offset| offset.unwrap_or(0)).collect();
                        let sample = Sample { committed, checkpoint: log.checkpoint()? };
                        if samples.last() != Some(&sample) {
                            samples.push(sample);
                        }
                    }
                    Err(error) if last => return Err(error),
                    Err(_) => {}
                }
                if last {
                    return Ok(samples);
                }
                std::thread::sleep(INTERVAL);
            }
        });
        Ok(Self { ending, thread })
    }

    /// Takes a last sample and checks all of them against the topic's events.
    pub fn finish(self, events: &[Event]) -> Result<Checked> {
        check(&self.stop()?, events)
    }

    /// Takes a last sample and gives all of them: no checkpoint has moved back.
    pub fn stop(self) -> Result<Vec<Sample>> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the watching thread panicked"))?
    }
}

/// Checks samples against the whole topic.
pub fn check(samples: &[Sample], events: &[Event]) -> Result<Checked> {
    let effective: HashSet<(usize, i64)> =
        events.iter().filter(|event| !event.may_change_nothing).map(|event| (event.partition, event.offset)).collect();
    let mut ahead = 0;
    for sample in samples {
        let mut is_ahead = false;
        for (partition, (committed, checkpoint)) in sample.committed.iter().zip(&sample.checkpoint).enumerate() {
            if let Some(offset) = (*checkpoint..*committed).find(|offset| effective.contains(&(partition, *offset))) {
                bail!(
                    "partition {partition}: offset {committed} is committed while the checkpoint is {checkpoint}, \
                     and the record at {offset} changes the table"
                );
            }
            is_ahead |= committed > checkpoint;
        }
        ahead += usize::from(is_ahead);
    }
    Ok(Checked { samples: samples.len(), ahead })
}

/// Reads a table's log as it grows.
struct DeltaLog {
    folder: PathBuf,
    app_ids: HashMap<String, usize>,
    next: u64,
    checkpoint: Vec<i64>,
}

impl DeltaLog {
    fn new(highwater: &Highwater, topic: &str, partitions: usize) -> Self {
        let app_id = |partition| (format!("highwater/{}/{topic}/{partition}", highwater.group), partition);
        let app_ids = (0..partitions).map(app_id).collect();
        Self { folder: highwater.table.join("_delta_log"), app_ids, next: 0, checkpoint: vec![0; partitions] }
    }

    /// The next offset of each partition, by the newest version that is there.
    fn checkpoint(&mut self) -> Result<Vec<i64>> {
        while let Ok(text) = std::fs::read_to_string(self.folder.join(format!("{:020}.json", self.next))) {
            for line in text.lines() {
                let action: Value =
                    serde_json::from_str(line).with_context(|| format!("Delta version {}", self.next))?;
                let txn = &action["txn"];
                let partition = txn["appId"].as_str().and_then(|app_id| self.app_ids.get(app_id));
                if let (Some(partition), Some(offset)) = (partition, txn["version"].as_i64()) {
                    let before = std::mem::replace(&mut self.checkpoint[*partition], offset);
                    ensure!(before <= offset, "version {}: a checkpoint goes from {before} to {offset}", self.next);
                }
            }
            self.next += 1;
        }
        Ok(self.checkpoint.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(offset: i64, may_change_nothing: bool) -> Event {
        let (key, sequence, after) = Default::default();
        Event {
            partition: 0,
            offset,
            key,
            op: None,
            anchor: 1,
            lsn: 1,
            sequence,
            after,
            again: false,
            may_change_nothing,
        }
    }

    #[test]
    fn an_offset_may_be_ahead_over_records_that_change_nothing_only() {
        let events = [event(0, false), event(1, true), event(2, false)];
        let sample = |committed, checkpoint| Sample { committed: vec![committed], checkpoint: vec![checkpoint] };
        assert_eq!(check(&[sample(1, 1), sample(2, 1)], &events).unwrap(), Checked { samples: 2, ahead: 1 });
        assert!(check(&[sample(3, 1)], &events).is_err());
        assert!(check(&[sample(1, 0)], &events).is_err());
    }

    #[test]
    fn a_checkpoint_that_moves_back_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let version = |version: u64, offset: i64| {
            let action = serde_json::json!({"txn": {"appId": "a", "version": offset}}).to_string();
            std::fs::write(folder.path().join(format!("{version:020}.json")), action).unwrap();
        };
        let app_ids = HashMap::from([("a".to_owned(), 0)]);
        let mut log = DeltaLog { folder: folder.path().into(), app_ids, next: 0, checkpoint: vec![0] };
        version(0, 7);
        version(1, 7);
        assert_eq!(log.checkpoint().unwrap(), [7]);
        version(2, 6);
        assert!(log.checkpoint().is_err());
    }
}
