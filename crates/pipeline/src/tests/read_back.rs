//! Values that events left out, read back from a source that answers as it is told to.

use change::{LeftOut, left_out::Found};

use super::*;
use crate::{ReadBack, read_back};

type Answer = Result<Vec<Option<Found>>, Fault>;

/// Gives one answer after the other, and remembers the keys that it was asked for.
#[derive(Debug, Default)]
struct Answers {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Vec<String>>>,
}

impl ReadBack for Answers {
    fn read<'a>(&'a self, schema: &'a TableSchema, left_out: &'a LeftOut) -> read_back::Answer<'a> {
        assert_eq!(left_out.columns, [1], "`note` of {schema:?}");
        self.asked.lock().unwrap().push(left_out.keys.iter().flatten().flatten().cloned().collect());
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(std::future::ready(answer.unwrap_or_else(|| Err(Fault::halt("asked too often")))))
    }
}

fn note(text: &str) -> Found {
    vec![format!("\"{text}\"")]
}

async fn run_with(answers: Vec<Answer>, on_error: OnError, notes: &[&str]) -> (Run, Vec<Vec<String>>, Vec<usize>) {
    let read_back = Arc::new(Answers { answers: Mutex::new(answers.into()), ..Answers::default() });
    let store = Store::default();
    let table = table(on_error, store.clone()).reading_back(Some(read_back.clone()));
    let script = vec![assigned(&[0], notes.len().try_into().unwrap()), records(0, 0, notes)];
    let run = run_table(script, table, Before::Unknown, Box::new(LogOnly), None).await;
    let (asked, sizes) = (read_back.asked.lock().unwrap().clone(), store.sizes.lock().unwrap().clone());
    (run, asked, sizes)
}

#[tokio::test(start_paused = true)]
async fn what_events_left_out_is_read_back_by_key_and_applied_with_their_batch() {
    let answer = Ok(vec![Some(note("x")), Some(note("y"))]);
    let (run, asked, sizes) = run_with(vec![answer], OnError::Halt, &["a", PARTIAL, PARTIAL, "d"]).await;
    assert_eq!((run.fault(), asked, sizes), (None, vec![vec!["1".to_owned(), "2".to_owned()]], vec![3, 1]));
    assert_eq!((run.counts().merged, run.counts().received), (4, 4));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_away_is_asked_again_until_it_answers() {
    let away = || Err(Fault::retry("source away"));
    let (run, asked, _) = run_with(vec![away(), away(), Ok(vec![Some(note("x"))])], OnError::Halt, &[PARTIAL]).await;
    assert_eq!((run.fault(), asked.len(), run.counts().merged), (None, 3, 1));
    assert_eq!(run.heard.acknowledged(), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_row_the_source_has_no_more_is_passed_over_and_counted() {
    let (run, _, sizes) =
        run_with(vec![Ok(vec![None, Some(note("y"))])], OnError::Halt, &["a", PARTIAL, PARTIAL]).await;
    assert_eq!((run.fault(), sizes), (None, vec![2]));
    assert_eq!((run.counts().merged, run.counts().superseded, run.counts().received), (2, 1, 3));
    assert_eq!(run.heard.acknowledged(), [(0, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_refuses_or_does_not_come_back_halts_the_table_before_the_batch() {
    let (run, asked, sizes) = run_with(vec![Err(Fault::halt("forbidden"))], OnError::DeadLetter, &[PARTIAL]).await;
    assert_eq!((run.fault().as_deref(), asked.len(), sizes.len()), (Some("forbidden"), 1, 0));
    assert_eq!((run.heard.acknowledged().len(), run.counts().dead_lettered), (0, 0));

    let away = (0..100).map(|_| Err(Fault::retry("source away"))).collect();
    let (run, ..) = run_with(away, OnError::DeadLetter, &[PARTIAL]).await;
    assert!(run.fault().unwrap().starts_with("gave up after"), "{:?}", run.fault());
    assert!(run.heard.acknowledged().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_value_that_does_not_go_into_its_column_halts_with_the_columns_name() {
    let answer = Ok(vec![Some(vec!["4711".to_owned()])]);
    let (run, ..) = run_with(vec![answer], OnError::Halt, &[PARTIAL]).await;
    let fault = run.fault().unwrap();
    assert!(fault.contains("column `note`: expected a string") && !fault.contains("4711"), "{fault}");
}
