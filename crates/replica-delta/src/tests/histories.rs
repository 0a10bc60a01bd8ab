//! The simulator's histories over the real replica, on a store that goes wrong; and the contract that both lakes keep.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::Int64Type,
};
use async_trait::async_trait;
use change::{
    Lsn, Order, TableSchema,
    model::{self, Row},
};
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path,
};
use pipeline::{Applied, Batch, Checkpoint, Epoch, Fault, Replica, TopicPartition};
use rand::Rng;
use sim::{
    check,
    connector::topic,
    contract::{self, Stage},
    lake::{self, Mishap, SimTable},
    member::{GROUP, Handle, schema},
    run::run_on,
    scenario::{Accident, Scenario},
    world::World,
};
use tokio::time::{Duration, sleep};

use crate::{DeltaReplica, Lake, checkpoint::Transactions};

/// A store as one member of a history reaches it: a write takes a moment and may be the last one of the member, and
/// what the history says goes wrong does. The kernel reads on a thread of its own, which does not know the history's
/// time, so reads only fail.
#[derive(Clone)]
struct Stormy {
    calm: Arc<InMemory>,
    handle: Handle,
    /// The store does not answer now.
    is_away: Arc<AtomicBool>,
}

impl Stormy {
    fn read(&self) -> Result<()> {
        if self.is_away.load(Ordering::SeqCst) { Err(away("the store does not answer")) } else { Ok(()) }
    }

    /// Until the store has got the write.
    async fn write(&self) -> Result<()> {
        self.handle.gate().await;
        if self.handle.world().lake.is_away() { Err(away("the store does not answer")) } else { Ok(()) }
    }
}

fn away(what: &'static str) -> Error {
    Error::Generic { store: "Stormy", source: what.into() }
}

impl fmt::Debug for Stormy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stormy")
    }
}

impl fmt::Display for Stormy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stormy")
    }
}

fn is_commit(location: &Path) -> bool {
    location.as_ref().contains("_delta_log/") && location.extension() == Some("json")
}

#[async_trait]
impl ObjectStore for Stormy {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mishap = if is_commit(location) { self.handle.world().lake.mishaps.pop() } else { None };
        if let Some(Mishap::Slow(time)) = mishap {
            sleep(time).await;
        }
        self.write().await?;
        if mishap == Some(Mishap::Fails) {
            self.handle.world().lake.failures += 1;
            return Err(away("the store failed before the write"));
        }
        let put = self.calm.put_opts(location, payload, options).await;
        if matches!(put, Err(Error::AlreadyExists { .. })) {
            self.handle.world().lake.conflicts += 1;
        }
        self.handle.gate().await;
        if mishap == Some(Mishap::AnswerLost) {
            self.handle.world().lake.lost_answers += 1;
            return Err(away("no answer to the write"));
        }
        put
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.write().await?;
        self.calm.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.read()?;
        self.calm.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.calm.delete_stream(locations)
    }

    /// Now and then the newest commit is not listed yet.
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, listed) = (self.clone(), self.calm.list(prefix));
        let lagging = async move {
            store.read()?;
            let mut listed: Vec<ObjectMeta> = listed.try_collect().await?;
            let newest = listed.iter().map(|found| &found.location).filter(|found| is_commit(found)).max().cloned();
            let is_lagging = store.handle.world().rng.random_ratio(1, 20);
            // the first commit says that there is a table at all
            if let Some(newest) = newest.filter(|newest| is_lagging && !newest.as_ref().ends_with("00000.json")) {
                listed.retain(|found| found.location != newest);
                store.handle.world().stats.listed_late += 1;
            }
            Ok::<_, Error>(stream::iter(listed.into_iter().map(Ok)))
        };
        stream::once(lagging).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.read()?;
        self.calm.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.write().await?;
        self.calm.copy_opts(from, to, options).await
    }
}

/// Real tables on one store that goes wrong.
#[derive(Clone, Default)]
struct Real {
    calm: Arc<InMemory>,
    partition_by: &'static [&'static str],
}

