//! What a replica has to do, whatever it is made of: the simulated lake and the real one pass the same cases, so that
//! what the simulator shows of the one may be believed of the other.
#![expect(clippy::panic, reason = "a case that does not hold ends its test")]

use std::{collections::BTreeMap, future::Future, sync::Arc};

use change::{BatchBuilder, Decoder, Horizon, RecordRef};
use pipeline::{Applied, Batch, Checkpoint, Fault, Position, Remedy, Replica, RowCounts, TopicPartition};

use crate::{
    envelope::{Place, record_key, upsert, without_row},
    lake::{Mishap, SimTable},
    member::schema,
    postgres::Row,
};

/// A lake with one empty table, whose calls go wrong on demand.
pub trait Stage {
    /// A writer's view of the table.
    type Replica: Replica;

    /// Another writer on the table.
    fn writer(&self) -> impl Future<Output = Self::Replica>;

    /// The newest version.
    fn table(&self) -> impl Future<Output = SimTable>;

    /// What goes wrong with the next commit.
    fn next(&self, mishap: Mishap);
}

/// Runs every case, each on a stage of its own.
///
/// # Panics
/// Where a case does not hold.
pub async fn every_case<S: Stage>(mut stage: impl FnMut() -> S) {
    newest_wins_whatever_the_order_of_arrival(stage()).await;
    a_batch_once_more_changes_nothing(stage()).await;
    a_deleted_row_keeps_its_values_and_stays_deleted(stage()).await;
    a_truncate_empties_and_raises_the_floor(stage()).await;
    a_value_that_nobody_has_is_handed_back(stage()).await;
    an_unchanged_value_is_the_stored_one(stage()).await;
    the_slower_of_two_writers_redoes(stage()).await;
    a_failed_commit_leaves_nothing(stage()).await;
    a_lost_answer_leaves_the_commit(stage()).await;
    positions_never_move_back(stage()).await;
}

/// An event for a batch.
#[derive(Clone, Copy)]
enum Event {
    /// Key, status and note, 0 for one that is left out, and the order.
    Put(i64, u64, u64, (u64, u64)),
    Delete(i64, (u64, u64)),
    Truncate((u64, u64)),
}
use Event::{Delete, Put, Truncate};

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("t", number)
}

/// The events as a batch of partition 0 that ends at `offset`.
fn batch(events: &[Event], offset: i64) -> Batch {
    let schema = schema();
    let mut decoder = Decoder::new(Arc::clone(&schema));
    let mut builder = BatchBuilder::new(schema);
    for (at, event) in (0..).zip(events) {
        let place = |(committed, lsn)| Place::Streamed { committed: Some(committed), lsn };
        let (key, value) = match *event {
            Put(key, status, note, order) => {
                let row = Row { status, note: Some(note) };
                (Some(key), upsert('u', key, &row, note > 0, place(order), 0))
            }
            Delete(key, order) => (Some(key), without_row('d', place(order), 0)),
            Truncate(order) => (None, without_row('t', place(order), 0)),
        };
        let key = key.map(record_key);
        let (key, value) = (key.as_ref().map(String::as_bytes), Some(value.as_bytes()));
        let outcome = decoder.decode(
            RecordRef { partition: 0, offset: at, key, value, timestamp: None, old_key: None },
            &mut Horizon::default(),
            &mut builder,
        );
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    #[expect(clippy::expect_used, reason = "the rows were decoded")]
    let changes = builder.finish().expect("a batch");
    let position = Position { offset, ..Position::default() };
    Batch::new(changes, [(partition(0), position)].into())
}

/// Applies a batch, again where another writer was faster.
async fn apply(replica: &mut impl Replica, batch: &Batch) -> Result<Applied, Fault> {
    loop {
        match replica.apply(batch).await {
            Err(fault) if fault.remedy == Remedy::Redo => {}
            applied => return applied,
        }
    }
}

async fn committed(replica: &mut impl Replica, batch: &Batch) -> RowCounts {
    match apply(replica, batch).await {
        Ok(Applied::Committed { rows, .. }) => rows,
        other => panic!("{other:?}"),
    }
}

async fn nothing_to_do(replica: &mut impl Replica, batch: &Batch) -> RowCounts {
    match apply(replica, batch).await {
        Ok(Applied::NothingToDo(rows)) => rows,
        other => panic!("{other:?}"),
    }
}

/// The live rows: key, status, note.
async fn live(stage: &impl Stage) -> Vec<(i64, String, String)> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    stage.table().await.rows.live().map(|(key, values)| (*key, text(&values[0]), text(&values[1]))).collect()
}

