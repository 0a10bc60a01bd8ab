//! One program run by a test: started in a session of its own, logged to a file, awaited until ready, stopped, killed, frozen.
//!
//! It dies with us: `setpriv --pdeathsig KILL` asks the kernel for that, even when the test process is killed. The kernel ties that
//! signal to the *thread* that spawned the child, and the test runner ends its threads, so all children are spawned by one
//! thread that lives as long as the process.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process, kill_process_group};

/// Waiting granularity; short against every start and stop here.
const POLL: Duration = Duration::from_millis(50);

/// User and group that a program is run as, where it can't run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub user: u32,
    /// Number of its main group.
    pub group: u32,
}

/// What to run and how.
#[derive(Clone, Debug)]
pub struct Program {
    /// For messages.
    pub name: String,
    /// Found in PATH, where it is no path.
    pub command: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
    /// Other user to run as.
    pub account: Option<Account>,
    /// Receives standard error, and standard output unless `output` is set. Appended to by restarts.
    pub log: PathBuf,
    /// Receives standard output, where it is to be apart.
    pub output: Option<PathBuf>,
}

impl Program {
    /// A command without arguments, run as we are.
    pub fn new(name: &str, command: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            command: command.into(),
            args: Vec::new(),
            account: None,
            log: log.into(),
            output: None,
        }
    }

    /// Adds arguments.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the account.
    pub fn account(mut self, account: Option<Account>) -> Self {
        self.account = account;
        self
    }

    /// Sets the file for standard output.
    pub fn output(mut self, output: impl Into<PathBuf>) -> Self {
        self.output = Some(output.into());
        self
    }

    /// Starts it.
    pub fn start(&self) -> Result<Process> {
        let append = |path: &Path| OpenOptions::new().create(true).append(true).open(path);
        let log = append(&self.log).with_context(|| format!("can't write {}", self.log.display()))?;
        let output: File = match &self.output {
            Some(path) => append(path).with_context(|| format!("can't write {}", path.display()))?,
            None => log.try_clone()?,
        };
        // setsid execs in place, and setpriv too, so the child's number is the program's own and names its process group.
        let mut command = Command::new("setsid");
        command.arg("setpriv");
        if let Some(Account { user, group }) = self.account {
            command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into()]);
        }
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.command).args(&self.args);
        // A caller's folder may be closed to the account.
        command.current_dir("/").stdin(Stdio::null()).stdout(output).stderr(log);
        let child = spawn(command).with_context(|| format!("can't start {}", self.name))?;
        Ok(Process { program: self.clone(), child, started: Instant::now() })
    }

    /// Runs it to its end and insists on success; the log's tail is in the error.
    pub fn finish(&self, timeout: Duration) -> Result<()> {
        let mut process = self.start()?;
        let status = process.wait(timeout)?;
        ensure!(status.success(), "{}: {status}{}", self.name, tail(&self.log));
        Ok(())
    }
}

type Spawn = (Command, mpsc::SyncSender<std::io::Result<Child>>);

fn spawn(command: Command) -> std::io::Result<Child> {
    static SPAWNER: LazyLock<mpsc::Sender<Spawn>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel::<Spawn>();
        std::thread::spawn(move || {
            while let Ok((mut command, answer)) = receiver.recv() {
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (answer, child) = mpsc::sync_channel(1);
    let gone = |_| std::io::Error::other("the spawning thread is gone");
    SPAWNER.send((command, answer)).map_err(|_| gone(mpsc::RecvError))?;
    child.recv().map_err(gone)?
}

/// A running (or ended) child. Dropping it kills its process group.
#[derive(Debug)]
pub struct Process {
    program: Program,
    child: Child,
    started: Instant,
}

impl Process {
    /// The program's name.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The whole log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.program.log).unwrap_or_default()
    }

    /// How long ago it was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits until `ready` holds. An error where the process ends first, or the time is over.
    pub fn wait_until(&mut self, what: &str, timeout: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let start = Instant::now();
        while !ready() {
            if let Some(status) = self.ended()? {
                bail!("{} ended ({status}) before it was {what}{}", self.name(), tail(&self.program.log));
            }
            ensure!(
                start.elapsed() < timeout,
                "{} was not {what} within {timeout:?}{}",
                self.name(),
                tail(&self.program.log)
            );
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for its end.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            ensure!(
                start.elapsed() < timeout,
                "{} did not end within {timeout:?}{}",
                self.name(),
                tail(&self.program.log)
            );
            std::thread::sleep(POLL.min(timeout / 10));
        }
    }

    /// Asks it to end by `signal`, and kills it when it has not within `timeout`. The status tells which it was.
    pub fn stop(&mut self, signal: Signal, timeout: Duration) -> Result<ExitStatus> {
        self.signal(signal)?;
        match self.wait(timeout) {
            Ok(status) => Ok(status),
            Err(_) => self.kill(),
        }
    }

    /// SIGKILL to it, its process group and its direct children (PostgreSQL's have groups of their own); returns when it is gone.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.ended()? {
            return Ok(status);
        }
        let pid = self.pid()?;
        let children = children(pid);
        let _ = kill_process_group(pid, Signal::KILL);
        for child in children {
            let _ = kill_process(child, Signal::KILL);
        }
        Ok(self.child.wait()?)
    }

    /// Stops its threads where they are (SIGSTOP): alive, but deaf.
    pub fn freeze(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Undoes [`freeze`](Self::freeze).
    pub fn thaw(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_none() {
            kill_process(self.pid()?, signal).with_context(|| format!("can't signal {}", self.name()))?;
        }
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process number")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Processes whose parent is `pid`: field 4 of /proc/PID/stat, after the name in parentheses.
fn children(pid: Pid) -> Vec<Pid> {
    let parent = pid.as_raw_nonzero().get().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|child: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) == Some(&parent)
        })
        .filter_map(Pid::from_raw)
        .collect()
}

/// The last lines of a log, for an error's text.
pub fn tail(log: &Path) -> String {
    const LINES: usize = 25;
    let text = std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    format!("\n--- {}\n{last}\n---", log.display())
}
