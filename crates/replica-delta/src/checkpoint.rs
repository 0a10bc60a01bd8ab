//! The positions in the Delta log: `txn` actions of each partition, in the commit that holds the data.
//!
//! The application id is `highwater/<group>/<topic>/<partition>` and the version the next offset to read; the rest of
//! the position stands beside it. Of an epoch after the first one the id ends in `@<epoch>`, so that a new epoch begins
//! without positions. The table's floor and its epoch are kept in the same way. (Delta protocol, "Transaction
//! Identifiers".)

use change::{Horizon, Lsn, Order};
use deltalake_core::{
    DeltaTable,
    kernel::{Transaction, transaction::CommitProperties},
};
use pipeline::{Checkpoint, Epoch, Fault, Position, TopicPartition, Witness, witness};

use crate::fault;

const FLOOR_ANCHOR: &str = "highwater/floor/anchor";
const FLOOR_LSN: &str = "highwater/floor/lsn";
const EPOCH: &str = "highwater/epoch";

/// The application id of a partition's position in the epoch since `since`.
#[must_use]
pub fn app_id(group: &str, partition: &TopicPartition, since: i64) -> String {
    let first = format!("highwater/{group}/{}/{}", partition.topic, partition.partition);
    if since == 0 { first } else { format!("{first}@{since}") }
}

/// Beside a partition's offset, by the end of their application ids.
fn parts(position: &Position) -> [(&'static str, i64); 4] {
    let Position { horizon: Horizon { snapshots, streamed, at }, witness, .. } = position;
    [("horizon", snapshots.as_long()), ("streamed", streamed.as_long()), ("at", *at), ("witness", witness.as_long())]
}

async fn stored(table: &DeltaTable, app_id: &str) -> Result<Option<i64>, Fault> {
    let snapshot = table.snapshot().map_err(|e| fault::delta("reading the table's state", &e))?;
    let version = snapshot.transaction_version(table.log_store().as_ref(), app_id).await;
    version.map_err(|e| fault::delta("reading the checkpoint", &e))
}

fn lsn(version: i64) -> Lsn {
    Lsn::try_from(version).unwrap_or_default()
}

/// The positions of some partitions as the loaded version holds them.
pub(crate) async fn read(
    table: &DeltaTable,
    group: &str,
    since: i64,
    partitions: impl IntoIterator<Item = &TopicPartition>,
) -> Result<Checkpoint, Fault> {
    let mut checkpoint = Checkpoint::new();
    for partition in partitions {
        let id = app_id(group, partition, since);
        if let Some(offset) = stored(table, &id).await? {
            let mut found = parts(&Position::default()).map(|(part, _)| (part, 0));
            for (part, version) in &mut found {
                *version = stored(table, &format!("{id}/{part}")).await?.unwrap_or_default();
            }
            let [(_, snapshots), (_, streamed), (_, at), (_, witness)] = found;
            let horizon = Horizon { snapshots: lsn(snapshots), streamed: lsn(streamed), at };
            checkpoint.insert(partition.clone(), Position { offset, horizon, witness: Witness::from_long(witness) });
        }
    }
    Ok(checkpoint)
}

/// The table's floor as the loaded version holds it.
pub(crate) async fn read_floor(table: &DeltaTable) -> Result<Order, Fault> {
    let (anchor, lsn_of_it) = (stored(table, FLOOR_ANCHOR).await?, stored(table, FLOOR_LSN).await?);
    Ok(Order { anchor: lsn(anchor.unwrap_or_default()), lsn: lsn(lsn_of_it.unwrap_or_default()) })
}

/// The table's epoch as the loaded version holds it.
pub(crate) async fn read_epoch(table: &DeltaTable) -> Result<Epoch, Fault> {
    let snapshot = table.snapshot().map_err(|e| fault::delta("reading the table's state", &e))?;
    let table_number = witness::number_of(snapshot.metadata().id().as_bytes());
    Ok(Epoch { table: table_number, since: stored(table, EPOCH).await?.unwrap_or_default() })
}

/// The `txn` actions for a commit that ends at `positions`. A position never moves back: `known` are those that
/// the table is known to hold.
pub(crate) fn transactions(group: &str, since: i64, positions: &Checkpoint, known: &Checkpoint) -> Vec<Transaction> {
    let mut transactions = Vec::new();
    for (partition, position) in positions {
        let known = known.get(partition).copied();
        if known.is_none_or(|known| known.offset < position.offset) {
            transactions.extend(set(group, since, partition, position, &known.unwrap_or_default()));
        }
    }
    transactions
}

/// The `txn` actions that set a partition's position, where the table holds `known`.
fn set(
    group: &str,
    since: i64,
    partition: &TopicPartition,
    position: &Position,
    known: &Position,
) -> impl Iterator<Item = Transaction> + use<> {
    let id = app_id(group, partition, since);
    let offset = Transaction::new(&id, position.offset);
    let changed = parts(position).into_iter().zip(parts(known)).filter(|(new, old)| new != old);
    let rest = changed.map(move |((part, version), _)| Transaction::new(format!("{id}/{part}"), version));
    std::iter::once(offset).chain(rest)
}

/// The `txn` actions that set positions wherever the table's own are, also back.
pub(crate) fn rewind(group: &str, since: i64, positions: &Checkpoint, known: &Checkpoint) -> Vec<Transaction> {
    let known_of = |partition| known.get(partition).copied().unwrap_or_default();
    positions
        .iter()
        .flat_map(|(partition, position)| set(group, since, partition, position, &known_of(partition)))
        .collect()
}

/// The `txn` actions that set the floor.
pub(crate) fn floor_transactions(floor: Order) -> [Transaction; 2] {
    [Transaction::new(FLOOR_ANCHOR, floor.anchor.as_long()), Transaction::new(FLOOR_LSN, floor.lsn.as_long())]
}

/// The `txn` action that begins an epoch.
pub(crate) fn epoch_transaction(since: i64) -> Transaction {
    Transaction::new(EPOCH, since)
}

/// How every commit of ours is made: log checkpoints and clean-up list the whole log, so they are left to the time
/// between two batches.
pub(crate) fn commit_properties(transactions: Vec<Transaction>) -> CommitProperties {
    CommitProperties::default()
        .with_application_transactions(transactions)
        .with_create_checkpoint(false)
        .with_cleanup_expired_logs(Some(false))
}
