//! A real broker, topics full of generated envelopes, and highwater processes that read them.

use std::{
    fmt::Write as _,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use highwater_tests::{
    broker::Broker,
    highwater::{binary, number},
    kafka::Kafka,
    process::{Process, Program},
    scratch::Scratch,
};
use pipeline::Records;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(10);
const PARTITIONS: usize = 8;

/// The broker, and a folder for everything.
pub(crate) struct Lab {
    _kafka: Kafka,
    broker: Broker,
    scratch: Scratch,
}

impl Lab {
    pub(crate) fn start() -> Result<Self> {
        let scratch = Scratch::new("bench")?;
        let kafka = Kafka::start_new(&scratch)?;
        Ok(Self { broker: kafka.broker(), _kafka: kafka, scratch })
    }

    /// Empty topics of a run, and the group that is to read them.
    pub(crate) fn group(&self, name: &str, tables: usize, settings: &str) -> Result<Group> {
        let topics: Vec<_> = (1..=tables).map(|table| format!("{name}.public.orders_{table}")).collect();
        for topic in &topics {
            self.broker.create_topic(topic, PARTITIONS)?;
        }
        let topics = Topics { broker: self.broker.clone(), names: topics };
        let home = self.scratch.folder(name)?;
        let bootstrap = &self.broker.bootstrap;
        let mut config = format!("{settings}\n[kafka]\nbootstrap_servers = \"{bootstrap}\"\ngroup = \"{name}\"\n");
        for topic in &topics.names {
            let location = home.join(topic);
            write!(
                config,
                r#"
[[table]]
name = "{}"
topic = "{topic}"
location = "{}"
key = ["order_id"]
[table.columns]
order_id = "long"
customer_id = "long"
status = "string"
amount = "decimal(12,2)@text"
updated_at = "timestamp"
"#,
                topic.replace('.', "_"),
                location.display()
            )?;
        }
        Ok(Group { name: name.to_owned(), topics, home, config, binary: binary()?, members: Vec::new() })
    }
}

/// The topics of a group.
#[derive(Clone)]
pub(crate) struct Topics {
    broker: Broker,
    names: Vec<String>,
}

impl Topics {
    /// Fills them in turn.
    pub(crate) fn fill(&self, blocks: impl Iterator<Item = Records>) -> Result<u64> {
        let mut events = 0;
        for (block, topic) in blocks.zip(self.names.iter().cycle()) {
            let records = (0..block.len()).filter_map(|index| block.get(index));
            let records = records.filter_map(|(_, record)| Some((record.key?, record.value?)));
            self.broker.produce_all(topic, records)?;
            events += block.len() as u64;
        }
        Ok(events)
    }
}

/// Members of one consumer group.
pub(crate) struct Group {
    name: String,
    pub(crate) topics: Topics,
    home: PathBuf,
    config: String,
    binary: PathBuf,
    pub(crate) members: Vec<Process>,
}

impl Group {
    fn program(&self, command: &[&str], options: &str) -> Result<Program> {
        let name = format!("member-{}", self.members.len());
        let config = self.home.join(format!("{name}.toml"));
        std::fs::write(&config, format!("{}\n{options}", self.config))?;
        let log = self.home.join(format!("{name}-{}.err", command.len()));
        let program = Program::new(&name, &self.binary, log).args(["--verbose", command[0], "--config"]);
        Ok(program.args([&*config.to_string_lossy()]).args(command[1..].iter().copied()))
    }

    /// One more member.
    pub(crate) fn join(&mut self, options: &str) -> Result<()> {
        let process = self.program(&["run"], options)?.start()?;
        self.members.push(process);
        Ok(())
    }

    /// Waits until that many members own partitions.
    pub(crate) fn settled(&self, members: usize) -> Result<()> {
        wait("the group did not settle", || Ok(self.topics.broker.members(&self.name)? == members))
    }

    /// The acknowledged offsets of every partition.
    pub(crate) fn acknowledged(&self) -> Result<Vec<i64>> {
        let Topics { broker, names } = &self.topics;
        let of_topic = |topic: &String| broker.committed(&self.name, topic);
        let offsets = names.iter().map(of_topic).collect::<Result<Vec<_>>>()?;
        Ok(offsets.into_iter().flatten().map(Option::unwrap_or_default).collect())
    }

    /// Waits until everything in the topics is acknowledged.
    pub(crate) fn caught_up(&mut self) -> Result<()> {
        let Topics { broker, names } = &self.topics;
        let ends = names.iter().map(|topic| broker.end_offsets(topic)).collect::<Result<Vec<_>>>()?.concat();
        wait("the group did not come to the end", || {
            self.alive()?;
            Ok(self.acknowledged()? == ends)
        })
    }

    /// Waits until every partition has moved on from `offsets`.
    pub(crate) fn moved_on(&self, offsets: &[i64]) -> Result<()> {
        let moved = || Ok(self.acknowledged()?.iter().zip(offsets).all(|(now, then)| now > then));
        wait("a partition stands still", moved)
    }

    fn alive(&mut self) -> Result<()> {
        for member in &mut self.members {
            ensure!(member.ended()?.is_none(), "{} ended:\n{}", member.name(), member.log());
        }
        Ok(())
    }

    /// The newest version of the first table.
    pub(crate) fn version(&self) -> Option<u64> {
        let log = std::fs::read_dir(self.home.join(&self.topics.names[0]).join("_delta_log")).ok()?;
        log.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.parse().ok()).max()
    }

    /// Reads to the end in one process, and gives its peak memory in MiB.
    pub(crate) fn catch_up(&self, options: &str) -> Result<u64> {
        let mut process = self.program(&["run", "--until-caught-up"], options)?.start()?;
        let status = PathBuf::from(format!("/proc/{}/status", process.id()));
        let mut peak = 0;
        let ended = loop {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            peak = number(&text, "VmHWM:\t").map_or(peak, |kib| peak.max(kib.unsigned_abs() / 1024));
            if let Some(ended) = process.ended()? {
                break ended;
            }
            thread::sleep(Duration::from_millis(50));
        };
        ensure!(ended.success(), "{ended}:\n{}", process.log());
        Ok(peak)
    }

    /// What the members' logs say.
    pub(crate) fn logs(&self) -> String {
        self.members.iter().map(Process::log).collect()
    }
}

/// The times of durable batches in a log, in milliseconds, in order of size.
pub(crate) fn batch_times(log: &str) -> Vec<i64> {
    let durable = log.lines().filter(|line| line.contains("batch is durable"));
    let mut times: Vec<_> = durable.filter_map(|line| number(line, "took_ms")).collect();
    times.sort_unstable();
    times
}

fn wait(complaint: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !ready()? {
        ensure!(start.elapsed() < PATIENCE, "{complaint}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
