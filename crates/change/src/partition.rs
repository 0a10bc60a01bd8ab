//! Partition columns: those by whose values a table's files lie in folders of their own.
//!
//! Such a value is not in a data file but in the log, as text (Delta protocol, "Partition Value Serialization"). An empty
//! text there is null, and Hive's name for null stands for it in a folder's name, so a column of texts cannot hold either.

use crate::{Column, DataType, Malformed, Problem, SchemaError, TableSchema, Unfit, cell::Cell, schema::positions};

/// What the folder of a null is called.
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

impl Column {
    /// Whether a table can be partitioned by it: its values have one short text each, in which nothing is lost.
    pub(crate) fn check_partition(&self) -> Result<(), SchemaError> {
        match self.data_type {
            DataType::Binary
            | DataType::Float
            | DataType::Double
            | DataType::Json
            | DataType::Hstore
            | DataType::Interval
            | DataType::Array(_) => {
                Err(SchemaError::NoPartitionType { column: self.source.clone(), data_type: self.data_type.clone() })
            }
            _ => Ok(()),
        }
    }
}

impl TableSchema {
    /// The same table, partitioned by these columns, which are named as the source does.
    ///
    /// # Errors
    /// [`SchemaError`] where one is no column, stands there twice, or has a type of which values have no one text.
    pub fn partitioned_by(mut self, columns: &[impl AsRef<str>]) -> Result<Self, SchemaError> {
        let partitions = positions(columns.iter().map(AsRef::as_ref), self.columns(), |column| &column.source);
        let partitions = partitions.map_err(SchemaError::UnknownPartition)?;
        for (place, &index) in partitions.iter().enumerate() {
            let column = &self.columns()[index];
            column.check_partition()?;
            if partitions[..place].contains(&index) {
                return Err(SchemaError::PartitionTwice(column.source.clone()));
            }
        }
        self.partitions = partitions;
        Ok(self)
    }

    /// The names of the partition columns in the replica.
    pub fn partition_names(&self) -> impl Iterator<Item = &str> {
        self.partitions.iter().map(|&i| self.columns()[i].name.as_str())
    }
}

/// Refuses a text that cannot be a partition value, or gives it to the column's way for what does not fit.
pub(crate) fn check(schema: &TableSchema, cells: &mut [Cell<'_>]) -> Result<(), Malformed> {
    for &index in &schema.partitions {
        let column = &schema.columns()[index];
        match &mut cells[index] {
            Cell::Text(text) if text.is_empty() || text == NULL_FOLDER => {
                if column.unfit == Unfit::Refuse {
                    return Err(Problem::Unfit(RESERVED).at_column(column));
                }
                cells[index] = Cell::Unfit(std::mem::take(text));
            }
            _ => {}
        }
    }
    Ok(())
}

const RESERVED: &str = "the table is partitioned by this column, and an empty text, or Hive's name for null, is no \
                        partition value in Delta";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{BatchBuilder, Decoder, Horizon, MetaColumns, RecordRef};

    use super::*;

    fn columns(declared: &[(&str, &str)]) -> Vec<Column> {
        declared.iter().map(|(name, declaration)| Column::declared(name, declaration).unwrap()).collect()
    }

    fn table(columns: Vec<Column>, by: &[&str]) -> Result<TableSchema, SchemaError> {
        TableSchema::new(columns, &["id"], MetaColumns::default())?.partitioned_by(by)
    }

    #[test]
    fn a_column_whose_values_have_no_one_text_is_no_partition_column() {
        for declaration in ["binary", "float", "double", "json", "hstore", "interval", "array<int>"] {
            let refused = table(columns(&[("id", "long"), ("c", declaration)]), &["c"]);
            assert!(matches!(refused, Err(SchemaError::NoPartitionType { .. })), "{declaration}: {refused:?}");
        }
        let good = ["boolean", "short", "int", "long", "decimal(5,2)@text", "string", "date", "timestamp", "time"];
        for declaration in good {
            assert!(table(columns(&[("id", "long"), ("c", declaration)]), &["c"]).is_ok(), "{declaration}");
        }
        let unknown = table(columns(&[("id", "long")]), &["c"]).unwrap_err();
        assert_eq!(unknown, SchemaError::UnknownPartition("c".to_owned()));
        let twice = table(columns(&[("id", "long")]), &["id", "id"]).unwrap_err();
        assert_eq!(twice, SchemaError::PartitionTwice("id".to_owned()));
    }

    #[test]
    fn partition_columns_go_by_their_source_names_and_stay_when_the_table_grows() {
        let named = vec![Column::declared("Id", "long").unwrap().named("id"), Column::declared("At", "date").unwrap()];
        let schema = TableSchema::new(named, &["Id"], MetaColumns::default()).unwrap();
        let schema = schema.partitioned_by(&["At", "Id"]).unwrap();
        assert_eq!(schema.partition_names().collect::<Vec<_>>(), ["At", "id"]);
        let grown = schema.extended_by(columns(&[("more", "string")])).unwrap().unwrap();
        assert_eq!(grown.partition_names().collect::<Vec<_>>(), ["At", "id"]);
    }

    /// What becomes of a row with this text in the partition column.
    fn decode(schema: &Arc<TableSchema>, text: &str) -> Result<(), String> {
        let value = format!(r#"{{"op":"c","after":{{"id":1,"c":"{text}"}},"source":{{"lsn":8}}}}"#);
        let record = RecordRef {
            partition: 0,
            offset: 0,
            key: Some(br#"{"id":1}"#),
            value: Some(value.as_bytes()),
            timestamp: None,
            old_key: None,
        };
        let mut batch = BatchBuilder::new(Arc::clone(schema));
        let decoded = Decoder::new(Arc::clone(schema)).decode(record, &mut Horizon::default(), &mut batch);
        decoded.map(drop).map_err(|malformed| malformed.to_string())
    }

    #[test]
    fn a_text_that_is_no_partition_value_is_refused_or_goes_the_columns_way() {
        let with = |unfit| {
            let [id, c] = [("id", "long"), ("c", "string")].map(|(n, t)| Column::declared(n, t).unwrap());
            Arc::new(table(vec![id, c.with_unfit(unfit)], &["c"]).unwrap())
        };
        for text in ["", NULL_FOLDER] {
            let refused = decode(&with(Unfit::Refuse), text).unwrap_err();
            assert!(refused.contains("column `c`") && refused.contains("no partition value in Delta"), "{refused}");
            assert_eq!(decode(&with(Unfit::Raw), text), Ok(()));
            assert_eq!(decode(&with(Unfit::Null), text), Ok(()));
        }
        for text in [" ", "null", "a/b=c %", "__HIVE_DEFAULT_PARTITION", "ü"] {
            assert_eq!(decode(&with(Unfit::Refuse), text), Ok(()), "{text}");
        }
    }
}
