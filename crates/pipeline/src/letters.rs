//! [`Letters`]: what lies in a file of dead letters, to be shown, and to be applied after a fix.
//!
//! A letter leaves the file only when its effect is durable: [`Letters::rewrite`] comes after the batches, and puts a
//! whole new file in the place of the old one. A crash before that leaves the letters where they are, and the guard
//! makes it harmless to apply them again.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, ErrorKind, Write},
    iter::Peekable,
    mem,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use change::RecordRef;

use crate::{
    Block, DeadLetters, Fault, Letter, TopicPartition,
    letter_file::{self, CANCEL, Damaged, Hold, LetterLine, cannot},
};

/// A block of letters is this large at most, so that memory does not depend on how many there are.
const BLOCK_RECORDS: usize = 10_000;
const BLOCK_BYTES: usize = 16 << 20;

/// Where a letter's record was to go, and where it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The table's name.
    pub table: Arc<str>,
    /// The partition that the record was read from.
    pub partition: TopicPartition,
    /// Its offset there.
    pub offset: i64,
}

/// The letters of a file, by place: of those that a crash wrote twice, the last one. The letters themselves stay in
/// the file until they are asked for.
#[derive(Debug)]
pub struct Letters {
    path: PathBuf,
    file: File,
    lines: BTreeMap<Place, Line>,
}

/// Where a letter stands in the file.
#[derive(Debug, Clone, Copy)]
struct Line {
    at: u64,
    bytes: usize,
}

