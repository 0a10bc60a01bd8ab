//! `highwater init`: the catalog of a real PostgreSQL becomes a config, and the config a replica.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use highwater_tests::connect::{Worker, fill};
use highwater_tests::postgres::{Database, Postgres, SUPERUSER};
use highwater_tests::scratch::Scratch;
use highwater_tests::shop::wait;
use highwater_tests::stack::{self, HOST};
use serde_json::{Value, json};

use crate::command::{Said, highwater};
use crate::types::modes::{MODES, Mode};
use crate::verdict::figures;

const READER: &str = "create role reader login password 'catalog secret'";
const SECRET: &str = "catalog%20secret";

fn url(database: &Database, user: &str, password: &str, query: &str) -> String {
    format!("postgres://{user}:{password}@{HOST}:{}/{}{query}", database.port, database.name)
}

/// `init` with a connector's config; a password never comes out of it.
fn init(url: &str, folder: &Path, connector: &str, more: &[&str]) -> Result<Said> {
    let file = folder.join("connector.json");
    fs::write(&file, connector)?;
    let file = file.to_string_lossy();
    let said = highwater(["init", "--source", url, "--connector", &file].into_iter().chain(more.iter().copied()))?;
    ensure!(!said.stdout.contains("secret") && !said.stderr.contains("secret"), "{}{}", said.stdout, said.stderr);
    Ok(said)
}

/// A connector's config under a set of modes.
fn under(mode: Mode) -> String {
    let settings = mode.settings().iter().chain(&[("topic.prefix", "t")]);
    settings.map(|&(name, value)| (name.to_owned(), Value::from(value))).collect::<Value>().to_string()
}

/// A type of docs/types.md, as SQL writes it.
struct Documented {
    sql: String,
    /// One for each mode, or one for all of them.
    declared: Vec<String>,
    /// By mode, whether the connector leaves it out.
    left_out: Vec<bool>,
}

fn documented() -> Result<Vec<Documented>> {
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/types.md"))?;
    let rows = document.lines().skip_while(|line| !line.starts_with("| PostgreSQL |")).skip(2);
    let mut types = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let mut cells = row.trim_matches('|').split(" | ").map(str::trim);
        let (title, declared) = cells.next().zip(cells.next()).context("a row without two cells")?;
        let sql = title.replace("enum", "mood").replace("domain over numeric(10,4)", "price");
        let declared = declared.split(" / ").map(|one| one.trim_matches('`').to_owned()).collect();
        types.push(Documented { sql, declared, left_out: cells.map(|cell| cell == "left out").collect() });
    }
    Ok(types)
}

#[test]
fn the_catalogs_types_are_declared_as_the_document_declares_them() -> Result<()> {
    let scratch = Scratch::new("catalog")?;
    let postgres = Postgres::start_15(&scratch)?;
    let database = postgres.create_database("types")?;
    database.execute(&format!(
        "create extension hstore; create extension citext; create extension ltree; {READER}; \
         create type mood as enum ('sad', 'happy'); create domain price as numeric(10,4) check (value >= 0); \
         create type composite as (a int, b text)"
    ))?;
    let types = documented()?;
    let columns: Vec<String> = types.iter().enumerate().map(|(n, one)| format!("c{n} {}", one.sql)).collect();
    database.execute(&format!("create table types (id int primary key, {})", columns.join(", ")))?;
    let url = url(&database, "reader", SECRET, "");
    let mut compared = 0;
    for (at, mode) in MODES.into_iter().enumerate() {
        let said = init(&url, scratch.path(), &under(mode), &[])?.success()?;
        for (n, Documented { sql, declared, left_out }) in types.iter().enumerate() {
            let found = said.stdout.lines().find(|line| line.starts_with(&format!("c{n} = ")));
            let expected = format!("c{n} = \"{}\"", declared.get(at).unwrap_or(&declared[0]));
            let is_so = found.map_or(left_out[at], |line| !left_out[at] && line.starts_with(&expected));
            ensure!(is_so, "{sql} under {mode:?}: expected {expected}, found {found:?}");
            compared += 1;
        }
    }
    ensure!(compared == MODES.len() * types.len() && types.len() >= 75, "only {compared} were compared");
    figures(&format!("types of the catalog: declarations={compared}"));
    Ok(())
}

