//! [`Census`]: what a version of a table consists of.

use std::collections::BTreeMap;

use arrow::{
    array::{Array as _, AsArray as _},
    datatypes::Int64Type,
};
use datafusion::{
    common::Column,
    functions_aggregate::expr_fn::count,
    logical_expr::{Expr, lit},
    prelude::SessionContext,
};
use deltalake_core::table::config::TablePropertiesExt as _;
use object_store::ObjectStoreExt as _;
use pipeline::Fault;

use crate::{DeltaReplica, fault};

/// Counts of a table's rows, files and commits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Rows that the source has.
    pub live: u64,
    /// Soft-deleted rows.
    pub deleted: u64,
    /// Data files.
    pub files: u64,
    /// Those that are less than half as large as the table's files are to be, where a partition has several of them.
    pub small_files: u64,
    /// The size of all.
    pub bytes: u64,
    /// Commits since the last log checkpoint.
    pub log_commits: u64,
}

impl DeltaReplica {
    /// Counts what the newest known version consists of. It reads one column of the table.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn census(&self) -> Result<Census, Fault> {
        let failed = |e: datafusion::error::DataFusionError| fault::datafusion("counting its rows", &e);
        let mut census = self.files().await?;
        let context = SessionContext::new();
        self.prepare(&context)?;
        let is_deleted = Expr::Column(Column::from_name(&self.stored().meta().is_deleted));
        let rows = context.read_table(self.provider().await?).map_err(failed)?;
        let counted = rows.aggregate(vec![is_deleted], vec![count(lit(1))]).map_err(failed)?;
        for batch in counted.collect().await.map_err(failed)? {
            let (deleted, rows) = (batch.column(0).as_boolean(), batch.column(1).as_primitive::<Int64Type>());
            for row in 0..batch.num_rows() {
                let rows = u64::try_from(rows.value(row)).unwrap_or_default();
                if deleted.is_valid(row) && deleted.value(row) {
                    census.deleted += rows;
                } else {
                    census.live += rows;
                }
            }
        }
        Ok(census)
    }

    /// The part of the census that the log alone tells.
    async fn files(&self) -> Result<Census, Fault> {
        let state = self.table.snapshot().map_err(|e| fault::delta("counting its files", &e))?;
        let small = state.table_config().target_file_size().get() / 2;
        let mut census = Census::default();
        let mut small_by_partition = BTreeMap::<String, u64>::new();
        for file in state.log_data() {
            let size = u64::try_from(file.size()).unwrap_or_default();
            census.files += 1;
            census.bytes += size;
            if size < small {
                *small_by_partition.entry(format!("{:?}", file.partition_values())).or_default() += 1;
            }
        }
        census.small_files = small_by_partition.into_values().filter(|files| *files > 1).sum();
        let last = self.last_log_checkpoint().await?;
        census.log_commits = last.map_or(self.version() + 1, |last| self.version().saturating_sub(last));
        Ok(census)
    }

    /// The version of the last log checkpoint, by the hint that stands beside the log.
    async fn last_log_checkpoint(&self) -> Result<Option<u64>, Fault> {
        let log = self.table.log_store();
        let hint = log.log_path().clone().join("_last_checkpoint");
        match log.object_store(None).get(&hint).await {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(Fault::retry(format!("reading the hint of its log checkpoint: {error}"))),
            Ok(found) => {
                let bytes = found.bytes().await;
                let bytes = bytes.map_err(|e| Fault::retry(format!("reading the hint of its log checkpoint: {e}")))?;
                let hint: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
                Ok(hint.and_then(|hint| hint.get("version")?.as_u64()))
            }
        }
    }
}
