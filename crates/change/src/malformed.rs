//! [`Malformed`]: why a record could not be decoded.

use crate::{Column, SchemaError};

/// A record that cannot become a change event. It names the column and the expected type, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Malformed {
    /// The column at fault, where one is, as messages name it: `` `amount` ``.
    pub column: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.column {
            Some(column) => write!(f, "column {column}: {}", self.problem),
            None => self.problem.fmt(f),
        }
    }
}

/// What is wrong with a record, in words for an operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The bytes are no JSON.
    #[error("the {part} is not valid JSON (byte {byte})")]
    NotJson {
        /// `key` or `value`.
        part: &'static str,
        /// Where the parser stopped.
        byte: usize,
    },
    /// The bytes are framed for a schema registry, and there is none to ask, or no id.
    #[error(
        "the {0} begins with the mark of a schema registry and was not read: add [schema_registry] with its url to the \
         config, and see that the converter writes ids of four bytes"
    )]
    Framed(&'static str),
    /// The schema of a key or a value cannot be used, or is not followed.
    #[error("the {part} has schema {id} of the registry: {what}")]
    Schema {
        /// `key` or `value`.
        part: &'static str,
        /// The schema's id.
        id: u32,
        /// What is wrong with it; without a value of a row.
        what: String,
    },
    /// A truncate of one of the source's tables that a table of the replica is of.
    #[error(
        "one of several tables of the source was truncated, and which rows were its own is not known: delete them at the \
         source with DELETE, or send a new snapshot into another location"
    )]
    PartlyTruncated,
    /// JSON, but not of an envelope's shape.
    #[error("not a Debezium envelope: {0}")]
    NotAnEnvelope(&'static str),
    /// An `op` that Debezium does not have.
    #[error("unknown op: expected one of r, c, u, d, t, m")]
    UnknownOp,
    /// The event cannot be ordered.
    #[error("the source block names no LSN to order the event by")]
    NoLsn,
    /// The source block's LSN or sequence cannot be read.
    #[error("the source block has an unreadable {0}")]
    BadLsn(&'static str),
    /// A flattened row says nothing in a field that it needs.
    #[error("the row says nothing in `{field}`; {remedy}")]
    NoMetadata {
        /// The field's name.
        field: String,
        /// What to change, in the transform or in the config.
        remedy: &'static str,
    },
    /// A flattened row cannot be ordered by its offset.
    #[error("the record has no offset to order it by")]
    NoOffset,
    /// An envelope in a topic whose rows are flattened.
    #[error("an envelope, not a flattened row; set the table's envelope to \"debezium\"")]
    NotFlattened,
    /// A row change without a record key.
    #[error("the record has no key; set a primary key or message.key.columns")]
    NoKey,
    /// The record's key is not an object with the table's key columns.
    #[error("the record key lacks this key column")]
    KeyColumnMissing,
    /// The event carries a column that the table does not have.
    #[error("not configured for this table; add it under [table.columns], or leave it out with exclude_columns")]
    UnknownColumn,
    /// A column that the source got cannot be one of the table's.
    #[error("{0}")]
    NewColumn(SchemaError),
    /// The table has a column that the event does not carry.
    #[error("missing in the event; drop it from [table.columns] or check the connector's column filters")]
    ColumnMissing,
    /// The same column stands twice in a row image.
    #[error("stands twice in the row")]
    ColumnTwice,
    /// An insert without a TOASTed value: the value is in another key's row.
    #[error(
        "an insert leaves the value out, and no header __debezium.oldkey says which row had it; set REPLICA IDENTITY FULL on \
         the source table"
    )]
    LeftOut,
    /// A key of which nobody can tell whether it was left out.
    #[error(
        "a key that was left out, or that reads like the placeholder for what was; set REPLICA IDENTITY FULL and another \
         unavailable.value.placeholder"
    )]
    KeyLeftOut,
    /// The value's JSON type does not fit the column.
    #[error("expected {expected}, found {found}")]
    Type {
        /// The form that the column's type takes.
        expected: &'static str,
        /// The JSON type that stands there.
        found: &'static str,
    },
    /// The value has the right form but does not fit the column exactly.
    #[error("{0}")]
    Value(&'static str),
    /// The value is one that the column's type cannot hold, which [`Unfit`](crate::Unfit) may allow.
    #[error("{0}; unfit = \"null\" or \"raw\" keeps such rows")]
    Unfit(&'static str),
}

impl From<Problem> for Malformed {
    fn from(problem: Problem) -> Self {
        Self { column: None, problem }
    }
}

impl Problem {
    /// This problem, at a column of the source that the table does not have, or has under the same name.
    #[must_use]
    pub fn at(self, column: &str) -> Malformed {
        Malformed { column: Some(format!("`{column}`")), problem: self }
    }

    /// This problem, at a column of the table.
    #[must_use]
    pub fn at_column(self, column: &Column) -> Malformed {
        Malformed { column: Some(column.to_string()), problem: self }
    }
}
