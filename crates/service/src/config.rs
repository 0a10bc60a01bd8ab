//! The config file: one TOML document, checked as a whole.
//!
//! Unknown keys are refused, and every problem is reported at once with its path. `${NAME}` in a value stands for an
//! environment variable and `${file:PATH}` for the content of a file, so that a secret stands in neither the file nor
//! a log.

mod column;
mod expand;
mod flattened;
mod http;
mod layout;
mod pattern;
mod registry;
mod source;
mod table;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ::registry::RegistrySettings;
use bytesize::ByteSize;
use change::{Secret, TableSchema};
use monitor::ConnectClient;
use pipeline::{BatchLimits, OnError};
use replica_delta::Layout;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use source_kafka::KafkaSettings;

use self::{
    column::MaskingSection,
    http::{ConnectSection, HttpSection, ReconcileSection},
    registry::RegistrySection,
    source::SourceSection,
    table::TableSection,
};
pub(crate) use self::{
    http::HttpConfig,
    pattern::Pattern,
    source::{SourceConfig, read_connector},
};

/// A config that can be run.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) kafka: Option<KafkaSettings>,
    pub(crate) schema_registry: Option<RegistrySettings>,
    /// Where the tables are replicated from.
    pub(crate) source: Option<SourceConfig>,
    /// Where it says how it is doing.
    pub(crate) http: Option<HttpConfig>,
    /// The connector, as Kafka Connect knows it.
    pub(crate) connect: Option<ConnectClient>,
    /// What `reconcile --continuous` has found.
    pub(crate) reconcile_state: Option<PathBuf>,
    pub(crate) store: BTreeMap<String, String>,
    pub(crate) batch: BatchLimits,
    pub(crate) dead_letters: Option<String>,
    pub(crate) retry_max: Duration,
    /// How often a running member looks for topics that a section matches.
    pub(crate) new_topics_every: Duration,
    pub(crate) memory: usize,
    /// The tables that are named in full, and those that were [discovered](crate::discover).
    pub(crate) tables: Vec<TableConfig>,
    /// The sections that leave topic, key or columns open.
    pub(crate) patterns: Vec<Pattern>,
}

/// A table of the config.
#[derive(Debug, Clone)]
pub(crate) struct TableConfig {
    pub(crate) name: String,
    pub(crate) topic: String,
    pub(crate) location: String,
    /// Its schema and name in the source, where they are known.
    pub(crate) source_table: Option<(String, String)>,
    pub(crate) on_error: OnError,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) layout: Layout,
}

