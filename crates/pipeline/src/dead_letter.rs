//! [`DeadLetters`]: where records that could not be applied are kept, with their reason.
//!
//! A dead letter is durable before the batch that passes its offset is committed. A crash in between writes it
//! again on the next run: a reader goes by topic, partition and offset.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use change::{Horizon, RecordRef};
use serde::Serialize;

use crate::{Fault, TopicPartition};

/// Where dead letters go.
pub trait DeadLetters: Send {
    /// Keeps one letter; it has to be durable only after [`Self::sync`].
    ///
    /// # Errors
    /// [`Fault`] where it cannot be kept.
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault>;

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// [`Fault`] where that cannot be done.
    fn sync(&mut self) -> Result<(), Fault>;
}

/// A record that could not be applied.
#[derive(Debug, Clone, Copy)]
pub struct Letter<'a> {
    /// The table's name.
    pub table: &'a str,
    /// Where the record was read.
    pub partition: &'a TopicPartition,
    /// The record.
    pub record: RecordRef<'a>,
    /// The partition's horizon before the record: what orders it on a later try. A later horizon will not do, as a
    /// snapshot that was taken since would make the record look newer than its rows.
    pub horizon: Horizon,
    /// Why it could not be applied; without a value of a row.
    pub reason: &'a str,
}

/// Only the log, with the reason: for trying things out.
#[derive(Debug, Clone, Copy)]
pub struct LogOnly;

impl DeadLetters for LogOnly {
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault> {
        letter.log();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

impl Letter<'_> {
    fn log(&self) {
        let Self { table, partition, record: RecordRef { offset, .. }, reason, .. } = self;
        tracing::warn!(table, %partition, offset, reason, "dead letter");
    }
}

/// A file of JSON objects, one a line.
#[derive(Debug)]
pub struct LetterFile {
    path: PathBuf,
    file: File,
    /// Something was written since the last sync.
    is_dirty: bool,
}

/// One line of the file. Bytes that are no UTF-8 stand in base64 in the field of that name.
#[derive(Serialize)]
struct Line<'a> {
    table: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    #[serde(skip_serializing_if = "is_zero")]
    horizon: i64,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(horizon: &i64) -> bool {
    *horizon == 0
}

impl LetterFile {
    /// Opens or creates the file at `path`.
    ///
    /// # Errors
    /// [`Fault`] names the path where it cannot be written.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|e| Fault::halt(format!("cannot open the dead letters {}: {e}", path.display())))?;
        Ok(Self { path: path.to_owned(), file, is_dirty: false })
    }
}

impl DeadLetters for LetterFile {
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault> {
        letter.log();
        let Letter { table, partition, record, horizon, reason } = letter;
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let line = Line {
            table,
            topic: &partition.topic,
            partition: partition.partition,
            offset: record.offset,
            horizon: horizon.0.as_long(),
            reason,
            key: record.key.and_then(|k| std::str::from_utf8(k).ok()),
            key_base64: record.key.filter(|k| !text(k)).map(|k| STANDARD.encode(k)),
            value: record.value.and_then(|v| std::str::from_utf8(v).ok()),
            value_base64: record.value.filter(|v| !text(v)).map(|v| STANDARD.encode(v)),
        };
        let line = serde_json::to_vec(&line).map_err(Fault::halt)?;
        let written = self.file.write_all(&[line.as_slice(), b"\n"].concat());
        self.is_dirty = true;
        written.map_err(|e| {
            Fault::halt(format!(
                "cannot write the dead letter of {partition} offset {} to {}: {e}",
                record.offset,
                self.path.display()
            ))
        })
    }

    fn sync(&mut self) -> Result<(), Fault> {
        if !std::mem::take(&mut self.is_dirty) {
            return Ok(());
        }
        match self.file.sync_data() {
            // a pipe or a device has nothing to sync
            Err(error) if error.kind() != ErrorKind::InvalidInput => {
                Err(Fault::halt(format!("cannot sync the dead letters {}: {error}", self.path.display())))
            }
            _ => Ok(()),
        }
    }
}
