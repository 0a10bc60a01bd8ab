//! A schema registry: [Apicurio Registry](https://www.apicur.io/registry), with the interface of Confluent's under `/apis/ccompat/v7`.

use std::time::Duration;

use anyhow::Result;

use crate::packages;
use crate::process::{Process, Program};
use crate::scratch::Scratch;
use crate::stack::{HOST, START, free_port};

/// A running or stopped registry.
#[derive(Debug)]
pub struct Registry {
    program: Program,
    process: Option<Process>,
    port: u16,
}

impl Registry {
    /// A new registry without a schema.
    pub fn start_new(scratch: &Scratch) -> Result<Self> {
        let home = scratch.folder("registry")?;
        let jar = packages::registry()?;
        let port = free_port()?;
        let database = format!("jdbc:h2:file:{}", home.join("schemas").display());
        let program = Program::new("registry", "java", home.join("registry.log")).args([
            "-Xmx512m".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            format!("-Dquarkus.http.host={HOST}"),
            format!("-Dquarkus.http.port={port}"),
            format!("-Dapicurio.datasource.url={database}"),
            "-jar".to_owned(),
            jar.to_string_lossy().into_owned(),
        ]);
        let mut registry = Self { program, process: None, port };
        registry.start()?;
        Ok(registry)
    }

    /// Starts it (again) on its port, with the schemas that it had.
    pub fn start(&mut self) -> Result<()> {
        let mut process = self.program.start()?;
        let subjects = format!("{}/subjects", self.url());
        let agent: ureq::Agent =
            ureq::Agent::config_builder().proxy(None).timeout_global(Some(Duration::from_secs(5))).build().into();
        process.wait_until("answering", START, || agent.get(&subjects).call().is_ok())?;
        self.process = Some(process);
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// The base of Confluent's interface.
    pub fn url(&self) -> String {
        format!("http://{HOST}:{}/apis/ccompat/v7", self.port)
    }

    /// A connector's settings for Avro.
    pub fn converters(&self) -> Vec<(&'static str, String)> {
        let url = format!("http://{HOST}:{}/apis/registry/v2", self.port);
        let settings = [
            ("key.converter", "value.converter", "io.apicurio.registry.utils.converter.AvroConverter"),
            ("key.converter.apicurio.registry.url", "value.converter.apicurio.registry.url", &*url),
            (
                "key.converter.apicurio.registry.auto-register",
                "value.converter.apicurio.registry.auto-register",
                "true",
            ),
            (
                "key.converter.apicurio.registry.auto-register.if-exists",
                "value.converter.apicurio.registry.auto-register.if-exists",
                "RETURN_OR_UPDATE",
            ),
            ("key.converter.apicurio.registry.as-confluent", "value.converter.apicurio.registry.as-confluent", "true"),
            ("key.converter.apicurio.registry.use-id", "value.converter.apicurio.registry.use-id", "contentId"),
            (
                "key.converter.apicurio.registry.headers.enabled",
                "value.converter.apicurio.registry.headers.enabled",
                "false",
            ),
        ];
        settings.into_iter().flat_map(|(key, value, to)| [(key, to.to_owned()), (value, to.to_owned())]).collect()
    }
}
