//! A PostgreSQL table with a column of every type, a connector for each set of modes, and a replica of each of their topics.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use highwater_tests::broker::{Broker, Record};
use highwater_tests::connector::Connector;
use highwater_tests::highwater::Highwater;
use highwater_tests::postgres::Database;
use highwater_tests::process::Process;
use highwater_tests::shop::wait;
use highwater_tests::stack::{HOST, Stack, repository_file};
use postgres::{Client, SimpleQueryMessage};
use serde_json::Value;

use super::columns::{COLUMNS, Column};
use super::modes::{MODES, Mode};

/// What a cell holds, in the one form that both sides have.
pub(crate) type Text = Option<String>;
/// The cells of each row by its id, in the order of the columns.
pub(crate) type Rows = BTreeMap<i64, Vec<Text>>;

const DELIVERY: Duration = Duration::from_mins(2);

/// The types, and functions that write as Debezium does what PostgreSQL has no function for: a point with its Well-Known Binary, and
/// bits as bytes, the last eight bits first, up to the first bit that is set.
const PREPARE: &str = r"
create extension hstore;
create extension citext;
create extension ltree;
create type mood as enum ('sad', 'ok', 'happy');
create domain price as numeric(10,4) check (value >= 0);
create type pair as (a int, b text);
create function little_endian(number float8) returns bytea language sql as $$
  select string_agg(substr(float8send(number), 9 - n, 1), '' order by n) from generate_series(1, 8) n
$$;
create function point_as_json(p point) returns json strict language sql as $$
  select json_build_object('x', p[0], 'y', p[1], 'srid', null, 'wkb',
    encode('\x0101000000'::bytea || little_endian(p[0]) || little_endian(p[1]), 'base64'))
$$;
create function bits_as_bytes(bits varbit) returns bytea strict language sql as $$
  select coalesce(string_agg(set_byte('\x00', 0, substring(padded from n * 8 + 1 for 8)::bit(8)::int), '' order by n desc), '')
  from (select lpad(ltrim(bits::text, '0'), (length(bits) + 7) / 8 * 8, '0') as padded) p, generate_series(0, (length(bits) + 7) / 8 - 1) n
  where ltrim(left(padded, n * 8 + 8), '0') <> ''
$$;
";

/// The source with all that follows it.
#[derive(Debug)]
pub(crate) struct Source {
    name: &'static str,
    database: Database,
    broker: Broker,
    connectors: Vec<(Mode, Connector)>,
    /// What a mode carries, by its declarations.
    columns: BTreeMap<Mode, Vec<(&'static Column, String)>>,
    /// How many records each topic holds by now.
    records: Cell<i64>,
}

impl Source {
    /// A database of that name, with the table in it, and a topic for each mode. `carries` says whether a mode has a column.
    pub(crate) fn open(stack: &Stack, name: &'static str, carries: impl Fn(&Column, Mode) -> bool) -> Result<Self> {
        let database = stack.postgres.create_database(name)?;
        database.execute(&repository_file("sql/source.sql")?)?;
        database.execute(PREPARE)?;
        let columns =
            COLUMNS.iter().fold(String::new(), |text, column| text + &format!(", {} {}", column.name, column.postgres));
        database.execute(&format!(
            "create table types (id bigint primary key{columns}); alter table types alter c_serial drop not null; \
             create table staged (like types); alter table types replica identity full; \
             grant select on types to cdc; alter publication shop_pub add table types"
        ))?;
        let (broker, worker) = (stack.kafka.broker(), stack.connect.worker());
        let (mut connectors, mut columns) = (Vec::new(), BTreeMap::new());
        for mode in MODES {
            connectors.push((mode, Connector::new(&format!("{name}_{}", mode.name()), &database, &worker)));
            let here = COLUMNS.iter().filter(|column| carries(column, mode));
            columns.insert(mode, here.filter_map(|c| Some((c, c.kind.declaration(mode)?))).collect());
            broker.create_topic(&topic(name, mode), 1)?;
        }
        Ok(Self { name, database, broker, connectors, columns, records: Cell::new(0) })
    }

