//! A topic that carries the changes of several tables of the source.

use std::time::Duration;

use anyhow::{Result, ensure};
use highwater_tests::connector::Connector;
use highwater_tests::highwater::Highwater;
use highwater_tests::postgres::Database;
use highwater_tests::process::Signal;
use highwater_tests::shop::wait;
use highwater_tests::stack::{repository_file, shared};

use crate::verdict::figures;

const NAME: &str = "routing";
const PATIENCE: Duration = Duration::from_mins(2);

/// Both have the same keys and a column of one name, so that a row of the other table would be seen.
const TABLES: &str = r"
create table events (id bigint, month int, note text, primary key (id, month)) partition by list (month);
create table events_1 partition of events for values in (1);
create table events_2 partition of events for values in (2);
create table notes (id bigint primary key, note text);
alter table events_1 replica identity full;
alter table events_2 replica identity full;
grant select on events, events_1, events_2, notes to cdc;
alter publication shop_pub add table events, notes;
insert into events select n, 1 + n % 2, 'event ' || n from generate_series(1, 500) n;
insert into notes select n, 'note ' || n from generate_series(1, 700) n;
";

/// Rows of `events` go from one partition to another, and back in one transaction.
const CHANGES: &str = r"
update events set month = 3 - month, note = note || ' moved' where id % 3 = 0;
update events set note = note || ' again' where id % 4 = 0;
begin;
update events set month = 3 - month where id % 5 = 0;
update events set month = 3 - month, note = note || ' back' where id % 10 = 0;
commit;
delete from events where id % 7 = 0;
insert into events select n, 2, 'anew' from generate_series(7, 500, 14) n;
delete from notes where id % 2 = 0;
update notes set note = 'changed' where id % 3 = 0;
";

/// A replica of some tables of the topic, by a process and a group of its own.
struct Side {
    highwater: Highwater,
    columns: &'static str,
    table: &'static str,
}

impl Side {
    fn is_equal(&self, database: &Database) -> Result<bool> {
        let Self { highwater, columns, table } = self;
        if highwater.version().is_none() {
            return Ok(false);
        }
        let list = columns.replace(", ", ", ',', ");
        let rows = format!("select coalesce(string_agg(concat({list}), E'\\n' order by id), '') from {table}");
        let source: String = database.value(&rows)?;
        let replica = highwater.sql(&format!("select {columns} from {table}_current order by id"))?;
        Ok(replica.lines().skip(1).eq(source.lines()))
    }
}

#[test]
fn tables_that_share_a_topic_are_told_apart_and_the_partitions_of_one_are_merged() -> Result<()> {
    let stack = shared()?;
    let database = stack.postgres.create_database(NAME)?;
    database.execute(&repository_file("sql/source.sql")?)?;
    database.execute(TABLES)?;
    let (broker, worker) = (stack.kafka.broker(), stack.connect.worker());
    let topic = format!("{NAME}.all");
    broker.create_topic(&topic, 3)?;
    let connector = Connector::new(NAME, &database, &worker);
    let settings = [
        ("table.include.list", "public.events_1,public.events_2,public.notes"),
        ("message.key.columns", "public.events_1:id;public.events_2:id"),
        ("transforms", "route"),
        ("transforms.route.type", "io.debezium.transforms.ByLogicalTableRouter"),
        ("transforms.route.topic.regex", r"(\w+)\.public\.(events_\d|notes)"),
        ("transforms.route.topic.replacement", "$1.all"),
        ("transforms.route.key.enforce.uniqueness", "false"),
    ];
    connector.register(&settings.map(|(name, value)| (name, value.to_owned())))?;
    connector.wait_streaming()?;

    let side = |table: &'static str, sources: &str, columns: &'static str, types: &str| -> Result<Side> {
        let home = stack.scratch.folder(&format!("{NAME}_{table}"))?;
        let location = home.join("lake").join(table);
        let section = format!(
            "[[table]]\nname = \"{table}\"\ntopic = \"{topic}\"\n{sources}\nlocation = \"{}\"\nkey = [\"id\"]\ncolumns = {types}\n",
            location.display()
        );
        let group = format!("highwater-{NAME}-{table}");
        let highwater = Highwater::configure_tables(&home, &broker, &group, &location, &section)?;
        Ok(Side { highwater, columns, table })
    };
    let events = side(
        "events",
        r"sources = 'public\.events_\d'",
        "id, month, note",
        r#"{ id = "long", month = "int", note = "string" }"#,
    )?;
    let notes = side("notes", "source = \"public.notes\"", "id, note", r#"{ id = "long", note = "string" }"#)?;

    let (mut merging, mut single) = (events.highwater.run()?, notes.highwater.run()?);
    let both = || Ok(events.is_equal(&database)? && notes.is_equal(&database)?);
    wait(PATIENCE, "the snapshots do not arrive", both)?;
    database.execute(CHANGES)?;
    merging.stop(Signal::KILL, Duration::from_secs(10))?;
    merging = events.highwater.run()?;
    wait(PATIENCE, "the changes do not arrive", both)?;
    let rows: i64 = database.value("select (select count(*) from events) + (select count(*) from notes)")?;
    for Side { highwater, table, .. } in [&events, &notes] {
        let replay = highwater.replay_of(table)?;
        ensure!(replay.rows_changed == 0 && replay.version_before == replay.version_after, "{replay:?}");
    }

    // a truncate is of its table alone, and of one partition it cannot be carried out
    database.execute("truncate notes; update events set note = 'the last one' where id = 1")?;
    wait(PATIENCE, "the truncate does not arrive", both)?;
    database.execute("truncate events_1")?;
    wait(PATIENCE, "a truncated partition halts nothing", || {
        Ok(merging.log().contains("one of several tables of the source was truncated"))
    })?;
    wait(PATIENCE, "a halted table does not end its process", || Ok(merging.ended()?.is_some()))?;
    ensure!(notes.is_equal(&database)? && single.ended()?.is_none(), "{}", single.log());
    notes.highwater.stop(single)?;
    figures(&format!("routing: rows_compared={rows} records={}", broker.count(&topic)?));
    Ok(())
}
