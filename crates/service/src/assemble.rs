//! From a config to lake, replicas and tables.

use std::{
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use pipeline::{Backoff, DeadLetters, LetterFile, LogOnly, ReadBack, Schemas, Settings, StartAt, Table};
use registry::{Client, Registry};
use replica_delta::{DeltaReplica, Lake};
use source_postgres::SourceTable;

use crate::config::{Config, SourceConfig, TableConfig};

pub(crate) fn lake(config: &Config) -> Lake {
    Lake::new(config.store.clone().into_iter().collect())
}

/// Opens a table, and tries again as the pipeline does where its store does not answer.
pub(crate) async fn replica(lake: &Lake, config: &Config, table: &TableConfig, group: &str) -> Result<DeltaReplica> {
    let mut backoff = Backoff::new(config.retry_max, seed());
    loop {
        let (name, location, schema) = (&table.name, &table.location, table.schema.clone());
        match DeltaReplica::open_laid_out(lake, name, location, group, schema, &table.layout).await {
            Ok(replica) => return Ok(replica),
            Err(fault) => backoff.wait(&table.name, fault).await?,
        }
    }
}

/// The schema registry, if there is one; tables share what it has fetched.
pub(crate) fn schemas(config: &Config) -> Result<Option<Arc<dyn Schemas>>> {
    let Some(settings) = &config.schema_registry else { return Ok(None) };
    Ok(Some(Arc::new(Registry::new(Client::new(settings)?))))
}

/// A table and its replica.
pub(crate) async fn table(
    lake: &Lake,
    config: &Config,
    table: &TableConfig,
    group: &str,
    schemas: Option<Arc<dyn Schemas>>,
) -> Result<Table<DeltaReplica>> {
    let replica = replica(lake, config, table, group).await?;
    let schema = Arc::clone(replica.schema());
    let read_back = read_back(config, table);
    let assembled = Table::new(&table.name, &table.topic, &schema, config.batch, table.on_error, replica);
    Ok(assembled.reading(schemas).reading_back(read_back))
}

/// The table in the source, where there is a connection to it; or why it is not known which one it is.
pub(crate) fn source_table(config: &Config, table: &TableConfig) -> Result<Option<SourceTable>, String> {
    let Some(SourceConfig { settings, .. }) = &config.source else { return Ok(None) };
    match &table.source_table {
        Some((schema, name)) => Ok(Some(SourceTable::new(settings.clone(), schema, name))),
        None => Err(format!(
            "what events leave out is not read back: topic {} does not end with schema.table, and there is no source = \
             \"schema.table\"",
            table.topic
        )),
    }
}

fn read_back(config: &Config, table: &TableConfig) -> Option<Arc<dyn ReadBack>> {
    match source_table(config, table) {
        Ok(source) => source.map(|source| Arc::new(source) as _),
        Err(why) => {
            tracing::warn!(table = table.name, "{why}");
            None
        }
    }
}

pub(crate) fn dead_letters(config: &Config) -> Result<Box<dyn DeadLetters>> {
    Ok(match &config.dead_letters {
        Some(path) => Box::new(LetterFile::open(Path::new(path))?),
        None => Box::new(LogOnly),
    })
}

/// The part of the memory that batches may take. A batch is copied about three times on its way through a merge; the
/// rest is for what a merge reads and writes, and for the records that librdkafka has fetched ahead.
const BATCHES_PART: usize = 4;

pub(crate) fn settings(config: &Config, start_at: StartAt, until_caught_up: bool) -> Settings {
    let memory = batches_memory(config);
    Settings { start_at, until_caught_up, retry_max: config.retry_max, memory, seed: seed() }
}

/// The bytes of batches from which on nothing more is read.
pub(crate) fn batches_memory(config: &Config) -> usize {
    config.memory / BATCHES_PART
}

/// Differs between the members of a group, on one machine and on several.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (u64::from(now.subsec_nanos()) << 32) ^ now.as_secs() ^ (u64::from(std::process::id()) << 16)
}
