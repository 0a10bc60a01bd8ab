//! A Kafka broker: one node, `KRaft`, its own data folder and ports.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::broker::Broker;
use crate::packages;
use crate::process::{Process, Program};
use crate::scratch::Scratch;
use crate::stack::{HOST, START, STOP, free_port, java};

/// A running or stopped broker.
#[derive(Debug)]
pub struct Kafka {
    program: Program,
    process: Option<Process>,
    port: u16,
}

impl Kafka {
    /// A new broker with empty storage.
    pub fn start_new(scratch: &Scratch) -> Result<Self> {
        let home = scratch.folder("kafka")?;
        let jars = packages::jars("kafka")?;
        let port = free_port()?;
        let properties = home.join("server.properties");
        std::fs::write(&properties, settings(&home, port, free_port()?))?;
        format(&home, &jars, &properties)?;
        let program = Program::new("kafka", "java", home.join("server.log"))
            .args(java(&jars, 512))
            .args(["kafka.Kafka".to_owned(), properties.to_string_lossy().into_owned()]);
        let mut kafka = Self { program, process: None, port };
        kafka.start()?;
        Ok(kafka)
    }

    /// Starts it (again) on its port and data, and waits until it answers requests.
    pub fn start(&mut self) -> Result<()> {
        let mut process = self.program.start()?;
        let (broker, address) = (self.broker(), (HOST, self.port));
        // The port first: a client that finds it closed backs off for longer than the broker takes.
        process.wait_until("listening", START, || TcpStream::connect(address).is_ok())?;
        process.wait_until("ready", START, || broker.topics().is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it in good order.
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.stop(Signal::TERM, STOP)?;
        }
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// SIGSTOP: connections stay open and nothing answers.
    pub fn freeze(&mut self) -> Result<()> {
        self.process.as_mut().context("kafka is not running")?.freeze()
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&mut self) -> Result<()> {
        self.process.as_mut().context("kafka is not running")?.thaw()
    }

    /// Whether its process is alive.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.ended(), Ok(None)))
    }

    /// The address and the questions that can be asked there.
    pub fn broker(&self) -> Broker {
        Broker::new(format!("{HOST}:{}", self.port))
    }
}

fn format(home: &Path, jars: &Path, properties: &Path) -> Result<()> {
    // A cluster id is 16 bytes in URL-safe base64; any 22 of its letters do where the last one is of the first 4 in 16.
    let id: String = (0..21).map(|_| char::from(rand::random_range(b'a'..=b'z'))).chain(['A']).collect();
    let properties = properties.to_string_lossy();
    Program::new("kafka-format", "java", home.join("format.log"))
        .args(java(jars, 128))
        .args(["kafka.tools.StorageTool", "format", "-t", &id, "-c", &*properties])
        .finish(Duration::from_mins(2))
}

fn settings(home: &Path, port: u16, controller: u16) -> String {
    let data = home.join("data");
    let data = data.display();
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{HOST}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}
advertised.listeners=PLAINTEXT://{HOST}:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=1000
group.consumer.session.timeout.ms=3000
group.consumer.min.heartbeat.interval.ms=500
group.consumer.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=16777216
num.network.threads=2
num.io.threads=4
"
    )
}
