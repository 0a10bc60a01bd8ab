//! `check`: every problem at once, each with what to do.

use std::{collections::BTreeSet, process::ExitCode};

use anyhow::Result;
use replica_delta::DeltaReplica;
use source_kafka::KafkaSettings;
use source_postgres::{Delivery, SlotPlace};

use crate::{
    assemble,
    catalog::{self, Findings},
    cli::CheckArgs,
    config::{Config, Problems},
    discover,
};

#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn check(args: CheckArgs) -> Result<ExitCode> {
    let mut problems = Vec::new();
    match Config::read(&args.config.config) {
        Ok(mut config) => {
            if config.kafka.is_some() && !config.patterns.is_empty() {
                match discover::find(&config, BTreeSet::new()).await {
                    Ok(found) => {
                        problems.extend(found.refused.iter().map(|(topic, why)| format!("topic {topic}: {why}")));
                        config.tables.extend(found.tables);
                    }
                    Err(error) => problems.push(format!("{error:#}")),
                }
            }
            println!("config: {} table(s), batches of {} rows", config.tables.len(), config.batch.records);
            match &config.kafka {
                Some(kafka) => topics(kafka, &config, &mut problems),
                None => problems.push("[kafka] is missing: add bootstrap_servers".to_owned()),
            }
            schemas(&config, &mut problems).await;
            read_back(&config, &mut problems).await;
            source(&config, &mut problems).await;
            slot(&config, &mut problems).await;
            tables(&config, &mut problems).await;
        }
        Err(Problems(found)) => problems.extend(found),
    }
    for problem in &problems {
        println!("problem: {problem}");
    }
    println!("{} problem(s)", problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[expect(clippy::print_stdout, reason = "the command's result")]
fn topics(kafka: &KafkaSettings, config: &Config, problems: &mut Vec<String>) {
    let topics: Vec<_> = config.tables.iter().map(|table| table.topic.as_str()).collect();
    match source_kafka::probe(kafka, &topics) {
        Ok(found) => {
            for (table, found) in config.tables.iter().zip(found) {
                match found {
                    Ok(partitions) => {
                        println!("table {}: topic {} has {partitions} partition(s)", table.name, table.topic);
                    }
                    Err(fault) => problems.push(fault.message),
                }
            }
        }
        Err(fault) => problems.push(fault.message),
    }
}

/// The source's tables, where what events leave out would be looked for.
#[expect(clippy::print_stdout, reason = "the command's result")]
async fn read_back(config: &Config, problems: &mut Vec<String>) {
    for table in &config.tables {
        match assemble::source_table(config, table) {
            Ok(None) => {}
            Ok(Some(source)) => match source.probe(&table.schema).await {
                Ok(()) => println!("table {}: what events leave out can be read from the source", table.name),
                Err(fault) => problems.push(format!("table {}: {}", table.name, fault.message)),
            },
            Err(why) => println!("table {}: {why}", table.name),
        }
    }
}

/// The source's catalog beside the config.
#[expect(clippy::print_stdout, reason = "the command's result")]
async fn source(config: &Config, problems: &mut Vec<String>) {
    match catalog::plans(config).await {
        Ok(Some(plans)) => {
            for table in &config.tables {
                let Some(plan) = plans.get(&table.topic) else {
                    println!("table {}: the connector of [source] captures no table with its topic", table.name);
                    continue;
                };
                let Findings { problems: found, warnings } = catalog::compare(&table.schema, plan);
                println!("table {}: {}.{} in the source", table.name, plan.schema, plan.table);
                for warning in warnings {
                    println!("table {}: {warning}", table.name);
                }
                problems.extend(found.iter().map(|problem| format!("table {}: {problem}", table.name)));
            }
        }
        Ok(None) => println!("source: not compared; [source] with url and connector would do that"),
        Err(fault) => problems.push(fault.message),
    }
}

/// The connector's slot, by which `reconcile` knows that everything has arrived.
#[expect(clippy::print_stdout, reason = "the command's result")]
async fn slot(config: &Config, problems: &mut Vec<String>) {
    let Some(source) = &config.source else { return };
    let primary = source.primary.as_ref().unwrap_or(&source.settings);
    let place = async { Delivery::open(primary, source.slot.clone()).await?.place().await };
    match place.await {
        Ok(Some(SlotPlace { name, confirmed, sent })) => {
            println!("source: the connector's slot {name} has confirmed {confirmed}");
            if sent.is_none() {
                println!(
                    "source: nobody reads the slot, or the user may not see how far: of an idle source reconcile needs \
                     pg_read_all_stats"
                );
            }
        }
        Ok(None) => println!("source: there is no logical slot in the database"),
        Err(error) => problems.push(format!("[source]: {error}")),
    }
}

/// The registry's newest schema of each topic's values, under the subject that converters use by default.
#[expect(clippy::print_stdout, reason = "the command's result")]
async fn schemas(config: &Config, problems: &mut Vec<String>) {
    let Some(settings) = &config.schema_registry else { return };
    let client = match registry::Client::new(settings) {
        Ok(client) => client,
        Err(fault) => return problems.push(fault.message),
    };
    for table in &config.tables {
        let subject = format!("{}-value", table.topic);
        match client.latest(&subject).await {
            Ok(Some(latest)) => {
                let (kind, id) = (&latest.kind, latest.id.unwrap_or_default());
                println!("table {}: subject {subject} has {kind} schema {id}", table.name);
            }
            Ok(None) => println!("table {}: the schema registry has no subject {subject}", table.name),
            // it would be the same for each
            Err(fault) => return problems.push(fault.message),
        }
    }
}

#[expect(clippy::print_stdout, reason = "the command's result")]
async fn tables(config: &Config, problems: &mut Vec<String>) {
    let lake = assemble::lake(config);
    for table in &config.tables {
        match DeltaReplica::existing(&lake, &table.name, &table.location, "", table.schema.clone()).await {
            Ok(Some(replica)) => {
                println!("table {}: {} is at version {}", table.name, table.location, replica.version());
                match replica.lacks(&table.layout) {
                    Ok(lacking) => {
                        for (name, value) in lacking {
                            println!("table {}: property {name} will be set to {value}", table.name);
                        }
                    }
                    Err(fault) => problems.push(fault.message),
                }
            }
            Ok(None) => println!("table {}: {} will be created", table.name, table.location),
            Err(fault) => problems.push(fault.message),
        }
    }
}
