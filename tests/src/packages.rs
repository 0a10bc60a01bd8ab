//! The servers' files, laid once in the user's cache through Maven: one folder a `poms/*/pom.xml`, named by the hash of that file, so
//! a changed version lays a new folder and an old one stays valid.
//!
//! A folder is made under another name and renamed when it is whole, under a lock that other test processes respect.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::Account;

/// A registry may hiccup in the middle of a hundred small downloads.
const TRIES: u32 = 3;

/// The jars of `poms/<component>/pom.xml` and what they depend on.
pub fn jars(component: &str) -> Result<PathBuf> {
    let pom = folder_of_poms().join(component).join("pom.xml");
    lay(&cache()?, component, &pom, |folder| maven("copy-dependencies", &pom, folder))
}

/// Apicurio Registry's runnable jar; the jars that it needs lie beside it.
pub fn registry() -> Result<PathBuf> {
    let pom = folder_of_poms().join("registry/pom.xml");
    let folder = lay(&cache()?, "registry", &pom, |folder| maven("unpack", &pom, folder))?;
    file_ending(&folder, "-runner.jar")
}

/// PostgreSQL 16's folder (with `bin`, `lib`, `share`), readable by `account`.
pub fn postgres_16(account: Option<Account>) -> Result<PathBuf> {
    let pom = folder_of_poms().join("postgres/pom.xml");
    // As root, PostgreSQL runs as another user, to whom root's cache is closed.
    let root = if account.is_some() { PathBuf::from("/var/tmp/highwater-packages") } else { cache()? };
    lay(&root, "postgres", &pom, |folder| {
        let unpacked = folder.join("unpacked");
        maven("unpack-dependencies", &pom, &unpacked)?;
        untar(&file_ending(&unpacked, ".txz")?, folder)?;
        Ok(std::fs::remove_dir_all(&unpacked)?)
    })
}

fn folder_of_poms() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("poms")
}

fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(cache) if !cache.is_empty() => PathBuf::from(cache),
        _ => PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache"),
    };
    Ok(base.join("highwater/packages"))
}

fn lay(root: &Path, component: &str, pom: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let text = std::fs::read(pom).with_context(|| format!("can't read {}", pom.display()))?;
    let folder = root.join(format!("{component}-{:016x}", fnv1a(&text)));
    std::fs::create_dir_all(root).with_context(|| format!("can't make {}", root.display()))?;
    own(root)?;
    let lock = File::create(root.join(format!("{component}.lock")))?;
    lock.lock().context("can't lock the package cache")?;
    if !folder.is_dir() {
        let part = root.join(format!("{component}.part"));
        let _ = std::fs::remove_dir_all(&part);
        std::fs::create_dir_all(&part)?;
        fill(&part).with_context(|| format!("laying {component} in {} failed", root.display()))?;
        std::fs::rename(&part, &folder)?;
    }
    Ok(folder)
}

/// Refuses a folder that another user has made under a name that we would trust, as anyone may in /var/tmp.
fn own(root: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::symlink_metadata(root)?;
    let us = rustix::process::getuid().as_raw();
    ensure!(metadata.is_dir() && metadata.uid() == us, "{} belongs to another user: remove it", root.display());
    Ok(())
}

fn maven(goal: &str, pom: &Path, folder: &Path) -> Result<()> {
    let mut wait = Duration::from_secs(2);
    for attempt in 1.. {
        let output = Command::new("mvn")
            .args(["-q", "-B", "-f"])
            .arg(pom)
            .args([&format!("dependency:{goal}"), "-DincludeScope=runtime"])
            .arg(format!("-DoutputDirectory={}", folder.display()))
            .output()
            .context("mvn does not run: install Maven and a JDK (Debian: maven)")?;
        if output.status.success() {
            break;
        }
        if attempt == TRIES {
            bail!("mvn failed {TRIES} times on {}:\n{}", pom.display(), String::from_utf8_lossy(&output.stdout));
        }
        std::thread::sleep(wait);
        wait *= 3;
    }
    Ok(())
}

fn untar(archive: &Path, folder: &Path) -> Result<()> {
    let tar = folder.join("archive.tar");
    let mut packed = std::io::BufReader::new(File::open(archive)?);
    let mut plain = std::io::BufWriter::new(File::create(&tar)?);
    lzma_rs::xz_decompress(&mut packed, &mut plain).map_err(|e| anyhow::anyhow!("{}: {e:?}", archive.display()))?;
    drop(plain);
    // The archive's owner means nothing here.
    run(Command::new("tar").arg("--no-same-owner").arg("-xf").arg(&tar).arg("-C").arg(folder))?;
    Ok(std::fs::remove_file(&tar)?)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{} does not run", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {} {said}", command.get_program().display(), output.status);
    Ok(())
}

fn file_ending(folder: &Path, end: &str) -> Result<PathBuf> {
    let mut files = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    files
        .find(|path| path.to_string_lossy().ends_with(end))
        .with_context(|| format!("no *{end} in {}", folder.display()))
}

/// FNV-1a, 64 bits: a hash that stays the same from one Rust version to the next, for names of folders.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
