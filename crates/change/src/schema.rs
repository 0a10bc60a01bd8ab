//! [`TableSchema`]: a table's columns, its key, and the columns that Highwater adds.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};

use crate::{Column, DataType, SourceTables, Unfit, form::EnvelopeForm, placeholder::Placeholder, wire::Wire};

/// The names of the columns that Highwater adds to a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaColumns {
    /// The LSN of the event that the row comes from (long).
    pub source_lsn: String,
    /// That event's anchor (long).
    pub source_anchor: String,
    /// Whether the row is soft-deleted (boolean).
    pub is_deleted: String,
}

impl Default for MetaColumns {
    fn default() -> Self {
        Self { source_lsn: "source_lsn".into(), source_anchor: "source_anchor".into(), is_deleted: "is_deleted".into() }
    }
}

/// A table's columns and key, checked, and the replica's Arrow schema made from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    /// The source's, then the companions of some of them.
    columns: Vec<Column>,
    /// The columns that do not refuse what they cannot hold, each with its companion.
    lenient: Vec<(usize, Option<usize>)>,
    /// The columns that have a mask.
    masked: Vec<usize>,
    key: Vec<usize>,
    /// In the order of the declaration.
    pub(crate) partitions: Vec<usize>,
    meta: MetaColumns,
    placeholder: Placeholder,
    form: EnvelopeForm,
    sources: Option<SourceTables>,
    passed_over: BTreeSet<String>,
    grows: bool,
    arrow: SchemaRef,
}

/// Why a table's declaration cannot stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Not one of the types of [`DataType`].
    #[error(
        "unknown type `{0}`: expected boolean, short, int, long, float, double, decimal(p,s) with p <= 38, numeric, \
         numeric(p,s), string, json, hstore, binary, date, time, timestamp, timestamp_ntz, interval, or array<...> of \
         one of them"
    )]
    UnknownType(String),
    /// Not one of the forms of [`Wire`].
    #[error("unknown wire form `{0}`: expected text, base64, base64url, hex, days, millis, micros or nanos")]
    UnknownWire(String),
    /// A wire form that a column of this type never has.
    #[error("column `{column}`: a {data_type} is never written as {wire}")]
    WireDoesNotFit {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
        /// The declared form.
        wire: Wire,
    },
    /// No columns at all.
    #[error("no columns: declare them under [table.columns] or with --column NAME:TYPE")]
    NoColumns,
    /// No key column.
    #[error("no key: name the primary-key columns with key = [\"...\"] or --key NAME")]
    NoKey,
    /// A key column that is not a column.
    #[error("key column `{0}` is not among the columns, which go by their names in the source")]
    UnknownKey(String),
    /// A partition column that is not a column.
    #[error("partition_by: column `{0}` is not among the columns, which go by their names in the source")]
    UnknownPartition(String),
    /// A partition column that is named twice.
    #[error("partition_by: column `{0}` stands there twice")]
    PartitionTwice(String),
    /// A partition value has to have one text in which nothing is lost.
    #[error("partition_by: column `{column}` is {data_type}: a table cannot be partitioned by such a column")]
    NoPartitionType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// Neither a text nor `hex:` and pairs of hexadecimal digits.
    #[error("the placeholder is empty, or its hex: is not followed by pairs of hexadecimal digits")]
    BadPlaceholder,
    /// A key has to be a value that two rows can be compared by.
    #[error("key column `{column}` is {data_type}: such a column cannot be a key")]
    NoKeyType {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// Not one of the ways of [`Unfit`].
    #[error("unknown way for what does not fit `{0}`: expected refuse, null or raw")]
    UnknownUnfit(String),
    /// A key and the elements of an array have to be there.
    #[error("column `{0}`: a key, and an array, can only refuse what does not fit")]
    MustRefuse(String),
    /// A column has to have a name in the replica.
    #[error("column `{0}`: its name in the replica is empty")]
    NoName(String),
    /// Delta column names are case-insensitive.
    #[error(
        "columns {0} and {1} go by one name, as Delta ignores case; give one of them another with name = \"...\", or leave \
         it out"
    )]
    SameName(String, String),
    /// A column of the name of a field that a flattened envelope has beside its columns.
    #[error(
        "column `{0}` has the name of a metadata field; give the field another one, in the transform's add.fields and in \
         [table.flattened]"
    )]
    MetadataColumn(String),
    /// One name for two such fields.
    #[error("two metadata fields have the name `{0}`")]
    MetadataTwice(String),
    /// Not one of the masks of [`Mask`](crate::Mask).
    #[error("unknown mask `{0}`: expected hmac-sha256 or null")]
    UnknownMask(String),
    /// A mask that is made with a secret, and none is given.
    #[error("mask = \"hmac-sha256\" needs the secret of [masking]")]
    NoSecret,
    /// A secret that could be found by trying.
    #[error("the secret has fewer than 16 bytes; make one with `openssl rand -hex 32`")]
    ShortSecret,
    /// Values that have no one text.
    #[error("column `{column}`: the same {data_type} has several texts, so it has no mask but \"null\"")]
    NoMaskOf {
        /// The column.
        column: String,
        /// Its type.
        data_type: DataType,
    },
    /// A key that is null finds no row.
    #[error("key column `{0}`: the mask of a key cannot be \"null\"")]
    NullKey(String),
    /// The companion would show what the mask hides.
    #[error("column `{0}`: unfit = \"raw\" would keep values unmasked")]
    RawUnderMask(String),
}