impl Letters {
    /// Reads the file at `path`; `None` where there is none.
    ///
    /// # Errors
    /// A halt that names the file where it cannot be read, and the line where that is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, Fault> {
        match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => Self::index(path.to_owned(), opened.map_err(|e| cannot("open", path, &e))?).map(Some),
        }
    }

    /// The same, with no one writing to the file as long as these letters are held.
    ///
    /// # Errors
    /// As [`Self::read`], and where a running highwater has the file open.
    pub fn hold(path: &Path) -> Result<Option<Self>, Fault> {
        // where the path is a link, it stays one
        match fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => {
                let path = found.map_err(|e| cannot("open", path, &e))?;
                let file = letter_file::open(&path, OpenOptions::new().read(true), Hold::Alone)?;
                Self::index(path, file).map(Some)
            }
        }
    }

    fn index(path: PathBuf, file: File) -> Result<Self, Fault> {
        let io = |error: io::Error| cannot("read", &path, &error);
        if !file.metadata().map_err(io)?.is_file() {
            return Err(cannot("read", &path, &"that is no file"));
        }
        let mut lines = BTreeMap::new();
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        let (mut number, mut at) = (0_u64, 0);
        while reader.read_until(b'\n', &mut line).map_err(io)? > 0 {
            number += 1;
            let text = line.strip_suffix(b"\n");
            let whole = text.map(|text| text.strip_suffix(&[CANCEL]).unwrap_or(text));
            let is_cut_off = whole.is_none_or(|whole| Some(whole) != text);
            let text = whole.unwrap_or(&line);
            match place(text) {
                Ok(place) => _ = lines.insert(place, Line { at, bytes: text.len() }),
                Err(Damaged) if text.trim_ascii().is_empty() => {}
                Err(Damaged) if is_cut_off => tracing::warn!(
                    "{}:{number}: the line was cut off by a crash; its record was not acknowledged and is read again",
                    path.display()
                ),
                Err(Damaged) => {
                    return Err(Fault::halt(format!(
                        "{}:{number}: not a dead letter; mend the line or take it out",
                        path.display()
                    )));
                }
            }
            at += line.len() as u64;
            line.clear();
        }
        Ok(Self { path, file, lines })
    }

    /// The places of all letters, in order.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.lines.keys()
    }

    /// Gives each letter to `each`, in the order of their places.
    ///
    /// # Errors
    /// A halt where the file cannot be read, or `each`'s own.
    pub fn visit<E: From<Fault>>(&self, mut each: impl FnMut(&LetterLine<'_>) -> Result<(), E>) -> Result<(), E> {
        for line in self.lines.values() {
            each(&self.parsed(&self.text(*line)?)?)?;
        }
        Ok(())
    }

    /// The letters of `places`, each with the horizon that stood before it. The places have to be in order.
    pub fn blocks(&self, places: Vec<Place>) -> impl Iterator<Item = Result<Block, Fault>> + Send + use<'_> {
        let mut rest = places.into_iter().peekable();
        std::iter::from_fn(move || self.block(&mut rest).transpose())
    }

    fn block(&self, rest: &mut Peekable<impl Iterator<Item = Place>>) -> Result<Option<Block>, Fault> {
        let mut block = Block::default();
        while let Some(place) = rest.peek() {
            if block.records.len() >= BLOCK_RECORDS || block.records.bytes() >= BLOCK_BYTES {
                break;
            }
            let Some(line) = self.lines.get(place) else { return Err(self.changed()) };
            let text = self.text(*line)?;
            let letter = self.parsed(&text)?;
            let damaged = |Damaged| self.changed();
            let horizon = letter.horizon().map_err(damaged)?;
            if block.horizons.get(&place.partition).is_some_and(|&known| known != horizon) {
                break;
            }
            block.horizons.insert(place.partition.clone(), horizon);
            let (key, value) = (letter.key_bytes().map_err(damaged)?, letter.value_bytes().map_err(damaged)?);
            let TopicPartition { topic, partition } = &place.partition;
            let old_key = letter.old_key.as_deref().map(str::as_bytes);
            let (key, value, timestamp) = (key.as_deref(), value.as_deref(), letter.timestamp);
            let record = RecordRef { partition: *partition, offset: place.offset, key, value, timestamp, old_key };
            block.records.push(topic, record);
            rest.next();
        }
        Ok((!block.records.is_empty()).then_some(block))
    }

    /// Puts a new file in the place of this one: without the letters that are `done`, and with the new reasons of those
    /// that were `refused` again. Every other line stays as it is.
    ///
    /// # Errors
    /// A halt where it cannot be written; the old file is then still in its place.
    pub fn rewrite(self, done: impl Fn(&Place) -> bool, refused: &BTreeMap<Place, String>) -> Result<(), Fault> {
        let mut kept: Vec<_> = self.lines.iter().filter(|(place, _)| !done(place)).collect();
        kept.sort_by_key(|(_, line)| line.at);
        let mut path = self.path.clone().into_os_string();
        path.push(".new");
        let path = PathBuf::from(path);
        let io = |error: io::Error| cannot("write", &path, &error);

        let new = File::create(&path).map_err(io)?;
        let permissions = self.file.metadata().map_err(io)?.permissions();
        new.set_permissions(permissions).map_err(io)?;
        let mut out = BufWriter::new(&new);
        for (place, line) in kept {
            let mut text = self.text(*line)?;
            if let Some(reason) = refused.get(place) {
                let letter = LetterLine { reason: reason.into(), ..self.parsed(&text)? };
                text = serde_json::to_vec(&letter).map_err(Fault::halt)?;
            }
            text.push(b'\n');
            out.write_all(&text).map_err(io)?;
        }
        out.flush().map_err(io)?;
        drop(out);
        new.sync_all().map_err(io)?;
        fs::rename(&path, &self.path).map_err(io)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
    }

    fn text(&self, line: Line) -> Result<Vec<u8>, Fault> {
        let mut text = vec![0; line.bytes];
        self.file.read_exact_at(&mut text, line.at).map_err(|e| cannot("read", &self.path, &e))?;
        Ok(text)
    }

    fn parsed<'a>(&self, text: &'a [u8]) -> Result<LetterLine<'a>, Fault> {
        LetterLine::parse(text).map_err(|Damaged| self.changed())
    }

    fn changed(&self) -> Fault {
        cannot("read", &self.path, &"the file was changed meanwhile; try again")
    }
}

