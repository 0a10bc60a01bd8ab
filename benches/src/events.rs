//! Generated Debezium envelopes of `shop.public.orders`, about 600 bytes each: both images, decimals as text.

use std::collections::HashSet;

use change::RecordRef;
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
    let key = format!(r#"{{"order_id":{id}}}"#);
    let (key, value, timestamp) = (Some(key.as_bytes()), Some(value.as_bytes()), i64::try_from(ts).ok());
    records.push(TOPIC, RecordRef { partition: 0, offset, key, value, timestamp, old_key: None });
}

/// `count` snapshot rows, in blocks.
pub(crate) fn initial(count: u64, block: u64) -> impl Iterator<Item = Records> {
    (0..count.div_ceil(block)).map(move |number| {
        let mut records = Records::default();
        for id in number * block..count.min((number + 1) * block) {
            push(&mut records, id.cast_signed(), id, None, Some(&Row::first(id)), "r", SNAPSHOT_LSN);
        }
        records
    })
}

/// `count` changes over `rows` rows, keys uniform: 60 % updates, 30 % inserts, 10 % deletes, in blocks.
pub(crate) fn changes(count: u64, rows: u64, block: u64) -> impl Iterator<Item = Records> {
    let mut random = StdRng::seed_from_u64(42);
    let mut gone = HashSet::new();
    let mut next = rows;
    let mut lsn = SNAPSHOT_LSN + 1_000;
    (0..count.div_ceil(block)).map(move |number| {
        let mut records = Records::default();
        for offset in number * block..count.min((number + 1) * block) {
            lsn += random.random_range(7..50) * 8;
            let id = loop {
                let id = random.random_range(0..next);
                if !gone.contains(&id) {
                    break id;
                }
            };
            let offset = offset.cast_signed();
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
        }
        records
    })
}