impl TableSchema {
    /// Checks the declaration of a table; its key is named as the source does.
    ///
    /// # Errors
    /// [`SchemaError`], for the first thing that is wrong.
    pub fn new(columns: Vec<Column>, key: &[impl AsRef<str>], meta: MetaColumns) -> Result<Self, SchemaError> {
        if columns.is_empty() {
            return Err(SchemaError::NoColumns);
        }
        if key.is_empty() {
            return Err(SchemaError::NoKey);
        }
        let key = positions(key.iter().map(AsRef::as_ref), &columns, |column| &column.source);
        Self::of(columns, key.map_err(SchemaError::UnknownKey)?, meta)
    }

    fn of(columns: Vec<Column>, key: Vec<usize>, meta: MetaColumns) -> Result<Self, SchemaError> {
        columns.iter().enumerate().try_for_each(|(i, column)| column.check(key.contains(&i)))?;

        let masked = (0..columns.len()).filter(|&i| columns[i].mask.is_some()).collect();
        let (columns, lenient) = with_companions(columns);
        let mut fields: Vec<Field> = columns.iter().map(|c| Field::new(&c.name, c.data_type.arrow(), true)).collect();
        fields.push(Field::new(&meta.source_lsn, ArrowType::Int64, true));
        fields.push(Field::new(&meta.source_anchor, ArrowType::Int64, true));
        fields.push(Field::new(&meta.is_deleted, ArrowType::Boolean, true));
        let title = |i: usize| columns.get(i).map_or_else(|| format!("`{}`", fields[i].name()), Column::to_string);
        let mut seen = HashMap::new();
        for (i, field) in fields.iter().enumerate() {
            if let Some(first) = seen.insert(field.name().to_lowercase(), i) {
                return Err(SchemaError::SameName(title(first), title(i)));
            }
        }
        let arrow = Arc::new(Schema::new(fields));
        let (placeholder, form, passed_over) = (Placeholder::default(), EnvelopeForm::default(), BTreeSet::new());
        let (partitions, sources, grows) = (Vec::new(), None, false);
        Ok(Self {
            columns,
            lenient,
            masked,
            key,
            partitions,
            meta,
            placeholder,
            form,
            sources,
            passed_over,
            grows,
            arrow,
        })
    }

