//! [`RecordedSource`]: recorded messages, as a source.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::read::MultiGzDecoder;
use pipeline::{AssignedPartition, Fault, Polled, Position, Records, Source, TopicPartition};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

/// Lines handed over at once.
const BLOCK: usize = 10_000;

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
}

/// One message, with bytes of its own.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) topic: Option<String>,
    pub(crate) partition: i32,
    pub(crate) offset: Option<i64>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
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
        })
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

/// Lines of a file, gzipped or not.
pub(crate) fn lines(path: &Path) -> Result<Box<dyn BufRead + Send>> {
    let open = || File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let mut magic = [0; 2];
    let is_gzip = open()?.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(open()?))) } else { Box::new(BufReader::new(open()?)) })
}

/// Reads files one after the other. A line without a topic belongs to the default topic.
pub(crate) struct RecordedSource {
    files: std::vec::IntoIter<PathBuf>,
    current: Option<(PathBuf, Box<dyn BufRead + Send>, u64)>,
    default_topic: String,
    assigned: BTreeSet<TopicPartition>,
    next_offset: BTreeMap<TopicPartition, i64>,
    waiting: Vec<Polled>,
    is_over: bool,
}

impl RecordedSource {
    pub(crate) fn new(files: Vec<PathBuf>, default_topic: &str) -> Self {
        Self {
            files: files.into_iter(),
            current: None,
            default_topic: default_topic.to_owned(),
            assigned: BTreeSet::new(),
            next_offset: BTreeMap::new(),
            waiting: Vec::new(),
            is_over: false,
        }
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
            let mut line = String::new();
            let read =
                lines.read_line(&mut line).map_err(|e| Fault::halt(format!("{}:{number}: {e}", path.display())))?;
            if read == 0 {
                self.current = None;
                continue;
            }
            if line.trim().is_empty() {
                continue;
            }
            let recorded =
                Recorded::parse(&line).map_err(|e| Fault::halt(format!("{}:{number}: {e}", path.display())))?;
            return Ok(Some(recorded));
        }
    }

    fn read_block(&mut self) -> Result<(), Fault> {
        let mut records = Records::default();
        let mut new = Vec::new();
        while records.len() < BLOCK {
            let Some(line) = self.next_line()? else {
                self.is_over = true;
                break;
            };
            let topic = line.topic.as_deref().unwrap_or(&self.default_topic);
            let partition = TopicPartition::new(topic, line.partition);
            let next = self.next_offset.entry(partition.clone()).or_default();
            let offset = line.offset.unwrap_or(*next);
            *next = offset + 1;
            records.push(topic, line.partition, offset, line.key.as_deref(), line.value.as_deref());
            if self.assigned.insert(partition.clone()) {
                new.push(AssignedPartition { partition, committed: None, low: 0, high: i64::MAX });
            }
        }
        if self.is_over {
            self.waiting.push(Polled::Ended(self.assigned.iter().cloned().collect()));
        }
        self.waiting.push(Polled::Records(records));
        if !new.is_empty() || self.assigned.is_empty() {
            self.waiting.push(Polled::Assigned(new));
        }
        Ok(())
    }
}

impl Source for RecordedSource {
    async fn poll(&mut self, deadline: Instant) -> Result<Polled, Fault> {
        if self.waiting.is_empty() && !self.is_over {
            self.read_block()?;
        }
        if let Some(polled) = self.waiting.pop() {
            return Ok(polled);
        }
        tokio::time::sleep_until(deadline).await;
        Ok(Polled::Idle)
    }

    async fn start(&mut self, _: Vec<(TopicPartition, i64)>) -> Result<(), Fault> {
        Ok(())
    }

    async fn release(&mut self, _: Vec<TopicPartition>) -> Result<(), Fault> {
        Ok(())
    }

    fn hold(&mut self, _: TopicPartition) {}

    fn acknowledge(&mut self, _: Vec<(TopicPartition, Position)>) {}

    async fn close(self) {}
}
