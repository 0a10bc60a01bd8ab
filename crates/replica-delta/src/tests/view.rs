//! A version of a table, as it is compared with the source.

use change::{Comparable, Lsn, Order, SourceRow, comparable::row_text};

use super::*;
use crate::{
    Compared, ReplicaView,
    view::{Cut, Key, RowState},
};

const MEMORY: usize = 64 << 20;

fn lsn(address: u64) -> Lsn {
    Lsn::try_from(address).unwrap()
}

fn order(address: u64) -> Order {
    Order { anchor: lsn(address), lsn: lsn(address) }
}

/// A table of rows that are given as JSON tokens, with their LSNs, and whether they are deleted.
async fn table(schema: &Arc<TableSchema>, rows: &[(&[&str], u64, bool)]) -> DeltaReplica {
    let mut replica =
        DeltaReplica::open(&Lake::default(), "t", "memory:///t", "group", Arc::clone(schema)).await.unwrap();
    let rows: Vec<_> = rows
        .iter()
        .map(|(tokens, at, is_deleted)| {
            let values = tokens.iter().enumerate().filter(|(_, token)| **token != "null");
            let values = values.map(|(position, token)| (position, (*token).to_owned())).collect();
            SourceRow { order: order(*at), is_deleted: *is_deleted, values }
        })
        .collect();
    let batch = Batch::new(change::ChangeBatch::of_source(schema, &rows).unwrap(), Checkpoint::new());
    replica.apply(&batch).await.unwrap();
    replica
}

async fn view(replica: &DeltaReplica, by_text: bool) -> ReplicaView {
    let columns = replica.source_columns();
    let comparable = |position: usize| Comparable::new(columns[position].1.data_type.clone());
    let compared = Compared {
        columns: columns.iter().map(|(position, _)| (*position, comparable(*position))).collect(),
        key: replica.stored().key().iter().map(|&position| comparable(position)).collect(),
        by_text,
    };
    ReplicaView::new(replica, compared, MEMORY).await.unwrap()
}

fn key(parts: &[&str]) -> Key {
    parts.iter().map(|part| (*part != "null").then(|| (*part).to_owned())).collect()
}

/// What PostgreSQL says of md5 of a row's text.
fn hash(values: &[&str]) -> String {
    use md5::Digest as _;
    let values = values.iter().map(|value| (*value != "null").then_some((*value).into()));
    change::comparable::hex(&md5::Md5::digest(row_text(values)))
}

const ALL: Cut = Cut { lsn: Lsn::MAX, rows: 2, ranges: None };

