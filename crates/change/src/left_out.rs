//! [`LeftOut`]: values that rows of a batch leave out, to be looked up in the source, and the way of what was found into
//! the rows.
//!
//! What can be left out is a text, a document, bytes or an array ([`Placeholder`](crate::Placeholder)). It is found as JSON
//! in one form for each type, whatever the connector's modes are, and is read and masked as a connector's value is.

use std::{cell::Cell as Slot, sync::Arc};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType as ArrowType, Int64Type, TimestampMicrosecondType},
    error::ArrowError,
    util::display::array_value_to_string,
};
use serde::de::DeserializeSeed;

use crate::{
    BatchBuilder, ChangeBatch, Column, DataType, Lsn, Malformed, Order, Problem, TableSchema, Unfit,
    batch::Origin,
    cell::{Cell, CellSeed},
    numeric::ZEROS_A_ROW,
    wire::{self, Wire},
};

/// What some rows of a batch leave out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The table's columns of which at least one of the rows leaves out the value, by position.
    pub columns: Vec<usize>,
    /// For each row its key: a text a key column, in a form that PostgreSQL reads as the column's type.
    pub keys: Vec<Vec<Option<String>>>,
    /// The greatest LSN of the rows.
    pub newest: Lsn,
}

/// Values that were found for a row: a JSON token for each of [`LeftOut::columns`].
///
/// A text or a document is a string that holds it, bytes are base64 in a string, an hstore is an object, an array is an
/// array of these or of numbers.
pub type Found = Vec<String>;

impl TableSchema {
    /// Whether rows can be looked up by their keys: there is no mask in the place of one.
    #[must_use]
    pub fn has_plain_key(&self) -> bool {
        self.key().iter().all(|key| !self.masked().contains(key))
    }
}

impl ChangeBatch {
    /// What these rows leave out.
    ///
    /// # Errors
    /// Arrow's, where a row is not there.
    pub fn left_out(&self, rows: &[usize]) -> Result<LeftOut, ArrowError> {
        let is_left_out = |&column: &usize| {
            let flags = self.unchanged[column].as_ref();
            !self.schema.is_companion(Some(column))
                && flags.is_some_and(|flags| rows.iter().any(|&row| flags.value(row)))
        };
        let lsns = self.rows.column(self.schema.columns().len()).as_primitive::<Int64Type>();
        Ok(LeftOut {
            columns: (0..self.unchanged.len()).filter(is_left_out).collect(),
            keys: rows.iter().map(|&row| self.key_texts(row)).collect::<Result<_, _>>()?,
            newest: rows.iter().filter_map(|&row| Lsn::try_from(lsns.value(row)).ok()).max().unwrap_or_default(),
        })
    }

    fn key_texts(&self, row: usize) -> Result<Vec<Option<String>>, ArrowError> {
        let text = |&key: &usize| {
            let values = self.rows.column(key);
            Ok(match values.data_type() {
                _ if values.is_null(row) => None,
                // bytea's own form
                ArrowType::Binary => Some(format!("\\x{}", wire::to_hex(values.as_binary::<i32>().value(row)))),
                ArrowType::Timestamp(_, Some(_)) => {
                    let instants = values.as_primitive::<TimestampMicrosecondType>().clone();
                    Some(array_value_to_string(&instants.with_timezone_opt(None::<&str>), row)? + "Z")
                }
                _ => Some(array_value_to_string(values, row)?),
            })
        };
        self.schema.key().iter().map(text).collect()
    }

    /// The batch with what was found for some of its rows, each with the values of `columns`.
    ///
    /// # Errors
    /// [`Malformed`] names a column whose value is not of its declared type.
    pub fn with_found(self, columns: &[usize], found: &[(usize, Found)]) -> Result<Self, Malformed> {
        let mut values = BatchBuilder::new(Arc::clone(&self.schema));
        let mut pairs = Vec::new();
        for (value, (row, tokens)) in found.iter().enumerate() {
            let mut cells = vec![Cell::Null; self.schema.columns().len()];
            for (&column, token) in columns.iter().zip(tokens) {
                cells[column] = read(&self.schema.columns()[column], token, Wire::Base64)?;
            }
            values.push(&cells, Origin { order: Order::default(), deleted: false, partition: 0, offset: 0 });
            pairs.push((*row, value));
        }
        let values: Result<RecordBatch, ArrowError> = values.finish().map(|batch| batch.rows);
        let broken = |_| Malformed::from(Problem::Value("cannot be put in its place"));
        self.filled(&values.map_err(broken)?, &pairs).map_err(broken)
    }
}

/// The form of values that the source wrote by itself.
fn plain(data_type: &DataType, bytes: Wire) -> Option<Wire> {
    match data_type {
        DataType::Binary => Some(bytes),
        DataType::Decimal { .. }
        | DataType::Numeric { .. }
        | DataType::Date
        | DataType::Time
        | DataType::TimestampNtz => Some(Wire::Text),
        DataType::Array(element) => plain(element, bytes),
        _ => None,
    }
}

