//! `[[table]]`.

use std::fmt;

use change::{EnvelopeForm, MetaColumns, Placeholder, SchemaError, Secret, SourceTables};
use pipeline::OnError;
use regex::Regex;
use serde::Deserialize;

use super::{
    Pattern,
    column::ColumnSection,
    flattened::{EnvelopeName, FlattenedSection},
    layout::PropertiesSection,
    pattern::{self, Topics},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableSection {
    name: String,
    topic: Option<String>,
    topics: Option<String>,
    source: Option<String>,
    sources: Option<String>,
    location: String,
    key: Option<Vec<String>>,
    #[serde(default)]
    on_error: OnErrorName,
    columns: Option<toml::Table>,
    #[serde(default)]
    exclude_columns: Vec<String>,
    #[serde(default)]
    schema_changes: SchemaChanges,
    unavailable_value_placeholder: Option<String>,
    #[serde(default)]
    envelope: EnvelopeName,
    flattened: Option<FlattenedSection>,
    #[serde(default)]
    meta_columns: MetaSection,
    #[serde(default)]
    partition_by: Vec<String>,
    comment: Option<String>,
    #[serde(default)]
    properties: PropertiesSection,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
enum OnErrorName {
    #[default]
    Halt,
    DeadLetter,
}

/// What becomes of a table when the source's columns change.
#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum SchemaChanges {
    /// New columns are added, types get wider, and what the source drops stays as null.
    #[default]
    Evolve,
    /// Each is refused.
    Strict,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct MetaSection {
    source_lsn: Option<String>,
    source_anchor: Option<String>,
    is_deleted: Option<String>,
}

impl TableSection {
    pub(super) fn check(self, secret: Option<&Secret>) -> Result<Pattern, String> {
        let name = self.name;
        let at = |problem: &dyn fmt::Display| format!("table `{name}`: {problem}");
        let topics = match (self.topic, self.topics) {
            (Some(topic), None) => Topics::One(topic),
            (None, Some(expression)) => {
                let whole = Regex::new(&format!("^(?:{expression})$"));
                Topics::Matching(whole.map_err(|e| at(&format_args!("topics: {e}")))?)
            }
            _ => return Err(at(&"write topic = \"...\" for one, or topics = \"...\" with a regular expression")),
        };
        let sources = match (self.source, self.sources) {
            (None, None) => None,
            (Some(one), None) if one.contains('.') => Some(SourceTables::One(one)),
            (Some(_), None) => {
                return Err(at(&"source is the table's schema and name in the source: \"public.orders\""));
            }
            (None, Some(expression)) => {
                let whole = Regex::new(&format!("^(?:{expression})$"));
                Some(SourceTables::Matching(whole.map_err(|e| at(&format_args!("sources: {e}")))?))
            }
            _ => {
                return Err(at(
                    &"write source = \"schema.table\" for one, or sources = \"...\" with a regular expression",
                ));
            }
        };
        if sources.is_some() && (self.key.is_none() || self.columns.is_none()) {
            return Err(at(&"declare key and columns: the first record of its topic may be of another table"));
        }
        let is_template = |text: &str| matches!(topics, Topics::One(_)) || text.contains('$');
        if !is_template(&name) || !is_template(&self.location) {
            return Err(at(&"tables of several topics need a $1 of the expression in name and location"));
        }
        let template = |text: String| match &topics {
            Topics::One(_) => Ok(text),
            Topics::Matching(expression) => pattern::template(expression, &text).map_err(|e| at(&e)),
        };
        let (name_template, location) = (template(name.clone())?, template(self.location.clone())?);
        let declared = |columns: toml::Table| {
            let each = columns.into_iter().map(|(column, declared)| {
                let at = |problem: &dyn fmt::Display| format!("table `{name}`, column `{column}`: {problem}");
                let section: ColumnSection = declared.try_into().map_err(|_| at(&ColumnSection::SHAPE))?;
                let comment = section.comment().map(str::to_owned);
                section.check(&column, secret).map(|column| (column, comment)).map_err(|e| at(&e))
            });
            each.collect::<Result<Vec<_>, String>>()
        };
        let columns = self.columns.map(declared).transpose()?;
        let is_declared = |name: &&String| columns.iter().flatten().any(|(column, _)| column.source == **name);
        if let Some(column) = self.exclude_columns.iter().find(is_declared) {
            return Err(at(&format_args!("column `{column}` stands under columns and under exclude_columns")));
        }
        let default = MetaColumns::default();
        let meta = MetaColumns {
            source_lsn: self.meta_columns.source_lsn.unwrap_or(default.source_lsn),
            source_anchor: self.meta_columns.source_anchor.unwrap_or(default.source_anchor),
            is_deleted: self.meta_columns.is_deleted.unwrap_or(default.is_deleted),
        };
        let form = self.envelope.form(self.flattened).map_err(|e| at(&e))?;
        if sources.is_some() && form != EnvelopeForm::Debezium {
            return Err(at(&"a flattened record does not name its table as source and sources need it"));
        }
        let placeholder = self.unavailable_value_placeholder.map(|text| text.parse());
        let layout = self.properties.layout(self.comment, columns.as_deref().unwrap_or_default());
        Ok(Pattern {
            layout: layout.map_err(|e| at(&e))?,
            partition_by: self.partition_by,
            placeholder: placeholder.transpose().map_err(|e: SchemaError| at(&e))?.unwrap_or_else(Placeholder::default),
            form,
            topics,
            sources,
            location,
            on_error: match self.on_error {
                OnErrorName::Halt => OnError::Halt,
                OnErrorName::DeadLetter => OnError::DeadLetter,
            },
            key: self.key,
            columns: columns.map(|columns| columns.into_iter().map(|(column, _)| column).collect()),
            excluded: self.exclude_columns.into_iter().collect(),
            grows: self.schema_changes == SchemaChanges::Evolve,
            meta,
            name: name_template,
        })
    }
}
