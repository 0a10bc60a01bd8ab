//! [`SourceRow`]: a row that was read from the source itself, and its way into a batch.

use std::sync::Arc;

use crate::{
    BatchBuilder, ChangeBatch, Malformed, Order, Problem, TableSchema, batch::Origin, cell::Cell, left_out, wire::Wire,
};

/// A row of the source, or a key that it does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// Where it stands among the events of its key.
    pub order: Order,
    /// Whether the source does not have it: then only its key counts.
    pub is_deleted: bool,
    /// Values by the position of the column, as JSON tokens: bytes in hexadecimal, an hstore as an object, a document as a
    /// string that holds it, times in ISO 8601. What is not named is null.
    pub values: Vec<(usize, String)>,
}

impl ChangeBatch {
    /// These rows, of any keys, as if each had been sent.
    ///
    /// # Errors
    /// [`Malformed`] names a column whose value is not of its type.
    pub fn of_source(schema: &Arc<TableSchema>, rows: &[SourceRow]) -> Result<Self, Malformed> {
        let mut batch = BatchBuilder::new(Arc::clone(schema));
        for SourceRow { order, is_deleted, values } in rows {
            let mut cells = vec![Cell::Null; schema.columns().len()];
            for (position, token) in values {
                let column = schema.columns().get(*position).ok_or(Problem::Value("is of no column"))?;
                cells[*position] = left_out::read(column, token, Wire::Hex)?;
            }
            batch.push(&cells, Origin { order: *order, deleted: *is_deleted, partition: 0, offset: 0 });
        }
        batch.finish().map_err(|_| Malformed::from(Problem::Value("cannot be put in its place")))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};

    use crate::{Column, Comparable, DataType, Lsn, Mask, MetaColumns};

    use super::*;

    fn schema() -> Arc<TableSchema> {
        let declared = [
            ("id", "long"),
            ("at", "timestamp@micros"),
            ("clock", "timestamp_ntz@micros"),
            ("day", "date@days"),
            ("time", "time@micros"),
            ("amount", "decimal(12,2)@base64"),
            ("digits", "numeric"),
            ("real", "double"),
            ("photo", "binary"),
            ("tags", "array<string>"),
            ("days", "array<date>"),
            ("pairs", "hstore"),
            ("doc", "json"),
        ];
        let mut columns: Vec<_> = declared.map(|(name, declared)| Column::declared(name, declared).unwrap()).into();
        columns.push(Column::declared("secret", "long").unwrap().masked(Mask::Null));
        Arc::new(TableSchema::new(columns, &["id"], MetaColumns::default()).unwrap())
    }

    fn order(lsn: u64) -> Order {
        Order { anchor: Lsn::try_from(lsn - 1).unwrap(), lsn: Lsn::try_from(lsn).unwrap() }
    }

    #[test]
    fn a_row_of_the_source_becomes_what_its_event_would_have() {
        let tokens = [
            "7",
            "\"2024-02-29 12:34:56.789+00\"",
            "\"2024-02-29 12:34:56\"",
            "\"2024-02-29\"",
            "\"24:00:00.000000\"",
            "\"1.50\"",
            "\"0.10\"",
            "-1.5e300",
            "\"00ff\"",
            "[\"a\",null]",
            "[\"1970-01-02\"]",
            "{\"a\":null}",
            "\"{\\\"a\\\": 1}\"",
            "4711",
        ];
        let values = tokens.iter().enumerate().map(|(position, token)| (position, (*token).to_owned())).collect();
        let live = SourceRow { order: order(8), is_deleted: false, values };
        let gone = SourceRow { order: order(16), is_deleted: true, values: vec![(0, "8".to_owned())] };
        let schema = schema();
        let batch = ChangeBatch::of_source(&schema, &[live, gone]).unwrap();
        let text = |row: usize| {
            let columns = schema.columns().iter().zip(batch.rows.columns());
            let texts = columns.map(|(column, values)| {
                Comparable::new(column.data_type.clone()).text(values, row).map(std::borrow::Cow::into_owned)
            });
            texts.map(Option::unwrap_or_default).collect::<Vec<_>>().join("|")
        };
        let reals = Comparable::new(DataType::Double).literal(text(0).split('|').nth(7).unwrap()).into_owned();
        let expected = "7|2024-02-29 12:34:56.789+00|2024-02-29 12:34:56|2024-02-29|24:00:00.000000|1.5|0.1|REAL|00ff|\
                        'a',NULL|'1970-01-02'|'a',NULL|{\"a\": 1}|";
        assert_eq!(reals, "-1.5e300");
        assert_eq!(text(0).replace(text(0).split('|').nth(7).unwrap(), "REAL"), expected);
        assert_eq!(text(1), "8|||||||||||||");
        let deleted = batch.rows.column(schema.columns().len() + 2).as_boolean();
        assert_eq!((deleted.value(0), deleted.value(1)), (false, true));
        assert!(batch.rows.column(13).is_null(0));
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_without_being_shown() {
        let row =
            SourceRow { order: order(8), is_deleted: false, values: vec![(5, "\"1234567890123.45\"".to_owned())] };
        let refused = ChangeBatch::of_source(&schema(), &[row]).unwrap_err().to_string();
        assert!(refused.starts_with("column `amount`: ") && !refused.contains("12345"), "{refused}");
    }

    #[test]
    fn a_key_that_was_compared_becomes_a_value() {
        for (declared, text) in [
            ("long", "-7"),
            ("boolean", "true"),
            ("double", "3ff8000000000000"),
            ("double", "fff0000000000000"),
            ("float", "NaN"),
            ("string", "it's \"so\""),
            ("binary", "00ff"),
            ("date", "0001-01-01"),
            ("timestamp", "2024-02-29 12:34:56.789012+00"),
            ("timestamp_ntz", "1969-12-31 23:59:59.999999"),
            ("decimal(12,2)", "-0.5"),
            ("time", "24:00:00.000000"),
        ] {
            let data_type: DataType = declared.parse().unwrap();
            let comparable = Comparable::new(data_type.clone());
            let schema = TableSchema::new(vec![Column::new("k", data_type)], &["k"], MetaColumns::default()).unwrap();
            let row = SourceRow { order: order(8), is_deleted: true, values: vec![(0, comparable.token(text))] };
            let batch = ChangeBatch::of_source(&Arc::new(schema), &[row]).unwrap();
            assert_eq!(comparable.text(batch.rows.column(0), 0).unwrap(), text, "{declared}");
        }
    }
}
