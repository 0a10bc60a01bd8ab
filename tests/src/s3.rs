//! An S3 server over a folder, and the binary with a table in it.
//!
//! The server is [S3Proxy](https://github.com/gaul/s3proxy): it checks signatures, and its conditional put is atomic (it links the new
//! object to its name). A bucket is a folder of its data, an object a file in it.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::highwater::{Output, binary};
use crate::packages;
use crate::process::{Process, Program};
use crate::scratch::Scratch;
use crate::stack::{HOST, START, free_port, java};

/// The secret key that the server knows.
pub const SECRET: &str = "the-secret";
/// The server's one bucket.
pub const BUCKET: &str = "lake";

const PATIENCE: Duration = Duration::from_mins(2);

/// A running or stopped server.
#[derive(Debug)]
pub struct S3 {
    program: Program,
    process: Option<Process>,
    port: u16,
    data: PathBuf,
}

impl S3 {
    /// A new server with an empty bucket.
    pub fn start_new(scratch: &Scratch) -> Result<Self> {
        let home = scratch.folder("s3")?;
        let jars = packages::jars("s3")?;
        let port = free_port()?;
        let data = scratch.folder("s3/data")?;
        std::fs::create_dir(data.join(BUCKET))?;
        let properties = home.join("s3proxy.properties");
        std::fs::write(&properties, settings(port, &data))?;
        let program = Program::new("s3", "java", home.join("server.log")).args(java(&jars, 256)).args([
            "org.gaul.s3proxy.Main".to_owned(),
            "--properties".to_owned(),
            properties.to_string_lossy().into_owned(),
        ]);
        let mut server = Self { program, process: None, port, data };
        server.start()?;
        Ok(server)
    }

    /// Starts it (again) on its port and data.
    pub fn start(&mut self) -> Result<()> {
        let mut process = self.program.start()?;
        let address = (HOST, self.port);
        process.wait_until("listening", START, || TcpStream::connect(address).is_ok())?;
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

    /// SIGSTOP: connections stay open and nothing answers.
    pub fn freeze(&mut self) -> Result<()> {
        self.process.as_mut().context("the S3 server is not running")?.freeze()
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&mut self) -> Result<()> {
        self.process.as_mut().context("the S3 server is not running")?.thaw()
    }

    /// Where a table's objects lie as files.
    pub fn folder(&self, table: &str) -> PathBuf {
        self.data.join(BUCKET).join(table)
    }

    /// The versions of the table in the bucket's folder `table`, as its log has them.
    pub fn versions(&self, table: &str) -> Vec<u64> {
        let log = std::fs::read_dir(self.folder(table).join("_delta_log"));
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        let names = log.into_iter().flatten().filter_map(name);
        let mut versions: Vec<u64> = names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
        versions.sort_unstable();
        versions
    }

    /// The `[store]` section for it.
    pub fn store(&self, secret: &str) -> String {
        format!(
            r#"[store]
aws_endpoint = "http://{HOST}:{}"
aws_allow_http = "true"
aws_region = "us-east-1"
aws_access_key_id = "highwater"
aws_secret_access_key = "{secret}"
"#,
            self.port
        )
    }
}

fn settings(port: u16, data: &Path) -> String {
    format!(
        "s3proxy.authorization=aws-v2-or-v4
s3proxy.endpoint=http://{HOST}:{port}
s3proxy.identity=highwater
s3proxy.credential={SECRET}
s3proxy.ignore-unknown-headers=true
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={}
",
        data.display()
    )
}

/// The binary, applying recorded messages to the table `orders` at a location.
#[derive(Debug)]
pub struct Recorded {
    home: PathBuf,
    config: PathBuf,
    location: String,
    calls: AtomicU32,
}

impl Recorded {
    /// Writes a config into `home`. `columns` is the section's body.
    pub fn configure(home: &Path, store: &str, location: &str, columns: &str) -> Result<Self> {
        let config = home.join("highwater.toml");
        let text = format!(
            r#"[kafka]
bootstrap_servers = "{HOST}:1"
group = "recorded"

{store}
[[table]]
name = "orders"
topic = "shop.public.orders"
location = "{location}"
key = ["order_id"]

[table.columns]
{columns}"#
        );
        std::fs::write(&config, text)?;
        Ok(Self { home: home.into(), config, location: location.into(), calls: AtomicU32::new(0) })
    }

    fn program(&self, command: &[&str]) -> Result<Program> {
        let name = format!("{}-{}", self.calls.fetch_add(1, Ordering::Relaxed), command[0]);
        let program = Program::new(&name, binary()?, self.home.join(format!("{name}.err")));
        let config = self.config.to_string_lossy();
        Ok(program
            .args(["--verbose", command[0], "--config", &*config])
            .args(command[1..].iter().copied())
            .output(self.home.join(format!("{name}.out"))))
    }

    /// Starts `simulate` on a file of the repository, in batches of `rows`, into the location.
    pub fn start(&self, file: &str, rows: u32) -> Result<Process> {
        self.program(&["simulate", &path(file), "--batch-rows", &rows.to_string(), "--into", &self.location])?.start()
    }

    /// Waits for the end of what [`start`](Self::start) gave, whatever its status.
    pub fn end(&self, mut process: Process) -> Result<Output> {
        let status = process.wait(PATIENCE)?;
        let file = |end: &str| self.home.join(format!("{}.{end}", process.name()));
        let read = |path: PathBuf| std::fs::read_to_string(&path).with_context(|| path.display().to_string());
        Ok(Output { status, stdout: read(file("out"))?, stderr: read(file("err"))? })
    }

    /// [`start`](Self::start) and [`end`](Self::end), with success.
    pub fn apply(&self, file: &str, rows: u32) -> Result<Output> {
        success(self.end(self.start(file, rows)?)?)
    }

    /// Every row and column after the file's messages in one process and in memory, as CSV in the key's order.
    pub fn in_memory(&self, file: &str, rows: u32) -> Result<String> {
        let program = self.program(&["simulate", &path(file), "--batch-rows", &rows.to_string(), "--print", "csv"])?;
        Ok(success(self.end(program.start()?)?)?.stdout)
    }

    /// `sql --print csv`, whatever its status.
    pub fn ask(&self, query: &str) -> Result<Output> {
        self.end(self.program(&["sql", "--print", "csv", query])?.start()?)
    }

    /// Every row and column of the table, as CSV in the key's order.
    pub fn rows(&self) -> Result<String> {
        Ok(success(self.ask("select * from orders order by order_id")?)?.stdout)
    }
}

fn success(output: Output) -> Result<Output> {
    ensure!(output.status.success(), "highwater: {}\n{}", output.status, output.stderr);
    Ok(output)
}

fn path(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file).to_string_lossy().into_owned()
}
