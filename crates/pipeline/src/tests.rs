//! The loop against a scripted source and a replica that fails on demand. The real ones are tested in `tests/`.

mod accidents;
mod aside;
mod growth;
mod read_back;
mod schemas;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use change::{Column, MetaColumns, RecordRef, TableSchema};
use tokio::time::Instant;

use crate::{
    Acknowledged, Applied, AssignedPartition, Batch, BatchLimits, Before, Checkpoint, Counts, DeadLetters, Ending,
    Epoch, Fault, LetterFile, LogOnly, OnError, Pipeline, Polled, Position, Records, Replica, RowCounts, Settings,
    Source, StartAt, Summary, Table, TopicPartition,
};

const TOPIC: &str = "shop.public.orders";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Start(Vec<i64>),
    Release(Vec<i32>),
    Hold(i32),
    Resume(Vec<(i32, i64)>),
    Acknowledge(Vec<(i32, i64)>),
}

#[derive(Default, Clone)]
struct Heard(Arc<Mutex<Vec<Said>>>, Arc<Mutex<Vec<Acknowledged>>>);

impl Heard {
    fn say(&self, said: Said) {
        self.0.lock().unwrap().push(said);
    }

    fn acknowledged(&self) -> Vec<(i32, i64)> {
        let said = self.0.lock().unwrap();
        said.iter()
            .filter_map(|s| if let Said::Acknowledge(positions) = s { Some(positions.clone()) } else { None })
            .flatten()
            .collect()
    }
}

struct Scripted {
    script: VecDeque<Polled>,
    heard: Heard,
    /// What is found before whatever offset is asked for.
    before: Before,
}

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, partition)
}

impl Source for Scripted {
    const RESUMES: bool = true;

    async fn poll(&mut self, deadline: Instant) -> Result<Polled, Fault> {
        match self.script.pop_front() {
            None | Some(Polled::Idle) => {}
            Some(polled) => return Ok(polled),
        }
        tokio::time::sleep_until(deadline).await;
        Ok(Polled::Idle)
    }

    async fn before(&mut self, offsets: Vec<(TopicPartition, i64)>) -> Result<Vec<Before>, Fault> {
        Ok(vec![self.before; offsets.len()])
    }

    async fn start(&mut self, offsets: Vec<(TopicPartition, i64)>) -> Result<(), Fault> {
        self.heard.say(Said::Start(offsets.into_iter().map(|(_, offset)| offset).collect()));
        Ok(())
    }

    async fn release(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Fault> {
        self.heard.say(Said::Release(partitions.into_iter().map(|tp| tp.partition).collect()));
        Ok(())
    }

    fn hold(&mut self, partition: TopicPartition) {
        self.heard.say(Said::Hold(partition.partition));
    }

    fn resume(&mut self, offsets: Vec<(TopicPartition, i64)>) {
        self.heard.say(Said::Resume(offsets.into_iter().map(|(tp, offset)| (tp.partition, offset)).collect()));
    }

    fn acknowledge(&mut self, positions: Vec<(TopicPartition, Acknowledged)>) {
        self.heard.1.lock().unwrap().extend(positions.iter().map(|(_, acknowledged)| *acknowledged));
        let offset = |(tp, a): (TopicPartition, Acknowledged)| (tp.partition, a.position.offset);
        self.heard.say(Said::Acknowledge(positions.into_iter().map(offset).collect()));
    }

    async fn close(self) {}
}

/// Takes every row as an insert, after the faults that it is told to have.
#[derive(Default, Clone)]
struct Store {
    faults: Arc<Mutex<VecDeque<Fault>>>,
    sizes: Arc<Mutex<Vec<usize>>>,
    checkpoint: Checkpoint,
    delay: Duration,
    /// The epoch at each assignment; the first one where there are none.
    epochs: Arc<Mutex<VecDeque<Epoch>>>,
    rewound: Arc<Mutex<Checkpoint>>,
    guards_everything: bool,
    is_away_at_first: bool,
}

impl Replica for Store {
    async fn checkpoint(&mut self, _: &[TopicPartition]) -> Result<Checkpoint, Fault> {
        if self.is_away_at_first {
            self.is_away_at_first = false;
            return Err(Fault::retry("store away"));
        }
        Ok(self.checkpoint.clone())
    }

