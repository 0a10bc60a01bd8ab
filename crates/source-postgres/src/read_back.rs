//! [`SourceTable`]: reads from a table of the source what events left out.
//!
//! Each call has a connection and a read-only transaction of its own: it is rare, and nothing is left open in between.
//! Before it looks for rows, it makes sure that the database is a primary and has come to the events, or rows that it
//! has not got yet would pass for deleted ones.

use std::fmt::{self, Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use change::{Column, DataType, LeftOut, Lsn, TableSchema, left_out::Found};
use pipeline::{Fault, ReadBack, read_back::Answer};
use tokio_postgres::{Row, Transaction, error::SqlState, types::ToSql};

use crate::{PostgresError, PostgresSettings, comparable::quoted, connect};

/// So many rows are asked for at once.
const ROWS: usize = 500;

/// A look at rows by their keys takes milliseconds; what takes longer waits for a lock or reads the whole table. Rows that
/// a policy hides would pass for deleted ones: off means an error there.
const LIMITS: &str =
    "set local statement_timeout = '60s'; set local lock_timeout = '30s'; set local row_security = off";

/// A table of the source.
#[derive(Debug, Clone)]
pub struct SourceTable {
    settings: PostgresSettings,
    schema: String,
    name: String,
}

impl SourceTable {
    /// The table `schema.name` of the database of `settings`.
    #[must_use]
    pub fn new(settings: PostgresSettings, schema: &str, name: &str) -> Self {
        Self { settings, schema: schema.to_owned(), name: name.to_owned() }
    }

    /// Makes sure that rows can be looked for by their keys.
    ///
    /// # Errors
    /// What a read would fail with.
    pub async fn probe(&self, table: &TableSchema) -> Result<(), Fault> {
        let nowhere = vec![None; table.key().len()];
        self.rows(table, &LeftOut { columns: Vec::new(), keys: vec![nowhere], newest: Lsn::default() }).await.map(drop)
    }

    async fn rows(&self, table: &TableSchema, left_out: &LeftOut) -> Result<Vec<Option<Found>>, Fault> {
        let mut client = connect(&self.settings).await.map_err(|error| self.cannot_connect(&error))?;
        let transaction = client.build_transaction().read_only(true).start().await.map_err(|e| self.fault(&e))?;
        transaction.batch_execute(LIMITS).await.map_err(|e| self.fault(&e))?;
        self.check_place(&transaction, left_out.newest).await?;
        let columns: Vec<_> = left_out.columns.iter().map(|&column| &table.columns()[column]).collect();
        let query = Query::new(self, &self.key(&transaction, table).await?, &columns);
        let mut found = Vec::with_capacity(left_out.keys.len());
        for keys in left_out.keys.chunks(ROWS) {
            let width = table.key().len();
            let texts: Vec<Vec<Option<&str>>> =
                (0..width).map(|part| keys.iter().map(|key| key[part].as_deref()).collect()).collect();
            let parameters: Vec<&(dyn ToSql + Sync)> = texts.iter().map(|text| text as &(dyn ToSql + Sync)).collect();
            let rows = transaction.query(&query.0, &parameters).await.map_err(|e| self.fault(&e))?;
            let mut values: Vec<Option<Found>> = vec![None; keys.len()];
            for row in &rows {
                let number: i64 = row.try_get(0).map_err(|e| self.fault(&e))?;
                let place = usize::try_from(number - 1).ok().and_then(|number| values.get_mut(number));
                *place.ok_or_else(|| self.halt(&"it answered for a row that was not asked for"))? =
                    Some(self.tokens(row, &columns)?);
            }
            found.extend(values);
        }
        Ok(found)
    }

    /// Whether what is found here says anything about events up to `newest`.
    async fn check_place(&self, transaction: &Transaction<'_>, newest: Lsn) -> Result<(), Fault> {
        const PLACE: &str = "select pg_is_in_recovery(), case when pg_is_in_recovery() then null \
                             else (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::text end";
        let row = transaction.query_one(PLACE, &[]).await.map_err(|e| self.fault(&e))?;
        let (is_standby, at): (bool, Option<String>) =
            (row.try_get(0).map_err(|e| self.fault(&e))?, row.try_get(1).map_err(|e| self.fault(&e))?);
        if is_standby {
            return Err(self.halt(&"it is a standby, which may not have come to the events; name the primary"));
        }
        match at.and_then(|at| at.parse::<Lsn>().ok()) {
            Some(at) if at >= newest => Ok(()),
            _ => Err(self.halt(&"it has not come to the LSNs of the events: is it another server, or a restored one?")),
        }
    }

    /// The key's columns.
    async fn key(&self, transaction: &Transaction<'_>, table: &TableSchema) -> Result<Vec<KeyColumn>, Fault> {
        // -1: bpchar without a length is not character, which is one of a single character
        const TYPES: &str = "select a.attname::text, format_type(a.atttypid, -1), a.attnotnull \
             from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = $1::text and c.relname = $2::text and a.attnum > 0 and not a.attisdropped";
        let rows = transaction.query(TYPES, &[&self.schema, &self.name]).await.map_err(|e| self.fault(&e))?;
        if rows.is_empty() {
            return Err(self.halt(&"there is no such table; name it with source = \"schema.table\""));
        }
        let mut columns = Vec::new();
        for row in &rows {
            columns.push(KeyColumn::read(row).map_err(|e| self.fault(&e))?);
        }
        let key = table.key().iter().map(|&key| &table.columns()[key]);
        key.map(|key| {
            let found = columns.iter().find(|column| column.name == key.source).cloned();
            found.ok_or_else(|| self.halt(&format_args!("it has no key column {key}")))
        })
        .collect()
    }

    /// The values of a row, after its number, as JSON.
    fn tokens(&self, row: &Row, columns: &[&Column]) -> Result<Found, Fault> {
        let token = |(index, column): (usize, &&Column)| {
            let index = index + 1;
            if *column.source_type() == DataType::Binary {
                let bytes: Option<&[u8]> = row.try_get(index).map_err(|_| {
                    self.halt(&format_args!("column {column} is no bytea; set REPLICA IDENTITY FULL on the table"))
                })?;
                return Ok(bytes.map_or_else(null, |bytes| format!("\"{}\"", STANDARD.encode(bytes))));
            }
            let text: Option<&str> = row.try_get(index).map_err(|e| self.fault(&e))?;
            let Some(text) = text else { return Ok(null()) };
            match column.source_type() {
                DataType::Array(_) => Ok(text.to_owned()),
                DataType::Hstore => {
                    compact(text).ok_or_else(|| self.halt(&format_args!("column {column} is no hstore")))
                }
                _ => Ok(serde_json::Value::from(text).to_string()),
            }
        };
        columns.iter().enumerate().map(token).collect()
    }

    fn cannot_connect(&self, error: &PostgresError) -> Fault {
        match error {
            PostgresError::Unreachable { .. } | PostgresError::Other(_) => Fault::retry(self.at(error)),
            _ => Fault::halt(self.at(error)),
        }
    }

    /// An answer of the server. What it says of a value would quote it, so only what it says of names is shown.
    fn fault(&self, error: &tokio_postgres::Error) -> Fault {
        let Some(code) = error.code() else { return Fault::retry(self.at(&"the connection was lost")) };
        let said = PostgresError::answer(error, &self.settings);
        match &code.code()[..2] {
            _ if *code == SqlState::QUERY_CANCELED || *code == SqlState::LOCK_NOT_AVAILABLE => {
                Fault::retry(self.at(&"it took too long: is the table locked, or its key without an index?"))
            }
            "08" | "40" | "53" | "57" => Fault::retry(self.at(&said)),
            "28" | "42" => self.halt(&said),
            _ => self.halt(&format_args!("PostgreSQL answers with error {}", code.code())),
        }
    }

    fn halt(&self, what: &dyn fmt::Display) -> Fault {
        Fault::halt(self.at(what))
    }

    fn at(&self, what: &dyn fmt::Display) -> String {
        format!("reading back from table `{}.{}` of the source: {what}", self.schema, self.name)
    }
}

impl ReadBack for SourceTable {
    fn read<'a>(&'a self, schema: &'a TableSchema, left_out: &'a LeftOut) -> Answer<'a> {
        Box::pin(self.rows(schema, left_out))
    }
}

