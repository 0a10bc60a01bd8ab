//! Accidents with topics, offsets and LSNs: each halts the table by name, after what came before it is durable.

use change::{Horizon, Lsn};

use super::*;
use crate::{Accept, Mark, Witness};

/// A record of partition 0: its offset, broker timestamp and envelope.
fn record(offset: i64, timestamp: i64, op: &str, source: &str) -> Polled {
    let key = format!(r#"{{"id":{offset}}}"#);
    let value = format!(r#"{{"op":"{op}","after":{{"id":{offset},"note":"n"}},"source":{{{source}}}}}"#);
    let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
    let mut records = Records::default();
    records.push(TOPIC, RecordRef { partition: 0, offset, key, value, timestamp: Some(timestamp), old_key: None });
    Polled::Records(records)
}

fn streamed(offset: i64, timestamp: i64, lsn: u64) -> Polled {
    let source = format!(r#""lsn":{lsn},"sequence":"[\"{lsn}\",\"{lsn}\"]","ts_ms":{timestamp}"#);
    record(offset, timestamp, "u", &source)
}

/// A snapshot row, written to the broker a little after the snapshot was taken.
fn snapshot(offset: i64, taken_at: i64, lsn: u64) -> Polled {
    let source = format!(r#""lsn":{lsn},"sequence":"[null,\"{lsn}\"]","ts_ms":{taken_at},"snapshot":"true""#);
    record(offset, taken_at + 5, "r", &source)
}

async fn run_as(script: Vec<Polled>, table: Table<Store>) -> Run {
    run_table(script, table, Before::Unknown, Box::new(LogOnly), None).await
}

#[tokio::test(start_paused = true)]
async fn lsns_that_begin_again_halt_the_table_whatever_it_does_with_bad_records() {
    let script = || vec![assigned(&[0], 9), streamed(0, 1000, 500), streamed(1, 1001, 508), snapshot(2, 2000, 96)];
    for on_error in [OnError::Halt, OnError::DeadLetter] {
        let run = run_as(script(), table(on_error, Store::default())).await;
        assert_eq!(run.heard.acknowledged(), [(0, 2)]);
        let fault = run.fault().unwrap();
        let parts = [
            "table `orders`, shop.public.orders/0 offset 2: a snapshot at LSN 0/60 lies below LSN 0/1FC",
            "`highwater run --accept-epoch orders@2000`",
        ];
        assert!(parts.iter().all(|part| fault.contains(part)), "{fault}");
        assert_eq!(run.counts().dead_lettered, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_before_a_restart_of_the_process_counts_too() {
    let streamed = Lsn::try_from(508_u64).unwrap();
    let horizon = Horizon { streamed, at: 1001, ..Horizon::default() };
    let checkpoint = [(tp(0), Position { offset: 2, horizon, ..Position::default() })].into();
    let store = Store { checkpoint, ..Store::default() };
    let run = run_as(vec![assigned(&[0], 9), snapshot(2, 2000, 96)], table(OnError::Halt, store)).await;
    assert!(run.fault().unwrap().contains("--accept-epoch orders@2000"));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_from_another_clock_than_the_broker_s_is_not_offered_for_an_epoch() {
    let source = r#""lsn":96,"sequence":"[null,\"96\"]","ts_ms":2000,"snapshot":"true""#;
    let script = vec![assigned(&[0], 9), streamed(0, 1000, 500), record(1, 1999, "r", source)];
    let fault = run_as(script, table(OnError::Halt, Store::default())).await.fault().unwrap();
    assert!(!fault.contains("--accept-epoch") && fault.contains("a new location under a new group"), "{fault}");
}

#[tokio::test(start_paused = true)]
async fn in_a_later_epoch_older_records_are_guarded_and_show_no_sign() {
    let store = Store::default();
    store.epochs.lock().unwrap().push_back(Epoch { table: 7, since: 2000 });
    let script = vec![
        assigned(&[0], 5),
        streamed(0, 1000, 500),
        records(0, 1, &[BAD]),
        snapshot(2, 2000, 96),
        streamed(3, 2010, 104),
        streamed(4, 1999, 900),
    ];
    let run = run_as(script, table(OnError::DeadLetter, store)).await;
    assert_eq!(run.fault(), None);
    let counts = run.counts();
    assert_eq!((counts.received, counts.merged, counts.guarded, counts.dead_lettered), (5, 2, 2, 1));
    let last = run.heard.1.lock().unwrap().last().copied().unwrap();
    assert_eq!(last.mark.unwrap().epoch, Epoch { table: 7, since: 2000 });
    assert_eq!(last.position.horizon.streamed, Lsn::try_from(104_u64).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_decoded_under_an_earlier_epoch_halts_its_table() {
    let store = Store::default();
    store.epochs.lock().unwrap().extend([Epoch::default(), Epoch { table: 0, since: 2000 }]);
    let script = vec![assigned(&[0], 9), streamed(0, 1000, 500), assigned(&[1], 9)];
    let run = run_as(script, table(OnError::Halt, store)).await;
    assert!(run.fault().unwrap().contains("another member accepted a new epoch"), "{:?}", run.fault());
}

#[tokio::test(start_paused = true)]
async fn another_topic_is_known_by_the_record_before_the_position() {
    let witnessed = Position { offset: 5, witness: Witness::from_long(11), ..Position::default() };
    let store = || Store { checkpoint: [(tp(0), witnessed)].into(), ..Store::default() };
    let run = async |found, accept, records: Vec<Polled>| {
        let store = store();
        let rewound = Arc::clone(&store.rewound);
        let script = std::iter::once(assigned(&[0], 6)).chain(records).collect();
        let table = table(OnError::Halt, store).accepting(accept);
        let run = run_table(script, table, found, Box::new(LogOnly), None).await;
        (run, rewound)
    };
    let (same, _) = run(Before::Record(Witness::from_long(11)), Accept::default(), vec![streamed(5, 1000, 8)]).await;
    assert_eq!((same.fault(), same.counts().received), (None, 1));
    let (gone, _) = run(Before::Unknown, Accept::default(), vec![streamed(5, 1000, 8)]).await;
    assert_eq!(gone.fault(), None);
    let (other, rewound) = run(Before::Record(Witness::from_long(12)), Accept::default(), Vec::new()).await;
    let fault = other.fault().unwrap();
    assert!(fault.contains("the record before offset 5 is not the one") && fault.contains("--accept-topic orders"));
    assert!(rewound.lock().unwrap().is_empty());

    let accept = Accept { topic: true, ..Accept::default() };
    let all = (0..6).map(|offset| streamed(offset, 1000, 8 * offset.cast_unsigned() + 8)).collect();
    let (accepted, rewound) = run(Before::Record(Witness::from_long(12)), accept, all).await;
    assert_eq!((accepted.fault(), accepted.counts().received), (None, 6));
    assert_eq!(*rewound.lock().unwrap(), [(tp(0), Position::default())].into());
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_position_says_what_the_table_s_commits_hold() {
    for (guards_everything, checkpoints) in [(false, [3, 4]), (true, [0, 0])] {
        let store = Store { guards_everything, ..Store::default() };
        let script = vec![assigned(&[0], 4), records(0, 0, &["a", "b", "c", "d"])];
        let run = run_as(script, table(OnError::Halt, store)).await;
        let acknowledged = run.heard.1.lock().unwrap().clone();
        let marks: Vec<_> = checkpoints.iter().map(|&c| Some(Mark { checkpoint: c, ..Mark::default() })).collect();
        assert_eq!(acknowledged.iter().map(|a| a.mark).collect::<Vec<_>>(), marks);
        assert!(acknowledged.iter().all(|a| a.position.witness.is_known()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_retention_overtakes_halts_its_table_after_what_was_read() {
    let overtaken = AssignedPartition { partition: tp(0), committed: None, low: 7, high: 9 };
    let script = vec![assigned(&[0], 9), records(0, 0, &["a", "b"]), Polled::OutOfRange(vec![overtaken])];
    let run = run_as(script, table(OnError::Halt, Store::default())).await;
    assert_eq!(run.heard.acknowledged(), [(0, 2)]);
    let fault = run.fault().unwrap();
    assert!(fault.contains("offsets 2 to 6 are gone") && fault.contains("--accept-gap orders"), "{fault}");

    // a topic that was created anew has grown past the offset by the time that it is looked at
    let grown = AssignedPartition { partition: tp(0), committed: None, low: 0, high: 9 };
    let script = vec![assigned(&[0], 9), records(0, 0, &["a", "b"]), Polled::OutOfRange(vec![grown])];
    let other = Before::Record(Witness::from_long(12));
    let run = run_table(script, table(OnError::Halt, Store::default()), other, Box::new(LogOnly), None).await;
    assert_eq!(run.heard.acknowledged(), [(0, 2)]);
    assert!(run.fault().unwrap().contains("--accept-topic orders"), "{:?}", run.fault());

    let gone = Polled::Broken(TOPIC.into(), Fault::halt("topic is gone"));
    let script = vec![assigned(&[0], 9), records(0, 0, &["a", "b"]), gone];
    let run = run_as(script, table(OnError::Halt, Store::default())).await;
    assert_eq!((run.heard.acknowledged(), run.fault().as_deref()), (vec![(0, 2)], Some("topic is gone")));
}
