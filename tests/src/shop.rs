//! One source database with its connector and topic: the shop of `sql/source.sql` and `connectors/shop-orders.json`, under a name
//! of its own, so that many of them live beside each other in one stack.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::broker::{Broker, Record};
use crate::connect::Worker;
use crate::connector::Connector;
use crate::order::{Event, events};
use crate::postgres::{Database, Postgres};
use crate::stack::{Stack, repository_file};

/// So many marker rows reach every one of a few partitions, as good as surely; [`Shop::delivered`] insists on all.
const MARKERS: usize = 24;
/// Includes a worker's restart and the re-delivery that follows.
const DELIVERY: Duration = Duration::from_mins(2);

/// The shop. Dropping it removes its connector and replication slot.
#[derive(Debug)]
pub struct Shop {
    /// Of the database, the connector, the slot and the topic's prefix.
    pub name: String,
    /// The source.
    pub database: Database,
    /// Where the topic is.
    pub broker: Broker,
    /// Where the connector is.
    pub worker: Worker,
    /// Of the orders.
    pub topic: String,
    /// How many the topic has.
    pub partitions: usize,
    connector: Connector,
    /// What the connector has that the repository's file has not.
    settings: Vec<(&'static str, String)>,
    marked: AtomicU32,
}

impl Shop {
    /// A database and a topic on the stack's servers; no connector yet. The name must be an SQL identifier, new in the stack.
    pub fn open(stack: &Stack, name: &str, partitions: usize) -> Result<Self> {
        Self::open_on(&stack.postgres, stack, name, partitions)
    }

    /// The same with its database on another server.
    pub fn open_on(postgres: &Postgres, stack: &Stack, name: &str, partitions: usize) -> Result<Self> {
        let database = postgres.create_database(name)?;
        database.execute(&repository_file("sql/source.sql")?)?;
        database.execute(&repository_file("sql/generate.sql")?)?;
        let topic = format!("{name}.public.orders");
        let broker = stack.kafka.broker();
        broker.create_topic(&topic, partitions)?;
        let worker = stack.connect.worker();
        let (connector, settings, marked) = (Connector::new(name, &database, &worker), Vec::new(), AtomicU32::new(0));
        Ok(Self { name: name.into(), database, broker, worker, topic, partitions, connector, settings, marked })
    }

    /// The same with other settings of its connector.
    #[must_use]
    pub fn with_connector(mut self, settings: &[(&'static str, &str)]) -> Self {
        self.settings.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
        self
    }

    /// Registers the connector and goes on at once.
    pub fn register(&self) -> Result<()> {
        self.connector.register(&self.settings)
    }

    /// Registers the connector and waits until it runs and has a slot, which is when no later change can be missed.
    pub fn connect(&self) -> Result<()> {
        self.register()?;
        self.connector.wait_streaming()
    }

    /// Makes changes with `sql/generate.sql`.
    pub fn generate(&self, inserts: u32, updates: u32, deletes: u32, seed: u64) -> Result<()> {
        self.database.execute(&format!("call generate_changes({inserts}, {updates}, {deletes}, {})", seed % 1_000_000))
    }

    /// The same at a modest rate: 20 rows a transaction, at most 1000 rows a second.
    pub fn generate_slowly(&self, inserts: u32, updates: u32, deletes: u32, seed: u64) -> Result<()> {
        let seed = seed % 1_000_000;
        self.database.execute(&format!("call generate_changes({inserts}, {updates}, {deletes}, {seed}, 20, '20 ms')"))
    }

    /// Waits until all that is committed in the database so far lies in the topic: writes marker rows with negative keys and waits
    /// until they are seen in every partition.
    pub fn delivered(&self) -> Result<()> {
        let mark = format!("marker {}", self.marked.fetch_add(1, Ordering::Relaxed));
        let mut from = self.broker.end_offsets(&self.topic)?;
        self.database.execute(&format!(
            "insert into public.orders (order_id, status) select -n, '{mark}' from generate_series(1, {MARKERS}) n \
             on conflict (order_id) do update set status = excluded.status"
        ))?;
        let (mut keys, mut partitions) = (HashSet::new(), HashSet::new());
        let what = format!("the changes of {} did not reach the topic", self.name);
        wait(DELIVERY, &what, || {
            for record in self.broker.read(&self.topic, Some(&from))? {
                from[record.partition] = record.offset + 1;
                if record.value.as_deref().is_some_and(|value| has_status(value, &mark)) {
                    partitions.insert(record.partition);
                    keys.insert(record.key);
                }
            }
            Ok(keys.len() == MARKERS && partitions.len() == self.partitions)
        })
    }

    /// Drops the replication slot, once its connector has let go of it.
    pub fn drop_slot(&self) -> Result<()> {
        self.connector.drop_slot()
    }

    /// The whole topic.
    pub fn records(&self) -> Result<Vec<Record>> {
        self.broker.read(&self.topic, None)
    }

    /// The whole topic with each record's order.
    pub fn events(&self) -> Result<Vec<Event>> {
        events(&self.records()?)
    }
}

/// Whether an event says that the row now has this status, which no row had before.
fn has_status(value: &[u8], status: &str) -> bool {
    // Avro writes a string as twice its length, where that is below 64, and its bytes
    let length = u8::try_from(2 * status.len()).unwrap_or_default();
    let avro = [&[length], status.as_bytes()].concat();
    if value.first() == Some(&0) {
        return value.windows(avro.len()).any(|part| part == avro);
    }
    let json = String::from_utf8_lossy(value);
    // a flattened row has no images
    let row = json.split_once("\"after\":").map_or(&*json, |(_, after)| after);
    row.contains(&format!("\"status\":\"{status}\""))
}

/// Waits until `ready` gives true; the error says `complaint`.
pub fn wait(timeout: Duration, complaint: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !ready()? {
        ensure!(start.elapsed() < timeout, "{complaint} within {timeout:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
