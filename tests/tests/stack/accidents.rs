//! Accidents with offsets, topics and LSNs: each halts its table by name or is mended without a hand, nothing is skipped, the other
//! table of the process goes on, and the command that the log names works.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use futures::executor::block_on;
use highwater_tests::broker::Broker;
use highwater_tests::highwater::binary;
use highwater_tests::kafka::Kafka;
use highwater_tests::process::{Process, Program};
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::wait;
use highwater_tests::stack::shared;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rustix::process::Signal;

use crate::command::{Said, highwater};
use crate::verdict::figures;

const PATIENCE: Duration = Duration::from_mins(1);

/// Two tables of one process: `things`, which has the accident, and `others`, which goes on.
struct Case {
    broker: Broker,
    name: String,
    folder: PathBuf,
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| i64::try_from(now.as_millis()).ok()).unwrap_or(0)
}

fn admin(broker: &Broker) -> Result<AdminClient<DefaultClientContext>> {
    let mut config = ClientConfig::new();
    Ok(config.set("bootstrap.servers", &broker.bootstrap).set("broker.address.family", "v4").create()?)
}

impl Case {
    fn new(broker: Broker, scratch: &Scratch, name: &str) -> Result<Self> {
        let case =
            Self { broker, name: format!("accidents.{name}"), folder: scratch.folder(&format!("accidents-{name}"))? };
        case.broker.create_topic(&case.topic(), 2)?;
        case.broker.create_topic(&case.other(), 1)?;
        case.configure(&case.broker, "halt")?;
        Ok(case)
    }

    fn topic(&self) -> String {
        format!("{}.things", self.name)
    }

    fn other(&self) -> String {
        format!("{}.others", self.name)
    }

    fn table(&self) -> PathBuf {
        self.folder.join("things")
    }

    fn config(&self) -> String {
        self.folder.join("highwater.toml").to_string_lossy().into_owned()
    }

    fn configure(&self, broker: &Broker, on_error: &str) -> Result<()> {
        let (name, folder) = (&self.name, self.folder.display());
        let table = |table: &str| {
            format!(
                "[[table]]\nname = \"{table}\"\ntopic = \"{name}.{table}\"\nlocation = \"{folder}/{table}\"\nkey = [\"id\"]\n\
                 on_error = \"{on_error}\"\ncolumns = {{ id = \"long\", note = \"string\" }}\n"
            )
        };
        let text = format!(
            "[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"{name}\"\n[kafka.options]\n\
             \"topic.metadata.refresh.interval.ms\" = \"500\"\n[batch]\nage = \"300ms\"\n[dead_letters]\npath = \"{folder}/dead.ndjson\"\n{}{}",
            broker.bootstrap,
            table("things"),
            table("others"),
        );
        Ok(fs::write(self.config(), text)?)
    }