const CASES: &str = r#"
create table events (id bigint, at timestamptz, doc jsonb, primary key (at, id)) partition by range (at);
create table events_2024 partition of events for values from ('2024-01-01') to ('2025-01-01');
create table events_2025 partition of events for values from ('2025-01-01') to ('2026-01-01');
create domain short_code as varchar(8);
create domain code as short_code not null;
create table items (id bigint primary key, gone text, code code, tags text[][], days date[], price numeric(12,2) default 1,
  twice bigint generated always as (id * 2) stored, area box);
alter table items drop column gone;
comment on table items is 'What is sold';
comment on column items.price is 'in euro';
create table by_index (id bigint primary key, u int not null unique, v text);
alter table by_index replica identity using index by_index_u_key;
create table keyless (a int, b text);
alter table keyless replica identity full;
create table twins (id int primary key, "Note" text, note text);
create table silent (id int primary key);
alter table silent replica identity nothing;
create table metas (id int primary key, source_lsn text);
create temp table passing (id int primary key);
"#;

#[test]
fn a_config_says_what_stands_in_a_tables_way() -> Result<()> {
    let scratch = Scratch::new("catalog")?;
    let postgres = Postgres::start_15(&scratch)?;
    let database = postgres.create_database("cases")?;
    database.execute(&format!("{READER}; {CASES}"))?;
    let url_of = |user, password, query| url(&database, user, password, query);
    let url = url_of("reader", SECRET, "");
    let connector =
        r#"{"topic.prefix": "t", "table.include.list": "public.events_2024,public.[a-df-z].*,public.gone"}"#;
    let said = init(&url, scratch.path(), connector, &[])?.success()?;
    // without the ends of a comment's lines
    let config = said.stdout.replace("\n# ", " ");
    for part in [
        "No table is named public.gone.",
        "name = \"events\"\ntopic = \"t.public.events\"",
        "key = [\"at\", \"id\"]",
        "publish_via_partition_root",
        "comment = \"What is sold\"",
        "price = { type = \"decimal(12,2)@base64\", comment = \"in euro\" }",
        "code = \"string\"",
        "tags = \"array<string>\" # a second dimension",
        "`area` is left out: the connector does not know box",
        "`twice` halts the table: ",
        "then needs REPLICA IDENTITY FULL: `doc`.",
        "set REPLICA IDENTITY FULL: `days`.",
        "a null arrives as the column's default",
        "source_lsn = \"_source_lsn\"",
        "REPLICA IDENTITY NOTHING: PostgreSQL refuses updates",
        "Cannot be replicated: the replica identity is the index by_index_u_key",
        "Cannot be replicated: no key: add a primary key",
        "Cannot be replicated: `Note` and `note` differ in nothing but case",
    ] {
        ensure!(config.to_lowercase().contains(&part.to_lowercase()), "`{part}` is not in: {}", said.stdout);
    }
    for part in ["events_2024\"", "gone =", "passing"] {
        ensure!(!config.contains(part), "`{part}` is in: {}", said.stdout);
    }
    let (live, refused) = said.stdout.lines().partition::<Vec<_>, _>(|line| !line.starts_with("# "));
    let sections = |lines: &[&str]| lines.iter().filter(|line| line.ends_with("[[table]]")).count();
    ensure!((sections(&live), sections(&refused)) == (4, 3), "{}", said.stdout);
    ensure!(said.stderr.contains("public.items.twice") && said.stderr.contains("public.keyless"), "{}", said.stderr);

    let nothing = init(&url, scratch.path(), connector, &["--table", "public.keyless"])?;
    ensure!(!nothing.status.success() && nothing.stdout.contains("# [[table]]"), "{}", nothing.stderr);
    let elsewhere = Database { port: stack::free_port()?, ..database.clone() };
    let no_database = Database { name: "nowhere".into(), ..database.clone() };
    database.execute("revoke connect on database cases from public")?;
    for (url, part) in [
        (url_of("reader", "wrong", ""), "refuses user `reader`"),
        (url_of("reader", SECRET, ""), "forbids it to user `reader`"),
        (url_of("reader", SECRET, "?sslmode=require"), "no TLS to PostgreSQL"),
        (self::url(&no_database, SUPERUSER, SUPERUSER, ""), "has no database `nowhere`"),
        (self::url(&elsewhere, "reader", SECRET, ""), "cannot reach PostgreSQL"),
        ("mysql://reader:secret@x/y".to_owned(), "postgres://"),
    ] {
        let said = init(&url, scratch.path(), connector, &[])?;
        ensure!(!said.status.success() && said.stderr.contains(part), "expected `{part}`: {}", said.stderr);
    }
    figures("what the catalog says: tables=7");
    Ok(())
}

