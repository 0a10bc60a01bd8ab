//! [`SourceTables`]: which tables of the source a topic's records are of, where it carries those of others, too.

use std::borrow::Cow;

use regex::Regex;
use serde::Deserialize;

use crate::Problem;

/// The tables of the source whose changes belong to a table of the replica, as `schema.table`.
#[derive(Debug, Clone)]
pub enum SourceTables {
    /// This one.
    One(String),
    /// Those whose whole name matches: the partitions of a table, say.
    Matching(Regex),
}

impl PartialEq for SourceTables {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(one), Self::One(other)) => one == other,
            (Self::Matching(one), Self::Matching(other)) => one.as_str() == other.as_str(),
            _ => false,
        }
    }
}

impl Eq for SourceTables {}

/// As much of an envelope as says of which table it is.
#[derive(Deserialize)]
struct Routed<'a> {
    #[serde(borrow)]
    payload: Option<Box<Routed<'a>>>,
    #[serde(borrow)]
    source: Option<Source<'a>>,
    #[serde(borrow)]
    op: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    schema: Option<Cow<'a, str>>,
    #[serde(borrow)]
    table: Option<Cow<'a, str>>,
}

impl SourceTables {
    /// Whether an envelope is of another table. What names no table is left to the decoder.
    ///
    /// # Errors
    /// [`Problem::PartlyTruncated`] where one of several tables was truncated.
    pub(crate) fn pass_over(&self, value: &str) -> Result<bool, Problem> {
        let Ok(mut routed) = serde_json::from_str::<Routed<'_>>(value) else { return Ok(false) };
        if let Some(payload) = routed.payload {
            routed = *payload;
        }
        let Some(Source { schema: Some(schema), table: Some(table) }) = routed.source else { return Ok(false) };
        let name = format!("{schema}.{table}");
        match self {
            Self::One(one) => Ok(*one != name),
            Self::Matching(expression) if !expression.is_match(&name) => Ok(true),
            Self::Matching(_) if routed.op.as_deref() == Some("t") => Err(Problem::PartlyTruncated),
            Self::Matching(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(op: &str, table: &str) -> String {
        format!(r#"{{"op":"{op}","after":{{"id":1}},"source":{{"lsn":7,"schema":"public","table":"{table}"}}}}"#)
    }

    #[test]
    fn one_table_or_those_that_match_are_taken_with_and_without_the_wrapper() {
        let one = SourceTables::One("public.orders".into());
        let months = SourceTables::Matching(Regex::new(r"^(?:public\.orders_\d+)$").unwrap());
        for (table, is_one, is_month) in [
            ("orders", true, false),
            ("orders_7", false, true),
            ("orders_7_old", false, false),
            ("Orders", false, false),
        ] {
            let plain = envelope("u", table);
            for value in [format!(r#"{{"schema":{{"type":"struct"}},"payload":{plain}}}"#), plain] {
                assert_eq!((one.pass_over(&value), months.pass_over(&value)), (Ok(!is_one), Ok(!is_month)), "{value}");
            }
        }
    }

    #[test]
    fn what_names_no_table_is_left_to_the_decoder() {
        let one = SourceTables::One("public.orders".into());
        for value in
            ["null", "7", "{", r#"{"ts_ms":1}"#, r#"{"op":"u","source":{"lsn":7}}"#, r#"{"op":"m","source":null}"#]
        {
            assert_eq!(one.pass_over(value), Ok(false), "{value}");
        }
    }

    #[test]
    fn a_truncate_of_one_of_several_tables_is_refused_and_one_of_another_table_is_passed_over() {
        let one = SourceTables::One("public.orders_7".into());
        let months = SourceTables::Matching(Regex::new(r"^(?:public\.orders_\d+)$").unwrap());
        let (month, other) = (envelope("t", "orders_7"), envelope("t", "notes"));
        assert_eq!((one.pass_over(&month), months.pass_over(&month)), (Ok(false), Err(Problem::PartlyTruncated)));
        assert_eq!((one.pass_over(&other), months.pass_over(&other)), (Ok(true), Ok(true)));
    }
}