    /// One event of a row; a snapshot row is as old as `taken_at`.
    fn put(&self, topic: &str, partition: usize, id: i64, lsn: i64, taken_at: Option<i64>) -> Result<()> {
        let key = format!(r#"{{"id":{id}}}"#);
        let (op, kind, before, at) = match taken_at {
            Some(at) => ("r", "true", "null".to_owned(), at),
            None => ("c", "false", format!(r#"\"{lsn}\""#), now()),
        };
        let value = format!(
            r#"{{"op":"{op}","after":{{"id":{id},"note":"at {lsn}"}},"source":{{"ts_ms":{at},"snapshot":"{kind}","lsn":{lsn},"sequence":"[{before},\"{lsn}\"]"}}}}"#
        );
        self.broker.produce(topic, partition, Some(key.as_bytes()), Some(value.as_bytes()))
    }

    /// Streams rows into partition 0 of `things`, and one into `others`, which has to arrive in any case.
    fn stream(&self, ids: std::ops::Range<i64>) -> Result<()> {
        for id in ids.clone() {
            self.put(&self.topic(), 0, id, 1000 + 8 * id, None)?;
        }
        self.put(&self.other(), 0, ids.end, 1000 + 8 * ids.end, None)
    }

    fn run(&self, more: &[&str]) -> Result<Said> {
        let config = self.config();
        highwater(["run", "--until-caught-up", "--config", &config].iter().chain(more))
    }

    /// Insists that `things` halts with these words, and that `others` has all that lies in its topic.
    fn halts(&self, words: &[&str]) -> Result<Said> {
        let said = self.run(&[])?;
        ensure!(!said.status.success(), "exit status 0: {}", said.stderr);
        let halted: Vec<_> = said.stderr.lines().filter(|line| line.contains("halted: ")).collect();
        ensure!(halted.len() == 1, "not one table halted: {}", said.stderr);
        for word in words {
            ensure!(halted[0].contains(word), "`{word}` is not in: {}", halted[0]);
        }
        self.other_is_whole()?;
        Ok(said)
    }

    fn other_is_whole(&self) -> Result<()> {
        let rows = self.query("select count(*) from others")?;
        let written = self.broker.count(&self.other())?;
        ensure!(rows == written.to_string(), "others has {rows} rows of {written}");
        Ok(())
    }

    fn query(&self, query: &str) -> Result<String> {
        let said = highwater(["sql", "--config", &self.config(), "--print", "csv", query])?.success()?;
        Ok(said.stdout.lines().skip(1).collect::<Vec<_>>().join(" "))
    }

    /// Insists on the keys of `things`, given as ranges: first, and the one after the last.
    fn has(&self, ids: &[(i64, i64)]) -> Result<()> {
        let found = self.query("select id from things_current order by id")?;
        let expected: Vec<_> = ids.iter().flat_map(|(first, end)| *first..*end).map(|id| id.to_string()).collect();
        ensure!(found == expected.join(" "), "{}: found {found}, expected {expected:?}", self.name);
        Ok(())
    }

    /// A replay changes nothing, also after the accident.
    fn replays(&self) -> Result<()> {
        let said = highwater(["replay", "--config", &self.config(), "--table", "things"])?.success()?;
        let number =
            |name: &str| said.stdout.split_whitespace().find_map(|word| word.strip_prefix(name).map(str::to_owned));
        ensure!(number("rows_changed=").as_deref() == Some("0"), "{}", said.stdout);
        ensure!(number("version_before=") == number("version_after="), "{}", said.stdout);
        Ok(())
    }

    fn start(&self) -> Result<Process> {
        Program::new("accidents-run", binary()?, self.folder.join("run.err"))
            .args(["run", "--config", &self.config()])
            .start()
    }

    fn committed(&self, topic: &str, expected: &[Option<i64>]) -> Result<()> {
        wait(PATIENCE, &format!("{expected:?} was not committed to {topic}"), || {
            Ok(self.broker.committed(&self.name, topic)? == expected)
        })
    }
}

fn logged(process: &mut Process, words: &str) -> Result<()> {
    let began = std::time::Instant::now();
    loop {
        let log = process.log();
        if log.contains(words) {
            return Ok(());
        }
        if let Some(status) = process.ended()? {
            bail!("it ended: {status}: {log}");
        }
        ensure!(began.elapsed() < PATIENCE, "`{words}` is not in: {log}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn records_that_retention_removed_before_they_were_read_halt_the_table_until_the_gap_is_accepted() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "gap")?;
    case.stream(0..10)?;
    case.run(&[])?.success()?;
    case.stream(10..20)?;
    case.broker.delete_records(&case.topic(), 0, 15)?;

    for _ in 0..2 {
        case.halts(&["things/0: offsets 10 to 14 are gone", "`highwater run --accept-gap things` goes on at 15"])?;
    }
    case.has(&[(0, 10)])?;
    // accepting it for another table, or something else, does not help
    for wrong in [["--accept-gap", "others"], ["--accept-topic", "things"]] {
        ensure!(!case.run(&wrong)?.status.success(), "{wrong:?} passed");
    }
    let said = case.run(&["--accept-gap", "things"])?.success()?;
    ensure!(said.stderr.contains("offsets 10 to 14 are gone") && said.stderr.contains("accepted"), "{}", said.stderr);
    case.has(&[(0, 10), (15, 20)])?;
    case.run(&[])?.success()?;
    case.replays()?;
    let unknown = case.run(&["--accept-gap", "nothing"])?;
    ensure!(!unknown.status.success() && unknown.stderr.contains("no table `nothing`"), "{}", unknown.stderr);
    figures("accidents: gap halted=2 accepted=1");
    Ok(())
}

#[test]
fn retention_that_overtakes_a_running_reader_halts_that_table_alone() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "overtaken")?;
    case.stream(0..10)?;
    let mut process = case.start()?;
    case.committed(&case.topic(), &[Some(10), None])?;
    process.freeze()?;
    // the fetch that waits at the broker comes back empty
    std::thread::sleep(Duration::from_secs(2));
    case.stream(10..20)?;
    case.broker.delete_records(&case.topic(), 0, 15)?;
    process.thaw()?;
    logged(&mut process, "offsets 10 to 14 are gone")?;
    case.stream(20..25)?;
    case.committed(&case.other(), &[Some(3)])?;
    ensure!(process.ended()?.is_none(), "the process ended: {}", process.log());
    ensure!(process.log().contains("--accept-gap things"), "{}", process.log());
    process.stop(Signal::TERM, Duration::from_secs(10))?;
    case.other_is_whole()?;
    case.has(&[(0, 10)])?;
    case.run(&["--accept-gap", "things"])?.success()?;
    case.has(&[(0, 10), (15, 25)])?;
    figures("accidents: overtaken halted=1");
    Ok(())
}

#[test]
fn a_topic_that_was_created_anew_halts_the_table_until_it_is_accepted_however_long_it_has_grown() -> Result<()> {
    let stack = shared()?;
    for (name, rows, sign) in [
        ("shorter", 3, "offset 10 is acknowledged but the topic ends at 3"),
        ("equal", 10, "the record before offset 10 is not the one that the table knows"),
        ("longer", 12, "the record before offset 10 is not the one that the table knows"),
    ] {
        let case = Case::new(stack.kafka.broker(), &stack.scratch, name)?;
        case.stream(0..10)?;
        case.run(&[])?.success()?;
        case.broker.delete_topic(&case.topic())?;
        case.broker.create_topic(&case.topic(), 2)?;
        case.stream(100..100 + rows)?;
        case.halts(&[sign, "`highwater run --accept-topic things`"]).context(name)?;
        case.has(&[(0, 10)])?;
        case.run(&["--accept-topic", "things"])?.success()?;
        case.has(&[(0, 10), (100, 100 + rows)])?;
        case.stream(200..202)?;
        let said = case.run(&[])?.success()?;
        ensure!(said.stderr.contains("table things: received=2 "), "{name}: {}", said.stderr);
        case.replays().context(name)?;
    }
    figures("accidents: created anew halted=3 accepted=3");
    Ok(())
}

#[test]
fn a_topic_that_is_created_anew_under_a_running_reader_halts_that_table_alone() -> Result<()> {
    let stack = shared()?;
    for (name, pause) in [("anew-late", Duration::from_secs(2)), ("anew-at-once", Duration::ZERO)] {
        let case = Case::new(stack.kafka.broker(), &stack.scratch, name)?;
        case.stream(0..10)?;
        let mut process = case.start()?;
        case.committed(&case.topic(), &[Some(10), None])?;
        case.broker.delete_topic(&case.topic())?;
        std::thread::sleep(pause);
        case.broker.create_topic(&case.topic(), 2)?;
        case.stream(100..103)?;
        logged(&mut process, "halted: ").context(name)?;
        case.stream(103..112)?;
        case.committed(&case.other(), &[Some(3)])?;
        ensure!(process.ended()?.is_none(), "{name}: the process ended: {}", process.log());
        let log = process.log();
        process.stop(Signal::TERM, Duration::from_secs(10))?;
        case.other_is_whole()?;
        case.run(&["--accept-topic", "things"])?.success()?;
        case.has(&[(0, 10), (100, 112)]).with_context(|| log.clone())?;
        let halted = log.lines().find_map(|line| Some(line.split_once("halted: ")?.1)).unwrap_or_default();
        figures(&format!("accidents: created anew while running, {name}: {halted}"));
    }
    Ok(())
}

#[test]
fn another_cluster_under_the_same_names_halts_the_table() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "cluster")?;
    case.stream(0..10)?;
    case.run(&[])?.success()?;
    let scratch = Scratch::new("cluster")?;
    let mut second = Kafka::start_new(&scratch)?;
    let elsewhere = Case { broker: second.broker(), name: case.name.clone(), folder: case.folder.clone() };
    elsewhere.broker.create_topic(&elsewhere.topic(), 2)?;
    elsewhere.broker.create_topic(&elsewhere.other(), 1)?;
    elsewhere.configure(&elsewhere.broker, "halt")?;
    // the other table has lain at the first cluster, too: of it, nothing was read there
    for id in 100..112 {
        elsewhere.put(&elsewhere.topic(), 0, id, 1000 + 8 * id, None)?;
    }
    let said = elsewhere.run(&[])?;
    ensure!(!said.status.success(), "exit status 0: {}", said.stderr);
    for words in ["the record before offset 10 is not the one", "offset 1 is acknowledged but the topic ends at 0"] {
        ensure!(said.stderr.contains(words), "`{words}` is not in: {}", said.stderr);
    }
    elsewhere.configure(&case.broker, "halt")?;
    case.stream(10..12)?;
    case.run(&[])?.success()?;
    case.has(&[(0, 12)])?;
    second.stop()?;
    figures("accidents: another cluster halted=2, back at the first received=2");
    Ok(())
}

#[test]
fn a_group_that_has_expired_goes_on_at_the_table_s_checkpoint() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "group")?;
    case.stream(0..10)?;
    case.run(&[])?.success()?;
    for deleted in block_on(admin(&case.broker)?.delete_groups(&[&case.name], &AdminOptions::new()))? {
        deleted.map_err(|(group, code)| anyhow::anyhow!("can't delete group {group}: {code}"))?;
    }
    ensure!(case.broker.committed(&case.name, &case.topic())? == [None, None]);
    case.stream(10..12)?;
    let said = case.run(&[])?.success()?;
    ensure!(said.stderr.contains("table things: received=2 "), "{}", said.stderr);
    case.has(&[(0, 12)])?;
    figures("accidents: expired group received=2");
    Ok(())
}

