//! Random histories of a small table: what a connector could send, and worse. The same seed gives the same messages.

use highwater_tests::broker::Record;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// Key n lies in partition n modulo this.
pub(crate) const PARTITIONS: u64 = 3;
const KEYS: u64 = 8;
const EVENTS: u64 = 70;

/// The messages of one history, in the order of arrival.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) records: Vec<Record>,
    pub(crate) has_truncate: bool,
}

/// What is delivered of one change: the envelope, and for a delete the tombstone after it.
struct Change {
    partition: u64,
    key: Option<Value>,
    envelope: Value,
}

/// Writes changes of a log that only grows. Streamed changes have an LSN each and a snapshot's rows share one, so an order never names two
/// contents of a key.
struct Log {
    random: StdRng,
    lsn: u64,
    snapshot: bool,
    changes: Vec<Change>,
}

impl Log {
    fn row(&mut self, id: u64) -> Value {
        let status = [json!(null), json!("new"), json!("paid"), json!(""), json!("späť, \"ü\"\t")];
        let cents: i64 = self.random.random_range(-99_999..=99_999);
        let sign = if cents < 0 { "-" } else { "" };
        let amount = format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100);
        let amount = if self.random.random_ratio(1, 10) { Value::Null } else { amount.into() };
        json!({"id": id, "status": status.choose(&mut self.random), "amount": amount})
    }

    fn push(&mut self, partition: u64, id: Option<u64>, op: &str, after: &Value, source: &Value) {
        let key = id.map(|id| json!({"id": id}));
        let before = if op == "d" { json!({"id": id, "status": null, "amount": null}) } else { Value::Null };
        let envelope = json!({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1});
        self.changes.push(Change { partition, key, envelope });
    }

    /// A snapshot of some rows at one LSN, which the next streamed change may have too.
    fn snapshot(&mut self) {
        self.lsn += 8;
        let at = self.lsn;
        let (incremental, alone) = (self.random.random_bool(0.3), self.random.random_bool(0.2));
        // an ad-hoc snapshot names the commit before it
        let committed = if self.random.random_bool(0.3) { format!("\"{}\"", at - 8) } else { "null".to_owned() };
        for id in 1..=KEYS {
            if self.random.random_bool(0.5) {
                let row = self.row(id);
                let kind = if incremental { "incremental" } else { "true" };
                // An incremental snapshot's rows have no LSN of their own, but the stream's position.
                let source = if alone {
                    json!({"sequence": format!("[\"{at}\",\"{}\"]", at - 4), "snapshot": kind})
                } else {
                    json!({"lsn": at, "sequence": format!("[{committed},\"{at}\"]"), "snapshot": kind})
                };
                self.push(id % PARTITIONS, Some(id), "r", &row, &source);
            }
        }
        self.snapshot = true;
    }

    /// A streamed change, whose transaction names the commit before it, or none right after a snapshot.
    fn stream(&mut self, truncates: bool) {
        if !std::mem::take(&mut self.snapshot) || self.random.random_bool(0.5) {
            self.lsn += 8 * self.random.random_range(1..5);
        }
        let lsn = self.lsn;
        let committed = match self.random.random_range(0..10) {
            0..3 => "null".to_owned(),
            // Long transactions: their changes lie below the commit that they name.
            3..5 => format!("\"{}\"", lsn + 8 * self.random.random_range(1..12)),
            _ => format!("\"{}\"", lsn.saturating_sub(8 * self.random.random_range(0..6))),
        };
        let source = json!({"lsn": lsn, "sequence": format!("[{committed},\"{lsn}\"]"), "snapshot": "false"});
        let id = self.random.random_range(1..=KEYS);
        match self.random.random_range(0..100) {
            0..4 if truncates => {
                let partition = self.random.random_range(0..PARTITIONS);
                self.push(partition, None, "t", &Value::Null, &source);
            }
            0..25 => self.push(id % PARTITIONS, Some(id), "d", &Value::Null, &source),
            kind => {
                let row = self.row(id);
                self.push(id % PARTITIONS, Some(id), if kind < 50 { "c" } else { "u" }, &row, &source);
            }
        }
    }
}

/// A history of about 100 messages; every second one has truncates.
pub(crate) fn history(seed: u64, number: u64) -> History {
    let random = StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let truncates = number % 2 == 1;
    let mut log = Log { random, lsn: 1 << 40, snapshot: false, changes: Vec::new() };
    for _ in 0..EVENTS {
        if log.random.random_ratio(1, 30) { log.snapshot() } else { log.stream(truncates) }
    }
    let Log { mut random, changes, .. } = log;
    let order = delivery(&mut random, changes.len());
    let mut records: Vec<Record> = Vec::new();
    let mut next = [0; 3];
    for change in order.into_iter().map(|index| &changes[index]) {
        let partition = usize::try_from(change.partition).unwrap_or_default();
        let key = change.key.as_ref().map(|key| key.to_string().into_bytes());
        let mut deliver = |value| {
            records.push(Record { partition, offset: next[partition], key: key.clone(), value });
            next[partition] += 1;
        };
        deliver(Some(change.envelope.to_string().into_bytes()));
        if change.envelope["op"] == "d" && random.random_bool(0.8) {
            deliver(None);
        }
    }
    let has_truncate = changes.iter().any(|change| change.envelope["op"] == "t");
    History { records, has_truncate }
}

/// The order in which changes arrive: as they were made, with stretches delivered again and a little disorder.
fn delivery(random: &mut StdRng, changes: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..changes).collect();
    for _ in 0..random.random_range(0..4) {
        let from = random.random_range(0..order.len());
        let to = (from + random.random_range(1..15)).min(order.len());
        let again = order[from..to].to_vec();
        order.splice(to..to, again);
    }
    for _ in 0..random.random_range(0..4) {
        let from = random.random_range(0..order.len());
        let to = (from + random.random_range(2..8)).min(order.len());
        order[from..to].shuffle(random);
    }
    order
}
