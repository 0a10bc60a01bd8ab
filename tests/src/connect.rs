//! A Kafka Connect worker with Debezium's PostgreSQL connector and Apicurio's Avro converter, and its REST interface.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::packages;
use crate::process::{Process, Program, tail};
use crate::scratch::Scratch;
use crate::stack::{HOST, START, STOP, free_port, java};

/// Long enough for a rebalance of the worker's group and a first snapshot's start.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(100);

/// A running or stopped worker.
#[derive(Debug)]
pub struct Connect {
    program: Program,
    process: Option<Process>,
    port: u16,
}

/// A worker's REST interface.
#[derive(Clone, Debug)]
pub struct Worker {
    agent: ureq::Agent,
    url: String,
}

impl Connect {
    /// A new worker for the broker at `bootstrap`.
    pub fn start_new(scratch: &Scratch, bootstrap: &str) -> Result<Self> {
        let home = scratch.folder("connect")?;
        let jars = packages::jars("connect")?;
        // plugin.path is the folder above the plugins' own: the cache holds other folders too, so ours links to these.
        let plugins = scratch.folder("connect/plugins")?;
        for plugin in ["debezium", "avro"] {
            std::os::unix::fs::symlink(packages::jars(plugin)?, plugins.join(plugin))?;
        }
        let port = free_port()?;
        let properties = home.join("worker.properties");
        std::fs::write(&properties, settings(bootstrap, port, &plugins.to_string_lossy()))?;
        let program = Program::new("connect", "java", home.join("worker.log")).args(java(&jars, 768)).args([
            "org.apache.kafka.connect.cli.ConnectDistributed".to_owned(),
            properties.to_string_lossy().into_owned(),
        ]);
        let mut connect = Self { program, process: None, port };
        connect.start()?;
        Ok(connect)
    }

    /// Starts it (again) and waits until it has joined its group and read its topics. Its connectors come back by themselves, a little later.
    pub fn start(&mut self) -> Result<()> {
        let worker = self.worker();
        let mut process = self.program.start()?;
        process.wait_until("ready", START, || {
            worker.call("GET", "connectors", None).is_ok_and(|(status, _)| status == 200)
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it in good order: source offsets are committed.
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

    /// The end of its log, for an error's text.
    pub fn log(&self) -> String {
        tail(&self.program.log)
    }

    /// Whether its process is alive.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.ended(), Ok(None)))
    }

    /// Its REST interface.
    pub fn worker(&self) -> Worker {
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .into();
        Worker { agent, url: format!("http://{HOST}:{}", self.port) }
    }
}

impl Worker {
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}/{path}", self.url));
        let request = request.header("Content-Type", "application/json");
        let text = body.map(Value::to_string).unwrap_or_default();
        let mut answer = self.agent.run(request.body(text)?).with_context(|| format!("{method} {path}"))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string()?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }

    /// Calls until the status is one of `good`; during a rebalance the worker answers 409, and 500 while it stops a connector.
    fn insist(&self, method: &str, path: &str, body: Option<&Value>, good: &[u16]) -> Result<Value> {
        let start = Instant::now();
        loop {
            let (status, answer) = self.call(method, path, body)?;
            if good.contains(&status) {
                return Ok(answer);
            }
            let passing = matches!(status, 404 | 409 | 500 | 503) && start.elapsed() < PATIENCE;
            ensure!(passing, "{method} {path}: HTTP {status}: {answer}");
            std::thread::sleep(POLL);
        }
    }

    /// Creates or changes a connector, without waiting for it to run.
    pub fn put(&self, name: &str, config: &Value) -> Result<()> {
        self.insist("PUT", &format!("connectors/{name}/config"), Some(config), &[200, 201])?;
        Ok(())
    }

    /// Waits until the connector and its one task run.
    pub fn wait_running(&self, name: &str) -> Result<()> {
        let start = Instant::now();
        loop {
            let (_, status) = self.call("GET", &format!("connectors/{name}/status"), None)?;
            let mut all = vec![&status["connector"]["state"]];
            all.extend(status["tasks"].as_array().into_iter().flatten().map(|task| &task["state"]));
            if all.len() > 1 && all.iter().all(|state| *state == "RUNNING") {
                return Ok(());
            }
            if all.iter().any(|state| *state == "FAILED") {
                bail!("connector {name} failed: {status:#}");
            }
            ensure!(start.elapsed() < PATIENCE, "connector {name} does not run: {status:#}");
            std::thread::sleep(POLL);
        }
    }

    /// Restarts the connector's task.
    pub fn restart_task(&self, name: &str) -> Result<()> {
        self.insist("POST", &format!("connectors/{name}/tasks/0/restart"), None, &[204])?;
        self.wait_running(name)
    }

    /// Whether the connector has committed a source offset that lies beyond its snapshot.
    pub fn has_streamed_offsets(&self, name: &str) -> Result<bool> {
        let (_, answer) = self.call("GET", &format!("connectors/{name}/offsets"), None)?;
        let offset = &answer["offsets"][0]["offset"];
        Ok(offset.is_object() && offset["snapshot"].is_null() && !offset["lsn_commit"].is_null())
    }

    /// Stops the connector and forgets how far it had come; its slot stays. [`resume`](Self::resume) starts it anew.
    pub fn forget_offsets(&self, name: &str) -> Result<()> {
        self.insist("PUT", &format!("connectors/{name}/stop"), None, &[202, 204])?;
        self.insist("DELETE", &format!("connectors/{name}/offsets"), None, &[200])?;
        Ok(())
    }

    /// Undoes [`forget_offsets`](Self::forget_offsets)' stop: without offsets, it takes a new snapshot.
    pub fn resume(&self, name: &str) -> Result<()> {
        self.insist("PUT", &format!("connectors/{name}/resume"), None, &[202, 204])?;
        self.wait_running(name)
    }

    /// Removes a connector with its offsets (which would outlive it, and mislead a later one of its name).
    pub fn delete(&self, name: &str) -> Result<()> {
        if self.call("GET", &format!("connectors/{name}"), None)?.0 == 404 {
            return Ok(());
        }
        self.forget_offsets(name)?;
        self.insist("DELETE", &format!("connectors/{name}"), None, &[204, 404])?;
        Ok(())
    }
}

/// The `config` of a connector file, with `${NAME}` filled from `values` and then `overrides` put over it.
pub fn fill(file: &str, values: &[(&str, String)], overrides: &[(&str, String)]) -> Result<Value> {
    let filled =
        values.iter().fold(file.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value));
    ensure!(!filled.contains("${"), "a placeholder is left unfilled in the connector file");
    let mut config = serde_json::from_str::<Value>(&filled).context("the connector file is no JSON")?["config"].take();
    for (key, value) in overrides {
        config[key] = json!(value);
    }
    Ok(config)
}

/// Plugins are looked for in their classes (`hybrid_warn`): Apicurio's converter is in no list of services.
fn settings(bootstrap: &str, port: u16, plugins: &str) -> String {
    format!(
        "bootstrap.servers={bootstrap}
group.id=connect
listeners=http://{HOST}:{port}
rest.advertised.host.name={HOST}
plugin.path={plugins}
plugin.discovery=hybrid_warn
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
config.storage.topic=connect-configs
config.storage.replication.factor=1
offset.storage.topic=connect-offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.topic=connect-status
status.storage.replication.factor=1
status.storage.partitions=1
offset.flush.interval.ms=10000
connector.client.config.override.policy=All
scheduled.rebalance.max.delay.ms=0
session.timeout.ms=6000
heartbeat.interval.ms=1000
"
    )
}