#[test]
fn a_table_that_was_deleted_is_filled_again_from_the_beginning_or_halts_where_that_is_gone() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "deleted")?;
    case.stream(0..10)?;
    case.run(&[])?.success()?;
    fs::remove_dir_all(case.table())?;
    case.stream(10..12)?;
    let said = case.run(&[])?.success()?;
    ensure!(said.stderr.contains("counts on commits that the table has not got"), "{}", said.stderr);
    case.has(&[(0, 12)])?;

    fs::remove_dir_all(case.table())?;
    case.broker.delete_records(&case.topic(), 0, 5)?;
    case.halts(&["offsets 0 to 4 are gone", "`highwater run --accept-gap things` goes on at 5"])?;
    case.run(&["--accept-gap", "things"])?.success()?;
    case.has(&[(5, 12)])?;
    case.run(&[])?.success()?;
    figures("accidents: deleted table refilled=1 halted=1 accepted=1");
    Ok(())
}

#[test]
fn a_table_that_was_restored_to_an_older_version_reads_again_what_it_lost() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "restored")?;
    for end in [10, 15, 20] {
        case.stream(end - 5..end)?;
        case.run(&[])?.success()?;
    }
    remove_newest_versions(&case.table(), 2)?;
    case.has(&[(5, 10)])?;
    let said = case.run(&[])?.success()?;
    ensure!(said.stderr.contains("restored to an older version; reading again from 5"), "{}", said.stderr);
    ensure!(said.stderr.contains("table things: received=10 "), "{}", said.stderr);
    case.has(&[(5, 20)])?;

    remove_newest_versions(&case.table(), 1)?;
    case.broker.delete_records(&case.topic(), 0, 7)?;
    case.halts(&["offsets 5 to 6 are gone"])?;
    case.run(&["--accept-gap", "things"])?.success()?;
    case.has(&[(5, 10), (12, 20)])?;
    figures("accidents: restored table received=10 halted=1");
    Ok(())
}

