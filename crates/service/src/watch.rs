//! Looks at what is around the process, for its status: group, slot, connector, tables, dead letters, comparisons.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use monitor::{
    Group, Monitor, PartitionLag,
    status::{Files, Member, Rows, Slot},
};
use pipeline::{Fault, Letters, Replica as _, TopicPartition};
use replica_delta::{Census, DeltaReplica, Lake};
use source_kafka::{GroupState, GroupWatch};
use source_postgres::{SlotState, SlotWatch};
use tokio::time::{MissedTickBehavior, interval};

use crate::{
    assemble,
    config::{Config, TableConfig},
    reconcile,
};

/// How often servers are asked. Each question takes them some milliseconds.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// How often files are looked at: a table's census reads one column of it.
const READ_EVERY: Duration = Duration::from_secs(30);

/// Who looks.
pub(crate) struct Watch {
    config: Arc<Config>,
    monitor: Monitor,
}

impl Watch {
    /// At what `config` names, its tables in full.
    pub(crate) fn new(config: &Config, monitor: &Monitor) -> Self {
        Self { config: Arc::new(config.clone()), monitor: monitor.clone() }
    }

    /// Looks again and again.
    pub(crate) async fn on(self) {
        let mut servers = Servers::new(&self);
        let mut files = FilesWatch::new(&self);
        let ticking = async {
            let mut ticks = every(Monitor::TICK);
            loop {
                ticks.tick().await;
                self.monitor.tick();
            }
        };
        let asking = async {
            let mut ticks = every(ASK_EVERY);
            loop {
                ticks.tick().await;
                servers.look(&self).await;
            }
        };
        let reading = async {
            let mut ticks = every(READ_EVERY);
            loop {
                ticks.tick().await;
                files.look(&self).await;
            }
        };
        tokio::join!(ticking, asking, reading);
    }