/// Reads a line's place, and that the whole letter can be read.
fn place(text: &[u8]) -> Result<Place, Damaged> {
    let letter = LetterLine::parse(text)?;
    letter.horizon()?;
    letter.key_bytes()?;
    letter.value_bytes()?;
    let partition = TopicPartition::new(&*letter.topic, letter.partition);
    Ok(Place { table: (&*letter.table).into(), partition, offset: letter.offset })
}

/// Of letters that were refused again: their places, and why.
#[derive(Debug, Clone, Default)]
pub struct Refused(Arc<Mutex<BTreeMap<Place, String>>>);

impl Refused {
    /// Hands out what has been gathered.
    #[must_use]
    pub fn take(&self) -> BTreeMap<Place, String> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl DeadLetters for Refused {
    fn write(&mut self, letter: &Letter<'_>) -> Result<(), Fault> {
        let Letter { table, partition, record, reason, .. } = *letter;
        let place = Place { table: table.into(), partition: partition.clone(), offset: record.offset };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place, reason.to_owned());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use change::{Horizon, Lsn};

    use super::*;
    use crate::LetterFile;

    fn path(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("dead.ndjson")
    }

    /// The bytes of a record and the LSN of the horizon before it.
    type Bytes<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, u64);

    fn write(file: &mut LetterFile, table: &str, offset: i64, (key, value, horizon): Bytes<'_>, reason: &str) {
        let partition = TopicPartition::new("t", 3);
        let record = RecordRef { partition: 3, offset, key, value, timestamp: Some(offset), old_key: key };
        let horizon = Horizon { snapshots: Lsn::try_from(horizon).unwrap(), ..Horizon::default() };
        file.write(&Letter { table, partition: &partition, record, horizon, reason }).unwrap();
    }

    fn plain(path: &Path, offsets: &[i64]) {
        let mut file = LetterFile::open(path).unwrap();
        for &offset in offsets {
            write(&mut file, "a", offset, (None, None, 0), &format!("reason {offset}"));
        }
    }

    fn offsets(letters: &Letters) -> Vec<i64> {
        letters.places().map(|place| place.offset).collect()
    }

    fn reasons(path: &Path) -> Vec<String> {
        let mut reasons = Vec::new();
        let visited = Letters::read(path).unwrap().unwrap().visit(|letter| {
            reasons.push(letter.reason.to_string());
            Ok::<_, Fault>(())
        });
        visited.unwrap();
        reasons
    }