/// Everything that is wrong with a config, a line each.
#[derive(Debug)]
pub(crate) struct Problems(pub(crate) Vec<String>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl Config {
    pub(crate) fn read(path: &Path) -> Result<Self, Problems> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Problems(vec![format!("cannot read {}: {e}", path.display())]))?;
        Self::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Problems> {
        let mut document: toml::Table =
            text.parse().map_err(|e: toml::de::Error| Problems(vec![format!("not valid TOML: {}", e.message())]))?;
        let mut problems = Vec::new();
        expand::expand(&mut document, &mut problems);

        let kafka: Option<KafkaSection> = section(&mut document, "kafka", &mut problems);
        let registry: Option<RegistrySection> = section(&mut document, "schema_registry", &mut problems);
        let source: Option<SourceSection> = section(&mut document, "source", &mut problems);
        let http: Option<HttpSection> = section(&mut document, "http", &mut problems);
        let connect: Option<ConnectSection> = section(&mut document, "connect", &mut problems);
        let reconcile: Option<ReconcileSection> = section(&mut document, "reconcile", &mut problems);
        let store: Option<BTreeMap<String, String>> = section(&mut document, "store", &mut problems);
        let batch: BatchSection = section(&mut document, "batch", &mut problems).unwrap_or_default();
        let dead_letters: Option<DeadLettersSection> = section(&mut document, "dead_letters", &mut problems);
        let retry: RetrySection = section(&mut document, "retry", &mut problems).unwrap_or_default();
        let memory: MemorySection = section(&mut document, "memory", &mut problems).unwrap_or_default();
        let masking: Option<MaskingSection> = section(&mut document, "masking", &mut problems);
        let secret = masking.as_ref().map(|masking| &masking.secret);
        let (tables, patterns) = tables(&mut document, secret, &mut problems);
        for unknown in document.keys() {
            problems.push(format!(
                "{unknown}: unknown; expected kafka, schema_registry, source, connect, store, batch, dead_letters, retry, \
                 memory, masking, http, reconcile or table"
            ));
        }
        let schema_registry = registry.and_then(|registry| registry.check(&mut problems));
        let source = source.and_then(|source| source.check(&mut problems));
        let http = http.and_then(|http| http.check(&mut problems));
        let connect = connect.and_then(|connect| connect.check(&mut problems));
        let batch = batch.limits(&mut problems);
        if dead_letters.is_none() {
            let tables = tables.iter().map(|table| (&table.name, table.on_error));
            let all = tables.chain(patterns.iter().map(|pattern| (&pattern.name, pattern.on_error)));
            for (name, _) in all.filter(|(_, on_error)| *on_error == OnError::DeadLetter) {
                problems
                    .push(format!("table `{name}`: on_error = \"dead-letter\" needs [dead_letters] path = \"...\""));
            }
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        let new_topics_every = kafka.as_ref().map_or_else(new_topics_every, |kafka| kafka.new_topics_every);
        Ok(Self {
            kafka: kafka.map(|kafka| KafkaSettings {
                bootstrap_servers: kafka.bootstrap_servers,
                group: kafka.group,
                commits: true,
                options: kafka.options,
            }),
            schema_registry,
            source,
            http,
            connect,
            reconcile_state: reconcile.map(|reconcile| reconcile.state),
            store: store.unwrap_or_default(),
            batch,
            dead_letters: dead_letters.map(|section| section.path),
            retry_max: retry.max,
            new_topics_every,
            memory: usize::try_from(memory.limit.as_u64()).unwrap_or(usize::MAX),
            tables,
            patterns,
        })
    }

    /// The table of that name, or the only one.
    pub(crate) fn table(&self, name: Option<&str>) -> Result<&TableConfig, Problems> {
        let names = || self.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ");
        match (name, self.tables.as_slice()) {
            (Some(name), tables) => tables
                .iter()
                .find(|table| table.name == name)
                .ok_or_else(|| Problems(vec![format!("no table `{name}` in the config; there are: {}", names())])),
            (None, [table]) => Ok(table),
            (None, _) => Err(Problems(vec![format!("say which table with --table; there are: {}", names())])),
        }
    }
}

fn section<T: DeserializeOwned>(document: &mut toml::Table, name: &str, problems: &mut Vec<String>) -> Option<T> {
    match document.remove(name)?.try_into() {
        Ok(section) => Some(section),
        Err(error) => {
            problems.push(format!("[{name}]: {}", error.message().trim_end()));
            None
        }
    }
}

/// The tables that are named in full, and the sections that leave something open.
fn tables(
    document: &mut toml::Table,
    secret: Option<&Secret>,
    problems: &mut Vec<String>,
) -> (Vec<TableConfig>, Vec<Pattern>) {
    let sections = match document.remove("table") {
        Some(toml::Value::Array(sections)) if !sections.is_empty() => sections,
        Some(toml::Value::Table(_)) => {
            problems.push("[table]: write [[table]], there can be several".to_owned());
            return (Vec::new(), Vec::new());
        }
        _ => {
            problems.push("no table: add a [[table]] section".to_owned());
            return (Vec::new(), Vec::new());
        }
    };
    let (mut tables, mut patterns): (Vec<TableConfig>, Vec<Pattern>) = (Vec::new(), Vec::new());
    for (index, section) in sections.into_iter().enumerate() {
        let path = format!("[[table]] {}", index + 1);
        let table = section.try_into::<TableSection>().map_err(|e| e.message().trim_end().to_owned());
        let pattern = match table.and_then(|table| table.check(secret)) {
            Ok(pattern) => pattern,
            Err(problem) => {
                problems.push(format!("{path}: {problem}"));
                continue;
            }
        };
        let Some(topic) = pattern.topic().filter(|_| !pattern.needs_a_record()) else {
            patterns.push(pattern);
            continue;
        };
        match pattern.table(topic, None) {
            Ok(table) => {
                for other in &tables {
                    for (what, same) in [
                        ("name", other.name == table.name),
                        (
                            "topic (tables that share one need a process each, with a [kafka] group of its own)",
                            other.topic == table.topic,
                        ),
                        ("location", other.location == table.location),
                    ] {
                        if same {
                            problems.push(format!("{path}: as that of table `{}`: its {what}", other.name));
                        }
                    }
                }
                tables.push(table);
            }
            Err(problem) => problems.push(format!("{path}: {problem}")),
        }
    }
    (tables, patterns)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KafkaSection {
    bootstrap_servers: String,
    #[serde(default = "default_group")]
    group: String,
    #[serde(default = "new_topics_every", deserialize_with = "some_duration")]
    new_topics_every: Duration,
    #[serde(default)]
    options: BTreeMap<String, String>,
}

fn new_topics_every() -> Duration {
    Duration::from_secs(30)
}

fn default_group() -> String {
    "highwater".to_owned()
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct BatchSection {
    rows: Option<usize>,
    bytes: Option<ByteSize>,
    #[serde(default, deserialize_with = "duration")]
    age: Option<Duration>,
}

impl BatchSection {
    fn limits(self, problems: &mut Vec<String>) -> BatchLimits {
        let default = BatchLimits::default();
        let bytes = self.bytes.map_or(default.bytes, |size| usize::try_from(size.as_u64()).unwrap_or(usize::MAX));
        let limits =
            BatchLimits { records: self.rows.unwrap_or(default.records), bytes, age: self.age.unwrap_or(default.age) };
        if limits.records == 0 || limits.bytes == 0 {
            problems.push("[batch]: rows and bytes have to be at least 1".to_owned());
        }
        limits
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemorySection {
    limit: ByteSize,
}

impl Default for MemorySection {
    /// The batches of the default limits and a merge into a table of some millions of rows stay below it.
    fn default() -> Self {
        Self { limit: ByteSize::gib(1) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeadLettersSection {
    path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RetrySection {
    #[serde(deserialize_with = "some_duration")]
    max: Duration,
}

impl Default for RetrySection {
    /// Long enough for a store's usual outages, short enough that a supervisor notices a lasting one.
    fn default() -> Self {
        Self { max: Duration::from_mins(10) }
    }
}

/// A duration with its unit: `500ms`, `10s`, `5m`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration: jiff::SignedDuration =
        text.parse().map_err(|_| format!("`{text}` is no duration: write 500ms, 10s or 5m"))?;
    Duration::try_from(duration).map_err(|_| format!("`{text}` is negative"))
}

fn some_duration<'de, D: Deserializer<'de>>(value: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(value)?).map_err(serde::de::Error::custom)
}

fn duration<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    some_duration(value).map(Some)
}

#[cfg(test)]
mod tests {
    use ::registry::Login;
    use change::{Column, Deletes, Described, EnvelopeForm, Flattening, Metadata, SourceTables};
    use regex::Regex;

    use super::*;

    const GOOD: &str = r#"
        [kafka]
        bootstrap_servers = "localhost:9092"
        [batch]
        rows = 10
        bytes = "1MiB"
        age = "500ms"
        [[table]]
        name = "orders"
        topic = "shop.public.orders"
        location = "lake/orders"
        key = ["order_id"]
        columns = { order_id = "long", amount = "decimal(12,2)@base64" }
    "#;

    #[test]
    fn a_good_config_is_read_with_its_units() {
        let config = Config::parse(GOOD).unwrap();
        assert_eq!(config.batch, BatchLimits { records: 10, bytes: 1 << 20, age: Duration::from_millis(500) });
        assert_eq!(config.kafka.unwrap().group, "highwater");
        assert_eq!(config.tables[0].schema.columns()[1].name, "amount");
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let bad = GOOD.replace("500ms", "soon").replace("bootstrap_servers", "bootstrap").replace("long", "bigint")
            + "\n[colour]\nred = 1\n";
        let problems = Config::parse(&bad).unwrap_err().0;
        let expected = [
            "[kafka]: unknown field `bootstrap`",
            "[batch]: `soon` is no duration",
            "[[table]] 1: table `orders`, column `order_id`: unknown type `bigint`",
            "colour: unknown",
        ];
        for expected in expected {
            assert!(problems.iter().any(|problem| problem.starts_with(expected)), "{expected} in {problems:#?}");
        }
    }

    #[test]
    fn the_example_is_a_good_config() {
        Config::parse(include_str!("../../../highwater.example.toml")).unwrap();
    }

    #[test]
    fn a_section_can_stand_for_every_topic_that_matches() {
        let text = GOOD.replace("topic = \"shop.public.orders\"", "topics = 'shop\\.(\\w+)\\.(\\w+)'");
        let problem = &Config::parse(&text).unwrap_err().0[0];
        assert!(problem.contains("need a $1 of the expression in name and location"), "{problem}");
        let text = text.replace("\"orders\"", "\"$2\"").replace("lake/orders", "lake/$1/$2");
        let config = Config::parse(&text).unwrap();
        let [pattern] = &config.patterns[..] else { panic!("{config:?}") };
        assert!(config.tables.is_empty() && pattern.topic().is_none() && !pattern.needs_a_record());
        assert!(pattern.is_for("shop.public.items") && !pattern.is_for("old.shop.public.items"));
        let suffixed = text.replace("lake/$1/$2", "lake/$1_$2_new");
        let table = Config::parse(&suffixed).unwrap().patterns[0].table("shop.public.items", None).unwrap();
        assert_eq!(table.location, "lake/public_items_new");
        let problem = Config::parse(&text.replace("lake/$1", "lake/$3")).unwrap_err().0.join("; ");
        assert!(problem.contains("$3 is no part of the expression"), "{problem}");
        let table = pattern.table("shop.public.items", None).unwrap();
        assert_eq!((table.name.as_str(), table.location.as_str()), ("items", "lake/public/items"));

        let open = text.replace("key = [\"order_id\"]\n", "").replace("order_id = \"long\", ", "");
        let pattern = &Config::parse(&open).unwrap().patterns[0];
        assert!(pattern.needs_a_record());
        let column = |name: &str, declared: &str| Column::declared(name, declared).unwrap();
        let columns = vec![column("id", "long"), column("amount", "string"), column("more", "date")];
        let described = Described { columns, key: vec!["id".to_owned()] };
        let schema = pattern.table("shop.public.items", Some(described)).unwrap().schema;
        let columns: Vec<_> = schema.columns().iter().map(|c| format!("{} {}", c.name, c.data_type)).collect();
        // what is declared stands, the record says the rest
        assert_eq!(
            (columns.join(", "), schema.key()),
            ("amount decimal(12,2), id long, more date".to_owned(), &[1][..])
        );
    }

    #[test]
    fn a_column_can_say_what_becomes_of_values_that_do_not_fit_it() {
        let with = |column: &str| Config::parse(&GOOD.replace("\"decimal(12,2)@base64\"", column));
        let raw = with("{ type = \"decimal(12,2)@base64\", unfit = \"raw\" }").unwrap();
        let names: Vec<_> = raw.tables[0].schema.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["order_id", "amount", "amount__raw"]);
        for (bad, problem) in [
            ("{ type = \"long\", unfit = \"round\" }", "column `amount`: unknown way for what does not fit `round`"),
            ("{ type = \"long\", unfits = \"null\" }", "column `amount`: write its type as a string"),
            ("7", "column `amount`: write its type as a string"),
        ] {
            let problems = with(bad).unwrap_err().0;
            assert!(problems[0].contains(problem), "{problems:?}");
        }
    }

    #[test]
    fn a_table_grows_unless_it_is_strict_and_a_column_is_in_it_or_left_out() {
        assert!(Config::parse(GOOD).unwrap().tables[0].schema.grows());
        let strict = GOOD.replace("key =", "schema_changes = \"strict\"\nexclude_columns = [\"secret\"]\nkey =");
        let schema = Arc::clone(&Config::parse(&strict).unwrap().tables[0].schema);
        assert!(!schema.grows() && schema.passes_over("secret"));
        let both = GOOD.replace("key =", "exclude_columns = [\"amount\"]\nkey =");
        assert!(Config::parse(&both).unwrap_err().0[0].contains("under columns and under exclude_columns"));
    }

    #[test]
    fn a_section_can_be_of_one_or_some_of_the_tables_that_share_a_topic() {
        let with = |line: &str| Config::parse(&GOOD.replace("key =", &format!("{line}\nkey =")));
        let sources = |line: &str| with(line).unwrap().tables[0].schema.sources().cloned();
        assert_eq!(sources("source = \"public.orders\""), Some(SourceTables::One("public.orders".into())));
        let months = Regex::new(r"^(?:public\.orders_\d+)$").unwrap();
        assert_eq!(sources(r"sources = 'public\.orders_\d+'"), Some(SourceTables::Matching(months)));
        assert_eq!(sources(""), None);
        for (bad, problem) in [
            ("source = \"public.a\"\nsources = 'public\\.a'", "write source = "),
            ("sources = '('", "table `orders`: sources: "),
            ("source = \"public.a\"\nenvelope = \"flattened\"", "a flattened record does not name its table"),
        ] {
            let problems = with(bad).unwrap_err();
            assert!(problems.0[0].contains(problem), "{problems}");
        }
        let open = GOOD.replace("key = [\"order_id\"]", "source = \"public.orders\"");
        assert!(Config::parse(&open).unwrap_err().0[0].contains("declare key and columns"));
        let twice = GOOD.to_owned() + &GOOD[GOOD.find("[[table]]").unwrap()..].replace("\"orders\"", "\"other\"");
        let problems = Config::parse(&twice).unwrap_err().0;
        assert!(problems[0].contains("need a process each") && problems[1].contains("location"), "{problems:?}");
    }

    #[test]
    fn a_flattened_table_names_its_fields_and_what_is_left_of_a_delete() {
        let flattened = |section: &str| {
            Config::parse(&format!("{GOOD}\nenvelope = \"flattened\"\n{section}")).map(|config| config.tables)
        };
        let form = |section| flattened(section).unwrap()[0].schema.form().clone();
        let of = |flattening| EnvelopeForm::Flattened(Arc::new(flattening));
        assert_eq!(form(""), of(Flattening::default()));
        let named = "[table.flattened]\nprefix = \"_\"\ndeletes = \"tombstone\"\nlsn = \"wal\"\nts_ms = \"at\"";
        let expected =
            Flattening::new("_", Deletes::Tombstone).with_name(Metadata::Lsn, "wal").with_name(Metadata::Time, "at");
        assert_eq!(form(named), of(expected));

        let problem = |text: &str| Config::parse(text).unwrap_err().0.join("; ");
        let taken = problem(&format!("{GOOD}\nenvelope = \"flattened\"\n[table.flattened]\nop = \"amount\""));
        assert!(taken.contains("column `amount` has the name of a metadata field"), "{taken}");
        let idle = problem(&format!("{GOOD}\n[table.flattened]\ndeletes = \"rewrite\""));
        assert!(idle.contains("[table.flattened] needs envelope = \"flattened\""), "{idle}");
        assert!(problem(&format!("{GOOD}\nenvelope = \"avro\"")).contains("unknown variant `avro`"));
    }

    #[test]
    fn a_schema_registry_has_an_address_and_one_login_at_most() {
        let with = |section: &str| Config::parse(&format!("[schema_registry]\n{section}\n{GOOD}"));
        let login = |section: &str| with(section).unwrap().schema_registry.unwrap().login;
        assert_eq!(login("url = \"http://localhost:8081\""), Login::Open);
        let basic = Login::Basic { username: "u".into(), password: "p".into() };
        assert_eq!(login("url = \"http://localhost:8081\"\nusername = \"u\"\npassword = \"p\""), basic);
        assert_eq!(login("url = \"http://localhost:8081\"\ntoken = \"t\""), Login::Token("t".into()));
        for (bad, problem) in [
            ("url = \"localhost:8081\"", "[schema_registry]: url is no address"),
            ("url = \"http://u:SECRET@localhost\"", "[schema_registry]: url holds a login"),
            (
                "url = \"http://localhost\"\nusername = \"u\"",
                "[schema_registry]: write username and password, or token",
            ),
            ("url = \"http://localhost\"\ntoken = \"a\\nb\"", "[schema_registry]: the token has characters"),
            ("uri = \"http://localhost\"", "[schema_registry]: unknown field `uri`"),
        ] {
            let problems = with(bad).unwrap_err();
            assert!(problems.0[0].starts_with(problem) && !problems.to_string().contains("SECRET"), "{problems}");
        }
    }

    #[test]
    fn the_table_in_the_source_is_that_of_the_topic_unless_it_is_named() {
        let table = |text: &str| Config::parse(text).map(|config| config.tables[0].source_table.clone());
        let named = |schema: &str, table: &str| Some((schema.to_owned(), table.to_owned()));
        assert_eq!(table(GOOD).unwrap(), named("public", "orders"));
        assert_eq!(table(&GOOD.replace("shop.public.orders", "orders")).unwrap(), None);
        let with = |line: &str| table(&GOOD.replace("key =", &format!("{line}\nkey =")));
        assert_eq!(with("source = \"Sales.all.orders\"").unwrap(), named("Sales", "all.orders"));
        assert!(with("source = \"orders\"").unwrap_err().0[0].contains("source is the table's schema and name"));
        assert_eq!(with("sources = 'public\\.orders_.*'").unwrap(), None);
    }

    #[test]
    fn dead_letters_need_a_place() {
        let bad = GOOD.replace("key =", "on_error = \"dead-letter\"\nkey =");
        assert!(Config::parse(&bad).unwrap_err().0[0].contains("needs [dead_letters]"));
    }
}
