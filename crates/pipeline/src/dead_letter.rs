//! [`DeadLetters`]: records that could not be applied, kept with their reason.
//!
//! A dead letter is durable before the batch that passes its offset is committed. A crash in between writes it
//! again on the next run: a reader goes by topic, partition and offset.

use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use change::RecordRef;
use serde::Serialize;

use crate::{Fault, TopicPartition};

/// Where dead letters go.
#[derive(Debug)]
pub enum DeadLetters {
    /// A file of JSON objects, one a line.
    File {
        /// The file's path.
        path: PathBuf,
        /// The file, opened to append.
        file: File,
        /// Something was written since the last sync.
        is_dirty: bool,
    },
    /// Only the log, with the reason: for trying things out.
    Log,
}

/// One line of the file. Bytes that are no UTF-8 stand in base64 in the field of that name.
#[derive(Serialize)]
struct Letter<'a> {
    table: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
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

impl DeadLetters {
    /// Opens or creates the file at `path`.
    ///
    /// # Errors
    /// [`Fault`] names the path where it cannot be written.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|e| Fault::halt(format!("cannot open the dead letters {}: {e}", path.display())))?;
        Ok(Self::File { path: path.to_owned(), file, is_dirty: false })
    }

    /// Keeps one record.
    ///
    /// # Errors
    /// [`Fault`] where the file cannot be written.
    pub fn write(
        &mut self,
        table: &str,
        partition: &TopicPartition,
        record: &RecordRef<'_>,
        reason: &str,
    ) -> Result<(), Fault> {
        let offset = record.offset;
        tracing::warn!(table, %partition, offset, reason, "dead letter");
        let Self::File { path, file, is_dirty } = self else { return Ok(()) };
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        let letter = Letter {
            table,
            topic: &partition.topic,
            partition: partition.partition,
            offset,
            reason,
            key: record.key.and_then(|k| std::str::from_utf8(k).ok()),
            key_base64: record.key.filter(|k| !text(k)).map(|k| STANDARD.encode(k)),
            value: record.value.and_then(|v| std::str::from_utf8(v).ok()),
            value_base64: record.value.filter(|v| !text(v)).map(|v| STANDARD.encode(v)),
        };
        let line = serde_json::to_vec(&letter).map_err(Fault::halt)?;
        let written = file.write_all(&[line.as_slice(), b"\n"].concat());
        *is_dirty = true;
        written.map_err(|e| {
            Fault::halt(format!(
                "cannot write the dead letter of {partition} offset {offset} to {}: {e}",
                path.display()
            ))
        })
    }

    /// Makes everything that was written durable.
    ///
    /// # Errors
    /// [`Fault`] where the file cannot be synced.
    pub fn sync(&mut self) -> Result<(), Fault> {
        let Self::File { path, file, is_dirty } = self else { return Ok(()) };
        if !std::mem::take(is_dirty) {
            return Ok(());
        }
        match file.sync_data() {
            // a pipe or a device has nothing to sync
            Err(error) if error.kind() != ErrorKind::InvalidInput => {
                Err(Fault::halt(format!("cannot sync the dead letters {}: {error}", path.display())))
            }
            _ => Ok(()),
        }
    }
}
