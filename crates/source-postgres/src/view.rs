//! [`SourceView`]: what a table of the source held at one moment.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use change::{Column, Lsn, comparable::Digest};
use tokio_postgres::{Client, Row, error::SqlState, types::ToSql};

use crate::{
    Catalog, ComparedTable, Key, Modes, PostgresError, PostgresSettings, Selection,
    compared::{Bounds, Wanted},
    connect, read_back,
};

/// Rows whose keys lie after one key and up to another, which is one of them; open at an end that is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The key before the first one.
    pub after: Option<Key>,
    /// The last one.
    pub up_to: Option<Key>,
}

/// What the queries may cost the source.
#[derive(Debug, Clone, Copy)]
pub struct QueryLimits {
    /// No statement takes longer.
    pub statement: Duration,
    /// So many connections ask at once, and see the same rows.
    pub connections: usize,
}

/// The rows of a table as of one moment, which stays while this lives.
pub struct SourceView {
    settings: PostgresSettings,
    table: Arc<ComparedTable>,
    clients: Vec<Client>,
    lsn: Lsn,
    statement: Duration,
}

/// Reads the table from the catalog, as it is compared with a replica of these columns, each with its position there, and
/// of a key at these positions.
///
/// # Errors
/// [`PostgresError`] where the source cannot be asked, has no such table, or it cannot be compared.
pub async fn compared_table(
    settings: &PostgresSettings,
    schema: &str,
    name: &str,
    columns: &[(usize, Column)],
    key: &[usize],
) -> Result<ComparedTable, PostgresError> {
    let mut client = connect(settings).await?;
    let full_name = format!("{schema}.{name}");
    let selection = Selection::new(&Modes::default(), std::slice::from_ref(&full_name))?;
    let tables = Catalog::read(&mut client, settings, &selection).await?.tables;
    let is_it = |table: &&crate::table::Table| table.schema == schema && table.name == name;
    let table = tables.iter().find(is_it).ok_or_else(|| {
        PostgresError::Other(format!("there is no table {full_name}; name it with source = \"schema.table\""))
    })?;
    let encoding = client.query_one("show server_encoding", &[]).await;
    let encoding: String =
        encoding.and_then(|row| row.try_get(0)).map_err(|error| PostgresError::answer(&error, settings))?;
    ComparedTable::new(table, columns, key, encoding == "UTF8")
        .map_err(|why| PostgresError::Other(format!("{full_name} cannot be compared: {why}")))
}

impl SourceView {
    /// Looks at the table as it is now.
    ///
    /// # Errors
    /// [`PostgresError`] where the source cannot be asked.
    pub async fn open(
        settings: &PostgresSettings,
        table: Arc<ComparedTable>,
        limits: QueryLimits,
    ) -> Result<Self, PostgresError> {
        let answer = |error: tokio_postgres::Error| PostgresError::answer(&error, settings);
        let mut clients = Vec::new();
        let mut snapshot: Option<String> = None;
        for _ in 0..limits.connections.max(1) {
            let client = connect(settings).await?;
            client.batch_execute("begin isolation level repeatable read read only").await.map_err(answer)?;
            if let Some(snapshot) = &snapshot {
                // it is a name that the server made
                client.batch_execute(&format!("set transaction snapshot '{snapshot}'")).await.map_err(answer)?;
            } else if limits.connections > 1 {
                let row = client.query_one("select pg_export_snapshot()", &[]).await.map_err(answer)?;
                snapshot = Some(row.try_get(0).map_err(answer)?);
            }
            let milliseconds = limits.statement.as_millis();
            let settings = format!(
                "set local statement_timeout = {milliseconds}; set local lock_timeout = '30s'; \
                 set local idle_in_transaction_session_timeout = 0; set local row_security = off; \
                 set local timezone = 'UTC'; set local datestyle = 'ISO'; set local bytea_output = 'hex'; \
                 set local extra_float_digits = 1"
            );
            client.batch_execute(&settings).await.map_err(answer)?;
            clients.push(client);
        }
        let lsn = here(&clients[0]).await.map_err(answer)?;
        let lsn = lsn.ok_or_else(|| PostgresError::Other("the server does not say where its WAL is".to_owned()))?;
        Ok(Self { settings: settings.clone(), table, clients, lsn, statement: limits.statement })
    }

