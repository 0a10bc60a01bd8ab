//! The tables that the config leaves open: those of every topic that matches, with the columns that their records name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, Result};
use change::{Described, EnvelopeForm, Problem, RecordRef};
use pipeline::{Backoff, Fault, Format, Read, Schemas};
use source_kafka::KafkaSettings;
use tokio::runtime::Handle;

use crate::{
    assemble, catalog,
    config::{Config, Pattern, TableConfig},
};

/// What there is for the sections that leave something open.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) tables: Vec<TableConfig>,
    /// Topics that match but cannot be tables, and why.
    pub(crate) refused: BTreeMap<String, String>,
    /// Topics that match, whose records do not name their columns.
    undescribed: Vec<String>,
}

/// Where neither records nor catalog tell.
const UNDESCRIBED: &str = "its records do not name their columns: set schemas.enable=true in the connector's converters, or \
                           use a schema registry, or name the source and the connector's config in [source], or give the \
                           table a key and columns (highwater init writes them)";

impl Found {
    /// Asks the source's catalog for the tables whose records say nothing.
    async fn ask_the_catalog(&mut self, config: &Config) -> Result<(), Fault> {
        let undescribed = std::mem::take(&mut self.undescribed);
        if undescribed.is_empty() {
            return Ok(());
        }
        let plans = catalog::plans(config).await?;
        for topic in undescribed {
            let Some(pattern) = config.patterns.iter().find(|pattern| pattern.is_for(&topic)) else { continue };
            let plan = plans.as_ref().map(|plans| plans.get(&topic));
            let described = match plan {
                None => Err(UNDESCRIBED.to_owned()),
                Some(None) => Err("the connector of [source] captures no table with this topic".to_owned()),
                Some(Some(plan)) => catalog::describe(plan),
            };
            let table = described.and_then(|described| pattern.table(&topic, Some(described))).map(|mut table| {
                // a topic's name is not always that of its table
                if let Some(plan) = plan.flatten().filter(|_| !pattern.names_sources()) {
                    table.source_table = Some((plan.schema.clone(), plan.table.clone()));
                }
                table
            });
            self.add(table, &topic, &config.tables);
        }
        Ok(())
    }

    /// Takes in the table of a topic, where its name and its place are not another's.
    fn add(&mut self, table: Result<TableConfig, String>, topic: &str, others: &[TableConfig]) {
        let table = table.and_then(|table| {
            let same = |other: &&TableConfig| other.name == table.name || other.location == table.location;
            match others.iter().chain(&self.tables).find(same) {
                Some(other) => {
                    Err(format!("its name or location is that of table `{}`, of topic {}", other.name, other.topic))
                }
                None => Ok(table),
            }
        });
        match table {
            Ok(table) => self.tables.push(table),
            Err(why) => _ = self.refused.insert(topic.to_owned(), why),
        }
    }
}

impl Config {
    /// This config with the tables that its sections stand for now. A topic that cannot be one is named in the log.
    pub(crate) async fn discovered(self) -> Result<Self> {
        if self.patterns.is_empty() {
            return Ok(self);
        }
        let found = find(&self, BTreeSet::new()).await?;
        for (topic, why) in &found.refused {
            tracing::error!("topic {topic} is left out: {why}");
        }
        let tables = [self.tables.clone(), found.tables].concat();
        Ok(Self { tables, ..self })
    }
}

/// Ends when a topic has become readable that is not among `known`.
pub(crate) async fn appeared(config: &Config, mut known: BTreeSet<String>) {
    if config.patterns.is_empty() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(config.new_topics_every).await;
        match find(config, known.clone()).await {
            Ok(found) if !found.tables.is_empty() => {
                let topics: Vec<_> = found.tables.iter().map(|table| table.topic.as_str()).collect();
                tracing::info!("new topics: {}", topics.join(", "));
                return;
            }
            Ok(found) => {
                for (topic, why) in found.refused {
                    tracing::error!("topic {topic} is left out: {why}");
                    known.insert(topic);
                }
            }
            Err(error) => tracing::warn!("looking for new topics: {error:#}"),
        }
    }
}

/// The tables of the topics that are not among `known`. Brokers that are away are waited for.
pub(crate) async fn find(config: &Config, known: BTreeSet<String>) -> Result<Found> {
    let kafka = config.kafka.clone().context("the config has no [kafka] section")?;
    let schemas = assemble::schemas(config)?;
    let mut backoff = Backoff::new(config.retry_max, assemble::seed());
    loop {
        let (kafka, schemas, patterns, declared, known) =
            (kafka.clone(), schemas.clone(), config.patterns.clone(), config.tables.clone(), known.clone());
        // librdkafka's calls block
        let look = move || look(&kafka, schemas.as_ref(), &patterns, &declared, &known);
        let found = tokio::task::spawn_blocking(look).await?;
        match found {
            Ok(mut found) => {
                found.ask_the_catalog(config).await?;
                return Ok(found);
            }
            Err(fault) => backoff.wait("topics", fault).await?,
        }
    }
}

fn look(
    kafka: &KafkaSettings,
    schemas: Option<&Arc<dyn Schemas>>,
    patterns: &[Pattern],
    declared: &[TableConfig],
    known: &BTreeSet<String>,
) -> Result<Found, Fault> {
    let mut topics = source_kafka::topics(kafka)?;
    topics.sort();
    topics.retain(|topic| !known.contains(topic) && !declared.iter().any(|table| table.topic == *topic));
    let mut found = Found::default();
    for topic in topics {
        let Some(pattern) = patterns.iter().find(|pattern| pattern.is_for(&topic)) else { continue };
        let table = if pattern.needs_a_record() {
            // a topic without a record is looked at again
            let describe = |key: &[u8], value: &[u8]| describe(schemas, pattern.form(), key, value);
            let Some(described) = source_kafka::first_record(kafka, &topic, describe)? else { continue };
            match described? {
                Ok(Some(described)) => pattern.table(&topic, Some(described)),
                Ok(None) => {
                    found.undescribed.push(topic);
                    continue;
                }
                Err(why) => Err(why),
            }
        } else {
            pattern.table(&topic, None)
        };
        found.add(table, &topic, declared);
    }
    Ok(found)
}

/// What a record says of its table, if anything; or why it cannot be read.
fn describe(
    schemas: Option<&Arc<dyn Schemas>>,
    form: &EnvelopeForm,
    key: &[u8],
    value: &[u8],
) -> Result<Result<Option<Described>, String>, Fault> {
    let mut format = Format::new(schemas.cloned());
    let record =
        RecordRef { partition: 0, offset: 0, key: Some(key), value: Some(value), timestamp: None, old_key: None };
    let described = loop {
        let (read, record_schema) = match format.read(record) {
            Ok(Read::Json(read, record_schema)) => (read, record_schema),
            Ok(Read::Unknown(id)) => {
                if let Some(schemas) = schemas {
                    Handle::current().block_on(schemas.fetch(id))?;
                }
                continue;
            }
            Err(malformed) => return Ok(Err(malformed.to_string())),
        };
        let (key, value) = (read.key.unwrap_or_default(), read.value.unwrap_or_default());
        break match record_schema {
            Some(record_schema) => Described::with(form, key, &record_schema),
            None if value.first() == Some(&0) => return Ok(Err(Problem::Framed("value").to_string())),
            None => Described::by(form, key, value),
        };
    };
    Ok(Ok(described))
}