    /// The columns that a mode carries.
    pub(crate) fn columns(&self, mode: Mode) -> impl Iterator<Item = &'static Column> {
        self.columns[&mode].iter().map(|(column, _)| *column)
    }

    /// A config with a replica of each mode's topic; records that are refused go to the dead letters.
    pub(crate) fn configure(&self, home: &Path) -> Result<Highwater> {
        let mut sections = String::new();
        for (mode, columns) in &self.columns {
            let (mode, topic, home) = (mode.name(), topic(self.name, *mode), home.display());
            write!(
                sections,
                "[[table]]\nname = \"{mode}\"\ntopic = \"{topic}\"\nlocation = \"{home}/lake/{mode}\"\nkey = [\"id\"]\n\
                 on_error = \"dead-letter\"\n[table.columns]\nid = \"long\"\n"
            )?;
            for (column, declaration) in columns {
                writeln!(sections, "{} = \"{declaration}\"", column.name)?;
            }
        }
        let table = home.join("lake").join(MODES[0].name());
        Highwater::configure_tables(home, &self.broker, &format!("highwater-{}", self.name), &table, &sections)
    }

    /// Registers the connectors and waits until all of them stream.
    pub(crate) fn connect(&self) -> Result<()> {
        for (mode, connector) in &self.connectors {
            let settings = mode.settings().iter().map(|(name, value)| (*name, (*value).to_owned()));
            let left_out = COLUMNS.iter().filter(|c| !self.columns(*mode).any(|carried| carried.name == c.name));
            let left_out: Vec<_> = left_out.map(|column| format!("public.types.{}", column.name)).collect();
            let mut settings: Vec<_> = settings.collect();
            settings.push(("table.include.list", "public.types".into()));
            if !left_out.is_empty() {
                settings.push(("column.exclude.list", left_out.join(",")));
            }
            connector.register(&settings)?;
        }
        self.connectors.iter().try_for_each(|(_, connector)| connector.wait_streaming())
    }

    /// Inserts rows, of texts that the types read.
    pub(crate) fn insert(&self, rows: &Rows) -> Result<()> {
        copy(&mut self.database.client()?, "types", rows)?;
        self.expect(rows.len())
    }

    /// Gives rows that are there all other values.
    pub(crate) fn update(&self, rows: &Rows) -> Result<()> {
        self.database.execute("truncate staged")?;
        copy(&mut self.database.client()?, "staged", rows)?;
        let names = COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>();
        let staged = names.iter().map(|name| format!("staged.{name}")).collect::<Vec<_>>().join(", ");
        let names = names.join(", ");
        self.database
            .execute(&format!("update types set ({names}) = row({staged}) from staged where staged.id = types.id"))?;
        self.expect(rows.len())
    }

    /// Lets `reconcile` reach the table, beside the connector of a mode.
    pub(crate) fn let_in(&self, highwater: &Highwater, mode: Mode) -> Result<()> {
        let (port, database, slot) =
            (self.database.port, &self.database.name, format!("{}_{}", self.name, mode.name()));
        let url = format!("postgres://cdc:cdc@{HOST}:{port}/{database}");
        highwater.change("[batch]", &format!("[source]\nurl = \"{url}\"\nslot = \"{slot}\"\n\n[batch]"))
    }