    /// Where the source's WAL was: what is seen here was committed before, and what was committed after is not seen.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// The digests of the ranges that these rising keys end, and of what comes after the last one. The rows of `excluded`
    /// do not count. It is for a table that is ordered by [`KeyOrder::Text`](crate::KeyOrder::Text), of which each statement
    /// reads all rows.
    ///
    /// # Errors
    /// [`PostgresError`], also where the statement takes too long.
    pub async fn digests(&self, ends: &[Key], excluded: &[Key]) -> Result<Vec<Digest>, PostgresError> {
        let bounds = Bounds { after: false, up_to: false, excluded: !excluded.is_empty() };
        let excluded = self.table.literals(excluded);
        // a bucket begins with its threshold, and a range ends with its end
        let ends: Vec<String> =
            ends.iter().flat_map(|end| self.table.place(end)).map(|place| place + "\u{1}").collect();
        let mut parameters: Vec<&(dyn ToSql + Sync)> = Vec::new();
        if bounds.excluded {
            parameters.extend(excluded.iter().map(|texts| texts as &(dyn ToSql + Sync)));
        }
        parameters.push(&ends);
        let rows = self.query(0, &self.table.digests(bounds, true), &parameters).await?;
        let mut digests = vec![empty(); ends.len() + 1];
        for row in &rows {
            let range: i32 = self.get(row, 0)?;
            let range = usize::try_from(range).ok().and_then(|range| digests.get_mut(range));
            *range.ok_or_else(strange)? = self.digest_of(row)?;
        }
        Ok(digests)
    }

    /// The digest of a range, without the rows of `excluded`, by connection number `turn`.
    ///
    /// # Errors
    /// As [`Self::digests`].
    pub async fn digest(&self, turn: usize, range: &KeyRange, excluded: &[Key]) -> Result<Digest, PostgresError> {
        let bounds = Bounds::of(range, excluded);
        let texts = self.parameters(range, excluded);
        let rows = self.query(turn, &self.table.digests(bounds, false), &texts.as_parameters()).await?;
        rows.first().map_or_else(|| Ok(empty()), |row| self.digest_of(row))
    }

    /// The rows of a range, each with its key and the MD5 of its text, without those of `excluded`.
    ///
    /// # Errors
    /// As [`Self::digests`].
    pub async fn rows(&self, range: &KeyRange, excluded: &[Key]) -> Result<Vec<(Key, String)>, PostgresError> {
        let bounds = Bounds::of(range, excluded);
        let texts = self.parameters(range, excluded);
        let rows = self.query(0, &self.table.rows(bounds), &texts.as_parameters()).await?;
        let width = self.table.key().count();
        let row = |row: &Row| {
            let key = (0..width).map(|part| self.get(row, part)).collect::<Result<_, _>>()?;
            Ok((key, self.get(row, width)?))
        };
        rows.iter().map(row).collect()
    }

    /// The MD5 of the row of each key; `None` where there is none.
    ///
    /// # Errors
    /// As [`Self::digests`].
    pub async fn hashes(&self, keys: &[Key]) -> Result<Vec<Option<String>>, PostgresError> {
        self.named(keys, Wanted::Hash, |row| self.get(row, 1)).await
    }

    /// The texts of the compared columns of the row of each key; `None` where there is no row.
    ///
    /// # Errors
    /// As [`Self::digests`].
    pub async fn texts(&self, keys: &[Key]) -> Result<Vec<Option<Vec<Option<String>>>>, PostgresError> {
        let width = self.table.columns().len();
        self.named(keys, Wanted::Columns, |row| (1..=width).map(|at| self.get(row, at)).collect()).await
    }

    /// The values of the row of each key as the tokens of a [`change::SourceRow`]; `None` where there is no row.
    ///
    /// # Errors
    /// As [`Self::digests`].
    pub async fn values(&self, keys: &[Key]) -> Result<Vec<Option<Vec<(usize, String)>>>, PostgresError> {
        self.named(keys, Wanted::Tokens, |row| {
            let mut values = Vec::new();
            for (at, position) in self.table.positions().enumerate() {
                let token: Option<String> = self.get(row, at + 1)?;
                values.extend(token.map(|token| (position, without_blanks(token))));
            }
            Ok(values)
        })
        .await
    }

