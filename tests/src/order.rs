//! The (anchor, LSN) order of Debezium envelopes, computed apart from the product's own decoder: the tests use it to find re-deliveries and
//! the records that the guard may refuse. The rule is the design's; see ARCHITECTURE.md.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::broker::Record;

/// What a test wants to know of one record of the table's topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// From 0.
    pub partition: usize,
    /// Position in the partition.
    pub offset: i64,
    /// The key's JSON text; empty for a truncate.
    pub key: String,
    /// None for a tombstone.
    pub op: Option<String>,
    /// First half of the order.
    pub anchor: u64,
    /// Second half of the order.
    pub lsn: u64,
    /// `source.sequence`, as it came.
    pub sequence: String,
    /// The row after the change, as JSON text.
    pub after: String,
    /// An earlier record of this partition had the same key and order: it was delivered before.
    pub again: bool,
    /// A tombstone, or an earlier record of this key in this partition had an order as great: it may change nothing.
    pub may_change_nothing: bool,
}

/// Reads the records of a topic, given in the order of each partition from its first.
pub fn events(records: &[Record]) -> Result<Vec<Event>> {
    let mut seen = HashSet::new();
    let mut newest = HashMap::new();
    let mut snapshot = HashMap::new();
    records
        .iter()
        .map(|record| {
            let at = || format!("partition {} offset {}", record.partition, record.offset);
            let mut event = event(record, &mut snapshot).with_context(at)?;
            if event.op.is_some() {
                let place = (event.partition, event.key.clone());
                let order = (event.anchor, event.lsn);
                event.again = !seen.insert((place.clone(), order, event.op.clone()));
                let greatest = newest.entry(place).or_insert((0, 0));
                event.may_change_nothing = order <= *greatest;
                *greatest = order.max(*greatest);
            } else {
                event.may_change_nothing = true;
            }
            Ok(event)
        })
        .collect()
}

fn event(record: &Record, snapshot: &mut HashMap<usize, u64>) -> Result<Event> {
    let text = |bytes: &Option<Vec<u8>>| String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned();
    let mut event = Event {
        partition: record.partition,
        offset: record.offset,
        key: text(&record.key),
        op: None,
        anchor: 0,
        lsn: 0,
        sequence: String::new(),
        after: String::new(),
        again: false,
        may_change_nothing: false,
    };
    let Some(bytes) = &record.value else { return Ok(event) };
    let value: Value = serde_json::from_slice(bytes).context("no JSON")?;
    let source = &value["source"];
    let op = value["op"].as_str().context("no op")?;
    let lsn = source["lsn"].as_u64();
    source["sequence"].as_str().context("no sequence")?.clone_into(&mut event.sequence);
    let sequence: Vec<Option<String>> = serde_json::from_str(&event.sequence)?;
    let committed = sequence.first().cloned().flatten().map(|text| text.parse::<u64>()).transpose()?;
    let newest = snapshot.entry(record.partition).or_default();
    (event.anchor, event.lsn) = match committed {
        _ if op == "r" => {
            let numbers = sequence.iter().flatten().filter_map(|text| text.parse().ok());
            let at = numbers.chain(lsn).max().context("no lsn")?;
            if committed.is_none() && source["snapshot"] != "incremental" {
                *newest = at.max(*newest);
            }
            (at - 1, at)
        }
        Some(committed) => (committed, lsn.context("no lsn")?),
        None => lsn.map(|lsn| (lsn.max(*newest), lsn)).context("no lsn")?,
    };
    event.op = Some(op.to_owned());
    event.after = value["after"].to_string();
    Ok(event)
}
