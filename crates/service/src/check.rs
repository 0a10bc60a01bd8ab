//! `check`: every problem at once, each with what to do.

use std::{process::ExitCode, time::Duration};

use anyhow::Result;
use rdkafka::consumer::{BaseConsumer, Consumer};
use replica_delta::DeltaReplica;
use source_kafka::KafkaSettings;

use crate::{
    assemble,
    cli::CheckArgs,
    config::{Config, Problems},
};

#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn check(args: CheckArgs) -> Result<ExitCode> {
    let mut problems = Vec::new();
    match Config::read(&args.config.config) {
        Ok(config) => {
            println!("config: {} table(s), batches of {} rows", config.tables.len(), config.batch.records);
            match &config.kafka {
                Some(kafka) => topics(kafka, &config, &mut problems),
                None => problems.push("[kafka] is missing: add bootstrap_servers".to_owned()),
            }
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
    let consumer: Result<BaseConsumer, String> =
        kafka.client_config().map_err(|e| e.message).and_then(|c| c.create().map_err(|e| format!("[kafka]: {e}")));
    let consumer = match consumer {
        Ok(consumer) => consumer,
        Err(problem) => return problems.push(problem),
    };
    for table in &config.tables {
        match consumer.fetch_metadata(Some(&table.topic), Duration::from_secs(10)) {
            Ok(metadata) => match metadata.topics().iter().map(|topic| topic.partitions().len()).max() {
                Some(partitions) if partitions > 0 => {
                    println!("table {}: topic {} has {partitions} partition(s)", table.name, table.topic);
                }
                _ => problems.push(format!(
                    "table `{}`: topic {} does not exist; start the connector, or correct the name",
                    table.name, table.topic
                )),
            },
            Err(error) => {
                problems.push(format!(
                    "no Kafka broker answers at {}: {error}; correct [kafka] bootstrap_servers",
                    kafka.bootstrap_servers
                ));
                return;
            }
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
            }
            Ok(None) => println!("table {}: {} will be created", table.name, table.location),
            Err(fault) => problems.push(fault.message),
        }
    }
}