    /// Gives cells other values, of which the connectors are not told.
    pub(crate) fn change_unseen<'a>(&self, cells: impl Iterator<Item = (i64, &'a Column, String)>) -> Result<()> {
        self.database.execute("alter publication shop_pub drop table types")?;
        let mut client = self.database.client()?;
        for (id, column, value) in cells {
            let (name, postgres) = (column.name, column.postgres.replace("serial", "int"));
            let change = format!("update types set {name} = $1::text::{postgres} where id = {id}");
            client.execute(change.as_str(), &[&value]).with_context(|| change.clone())?;
        }
        self.database.execute("alter publication shop_pub add table types")
    }

    /// Deletes all rows.
    pub(crate) fn delete(&self) -> Result<()> {
        let rows: i64 = self.database.value("select count(*) from types")?;
        self.database.execute("delete from types")?;
        // each with a tombstone
        self.expect(2 * usize::try_from(rows)?)
    }

    fn expect(&self, records: usize) -> Result<()> {
        self.records.set(self.records.get() + i64::try_from(records)?);
        Ok(())
    }

    /// Waits until all that was written lies in the topics, and until `highwater` has acknowledged it.
    pub(crate) fn delivered(&self, highwater: &Highwater, process: &mut Process) -> Result<()> {
        for mode in MODES {
            let topic = topic(self.name, mode);
            let complaint = format!("{topic} did not get {} records", self.records.get());
            wait(DELIVERY, &complaint, || Ok(self.broker.count(&topic)? >= self.records.get()))?;
            highwater.wait_acknowledged(&self.broker, &topic, process)?;
            let count = self.broker.count(&topic)?;
            ensure!(count == self.records.get(), "{topic} has {count} records for {} changes", self.records.get());
        }
        Ok(())
    }

    /// The topic of a mode.
    pub(crate) fn records(&self, mode: Mode) -> Result<Vec<Record>> {
        self.broker.read(&topic(self.name, mode), None)
    }

    /// PostgreSQL's rows of a mode's columns, each written by the SQL that `write` gives for it.
    pub(crate) fn rows(&self, mode: Mode, write: impl Fn(&Column) -> Option<String>) -> Result<Rows> {
        let columns: Vec<_> = self.columns(mode).collect();
        let cells = columns.iter().map(|column| write(column).with_context(|| format!("no {} here", column.name)));
        let query = format!("select id, {} from types order by id", cells.collect::<Result<Vec<_>>>()?.join(", "));
        let mut rows = Rows::new();
        for message in self.database.client()?.simple_query(&query).with_context(|| query.clone())? {
            let SimpleQueryMessage::Row(row) = message else { continue };
            let cells = columns.iter().enumerate().map(|(index, column)| {
                let text = row.try_get(index + 1)?;
                text.map(|text| column.kind.canonical(text).context(column.name)).transpose()
            });
            rows.insert(row.try_get(0)?.context("no id")?.parse()?, cells.collect::<Result<_>>()?);
        }
        Ok(rows)
    }

    /// The live rows of a mode's replica, written by DataFusion.
    pub(crate) fn replica(&self, highwater: &Highwater, mode: Mode) -> Result<Rows> {
        let columns: Vec<_> = self.columns(mode).collect();
        let cells = columns.iter().map(|c| format!("{} as {}", c.kind.replica(c.name), c.name)).collect::<Vec<_>>();
        let query = format!("select id, {} from {}_current order by id", cells.join(", "), mode.name());
        let mut rows = Rows::new();
        for row in highwater.rows(&query)? {
            let cells = columns.iter().map(|column| {
                let text = match &row[column.name] {
                    Value::Null => return Ok(None),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                column.kind.canonical(&text).with_context(|| column.name).map(Some)
            });
            rows.insert(row["id"].as_i64().context("no id")?, cells.collect::<Result<_>>()?);
        }
        Ok(rows)
    }
}

/// Writes rows with COPY, as fast as it goes.
fn copy(client: &mut Client, table: &str, rows: &Rows) -> Result<()> {
    let escaped = |text: &Text| match text {
        Some(text) => text.chars().fold(String::new(), |text, c| match c {
            '\\' => text + "\\\\",
            '\t' => text + "\\t",
            '\n' => text + "\\n",
            '\r' => text + "\\r",
            c => text + c.encode_utf8(&mut [0; 4]),
        }),
        None => "\\N".into(),
    };
    let mut writer = client.copy_in(&format!("copy {table} from stdin"))?;
    for (id, cells) in rows {
        let cells: Vec<_> = cells.iter().map(escaped).collect();
        writeln!(writer, "{id}\t{}", cells.join("\t"))?;
    }
    writer.finish().with_context(|| format!("into {table}"))?;
    Ok(())
}

fn topic(name: &str, mode: Mode) -> String {
    format!("{name}_{}.public.types", mode.name())
}
