//! How a table's schema grows: by columns that the source got, and by types that hold more than before.
//!
//! It never shrinks. A column that the source dropped stays, with null in the rows that change from then on; a type
//! that got narrower keeps its wider one, which holds the same values. A type that became another one is no change of
//! the schema at all: the values that do not fit are refused, one by one.

use crate::{Column, DataType, SchemaError, TableSchema};

impl DataType {
    /// Whether it holds every value of `other` exactly, and more.
    #[must_use]
    pub fn widens(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Long, Self::Int | Self::Short) | (Self::Int, Self::Short) | (Self::Double, Self::Float) => true,
            (Self::Decimal { precision, scale }, Self::Decimal { precision: p, scale: s }) => {
                self != other && scale >= s && precision - scale >= p - s
            }
            (Self::Array(element), Self::Array(other)) => element.widens(other),
            _ => false,
        }
    }
}

impl Column {
    /// Takes over a wider type. Under a mask it is no change of the replica, and only taken over where it changes no mask.
    fn widen_to(&mut self, found: &Self) {
        let wider = found.source_type();
        if !wider.widens(self.source_type()) {
            return;
        }
        match &mut self.mask {
            Some(masked) if !masked.is_kept_under(wider) => return,
            Some(masked) => masked.data_type = wider.clone(),
            None => self.data_type = wider.clone(),
        }
        self.wire = found.wire.or(self.wire);
    }
}

impl TableSchema {
    /// The same table with the columns of the source that only `found` has, and with the wider of two types; `None` where
    /// that is what it was. Columns that are passed over stay out.
    ///
    /// # Errors
    /// [`SchemaError::SameName`] for a column that has the name of another in the replica, or differs by case only.
    pub fn extended_by(&self, found: impl IntoIterator<Item = Column>) -> Result<Option<Self>, SchemaError> {
        let found = found.into_iter().filter(|column| !self.passes_over(&column.source));
        self.joined_by(|column| &column.source, found)
    }

    /// The same for columns of a replica, which go by their names there.
    ///
    /// # Errors
    /// As [`Self::extended_by`].
    pub fn holding(&self, columns: impl IntoIterator<Item = Column>) -> Result<Option<Self>, SchemaError> {
        self.joined_by(|column| &column.name, columns)
    }

    fn joined_by(
        &self,
        name_of: fn(&Column) -> &String,
        found: impl IntoIterator<Item = Column>,
    ) -> Result<Option<Self>, SchemaError> {
        let mut columns = self.columns().to_vec();
        for found in found {
            match columns.iter_mut().find(|column| name_of(column) == name_of(&found)) {
                Some(known) => known.widen_to(&found),
                None => columns.push(found),
            }
        }
        let joined = self.with_columns(columns)?;
        Ok((joined.columns() != self.columns()).then_some(joined))
    }

    /// What `self` has that `older` had not, in words: `` `a` int -> long, `b` string ``.
    #[must_use]
    pub fn since(&self, older: &Self) -> String {
        let changes = self.columns().iter().filter_map(|column| {
            let data_type = column.source_type();
            let before = older.columns().iter().find(|older| older.name == column.name).map(Column::source_type);
            match before {
                None => Some(format!("{column} {data_type}")),
                Some(before) if before != data_type => Some(format!("{column} {before} -> {data_type}")),
                Some(_) => None,
            }
        });
        changes.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MetaColumns;

    fn columns(declared: &[(&str, &str)]) -> Vec<Column> {
        declared.iter().map(|(name, declaration)| Column::declared(name, declaration).unwrap()).collect()
    }

    fn table(declared: &[(&str, &str)]) -> TableSchema {
        TableSchema::new(columns(declared), &["id"], MetaColumns::default()).unwrap()
    }

    #[test]
    fn a_type_widens_what_it_holds_exactly_and_nothing_else() {
        let types = ["short", "int", "long", "float", "double", "decimal(10,2)", "decimal(12,2)", "decimal(12,4)"];
        let wider = [
            ("int", "short"),
            ("long", "short"),
            ("long", "int"),
            ("double", "float"),
            ("decimal(12,2)", "decimal(10,2)"),
            ("decimal(12,4)", "decimal(10,2)"),
        ];
        for a in types {
            for b in types {
                let (wide, narrow): (DataType, DataType) = (a.parse().unwrap(), b.parse().unwrap());
                assert_eq!(wide.widens(&narrow), wider.contains(&(a, b)), "{a} over {b}");
                let array = |element| DataType::Array(Box::new(element));
                assert_eq!(array(wide).widens(&array(narrow)), wider.contains(&(a, b)), "arrays of {a} over {b}");
            }
        }
    }

    #[test]
    fn a_schema_grows_and_never_shrinks() {
        let before = table(&[("id", "long"), ("a", "int"), ("b", "string"), ("n", "decimal(10,2)@text")]);
        let found = columns(&[("id", "int"), ("a", "long"), ("c", "timestamp_ntz@micros"), ("n", "string")]);
        let after = before.extended_by(found.clone()).unwrap().unwrap();
        let expected = [
            ("id", "long"),
            ("a", "long"),
            ("b", "string"),
            ("n", "decimal(10,2)@text"),
            ("c", "timestamp_ntz@micros"),
        ];
        assert_eq!(after, table(&expected));
        assert_eq!(after.since(&before), "`a` int -> long, `c` timestamp_ntz");
        assert_eq!(after.extended_by(found).unwrap(), None);
    }

    #[test]
    fn what_is_passed_over_stays_out_and_names_that_differ_by_case_are_refused() {
        let before = table(&[("id", "long")]).passing_over(["secret".to_owned()]);
        assert_eq!(before.extended_by(columns(&[("secret", "string")])), Ok(None));
        let same = SchemaError::SameName("`id`".to_owned(), "`ID`".to_owned());
        assert_eq!(before.extended_by(columns(&[("ID", "string")])), Err(same));
    }
}
