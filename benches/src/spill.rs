//! Events on disk, so that they are not in the memory that is measured.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Write},
    path::Path,
};

use anyhow::Result;
use change::RecordRef;
use pipeline::{Fault, Records};

use crate::events::TOPIC;

/// Writes blocks to a file and hands back how many events there are.
pub(crate) fn write(path: &Path, blocks: impl IntoIterator<Item = Records>) -> Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut events = 0;
    for block in blocks {
        for (_, record) in (0..block.len()).filter_map(|index| block.get(index)) {
            for part in [record.key, record.value] {
                let bytes = part.unwrap_or_default();
                file.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
                file.write_all(bytes)?;
            }
            events += 1;
        }
    }
    file.flush()?;
    Ok(events)
}

/// Reads them back in blocks.
pub(crate) struct Spilled {
    file: BufReader<File>,
    block: usize,
    offset: i64,
}

impl Spilled {
    pub(crate) fn open(path: &Path, block: usize) -> Result<Self> {
        Ok(Self { file: BufReader::with_capacity(1 << 20, File::open(path)?), block, offset: 0 })
    }

    /// The next length-prefixed part; `None` at the end of the file.
    fn part(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<Option<()>> {
        let mut length = [0; 4];
        match self.file.read_exact(&mut length) {
            Err(end) if end.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        bytes.resize(u32::from_le_bytes(length) as usize, 0);
        self.file.read_exact(bytes).map(Some)
    }
}

impl Iterator for Spilled {
    type Item = Result<Records, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut records = Records::default();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while records.len() < self.block {
            match self.part(&mut key).and_then(|_| self.part(&mut value)) {
                Ok(Some(())) => {
                    let (key, value) = (Some(key.as_slice()), Some(value.as_slice()));
                    records.push(
                        TOPIC,
                        RecordRef { partition: 0, offset: self.offset, key, value, timestamp: None, old_key: None },
                    );
                }
                Ok(None) => break,
                Err(error) => return Some(Err(Fault::halt(error))),
            }
            self.offset += 1;
        }
        (!records.is_empty()).then_some(Ok(records))
    }
}
