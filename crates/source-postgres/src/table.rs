//! [`Table`]: what the system catalog says about a table.

/// A table, or a partitioned table as its root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its schema.
    pub schema: String,
    /// Its name in the schema.
    pub name: String,
    /// Its columns in the order of `attnum`, without dropped ones.
    pub columns: Vec<Column>,
    /// The primary key's columns in the index's order; empty without one.
    pub primary_key: Vec<String>,
    /// What an update or delete carries of the row before it.
    pub replica_identity: ReplicaIdentity,
    /// Other unique indexes over plain columns, in the order in which the connector looks for a key among them.
    pub unique: Vec<UniqueIndex>,
    /// Whether it is a partitioned table's root.
    pub partitioned: bool,
    /// Its `COMMENT`.
    pub comment: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as many as the catalog has")]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type as `format_type` writes it, with the schema of types that are not built in.
    pub type_text: String,
    /// Its type with all domains resolved; of an array, the elements' type.
    pub base: BaseType,
    /// Of an array, the dimensions that were declared, which PostgreSQL does not insist on.
    pub array: Option<i32>,
    /// The type's modifier (`atttypmod`, or the domain's), where it has one.
    pub modifier: Option<i32>,
    /// Whether it is `NOT NULL`.
    pub not_null: bool,
    /// Whether it has a default.
    pub has_default: bool,
    /// Whether its values are generated from other columns.
    pub generated: bool,
    /// Whether its values can be stored out of line (`attstorage` is not `p`).
    pub toastable: bool,
    /// Whether its collation orders texts by their bytes.
    pub by_bytes: bool,
    /// Its `COMMENT`.
    pub comment: Option<String>,
}

/// A type's name and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseType {
    /// The schema that it is in; `pg_catalog` for what is built in.
    pub schema: String,
    /// Its `typname`, such as `int4`.
    pub name: String,
    /// What it is.
    pub kind: TypeKind,
}

/// `pg_type.typtype`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeKind {
    /// A type with an input function of its own.
    Base,
    /// An enum.
    Enum,
    /// A composite type.
    Composite,
    /// A range or multirange.
    Range,
    /// A domain. Only elements of arrays are: a column's own are resolved.
    Domain,
}

/// `REPLICA IDENTITY`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// `DEFAULT`: the primary key.
    Default,
    /// `FULL`: the whole row.
    Full,
    /// `NOTHING`.
    Nothing,
    /// `USING INDEX`.
    Index(UniqueIndex),
}

/// A unique index over plain columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueIndex {
    /// Its name.
    pub name: String,
    /// Its columns in order, without those that it only includes.
    pub columns: Vec<String>,
    /// Whether it holds some of the rows only.
    pub partial: bool,
}
