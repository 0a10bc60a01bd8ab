//! The config file: one TOML document, checked as a whole.
//!
//! Unknown keys are refused, and every problem is reported at once with its path. `${NAME}` in a value stands for an
//! environment variable and `${file:PATH}` for the content of a file, so that a secret stands in neither the file nor
//! a log.

mod expand;
mod flattened;

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc, time::Duration};

use bytesize::ByteSize;
use change::{Column, MetaColumns, TableSchema};
use pipeline::{BatchLimits, OnError};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use source_kafka::KafkaSettings;

use self::flattened::{EnvelopeName, FlattenedSection};

/// A config that can be run.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) kafka: Option<KafkaSettings>,
    pub(crate) store: BTreeMap<String, String>,
    pub(crate) batch: BatchLimits,
    pub(crate) dead_letters: Option<String>,
    pub(crate) retry_max: Duration,
    pub(crate) memory: usize,
    pub(crate) tables: Vec<TableConfig>,
}

/// A table of the config.
#[derive(Debug, Clone)]
pub(crate) struct TableConfig {
    pub(crate) name: String,
    pub(crate) topic: String,
    pub(crate) location: String,
    pub(crate) on_error: OnError,
    pub(crate) schema: Arc<TableSchema>,
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
        let store: Option<BTreeMap<String, String>> = section(&mut document, "store", &mut problems);
        let batch: BatchSection = section(&mut document, "batch", &mut problems).unwrap_or_default();
        let dead_letters: Option<DeadLettersSection> = section(&mut document, "dead_letters", &mut problems);
        let retry: RetrySection = section(&mut document, "retry", &mut problems).unwrap_or_default();
        let memory: MemorySection = section(&mut document, "memory", &mut problems).unwrap_or_default();
        let tables = tables(&mut document, &mut problems);
        for unknown in document.keys() {
            problems.push(format!(
                "{unknown}: unknown; expected kafka, store, batch, dead_letters, retry, memory or table"
            ));
        }
        let batch = batch.limits(&mut problems);
        if dead_letters.is_none() {
            for table in tables.iter().filter(|table| table.on_error == OnError::DeadLetter) {
                problems.push(format!(
                    "table `{}`: on_error = \"dead-letter\" needs [dead_letters] path = \"...\"",
                    table.name
                ));
            }
        }
        if !problems.is_empty() {
            return Err(Problems(problems));
        }
        Ok(Self {
            kafka: kafka.map(|kafka| KafkaSettings {
                bootstrap_servers: kafka.bootstrap_servers,
                group: kafka.group,
                commits: true,
                options: kafka.options,
            }),
            store: store.unwrap_or_default(),
            batch,
            dead_letters: dead_letters.map(|section| section.path),
            retry_max: retry.max,
            memory: usize::try_from(memory.limit.as_u64()).unwrap_or(usize::MAX),
            tables,
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

fn tables(document: &mut toml::Table, problems: &mut Vec<String>) -> Vec<TableConfig> {
    let sections = match document.remove("table") {
        Some(toml::Value::Array(sections)) if !sections.is_empty() => sections,
        Some(toml::Value::Table(_)) => {
            problems.push("[table]: write [[table]], there can be several".to_owned());
            return Vec::new();
        }
        _ => {
            problems.push("no table: add a [[table]] section".to_owned());
            return Vec::new();
        }
    };
    let mut tables: Vec<TableConfig> = Vec::new();
    for (index, section) in sections.into_iter().enumerate() {
        let path = format!("[[table]] {}", index + 1);
        let table = section.try_into::<TableSection>().map_err(|e| e.message().trim_end().to_owned());
        match table.and_then(TableSection::check) {
            Ok(table) => {
                for other in &tables {
                    for (what, same) in [
                        ("name", other.name == table.name),
                        ("topic", other.topic == table.topic),
                        ("location", other.location == table.location),
                    ] {
                        if same {
                            problems.push(format!("{path}: its {what} is also that of table `{}`", other.name));
                        }
                    }
                }
                tables.push(table);
            }
            Err(problem) => problems.push(format!("{path}: {problem}")),
        }
    }
    tables
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KafkaSection {
    bootstrap_servers: String,
    #[serde(default = "default_group")]
    group: String,
    #[serde(default)]
    options: BTreeMap<String, String>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TableSection {
    name: String,
    topic: String,
    location: String,
    key: Vec<String>,
    #[serde(default)]
    on_error: OnErrorName,
    columns: toml::Table,
    unavailable_value_placeholder: Option<String>,
    #[serde(default)]
    envelope: EnvelopeName,
    flattened: Option<FlattenedSection>,
    #[serde(default)]
    meta_columns: MetaSection,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum OnErrorName {
    #[default]
    Halt,
    DeadLetter,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct MetaSection {
    source_lsn: Option<String>,
    source_anchor: Option<String>,
    is_deleted: Option<String>,
}

impl TableSection {
    fn check(self) -> Result<TableConfig, String> {
        let name = self.name;
        let columns = self
            .columns
            .iter()
            .map(|(column, declared)| {
                let declared = declared
                    .as_str()
                    .ok_or_else(|| format!("table `{name}`, column `{column}`: its type is no string"))?;
                Column::declared(column, declared).map_err(|e| format!("table `{name}`, column `{column}`: {e}"))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let default = MetaColumns::default();
        let meta = MetaColumns {
            source_lsn: self.meta_columns.source_lsn.unwrap_or(default.source_lsn),
            source_anchor: self.meta_columns.source_anchor.unwrap_or(default.source_anchor),
            is_deleted: self.meta_columns.is_deleted.unwrap_or(default.is_deleted),
        };
        let mut schema = TableSchema::new(columns, &self.key, meta).map_err(|e| format!("table `{name}`: {e}"))?;
        if let Some(placeholder) = self.unavailable_value_placeholder {
            let placeholder = placeholder.parse().map_err(|e| format!("table `{name}`: {e}"))?;
            schema = schema.with_placeholder(placeholder);
        }
        let form = self.envelope.form(self.flattened).map_err(|e| format!("table `{name}`: {e}"))?;
        let schema = schema.with_form(form).map_err(|e| format!("table `{name}`: {e}"))?;
        let on_error = match self.on_error {
            OnErrorName::Halt => OnError::Halt,
            OnErrorName::DeadLetter => OnError::DeadLetter,
        };
        Ok(TableConfig { name, topic: self.topic, location: self.location, on_error, schema: Arc::new(schema) })
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
    use change::{Deletes, EnvelopeForm, Flattening, Metadata};

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
    fn dead_letters_need_a_place() {
        let bad = GOOD.replace("key =", "on_error = \"dead-letter\"\nkey =");
        assert!(Config::parse(&bad).unwrap_err().0[0].contains("needs [dead_letters]"));
    }
}
