//! A generated shop: a source that knows its own final table, and a delivery with every kind of disorder.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Result, ensure};
use datafusion::prelude::SessionContext;
use pipeline::StartAt;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{Broker, DemoTable};
use crate::{print, sql};

const TOPIC: &str = "demo.public.orders";
const PARTITIONS: i32 = 16;
const COLUMNS: [(&str, &str); 5] = [
    ("order_id", "long"),
    ("customer_id", "long"),
    ("status", "string"),
    ("amount", "decimal(12,2)@text"),
    ("updated_at", "timestamp"),
];
const STATUS: [&str; 5] = ["new", "paid", "packed", "shipped", "returned"];
/// 2026-01-01T00:00:00Z, in microseconds.
const BEGINNING: i64 = 1_767_225_600_000_000;

#[expect(clippy::print_stdout, reason = "the command's result")]
pub(super) async fn show(broker: &Broker, dir: &Path, events: u64, seed: u64) -> Result<()> {
    let mut shop = Shop::new(seed);
    let messages = shop.deliver(events);
    let Tally { duplicates, deletes, reinserts, snapshot_rows } = shop.tally;
    println!(
        "\nA generated shop (seed {seed}): {} messages over {PARTITIONS} partitions, among them {duplicates} re-delivered \
         ones, {deletes} deletes, {reinserts} re-inserts, {snapshot_rows} rows of snapshots.\n",
        messages.len()
    );
    broker.fill(TOPIC, PARTITIONS, &messages)?;
    let table = DemoTable::new("orders", TOPIC, dir, &COLUMNS, "order_id")?;
    let applied = table.catch_up(broker, "demo-shop", StartAt::Resume, 25_000, ()).await?;
    println!("Applied: {applied}");
    ensure!(applied.received == messages.len() as u64, "the in-process Kafka lost messages");

    let before = table.version().await?;
    let replay = table.catch_up(broker, "demo-shop-replay", StartAt::Earliest, 25_000, ()).await?;
    let after = table.version().await?;
    println!("Replay of all of it: {} rows changed, version {before} before and {after} after.", replay.rows_changed);
    ensure!(replay.rows_changed == 0 && before == after, "the replay changed the table");

    let replica = live_rows(&table).await?;
    let source: Vec<String> = shop.rows.iter().map(|(id, row)| row.text(*id)).collect();
    println!("Source:  {}", fingerprint(&source));
    println!("Replica: {}", fingerprint(&replica));
    ensure!(source == replica, "the replica differs from the source");
    println!("Equal.");
    Ok(())
}

async fn live_rows(table: &DemoTable) -> Result<Vec<String>> {
    let context = SessionContext::new();
    sql::register(&context, table.name, &table.open("").await?).await?;
    let rows = context
        .sql("select order_id, customer_id, status, amount, cast(updated_at as bigint) as updated_at from orders_current order by order_id")
        .await?;
    let mut json = Vec::new();
    for batch in rows.collect().await? {
        print::json(&batch, &mut json)?;
    }
    let values = |line: &str| -> Result<String> {
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)?;
        let text = |name: &str| object[name].as_str().map_or_else(|| object[name].to_string(), str::to_owned);
        Ok(["order_id", "customer_id", "status", "amount", "updated_at"].map(text).join("|"))
    };
    String::from_utf8(json)?.lines().map(values).collect()
}

/// Count, a sum of the rows' hashes (whatever their order) and a hash of the ordered rows.
fn fingerprint(rows: &[String]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let hash = |row: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        row(&mut hasher);
        hasher.finish()
    };
    let sum = rows.iter().fold(0_u64, |sum, row| sum.wrapping_add(hash(&|h| row.hash(h))));
    let ordered = hash(&|h| rows.hash(h));
    format!("{} rows, sum of hashes {sum:016x}, ordered hash {ordered:016x}", rows.len())
}

#[derive(Clone)]
struct Row {
    customer: u64,
    status: usize,
    cents: u64,
    updated: i64,
}

impl Row {
    fn json(&self, id: u64) -> String {
        let Self { customer, status, cents, updated } = self;
        let (seconds, micros) = (updated.div_euclid(1_000_000), updated.rem_euclid(1_000_000));
        let instant = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        format!(
            r#"{{"order_id":{id},"customer_id":{customer},"status":"{}","amount":"{}.{:02}","updated_at":"{}.{micros:06}Z"}}"#,
            STATUS[*status],
            cents / 100,
            cents % 100,
            instant.strftime("%Y-%m-%dT%H:%M:%S"),
        )
    }

    fn text(&self, id: u64) -> String {
        let Self { customer, status, cents, updated } = self;
        format!("{id}|{customer}|{}|{}.{:02}|{updated}", STATUS[*status], cents / 100, cents % 100)
    }
}