/// A column of a table's key, as the catalog has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyColumn {
    name: String,
    type_name: String,
    is_not_null: bool,
}

impl KeyColumn {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { name: row.try_get(0)?, type_name: row.try_get(1)?, is_not_null: row.try_get(2)? })
    }
}

/// The text of a query for rows by their keys. Its parameters are arrays of texts, one a key column; its columns are the
/// number of the key from 1 on, and a text or a bytea for each value.
struct Query(String);

impl Query {
    fn new(table: &SourceTable, key: &[KeyColumn], columns: &[&Column]) -> Self {
        let mut sql = "select k.number".to_owned();
        for column in columns {
            let name = format!("t.{}", quoted(&column.source));
            // the type's own output function, as a cast to text takes the blanks of a char(n) away
            let value = match column.source_type() {
                DataType::Binary => name.clone(),
                DataType::Hstore => format!("{name}::json::text"),
                DataType::Array(element) if **element == DataType::Json => format!("to_json({name}::text[])::text"),
                DataType::Array(_) => format!("to_json({name})::text"),
                _ => format!("case when {name} is not null then format('%s', {name}) end"),
            };
            _ = write!(sql, ", {value}");
        }
        let numbered = |prefix: &str, suffix: &str| {
            let each = (1..=key.len()).map(|part| format!("{prefix}{part}{suffix}"));
            each.collect::<Vec<_>>().join(", ")
        };
        let (arrays, names) = (numbered("$", "::text[]"), numbered("key", ""));
        let table = format!("{}.{}", quoted(&table.schema), quoted(&table.name));
        _ = write!(sql, " from unnest({arrays}) with ordinality as k({names}, number) join {table} as t on ");
        let equal = key.iter().enumerate().map(|(part, KeyColumn { name, type_name, is_not_null })| {
            // no index is used for the other one
            let operator = if *is_not_null { "=" } else { "is not distinct from" };
            format!("t.{} {operator} k.key{}::{type_name}", quoted(name), part + 1)
        });
        sql += &equal.collect::<Vec<_>>().join(" and ");
        Self(sql)
    }
}