fn row(key: i64, status: u64, note: u64) -> (i64, String, String) {
    (key, format!("s{status}"), format!("n{note}"))
}

async fn newest_wins_whatever_the_order_of_arrival(stage: impl Stage) {
    let mut writer = stage.writer().await;
    let events = [Put(1, 3, 3, (8, 30)), Put(1, 1, 1, (8, 10)), Put(2, 2, 2, (8, 20)), Put(1, 2, 2, (16, 4))];
    let counts = committed(&mut writer, &batch(&events, 4)).await;
    assert_eq!((counts.inserted, counts.superseded, counts.guarded), (2, 2, 0));
    let late = [Put(1, 9, 9, (16, 4)), Put(1, 8, 8, (8, 99)), Put(2, 4, 4, (8, 24))];
    let counts = committed(&mut writer, &batch(&late, 7)).await;
    assert_eq!((counts.updated, counts.superseded, counts.guarded), (1, 1, 1));
    assert_eq!(live(&stage).await, [row(1, 2, 2), row(2, 4, 4)]);
}

async fn a_batch_once_more_changes_nothing(stage: impl Stage) {
    let mut writer = stage.writer().await;
    let events = [Put(1, 1, 1, (8, 16)), Delete(2, (8, 24)), Truncate((8, 8))];
    committed(&mut writer, &batch(&events, 3)).await;
    let before = stage.table().await;
    let counts = nothing_to_do(&mut writer, &batch(&events, 3)).await;
    assert_eq!((counts.guarded, counts.changed()), (3, 0));
    let after = stage.table().await;
    assert_eq!((before.version, before.rows), (after.version, after.rows));
}

async fn a_deleted_row_keeps_its_values_and_stays_deleted(stage: impl Stage) {
    let mut writer = stage.writer().await;
    committed(&mut writer, &batch(&[Put(1, 1, 1, (8, 8))], 1)).await;
    let counts = committed(&mut writer, &batch(&[Delete(1, (8, 24)), Delete(2, (8, 24))], 3)).await;
    assert_eq!(counts.deleted, 2);
    let older = [Put(1, 5, 5, (8, 16)), Put(2, 5, 5, (8, 16))];
    assert_eq!(nothing_to_do(&mut writer, &batch(&older, 5)).await.guarded, 2);
    let table = stage.table().await;
    let stored: Vec<_> = table.rows.rows.values().map(|row| (row.is_deleted, row.values[0].clone())).collect();
    assert_eq!(stored, [(true, Some("s1".to_owned())), (true, None)]);
    committed(&mut writer, &batch(&[Put(1, 7, 7, (8, 32))], 6)).await;
    assert_eq!(live(&stage).await, [row(1, 7, 7)]);
}

async fn a_truncate_empties_and_raises_the_floor(stage: impl Stage) {
    let mut writer = stage.writer().await;
    committed(&mut writer, &batch(&[Put(1, 1, 1, (8, 8)), Put(2, 2, 2, (32, 40))], 2)).await;
    let counts = committed(&mut writer, &batch(&[Truncate((16, 24))], 3)).await;
    assert_eq!((counts.emptied, counts.truncated), (1, true));
    let older = [Put(3, 3, 3, (16, 24)), Put(1, 4, 4, (16, 16))];
    assert_eq!(nothing_to_do(&mut writer, &batch(&older, 5)).await.guarded, 2);
    committed(&mut writer, &batch(&[Put(3, 3, 3, (16, 32))], 6)).await;
    assert_eq!(live(&stage).await, [row(2, 2, 2), row(3, 3, 3)]);
}