/// Reads a value that was found, whose bytes are in this form, and hides it where the column has a mask.
pub(crate) fn read<'a>(column: &Column, token: &'a str, bytes: Wire) -> Result<Cell<'a>, Malformed> {
    let (mut fault, zeros) = (None, Slot::new(ZEROS_A_ROW));
    let seed = CellSeed {
        column,
        data_type: column.source_type(),
        wire: plain(column.source_type(), bytes),
        seen: &Slot::default(),
        placeholder: None,
        unfit: Unfit::Refuse,
        zeros: &zeros,
        fault: &mut fault,
    };
    let read = seed.deserialize(&mut serde_json::Deserializer::from_str(token));
    let unreadable = Problem::Value("is no JSON where the source was asked for it").at_column(column);
    let mut cell = read.map_err(|_| fault.unwrap_or(unreadable))?;
    if let Some(masked) = &column.mask {
        masked.hide(&mut cell);
    }
    Ok(cell)
}

#[cfg(test)]
mod tests {
    use crate::{Decoder, Horizon, Mask, MetaColumns, RecordRef, Secret};

    use super::*;

    const LEFT_OUT: &str = "__debezium_unavailable_value";

    fn schema() -> Arc<TableSchema> {
        let secret = Secret::new(b"sixteen bytes...").unwrap();
        let declared = |name, declaration| Column::declared(name, declaration).unwrap();
        let columns = vec![
            declared("id", "long"),
            declared("at", "timestamp"),
            declared("note", "string"),
            declared("photo", "binary@hex"),
            declared("tags", "array<string>"),
            declared("doc", "json").named("document"),
            declared("mail", "string").masked(Mask::HmacSha256(secret)),
        ];
        Arc::new(TableSchema::new(columns, &["id", "at"], MetaColumns::default()).unwrap())
    }

    fn batch(rows: &[&str]) -> ChangeBatch {
        let (mut decoder, mut batch) = (Decoder::new(schema()), BatchBuilder::new(schema()));
        for (offset, after) in rows.iter().enumerate() {
            let value = format!(r#"{{"op":"u","after":{after},"source":{{"lsn":{}}}}}"#, 8 * (offset + 1));
            let (key, value) = (Some(&b"{}"[..]), Some(value.as_bytes()));
            let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
            decoder.decode(record, &mut Horizon::default(), &mut batch).unwrap();
        }
        batch.finish().unwrap()
    }

    fn row(id: i64, values: [&str; 5]) -> String {
        let [note, photo, tags, doc, mail] = values;
        format!(
            r#"{{"id":{id},"at":"2024-02-29T12:34:56.789Z","note":{note},"photo":{photo},"tags":{tags},"doc":{doc},"mail":{mail}}}"#
        )
    }

    #[test]
    fn what_rows_leave_out_is_named_with_keys_that_postgresql_reads() {
        let text = format!("\"{LEFT_OUT}\"");
        let first = row(1, ["\"a\"", "null", "[]", "null", "null"]);
        let second = row(2, [&text, "null", "[]", "null", "null"]);
        let third = row(3, ["\"b\"", "null", &format!("[{text}]"), "null", "null"]);
        let left_out = batch(&[&first, &second, &third]).left_out(&[1, 2]).unwrap();
        let key = |id: &str| vec![Some(id.to_owned()), Some("2024-02-29T12:34:56.789Z".to_owned())];
        let expected =
            LeftOut { columns: vec![2, 4], keys: vec![key("2"), key("3")], newest: Lsn::try_from(24_u64).unwrap() };
        assert_eq!(left_out, expected);
        assert_eq!(batch(&[&first, &second]).left_out(&[0]).unwrap().columns, [0; 0]);
    }

    #[test]
    fn what_was_found_stands_in_the_row_as_if_it_had_been_sent() {
        let bytes = wire::to_hex(LEFT_OUT.as_bytes());
        let text = format!("\"{LEFT_OUT}\"");
        let hole = row(7, [&text, &format!("\"{bytes}\""), &format!("[{text}]"), &text, &text]);
        let sent = row(7, ["\"n\\\"\"", "\"00ff\"", "[\"x\",null]", "\"{\\\"a\\\": 1}\"", "\"m@x\""]);
        let own = row(8, ["\"own\"", "null", "[]", "null", "null"]);
        let columns = batch(&[&own, &hole]).left_out(&[1]).unwrap().columns;
        let found = ["\"n\\\"\"", "\"AP8=\"", "[\"x\",null]", "\"{\\\"a\\\": 1}\"", "\"m@x\""].map(str::to_owned);
        let filled = batch(&[&own, &hole]).with_found(&columns, &[(1, found.to_vec())]).unwrap();
        assert_eq!(filled, batch(&[&own, &sent]));
    }

    #[test]
    fn a_text_that_reads_like_the_placeholder_is_a_value_when_it_was_found() {
        let text = format!("\"{LEFT_OUT}\"");
        let hole = row(7, [&text, "null", "[]", "null", "null"]);
        let filled = batch(&[&hole]).with_found(&[2], &[(0, vec![text.clone()])]).unwrap();
        assert!(!filled.has_unchanged());
        assert_eq!(filled.rows.column(2).as_string::<i32>().value(0), LEFT_OUT);
    }

    #[test]
    fn a_value_of_another_type_is_refused_without_being_shown() {
        let text = format!("\"{LEFT_OUT}\"");
        let hole = row(7, [&text, "null", "[]", "null", "null"]);
        for token in ["4711", "[4711]", "4711x"] {
            let refused = batch(&[&hole]).with_found(&[2], &[(0, vec![token.to_owned()])]).unwrap_err().to_string();
            assert!(refused.starts_with("column `note`: ") && !refused.contains("4711"), "{refused}");
        }
    }
}