    #[test]
    fn bytes_and_horizons_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let records: [Bytes<'_>; 5] = [
            (Some(b"{\"id\":1}"), Some("\"ä\n\u{1}\u{18}".as_bytes()), 0),
            (Some(&[0xc3, 0x28]), Some(&[0xff, 0, 10]), 0),
            (None, None, 7),
            (Some(b""), Some(b""), 7),
            (Some(b"null"), Some(b"null"), i64::MAX as u64),
        ];
        let mut file = LetterFile::open(&path(&dir)).unwrap();
        for (offset, record) in (0..).zip(records) {
            write(&mut file, "a", offset, record, "r");
        }
        let letters = Letters::read(&path(&dir)).unwrap().unwrap();
        let blocks: Vec<Block> = letters.blocks(letters.places().cloned().collect()).collect::<Result<_, _>>().unwrap();
        assert_eq!(blocks.iter().map(|block| block.records.len()).collect::<Vec<_>>(), [2, 2, 1]);
        let mut found = Vec::new();
        for block in &blocks {
            let horizon = block.horizons[&TopicPartition::new("t", 3)].snapshots.as_long().cast_unsigned();
            for (_, record) in (0..).map_while(|index| block.records.get(index)) {
                assert_eq!(record.timestamp, Some(record.offset));
                assert_eq!(
                    record.old_key,
                    record.key.filter(|key| std::str::from_utf8(key).is_ok()),
                    "only text is kept"
                );
                found.push((record.offset, (record.key, record.value, horizon)));
            }
        }
        assert_eq!(found, (0..).zip(records).collect::<Vec<_>>());
    }

    #[test]
    fn of_letters_written_twice_the_last_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = LetterFile::open(&path(&dir)).unwrap();
        for (table, offset, reason) in [("a", 2, "old"), ("a", 1, "x"), ("b", 2, "y"), ("a", 2, "new")] {
            write(&mut file, table, offset, (None, None, 0), reason);
        }
        assert_eq!(reasons(&path(&dir)), ["x", "new", "y"]);
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_passed_over_and_what_follows_stands_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        plain(&path, &[1, 2]);
        let whole = fs::read(&path).unwrap();
        for cut in 1..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let before = offsets(&Letters::read(&path).unwrap().unwrap());
            plain(&path, &[3]);
            let after = offsets(&Letters::read(&path).unwrap().unwrap());
            assert_eq!(after, [before, vec![3]].concat(), "cut at {cut}");
            // a second crash, and a second start
            let again = [fs::read(&path).unwrap(), whole[..cut.min(9)].to_vec()].concat();
            fs::write(&path, again).unwrap();
            plain(&path, &[4]);
            assert_eq!(offsets(&Letters::read(&path).unwrap().unwrap()), [after, vec![4]].concat(), "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_line_is_named_by_file_and_number_and_not_by_what_stands_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        plain(&path, &[1]);
        let good = fs::read_to_string(&path).unwrap();
        for bad in
            ["SECRET\n", "{\"table\":\"SECRET\"}\n", &good.replace("\"reason", "\"value_base64\":\"SECRET!\",\"reason")]
        {
            fs::write(&path, format!("{good}\n{bad}{good}")).unwrap();
            let error = Letters::read(&path).unwrap_err().message;
            assert!(error.contains("dead.ndjson:3: not a dead letter"), "{error}");
            assert!(!error.contains("SECRET"), "{error}");
        }
    }

    #[test]
    fn writers_share_the_file_and_whoever_replays_it_holds_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir);
        assert!(Letters::hold(&path).unwrap().is_none());
        let (mut first, second) = (LetterFile::open(&path).unwrap(), LetterFile::open(&path).unwrap());
        write(&mut first, "a", 1, (None, None, 0), "r");
        assert!(Letters::hold(&path).unwrap_err().message.contains("a running highwater has the file open"));
        drop((first, second));
        let held = Letters::hold(&path).unwrap().unwrap();
        assert!(LetterFile::open(&path).unwrap_err().message.contains("they are being replayed"));
        assert!(Letters::hold(&path).is_err());
        assert_eq!(offsets(&Letters::read(&path).unwrap().unwrap()), [1]);
        held.rewrite(|_| true, &BTreeMap::new()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
        plain(&path, &[2]);
        assert_eq!(offsets(&Letters::read(&path).unwrap().unwrap()), [2]);
    }

    #[test]
    fn a_rewrite_leaves_out_what_is_done_and_renews_the_reasons_of_what_was_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        let path = path(&dir);
        std::os::unix::fs::symlink(&path, &link).unwrap();
        plain(&path, &[5, 1, 2, 3, 1]);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let mut refused = Refused::default();
        let (partition, horizon) = (TopicPartition::new("t", 3), Horizon::default());
        let record = RecordRef { partition: 3, offset: 2, key: None, value: None, timestamp: None, old_key: None };
        refused.write(&Letter { table: "a", partition: &partition, record, horizon, reason: "new" }).unwrap();
        let letters = Letters::hold(&link).unwrap().unwrap();
        letters.rewrite(|place| place.offset == 1, &refused.take()).unwrap();
        assert_eq!(reasons(&path), ["new", "reason 3", "reason 5"]);
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .starts_with("{\"table\":\"a\",\"topic\":\"t\",\"partition\":3,\"offset\":5")
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions());
        assert_eq!((mode & 0o777, fs::read_dir(dir.path()).unwrap().count()), (0o600, 2));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }
}
