//! From a config to lake, replicas and tables.

use std::path::Path;

use anyhow::Result;
use pipeline::{DeadLetters, LetterFile, LogOnly, Settings, StartAt, Table};
use replica_delta::{DeltaReplica, Lake};

use crate::config::{Config, TableConfig};

pub(crate) fn lake(config: &Config) -> Lake {
    Lake::new(config.store.clone().into_iter().collect())
}

pub(crate) async fn table(
    lake: &Lake,
    config: &Config,
    table: &TableConfig,
    group: &str,
) -> Result<Table<DeltaReplica>> {
    let replica = DeltaReplica::open(lake, &table.name, &table.location, group, table.schema.clone()).await?;
    Ok(Table::new(&table.name, &table.topic, &table.schema, config.batch, table.on_error, replica))
}

pub(crate) fn dead_letters(config: &Config) -> Result<Box<dyn DeadLetters>> {
    Ok(match &config.dead_letters {
        Some(path) => Box::new(LetterFile::open(Path::new(path))?),
        None => Box::new(LogOnly),
    })
}

pub(crate) fn settings(config: &Config, start_at: StartAt, until_caught_up: bool) -> Settings {
    Settings { start_at, until_caught_up, retry_max: config.retry_max }
}
