//! `demo`: the promises, shown in one process without any server.
//!
//! The broker is librdkafka's mock cluster: the real protocol, a real consumer group, in this process.

mod shop;
mod worked_example;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use change::{Column, MetaColumns, TableSchema};
use pipeline::{BatchLimits, Counts, LogOnly, Observer, OnError, Pipeline, Settings, StartAt, Table};
use rdkafka::{
    ClientConfig,
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, Producer},
};
use replica_delta::{DeltaReplica, Lake};
use source_kafka::{KafkaSettings, KafkaSource};

use crate::cli::DemoArgs;

#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn demo(args: DemoArgs) -> Result<ExitCode> {
    let dir = match args.dir {
        Some(dir) => dir,
        None => tempfile::Builder::new().prefix("highwater-demo-").tempdir()?.keep(),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let broker = Broker::start()?;
    worked_example::show(&broker, &dir).await?;
    shop::show(&broker, &dir, args.events, args.seed).await?;
    println!("\nThe tables lie in {}; any Delta reader opens them.", dir.display());
    Ok(ExitCode::SUCCESS)
}

/// The in-process Kafka.
struct Broker {
    cluster: MockCluster<'static, rdkafka::producer::DefaultProducerContext>,
    servers: String,
}

impl Broker {
    fn start() -> Result<Self> {
        let cluster = MockCluster::new(1).context("starting the in-process Kafka")?;
        let servers = cluster.bootstrap_servers();
        Ok(Self { cluster, servers })
    }

    /// Writes messages: partition, key, value (`None` is a tombstone).
    fn fill(&self, topic: &str, partitions: i32, messages: &[(i32, String, Option<String>)]) -> Result<()> {
        self.cluster.create_topic(topic, partitions, 1)?;
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.servers)
            .set("queue.buffering.max.messages", "1000000")
            .set("linger.ms", "20");
        let producer: BaseProducer = config.create()?;
        for (partition, key, value) in messages {
            let mut record = BaseRecord::to(topic).partition(*partition).key(key.as_str());
            if let Some(value) = value {
                record = record.payload(value.as_str());
            }
            producer.send(record).map_err(|(error, _)| error)?;
            producer.poll(Duration::ZERO);
        }
        producer.flush(Duration::from_mins(1))?;
        Ok(())
    }
}

/// A table of the demo.
struct DemoTable {
    name: &'static str,
    topic: String,
    location: PathBuf,
    schema: Arc<TableSchema>,
    lake: Lake,
}

impl DemoTable {
    fn new(
        name: &'static str,
        topic: &str,
        dir: &std::path::Path,
        columns: &[(&str, &str)],
        key: &str,
    ) -> Result<Self> {
        let columns =
            columns.iter().map(|(name, declaration)| Column::declared(name, declaration)).collect::<Result<_, _>>()?;
        Ok(Self {
            name,
            topic: topic.to_owned(),
            location: dir.join(name),
            schema: Arc::new(TableSchema::new(columns, &[key], MetaColumns::default())?),
            lake: Lake::default(),
        })
    }

    async fn open(&self, group: &str) -> Result<DeltaReplica> {
        let location = self.location.to_string_lossy();
        Ok(DeltaReplica::open(&self.lake, self.name, &location, group, Arc::clone(&self.schema)).await?)
    }

    async fn version(&self) -> Result<u64> {
        Ok(self.open("").await?.version())
    }

    /// Reads the topic to its end.
    async fn catch_up(
        &self,
        broker: &Broker,
        group: &str,
        start_at: StartAt,
        records: usize,
        observer: impl Observer,
    ) -> Result<Counts> {
        let kafka = KafkaSettings {
            bootstrap_servers: broker.servers.clone(),
            group: group.to_owned(),
            commits: start_at == StartAt::Resume,
            options: std::collections::BTreeMap::new(),
        };
        let limits = BatchLimits { records, ..BatchLimits::default() };
        let table = Table::new(self.name, &self.topic, &self.schema, limits, OnError::Halt, self.open(group).await?);
        let source = KafkaSource::subscribe(&kafka, &[&self.topic])?;
        let settings =
            Settings { start_at, until_caught_up: true, retry_max: Duration::from_secs(10), ..Settings::default() };
        let pipeline = Pipeline::new(source, vec![table], Box::new(LogOnly), settings, observer);
        let summary = pipeline.run(std::future::pending()).await?;
        let (_, counts, fault) = summary.tables.into_iter().next().context("no table")?;
        ensure!(fault.is_none(), "the table halted: {}", fault.map(|fault| fault.message).unwrap_or_default());
        ensure!(counts.adds_up(), "the account does not add up: {counts}");
        Ok(counts)
    }
}
