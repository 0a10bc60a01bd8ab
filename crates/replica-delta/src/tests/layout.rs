//! What a table is created with, and what its writers make of it.

use std::collections::{BTreeMap, HashMap};

use datafusion::{
    logical_expr::{Expr, lit},
    physical_plan::display::DisplayableExecutionPlan,
};
use deltalake_core::{
    kernel::{Action, Add},
    logstore::get_actions,
    table::config::TablePropertiesExt as _,
};

use super::{growth::batch, *};
use crate::{Layout, Properties};

fn with(properties: &[(&str, &str)]) -> Layout {
    let given = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Layout { properties: Properties::new(given.collect()).unwrap(), ..Layout::default() }
}

async fn opened(lake: &Lake, schema: &Arc<TableSchema>, layout: &Layout) -> DeltaReplica {
    DeltaReplica::open_laid_out(lake, "t", "memory:///t", "group", Arc::clone(schema), layout).await.unwrap()
}

/// What a commit did.
async fn actions(replica: &DeltaReplica, version: u64) -> Vec<Action> {
    let commit = replica.table.log_store().read_commit_entry(version).await.unwrap().unwrap();
    get_actions(version, &commit).unwrap()
}

async fn added(replica: &DeltaReplica, version: u64) -> Vec<Add> {
    let added = actions(replica, version).await.into_iter();
    added.filter_map(|action| if let Action::Add(add) = action { Some(add) } else { None }).collect()
}

/// Forty columns of the source, the last of which is the key.
fn wide() -> Arc<TableSchema> {
    let names: Vec<_> = (0..39).map(|i| format!("c{i}")).collect();
    let mut columns: Vec<_> = names.iter().map(|name| (name.as_str(), "int")).collect();
    columns.push(("The Id", "long"));
    schema(&columns, &["The Id"])
}

fn wide_row(id: u64, value: u64) -> String {
    let cells: Vec<_> = (0..39).map(|i| format!("\"c{i}\":{value}")).collect();
    format!("{{{},\"The Id\":{id}}}", cells.join(","))
}

/// A batch of a row for each key.
fn wide_batch(schema: &Arc<TableSchema>, lsn: u64, ids: std::ops::Range<u64>) -> Batch {
    let rows: Vec<_> = ids.map(|id| wide_row(id, lsn)).collect();
    let rows: Vec<_> = rows.iter().map(|row| (lsn, row.as_str())).collect();
    batch(schema, lsn.cast_signed(), &rows)
}

#[tokio::test]
async fn the_key_and_the_order_have_statistics_however_many_columns_there_are() {
    let (lake, schema) = (Lake::default(), wide());
    let mut replica = opened(&lake, &schema, &Layout::default()).await;
    for (lsn, ids) in [(8, 0..10), (16, 10..20), (24, 20..30)] {
        apply(&mut replica, wide_batch(&schema, lsn, ids)).await;
    }
    let appended = added(&replica, 3).await;
    apply(&mut replica, wide_batch(&schema, 32, 12..14)).await;
    let merged = added(&replica, 4).await;
    for (add, ids, lsns) in [(&appended[0], (20, 29), (24, 24)), (&merged[0], (10, 19), (16, 32))] {
        let stats: serde_json::Value = serde_json::from_str(add.stats.as_ref().unwrap()).unwrap();
        for (column, (min, max)) in [("The Id", ids), ("source_lsn", lsns), ("source_anchor", lsns)] {
            assert_eq!(
                (&stats["minValues"][column], &stats["maxValues"][column]),
                (&min.into(), &max.into()),
                "{stats}"
            );
        }
        assert_eq!(stats["minValues"].as_object().unwrap().len(), 32);
    }
    assert_eq!((appended.len(), merged.len()), (1, 1));
    // the MERGE read one file of three
    let info = actions(&replica, 4).await.into_iter().find_map(|action| match action {
        Action::CommitInfo(info) => info.info.get("operationMetrics").cloned(),
        _ => None,
    });
    let metrics = info.unwrap();
    let counts = ["num_target_files_scanned", "num_target_files_skipped_during_scan"].map(|name| metrics[name].clone());
    assert_eq!(counts, [1, 2].map(serde_json::Value::from), "{metrics}");

    // and so does the guard, which asks for a range of keys
    let key = Expr::Column(datafusion::common::Column::from_name("The Id"));
    assert_eq!(files_read(&replica, key.between(lit(21_i64), lit(22_i64))).await, 1);
    assert_eq!(files_read(&replica, lit(true)).await, 3);
}

