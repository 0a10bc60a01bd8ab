//! A table whose columns grow in the middle of a block.

use super::*;

/// A record that says of its own columns that `note` is there, and `more` where it is.
fn described(offset: i64, more: Option<&str>) -> String {
    let (field, value) =
        more.map_or_else(Default::default, |more| (format!(r#",{{"type":"{more}","field":"more"}}"#), r#","more":7"#));
    let fields = format!(r#"{{"type":"int64","field":"id"}},{{"type":"string","field":"note"}}{field}"#);
    let row = format!(r#""id":{offset},"note":"n"{value}"#);
    format!(
        r#"{{"schema":{{"type":"struct","fields":[{{"type":"struct","field":"after","fields":[{fields}]}}]}},
        "payload":{{"op":"c","after":{{{row}}},"source":{{"lsn":{}}}}}}}"#,
        offset + 1
    )
}

async fn run_described(mores: &[Option<&str>], grows: bool) -> (Run, Vec<usize>) {
    let mut records = Records::default();
    for (offset, more) in (0..).zip(mores) {
        let (key, value) = (format!(r#"{{"id":{offset}}}"#), described(offset, *more));
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        records.push(TOPIC, RecordRef { partition: 0, offset, key, value, timestamp: None, old_key: None });
    }
    let end = i64::try_from(mores.len()).unwrap();
    let (heard, store) = (Heard::default(), Store::default());
    let script = [assigned(&[0], end), Polled::Records(records)].into();
    let source = Scripted { script, heard: heard.clone(), before: Before::Nowhere };
    let schema = TableSchema::clone(&schema());
    let schema = Arc::new(if grows { schema.growing() } else { schema });
    let limits = BatchLimits::default();
    let table = Table::new("orders", TOPIC, &schema, limits, OnError::Halt, store.clone());
    let settings = Settings { until_caught_up: true, ..Settings::default() };
    let pipeline = Pipeline::new(source, vec![table], Box::new(LogOnly), settings, ());
    let summary = pipeline.run(std::future::pending()).await.unwrap();
    let sizes = store.sizes.lock().unwrap().clone();
    (Run { summary, heard }, sizes)
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_where_the_columns_grow_and_every_record_is_in_one() {
    let int = Some("int32");
    let (run, sizes) = run_described(&[None, None, None, int, int, None, Some("int64")], true).await;
    // the sixth record is of the old columns: it has null in the new one, and needs no batch of its own
    assert_eq!((sizes, run.fault()), (vec![3, 3, 1], None));
    let counts = run.counts();
    assert_eq!((counts.received, counts.merged), (7, 7));
    assert_eq!(run.heard.acknowledged().last(), Some(&(0, 7)));
    let (run, sizes) = run_described(&[int, int], true).await;
    assert_eq!((sizes, run.fault()), (vec![2], None), "nothing had to be sent off before");
}

#[tokio::test(start_paused = true)]
async fn a_table_that_does_not_grow_halts_before_the_record_with_a_new_column() {
    let (run, sizes) = run_described(&[None, None, Some("int32"), None], false).await;
    assert_eq!(sizes, [2]);
    assert_eq!(run.heard.acknowledged().last(), Some(&(0, 2)));
    let fault = run.fault().unwrap();
    assert!(fault.contains("offset 2: column `more`: not configured for this table"), "{fault}");
}
