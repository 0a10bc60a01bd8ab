//! Truncates: every older row is soft-deleted, and the table's floor is raised.

use change::{Order, TableSchema};
use datafusion::{
    common::Column,
    logical_expr::{Expr, lit},
};
use deltalake_core::{DeltaTable, DeltaTableError, kernel::transaction::CommitProperties};
use pipeline::Fault;

use crate::{commit, fault};

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

/// Soft-deletes every row below every order, in one commit with `properties`, and hands back the table at its new
/// version.
///
/// # Errors
/// As [`apply`].
pub(crate) async fn everything(
    table: DeltaTable,
    schema: &TableSchema,
    properties: CommitProperties,
) -> Result<DeltaTable, Fault> {
    let done = empty(table, schema, None, Order::default(), properties).await;
    done.map(|(table, _)| table).map_err(|e| fault::delta("beginning an epoch", &e))
}

async fn update(
    table: DeltaTable,
    schema: &TableSchema,
    order: Order,
    properties: CommitProperties,
) -> Result<(DeltaTable, u64), DeltaTableError> {
    let meta = schema.meta();
    let (anchor, lsn) = (lit(order.anchor.as_long()), lit(order.lsn.as_long()));
    let is_older = column(&meta.source_anchor)
        .lt(anchor.clone())
        .or(column(&meta.source_anchor).eq(anchor).and(column(&meta.source_lsn).lt(lsn)));
    empty(table, schema, Some(is_older), order, properties).await
}

/// Soft-deletes the rows that `which` picks, or all, and gives them `order`.
async fn empty(
    table: DeltaTable,
    schema: &TableSchema,
    which: Option<Expr>,
    order: Order,
    properties: CommitProperties,
) -> Result<(DeltaTable, u64), DeltaTableError> {
    let meta = schema.meta();
    let version = table.version();
    let mut update = table.update();
    if let Some(which) = which {
        update = update.with_predicate(which);
    }
    let (mut table, metrics) = update
        .with_update(Column::from_name(&meta.source_anchor), lit(order.anchor.as_long()))
        .with_update(Column::from_name(&meta.source_lsn), lit(order.lsn.as_long()))
        .with_update(Column::from_name(&meta.is_deleted), lit(true))
        .with_commit_properties(properties.clone())
        .await?;
    if table.version() > version {
        return Ok((table, metrics.num_updated_rows as u64));
    }
    // no row was picked, so nothing was committed: the floor and the positions still have to be
    commit::only(&mut table, properties).await?;
    Ok((table, 0))
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::from_name(name))
}