fn remove_newest_versions(table: &Path, count: usize) -> Result<()> {
    let mut versions: Vec<_> = fs::read_dir(table.join("_delta_log"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    versions.sort();
    for version in versions.iter().rev().take(count) {
        fs::remove_file(version)?;
    }
    Ok(())
}

#[test]
fn partitions_that_are_added_are_read_from_their_beginning_and_a_key_that_moves_stays_right() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "partitions")?;
    case.stream(0..5)?;
    let mut process = case.start()?;
    case.committed(&case.topic(), &[Some(5), None])?;
    let topic = case.topic();
    let more = NewPartitions::new(&topic, 3);
    for added in block_on(admin(&case.broker)?.create_partitions([&more], &AdminOptions::new()))? {
        added.map_err(|(topic, code)| anyhow::anyhow!("can't add partitions to {topic}: {code}"))?;
    }
    // key 7 has moved: its newer event may be read before the older one
    for _ in 0..3 {
        case.put(&case.topic(), 2, 7, 9000, None)?;
    }
    case.put(&case.topic(), 0, 7, 8000, None)?;
    case.committed(&case.topic(), &[Some(6), None, Some(3)])?;
    ensure!(process.ended()?.is_none(), "the process ended: {}", process.log());
    process.stop(Signal::TERM, Duration::from_secs(10))?;
    case.has(&[(0, 5), (7, 8)])?;
    ensure!(case.query("select note from things where id = 7")? == "at 9000");
    case.replays()?;
    figures("accidents: partitions added=1 received=4");
    Ok(())
}