fn null() -> String {
    "null".to_owned()
}

/// A JSON object without blanks between its parts, as the connector writes an hstore.
pub(crate) fn compact(json: &str) -> Option<String> {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(json)
        .ok()
        .map(|map| serde_json::Value::Object(map).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> SourceTable {
        SourceTable::new("postgres://reader:SECRET@db/shop".parse().unwrap(), "public", "It\"ems")
    }

    fn key(name: &str, type_name: &str, is_not_null: bool) -> KeyColumn {
        KeyColumn { name: name.to_owned(), type_name: type_name.to_owned(), is_not_null }
    }

    #[test]
    fn rows_are_asked_for_by_typed_keys_and_values_come_as_the_connector_would_write_them() {
        let declared = [
            ("note", "string"),
            ("Doc", "json"),
            ("photo", "binary@hex"),
            ("tags", "array<string>"),
            ("docs", "array<json>"),
            ("attrs", "hstore"),
        ];
        let columns = declared.map(|(name, declaration)| Column::declared(name, declaration).unwrap());
        let keys = [key("id", "bigint", true), key("Part\"", "bpchar", false)];
        let query = Query::new(&table(), &keys, &columns.each_ref());
        let expected = "select k.number, case when t.\"note\" is not null then format('%s', t.\"note\") end, \
             case when t.\"Doc\" is not null then format('%s', t.\"Doc\") end, t.\"photo\", to_json(t.\"tags\")::text, \
             to_json(t.\"docs\"::text[])::text, t.\"attrs\"::json::text \
             from unnest($1::text[], $2::text[]) with ordinality as k(key1, key2, number) \
             join \"public\".\"It\"\"ems\" as t on t.\"id\" = k.key1::bigint \
             and t.\"Part\"\"\" is not distinct from k.key2::bpchar";
        assert_eq!(query.0, expected);
    }

    #[test]
    fn an_hstore_is_written_without_blanks() {
        assert_eq!(compact(r#"{"a": "x y", "b": null}"#).unwrap(), r#"{"a":"x y","b":null}"#);
        assert_eq!(compact("7"), None);
    }

    #[test]
    fn a_source_that_is_away_comes_back_and_one_that_refuses_does_not() {
        let unreachable = PostgresError::Unreachable { address: "db:5432".into(), cause: "refused".into() };
        assert_eq!(table().cannot_connect(&unreachable).remedy, pipeline::Remedy::Retry);
        let password = PostgresError::Password { user: "reader".into(), cause: "wrong".into() };
        let fault = table().cannot_connect(&password);
        assert_eq!(fault.remedy, pipeline::Remedy::Halt);
        assert!(fault.message.starts_with("reading back from table `public.It\"ems` of the source: "), "{fault}");
        assert!(!format!("{:?}", table()).contains("SECRET"));
    }
}
