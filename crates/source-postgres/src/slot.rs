//! [`SlotWatch`]: how the connector's replication slot is doing.

use change::Lsn;
use tokio_postgres::Client;

use crate::{PostgresError, PostgresSettings, connect};

/// A connection over which the slot is looked at, made when it is needed.
pub struct SlotWatch {
    settings: PostgresSettings,
    slot: Option<String>,
    client: Option<Client>,
}

/// A logical replication slot at one moment (PostgreSQL's documentation, `pg_replication_slots`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotState {
    /// Its name.
    pub name: String,
    /// Whether a connector reads it.
    pub active: bool,
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// Bytes of WAL that it keeps on the server's disk.
    pub retained_bytes: Option<u64>,
    /// Bytes that may still be written before the slot can be lost, where the server limits it.
    pub safe_wal_bytes: Option<u64>,
    /// `max_slot_wal_keep_size` in bytes, where the server has one.
    pub limit_bytes: Option<u64>,
    /// Everything before this LSN has been delivered, and the connector has said so.
    pub confirmed: Option<Lsn>,
    /// The oldest WAL that it needs.
    pub restart: Option<Lsn>,
}

const SLOT: &str = "select s.slot_name::text, s.active, s.wal_status, s.safe_wal_size, \
           pg_wal_lsn_diff(now_at.lsn, s.restart_lsn)::bigint, \
           (s.confirmed_flush_lsn - '0/0'::pg_lsn)::text, (s.restart_lsn - '0/0'::pg_lsn)::text, \
           pg_size_bytes(current_setting('max_slot_wal_keep_size')) \
    from pg_replication_slots s \
    cross join (select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn) \
      now_at \
    where s.slot_type = 'logical' and s.database = current_database() and ($1::text is null or s.slot_name = $1)";

impl SlotWatch {
    /// Looks at `slot`; where it is not named, it has to be the only logical one of the database.
    #[must_use]
    pub fn new(settings: PostgresSettings, slot: Option<String>) -> Self {
        Self { settings, slot, client: None }
    }

    /// The slot that was named, if one was.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.slot.as_deref()
    }

    /// The slot now; `None` where there is none. After an error the next call connects again.
    ///
    /// # Errors
    /// [`PostgresError`] where the source cannot be asked, or there are several slots and none was named.
    pub async fn now(&mut self) -> Result<Option<SlotState>, PostgresError> {
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => connect(&self.settings).await?,
        };
        let state = self.ask(&client).await;
        if state.is_ok() {
            self.client = Some(client);
        }
        state
    }

    async fn ask(&self, client: &Client) -> Result<Option<SlotState>, PostgresError> {
        let answer = |error: tokio_postgres::Error| PostgresError::answer(&error, &self.settings);
        let rows = client.query(SLOT, &[&self.slot]).await.map_err(answer)?;
        let [row] = rows.as_slice() else {
            return match rows.len() {
                0 => Ok(None),
                several => Err(PostgresError::Other(format!(
                    "the database has {several} logical slots; name the connector's with slot = \"...\" in [source]"
                ))),
            };
        };
        let bytes =
            |column: usize| row.try_get::<_, Option<i64>>(column).map(|bytes| bytes.and_then(|b| b.try_into().ok()));
        let lsn = |column: usize| {
            row.try_get::<_, Option<String>>(column).map(|text| text.and_then(|text| text.parse::<Lsn>().ok()))
        };
        let state = || {
            Ok(SlotState {
                name: row.try_get(0)?,
                active: row.try_get(1)?,
                wal_status: row.try_get(2)?,
                safe_wal_bytes: bytes(3)?,
                retained_bytes: bytes(4)?,
                confirmed: lsn(5)?,
                restart: lsn(6)?,
                limit_bytes: bytes(7)?,
            })
        };
        state().map(Some).map_err(answer)
    }
}

impl std::fmt::Debug for SlotWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotWatch").field("slot", &self.slot).finish_non_exhaustive()
    }
}
