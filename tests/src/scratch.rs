//! A temporary folder that is removed whatever becomes of the test process.
//!
//! A `TempDir` outlives a killed process, and a value in a `static` is never dropped. So a small watcher, in a session of its own, holds
//! the reading end of a pipe: when the pipe closes, by a drop or by our death, it removes the folder. The servers inside have died by then
//! or die in that moment ([`crate::process`]), hence its few tries.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Set it (to anything) to keep the folders, with the servers' logs, after the tests.
pub const KEEP: &str = "HIGHWATER_TEST_KEEP";

const WATCH: &str =
    r#"cat > /dev/null; for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$0" 2> /dev/null && exit; sleep 0.5; done"#;

/// The folder. It is open to other users for passing through (0711), since PostgreSQL may run as another one.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    watcher: Option<Child>,
}

impl Scratch {
    /// Makes a new folder `highwater-<what>-<random>` under the system's temporary folder.
    pub fn new(what: &str) -> Result<Self> {
        let folder =
            tempfile::Builder::new().prefix(&format!("highwater-{what}-")).tempdir().context("no temporary folder")?;
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        if std::env::var_os(KEEP).is_some() {
            eprintln!("{KEEP} is set: keeping {}", folder.path().display());
            return Ok(Self { path: folder.keep(), watcher: None });
        }
        let watcher = Command::new("setsid")
            .args(["sh", "-c", WATCH])
            .arg(folder.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("setsid and sh are needed (package util-linux)")?;
        Ok(Self { path: folder.keep(), watcher: Some(watcher) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A new folder inside.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("can't make {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            drop(watcher.stdin.take());
            let _ = watcher.wait();
        }
    }
}
