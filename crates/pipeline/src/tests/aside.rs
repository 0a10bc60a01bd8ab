//! A table that stands still, and another one that goes on.

use super::*;

const OTHER: &str = "shop.public.other";

#[tokio::test(start_paused = true)]
async fn a_table_that_stands_still_is_set_aside_and_read_on_without_a_gap() {
    let (slow, quick) = (Store { delay: Duration::from_secs(10), ..Store::default() }, Store::default());
    let (heard, stored) = (Heard::default(), quick.sizes.clone());
    let other = |offset| {
        let Polled::Records(records) = records(0, offset, &["x", "y", "z"]) else { unreachable!() };
        let mut moved = Records::default();
        (0..3).filter_map(|index| records.get(index)).for_each(|(_, record)| moved.push(OTHER, record));
        Polled::Records(moved)
    };
    let mut script = vec![assigned(&[0], 10)];
    let Some(Polled::Assigned(first)) = script.first_mut() else { unreachable!() };
    first.push(AssignedPartition { partition: TopicPartition::new(OTHER, 0), committed: None, low: 0, high: 6 });
    // one batch on its way, the next one full, and three records too many
    script.push(records(0, 0, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]));
    script.push(other(0));
    script.push(other(3));
    // the batch lands meanwhile; what comes then was read before
    let a_while = || (0..12).map(|_| Polled::Idle);
    script.extend(a_while());
    script.push(records(0, 9, &["j"]));
    script.push(Polled::Ended(vec![tp(0)]));
    script.push(Polled::Resumed(vec![tp(0)]));
    // the next batch is on its way by now, so there is one record too many again
    script.push(records(0, 6, &["g", "h", "i", "j"]));
    script.extend(a_while());
    script.push(Polled::Resumed(vec![tp(0)]));
    script.push(records(0, 9, &["j"]));

    let limits = BatchLimits { records: 3, ..BatchLimits::default() };
    let tables = vec![
        Table::new("orders", TOPIC, &schema(), limits, OnError::Halt, slow.clone()),
        Table::new("other", OTHER, &schema(), limits, OnError::Halt, quick),
    ];
    let settings = Settings { until_caught_up: true, ..Settings::default() };
    let source = Scripted { script: script.into(), heard: heard.clone(), before: Before::Unknown };
    let began = Instant::now();
    let pipeline = Pipeline::new(source, tables, Box::new(LogOnly), settings, ());
    let watch = async {
        tokio::time::sleep_until(began + Duration::from_secs(9)).await;
        assert_eq!(*stored.lock().unwrap(), [3, 3], "the other table waits for a batch of ten seconds");
        tokio::time::sleep(Duration::from_mins(5)).await;
    };
    let summary = pipeline.run(watch).await.unwrap();
    assert_eq!(summary.ending, Ending::CaughtUp);
    assert_eq!(*slow.sizes.lock().unwrap(), [3, 3, 3, 1]);
    assert_eq!(summary.tables[0].1.received, 10);
    let said = heard.0.lock().unwrap();
    let resumed: Vec<_> = said.iter().filter(|said| matches!(said, Said::Hold(_) | Said::Resume(_))).collect();
    let resume = |offset| Said::Resume(vec![(0, offset)]);
    assert_eq!(resumed, [&Said::Hold(0), &resume(6), &Said::Hold(0), &resume(9)]);
}
