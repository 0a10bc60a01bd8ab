//! Positions that are set back, and epochs.

use pipeline::Epoch;

use super::*;

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn at(offset: i64, witness: i64) -> Position {
    Position { offset, witness: Witness::from_long(witness), ..Position::default() }
}

fn in_epoch(epoch: i64, mut batch: Batch) -> Batch {
    batch.epoch = epoch;
    batch
}

async fn stored(replica: &mut DeltaReplica) -> Checkpoint {
    replica.checkpoint(&[tp(0), tp(1)]).await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// After an epoch has begun, the events of the new LSN space give the model's rows, whatever orders the old one had.
    #[test]
    fn a_history_in_a_new_epoch_equals_the_model(old in history(), new in history(), size in 1_usize..20) {
        block_on(async {
            let mut model = model::Replica::new(2);
            for event in &old {
                event.apply_to(&mut model);
            }
            model.begin_epoch();
            for event in &new {
                event.apply_to(&mut model);
            }

            let lake = Lake::default();
            let mut replica = open(&lake).await;
            for batch in batches(&orders(), &old, size) {
                apply(&mut replica, batch).await;
            }
            prop_assert!(replica.begin_epoch(2000).await.unwrap());
            for batch in batches(&orders(), &new, size) {
                apply(&mut replica, in_epoch(2000, batch)).await;
            }
            prop_assert_eq!(rows(&replica).await, model_rows(&model));
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn an_epoch_begins_once_without_positions_and_refuses_batches_of_the_earlier_one() {
    let lake = Lake::default();
    let (mut first, mut second) = (open(&lake).await, open(&lake).await);
    let number = first.epoch().table;
    assert!(number > 0 && second.epoch() == Epoch { table: number, since: 0 });
    let old = batches(&orders(), &[upsert(1, 9, 1), upsert(2, 9, 1)], 1);
    second.checkpoint(&[TopicPartition::new("t", 0)]).await.unwrap();
    first.apply(&old[0]).await.unwrap();
    assert_eq!(stored(&mut first).await.len(), 1);
    second.apply(&old[1]).await.unwrap_err();

    assert!(first.begin_epoch(2000).await.unwrap());
    let version = first.version();
    for since in [2000, 1999] {
        assert!(!first.begin_epoch(since).await.unwrap());
    }
    assert_eq!((first.version(), first.epoch()), (version, Epoch { table: number, since: 2000 }));
    assert_eq!(stored(&mut first).await, Checkpoint::new());

    // the second decoded its batch under the old epoch, and learns of the new one from the lost race
    let halted = second.apply(&old[1]).await.unwrap_err();
    assert_eq!(halted.remedy, Remedy::Halt);
    assert!(halted.message.contains("another member accepted a new epoch"), "{halted}");

    let new = batches(&orders(), &[upsert(1, 1, 2)], 1).remove(0);
    apply(&mut first, in_epoch(2000, new)).await;
    assert_eq!(stored(&mut open(&lake).await).await.keys().cloned().collect::<Vec<_>>(), [tp(0)]);
    let found = rows(&first).await;
    assert_eq!((found.len(), found[0][1].as_deref(), found[0][5].as_deref()), (1, Some("v2"), Some("false")));
}

#[tokio::test]
async fn an_empty_table_can_begin_an_epoch_and_one_created_anew_has_another_number() {
    let lake = Lake::default();
    let mut replica = open(&lake).await;
    assert!(replica.begin_epoch(2000).await.unwrap());
    assert_eq!(open(&lake).await.epoch(), replica.epoch());
    assert_ne!(open(&Lake::default()).await.epoch().table, replica.epoch().table);
}

#[tokio::test]
async fn positions_are_set_back_where_they_are_told_and_go_on_from_there() {
    let lake = Lake::default();
    let mut replica = open(&lake).await;
    let mut batches = batches(&orders(), &[upsert(1, 1, 1), upsert(2, 2, 1)], 1);
    batches[0].positions = [(tp(0), at(10, 7)), (tp(1), at(20, 8))].into();
    replica.apply(&batches[0]).await.unwrap();
    // another member's commit in between is no obstacle
    let mut other = open(&lake).await;
    other.rewind(&[(tp(0), at(3, 0))].into()).await.unwrap();
    replica.rewind(&[(tp(0), at(2, 0))].into()).await.unwrap();
    let back = Checkpoint::from([(tp(0), at(2, 0)), (tp(1), at(20, 8))]);
    assert_eq!(stored(&mut open(&lake).await).await, back);

    batches[1].positions = [(tp(0), at(4, 9))].into();
    replica.apply(&batches[1]).await.unwrap();
    let on = Checkpoint::from([(tp(0), at(4, 9)), (tp(1), at(20, 8))]);
    assert_eq!(stored(&mut open(&lake).await).await, on);
}