    fn held(&self, partition: &TopicPartition) -> i64 {
        self.checkpoint.get(partition).map_or(0, |position| position.offset)
    }

    async fn apply(&mut self, batch: &Batch) -> Result<Applied, Fault> {
        tokio::time::sleep(self.delay).await;
        if let Some(fault) = self.faults.lock().unwrap().pop_front() {
            return Err(fault);
        }
        let partial: Vec<usize> = (0..batch.changes.rows.num_rows())
            .filter(|&row| batch.changes.unchanged.iter().flatten().any(|u| u.value(row)))
            .collect();
        if !partial.is_empty() {
            return Ok(Applied::Unresolved(partial));
        }
        self.sizes.lock().unwrap().push(batch.changes.rows.num_rows());
        if self.guards_everything {
            let guarded = batch.changes.rows.num_rows() as u64;
            return Ok(Applied::NothingToDo(RowCounts { guarded, ..RowCounts::default() }));
        }
        self.checkpoint.extend(batch.positions.clone());
        let inserted = batch.changes.rows.num_rows() as u64;
        Ok(Applied::Committed { version: 1, rows: RowCounts { inserted, ..RowCounts::default() } })
    }

    fn epoch(&self) -> Epoch {
        self.epochs.lock().unwrap().pop_front().unwrap_or_default()
    }

    async fn rewind(&mut self, positions: &Checkpoint) -> Result<(), Fault> {
        self.rewound.lock().unwrap().extend(positions.clone());
        Ok(())
    }