async fn a_value_that_nobody_has_is_handed_back(stage: impl Stage) {
    let mut writer = stage.writer().await;
    let before = stage.table().await.version;
    let events = [Put(1, 1, 1, (8, 8)), Put(2, 2, 0, (8, 16))];
    match apply(&mut writer, &batch(&events, 2)).await {
        Ok(Applied::Unresolved(rows)) => assert_eq!(rows, [1]),
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.table().await.version, before);
}

async fn an_unchanged_value_is_the_stored_one(stage: impl Stage) {
    let mut writer = stage.writer().await;
    let events = [Put(1, 1, 1, (8, 8)), Put(1, 2, 0, (8, 16))];
    committed(&mut writer, &batch(&events, 2)).await;
    assert_eq!(live(&stage).await, [row(1, 2, 1)]);
    committed(&mut writer, &batch(&[Put(1, 3, 0, (8, 24)), Put(1, 4, 4, (8, 20))], 4)).await;
    assert_eq!(live(&stage).await, [row(1, 3, 1)]);
}

async fn the_slower_of_two_writers_redoes(stage: impl Stage) {
    let (mut first, mut second) = (stage.writer().await, stage.writer().await);
    committed(&mut first, &batch(&[Put(1, 1, 1, (8, 8))], 1)).await;
    // the second one has not seen it, and writes the same key
    let slower = batch(&[Put(1, 2, 2, (8, 16)), Put(2, 2, 2, (8, 16))], 2);
    let applied = apply(&mut second, &slower).await;
    assert!(matches!(applied, Ok(Applied::Committed { .. })), "{applied:?}");
    assert_eq!(live(&stage).await, [row(1, 2, 2), row(2, 2, 2)]);
}

async fn a_failed_commit_leaves_nothing(stage: impl Stage) {
    let mut writer = stage.writer().await;
    let before = stage.table().await;
    let events = batch(&[Put(1, 1, 1, (8, 8))], 1);
    stage.next(Mishap::Fails);
    let failed = writer.apply(&events).await;
    assert_eq!(failed.map_err(|fault| fault.remedy), Err(Remedy::Retry));
    let after = stage.table().await;
    assert_eq!((before.version, before.rows), (after.version, after.rows));
    assert_eq!(committed(&mut writer, &events).await.inserted, 1);
}

async fn a_lost_answer_leaves_the_commit(stage: impl Stage) {
    let mut writer = stage.writer().await;
    let events = batch(&[Put(1, 1, 1, (8, 8))], 1);
    stage.next(Mishap::AnswerLost);
    let mut applied = writer.apply(&events).await;
    while applied.is_err() {
        applied = writer.apply(&events).await;
    }
    assert_eq!(live(&stage).await, [row(1, 1, 1)]);
    let checkpoint = checkpoint(&mut writer, &[0]).await;
    assert_eq!(checkpoint.get(&partition(0)).map(|position| position.offset), Some(1));
}

async fn positions_never_move_back(stage: impl Stage) {
    let (mut first, mut second) = (stage.writer().await, stage.writer().await);
    assert_eq!(checkpoint(&mut second, &[0]).await, Checkpoint::new());
    committed(&mut first, &batch(&[Put(1, 1, 1, (8, 8))], 100)).await;
    let behind = batch(&[Put(2, 2, 2, (8, 16))], 50);
    while second.apply(&behind).await.is_err() {}
    for writer in [&mut first, &mut second] {
        let found = checkpoint(writer, &[0, 1]).await;
        let offsets: BTreeMap<_, _> = found.iter().map(|(tp, position)| (tp.partition, position.offset)).collect();
        assert_eq!(offsets, [(0, 100)].into());
    }
    assert_eq!(live(&stage).await.len(), 2);
}

async fn checkpoint(replica: &mut impl Replica, partitions: &[i32]) -> Checkpoint {
    let partitions: Vec<_> = partitions.iter().map(|&number| partition(number)).collect();
    #[expect(clippy::expect_used, reason = "nothing goes wrong with it")]
    replica.checkpoint(&partitions).await.expect("a checkpoint")
}
