//! Records whose schemas have to be fetched first.

use std::{future::Future, pin::Pin};

use change::{Malformed, Problem};

use super::*;
use crate::{Format, Read, Reading, Schemas};

/// A registry that answers after its faults, each time after a while. A message is JSON as it is.
#[derive(Debug, Default)]
struct Fake {
    faults: Mutex<VecDeque<Fault>>,
    delay: Duration,
    known: Mutex<Vec<u32>>,
    asked: Mutex<Vec<u32>>,
}

/// The id of a schema that nobody can use.
const UNFIT: u32 = 13;

impl Schemas for Fake {
    fn read(&self, framed: &[u8], part: &'static str, json: &mut Vec<u8>) -> Result<Reading, Malformed> {
        let id = u32::from_be_bytes(framed[1..5].try_into().unwrap());
        if !self.known.lock().unwrap().contains(&id) {
            return Ok(Reading::Unknown(id));
        }
        if id == UNFIT {
            return Err(Problem::Schema { part, id, what: "unfit".into() }.into());
        }
        json.extend(&framed[5..]);
        Ok(Reading::Json("{}".into()))
    }

    fn fetch(&self, id: u32) -> Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + '_>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(id);
            tokio::time::sleep(self.delay).await;
            if let Some(fault) = self.faults.lock().unwrap().pop_front() {
                return Err(fault);
            }
            self.known.lock().unwrap().push(id);
            Ok(())
        })
    }
}

fn frame(id: u32, message: &str) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), message.as_bytes()].concat()
}