const AWKWARD: &str = r##"
create schema "Sales Dept";
create table "Sales Dept"."Order Lines 2.0" (
  "Id" bigint, "line no." int, "order" text, "a.b" numeric(12,2), "say ""hi""" text, "it's" boolean, "größe" double precision,
  "漢字 😀" text, "back\slash" date, "# no comment" timestamp, "select" bit(1), dropped int, "Area" box,
  "Twice" bigint generated always as ("Id" * 2) stored, source_lsn int, primary key ("line no.", "Id")
);
alter table "Sales Dept"."Order Lines 2.0" drop column dropped;
alter table "Sales Dept"."Order Lines 2.0" alter "order" set storage external;
create publication awkward for table "Sales Dept"."Order Lines 2.0";
insert into "Sales Dept"."Order Lines 2.0" values
  (1, 1, repeat('x', 3000), 12.34, 'one', true, 1.5, '漢', '2024-02-29', '2024-02-29 12:34:56.789012', '1', null, default, 7),
  (2, 1, 'two', -0.01, null, false, -2.5, 'ö', '1969-12-31', '1969-12-31 23:59:59.999999', '0', null, default, null);
"##;
const CHANGES: &str = r#"
update "Sales Dept"."Order Lines 2.0" set "a.b" = 99.99 where "Id" = 1;
insert into "Sales Dept"."Order Lines 2.0" ("Id", "line no.", "say ""hi""") values (3, 2, 'three');
delete from "Sales Dept"."Order Lines 2.0" where "Id" = 2;
"#;
const NAME: &str = "awkward";
/// Of the snapshot.
const ROWS: i64 = 2;
/// An update, an insert, a delete and its tombstone.
const CHANGED: i64 = 4;
const QUERY: &str = r##"select "Id", "line no.", length("order") as length, cast("a.b" as varchar) as ab, "say ""hi""", "it's", "größe",
  "漢字 😀", cast("back\slash" as varchar) as back, cast("# no comment" as varchar) as hash, "select", source_lsn, is_deleted
  from "Order Lines 2.0" order by "Id""##;

/// A connector and its slot; both are gone once it is dropped.
struct Connector {
    worker: Worker,
    database: Database,
}

impl Drop for Connector {
    fn drop(&mut self) {
        // Best effort: the stack ends with the tests.
        let _ = self.worker.delete(NAME);
        let slot = format!("pg_replication_slots where slot_name = '{NAME}'");
        let idle = format!("select count(*) from {slot} and active");
        let _ = wait(Duration::from_secs(20), "the slot is in use", || Ok(self.database.value::<i64>(&idle)? == 0));
        let _ = self.database.execute(&format!("select pg_drop_replication_slot(slot_name) from {slot}"));
    }
}

/// The shop's connector, for the table with the awkward names.
fn connector(database: &Database) -> Result<Value> {
    let values = [
        ("DATABASE_HOST", HOST.to_owned()),
        ("DATABASE_PORT", database.port.to_string()),
        ("DATABASE_USER", SUPERUSER.into()),
        ("DATABASE_PASSWORD", SUPERUSER.into()),
        ("DATABASE_NAME", database.name.clone()),
    ];
    let overrides = [
        ("topic.prefix", NAME),
        ("slot.name", NAME),
        ("publication.name", NAME),
        ("table.include.list", r"Sales Dept\.Order Lines 2\.0"),
        ("column.exclude.list", r"Sales Dept\.Order Lines 2\.0\.Twice"),
    ];
    let overrides = overrides.map(|(option, value)| (option, value.to_owned()));
    let file = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../connectors/shop-orders.json"))?;
    let mut config = fill(&file, &values, &overrides)?;
    config.as_object_mut().context("no object")?.remove("signal.data.collection");
    Ok(config)
}