    async fn maintain(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

fn schema() -> Arc<TableSchema> {
    let columns = vec![Column::declared("id", "long").unwrap(), Column::declared("note", "string").unwrap()];
    Arc::new(TableSchema::new(columns, &["id"], MetaColumns::default()).unwrap())
}

fn assigned(partitions: &[i32], high: i64) -> Polled {
    let of = |&partition: &i32| AssignedPartition { partition: tp(partition), committed: None, low: 0, high };
    Polled::Assigned(partitions.iter().map(of).collect())
}

const BAD: &str = "{";
const TOMBSTONE: &str = "";
const PARTIAL: &str = "__debezium_unavailable_value";

/// Records of one partition from `offset` on; each is a note, or one of the special ones.
fn records(partition: i32, offset: i64, notes: &[&str]) -> Polled {
    let mut records = Records::default();
    for (offset, note) in (offset..).zip(notes) {
        let key = format!(r#"{{"id":{offset}}}"#);
        let value =
            format!(r#"{{"op":"u","after":{{"id":{offset},"note":"{note}"}},"source":{{"lsn":{}}}}}"#, offset + 1);
        let value = match *note {
            TOMBSTONE => None,
            BAD => Some(BAD.as_bytes()),
            _ => Some(value.as_bytes()),
        };
        records.push(
            TOPIC,
            RecordRef { partition, offset, key: Some(key.as_bytes()), value, timestamp: None, old_key: None },
        );
    }
    Polled::Records(records)
}

struct Run {
    summary: Summary,
    heard: Heard,
}

impl Run {
    fn counts(&self) -> Counts {
        self.summary.tables[0].1
    }

    fn fault(&self) -> Option<String> {
        self.summary.tables[0].2.as_ref().map(|fault| fault.message.clone())
    }
}

async fn run(
    script: Vec<Polled>,
    store: Store,
    on_error: OnError,
    dead_letters: Box<dyn DeadLetters>,
    stop_after: Option<Duration>,
) -> Run {
    let table = table(on_error, store);
    run_table(script, table, Before::Unknown, dead_letters, stop_after).await
}

fn table(on_error: OnError, store: Store) -> Table<Store> {
    let limits = BatchLimits { records: 3, ..BatchLimits::default() };
    Table::new("orders", TOPIC, &schema(), limits, on_error, store)
}

async fn run_table(
    script: Vec<Polled>,
    table: Table<Store>,
    before: Before,
    dead_letters: Box<dyn DeadLetters>,
    stop_after: Option<Duration>,
) -> Run {
    let heard = Heard::default();
    let settings = Settings {
        start_at: StartAt::Resume,
        until_caught_up: stop_after.is_none(),
        retry_max: Duration::from_mins(1),
        ..Settings::default()
    };
    let source = Scripted { script: script.into(), heard: heard.clone(), before };
    let pipeline = Pipeline::new(source, vec![table], dead_letters, settings, ());
    let stop = async move {
        match stop_after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };
    Run { summary: pipeline.run(stop).await.unwrap(), heard }
}

#[tokio::test(start_paused = true)]
async fn batches_are_cut_by_records_and_acknowledged_when_durable() {
    let store = Store::default();
    let script = vec![assigned(&[0], 7), records(0, 0, &["a", "b", TOMBSTONE, "d", "e", "f", "g"])];
    let run = run(script, store.clone(), OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!(run.summary.ending, Ending::CaughtUp);
    assert_eq!(*store.sizes.lock().unwrap(), [2, 3, 1]);
    assert_eq!(run.heard.acknowledged(), [(0, 3), (0, 6), (0, 7)]);
    let counts = run.counts();
    assert_eq!((counts.received, counts.merged, counts.no_change), (7, 6, 1));
    assert!(counts.adds_up());
}

#[tokio::test(start_paused = true)]
async fn a_bad_record_halts_its_table_after_what_came_before_it_is_durable() {
    let script = vec![assigned(&[0], 5), records(0, 0, &["a", "b", "c", "d", BAD, "f"])];
    let run = run(script, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!(run.heard.acknowledged().last(), Some(&(0, 4)));
    let fault = run.fault().unwrap();
    assert!(fault.contains("table `orders`, shop.public.orders/0 offset 4: the value is not valid JSON"), "{fault}");
    assert_eq!(run.counts().received, 4);
    assert!(run.heard.0.lock().unwrap().contains(&Said::Hold(0)));
}

#[tokio::test(start_paused = true)]
async fn a_bad_record_becomes_a_dead_letter_and_the_good_ones_are_applied() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.ndjson");
    let script = vec![assigned(&[0], 5), records(0, 0, &["a", BAD, "c", PARTIAL, "e"])];
    let run =
        run(script, Store::default(), OnError::DeadLetter, Box::new(LetterFile::open(&path).unwrap()), None).await;
    let counts = run.counts();
    assert_eq!((counts.received, counts.merged, counts.dead_lettered), (5, 3, 2));
    assert_eq!(run.heard.acknowledged().last(), Some(&(0, 5)));
    let letters = std::fs::read_to_string(&path).unwrap();
    let letters: Vec<serde_json::Value> = letters.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(letters[0]["offset"], 1);
    assert_eq!(letters[0]["value"], BAD);
    assert_eq!(letters[0]["key"], r#"{"id":1}"#);
    assert_eq!(letters[1]["offset"], 3);
    assert!(letters[1]["reason"].as_str().unwrap().contains("leaves out an unchanged value"));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_resolved_halts_a_table_that_keeps_no_dead_letters() {
    let script = vec![assigned(&[0], 2), records(0, 0, &["a", PARTIAL])];
    let run = run(script, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    assert!(run.fault().unwrap().contains("offset 1: leaves out an unchanged value"));
    assert!(run.heard.acknowledged().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_tried_again_and_what_lasts_halts_the_table() {
    let store = Store::default();
    store.faults.lock().unwrap().extend([
        Fault::retry("store away"),
        Fault::redo("lost race"),
        Fault::retry("store away"),
    ]);
    let script = || vec![assigned(&[0], 1), records(0, 0, &["a"])];
    let passed = run(script(), store, OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!((passed.fault(), passed.counts().merged), (None, 1));

    let store = Store::default();
    store.faults.lock().unwrap().extend(vec![Fault::retry("store away"); 100]);
    let began = Instant::now();
    let lasting = run(script(), store, OnError::Halt, Box::new(LogOnly), None).await;
    assert!(lasting.fault().unwrap().contains("of trying: store away"), "{:?}", lasting.fault());
    assert!(began.elapsed() <= Duration::from_mins(1));
    assert!(lasting.heard.acknowledged().is_empty());

    let store = Store::default();
    store.faults.lock().unwrap().push_back(Fault::halt("no permission"));
    let denied = run(script(), store, OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!(denied.fault().as_deref(), Some("no permission"));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_partition_is_durable_before_it_is_released_and_a_kept_one_reads_on() {
    let store = Store { delay: Duration::from_secs(5), ..Store::default() };
    let script = vec![
        assigned(&[0, 1], 4),
        records(0, 0, &["a", "b"]),
        records(1, 0, &["k", "l"]),
        Polled::Revoked(vec![tp(0)]),
        records(0, 2, &["late"]),
        records(1, 2, &["m", "n"]),
    ];
    let run = run(script, store, OnError::Halt, Box::new(LogOnly), None).await;
    let said = run.heard.0.lock().unwrap().clone();
    let released = said.iter().position(|s| *s == Said::Release(vec![0])).unwrap();
    let before: Vec<_> = said[..released]
        .iter()
        .filter_map(|s| if let Said::Acknowledge(p) = s { Some(p.clone()) } else { None })
        .flatten()
        .collect();
    assert!(before.contains(&(0, 2)), "{said:?}");
    assert_eq!(run.heard.acknowledged().last(), Some(&(1, 4)));
    // the late record of the partition that left is not ours to count
    assert_eq!(run.counts().received, 6);
}

#[tokio::test(start_paused = true)]
async fn a_table_with_other_writers_gives_each_its_turn() {
    let mut table = table(OnError::Halt, Store::default());
    let attempt = Duration::from_millis(100);
    let mut rests = |version| {
        table.committed(version, attempt);
        table.rests_until - Instant::now()
    };
    assert_eq!(rests(7), Duration::ZERO, "what came before its first commit tells nothing");
    assert_eq!(rests(8), Duration::ZERO);
    assert_eq!(rests(9 + 3), 3 * attempt);
    assert_eq!(rests(13 + 100), 8 * attempt);
    assert_eq!(rests(114), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn at_a_stop_what_is_on_its_way_lands_and_the_rest_is_not_acknowledged() {
    let store = Store { delay: Duration::from_secs(4), ..Store::default() };
    let script = vec![assigned(&[0], 100), records(0, 0, &["a", "b", "c", "d"])];
    let stopped = run(script, store, OnError::Halt, Box::new(LogOnly), Some(Duration::from_secs(1))).await;
    assert_eq!(stopped.summary.ending, Ending::Stopped);
    assert_eq!(stopped.heard.acknowledged(), [(0, 3)]);

    let store = Store { delay: Duration::from_secs(400), ..Store::default() };
    let script = vec![assigned(&[0], 100), records(0, 0, &["a", "b", "c"])];
    let began = Instant::now();
    let cut = run(script, store, OnError::Halt, Box::new(LogOnly), Some(Duration::from_secs(1))).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(cut.heard.acknowledged().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_partition_begins_at_the_further_of_group_and_checkpoint_and_a_gap_halts() {
    let checkpoint: Checkpoint = [(tp(0), Position { offset: 5, ..Position::default() })].into();
    let store = Store { checkpoint, ..Store::default() };
    let store = Store { is_away_at_first: true, ..store };
    let script = vec![assigned(&[0], 6), records(0, 5, &["a"])];
    let resumed = run(script, store.clone(), OnError::Halt, Box::new(LogOnly), None).await;
    let said = resumed.heard.0.lock().unwrap().clone();
    // the group has not got the checkpoint, and may get no record that would bring it there
    assert_eq!(said[..2], [Said::Start(vec![5]), Said::Acknowledge(vec![(0, 5)])]);

    let (script, table) = (vec![assigned(&[0], 3)], table(OnError::Halt, store));
    let recreated = run_table(script, table, Before::Nowhere, Box::new(LogOnly), None).await;
    assert_eq!(recreated.summary.ending, Ending::Halted);
    assert!(recreated.fault().unwrap().contains("offset 5 is acknowledged but the topic ends at 3"));
}
