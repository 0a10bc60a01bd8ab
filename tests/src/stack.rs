//! PostgreSQL, Kafka and Connect together, and the one stack that the tests of a process share.

use std::net::TcpListener;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::connect::Connect;
use crate::kafka::Kafka;
use crate::postgres::Postgres;
use crate::scratch::Scratch;

/// Where everything listens.
pub const HOST: &str = "127.0.0.1";
/// A start may take long where other work has the processors.
pub const START: Duration = Duration::from_mins(2);
/// After that long, an orderly stop becomes a kill.
pub const STOP: Duration = Duration::from_secs(45);

/// The three servers. Dropping it kills them and removes their folder, in the order of the fields.
#[derive(Debug)]
pub struct Stack {
    /// The worker.
    pub connect: Connect,
    /// The broker.
    pub kafka: Kafka,
    /// PostgreSQL 16.
    pub postgres: Postgres,
    /// Their folder; tests may put theirs inside.
    pub scratch: Scratch,
}

impl Stack {
    /// A new stack on free ports; the first time on a machine it fetches the packages.
    pub fn start() -> Result<Self> {
        let start = Instant::now();
        let scratch = Scratch::new("stack")?;
        let postgres = Postgres::start_16(&scratch)?;
        let kafka = Kafka::start_new(&scratch)?;
        let connect = Connect::start_new(&scratch, &kafka.broker().bootstrap)?;
        eprintln!("stack: up after {:.1} s", start.elapsed().as_secs_f64());
        Ok(Self { connect, kafka, postgres, scratch })
    }

    /// Starts what an earlier, failed test has left down.
    fn heal(&mut self) -> Result<()> {
        if !self.postgres.is_running() {
            self.postgres.start()?;
        }
        if !self.kafka.is_running() {
            self.kafka.start()?;
        }
        if !self.connect.is_running() {
            self.connect.start()?;
        }
        Ok(())
    }
}

/// The shared stack, for one test at a time.
#[derive(Debug)]
pub struct Shared(MutexGuard<'static, Option<Stack>>);

/// Waits for the tests before, and gives the stack, up and running. It lives as long as the process; its servers die with it and its
/// folder is removed then.
pub fn shared() -> Result<Shared> {
    static STACK: Mutex<Option<Stack>> = Mutex::new(None);
    // A failed test poisons the lock and nothing else: each test has a database, a topic and a connector of its own.
    let mut guard = STACK.lock().unwrap_or_else(PoisonError::into_inner);
    match guard.as_mut() {
        Some(stack) => stack.heal()?,
        None => *guard = Some(Stack::start()?),
    }
    Ok(Shared(guard))
}

impl Deref for Shared {
    type Target = Stack;

    fn deref(&self) -> &Stack {
        self.0.as_ref().expect("filled by shared()")
    }
}

impl DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Stack {
        self.0.as_mut().expect("filled by shared()")
    }
}

/// A port that nobody listens on, below the range that the kernel gives to outgoing connections: one from that range could be
/// taken while its server is down for a restart.
pub fn free_port() -> Result<u16> {
    for _ in 0..200 {
        let port = rand::random_range(18_000..32_000);
        if TcpListener::bind((HOST, port)).is_ok() {
            return Ok(port);
        }
    }
    anyhow::bail!("no free port between 18000 and 32000")
}

/// Arguments of a JVM for a server of modest size: its class path is the folder's jars.
pub(crate) fn java(jars: &Path, heap_mib: u32) -> Vec<String> {
    let logging = Path::new(env!("CARGO_MANIFEST_DIR")).join("log4j2.properties");
    vec![
        format!("-Xmx{heap_mib}m"),
        "-XX:+UseSerialGC".into(),
        "-XX:TieredStopAtLevel=1".into(),
        "-XX:+ExitOnOutOfMemoryError".into(),
        format!("-Dlog4j2.configurationFile={}", logging.display()),
        "-cp".into(),
        format!("{}/*", jars.display()),
    ]
}

/// A file of the repository, by its path from the top.
pub fn repository_file(path: &str) -> Result<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&file).with_context(|| format!("can't read {}", file.display()))
}
