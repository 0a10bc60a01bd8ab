//! The positions in the Delta log: `txn` actions of each partition, in the commit that holds the data.
//!
//! The application id is `highwater/<group>/<topic>/<partition>` and the version the next offset to read; the rest of
//! the position stands beside it. Of an epoch after the first one the id ends in `@<epoch>`, so that a new epoch begins
//! without positions. The table's floor and its epoch are kept in the same way. (Delta protocol, "Transaction
//! Identifiers".)

use std::collections::HashMap;

use change::{Horizon, Lsn, Order};
use deltalake_core::{
    DeltaTable,
    kernel::{Action, Transaction, transaction::CommitProperties},
    logstore::get_actions,
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

/// Beyond so many commits since the last look, each id is looked for anew.
const FOLLOWED: u64 = 100;

/// What the loaded version says of each application id that was asked for.
///
/// The kernel replays the log for each id, and to its beginning for one that is not there. That is done once; from then
/// on the commits since are read, once for all ids.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// `None` is an id that no commit names.
    known: HashMap<String, Option<i64>>,
    table_id: String,
    version: u64,
}

impl Transactions {
    /// Comes to the version that `table` has loaded.
    pub(crate) async fn follow(&mut self, table: &DeltaTable) -> Result<(), Fault> {
        let snapshot = table.snapshot().map_err(|e| fault::delta("reading the table's state", &e))?;
        let (table_id, version) = (snapshot.metadata().id(), table.version().unwrap_or_default());
        let is_near = table_id == self.table_id && (self.version..=self.version + FOLLOWED).contains(&version);
        if !is_near || !self.take_commits(table, version).await? {
            *self = Self { known: HashMap::new(), table_id: table_id.to_owned(), version };
        }
        Ok(())
    }

    /// Takes over what the commits up to `version` say; `false` where one of them is gone from the log.
    async fn take_commits(&mut self, table: &DeltaTable, version: u64) -> Result<bool, Fault> {
        let failed = |e| fault::delta("reading the newest commits", &e);
        while self.version < version {
            let next = self.version + 1;
            let Some(commit) = table.log_store().read_commit_entry(next).await.map_err(failed)? else {
                return Ok(false);
            };
            for action in get_actions(next, &commit).map_err(failed)? {
                if let Action::Txn(transaction) = action
                    && let Some(known) = self.known.get_mut(&transaction.app_id)
                {
                    *known = Some(transaction.version);
                }
            }
            self.version = next;
        }
        Ok(true)
    }

    async fn of(&mut self, table: &DeltaTable, app_id: &str) -> Result<Option<i64>, Fault> {
        if let Some(known) = self.known.get(app_id) {
            return Ok(*known);
        }
        let snapshot = table.snapshot().map_err(|e| fault::delta("reading the table's state", &e))?;
        let found = snapshot.transaction_version(table.log_store().as_ref(), app_id).await;
        let found = found.map_err(|e| fault::delta("reading the checkpoint", &e))?;
        self.known.insert(app_id.to_owned(), found);
        Ok(found)
    }

    /// The positions of some partitions.
    pub(crate) async fn positions(
        &mut self,
        table: &DeltaTable,
        group: &str,
        since: i64,
        partitions: impl IntoIterator<Item = &TopicPartition>,
    ) -> Result<Checkpoint, Fault> {
        let mut checkpoint = Checkpoint::new();
        for partition in partitions {
            let id = app_id(group, partition, since);
            if let Some(offset) = self.of(table, &id).await? {
                let mut found = parts(&Position::default()).map(|(part, _)| (part, 0));
                for (part, version) in &mut found {
                    *version = self.of(table, &format!("{id}/{part}")).await?.unwrap_or_default();
                }
                let [(_, snapshots), (_, streamed), (_, at), (_, witness)] = found;
                let horizon = Horizon { snapshots: lsn(snapshots), streamed: lsn(streamed), at };
                let witness = Witness::from_long(witness);
                checkpoint.insert(partition.clone(), Position { offset, horizon, witness });
            }
        }
        Ok(checkpoint)
    }

    /// The table's floor.
    pub(crate) async fn floor(&mut self, table: &DeltaTable) -> Result<Order, Fault> {
        let (anchor, lsn_of_it) = (self.of(table, FLOOR_ANCHOR).await?, self.of(table, FLOOR_LSN).await?);
        Ok(Order { anchor: lsn(anchor.unwrap_or_default()), lsn: lsn(lsn_of_it.unwrap_or_default()) })
    }

    /// The table's epoch.
    pub(crate) async fn epoch(&mut self, table: &DeltaTable) -> Result<Epoch, Fault> {
        let since = self.of(table, EPOCH).await?.unwrap_or_default();
        Ok(Epoch { table: witness::number_of(self.table_id.as_bytes()), since })
    }
}

fn lsn(version: i64) -> Lsn {
    Lsn::try_from(version).unwrap_or_default()
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
