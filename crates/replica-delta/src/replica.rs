//! [`DeltaReplica`]: one table, and the way of a batch through it.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZero,
    sync::Arc,
};

use arrow::{
    array::{AsArray, RecordBatch},
    compute::take_record_batch,
};
use change::{ChangeBatch, Column, Order, TableSchema};
use datafusion::{catalog::TableProvider, prelude::SessionContext};
use deltalake_core::{DeltaTable, delta_datafusion::create_session, table::config::TablePropertiesExt as _};
use pipeline::{Applied, Batch, Checkpoint, Epoch, Fault, Remedy, Replica, RowCounts, TopicPartition, Work};

use crate::{
    Lake, Layout, Verdict,
    checkpoint::{self, Transactions},
    commit, fault, fold, guard,
    laps::Laps,
    layout,
    merge::{self, Winners},
    moved, newest, schema, truncate,
};

/// So many commits of ours between two log checkpoints, where the table's properties do not say how many. Opening a
/// table reads the commits since the last one (about 1 ms each from a local disk); writing one reads and writes the list
/// of all files.
const LOG_CHECKPOINT_EVERY: u64 = 50;

/// A replica in a Delta table.
pub struct DeltaReplica {
    name: String,
    /// The columns of the config, as wide as the table has them.
    declared: Arc<TableSchema>,
    /// The table's columns.
    stored: Arc<TableSchema>,
    group: String,
    pub(crate) table: DeltaTable,
    context: SessionContext,
    transactions: Transactions,
    floor: Order,
    epoch: Epoch,
    /// The partitions whose positions are read with each version.
    partitions: BTreeSet<TopicPartition>,
    /// Their positions in the version that was read last.
    positions: Checkpoint,
    /// Another writer committed, or a call had no answer: the state has to be read again.
    is_stale: bool,
    commits: u64,
    work: Work,
}

impl DeltaReplica {
    /// Opens the table at `location`, or creates it there. `group` is the consumer group whose positions it keeps.
    ///
    /// # Errors
    /// A halt where the location cannot be used or the table there has columns that do not go with `schema`.
    pub async fn open(
        lake: &Lake,
        name: &str,
        location: &str,
        group: &str,
        schema: Arc<TableSchema>,
    ) -> Result<Self, Fault> {
        Self::open_laid_out(lake, name, location, group, schema, &Layout::default()).await
    }

    /// Opens the table at `location`, or creates it there, with a layout. A table that is there with other properties
    /// is given those of the layout; its comments stay.
    ///
    /// # Errors
    /// As [`Self::open`]; a redo where another writer committed while the properties were set.
    pub async fn open_laid_out(
        lake: &Lake,
        name: &str,
        location: &str,
        group: &str,
        schema: Arc<TableSchema>,
        layout: &Layout,
    ) -> Result<Self, Fault> {
        let in_words = |fault: Fault| at(name, location, &fault);
        let existing = || Self::existing(lake, name, location, group, Arc::clone(&schema));
        let mut replica = existing().await?;
        if replica.is_none() {
            match layout.create(lake.table(location).map_err(in_words)?, name, &schema).await {
                // another member was faster, and its table will do
                Err(fault) if fault.remedy == Remedy::Redo => {}
                created => created.map_err(in_words)?,
            }
            replica = existing().await?;
        }
        let mut replica = replica.ok_or_else(|| in_words(Fault::halt("it was created and is gone")))?;
        replica.table = layout.set_on(replica.table).await.map_err(in_words)?;
        Ok(replica)
    }