    /// The same table with other columns, those of its key and its partitions under their names in the replica among
    /// them. The companions that these columns have are made anew.
    ///
    /// # Errors
    /// As [`Self::new`], and as [`Self::with_form`].
    pub fn with_columns(&self, columns: Vec<Column>) -> Result<Self, SchemaError> {
        let companions: Vec<_> = columns.iter().filter_map(Column::companion).collect();
        let is_companion = |column: &Column| companions.iter().any(|companion| companion.name == column.name);
        let columns: Vec<_> = columns.into_iter().filter(|column| !is_companion(column)).collect();
        let key = positions(self.key_names(), &columns, |column| &column.name).map_err(SchemaError::UnknownKey)?;
        let partitions = positions(self.partition_names(), &columns, |column| &column.name);
        let partitions = partitions.map_err(SchemaError::UnknownPartition)?;
        let Self { columns, lenient, masked, key, arrow, .. } = Self::of(columns, key, self.meta.clone())?;
        Self { columns, lenient, masked, key, partitions, arrow, ..self.clone() }.with_form(self.form.clone())
    }

    /// The same table, of a connector that writes this in place of a value that it was not sent.
    #[must_use]
    pub fn with_placeholder(self, placeholder: Placeholder) -> Self {
        Self { placeholder, ..self }
    }

    /// The same table without these columns of the source, whose values are not even looked at.
    #[must_use]
    pub fn passing_over(self, columns: impl IntoIterator<Item = String>) -> Self {
        Self { passed_over: columns.into_iter().collect(), ..self }
    }

    /// Whether the source's column of this name is left out of the table.
    #[must_use]
    pub fn passes_over(&self, column: &str) -> bool {
        self.passed_over.contains(column)
    }

    /// The same table, whose columns follow the source's: new ones are added, and dropped ones are null.
    #[must_use]
    pub fn growing(self) -> Self {
        Self { grows: true, ..self }
    }

    /// Whether its columns follow the source's.
    #[must_use]
    pub fn grows(&self) -> bool {
        self.grows
    }

    /// What stands in place of a value that the source did not send.
    #[must_use]
    pub fn placeholder(&self) -> &Placeholder {
        &self.placeholder
    }

    /// The same table, of a topic that carries its changes in this form.
    ///
    /// # Errors
    /// [`SchemaError`] where a column has the name of a metadata field, or two fields have one name.
    pub fn with_form(self, form: EnvelopeForm) -> Result<Self, SchemaError> {
        if let EnvelopeForm::Flattened(flattening) = &form {
            flattening.check(self.columns.iter().map(|column| column.source.as_str()))?;
        }
        Ok(Self { form, ..self })
    }

    /// The same table, of a topic that carries the changes of other tables of the source, too.
    #[must_use]
    pub fn of_sources(self, sources: SourceTables) -> Self {
        Self { sources: Some(sources), ..self }
    }

    /// The tables of the source that it is of, where its topic carries others, too.
    #[must_use]
    pub fn sources(&self) -> Option<&SourceTables> {
        self.sources.as_ref()
    }

    /// The form of its change events.
    #[must_use]
    pub fn form(&self) -> &EnvelopeForm {
        &self.form
    }