#[derive(Default)]
struct Tally {
    duplicates: u64,
    deletes: u64,
    reinserts: u64,
    snapshot_rows: u64,
}

/// The source table and its log.
struct Shop {
    random: StdRng,
    rows: BTreeMap<u64, Row>,
    deleted: Vec<u64>,
    next_id: u64,
    lsn: u64,
    commit: u64,
    tally: Tally,
}

type Message = (i32, String, Option<String>);

impl Shop {
    fn new(seed: u64) -> Self {
        let (rows, deleted) = (BTreeMap::new(), Vec::new());
        let random = StdRng::seed_from_u64(seed);
        Self { random, rows, deleted, next_id: 1, lsn: 8_000_000, commit: 8_000_000, tally: Tally::default() }
    }

    fn partition(id: u64) -> i32 {
        i32::try_from(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60).unwrap_or_default() % PARTITIONS
    }

    fn message(id: u64, op: &str, after: Option<&Row>, source: &str) -> Message {
        let after = after.map_or_else(|| "null".to_owned(), |row| row.json(id));
        let value =
            format!(r#"{{"before":null,"after":{after},"source":{{"connector":"postgresql",{source}}},"op":"{op}"}}"#);
        (Self::partition(id), format!(r#"{{"order_id":{id}}}"#), Some(value))
    }

    fn new_row(&mut self) -> Row {
        let random = &mut self.random;
        Row {
            customer: random.random_range(1..20_000),
            status: random.random_range(0..STATUS.len()),
            cents: random.random_range(100..1_000_000),
            updated: BEGINNING + random.random_range(0..31_536_000_000_000),
        }
    }

    /// Transactions of one to five changes; every change names the commit before its transaction.
    fn transaction(&mut self, messages: &mut Vec<Message>) {
        for _ in 0..self.random.random_range(1..=5) {
            self.lsn += 8 * self.random.random_range(5..40);
            let source =
                format!(r#""snapshot":"false","sequence":"[\"{}\",\"{}\"]","lsn":{}"#, self.commit, self.lsn, self.lsn);
            let ids = self.next_id;
            let known = (ids > 1).then(|| self.random.random_range(1..ids)).filter(|id| self.rows.contains_key(id));
            match (self.random.random_range(0..100), known) {
                (0..60, Some(id)) => {
                    let row = self.new_row();
                    messages.push(Self::message(id, "u", Some(&row), &source));
                    self.rows.insert(id, row);
                }
                (60..70, Some(id)) => {
                    messages.push(Self::message(id, "d", None, &source));
                    messages.push((Self::partition(id), format!(r#"{{"order_id":{id}}}"#), None));
                    self.rows.remove(&id);
                    self.deleted.push(id);
                    self.tally.deletes += 1;
                }
                (70..75, _) if !self.deleted.is_empty() => {
                    let index = self.random.random_range(0..self.deleted.len());
                    let (id, row) = (self.deleted.swap_remove(index), self.new_row());
                    messages.push(Self::message(id, "c", Some(&row), &source));
                    self.rows.insert(id, row);
                    self.tally.reinserts += 1;
                }
                _ => {
                    let (id, row) = (self.next_id, self.new_row());
                    self.next_id += 1;
                    messages.push(Self::message(id, "c", Some(&row), &source));
                    self.rows.insert(id, row);
                }
            }
        }
        self.lsn += 48;
        self.commit = self.lsn;
    }

    /// A snapshot of up to 500 rows, as a re-snapshot reads them.
    fn snapshot(&mut self, messages: &mut Vec<Message>) {
        self.lsn += 56;
        let source =
            format!(r#""snapshot":"true","sequence":"[\"{}\",\"{}\"]","lsn":{}"#, self.commit, self.lsn, self.lsn);
        let from = self.random.random_range(0..self.next_id);
        for (id, row) in self.rows.range(from..).take(500) {
            messages.push(Self::message(*id, "r", Some(row), &source));
            self.tally.snapshot_rows += 1;
        }
        self.commit = self.lsn;
    }

    /// The messages in the order of delivery: a source's restart delivers a stretch of the past again, after the
    /// present.
    fn deliver(&mut self, events: u64) -> Vec<Message> {
        let events = usize::try_from(events).unwrap_or(usize::MAX);
        let mut messages: Vec<Message> = Vec::with_capacity(events);
        while messages.len() < events {
            match self.random.random_range(0..2_000) {
                0 => self.snapshot(&mut messages),
                1..4 if messages.len() > 1_000 => {
                    let back = self.random.random_range(10..1_000);
                    let again = messages[messages.len() - back..].to_vec();
                    self.tally.duplicates += again.len() as u64;
                    messages.extend(again);
                }
                _ => self.transaction(&mut messages),
            }
        }
        messages
    }
}