/// How many files a query for some rows reads.
async fn files_read(replica: &DeltaReplica, rows: Expr) -> usize {
    let context = SessionContext::new();
    replica.prepare(&context).unwrap();
    let frame = context.read_table(replica.provider().await.unwrap()).unwrap().filter(rows).unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let shown = DisplayableExecutionPlan::new(plan.as_ref()).indent(true).to_string();
    shown.matches("part-").count()
}

#[tokio::test]
async fn a_narrow_table_leaves_the_statistics_to_deltas_default() {
    let replica = opened(&Lake::default(), &orders(), &Layout::default()).await;
    assert_eq!(replica.table.snapshot().unwrap().metadata().configuration(), &HashMap::new());
}

#[tokio::test]
async fn properties_and_comments_are_there_from_the_first_version_on_as_delta_rs_reads_them() {
    let lake = Lake::default();
    let given = [
        ("delta.targetFileSize", "1048576"),
        ("delta.checkpointInterval", "7"),
        ("delta.dataSkippingStatsColumns", "id,status"),
        ("delta.logRetentionDuration", "interval 3 days"),
        ("delta.deletedFileRetentionDuration", "interval 2 weeks"),
        ("delta.enableExpiredLogCleanup", "false"),
        ("delta.isolationLevel", "Serializable"),
        ("owner", "team orders"),
    ];
    let layout = Layout {
        comment: Some("what was sold".to_owned()),
        column_comments: [("status".to_owned(), "of the order".to_owned())].into(),
        ..with(&given)
    };
    let replica = opened(&lake, &orders(), &layout).await;
    assert_eq!(replica.version(), 0);
    let state = replica.table.snapshot().unwrap();
    let days = |days: u64| std::time::Duration::from_secs(days * 24 * 3600);
    let properties = state.table_config();
    assert_eq!(properties.target_file_size().get(), 1 << 20);
    assert_eq!(properties.checkpoint_interval().get(), 7);
    assert_eq!(properties.log_retention_duration(), days(3));
    assert_eq!(properties.deleted_file_retention_duration(), days(14));
    assert!(!properties.enable_expired_log_cleanup());
    let listed: Vec<_> = properties.data_skipping_stats_columns.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(listed, ["id", "status"]);
    let kept: BTreeMap<_, _> = state.metadata().configuration().iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(kept, BTreeMap::from(given));
    assert_eq!(state.metadata().description(), Some("what was sold"));
    let schema = state.schema();
    let comment = schema.field("status").unwrap().metadata().get("comment").map(ToString::to_string);
    assert_eq!(comment.as_deref(), Some("of the order"));
}

