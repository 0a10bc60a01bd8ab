//! A PostgreSQL server of its own data folder and port, set up for logical replication.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use postgres::{Client, NoTls};
use rustix::process::Signal;

use crate::packages;
use crate::process::{Account, Process, Program, tail};
use crate::scratch::Scratch;
use crate::stack::{HOST, START, STOP, free_port};

/// The superuser's name and password.
pub const SUPERUSER: &str = "postgres";

/// A running or stopped server.
#[derive(Debug)]
pub struct Postgres {
    program: Program,
    process: Option<Process>,
    port: u16,
}

/// Names one database of a server; opens connections to it.
#[derive(Clone, Debug)]
pub struct Database {
    /// On 127.0.0.1.
    pub port: u16,
    /// Of the database.
    pub name: String,
}

impl Postgres {
    /// PostgreSQL 16, the version of the compose file, from the packages.
    pub fn start_16(scratch: &Scratch) -> Result<Self> {
        let account = account()?;
        let bin = packages::postgres_16(account)?.join("bin");
        Self::create(scratch, "postgres-16", &bin, account)
    }

    /// PostgreSQL 15 from Debian's package.
    pub fn start_15(scratch: &Scratch) -> Result<Self> {
        let bin = Path::new("/usr/lib/postgresql/15/bin");
        ensure!(
            bin.join("initdb").exists(),
            "no PostgreSQL 15 in {}: install Debian's package postgresql-15",
            bin.display()
        );
        Self::create(scratch, "postgres-15", bin, account()?)
    }

    fn create(scratch: &Scratch, name: &str, bin: &Path, account: Option<Account>) -> Result<Self> {
        let home = scratch.folder(name)?;
        if let Some(Account { user, group }) = account {
            std::os::unix::fs::chown(&home, Some(user), Some(group))?;
        }
        let log = home.join("server.log");
        let data = home.join("data");
        let port = free_port()?;
        initdb(&home, &data, bin, account)?;
        std::fs::write(data.join("postgresql.auto.conf"), settings(port))?;
        let data = data.to_string_lossy().into_owned();
        let program = Program::new(name, bin.join("postgres"), log).args(["-D", &data]).account(account);
        let mut server = Self { program, process: None, port };
        server.start()?;
        Ok(server)
    }

    /// Starts it (again) on its port and data, and waits until it answers.
    pub fn start(&mut self) -> Result<()> {
        let database = self.database("postgres");
        let start = Instant::now();
        loop {
            let mut process = self.program.start()?;
            match process.wait_until("ready", START, || database.client().is_ok()) {
                Ok(()) => {
                    self.process = Some(process);
                    return Ok(());
                }
                // After a kill, it refuses to start until the last of its old processes has let go of the shared memory.
                Err(_) if process.log().contains("shared memory block") && start.elapsed() < START => {
                    std::thread::sleep(Duration::from_millis(300));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends it in good order, breaking its clients' connections ("fast": SIGINT).
    pub fn stop(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.stop(Signal::INT, STOP)?;
        }
        Ok(())
    }

    /// SIGKILL, as in a power cut of the process alone.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Whether its process is alive.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| matches!(process.ended(), Ok(None)))
    }

    /// One of its databases.
    pub fn database(&self, name: &str) -> Database {
        Database { port: self.port, name: name.into() }
    }

    /// A new, empty database.
    pub fn create_database(&self, name: &str) -> Result<Database> {
        self.database("postgres").execute(&format!("create database {name}"))?;
        Ok(self.database(name))
    }
}

impl Database {
    /// A new connection as the superuser.
    pub fn client(&self) -> Result<Client> {
        let mut config = Client::configure();
        config.host(HOST).port(self.port).user(SUPERUSER).password(SUPERUSER).dbname(&self.name);
        config.connect_timeout(Duration::from_secs(5));
        config.connect(NoTls).with_context(|| format!("can't connect to database {}", self.name))
    }

    /// Runs SQL, one statement or several, on a connection of its own.
    pub fn execute(&self, sql: &str) -> Result<()> {
        self.client()?.batch_execute(sql).with_context(|| format!("in database {}: {sql}", self.name))
    }

    /// The one value that `sql` gives.
    pub fn value<T: postgres::types::FromSqlOwned>(&self, sql: &str) -> Result<T> {
        let row = self.client()?.query_one(sql, &[]).with_context(|| format!("in database {}: {sql}", self.name))?;
        Ok(row.try_get(0)?)
    }
}

fn initdb(home: &Path, data: &Path, bin: &Path, account: Option<Account>) -> Result<()> {
    let password: PathBuf = home.join("password");
    std::fs::write(&password, SUPERUSER)?;
    let log = home.join("initdb.log");
    let (data, file) = (data.to_string_lossy(), password.to_string_lossy());
    Program::new("initdb", bin.join("initdb"), &log)
        .args(["-D", &*data, "-U", SUPERUSER, "--auth=scram-sha-256", &format!("--pwfile={file}")])
        .args(["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"])
        .account(account)
        .finish(START)
        .with_context(|| {
            format!("the folder or the programs may be closed to the account {account:?}{}", tail(&log))
        })?;
    Ok(std::fs::remove_file(password)?)
}

/// No fsync: what the tests kill is the process, and what it has written to the kernel survives that.
fn settings(port: u16) -> String {
    format!(
        "listen_addresses = '{HOST}'\nport = {port}\nunix_socket_directories = ''\nwal_level = logical\nmax_wal_senders = 20\n\
         max_replication_slots = 20\nfsync = off\nshared_buffers = 64MB\n\
         max_wal_size = 2GB\ntimezone = 'UTC'\nlog_timezone = 'UTC'\n"
    )
}

/// PostgreSQL refuses to run as root. As root: the user `postgres` if there is one, else `nobody`.
fn account() -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd").context("can't read /etc/passwd")?;
    let find = |name: &str| {
        let fields: Vec<&str> = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':').collect();
        Some(Account { user: fields.get(2)?.parse().ok()?, group: fields.get(3)?.parse().ok()? })
    };
    let account = find("postgres").or_else(|| find("nobody"));
    Ok(Some(account.context("running as root, and there is neither a user postgres nor nobody to run PostgreSQL as")?))
}
