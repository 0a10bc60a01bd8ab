//! [`EnvelopeForm`]: how a table's topic carries the changes, as the connector wrote them or flattened.
//!
//! Debezium's transform `ExtractNewRecordState` makes the row itself the record's value and drops the envelope. What it
//! is told to keep (`add.fields`) stands beside the columns, in fields of names of its own: [`Flattening`] knows them.

use std::{fmt, sync::Arc};

use crate::SchemaError;

/// The form of a table's change events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EnvelopeForm {
    /// Debezium's own envelopes.
    #[default]
    Debezium,
    /// Rows with fields of metadata beside their columns.
    Flattened(Arc<Flattening>),
}

impl EnvelopeForm {
    /// Whether events are ordered by their offsets, because some of them name no LSN.
    #[must_use]
    pub fn orders_by_offset(&self) -> bool {
        matches!(self, Self::Flattened(flattening) if flattening.deletes == Deletes::Tombstone)
    }
}

/// What a flattening transform leaves of a deleted row: its `delete.tombstone.handling.mode`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Deletes {
    /// The row as it was, marked as deleted (`rewrite`, `rewrite-with-tombstone`).
    #[default]
    Rewrite,
    /// Nothing but a null value (`tombstone`, `delete-to-tombstone`). It names no LSN, so the events of such a table are
    /// ordered by their offsets, all of them.
    Tombstone,
}

/// What a field beside the columns says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metadata {
    /// The envelope's `op`.
    Op,
    /// `source.lsn`.
    Lsn,
    /// Whether the row was deleted: `true` or `"true"`.
    Deleted,
    /// `source.sequence`.
    Sequence,
    /// `source.snapshot`.
    Snapshot,
    /// `source.ts_ms`.
    Time,
}

impl fmt::Display for Metadata {
    /// Its name in `add.fields`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Op => "op",
            Self::Lsn => "lsn",
            Self::Deleted => "deleted",
            Self::Sequence => "source.sequence",
            Self::Snapshot => "source.snapshot",
            Self::Time => "source.ts_ms",
        })
    }
}

/// The settings of a flattening transform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flattening {
    deletes: Deletes,
    prefix: String,
    names: Vec<(String, Metadata)>,
}

impl Default for Flattening {
    fn default() -> Self {
        Self::new(Self::PREFIX, Deletes::default())
    }
}

impl Flattening {
    /// The transform's own `add.fields.prefix`.
    pub const PREFIX: &str = "__";

    /// The names that a transform gives with this `add.fields.prefix`: `__lsn` for `lsn`, `__source_lsn` for
    /// `source.lsn`. That of a deletion is the same under every prefix.
    #[must_use]
    pub fn new(prefix: &str, deletes: Deletes) -> Self {
        let of_source = |field, metadata| {
            [format!("{prefix}{field}"), format!("{prefix}source_{field}")].map(|name| (name, metadata))
        };
        let mut names = vec![
            (format!("{prefix}op"), Metadata::Op),
            ("__deleted".to_owned(), Metadata::Deleted),
            // without the struct's name it is the time of the envelope, not of the change
            (format!("{prefix}source_ts_ms"), Metadata::Time),
        ];
        names.extend(of_source("lsn", Metadata::Lsn));
        names.extend(of_source("sequence", Metadata::Sequence));
        names.extend(of_source("snapshot", Metadata::Snapshot));
        Self { deletes, prefix: prefix.to_owned(), names }
    }

    /// The same with another name for one of the fields.
    #[must_use]
    pub fn with_name(mut self, metadata: Metadata, name: &str) -> Self {
        self.names.retain(|(_, named)| *named != metadata);
        self.names.push((name.to_owned(), metadata));
        self
    }

    /// What it leaves of a deleted row.
    #[must_use]
    pub fn deletes(&self) -> Deletes {
        self.deletes
    }

    /// What the field of this name says, if it is one of those that are read.
    #[must_use]
    pub fn metadata(&self, name: &str) -> Option<Metadata> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, metadata)| *metadata)
    }

    /// Whether a field of this name, no column of the table, was added by the transform.
    #[must_use]
    pub fn has_added(&self, name: &str) -> bool {
        self.metadata(name).is_some() || !self.prefix.is_empty() && name.starts_with(&self.prefix)
    }

    /// The name of a field, for a message.
    pub(crate) fn name(&self, metadata: Metadata) -> &str {
        self.names.iter().find(|(_, named)| *named == metadata).map_or("", |(name, _)| name)
    }

    /// Whether the names tell its fields from each other, and from these columns.
    pub(crate) fn check<'a>(&self, mut columns: impl Iterator<Item = &'a str>) -> Result<(), SchemaError> {
        let mut names: Vec<_> = self.names.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SchemaError::MetadataTwice(pair[0].to_owned()));
        }
        let taken = columns.find(|column| self.metadata(column).is_some());
        taken.map_or(Ok(()), |column| Err(SchemaError::MetadataColumn(column.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, MetaColumns, TableSchema};

    #[test]
    fn fields_have_the_names_that_the_transform_gives_them() {
        let default = Flattening::default();
        let named = [
            ("__op", Some(Metadata::Op)),
            ("__deleted", Some(Metadata::Deleted)),
            ("__lsn", Some(Metadata::Lsn)),
            ("__source_lsn", Some(Metadata::Lsn)),
            ("__source_sequence", Some(Metadata::Sequence)),
            ("__source_snapshot", Some(Metadata::Snapshot)),
            ("__source_ts_ms", Some(Metadata::Time)),
            ("__ts_ms", None),
            ("op", None),
        ];
        for (name, metadata) in named {
            assert_eq!(default.metadata(name), metadata, "{name}");
        }
        let own = Flattening::new("meta.", Deletes::Tombstone).with_name(Metadata::Lsn, "wal");
        assert_eq!(own.metadata("meta.op"), Some(Metadata::Op));
        assert_eq!(own.metadata("__deleted"), Some(Metadata::Deleted), "no prefix changes it");
        assert_eq!([own.metadata("wal"), own.metadata("meta.lsn")], [Some(Metadata::Lsn), None]);
    }

    #[test]
    fn what_begins_with_the_prefix_was_added_by_the_transform() {
        let added = |prefix, name| Flattening::new(prefix, Deletes::Rewrite).has_added(name);
        assert!(added("__", "__table") && added("__", "__lsn") && added("m_", "m_x") && added("", "op"));
        assert!(!added("__", "note") && !added("__", "_note") && !added("", "note"));
    }

    #[test]
    fn a_name_that_stands_for_two_things_is_refused() {
        let columns = ["id", "wal"].map(|name| Column::declared(name, "long").unwrap());
        let table = TableSchema::new(columns.to_vec(), &["id"], MetaColumns::default()).unwrap();
        let with = |metadata, name| {
            let form = EnvelopeForm::Flattened(Arc::new(Flattening::default().with_name(metadata, name)));
            table.clone().with_form(form).map(drop)
        };
        assert_eq!(with(Metadata::Lsn, "wal"), Err(SchemaError::MetadataColumn("wal".to_owned())));
        assert_eq!(with(Metadata::Lsn, "__op"), Err(SchemaError::MetadataTwice("__op".to_owned())));
        assert_eq!(with(Metadata::Lsn, "WAL"), Ok(()), "JSON tells them apart");
    }
}