#[test]
fn a_config_from_the_catalog_replicates_a_table_with_awkward_names() -> Result<()> {
    let stack = stack::shared()?;
    let scratch = Scratch::new(NAME)?;
    let database = stack.postgres.create_database(NAME)?;
    database.execute(AWKWARD)?;
    let connector = connector(&database)?;
    let broker = stack.kafka.broker();
    let topic = format!("{NAME}.Sales_Dept.Order_Lines_2.0");
    broker.create_topic(&topic, 2)?;
    let registered = Connector { worker: stack.connect.worker(), database: database.clone() };
    registered.worker.put(NAME, &connector)?;
    registered.worker.wait_running(NAME)?;

    let config = scratch.path().join("highwater.toml");
    let (config, lake) = (config.to_string_lossy(), scratch.path().join("lake"));
    let lake = lake.to_string_lossy();
    let options = ["--location", &*lake, "--bootstrap-servers", &*broker.bootstrap, "--output", &*config];
    let url = url(&database, SUPERUSER, SUPERUSER, "");
    let init = || init(&url, scratch.path(), &connector.to_string(), &options);
    init()?.success()?;
    let again = init()?;
    ensure!(!again.status.success() && again.stderr.contains("never overwrites"), "{}", again.stderr);
    let checked = highwater(["check", "--config", &*config])?.success()?;
    ensure!(checked.stdout.ends_with("0 problem(s)\n"), "{}", checked.stdout);

    let catch_up = |records: i64, so_far: i64| {
        let complaint = format!("fewer than {} records in {topic}", so_far + records);
        wait(Duration::from_mins(2), &complaint, || Ok(broker.count(&topic)? >= so_far + records))?;
        let counts = highwater(["run", "--config", &*config, "--until-caught-up"])?.success()?.counts()?;
        ensure!(counts["received"] == u64::try_from(records)?, "{counts:?}");
        Ok(())
    };
    catch_up(ROWS, 0)?;
    database.execute(CHANGES)?;
    catch_up(CHANGED, ROWS)?;

    let rows = highwater(["sql", "--config", &*config, "--print", "json", QUERY])?.success()?.objects()?;
    let expected_rows = [
        json!({"Id": 1, "line no.": 1, "length": 3000, "ab": "99.99", "say \"hi\"": "one", "it's": true, "größe": 1.5, "漢字 😀": "漢",
            "back": "2024-02-29", "hash": "2024-02-29T12:34:56.789012", "select": true, "source_lsn": 7, "is_deleted": false}),
        json!({"Id": 2, "line no.": 1, "length": 3, "ab": "-0.01", "it's": false, "größe": -2.5, "漢字 😀": "ö",
            "back": "1969-12-31", "hash": "1969-12-31T23:59:59.999999", "select": false, "is_deleted": true}),
        json!({"Id": 3, "line no.": 2, "say \"hi\"": "three", "is_deleted": false}),
    ];
    let without_nulls = |row: &Value| {
        let fields = row.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    let found: Vec<_> = rows.iter().map(without_nulls).collect();
    ensure!(found == expected_rows, "expected {expected_rows:#?}, found {found:#?}");

    // a unit that is not the connector's is found, before it makes times of another century
    let file = scratch.path().join("connector.json");
    let source = format!("[source]\nurl = \"{url}\"\nconnector = \"{}\"\n", file.display());
    let other_unit = scratch.path().join("unit.toml");
    fs::write(&other_unit, source.clone() + &fs::read_to_string(&*config)?.replace("_ntz@micros", "_ntz@millis"))?;
    let checked = highwater(["check", "--config", &other_unit.to_string_lossy()])?;
    let expected = "column `# no comment` has another form in the config than \"timestamp_ntz@micros\"";
    ensure!(!checked.status.success() && checked.stdout.contains(expected), "{}", checked.stdout);

    // where a section leaves columns and key open and the records say nothing, the catalog does
    let open = scratch.path().join("open.toml");
    let section = format!(
        "[kafka]\nbootstrap_servers = \"{}\"\ngroup = \"{NAME}-open\"\n{source}[[table]]\ntopics = '({NAME})\\..*'\n\
         name = \"$1_open\"\nlocation = \"{lake}/$1_open\"\n[table.meta_columns]\nsource_lsn = \"_source_lsn\"\n",
        broker.bootstrap
    );
    fs::write(&open, section)?;
    let open = open.to_string_lossy();
    let checked = highwater(["check", "--config", &*open])?.success()?;
    for part in ["Sales Dept.Order Lines 2.0 in the source", "needs REPLICA IDENTITY FULL", "\n0 problem(s)\n"] {
        ensure!(checked.stdout.contains(part), "`{part}` is not in: {}", checked.stdout);
    }
    let counts = highwater(["run", "--config", &*open, "--until-caught-up"])?.success()?.counts()?;
    ensure!(counts["received"] == u64::try_from(ROWS + CHANGED)?, "{counts:?}");
    let query = QUERY.replace("\"Order Lines 2.0\"", &format!("{NAME}_open"));
    let rows = highwater(["sql", "--config", &*open, "--print", "json", &query])?.success()?.objects()?;
    ensure!(rows.iter().map(without_nulls).eq(expected_rows), "{rows:#?}");
    figures(&format!("a config from the catalog: records={} rows_compared={}", ROWS + CHANGED, found.len()));
    Ok(())
}