    /// Looks once.
    pub(crate) async fn once(&self) {
        let (mut servers, mut files) = (Servers::new(self), FilesWatch::new(self));
        files.look(self).await;
        servers.look(self).await;
        // positions of the tables' own commits are known by partition, which the brokers have just told of
        files.look(self).await;
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The brokers, the source and Kafka Connect.
struct Servers {
    group: Option<Arc<GroupWatch>>,
    slot: Option<SlotWatch>,
}

impl Servers {
    fn new(watch: &Watch) -> Self {
        let slot = watch.config.source.as_ref().map(|source| {
            let settings = source.primary.as_ref().unwrap_or(&source.settings);
            SlotWatch::new(settings.clone(), source.slot.clone())
        });
        Self { group: None, slot }
    }

    async fn look(&mut self, watch: &Watch) {
        let Watch { config, monitor } = watch;
        let connector = async {
            if let Some(connect) = &config.connect {
                monitor.connector(connect.now().await);
            }
        };
        let slot = async {
            if let Some(slot) = &mut self.slot {
                let name = slot.name().unwrap_or_default().to_owned();
                monitor.slot(match slot.now().await {
                    Ok(Some(state)) => shown(state),
                    Ok(None) => Slot { name, missing: true, ..Slot::default() },
                    Err(error) => Slot { name, error: Some(error.to_string()), ..Slot::default() },
                });
            }
        };
        let group = async {
            let found = ask(&mut self.group, config).await;
            monitor.group(found.map(|found| of_group(&found)).map_err(|fault| fault.message));
        };
        tokio::join!(connector, slot, group);
    }
}

/// Asks the brokers, on a thread that may wait for them.
async fn ask(client: &mut Option<Arc<GroupWatch>>, config: &Arc<Config>) -> Result<GroupState, Fault> {
    let Some(kafka) = &config.kafka else { return Ok(GroupState::default()) };
    let client = match client {
        Some(client) => Arc::clone(client),
        None => Arc::clone(client.insert(Arc::new(GroupWatch::new(kafka)?))),
    };
    let config = Arc::clone(config);
    let asked = tokio::task::spawn_blocking(move || {
        let topics: Vec<&str> = config.tables.iter().map(|table| table.topic.as_str()).collect();
        client.now(&topics)
    });
    asked.await.map_err(|error| Fault::retry(format!("asking how the group is doing: {error}")))?
}

fn of_group(found: &GroupState) -> Group {
    let owner = |partition: &TopicPartition| {
        let owner = found.members.iter().find(|member| member.partitions.contains(partition));
        owner.map(|member| member.id.clone())
    };
    let mut topics = BTreeMap::<String, Vec<PartitionLag>>::new();
    for state in &found.partitions {
        topics.entry(state.partition.topic.to_string()).or_default().push(PartitionLag {
            partition: state.partition.partition,
            low: state.low,
            end: state.end,
            committed: state.committed,
            member: owner(&state.partition),
        });
    }
    let members = found.members.iter().map(|member| Member {
        id: member.id.clone(),
        client: member.client.clone(),
        host: member.host.clone(),
        partitions: member.partitions.iter().map(ToString::to_string).collect(),
    });
    Group { members: members.collect(), topics }
}

fn shown(state: SlotState) -> Slot {
    Slot {
        name: state.name,
        active: state.active,
        wal_status: state.wal_status,
        retained_bytes: state.retained_bytes,
        safe_wal_bytes: state.safe_wal_bytes,
        limit_bytes: state.limit_bytes,
        confirmed_lsn: state.confirmed.map(|lsn| lsn.to_string()),
        restart_lsn: state.restart.map(|lsn| lsn.to_string()),
        missing: false,
        error: None,
    }
}

/// The tables, the dead letters, and what comparisons have found.
struct FilesWatch {
    lake: Lake,
    replicas: BTreeMap<String, DeltaReplica>,
    /// The version in which each table was counted.
    counted: BTreeMap<String, u64>,
    letters: Option<(SystemTime, u64)>,
}

impl FilesWatch {
    fn new(watch: &Watch) -> Self {
        Self { lake: assemble::lake(&watch.config), replicas: BTreeMap::new(), counted: BTreeMap::new(), letters: None }
    }

    async fn look(&mut self, watch: &Watch) {
        let Watch { config, monitor } = watch;
        self.letters(config, monitor);
        if let Some(path) = &config.reconcile_state {
            match reconcile::found(path) {
                Ok(found) => monitor.verified(found),
                Err(error) => tracing::debug!("{error:#}"),
            }
        }
        for table in &config.tables {
            if let Err(fault) = self.table(table, watch).await {
                // whoever writes the table meets it too, and says so
                tracing::debug!(table = table.name, "looking at the table: {fault}");
                self.replicas.remove(&table.name);
            }
        }
    }
}

impl FilesWatch {
    /// A table's version, what its commits hold, and what it consists of.
    async fn table(&mut self, table: &TableConfig, watch: &Watch) -> Result<(), Fault> {
        let Watch { config, monitor } = watch;
        let TableConfig { name, location, schema, .. } = table;
        if !self.replicas.contains_key(name) {
            let group = config.kafka.as_ref().map_or("", |kafka| kafka.group.as_str());
            let found = DeltaReplica::existing(&self.lake, name, location, group, Arc::clone(schema)).await?;
            let Some(replica) = found else { return Ok(()) };
            self.replicas.insert(name.clone(), replica);
        }
        let Some(replica) = self.replicas.get_mut(name) else { return Ok(()) };
        let checkpoint = replica.checkpoint(&monitor.partitions(name)).await?;
        let offsets = checkpoint.into_iter().map(|(partition, position)| (partition.partition, position.offset));
        monitor.checkpoint(name, replica.version(), offsets.collect());
        if self.counted.get(name) != Some(&replica.version()) {
            let Census { live, deleted, files, small_files: small, bytes, log_commits } = replica.census().await?;
            let files = Files { count: files, small, bytes, log_since_checkpoint: log_commits };
            monitor.census(name, Rows { live, deleted }, files);
            self.counted.insert(name.clone(), replica.version());
        }
        Ok(())
    }

    /// Counts the dead letters again where their file has changed. One that cannot be read is told of by whoever needs it.
    fn letters(&mut self, config: &Config, monitor: &Monitor) {
        let Some(path) = &config.dead_letters else { return };
        let path = Path::new(path);
        let state = std::fs::metadata(path).and_then(|found| Ok((found.modified()?, found.len()))).ok();
        if state == self.letters {
            return;
        }
        let mut waiting = BTreeMap::<String, u64>::new();
        match Letters::read(path) {
            Ok(letters) => {
                for place in letters.iter().flat_map(Letters::places) {
                    *waiting.entry(place.table.to_string()).or_default() += 1;
                }
                monitor.letters(&waiting);
                self.letters = state;
            }
            Err(fault) => tracing::debug!("counting the dead letters: {fault}"),
        }
    }
}