    async fn named<T: Clone>(
        &self,
        keys: &[Key],
        wanted: Wanted,
        read: impl Fn(&Row) -> Result<T, PostgresError>,
    ) -> Result<Vec<Option<T>>, PostgresError> {
        const AT_ONCE: usize = 10_000;
        let sql = self.table.named(wanted);
        let mut found = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            let literals = self.table.literals(keys);
            let parameters: Vec<_> = literals.iter().map(|texts| texts as &(dyn ToSql + Sync)).collect();
            let mut values = vec![None; keys.len()];
            for row in &self.query(0, &sql, &parameters).await? {
                let number: i64 = self.get(row, 0)?;
                let place = usize::try_from(number - 1).ok().and_then(|number| values.get_mut(number));
                *place.ok_or_else(strange)? = Some(read(row)?);
            }
            found.extend(values);
        }
        Ok(found)
    }

    fn parameters(&self, range: &KeyRange, excluded: &[Key]) -> Parameters {
        let bounds = [&range.after, &range.up_to];
        let places = bounds.into_iter().flatten().flat_map(|key| self.table.place(key)).collect();
        let excluded = if excluded.is_empty() { Vec::new() } else { self.table.literals(excluded) };
        Parameters { places, excluded }
    }

    fn digest_of(&self, row: &Row) -> Result<Digest, PostgresError> {
        let (rows, sum): (i64, String) = (self.get(row, 1)?, self.get(row, 2)?);
        let (rows, sum) = (u64::try_from(rows).map_err(|_| strange())?, sum.parse().map_err(|_| strange())?);
        Ok(Digest { rows, sum, ordered: self.get(row, 3)? })
    }

    fn get<'a, T: tokio_postgres::types::FromSql<'a>>(&self, row: &'a Row, column: usize) -> Result<T, PostgresError> {
        row.try_get(column).map_err(|error| PostgresError::answer(&error, &self.settings))
    }

    async fn query(
        &self,
        turn: usize,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PostgresError> {
        let client = &self.clients[turn % self.clients.len()];
        client.query(sql, parameters).await.map_err(|error| match error.code() {
            Some(code) if *code == SqlState::QUERY_CANCELED => PostgresError::Other(format!(
                "a statement took longer than {:?}; allow more with --statement-time, or ask for fewer rows at once with \
                 --range-rows",
                self.statement
            )),
            // what it says of a value would quote it
            Some(code) if code.code().starts_with("22") => {
                PostgresError::Other(format!("it answers with error {} about a value", code.code()))
            }
            _ => PostgresError::answer(&error, &self.settings),
        })
    }
}

/// Where the WAL is: what the transaction sees was committed before.
///
/// It was inserted before, and is flushed, or will be within three times `wal_writer_delay` where commits are asynchronous.
/// What is not flushed by then are no commits, and may stay there for long; nothing is sent before it is flushed.
async fn here(client: &Client) -> Result<Option<Lsn>, tokio_postgres::Error> {
    const INSERTED: &str = "select ((case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
                            else pg_current_wal_insert_lsn() end) - '0/0'::pg_lsn)::text, \
                            (3000 * extract(epoch from current_setting('wal_writer_delay')::interval))::bigint";
    const FLUSHED: &str = "select ((case when pg_is_in_recovery() then pg_last_wal_replay_lsn() \
                           else pg_current_wal_flush_lsn() end) - '0/0'::pg_lsn)::text";
    const POLL: Duration = Duration::from_millis(20);
    let lsn =
        |row: &Row| row.try_get::<_, Option<String>>(0).map(|text| text.and_then(|text| text.parse::<Lsn>().ok()));
    let row = client.query_one(INSERTED, &[]).await?;
    let (inserted, delay): (_, i64) = (lsn(&row)?, row.try_get(1)?);
    let (began, delay) = (Instant::now(), Duration::from_millis(delay.unsigned_abs()));
    loop {
        let flushed = lsn(&client.query_one(FLUSHED, &[]).await?)?;
        if flushed >= inserted || began.elapsed() > delay {
            return Ok(flushed.min(inserted));
        }
        tokio::time::sleep(POLL).await;
    }
}

impl std::fmt::Debug for SourceView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceView").field("lsn", &self.lsn).finish_non_exhaustive()
    }
}

impl Bounds {
    fn of(range: &KeyRange, excluded: &[Key]) -> Self {
        Self { after: range.after.is_some(), up_to: range.up_to.is_some(), excluded: !excluded.is_empty() }
    }
}

/// The values of a statement's parameters, in order.
struct Parameters {
    places: Vec<String>,
    excluded: Vec<Vec<Option<String>>>,
}

impl Parameters {
    fn as_parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let places = self.places.iter().map(|text| text as &(dyn ToSql + Sync));
        places.chain(self.excluded.iter().map(|texts| texts as &(dyn ToSql + Sync))).collect()
    }
}

/// An hstore as the connector writes it; what else is no object.
fn without_blanks(token: String) -> String {
    if token.starts_with('{') { read_back::compact(&token).unwrap_or(token) } else { token }
}

fn empty() -> Digest {
    // the MD5 of nothing
    Digest { rows: 0, sum: 0, ordered: "d41d8cd98f00b204e9800998ecf8427e".to_owned() }
}

fn strange() -> PostgresError {
    PostgresError::Other("it answered something that was not asked for".to_owned())
}