fn location(table: usize) -> String {
    format!("memory:///t{table}")
}

impl Real {
    fn partitioned_by(columns: &'static [&'static str]) -> Self {
        Self { partition_by: columns, ..Self::default() }
    }

    fn schema(&self) -> Arc<TableSchema> {
        Arc::new(TableSchema::clone(&schema()).partitioned_by(self.partition_by).unwrap())
    }

    /// A table's newest version, read past the storm.
    async fn read(&self, table: usize, schema: &Arc<TableSchema>) -> SimTable {
        let lake = Lake::over(Arc::clone(&self.calm) as _);
        let replica = DeltaReplica::open(&lake, "t", &location(table), GROUP, Arc::clone(schema)).await.unwrap();
        let context = SessionContext::new();
        replica.prepare(&context).unwrap();
        let frame = context.read_table(replica.provider().await.unwrap()).unwrap();
        let mut read = SimTable { version: replica.version(), ..SimTable::default() };
        read.rows = model::Replica::new(2);
        // all of one version: another member may be at work
        let log = &replica.table;
        let mut transactions = Transactions::default();
        transactions.follow(log).await.unwrap();
        read.rows.floor = transactions.floor(log).await.unwrap();
        read.epoch = replica.epoch();
        for batch in frame.collect().await.unwrap() {
            read.rows.rows.extend((0..batch.num_rows()).map(|row| stored(&batch, row)));
        }
        let partitions: Vec<_> = (0..16).map(|number| TopicPartition::new(topic(table), number)).collect();
        for group in [GROUP, "replay"] {
            let positions = transactions.positions(log, group, read.epoch.since, &partitions).await.unwrap();
            if !positions.is_empty() {
                read.positions.insert(group.to_owned(), positions);
            }
        }
        read
    }
}

fn stored(batch: &RecordBatch, row: usize) -> (i64, Row<String>) {
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let long = |name: &str| column(name).as_primitive::<Int64Type>().value(row);
    let lsn = |name: &str| Lsn::try_from(long(name)).unwrap();
    let text = |name: &str| {
        let texts = arrow::compute::cast(column(name), &arrow::datatypes::DataType::Utf8).unwrap();
        let texts = texts.as_string::<i32>();
        (!texts.is_null(row)).then(|| texts.value(row).to_owned())
    };
    let order = Order { anchor: lsn("source_anchor"), lsn: lsn("source_lsn") };
    let is_deleted = column("is_deleted").as_boolean().value(row);
    (long("id"), Row { order, is_deleted, values: vec![text("status"), text("note")] })
}

/// A real replica whose every new version is looked at.
struct Watched {
    inner: DeltaReplica,
    handle: Handle,
    lake: Real,
    table: usize,
    schema: Arc<TableSchema>,
    is_away: Arc<AtomicBool>,
}

impl Watched {
    /// A call is about to be made.
    async fn call(&self) {
        self.handle.gate().await;
        self.is_away.store(self.handle.world().lake.is_away(), Ordering::SeqCst);
    }

    async fn look(&self) {
        let newest = self.lake.read(self.table, &self.schema).await;
        let mut world = self.handle.world();
        if newest.version > world.lake.tables[self.table].version {
            check::commit(&mut world, self.table, newest, &self.handle.name());
        }
    }
}

impl Replica for Watched {
    async fn checkpoint(&mut self, partitions: &[TopicPartition]) -> std::result::Result<Checkpoint, Fault> {
        self.call().await;
        let read = self.inner.checkpoint(partitions).await;
        // what a member committed before it was killed is seen here first
        if read.is_ok() {
            self.look().await;
        }
        read
    }

