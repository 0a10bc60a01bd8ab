//! Deletion vectors of another writer: a row that they take out stays out, whatever rewrites its file.

use deltalake_core::{
    kernel::{
        Action, DeletionVectorDescriptor, StorageType,
        transaction::{CommitBuilder, TableReference},
    },
    logstore::get_actions,
};
use futures::TryStreamExt;

use super::{
    growth::{batch, select},
    *,
};
use crate::{Layout, Properties, merge};

/// Z85, in which Delta writes the bytes of an inline vector.
fn z85(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    let mut text = String::new();
    for word in bytes.chunks(4) {
        let mut four = [0; 4];
        four[..word.len()].copy_from_slice(word);
        let number = u32::from_be_bytes(four);
        let digit = |power: u32| char::from(DIGITS[(number / 85_u32.pow(power) % 85) as usize]);
        text.extend([4, 3, 2, 1, 0].map(digit));
    }
    text
}

/// A vector that takes out one row of a file (Delta protocol, "Deletion Vector Format").
fn vector_of(row: u16) -> DeletionVectorDescriptor {
    let mut bytes = 1_681_511_377_u32.to_le_bytes().to_vec();
    bytes.extend(1_u64.to_le_bytes());
    // one bitmap of the high bits 0: a cookie, and one array container with one value
    for word in [0_u32, 12_346, 1, 0, 16] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(row.to_le_bytes());
    DeletionVectorDescriptor {
        storage_type: StorageType::Inline,
        path_or_inline_dv: z85(&bytes),
        offset: None,
        size_in_bytes: i32::try_from(bytes.len()).unwrap(),
        cardinality: 1,
    }
}

/// A table of the keys 1, 2 and 3, of which another writer has taken out 2.
async fn table(schema: &Arc<TableSchema>) -> DeltaReplica {
    let given = [("delta.enableDeletionVectors".to_owned(), "true".to_owned())];
    let layout = Layout { properties: Properties::new(given.into()).unwrap(), ..Layout::default() };
    let lake = Lake::default();
    let open = || DeltaReplica::open_laid_out(&lake, "t", "memory:///t", "group", Arc::clone(schema), &layout);
    let mut replica = open().await.unwrap();
    let rows = [(8, r#"{"id":1,"n":1}"#), (8, r#"{"id":2,"n":2}"#), (8, r#"{"id":3,"n":3}"#)];
    apply(&mut replica, batch(schema, 1, &rows)).await;

    let (state, log_store) = (replica.table.snapshot().unwrap(), replica.table.log_store());
    let files: Vec<_> = state.snapshot().file_views(log_store.as_ref(), None).try_collect().await.unwrap();
    let mut actions: Vec<_> = files.iter().map(|file| Action::Remove(file.remove_action(true))).collect();
    let commit = log_store.read_commit_entry(1).await.unwrap().unwrap();
    for action in get_actions(1, &commit).unwrap() {
        if let Action::Add(mut add) = action {
            add.deletion_vector = Some(vector_of(1));
            actions.push(Action::Add(add));
        }
    }
    let commit = CommitBuilder::default().with_actions(actions);
    let commit = commit.build(Some(state.snapshot() as &dyn TableReference), log_store.clone(), merge::whole_table());
    commit.await.unwrap();
    let replica = open().await.unwrap();
    assert_eq!(select(&replica, "select id from t order by id").await, ids(&[1, 3]));
    replica
}

fn ids(ids: &[u8]) -> String {
    let rows: Vec<_> = ids.iter().map(|id| format!("| {id}  |")).collect();
    format!("+----+\n| id |\n+----+\n{}\n+----+", rows.join("\n"))
}

fn declared(n: &str) -> Arc<TableSchema> {
    Arc::new(TableSchema::clone(&schema(&[("id", "long"), ("n", n)], &["id"])).growing())
}

#[tokio::test]
async fn guard_and_merge_see_a_table_as_its_deletion_vectors_leave_it() {
    let schema = declared("int");
    let mut replica = table(&schema).await;
    let rows = [(16, r#"{"id":1,"n":10}"#), (8, r#"{"id":3,"n":3}"#)];
    let counts = apply(&mut replica, batch(&schema, 2, &rows)).await;
    assert_eq!((counts.updated, counts.guarded, counts.inserted), (1, 1, 0));
    assert_eq!(select(&replica, "select id from t order by id").await, ids(&[1, 3]));
    let again = apply(&mut replica, batch(&schema, 3, &[(16, r#"{"id":2,"n":20}"#)])).await;
    assert_eq!(again.inserted, 1);
    let expected = "\
+----+----+
| id | n  |
+----+----+
| 1  | 10 |
| 2  | 20 |
| 3  | 3  |
+----+----+";
    assert_eq!(select(&replica, "select id, n from t order by id").await, expected);
}

#[tokio::test]
async fn an_epoch_and_a_wider_type_leave_out_what_a_deletion_vector_took_out() {
    let mut replica = table(&declared("int")).await;
    assert!(replica.begin_epoch(1000).await.unwrap());
    assert_eq!(select(&replica, "select id from t where is_deleted order by id").await, ids(&[1, 3]));

    let mut replica = table(&declared("int")).await;
    apply(&mut replica, batch(&declared("long"), 2, &[(16, r#"{"id":4,"n":5000000000}"#)])).await;
    assert_eq!(select(&replica, "select id from t order by id").await, ids(&[1, 3, 4]));
}
