//! [`Catalog`]: tables, columns and keys, from PostgreSQL's system catalog.

use std::collections::BTreeMap;

use tokio_postgres::{Client, IsolationLevel, Row, Transaction};

use crate::{
    PostgresError, PostgresSettings, Selection,
    table::{BaseType, Column, ReplicaIdentity, Table, TypeKind, UniqueIndex},
};

/// The tables of a database that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalog {
    /// By schema and name. A partitioned table is there once, as its root.
    pub tables: Vec<Table>,
    /// The patterns that took no table.
    pub unmatched: Vec<String>,
}

impl Catalog {
    /// Reads the tables that `selection` takes, all as of one moment. Anyone who may connect may read it.
    ///
    /// # Errors
    /// [`PostgresError`] where the connection of `settings` broke or the server refuses.
    pub async fn read(
        client: &mut Client,
        settings: &PostgresSettings,
        selection: &Selection,
    ) -> Result<Self, PostgresError> {
        read(client, selection).await.map_err(|error| PostgresError::answer(&error, settings))
    }
}

type Answer<T> = Result<T, tokio_postgres::Error>;

async fn read(client: &mut Client, selection: &Selection) -> Answer<Catalog> {
    let transaction = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    let transaction = transaction.start().await?;
    // so that format_type names the schema of all that is not built in
    transaction.batch_execute("set local search_path = pg_catalog").await?;

    let relations = transaction.query(include_str!("sql/relations.sql"), &[]).await?;
    let relations = relations.iter().map(Relation::of).collect::<Answer<Vec<_>>>()?;
    let names: Vec<_> = relations.iter().map(|relation| (relation.schema.as_str(), relation.name.as_str())).collect();
    let taken = selection.taken(&names);
    let oids: Vec<u32> =
        relations.iter().zip(&taken.tables).filter(|(_, taken)| **taken).map(|(r, _)| r.whole()).collect();

    let mut columns = by_relation(&transaction, include_str!("sql/columns.sql"), &oids, column).await?;
    let mut indexes = by_relation(&transaction, include_str!("sql/unique_indexes.sql"), &oids, index).await?;
    let roots = relations.into_iter().filter(|relation| relation.root.is_none() && oids.contains(&relation.oid));
    let tables = roots.map(|relation| {
        let columns = columns.remove(&relation.oid).unwrap_or_default();
        let indexes = indexes.remove(&relation.oid).unwrap_or_default();
        relation.table(columns, indexes)
    });
    Ok(Catalog { tables: tables.collect(), unmatched: taken.unmatched })
}

/// What a query about some relations gives, by relation.
async fn by_relation<T>(
    transaction: &Transaction<'_>,
    query: &str,
    oids: &[u32],
    read: impl Fn(&Row) -> Answer<T>,
) -> Answer<BTreeMap<u32, Vec<T>>> {
    let mut found = BTreeMap::<u32, Vec<T>>::new();
    for row in transaction.query(query, &[&oids]).await? {
        found.entry(row.try_get("relation")?).or_default().push(read(&row)?);
    }
    Ok(found)
}

struct Relation {
    oid: u32,
    schema: String,
    name: String,
    partitioned: bool,
    replica_identity: String,
    comment: Option<String>,
    /// Of a partition.
    root: Option<u32>,
}

impl Relation {
    fn of(row: &Row) -> Answer<Self> {
        Ok(Self {
            oid: row.try_get("oid")?,
            schema: row.try_get("nspname")?,
            name: row.try_get("relname")?,
            partitioned: row.try_get("partitioned")?,
            replica_identity: row.try_get("replica_identity")?,
            comment: row.try_get("comment")?,
            root: row.try_get("root")?,
        })
    }

    /// Itself, or the table that it is a part of.
    fn whole(&self) -> u32 {
        self.root.unwrap_or(self.oid)
    }

    fn table(self, columns: Vec<Column>, mut indexes: Vec<Found>) -> Table {
        let identity = indexes.iter().find(|index| index.is_replica_identity).map(|index| index.index.clone());
        let replica_identity = match (self.replica_identity.as_str(), identity) {
            ("f", _) => ReplicaIdentity::Full,
            ("i", Some(index)) => ReplicaIdentity::Index(index),
            // an index that was dropped since is as good as none
            ("n" | "i", _) => ReplicaIdentity::Nothing,
            _ => ReplicaIdentity::Default,
        };
        let primary = indexes.iter().position(|index| index.is_primary);
        let primary_key = primary.map(|at| indexes.remove(at).index.columns).unwrap_or_default();
        Table {
            schema: self.schema,
            name: self.name,
            columns,
            primary_key,
            replica_identity,
            unique: indexes.into_iter().map(|index| index.index).collect(),
            partitioned: self.partitioned,
            comment: self.comment,
        }
    }
}

/// A unique index.
struct Found {
    index: UniqueIndex,
    is_primary: bool,
    is_replica_identity: bool,
}

fn index(row: &Row) -> Answer<Found> {
    Ok(Found {
        index: UniqueIndex {
            name: row.try_get("relname")?,
            columns: row.try_get("columns")?,
            partial: row.try_get("partial")?,
        },
        is_primary: row.try_get("indisprimary")?,
        is_replica_identity: row.try_get("indisreplident")?,
    })
}

fn column(row: &Row) -> Answer<Column> {
    let kind = match row.try_get::<_, &str>("type_kind")? {
        "e" => TypeKind::Enum,
        "c" => TypeKind::Composite,
        "r" | "m" => TypeKind::Range,
        "d" => TypeKind::Domain,
        _ => TypeKind::Base,
    };
    Ok(Column {
        name: row.try_get("attname")?,
        type_text: row.try_get("type_text")?,
        base: BaseType { schema: row.try_get("type_schema")?, name: row.try_get("type_name")?, kind },
        array: row.try_get("dimensions")?,
        modifier: row.try_get("modifier")?,
        not_null: row.try_get("attnotnull")?,
        has_default: row.try_get("has_default")?,
        generated: row.try_get("generated")?,
        toastable: row.try_get("toastable")?,
        by_bytes: row.try_get("by_bytes")?,
        comment: row.try_get("comment")?,
    })
}
