//! Truncates: every older row is soft-deleted, and the table's floor is raised.

use change::{Order, TableSchema};
use datafusion::{
    common::Column,
    logical_expr::{Expr, lit},
};
use deltalake_core::{
    DeltaTable, DeltaTableError,
    kernel::transaction::{CommitBuilder, CommitProperties, TableReference},
    protocol::DeltaOperation,
};
use pipeline::Fault;

use crate::fault;

/// Soft-deletes the rows older than `order`, in one commit with `properties`, which hold the raised floor. Hands back
/// the table at its new version and how many rows were touched.
///
/// # Errors
/// A redo where another writer committed in between, or a fault of the store.
pub(crate) async fn apply(
    table: DeltaTable,
    schema: &TableSchema,
    order: Order,
    properties: CommitProperties,
) -> Result<(DeltaTable, u64), Fault> {
    update(table, schema, order, properties).await.map_err(|e| fault::delta("truncating", &e))
}

async fn update(
    table: DeltaTable,
    schema: &TableSchema,
    order: Order,
    properties: CommitProperties,
) -> Result<(DeltaTable, u64), DeltaTableError> {
    let meta = schema.meta();
    let column = |name: &str| Expr::Column(Column::from_name(name));
    let (anchor, lsn) = (lit(order.anchor.as_long()), lit(order.lsn.as_long()));
    let is_older = column(&meta.source_anchor)
        .lt(anchor.clone())
        .or(column(&meta.source_anchor).eq(anchor.clone()).and(column(&meta.source_lsn).lt(lsn.clone())));
    let version = table.version();
    let (mut table, metrics) = table
        .update()
        .with_predicate(is_older)
        .with_update(Column::from_name(&meta.source_anchor), anchor)
        .with_update(Column::from_name(&meta.source_lsn), lsn)
        .with_update(Column::from_name(&meta.is_deleted), lit(true))
        .with_commit_properties(properties.clone())
        .await?;
    if table.version() > version {
        return Ok((table, metrics.num_updated_rows as u64));
    }
    // no row is older, so nothing was committed: the floor and the positions still have to be
    let operation = DeltaOperation::Update { predicate: None };
    let state = table.snapshot()?;
    let commit = CommitBuilder::from(properties)
        .build(Some(state.snapshot() as &dyn TableReference), table.log_store(), operation)
        .await?;
    table.state = Some(commit.snapshot());
    Ok((table, 0))
}