#[test]
fn lsns_that_begin_again_halt_the_table_until_the_epoch_is_accepted() -> Result<()> {
    let stack = shared()?;
    let case = Case::new(stack.kafka.broker(), &stack.scratch, "epoch")?;
    case.configure(&case.broker, "dead-letter")?;
    case.stream(0..10)?;
    case.run(&[])?.success()?;
    std::thread::sleep(Duration::from_millis(20));

    // The restored database has the rows 3 and 5 to 11. Row 3 comes in a partition where nothing shows the accident: it looks stale,
    // and its offset is acknowledged, but it must not be lost.
    let taken_at = now();
    std::thread::sleep(Duration::from_millis(20));
    for id in 5..12 {
        case.put(&case.topic(), 0, id, 96, Some(taken_at))?;
    }
    case.put(&case.topic(), 1, 3, 96, Some(taken_at))?;
    case.put(&case.topic(), 0, 30, 200, None)?;
    case.put(&case.other(), 0, 99, 99_000, None)?;

    let accept = format!("things@{taken_at}");
    let remedy = format!("`highwater run --accept-epoch {accept}`");
    for _ in 0..2 {
        case.halts(&["a snapshot at LSN 0/60 lies below LSN", &remedy])?;
    }
    case.has(&[(0, 10)])?;
    ensure!(fs::read_to_string(case.folder.join("dead.ndjson")).unwrap_or_default().is_empty(), "a dead letter");

    let said = case.run(&["--accept-epoch", &accept])?.success()?;
    ensure!(said.stderr.contains("began a new epoch"), "{}", said.stderr);
    ensure!(said.stderr.contains("table things: received=19 merged=9 superseded=0 guarded=10 "), "{}", said.stderr);
    case.has(&[(3, 4), (5, 12), (30, 31)])?;
    ensure!(case.query("select count(*) from things where note = 'at 96'")? == "8");
    ensure!(case.query("select count(*) from things where is_deleted and source_lsn = 0")? == "4");
    case.replays()?;

    // the option may stay: nothing happens once the epoch has begun
    case.put(&case.topic(), 0, 31, 208, None)?;
    let said = case.run(&["--accept-epoch", &accept])?.success()?;
    ensure!(said.stderr.contains("table things: received=1 merged=1 "), "{}", said.stderr);
    case.run(&[])?.success()?;
    case.replays()?;
    figures("accidents: new epoch halted=2 guarded=10 merged=9");
    Ok(())
}