    fn held(&self, partition: &TopicPartition) -> i64 {
        self.inner.held(partition)
    }

    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }

    async fn rewind(&mut self, positions: &Checkpoint) -> std::result::Result<(), Fault> {
        self.inner.rewind(positions).await
    }

    async fn apply(&mut self, batch: &Batch) -> std::result::Result<Applied, Fault> {
        self.call().await;
        let applied = self.inner.apply(batch).await;
        match &applied {
            Ok(_) => self.look().await,
            Err(fault) => self.handle.world().note(|| format!("{}: {fault}", self.handle.name())),
        }
        applied
    }

    async fn maintain(&mut self) -> std::result::Result<(), Fault> {
        self.inner.maintain().await
    }
}

impl lake::Lake for Real {
    type Replica = Watched;

    async fn open(&self, handle: &Handle, table: usize, group: &str) -> Watched {
        let (schema, is_away) = (self.schema(), Arc::<AtomicBool>::default());
        let (calm, handle) = (Arc::clone(&self.calm), handle.clone());
        let store = Stormy { calm, handle: handle.clone(), is_away: Arc::clone(&is_away) };
        let lake = Lake::over(Arc::new(store));
        let inner = loop {
            match DeltaReplica::open(&lake, "t", &location(table), group, Arc::clone(&schema)).await {
                Ok(inner) => break inner,
                Err(fault) => {
                    assert_ne!(fault.remedy, pipeline::Remedy::Halt, "{fault}");
                    sleep(Duration::from_millis(500)).await;
                }
            }
        };
        let lake = self.clone();
        Watched { inner, handle, lake, table, schema, is_away }
    }

    async fn table(&self, _: &Handle, table: usize) -> SimTable {
        self.read(table, &self.schema()).await
    }
}

#[test]
fn histories_over_real_tables_on_a_store_that_goes_wrong_keep_every_promise() {
    play(&[], 0..histories());
}

/// Every update moves its row to another partition, of `status`, or of `note`, which can be null.
#[test]
fn histories_over_partitioned_tables_on_a_store_that_goes_wrong_keep_every_promise() {
    for (partition_by, first) in [(&["note"][..], 1000), (&["note", "status"], 2000)] {
        play(partition_by, first..first + histories() / 3);
    }
}

fn play(partition_by: &'static [&'static str], seeds: std::ops::Range<u64>) {
    let (mut played, mut stats) = (0, sim::stats::Stats::default());
    for seed in seeds {
        let mut scenario = Scenario::draw(seed);
        // what befalls a table is shown by `epochs`, and on the real stack
        scenario.accident = scenario.accident.filter(|&accident| accident == Accident::NewTopic);
        let outcome = run_on(Real::partitioned_by(partition_by), &scenario, true);
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}\n{}", outcome.violations, outcome.trace.join("\n"));
        stats += outcome.stats;
        played += 1;
    }
    eprintln!("{played} histories over real tables by {partition_by:?}: {stats}");
}

/// How many histories are played; a long run names more.
fn histories() -> u64 {
    std::env::var("HIGHWATER_HISTORIES").map_or(25, |count| count.parse().unwrap())
}

struct Alone {
    real: Real,
    world: Arc<Mutex<World>>,
}

impl Stage for Alone {
    type Replica = Watched;

    async fn writer(&self) -> Watched {
        lake::Lake::open(&self.real, &Handle::new(&self.world, 0), 0, GROUP).await
    }

    async fn table(&self) -> SimTable {
        self.real.read(0, &self.real.schema()).await
    }

    fn next(&self, mishap: Mishap) {
        self.world.lock().unwrap().lake.mishaps.push(mishap);
    }
}

#[test]
fn the_real_lake_keeps_the_contract() {
    keeps_the_contract(&[]);
}

#[test]
fn the_real_lake_keeps_the_contract_in_partitions() {
    keeps_the_contract(&["status"]);
}

fn keeps_the_contract(partition_by: &'static [&'static str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let scenario = Scenario { tables: 1, members: 1, ..Scenario::draw(0) };
    runtime.block_on(contract::every_case(|| Alone {
        real: Real::partitioned_by(partition_by),
        world: Arc::new(Mutex::new(World::new(&scenario, false))),
    }));
}