/// Records from `offset` on, each under the schemas of its key and of its value; without an id there is none.
fn framed(topic: &str, offset: i64, ids: &[(u32, Option<u32>)]) -> Polled {
    let mut records = Records::default();
    for (offset, (key_id, value_id)) in (offset..).zip(ids) {
        let key = frame(*key_id, &format!(r#"{{"id":{offset}}}"#));
        let value = format!(r#"{{"op":"c","after":{{"id":{offset},"note":"n"}},"source":{{"lsn":{}}}}}"#, offset + 1);
        let value = value_id.map(|id| frame(id, &value));
        records.push(
            topic,
            RecordRef {
                partition: 0,
                offset,
                key: Some(&key),
                value: value.as_deref(),
                timestamp: None,
                old_key: None,
            },
        );
    }
    Polled::Records(records)
}

async fn run_framed(
    ids: &[(u32, Option<u32>)],
    fake: &Arc<Fake>,
    store: Store,
    on_error: OnError,
    dead_letters: Box<dyn DeadLetters>,
    stop_after: Option<Duration>,
) -> Run {
    let script = vec![assigned(&[0], i64::try_from(ids.len()).unwrap()), framed(TOPIC, 0, ids)];
    let table = table(on_error, store).reading(Some(Arc::clone(fake) as Arc<dyn Schemas>));
    run_table(script, table, Before::Unknown, dead_letters, stop_after).await
}

const SAME: (u32, Option<u32>) = (1, Some(2));

#[tokio::test(start_paused = true)]
async fn a_record_waits_for_its_schemas_which_are_fetched_once() {
    let (fake, store) = (Arc::new(Fake { delay: Duration::from_millis(100), ..Fake::default() }), Store::default());
    let ids = [SAME, SAME, (1, None), (1, Some(3)), SAME];
    let run = run_framed(&ids, &fake, store.clone(), OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!((run.fault(), run.summary.ending), (None, Ending::CaughtUp));
    let counts = run.counts();
    assert_eq!((counts.received, counts.merged, counts.no_change), (5, 4, 1));
    assert_eq!(*fake.asked.lock().unwrap(), [1, 2, 3]);
    assert_eq!(*store.sizes.lock().unwrap(), [2, 2]);
    assert_eq!(run.heard.acknowledged().last(), Some(&(0, 5)));
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_is_away_is_asked_again_and_one_that_stays_away_halts_the_table() {
    let fake = Arc::new(Fake::default());
    fake.faults.lock().unwrap().extend([Fault::retry("away"), Fault::retry("away")]);
    let run = run_framed(&[SAME], &fake, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!((run.fault(), run.counts().merged), (None, 1));
    assert_eq!(*fake.asked.lock().unwrap(), [1, 1, 1, 2]);

    let fake = Arc::new(Fake::default());
    fake.known.lock().unwrap().extend([1, 2]);
    fake.faults.lock().unwrap().extend(vec![Fault::retry("away"); 100]);
    let began = Instant::now();
    // the batch that was begun before is sent off at its age, while the registry is away
    let ids = [SAME, SAME, (1, Some(3)), SAME];
    let run = run_framed(&ids, &fake, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    let fault = run.fault().unwrap();
    assert!(fault.starts_with("gave up after") && fault.ends_with("of trying: away"), "{fault}");
    assert!(began.elapsed() <= Duration::from_mins(1));
    assert_eq!((run.heard.acknowledged(), run.summary.ending), (vec![(0, 2)], Ending::Halted));

    let fake = Arc::new(Fake::default());
    fake.faults.lock().unwrap().push_back(Fault::halt("not let in"));
    let run = run_framed(&[SAME], &fake, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    assert_eq!(run.fault().as_deref(), Some("not let in"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_registry_that_is_away() {
    let fake = Arc::new(Fake { delay: Duration::from_hours(1), ..Fake::default() });
    let began = Instant::now();
    let stop = Some(Duration::from_secs(3));
    let run = run_framed(&[SAME], &fake, Store::default(), OnError::Halt, Box::new(LogOnly), stop).await;
    assert_eq!((run.summary.ending, run.fault()), (Ending::Stopped, None));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(run.heard.acknowledged().is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_one_table_waits_for_a_schema_the_others_go_on_and_it_reads_on_where_it_was() {
    const OTHER: &str = "shop.public.other";
    let (quick, slow) = (Store::default(), Store::default());
    let fake = Arc::new(Fake { delay: Duration::from_secs(10), ..Fake::default() });
    fake.known.lock().unwrap().extend([1, 2]);
    let of_other = |offset| framed(OTHER, offset, &[SAME; 3]);
    let mut script = vec![assigned(&[0], 3)];
    let Some(Polled::Assigned(first)) = script.first_mut() else { unreachable!() };
    first.push(AssignedPartition { partition: TopicPartition::new(OTHER, 0), committed: None, low: 0, high: 6 });
    script.extend([framed(TOPIC, 0, &[SAME, (1, Some(3)), SAME]), of_other(0), of_other(3)]);
    script.extend((0..12).map(|_| Polled::Idle));
    script.extend([Polled::Resumed(vec![tp(0)]), framed(TOPIC, 1, &[(1, Some(3)), SAME])]);

    let limits = BatchLimits { records: 3, ..BatchLimits::default() };
    let table = |name, topic, store| Table::new(name, topic, &schema(), limits, OnError::Halt, store);
    let schemas = || Some(Arc::clone(&fake) as Arc<dyn Schemas>);
    let tables = vec![
        table("orders", TOPIC, slow.clone()).reading(schemas()),
        table("other", OTHER, quick.clone()).reading(schemas()),
    ];
    let heard = Heard::default();
    let settings = Settings { until_caught_up: true, ..Settings::default() };
    let source = Scripted { script: script.into(), heard: heard.clone(), before: Before::Unknown };
    let pipeline = Pipeline::new(source, tables, Box::new(LogOnly), settings, ());
    let watch = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(*quick.sizes.lock().unwrap(), [3, 3], "the other table waits for a schema that is not its own");
        // what was read before goes by age, and does not read on what waits
        assert_eq!(*slow.sizes.lock().unwrap(), [1]);
        tokio::time::sleep(Duration::from_mins(5)).await;
    };
    let summary = pipeline.run(watch).await.unwrap();
    assert_eq!(summary.ending, Ending::CaughtUp);
    assert_eq!((summary.tables[0].1.received, summary.tables[0].1.merged), (3, 3));
    assert_eq!(*fake.asked.lock().unwrap(), [3]);
    let said = heard.0.lock().unwrap();
    let moved: Vec<_> = said.iter().filter(|said| matches!(said, Said::Hold(_) | Said::Resume(_))).collect();
    assert_eq!(moved, [&Said::Hold(0), &Said::Resume(vec![(0, 1)])]);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_a_dead_letter_of_its_raw_bytes_or_halts_its_table() {
    let fake = Arc::new(Fake::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dead.ndjson");
    let ids = [SAME, (1, Some(UNFIT)), SAME];
    let file = Box::new(LetterFile::open(&path).unwrap());
    let run = run_framed(&ids, &fake, Store::default(), OnError::DeadLetter, file, None).await;
    let counts = run.counts();
    assert_eq!((counts.merged, counts.dead_lettered, run.heard.acknowledged().last()), (2, 1, Some(&(0, 3))));
    let letter: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(letter["reason"], "the value has schema 13 of the registry: unfit");
    // UTF-8 as it happens; it comes back byte for byte
    assert_eq!(letter["value"].as_str().unwrap().as_bytes()[..5], [0, 0, 0, 0, 13]);
    assert_eq!(letter["key"].as_str().unwrap().as_bytes(), frame(1, r#"{"id":1}"#));

    let run = run_framed(&ids, &fake, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    assert!(run.fault().unwrap().contains("offset 1: the value has schema 13"), "{:?}", run.fault());
    assert_eq!(run.heard.acknowledged().last(), Some(&(0, 1)));
}

#[tokio::test(start_paused = true)]
async fn without_a_registry_a_framed_record_is_refused_with_the_setting_that_is_missing() {
    let script = vec![assigned(&[0], 1), framed(TOPIC, 0, &[SAME])];
    let run = run(script, Store::default(), OnError::Halt, Box::new(LogOnly), None).await;
    let fault = run.fault().unwrap();
    assert!(fault.contains("the value begins with the mark of a schema registry"), "{fault}");
    assert!(fault.contains("add [schema_registry] with its url"), "{fault}");
}

#[test]
fn json_is_passed_on_as_it_is_and_each_part_is_read_for_itself() {
    let fake = Arc::new(Fake::default());
    let mut format = Format::new(Some(Arc::clone(&fake) as Arc<dyn Schemas>));
    let record = |key, value| RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
    let plain = record(Some(b"{}"), Some(b"{\"op\":\"c\"}"));
    assert_eq!(format.read(plain), Ok(Read::Json(plain, None)));
    let (key, value) = (frame(1, "k"), frame(2, "v"));
    assert_eq!(format.read(record(Some(&key), Some(&value))), Ok(Read::Unknown(1)));
    fake.known.lock().unwrap().push(1);
    assert_eq!(format.read(record(Some(&key), Some(&value))), Ok(Read::Unknown(2)));
    assert_eq!(format.read(record(Some(&key), Some(b"{}"))), Ok(Read::Json(record(Some(b"k"), Some(b"{}")), None)));
    assert_eq!(format.read(record(Some(&key), None)), Ok(Read::Json(record(Some(b"k"), None), None)));
    fake.known.lock().unwrap().push(2);
    let both = Ok(Read::Json(record(Some(b"k"), Some(b"v")), Some("{}".into())));
    assert_eq!(format.read(record(Some(&key), Some(&value))), both);
    assert_eq!(format.read(record(Some(&key), Some(&value))), both);
}
