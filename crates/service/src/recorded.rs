//! Recorded messages: a line, and files of them in blocks.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use change::RecordRef;
use flate2::read::MultiGzDecoder;
use pipeline::{Fault, Records, TopicPartition};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Lines handed over at once.
const BLOCK: usize = 10_000;
const OLD_KEY: &str = "__debezium.oldkey";

/// A recorded message: as the captures in `testdata` have it, or as `kcat -J` writes it.
#[derive(Debug, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    topic: Option<Cow<'a, str>>,
    #[serde(default)]
    partition: i32,
    offset: Option<i64>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow, alias = "payload")]
    value: Option<&'a RawValue>,
    #[serde(alias = "ts")]
    timestamp: Option<i64>,
    /// Names and values: in pairs in the captures, one after the other from kcat.
    #[serde(borrow, default)]
    headers: Option<Vec<&'a RawValue>>,
}

/// One message, with bytes of its own.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) topic: Option<String>,
    pub(crate) partition: i32,
    pub(crate) offset: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    /// The broker's, in milliseconds.
    pub(crate) timestamp: Option<i64>,
    /// The header with the key that the row had before.
    pub(crate) old_key: Option<Vec<u8>>,
}

impl Recorded {
    /// Reads one line; the error says what is wrong with the line, not what stands in it.
    pub(crate) fn parse(line: &str) -> Result<Self, &'static str> {
        let line: Line<'_> = serde_json::from_str(line).map_err(
            |_| "not a recorded message: expected a JSON object with topic, partition, offset, key and value",
        )?;
        Ok(Self {
            topic: line.topic.map(Cow::into_owned),
            partition: line.partition,
            offset: line.offset,
            key: bytes(line.key)?,
            value: bytes(line.value)?,
            timestamp: line.timestamp,
            old_key: line.headers.and_then(|headers| old_key(&headers)),
        })
    }

    /// The message as a record at an offset.
    pub(crate) fn record(&self, offset: i64) -> RecordRef<'_> {
        RecordRef {
            partition: self.partition,
            offset,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            timestamp: self.timestamp,
            old_key: self.old_key.as_deref(),
        }
    }
}

/// What stood in the record: JSON as it stands, text out of a JSON string, nothing for null.
fn bytes(json: Option<&RawValue>) -> Result<Option<Vec<u8>>, &'static str> {
    match json.map(RawValue::get) {
        None | Some("null") => Ok(None),
        Some(text) if text.starts_with('"') => {
            let text: String = serde_json::from_str(text).map_err(|_| "its key or value is no string")?;
            Ok(Some(text.into_bytes()))
        }
        Some(json) => Ok(Some(json.as_bytes().to_vec())),
    }
}

/// The value of Debezium's header with the old key of a row.
fn old_key(headers: &[&RawValue]) -> Option<Vec<u8>> {
    let text = |json: &RawValue| serde_json::from_str::<String>(json.get()).ok();
    let value = match headers.iter().position(|name| text(name).is_some_and(|name| name == OLD_KEY)) {
        Some(name) => headers.get(name + 1).and_then(|value| text(value)),
        None => headers.iter().find_map(|pair| {
            let (name, value): (String, String) = serde_json::from_str(pair.get()).ok()?;
            (name == OLD_KEY).then_some(value)
        }),
    };
    value.map(String::into_bytes)
}

/// Lines of a file, gzipped or not.
pub(crate) fn lines(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let open = || File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let mut magic = [0; 2];
    let is_gzip = open()?.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(open()?))) } else { Box::new(BufReader::new(open()?)) })
}

/// Reads files one after the other, in blocks. A line without a topic belongs to the default topic.
pub(crate) struct RecordedBlocks {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<(PathBuf, Box<dyn BufRead + Send>, u64)>,
    default_topic: String,
    next_offset: BTreeMap<TopicPartition, i64>,
}

impl RecordedBlocks {
    pub(crate) fn new(files: Vec<PathBuf>, default_topic: &str) -> Self {
        let (files, next_offset) = (files.into_iter(), BTreeMap::new());
        Self { files, current: None, default_topic: default_topic.to_owned(), next_offset }
    }

    fn next_line(&mut self) -> Result<Option<Recorded>, Fault> {
        loop {
            let Some((path, lines, number)) = &mut self.current else {
                let Some(path) = self.files.next() else { return Ok(None) };
                let lines = lines(&path).map_err(|e| Fault::halt(format!("{e:#}")))?;
                self.current = Some((path, lines, 0));
                continue;
            };
            *number += 1;
            let fault = |reason: &dyn std::fmt::Display| Fault::halt(format!("{}:{number}: {reason}", path.display()));
            let mut line = String::new();
            if lines.read_line(&mut line).map_err(|e| fault(&e))? == 0 {
                self.current = None;
            } else if !line.trim().is_empty() {
                return Recorded::parse(&line).map(Some).map_err(|e| fault(&e));
            }
        }
    }
}

impl Iterator for RecordedBlocks {
    type Item = Result<Records, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut records = Records::default();
        while records.len() < BLOCK {
            let line = match self.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(fault) => return Some(Err(fault)),
            };
            let topic = line.topic.as_deref().unwrap_or(&self.default_topic);
            let next = self.next_offset.entry(TopicPartition::new(topic, line.partition)).or_default();
            let offset = line.offset.unwrap_or(*next);
            *next = offset.saturating_add(1);
            records.push(topic, line.record(offset));
        }
        (!records.is_empty()).then_some(Ok(records))
    }
}