    /// Opens the table at `location`; `None` where there is none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn existing(
        lake: &Lake,
        name: &str,
        location: &str,
        group: &str,
        schema: Arc<TableSchema>,
    ) -> Result<Option<Self>, Fault> {
        Self::load(lake, name, location, group, schema).await.map_err(|fault| at(name, location, &fault))
    }

    async fn load(
        lake: &Lake,
        name: &str,
        location: &str,
        group: &str,
        schema: Arc<TableSchema>,
    ) -> Result<Option<Self>, Fault> {
        let mut table = lake.table(location)?;
        if !table.verify_deltatable_existence().await.map_err(|e| fault::delta("looking for it", &e))? {
            return Ok(None);
        }
        table.load().await.map_err(|e| fault::delta("opening it", &e))?;
        let state = table.snapshot().map_err(|e| fault::delta("opening it", &e))?;
        let schema = Arc::new(layout::partitioned_as(&schema, state)?);
        let mut transactions = Transactions::default();
        transactions.follow(&table).await?;
        let mut replica = Self {
            name: name.to_owned(),
            stored: Arc::clone(&schema),
            declared: schema,
            group: group.to_owned(),
            floor: transactions.floor(&table).await?,
            epoch: transactions.epoch(&table).await?,
            transactions,
            table,
            context: create_session().into(),
            partitions: BTreeSet::new(),
            positions: Checkpoint::new(),
            is_stale: false,
            commits: 0,
            work: Work::default(),
        };
        replica.read_columns()?;
        replica.prepare(&replica.context)?;
        Ok(Some(replica))
    }

    /// Lets queries of `context` reach the table's store.
    ///
    /// # Errors
    /// A halt where the store cannot be registered.
    pub fn prepare(&self, context: &SessionContext) -> Result<(), Fault> {
        self.table.update_datafusion_session(&context.state()).map_err(|e| fault::delta("registering the store", &e))
    }

    /// Takes over the columns that the table has in its newest known version.
    fn read_columns(&mut self) -> Result<(), Fault> {
        let state = self.table.snapshot().map_err(|e| fault::delta("reading its columns", &e))?;
        let stored = schema::of_table(&self.declared, &state.snapshot().arrow_schema())?;
        let declared = |column: &&Column| self.declared.columns().iter().any(|declared| declared.name == column.name);
        let widened = self.declared.holding(stored.columns().iter().filter(declared).cloned());
        if let Some(widened) = widened.map_err(Fault::halt)? {
            self.declared = Arc::new(widened);
        }
        self.stored = Arc::new(stored);
        Ok(())
    }

    /// The properties of `layout` that the table has not, as [`Self::open_laid_out`] would set them.
    ///
    /// # Errors
    /// A fault of the store.
    pub fn lacks(&self, layout: &Layout) -> Result<BTreeMap<String, String>, Fault> {
        Ok(layout.missing_in(&self.table)?.into_iter().collect())
    }

    /// The table's newest known version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.table.version().unwrap_or_default()
    }

    /// Goes to an earlier version, for queries.
    ///
    /// # Errors
    /// A fault of the store, or a halt where there is no such version.
    pub async fn travel_to(&mut self, version: u64) -> Result<(), Fault> {
        self.table.load_version(version).await.map_err(|e| fault::delta("reading an earlier version", &e))
    }

    /// The columns of the config, as wide as the table has them, and the key: what records are decoded into.
    #[must_use]
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.declared
    }

    /// The columns of the table that hold values of the source, each with its position there.
    #[must_use]
    pub fn source_columns(&self) -> Vec<(usize, Column)> {
        let stored = self.stored.columns().iter().enumerate();
        let of_source = stored.filter_map(|(position, stored)| {
            let mut known = self.declared.source_columns().filter(|column| column.name == stored.name);
            match known.next() {
                Some(known) => Some((position, Column { unfit: known.unfit, ..stored.clone() })),
                // a companion, or a column that came by growth
                None if self.declared.columns().iter().any(|column| column.name == stored.name) => None,
                None => Some((position, stored.clone())),
            }
        });
        of_source.collect()
    }

    /// The columns that the table has in its newest known version.
    #[must_use]
    pub fn stored(&self) -> &Arc<TableSchema> {
        &self.stored
    }

    /// What an event of a key that is not stored has to be above.
    #[must_use]
    pub fn floor(&self) -> Order {
        self.floor
    }

    /// The newest known version, for queries.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn provider(&self) -> Result<Arc<dyn TableProvider>, Fault> {
        self.table.table_provider().await.map_err(|e| fault::datafusion("reading the table", &e))
    }

    /// What would happen to each row of `changes`, if each came alone.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn preview(&self, changes: &ChangeBatch) -> Result<Vec<Verdict>, Fault> {
        guard::verdicts(&self.context, &self.table, &changes.schema, &changes.rows, self.floor).await
    }

    /// Begins the epoch since `since`, a broker timestamp: every row is soft-deleted below every order, and records from
    /// before are passed over from now on. Positions are those of the epoch, so reading begins anew. Nothing happens
    /// where the table has this epoch, or a later one, already; the answer says whether.
    ///
    /// # Errors
    /// A fault of the store.
    pub async fn begin_epoch(&mut self, since: i64) -> Result<bool, Fault> {
        loop {
            self.reload().await?;
            if self.epoch.since >= since {
                return Ok(false);
            }
            let mut transactions = vec![checkpoint::epoch_transaction(since)];
            transactions.extend(checkpoint::floor_transactions(Order::default()));
            let properties = checkpoint::commit_properties(transactions);
            match truncate::everything(self.table.clone(), &self.stored, properties).await {
                Ok(table) => {
                    self.table = table;
                    self.reload().await?;
                    return Ok(true);
                }
                Err(fault) if fault.remedy == Remedy::Redo => {}
                Err(fault) => return Err(at(&self.name, self.table.table_url().as_str(), &fault)),
            }
        }
    }

    async fn reload(&mut self) -> Result<(), Fault> {
        self.table.update_state().await.map_err(|e| fault::delta("reading the newest version", &e))?;
        self.read_columns()?;
        let Self { table, transactions, group, partitions, .. } = self;
        transactions.follow(table).await?;
        self.floor = transactions.floor(table).await?;
        self.epoch = transactions.epoch(table).await?;
        self.positions = transactions.positions(table, group, self.epoch.since, &*partitions).await?;
        self.is_stale = false;
        Ok(())
    }

    async fn apply_batch(&mut self, batch: &Batch, laps: &mut Laps) -> Result<Applied, Fault> {
        let grown = schema::grow(&self.context, &self.table, &self.stored, &batch.changes.schema).await?;
        if let Some((table, columns)) = grown {
            (self.table, self.stored) = (table, Arc::new(columns));
            self.commits += 1;
        }
        let changes = schema::conform(&batch.changes, &self.stored)?;
        let changes = moved::resolve(&self.context, &self.table, changes, self.floor).await?;
        let changes = changes.as_ref();
        laps.lap("resolve");
        let winners = newest::rows(changes).await?;
        let rows = take_record_batch(&changes.rows, &winners).map_err(Fault::halt)?;
        laps.lap("newest");
        let verdicts = guard::verdicts(&self.context, &self.table, &self.stored, &rows, self.floor).await?;
        let folded = fold::fold(changes, &winners, &verdicts, self.floor).map_err(Fault::halt)?;
        laps.lap("guard");
        if !folded.unresolved.is_empty() {
            return Ok(Applied::Unresolved(folded.unresolved));
        }

        let mut counts = self.count(changes, &verdicts, &rows);
        let truncate = changes.truncate.filter(|&order| order > self.floor);
        counts.guarded += u64::from(changes.truncate.is_some() && truncate.is_none());
        counts.truncated = truncate.is_some();
        let winners = Winners::passed(&folded, &verdicts).map_err(Fault::halt)?;
        if winners.rows.num_rows() == 0 && truncate.is_none() {
            return Ok(Applied::NothingToDo(counts));
        }

        // the positions go into the last commit of the batch
        let mut transactions =
            checkpoint::transactions(&self.group, self.epoch.since, &batch.positions, &self.positions);
        if winners.rows.num_rows() > 0 {
            let transactions = if truncate.is_some() { Vec::new() } else { std::mem::take(&mut transactions) };
            let properties = checkpoint::commit_properties(transactions);
            let table = self.table.clone();
            self.table = merge::write(&self.context, table, &self.stored, winners, properties, &mut laps.work).await?;
            self.commits += 1;
        }
        if let Some(order) = truncate {
            transactions.extend(checkpoint::floor_transactions(order));
            let properties = checkpoint::commit_properties(transactions);
            (self.table, counts.emptied) = truncate::apply(self.table.clone(), &self.stored, order, properties).await?;
            self.floor = order;
            self.commits += 1;
        }
        laps.lap("merge");
        for (partition, position) in &batch.positions {
            let known = self.positions.entry(partition.clone()).or_default();
            *known = (*known).max(*position);
        }
        Ok(Applied::Committed { version: self.version(), rows: counts })
    }

    fn count(&self, changes: &ChangeBatch, verdicts: &[Verdict], winners: &RecordBatch) -> RowCounts {
        let deleted = winners.column(self.stored.columns().len() + 2).as_boolean();
        let mut counts =
            RowCounts { superseded: (changes.rows.num_rows() - verdicts.len()) as u64, ..RowCounts::default() };
        for (i, verdict) in verdicts.iter().enumerate() {
            match verdict {
                _ if verdict.is_guarded() => counts.guarded += 1,
                _ if deleted.value(i) => counts.deleted += 1,
                Verdict::Insert => counts.inserted += 1,
                _ => counts.updated += 1,
            }
        }
        counts
    }
}

