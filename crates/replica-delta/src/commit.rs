//! Commits that change no row: positions, the floor and the epoch alone.

use deltalake_core::{
    DeltaTable, DeltaTableError,
    kernel::transaction::{CommitBuilder, CommitProperties, TableReference},
    protocol::DeltaOperation,
};

/// Commits nothing but `properties`; `table` is then at its new version.
pub(crate) async fn only(table: &mut DeltaTable, properties: CommitProperties) -> Result<(), DeltaTableError> {
    let operation = DeltaOperation::Update { predicate: None };
    let state = table.snapshot()?;
    let commit = CommitBuilder::from(properties)
        .build(Some(state.snapshot() as &dyn TableReference), table.log_store(), operation)
        .await?;
    table.state = Some(commit.snapshot());
    Ok(())
}