    /// The source's columns, in order, and after them the companions of those that keep what does not fit as text.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The source's columns, in order.
    pub fn source_columns(&self) -> impl Iterator<Item = &Column> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(position, _)| !self.is_companion(Some(*position))).map(|(_, column)| column)
    }

    /// The positions of the columns that do not refuse what does not fit, each with that of its companion.
    pub(crate) fn lenient(&self) -> &[(usize, Option<usize>)] {
        &self.lenient
    }

    /// The positions of the columns that have a mask.
    pub(crate) fn masked(&self) -> &[usize] {
        &self.masked
    }

    /// Whether the column at this position is a companion, which no event carries.
    pub(crate) fn is_companion(&self, position: Option<usize>) -> bool {
        position.is_some() && self.lenient.iter().any(|(_, companion)| *companion == position)
    }

    /// The positions of the key columns in [`Self::columns`].
    #[must_use]
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// The names of the key columns in the replica.
    pub fn key_names(&self) -> impl Iterator<Item = &str> {
        self.key.iter().map(|&i| self.columns[i].name.as_str())
    }

    /// The names of the columns that Highwater adds.
    #[must_use]
    pub fn meta(&self) -> &MetaColumns {
        &self.meta
    }

    /// The replica's schema: the source's columns, then `source_lsn`, `source_anchor` and `is_deleted`. All are
    /// nullable: a delete of a key that was never seen leaves a row with nothing but its key.
    #[must_use]
    pub fn arrow(&self) -> &SchemaRef {
        &self.arrow
    }

    /// What the source's column of this name is here, with a hint where it may stand.
    #[must_use]
    pub(crate) fn named(&self, name: &str, hint: usize) -> Named {
        match self.position(name, hint) {
            Some(index) if !self.is_companion(Some(index)) => Named::Column(index),
            None if self.passes_over(name) => Named::PassedOver,
            _ => Named::Unknown,
        }
    }

    /// The position of a column by its name in the source, with a hint where it may stand.
    #[must_use]
    pub(crate) fn position(&self, source: &str, hint: usize) -> Option<usize> {
        match self.columns.get(hint) {
            Some(column) if column.source == source => Some(hint),
            _ => self.columns.iter().position(|c| c.source == source),
        }
    }
}

/// What a column of the source is in the table.
pub(crate) enum Named {
    /// The column at this position.
    Column(usize),
    /// One that is left out.
    PassedOver,
    /// None that the table knows.
    Unknown,
}

/// The positions of the columns of these names, or the first name that no column has.
pub(crate) fn positions<'k>(
    names: impl Iterator<Item = &'k str>,
    columns: &[Column],
    name_of: fn(&Column) -> &String,
) -> Result<Vec<usize>, String> {
    names.map(|name| columns.iter().position(|column| name_of(column) == name).ok_or_else(|| name.to_owned())).collect()
}

/// Adds the companions, and names the columns that do not refuse what they cannot hold.
fn with_companions(mut columns: Vec<Column>) -> (Vec<Column>, Vec<(usize, Option<usize>)>) {
    let mut lenient = Vec::new();
    for index in 0..columns.len() {
        if columns[index].unfit != Unfit::Refuse {
            let companion = columns[index].companion();
            lenient.push((index, companion.is_some().then_some(columns.len())));
            columns.extend(companion);
        }
    }
    (columns, lenient)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, &str)], key: &[&str]) -> Result<TableSchema, SchemaError> {
        let columns = columns.iter().map(|(n, t)| Column::declared(n, t)).collect::<Result<_, _>>()?;
        TableSchema::new(columns, key, MetaColumns::default())
    }

    #[test]
    fn declarations_that_cannot_stand_are_refused() {
        assert_eq!(schema(&[], &["id"]), Err(SchemaError::NoColumns));
        assert_eq!(schema(&[("id", "long")], &[]), Err(SchemaError::NoKey));
        assert_eq!(schema(&[("id", "long")], &["ID"]), Err(SchemaError::UnknownKey("ID".into())));
        assert!(matches!(schema(&[("id", "long"), ("ID", "long")], &["id"]), Err(SchemaError::SameName(..))));
        assert!(matches!(
            schema(&[("id", "long"), ("Is_Deleted", "boolean")], &["id"]),
            Err(SchemaError::SameName(..))
        ));
        assert!(matches!(schema(&[("id", "long@millis")], &["id"]), Err(SchemaError::WireDoesNotFit { .. })));
        assert!(matches!(schema(&[("id", "array<long>")], &["id"]), Err(SchemaError::NoKeyType { .. })));
        assert!(matches!(schema(&[("id", "numeric@base64")], &["id"]), Err(SchemaError::WireDoesNotFit { .. })));
        assert!(schema(&[("id", "numeric(50,2)@base64"), ("x", "array<time>@micros")], &["id"]).is_ok());
        assert!(matches!(schema(&[("id", "long@feet")], &["id"]), Err(SchemaError::UnknownWire(_))));
    }
}
