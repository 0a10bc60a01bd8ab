//! One connector on a source database; its topics' prefix and its replication slot have its name.

use std::time::Duration;

use anyhow::Result;

use crate::connect::{Worker, fill};
use crate::postgres::Database;
use crate::shop::wait;
use crate::stack::{HOST, repository_file};

/// Includes the start of a first snapshot.
const STREAMING: Duration = Duration::from_mins(2);

/// The connector. Dropping it removes it, and its slot.
#[derive(Debug)]
pub struct Connector {
    name: String,
    database: Database,
    worker: Worker,
}

impl Connector {
    /// Of that name, new in the stack and an SQL identifier; nothing is registered yet. The database has been made with `sql/source.sql`.
    pub fn new(name: &str, database: &Database, worker: &Worker) -> Self {
        Self { name: name.into(), database: database.clone(), worker: worker.clone() }
    }

    /// Registers it as `connectors/shop-orders.json` with `settings` put over that, and goes on at once.
    pub fn register(&self, settings: &[(&str, String)]) -> Result<()> {
        let values = [
            ("DATABASE_HOST", HOST.to_owned()),
            ("DATABASE_PORT", self.database.port.to_string()),
            ("DATABASE_USER", "cdc".into()),
            ("DATABASE_PASSWORD", "cdc".into()),
            ("DATABASE_NAME", self.database.name.clone()),
        ];
        let mut overrides = vec![("topic.prefix", self.name.clone()), ("slot.name", self.name.clone())];
        overrides.extend_from_slice(settings);
        let config = fill(&repository_file("connectors/shop-orders.json")?, &values, &overrides)?;
        self.worker.put(&self.name, &config)
    }

    /// Waits until it runs and has a slot, which is when no later change can be missed.
    pub fn wait_streaming(&self) -> Result<()> {
        self.worker.wait_running(&self.name)?;
        let slot = format!("select count(*) from pg_replication_slots where slot_name = '{}' and active", self.name);
        let complaint = format!("the slot {} is not in use", self.name);
        wait(STREAMING, &complaint, || Ok(self.database.value::<i64>(&slot)? == 1))
    }

    /// Drops the replication slot, once the connector has let go of it.
    pub fn drop_slot(&self) -> Result<()> {
        let slot = format!("pg_replication_slots where slot_name = '{}'", self.name);
        let idle = format!("select count(*) from {slot} and active");
        let complaint = format!("the slot {} was not let go of", self.name);
        wait(Duration::from_secs(20), &complaint, || Ok(self.database.value::<i64>(&idle)? == 0))?;
        self.database.execute(&format!("select pg_drop_replication_slot(slot_name) from {slot}"))
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        // Best effort: a test that failed may have left the worker down.
        let _ = self.worker.delete(&self.name);
        let _ = self.drop_slot();
    }
}
