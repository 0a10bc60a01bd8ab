//! [`Modes`]: what a Debezium connector's config says about tables, topics and the form of values.

mod options;
mod words;

use serde_json::Value;

use self::options::Options;
pub(crate) use self::words::Words;
pub use self::words::{BinaryMode, DecimalMode, IntervalMode, TimeMode};
use crate::{patterns::Pattern, selection::Filter};

/// What decides which tables and columns the connector sends, under which names and keys, and how it writes values. The
/// default is that of a connector which sets nothing.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the options")]
pub struct Modes {
    /// How decimals are written.
    pub decimal: DecimalMode,
    /// How dates and times are written.
    pub time: TimeMode,
    /// How intervals are written.
    pub interval: IntervalMode,
    /// How bytes are written.
    pub binary: BinaryMode,
    /// `include.unknown.datatypes`: whether the text of types that it does not know is sent as bytes.
    pub unknown_datatypes: bool,
    /// `money.fraction.digits`, where it is set.
    pub money_digits: Option<u8>,
    /// `unavailable.value.placeholder`, where it is not the default.
    pub placeholder: Option<String>,
    /// `topic.prefix`
    pub topic_prefix: Option<String>,
    /// `slot.name`, where it is set.
    pub slot: Option<String>,
    /// `topic.delimiter`, where it is set.
    pub topic_delimiter: Option<String>,
    /// Whether its values are written by another converter than that for JSON.
    pub(crate) is_other_than_json: bool,
    /// Whether a transform takes the envelope away.
    pub(crate) unwraps: bool,
    /// Whether it sends truncates too (`skipped.operations` is none).
    pub(crate) sends_all: bool,
    /// Whether the value converter leaves nulls as they are (`replace.null.with.default` is false).
    pub(crate) nulls_stay: bool,
    pub(crate) schemas: Filter,
    pub(crate) tables: Filter,
    /// Of `schema.table.column`.
    pub(crate) columns: Filter,
    pub(crate) signals: Option<String>,
    /// `message.key.columns`: of `schema.table.column`, in the key's order.
    key_columns: Vec<Pattern>,
}

/// Why a connector's config, or a pattern, cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModesError {
    /// The text is neither of the two forms of a connector's config.
    #[error("not a connector's config: {0}; expected a JSON object of options, or one with name and config")]
    NotAConfig(String),
    /// An option has a value that the connector does not know.
    #[error("the connector's {option} is not one of: {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it can be.
        expected: String,
    },
    /// Part of a value stands elsewhere.
    #[error("the connector's {0} has a ${{...}}, whose value only its worker knows; write the value itself")]
    Elsewhere(&'static str),
    /// Not a regular expression.
    #[error("{option}: `{pattern}` is no regular expression that is known here")]
    Pattern {
        /// Where it stands.
        option: &'static str,
        /// The pattern.
        pattern: String,
    },
}

impl Modes {
    /// From a connector's config as JSON: either `{"name": ..., "config": {...}}`, or the options alone.
    ///
    /// # Errors
    /// [`ModesError`], for the first thing that is wrong. No value of a config is in it but patterns.
    pub fn from_connector(json: &str) -> Result<Self, ModesError> {
        let value = serde_json::from_str(json).map_err(|error| {
            ModesError::NotAConfig(format!("no JSON from line {} column {} on", error.line(), error.column()))
        })?;
        let Value::Object(mut options) = value else {
            return Err(ModesError::NotAConfig("it is no object".to_owned()));
        };
        if let Some(Value::Object(config)) = options.remove("config") {
            options = config;
        }
        Options(options).modes()
    }

