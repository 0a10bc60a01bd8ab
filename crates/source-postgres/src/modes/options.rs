//! Reads the options of a connector's config.

use std::str::FromStr;

use change::Placeholder;
use serde_json::{Map, Value};

use super::{Modes, ModesError, words::Words};
use crate::{
    patterns::{Pattern, Patterns},
    selection::Filter,
};

/// A connector's config.
pub(super) struct Options(pub(super) Map<String, Value>);

impl Options {
    /// An option's value as text: JSON's own strings, numbers and booleans all do.
    fn text(&self, option: &str) -> Option<String> {
        let text = match self.0.get(option)? {
            Value::Null => return None,
            Value::String(text) => text.trim().to_owned(),
            other => other.to_string(),
        };
        (!text.is_empty()).then_some(text)
    }

    fn choice<T: Words>(&self, option: &'static str) -> Result<T, ModesError> {
        let Some(text) = self.text(option) else { return Ok(T::default()) };
        T::of(&text).ok_or_else(|| ModesError::Option { option, expected: T::expected() })
    }

    fn flag(&self, option: &'static str, default: bool) -> bool {
        self.text(option).map_or(default, |text| text.eq_ignore_ascii_case("true"))
    }

    fn number(&self, option: &'static str, expected: &str) -> Result<Option<u8>, ModesError> {
        let number = self.text(option).map(|text| u8::from_str(&text)).transpose();
        number.map_err(|_| ModesError::Option { option, expected: expected.to_owned() })
    }

    /// A value that has to be known here.
    fn known(&self, option: &'static str) -> Result<Option<String>, ModesError> {
        match self.text(option) {
            Some(text) if text.contains("${") => Err(ModesError::Elsewhere(option)),
            text => Ok(text),
        }
    }

    fn patterns(&self, option: &'static str) -> Result<Option<Patterns>, ModesError> {
        self.known(option)?.map(|list| Patterns::list(option, &list)).transpose()
    }

    fn filter(&self, include: &'static str, exclude: &'static str) -> Result<Filter, ModesError> {
        Ok(Filter { include: self.patterns(include)?, exclude: self.patterns(exclude)? })
    }

    /// `table:column,column;table:column`, where the table is a pattern.
    fn key_columns(&self) -> Result<Vec<Pattern>, ModesError> {
        const OPTION: &str = "message.key.columns";
        let list = self.known(OPTION)?.unwrap_or_default();
        let mut patterns = Vec::new();
        for entry in list.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let malformed =
                || ModesError::Option { option: OPTION, expected: "schema.table:column,column;...".to_owned() };
            let (table, columns) = entry.split_once(':').ok_or_else(malformed)?;
            for column in columns.split(',') {
                patterns.push(Pattern::new(OPTION, &format!("{}.{}", table.trim(), column.trim()))?);
            }
        }
        Ok(patterns)
    }

    /// Whether a transform takes the envelope away.
    fn unwraps(&self) -> bool {
        let is_unwrap = |class: &Value| class.as_str().is_some_and(|name| name.ends_with("ExtractNewRecordState"));
        self.0.iter().any(|(option, class)| option.starts_with("transforms.") && is_unwrap(class))
    }

    /// All that is read of a connector's config.
    ///
    /// # Errors
    /// [`ModesError`], for the first thing that is wrong.
    pub(super) fn modes(&self) -> Result<Modes, ModesError> {
        let placeholder = self.known("unavailable.value.placeholder")?;
        if placeholder.as_ref().is_some_and(|text| text.parse::<Placeholder>().is_err()) {
            let expected = "a text, or hex: and pairs of hexadecimal digits".to_owned();
            return Err(ModesError::Option { option: "unavailable.value.placeholder", expected });
        }
        Ok(Modes {
            decimal: self.choice("decimal.handling.mode")?,
            time: self.choice("time.precision.mode")?,
            interval: self.choice("interval.handling.mode")?,
            binary: self.choice("binary.handling.mode")?,
            unknown_datatypes: self.flag("include.unknown.datatypes", false),
            money_digits: self.number("money.fraction.digits", "a small number")?,
            placeholder: placeholder.filter(|text| text.parse() != Ok(Placeholder::default())),
            topic_prefix: self.known("topic.prefix")?,
            slot: self.known("slot.name")?,
            topic_delimiter: self.known("topic.delimiter")?,
            is_other_than_json: self.text("value.converter").is_some_and(|class| !class.ends_with(".JsonConverter")),
            unwraps: self.unwraps(),
            // the connector's default leaves truncates out
            sends_all: self.text("skipped.operations").as_deref() == Some("none"),
            nulls_stay: !self.flag("value.converter.replace.null.with.default", true),
            schemas: self.filter("schema.include.list", "schema.exclude.list")?,
            tables: self.filter("table.include.list", "table.exclude.list")?,
            columns: self.filter("column.include.list", "column.exclude.list")?,
            signals: self.known("signal.data.collection")?,
            key_columns: self.key_columns()?,
        })
    }
}
