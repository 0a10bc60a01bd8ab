//! Generated Debezium envelopes of `shop.public.orders`, about 600 bytes each: both images, decimals as text.

use std::collections::HashSet;

use pipeline::Records;
use rand::{Rng, SeedableRng, rngs::StdRng};

const STATUS: [&str; 6] = ["new", "paid", "packed", "shipped", "done", "returned"];
const SNAPSHOT_LSN: u64 = 24_000_000_000;
pub(crate) const TOPIC: &str = "shop.public.orders";

struct Row {
    id: u64,
    customer: u64,
    status: usize,
    cents: u64,
    second: u64,
}

impl Row {
    /// A row's first version is a function of its key.
    fn first(id: u64) -> Self {
        let mut random = StdRng::seed_from_u64(id);
        Self::any(id, &mut random)
    }

    fn any(id: u64, random: &mut StdRng) -> Self {
        Self {
            id,
            customer: random.random_range(1..200_000),
            status: random.random_range(0..STATUS.len()),
            cents: random.random_range(100..200_100),
            second: random.random_range(0..86_400),
        }
    }

    fn json(&self) -> String {
        let Self { id, customer, status, cents, second } = self;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!(
            r#"{{"order_id":{id},"customer_id":{customer},"status":"{}","amount":"{}.{:02}","updated_at":"2026-01-{:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z"}}"#,
            STATUS[*status],
            cents / 100,
            cents % 100,
            id % 28 + 1,
            id % 1_000_000
        )
    }
}

fn push(records: &mut Records, offset: i64, id: u64, before: Option<&Row>, after: Option<&Row>, op: &str, lsn: u64) {
    let image = |row: Option<&Row>| row.map_or_else(|| "null".to_owned(), Row::json);
    let snapshot = op == "r";
    let ts = 1_769_817_600_000 + lsn % 1_000_000;
    let value = format!(
        r#"{{"before":{},"after":{},"source":{{"version":"3.6.1.Final","connector":"postgresql","name":"shop","ts_ms":{ts},"snapshot":"{snapshot}","db":"shop","sequence":"[\"{}\",\"{lsn}\"]","ts_us":{ts}000,"ts_ns":{ts}000000,"schema":"public","table":"orders","txId":7001,"lsn":{lsn},"xmin":null}},"transaction":null,"op":"{op}","ts_ms":{ts},"ts_us":{ts}123,"ts_ns":{ts}123456}}"#,
        image(before),
        image(after),
        lsn - 56,
    );
    records.push(TOPIC, 0, offset, Some(format!(r#"{{"order_id":{id}}}"#).as_bytes()), Some(value.as_bytes()));
}

/// `count` snapshot rows.
pub(crate) fn initial(count: u64, block: usize) -> Vec<Records> {
    let mut blocks = Vec::new();
    let mut records = Records::default();
    for (offset, id) in (0_i64..).zip(0..count) {
        push(&mut records, offset, id, None, Some(&Row::first(id)), "r", SNAPSHOT_LSN);
        if records.len() == block {
            blocks.push(std::mem::take(&mut records));
        }
    }
    blocks.push(records);
    blocks
}

/// `count` changes over `rows` rows, keys uniform: 60 % updates, 30 % inserts, 10 % deletes.
pub(crate) fn changes(count: u64, rows: u64, block: usize) -> Vec<Records> {
    let mut random = StdRng::seed_from_u64(42);
    let mut gone = HashSet::new();
    let mut next = rows;
    let mut lsn = SNAPSHOT_LSN + 1_000;
    let mut blocks = Vec::new();
    let mut records = Records::default();
    for offset in 0_i64..i64::try_from(count).unwrap_or(i64::MAX) {
        lsn += random.random_range(7..50) * 8;
        let mut live = || loop {
            let id = random.random_range(0..next);
            if !gone.contains(&id) {
                return id;
            }
        };
        let id = live();
        match random.random_range(0..10) {
            0..6 => {
                let after = Row::any(id, &mut random);
                push(&mut records, offset, id, Some(&Row::first(id)), Some(&after), "u", lsn);
            }
            6..9 => {
                let after = Row::any(next, &mut random);
                push(&mut records, offset, next, None, Some(&after), "c", lsn);
                next += 1;
            }
            _ => {
                push(&mut records, offset, id, Some(&Row::first(id)), None, "d", lsn);
                gone.insert(id);
            }
        }
        if records.len() == block {
            blocks.push(std::mem::take(&mut records));
        }
    }
    blocks.push(records);
    blocks
}