    /// What it does as a whole that a replica suffers from, a sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        let warnings = [
            (self.is_other_than_json, "value.converter is not JSON, which is all that Highwater reads"),
            (self.unwraps, "ExtractNewRecordState takes the envelope away, without which no change can be ordered"),
            (
                !self.sends_all,
                "skipped.operations leaves changes out: rows that a TRUNCATE removed stay; set it to \
            none",
            ),
        ];
        warnings.into_iter().filter(|(is_so, _)| *is_so).map(|(_, warning)| warning).collect()
    }

    /// The key that `message.key.columns` gives to a table; empty where it does not name it.
    pub(crate) fn key_of(&self, table: &str, columns: &[&str]) -> Vec<String> {
        let mut key: Vec<String> = Vec::new();
        for pattern in &self.key_columns {
            let found = columns.iter().filter(|column| pattern.matches(&format!("{table}.{column}")));
            for column in found {
                if !key.iter().any(|named| named == column) {
                    key.push((*column).to_owned());
                }
            }
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_config_are_read_and_what_is_unset_is_debeziums_default() {
        let flat = r#"{"decimal.handling.mode": "STRING", "time.precision.mode": "isostring", "include.unknown.datatypes": true,
            "interval.handling.mode": "string", "binary.handling.mode": "base64-url-safe", "topic.prefix": " shop ",
            "unavailable.value.placeholder": "gone", "database.password": "${file:/secret}"}"#;
        for json in [flat.to_owned(), format!(r#"{{"name": "shop", "config": {flat}}}"#)] {
            let modes = Modes::from_connector(&json).unwrap();
            assert_eq!((modes.decimal, modes.time), (DecimalMode::String, TimeMode::IsoString));
            assert_eq!((modes.interval, modes.binary), (IntervalMode::String, BinaryMode::Base64UrlSafe));
            assert_eq!((modes.topic_prefix.as_deref(), modes.placeholder.as_deref()), (Some("shop"), Some("gone")));
            assert!(modes.unknown_datatypes);
        }
        let modes = Modes::from_connector("{}").unwrap();
        assert_eq!((modes.decimal, modes.time), (DecimalMode::Precise, TimeMode::Adaptive));
        assert_eq!((modes.interval, modes.binary), (IntervalMode::Numeric, BinaryMode::Bytes));
        assert!(!modes.unknown_datatypes && !modes.nulls_stay && modes.placeholder.is_none());
        assert_eq!(modes.warnings().len(), 1, "truncates are left out unless the connector is told otherwise");
    }

    #[test]
    fn the_connector_of_the_shop_warns_of_nothing() {
        let modes = Modes::from_connector(include_str!("../../../connectors/shop-orders.json")).unwrap();
        assert_eq!(modes.warnings(), [""; 0]);
        assert_eq!(modes.topic_prefix.as_deref(), Some("shop"));
        assert!(modes.nulls_stay);
    }

    #[test]
    fn what_cannot_be_followed_is_named_by_its_option() {
        for (json, part) in [
            ("[]", "no object"),
            ("{", "no JSON from line 1"),
            (r#"{"decimal.handling.mode": "exact"}"#, "precise, double, string"),
            (r#"{"time.precision.mode": "secret"}"#, "time.precision.mode"),
            (r#"{"topic.prefix": "${file:x}"}"#, "topic.prefix"),
            (r#"{"table.include.list": "a.(b"}"#, "a.(b"),
            (r#"{"message.key.columns": "orders"}"#, "message.key.columns"),
            (r#"{"unavailable.value.placeholder": "hex:0"}"#, "unavailable.value.placeholder"),
            (r#"{"money.fraction.digits": "many"}"#, "money.fraction.digits"),
        ] {
            let said = Modes::from_connector(json).unwrap_err().to_string();
            assert!(said.contains(part) && !said.contains("secret"), "{json}: {said}");
        }
    }

    #[test]
    fn message_key_columns_name_a_tables_key_in_their_order() {
        let modes = Modes::from_connector(r#"{"message.key.columns": "public.a:y,x ; (.*).b:id"}"#).unwrap();
        let columns = ["x", "y", "id"];
        let key = |table| modes.key_of(table, &columns);
        assert_eq!(key("public.a"), ["y", "x"]);
        assert_eq!(key("sales.b"), ["id"]);
        assert_eq!(key("public.c"), [""; 0]);
    }

    #[test]
    fn a_connector_that_loses_changes_is_warned_of() {
        let json = r#"{"value.converter": "io.confluent.connect.avro.AvroConverter", "skipped.operations": "none",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}"#;
        let warnings = Modes::from_connector(json).unwrap().warnings();
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }
}