#[tokio::test]
async fn a_table_that_is_there_gets_other_properties_in_one_commit_and_keeps_its_own() {
    let (lake, schema) = (Lake::default(), orders());
    let mut replica = opened(&lake, &schema, &with(&[("owner", "a"), ("delta.targetFileSize", "100")])).await;
    apply(&mut replica, batch(&schema, 1, &[(8, r#"{"id":1,"status":"x","note":null}"#)])).await;
    let more = with(&[("owner", "b"), ("delta.enableDeletionVectors", "true"), ("delta.enableChangeDataFeed", "true")]);
    let lacking: Vec<_> = replica.lacks(&more).unwrap().into_keys().collect();
    assert_eq!(lacking, ["delta.enableChangeDataFeed", "delta.enableDeletionVectors", "owner"]);
    let mut replica = opened(&lake, &schema, &more).await;
    assert_eq!((replica.version(), replica.lacks(&more).unwrap()), (2, BTreeMap::new()));
    let protocol = replica.table.snapshot().unwrap().protocol().clone();
    let features = format!("{:?} {:?}", protocol.reader_features(), protocol.writer_features());
    assert!(features.contains("DeletionVectors") && features.contains("ChangeDataFeed"), "{features}");
    let kept = replica.table.snapshot().unwrap().metadata().configuration().get("delta.targetFileSize").cloned();
    assert_eq!(kept.as_deref(), Some("100"));
    // positions, guard and merge go on as before
    let position = replica.checkpoint(&[TopicPartition::new("t", 0)]).await.unwrap();
    assert_eq!(position[&TopicPartition::new("t", 0)].offset, 1);
    let again =
        batch(&schema, 2, &[(8, r#"{"id":1,"status":"x","note":null}"#), (16, r#"{"id":2,"status":"y","note":null}"#)]);
    let counts = apply(&mut replica, again).await;
    assert_eq!((counts.guarded, counts.inserted), (1, 1));
    assert_eq!(opened(&lake, &schema, &more).await.version(), 3);
    // nothing is taken away
    assert_eq!(opened(&lake, &schema, &Layout::default()).await.version(), 3);
}

#[tokio::test]
async fn a_writer_goes_on_after_another_member_has_set_properties() {
    let (lake, schema) = (Lake::default(), orders());
    let mut first = opened(&lake, &schema, &Layout::default()).await;
    let row = |lsn, id: u64| (lsn, format!(r#"{{"id":{id},"status":"x","note":null}}"#));
    let (one, two) = (row(8, 1), row(16, 2));
    apply(&mut first, batch(&schema, 1, &[(one.0, &one.1)])).await;
    opened(&lake, &schema, &with(&[("delta.enableChangeDataFeed", "true")])).await;
    let batch = batch(&schema, 2, &[(two.0, &two.1)]);
    assert_eq!(first.apply(&batch).await.unwrap_err().remedy, Remedy::Redo);
    assert_eq!(apply(&mut first, batch).await.inserted, 1);
    assert_eq!(rows(&first).await.len(), 2);
}

#[tokio::test]
async fn a_table_that_another_tool_made_append_only_is_refused() {
    let lake = Lake::default();
    let replica = opened(&lake, &orders(), &Layout::default()).await;
    let append_only = HashMap::from([("delta.appendOnly".to_owned(), "true".to_owned())]);
    replica.table.clone().set_tbl_properties().with_properties(append_only).await.unwrap();
    let refused = DeltaReplica::open(&lake, "t", "memory:///t", "group", orders()).await.err().unwrap();
    assert_eq!(refused.remedy, Remedy::Halt);
    assert!(refused.message.contains("the table has the property delta.appendOnly = true"), "{refused}");
}

#[tokio::test]
async fn files_are_of_the_target_size_by_append_and_by_merge() {
    let (lake, schema) = (Lake::default(), orders());
    let mut replica = opened(&lake, &schema, &with(&[("delta.targetFileSize", "65536")])).await;
    let mut random: u64 = 7;
    let mut text = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{random:016x}{:016x}", random.rotate_left(17).wrapping_mul(random))
    };
    for lsn in [8_u64, 16] {
        let rows: Vec<_> =
            (0..12_000_u64).map(|id| format!(r#"{{"id":{id},"status":"{}","note":"{}"}}"#, text(), text())).collect();
        let rows: Vec<_> = rows.iter().map(|row| (lsn, row.as_str())).collect();
        apply(&mut replica, batch(&schema, lsn.cast_signed(), &rows)).await;
        let sizes: Vec<_> = added(&replica, lsn / 8).await.iter().map(|add| add.size).collect();
        assert!(sizes.len() >= 5, "{sizes:?}");
        // a file ends after the rows that make it full, 1024 at a time
        assert!(sizes.iter().all(|&size| size < 3 * 65536), "{sizes:?}");
    }
    assert_eq!(rows(&replica).await.len(), 12_000);
}

#[tokio::test]
async fn checkpoints_and_the_clean_up_of_the_log_follow_the_properties() {
    for (cleans_up, first) in [("true", false), ("false", true)] {
        let dir = tempfile::tempdir().unwrap();
        let layout = with(&[
            ("delta.checkpointInterval", "2"),
            ("delta.logRetentionDuration", "interval 0 seconds"),
            ("delta.enableExpiredLogCleanup", cleans_up),
        ]);
        let (lake, schema, location) = (Lake::default(), orders(), dir.path().to_str().unwrap());
        let mut replica =
            DeltaReplica::open_laid_out(&lake, "t", location, "group", Arc::clone(&schema), &layout).await.unwrap();
        let log = |name: &str| dir.path().join("_delta_log").join(name).exists();
        for id in 1..=6_u64 {
            let row = format!(r#"{{"id":{id},"status":"x","note":null}}"#);
            apply(&mut replica, batch(&schema, id.cast_signed(), &[(id * 8, &row)])).await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            replica.maintain().await.unwrap();
            let checkpoint = format!("{id:020}.checkpoint.parquet");
            assert_eq!(log(&checkpoint), id % 2 == 0, "version {id}");
        }
        assert_eq!(log(&format!("{:020}.json", 0)), first, "enableExpiredLogCleanup = {cleans_up}");
        let reopened = DeltaReplica::open(&lake, "t", location, "group", schema).await.unwrap();
        assert_eq!((reopened.version(), rows(&reopened).await.len()), (6, 6));
    }
}
