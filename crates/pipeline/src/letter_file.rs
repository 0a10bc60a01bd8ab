//! [`LetterFile`]: dead letters in a file, one JSON object a line.
//!
//! Several members may write to one file: they share its lock. Whoever rewrites it ([`crate::Letters`]) holds the lock
//! alone and puts another file in its place, so a file that was locked is looked up once more.
//!
//! A crash may leave the last line half-written. Its record was not acknowledged and is read again; the next writer ends
//! the line with the control character [`CANCEL`], which no JSON holds, and a reader passes over it.

use std::{
    borrow::Cow,
    fmt::Display,
    fs::{self, File, OpenOptions, TryLockError},
    io::{ErrorKind, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use change::{Horizon, Lsn};
use serde::{Deserialize, Serialize};

use crate::{DeadLetters, Fault, Letter};

/// Ends a line that was left half-written: ASCII's CAN.
pub(crate) const CANCEL: u8 = 0x18;

/// One line of the file. Bytes that are no UTF-8 stand in base64 in the field of that name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LetterLine<'a> {
    /// The table's name.
    #[serde(borrow)]
    pub table: Cow<'a, str>,
    /// The topic that the record was read from.
    #[serde(borrow)]
    pub topic: Cow<'a, str>,
    /// Its partition.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
    /// The partition's horizon before the record, as a number; 0 where no snapshot row had been read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub horizon: i64,
    /// The broker's timestamp of the record, in milliseconds, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// Why the record could not be applied; without a value of a row.
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    /// The key, where it is text.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    /// The key in base64, where it is no text.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<Cow<'a, str>>,
    /// The value, where it is text.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Cow<'a, str>>,
    /// The value in base64, where it is no text.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<Cow<'a, str>>,
    /// The key that the row had before, where the record says so.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub old_key: Option<Cow<'a, str>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(horizon: &i64) -> bool {
    *horizon == 0
}

/// The line is none of ours. It says nothing of what stands there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damaged;

impl<'a> LetterLine<'a> {
    fn new(letter: &Letter<'a>) -> Self {
        let (key, key_base64) = text_or_base64(letter.record.key);
        let (value, value_base64) = text_or_base64(letter.record.value);
        Self {
            table: letter.table.into(),
            topic: (&*letter.partition.topic).into(),
            partition: letter.partition.partition,
            offset: letter.record.offset,
            horizon: letter.horizon.snapshots.as_long(),
            timestamp: letter.record.timestamp,
            reason: letter.reason.into(),
            key,
            key_base64,
            value,
            value_base64,
            old_key: letter.record.old_key.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(Cow::Borrowed),
        }
    }

    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, Damaged> {
        serde_json::from_slice(line).map_err(|_| Damaged)
    }

    pub(crate) fn horizon(&self) -> Result<Horizon, Damaged> {
        let snapshots = Lsn::try_from(self.horizon).map_err(|_| Damaged)?;
        // a letter is late, so it must not look like a snapshot whose LSNs have begun again
        Ok(Horizon { snapshots, at: i64::MAX, ..Horizon::default() })
    }

    pub(crate) fn key_bytes(&self) -> Result<Option<Cow<'_, [u8]>>, Damaged> {
        bytes(self.key.as_deref(), self.key_base64.as_deref())
    }

    pub(crate) fn value_bytes(&self) -> Result<Option<Cow<'_, [u8]>>, Damaged> {
        bytes(self.value.as_deref(), self.value_base64.as_deref())
    }
}

fn text_or_base64(bytes: Option<&[u8]>) -> (Option<Cow<'_, str>>, Option<Cow<'_, str>>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (None, None),
        Some((_, Ok(text))) => (Some(text.into()), None),
        Some((bytes, Err(_))) => (None, Some(STANDARD.encode(bytes).into())),
    }
}

fn bytes<'a>(text: Option<&'a str>, base64: Option<&str>) -> Result<Option<Cow<'a, [u8]>>, Damaged> {
    match (text, base64) {
        (Some(text), _) => Ok(Some(text.as_bytes().into())),
        (None, Some(base64)) => STANDARD.decode(base64).map(|bytes| Some(bytes.into())).map_err(|_| Damaged),
        (None, None) => Ok(None),
    }
}

pub(crate) fn cannot(doing: &str, path: &Path, error: &dyn Display) -> Fault {
    Fault::halt(format!("cannot {doing} the dead letters {}: {error}", path.display()))
}

/// Who else may hold the file meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Other writers.
    Shared,
    /// Nobody.
    Alone,
}

/// Opens the file at `path` under a lock, which lasts as long as the file is open. A pipe or a device has none.
pub(crate) fn open(path: &Path, options: &OpenOptions, hold: Hold) -> Result<File, Fault> {
    loop {
        let file = options.open(path).map_err(|e| cannot("open", path, &e))?;
        let opened = file.metadata().map_err(|e| cannot("open", path, &e))?;
        if !opened.is_file() {
            return Ok(file);
        }
        let locked = match hold {
            Hold::Shared => file.try_lock_shared(),
            Hold::Alone => file.try_lock(),
        };
        match (locked, hold) {
            (Ok(()), _) => {}
            (Err(TryLockError::WouldBlock), Hold::Shared) => {
                return Err(cannot("write", path, &"they are being replayed; start again when that has ended"));
            }
            (Err(TryLockError::WouldBlock), Hold::Alone) => {
                return Err(cannot("replay", path, &"a running highwater has the file open; stop it first"));
            }
            (Err(TryLockError::Error(error)), _) => return Err(cannot("lock", path, &error)),
        }
        // between opening and locking, a replay may have put another file in its place
        if fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (opened.dev(), opened.ino())) {
            return Ok(file);
        }
    }
}

/// Appends dead letters to a file.
#[derive(Debug)]
pub struct LetterFile {
    path: PathBuf,
    file: File,
    /// Neither a pipe nor a device.
    is_regular: bool,
    /// Something was written since the last sync.
    is_dirty: bool,
}

impl LetterFile {
    /// Opens or creates the file at `path`.
    ///
    /// # Errors
    /// [`Fault`] names the path where it cannot be written, or is being replayed.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let is_regular = fs::metadata(path).map_or(true, |found| found.is_file());
        let file = open(path, OpenOptions::new().create(true).append(true).read(is_regular), Hold::Shared)?;
        Ok(Self { path: path.to_owned(), file, is_regular, is_dirty: false })
    }

    fn append(&mut self, letter: &Letter<'_>) -> std::io::Result<()> {
        let mut line = Vec::new();
        if self.is_regular && self.ends_amid_a_line()? {
            line.extend([CANCEL, b'\n']);
        }
        serde_json::to_writer(&mut line, &LetterLine::new(letter))?;
        line.push(b'\n');
        self.is_dirty = true;
        self.file.write_all(&line)
    }

    fn ends_amid_a_line(&self) -> std::io::Result<bool> {
        let Some(last) = self.file.metadata()?.len().checked_sub(1) else { return Ok(false) };
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, last)?;
        Ok(byte != [b'\n'])
    }
}

impl DeadLetters for LetterFile {
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault> {
        letter.log();
        self.append(letter).map_err(|e| {
            let (Letter { partition, record, .. }, path) = (letter, self.path.display());
            Fault::halt(format!("cannot write the dead letter of {partition} offset {} to {path}: {e}", record.offset))
        })
    }

    fn sync(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        match self.file.sync_data() {
            // a pipe or a device has nothing to sync
            Err(error) if error.kind() != ErrorKind::InvalidInput => Err(cannot("sync", &self.path, &error)),
            _ => Ok(()),
        }
    }
}
