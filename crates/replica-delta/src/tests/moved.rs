//! Rows whose keys were changed, and that leave out a value.

use super::*;

/// What is left out, as the connector writes it.
const HOLE: &str = "\"__debezium_unavailable_value\"";

/// A record of key `id` at an order, and the key that its row had before.
type Change<'a> = (char, i64, u64, Option<i64>, &'a str);

/// A batch of changes: op, key, LSN and anchor, old key, and the note as JSON.
fn batch(changes: &[Change<'_>]) -> Batch {
    let schema = orders();
    let (mut decoder, mut builder) = (Decoder::new(Arc::clone(&schema)), BatchBuilder::new(schema));
    for (offset, (op, id, at, old, note)) in (0_i64..).zip(changes) {
        let after =
            if *op == 'd' { "null".to_owned() } else { format!(r#"{{"id":{id},"status":"s{at}","note":{note}}}"#) };
        let value =
            format!(r#"{{"op":"{op}","after":{after},"source":{{"lsn":{at},"sequence":"[\"{at}\",\"{at}\"]"}}}}"#);
        let (key, old) = (format!(r#"{{"id":{id}}}"#), old.map(|old| format!(r#"{{"id":{old}}}"#)));
        let (key, value, old_key) = (Some(key.as_bytes()), Some(value.as_bytes()), old.as_ref().map(String::as_bytes));
        let record = RecordRef { partition: 0, offset, key, value, timestamp: None, old_key };
        decoder.decode(record, &mut Horizon::default(), &mut builder).unwrap();
    }
    Batch::new(builder.finish().unwrap(), Checkpoint::new())
}

const FIRST: Change<'static> = ('c', 1, 8, None, "\"first\"");
const GONE: Change<'static> = ('d', 1, 16, None, "");
const MOVED: Change<'static> = ('c', 2, 16, Some(1), HOLE);

/// Applies batches one by one; what each left unresolved, and the live keys with their notes at the end.
async fn play(batches: &[&[Change<'_>]]) -> (Vec<Vec<usize>>, Vec<(String, Option<String>)>) {
    let lake = Lake::default();
    let mut replica = open(&lake).await;
    let mut unresolved = Vec::new();
    for changes in batches {
        unresolved.push(match replica.apply(&batch(changes)).await.unwrap() {
            Applied::Unresolved(rows) => rows,
            _ => Vec::new(),
        });
    }
    let live = rows(&replica).await.into_iter().filter(|row| row[5].as_deref() == Some("false"));
    (unresolved, live.map(|row| (row[0].clone().unwrap(), row[2].clone())).collect())
}

fn moved_with(note: &str) -> Vec<(String, Option<String>)> {
    vec![("2".to_owned(), Some(note.to_owned()))]
}

#[tokio::test]
async fn a_row_of_a_changed_key_takes_what_it_left_out_from_the_old_keys_row() {
    let cases: [&[&[Change<'_>]]; 5] = [
        &[&[FIRST, GONE, MOVED]],
        &[&[FIRST], &[GONE, MOVED]],
        &[&[FIRST, GONE], &[MOVED]],
        // its partition was read first
        &[&[FIRST], &[MOVED, GONE]],
        &[&[FIRST], &[GONE], &[MOVED]],
    ];
    for batches in cases {
        let (unresolved, live) = play(batches).await;
        assert!(unresolved.iter().all(Vec::is_empty), "{batches:?}: {unresolved:?}");
        assert_eq!(live, moved_with("first"), "{batches:?}");
    }
}

#[tokio::test]
async fn a_value_goes_along_with_every_change_of_the_key() {
    let touched = ('u', 1, 12, None, HOLE);
    let again =
        [('d', 2, 24, None, ""), ('c', 3, 24, Some(2), HOLE), ('d', 3, 32, None, ""), ('c', 2, 32, Some(3), HOLE)];
    let one = [&[FIRST, touched, GONE, MOVED][..], &again].concat();
    let each: Vec<&[Change<'_>]> = one.chunks(1).collect();
    assert_eq!(play(&[&one]).await.1, moved_with("first"));
    assert_eq!(play(&each).await.1, moved_with("first"));
    let (one, two) = one.split_at(5);
    assert_eq!(play(&[one, two]).await.1, moved_with("first"));
}

#[tokio::test]
async fn nothing_is_taken_where_the_old_row_is_not_known_at_the_change() {
    let newer = ('c', 1, 24, None, "\"another row\"");
    let cases: [(&str, &[&[Change<'_>]]); 4] = [
        ("the delete has not come yet", &[&[FIRST], &[MOVED]]),
        ("the old key has a newer row", &[&[FIRST, GONE, newer], &[MOVED]]),
        ("the old row was never seen", &[&[GONE], &[MOVED]]),
        ("there is no old row", &[&[MOVED]]),
    ];
    for (why, batches) in cases {
        let (unresolved, live) = play(batches).await;
        assert_eq!(unresolved.last().unwrap(), &[0], "{why}");
        assert!(live.iter().all(|(key, _)| key == "1"), "{why}: {live:?}");
    }
    // once the delete is there, the same event can be applied
    assert_eq!(play(&[&[FIRST], &[MOVED], &[GONE], &[MOVED]]).await.1, moved_with("first"));
}

#[tokio::test]
async fn a_row_of_a_changed_key_takes_nothing_from_the_row_that_its_key_had_before() {
    let before = [('c', 2, 8, None, "\"of the other row\""), ('d', 2, 12, None, "")];
    let follows = ('u', 2, 20, None, HOLE);
    let whole = ('u', 2, 20, None, "\"whole\"");
    assert_eq!(play(&[&before, &[MOVED]]).await.0[1], [0]);
    assert_eq!(play(&[&[&before[..], &[MOVED]].concat()]).await.0[0], [2]);
    assert_eq!(play(&[&before, &[MOVED, follows]]).await.0[1], [1], "nor does an update that follows");
    assert_eq!(play(&[&before, &[MOVED, whole]]).await.1, moved_with("whole"));
    assert_eq!(play(&[&before, &[MOVED, ('d', 2, 20, None, "")]]).await.1, []);
}

#[tokio::test]
async fn what_was_guarded_or_replaced_is_not_missed() {
    let newer = ('u', 2, 24, None, "\"newer\"");
    assert_eq!(play(&[&[newer], &[MOVED]]).await, (vec![vec![], vec![]], moved_with("newer")));
    assert_eq!(play(&[&[MOVED, newer]]).await, (vec![vec![]], moved_with("newer")));
}
