//! The positions in the Delta log: one `txn` action a partition, in the commit that holds the data.
//!
//! The application id is `highwater/<group>/<topic>/<partition>` and the version the next offset to read; the
//! partition's horizon, where it has one, stands beside it. The table's floor is kept in the same way. (Delta
//! protocol, "Transaction Identifiers".)

use change::{Horizon, Lsn, Order};
use deltalake_core::{
    DeltaTable,
    kernel::{Transaction, transaction::CommitProperties},
};
use pipeline::{Checkpoint, Fault, Position, TopicPartition};

use crate::fault;

const FLOOR_ANCHOR: &str = "highwater/floor/anchor";
const FLOOR_LSN: &str = "highwater/floor/lsn";

/// The application id of a partition's position.
#[must_use]
pub fn app_id(group: &str, partition: &TopicPartition) -> String {
    format!("highwater/{group}/{}/{}", partition.topic, partition.partition)
}

fn horizon_id(group: &str, partition: &TopicPartition) -> String {
    format!("{}/horizon", app_id(group, partition))
}

async fn stored(table: &DeltaTable, app_id: &str) -> Result<Option<i64>, Fault> {
    let snapshot = table.snapshot().map_err(|e| fault::delta("reading the table's state", &e))?;
    let version = snapshot.transaction_version(table.log_store().as_ref(), app_id).await;
    version.map_err(|e| fault::delta("reading the checkpoint", &e))
}

fn lsn(version: Option<i64>) -> Lsn {
    version.and_then(|version| Lsn::try_from(version).ok()).unwrap_or_default()
}

/// The positions of some partitions as the loaded version holds them.
pub(crate) async fn read(table: &DeltaTable, group: &str, partitions: &[TopicPartition]) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new();
    for partition in partitions {
        if let Some(offset) = stored(table, &app_id(group, partition)).await? {
            let horizon = Horizon(lsn(stored(table, &horizon_id(group, partition)).await?));
            checkpoint.insert(partition.clone(), Position { offset, horizon });
        }
    }
    Ok(checkpoint)
}

/// The table's floor as the loaded version holds it.
pub(crate) async fn read_floor(table: &DeltaTable) -> Result<Order, Fault> {
    Ok(Order { anchor: lsn(stored(table, FLOOR_ANCHOR).await?), lsn: lsn(stored(table, FLOOR_LSN).await?) })
}

/// The `txn` actions for a commit that ends at `positions`. A position never moves back: `stored` are those that
/// the table is known to hold.
pub(crate) fn transactions(group: &str, positions: &Checkpoint, stored: &Checkpoint) -> Vec<Transaction> {
    let ahead =
        positions.iter().filter(|(tp, position)| stored.get(tp).is_none_or(|known| known.offset < position.offset));
    ahead
        .flat_map(|(partition, position)| {
            let horizon = position.horizon.0;
            let offset = Transaction::new(app_id(group, partition), position.offset);
            let horizon =
                (horizon > Lsn::ZERO).then(|| Transaction::new(horizon_id(group, partition), horizon.as_long()));
            std::iter::once(offset).chain(horizon)
        })
        .collect()
}

/// The `txn` actions that set the floor.
pub(crate) fn floor_transactions(floor: Order) -> [Transaction; 2] {
    [Transaction::new(FLOOR_ANCHOR, floor.anchor.as_long()), Transaction::new(FLOOR_LSN, floor.lsn.as_long())]
}

/// How every commit of ours is made: log checkpoints and clean-up list the whole log, so they are left to the time
/// between two batches.
pub(crate) fn commit_properties(transactions: Vec<Transaction>) -> CommitProperties {
    CommitProperties::default()
        .with_application_transactions(transactions)
        .with_create_checkpoint(false)
        .with_cleanup_expired_logs(Some(false))
}