#[tokio::test]
async fn ranges_follow_on_each_other_in_the_keys_order_and_leave_out_what_moved() {
    let schema = schema(&[("id", "long"), ("note", "string")], &["id"]);
    let rows: [(&[&str], u64, bool); 6] = [
        (&["10", "\"ten\""], 8, false),
        (&["9", "null"], 8, false),
        (&["-1", "\"it's\""], 8, false),
        (&["11", "\"new\""], 24, false),
        (&["3", "null"], 24, true),
        (&["2", "null"], 16, true),
    ];
    let replica = table(&schema, &rows).await;
    let view = view(&replica, false).await;
    let ranges = view.ranges(None, None, Cut { lsn: lsn(16), ..ALL }, |_| ()).await.unwrap();
    let found: Vec<_> =
        ranges.iter().map(|range| (range.end.clone(), range.digest.rows, range.moved.clone())).collect();
    assert_eq!(
        found,
        [(Some(key(&["9"])), 2, vec![key(&["3"])]), (None, 1, vec![key(&["11"])])],
        "the deleted row that did not move is in none of them"
    );
    let hashes = [hash(&["-1", "it's"]), hash(&["9", "null"])];
    let bits = |hash: &str| i128::from(u64::from_str_radix(&hash[..16], 16).unwrap().cast_signed());
    assert_eq!(ranges[0].digest.sum, hashes.iter().map(|hash| bits(hash)).sum::<i128>());

    let part = view.ranges(Some(&key(&["-1"])), None, ALL, |_| ()).await.unwrap();
    assert_eq!(part.iter().map(|range| range.digest.rows).sum::<u64>(), 3);
    let part = view.ranges(None, Some(&key(&["9"])), ALL, |_| ()).await.unwrap();
    assert_eq!((part[0].digest.clone(), part.len()), (ranges[0].digest.clone(), 2));
    let first = view.ranges(None, None, Cut { ranges: Some(1), ..ALL }, |_| ()).await.unwrap();
    assert_eq!((first[0].digest.clone(), first.len()), (ranges[0].digest.clone(), 1));
    assert_eq!(view.newest_lsn().await.unwrap(), lsn(24));

    let rows = view.rows(&[(None, Some(&key(&["-1"]))), (Some(&key(&["10"])), None)]).await.unwrap();
    let mut keys: Vec<_> = rows.into_iter().map(|(key, _)| key).collect();
    keys.sort();
    assert_eq!(keys, [key(&["-1"]), key(&["11"])]);
    let named = view.named(&[key(&["10"]), key(&["2"]), key(&["4"])]).await.unwrap();
    let live = RowState { hash: Some(hash(&["10", "ten"])), order: order(8) };
    assert_eq!(named, [Some(live), Some(RowState { hash: None, order: order(16) }), None]);
    let texts = view.texts(&[key(&["2"]), key(&["10"])]).await.unwrap();
    assert_eq!(texts, [None, Some(key(&["10", "ten"]))]);
}

#[tokio::test]
async fn a_key_of_several_columns_and_one_with_nulls_is_ordered_and_found() {
    let schema = schema(&[("a", "string"), ("b", "int")], &["a", "b"]);
    let live = |values: [&'static str; 2]| values;
    let all =
        [live(["\"b\"", "1"]), live(["\"a\"", "2"]), live(["\"a\"", "10"]), live(["null", "7"]), live(["\"B\"", "1"])];
    let rows: Vec<(&[&str], u64, bool)> = all.iter().map(|values| (values.as_slice(), 8, false)).collect();
    let replica = table(&schema, &rows[..3]).await;
    let native = view(&replica, false).await;
    let ends = |ranges: Vec<crate::view::Range>| ranges.into_iter().map(|range| range.end).collect::<Vec<_>>();
    let cut = Cut { rows: 1, ..ALL };
    let ranges = native.ranges(None, None, cut, |_| ()).await.unwrap();
    assert_eq!(ends(ranges), [Some(key(&["a", "2"])), Some(key(&["a", "10"])), Some(key(&["b", "1"])), None]);
    let after = native.ranges(Some(&key(&["a", "2"])), None, ALL, |_| ()).await.unwrap();
    assert_eq!(after.iter().map(|range| range.digest.rows).sum::<u64>(), 2);

    let replica = table(&schema, &rows).await;
    let by_text = view(&replica, true).await;
    let ranges = by_text.ranges(None, None, cut, |_| ()).await.unwrap();
    // by the bytes of 'B','1' and so on: capitals first, 10 before 2, and a null after all quotes
    let order = [["B", "1"], ["a", "10"], ["a", "2"], ["b", "1"], ["null", "7"]];
    let expected: Vec<_> = order.iter().map(|parts| Some(key(parts))).chain([None]).collect();
    assert_eq!(ends(ranges), expected);
    let part = by_text.ranges(Some(&key(&["a", "10"])), Some(&key(&["b", "1"])), ALL, |_| ()).await.unwrap();
    assert_eq!(part.iter().map(|range| range.digest.rows).sum::<u64>(), 2);
    let named = by_text.named(&[key(&["null", "7"]), key(&["null", "8"])]).await.unwrap();
    assert_eq!(named.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
}