fn at(name: &str, location: &str, fault: &Fault) -> Fault {
    Fault { message: format!("table `{name}` at {location}: {}", fault.message), remedy: fault.remedy }
}

impl Replica for DeltaReplica {
    async fn checkpoint(&mut self, partitions: &[TopicPartition]) -> Result<Checkpoint, Fault> {
        self.partitions.extend(partitions.iter().cloned());
        self.reload().await?;
        let known = |partition| self.positions.get_key_value(partition);
        Ok(partitions.iter().filter_map(known).map(|(partition, position)| (partition.clone(), *position)).collect())
    }

    fn held(&self, partition: &TopicPartition) -> i64 {
        self.positions.get(partition).map_or(0, |position| position.offset)
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    async fn rewind(&mut self, positions: &Checkpoint) -> Result<(), Fault> {
        let named: Vec<_> = positions.keys().cloned().collect();
        loop {
            let known = self.checkpoint(&named).await?;
            let transactions = checkpoint::rewind(&self.group, self.epoch.since, positions, &known);
            let commit = commit::only(&mut self.table, checkpoint::commit_properties(transactions)).await;
            match commit.map_err(|e| fault::delta("setting positions back", &e)) {
                Err(fault) if fault.remedy == Remedy::Redo => {}
                Err(fault) => return Err(at(&self.name, self.table.table_url().as_str(), &fault)),
                Ok(()) => {
                    self.positions.extend(positions.clone());
                    return Ok(());
                }
            }
        }
    }

    async fn apply(&mut self, batch: &Batch) -> Result<Applied, Fault> {
        // a position is compared with the stored one before it is written, so that has to be known
        let known = self.partitions.len();
        self.partitions.extend(batch.positions.keys().cloned());
        if self.is_stale || self.partitions.len() > known {
            self.reload().await?;
        }
        if batch.epoch != self.epoch.since {
            return Err(Fault::halt(format!(
                "table `{}`: another member accepted a new epoch while this one was reading; start this member again",
                self.name
            )));
        }
        let mut laps = Laps::start();
        let applied = self.apply_batch(batch, &mut laps).await;
        self.work = laps.work;
        let applied = applied.map_err(|fault| at(&self.name, self.table.table_url().as_str(), &fault));
        self.is_stale = applied.is_err();
        applied
    }

    fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    async fn maintain(&mut self) -> Result<(), Fault> {
        let properties = self.table.snapshot().map_err(|e| fault::delta("reading its properties", &e))?.table_config();
        let every = properties.checkpoint_interval.map_or(LOG_CHECKPOINT_EVERY, NonZero::get);
        if self.commits < every {
            return Ok(());
        }
        let cleans_up = properties.enable_expired_log_cleanup();
        self.commits = 0;
        let checkpoint = deltalake_core::checkpoints::create_checkpoint(&self.table, None).await;
        checkpoint.map_err(|e| fault::delta("writing a log checkpoint", &e))?;
        if cleans_up {
            let cleaned = deltalake_core::checkpoints::cleanup_metadata(&self.table, None).await;
            cleaned.map_err(|e| fault::delta("cleaning up the log", &e))?;
        }
        tracing::debug!(table = self.name, version = self.version(), "wrote a log checkpoint");
        Ok(())
    }
}
