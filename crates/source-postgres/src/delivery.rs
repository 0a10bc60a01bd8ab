//! [`Delivery`]: how far the connector has come in the source's WAL.

use change::Lsn;
use tokio_postgres::Client;

use crate::{PostgresError, PostgresSettings, connect};

/// A connection to the primary, from which the connector reads.
pub struct Delivery {
    settings: PostgresSettings,
    client: Client,
    slot: Option<String>,
}

/// Where the connector's slot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotPlace {
    /// Its name.
    pub name: String,
    /// The connector has put everything before this into Kafka, and said so.
    pub confirmed: Lsn,
    /// The server has decoded its WAL up to here and sent what it holds; `None` where nobody reads the slot, or the user
    /// may not see it.
    pub sent: Option<Lsn>,
}

impl Delivery {
    /// Connects. `slot` is the connector's; where it is not known, it has to be the only logical one of the database.
    ///
    /// # Errors
    /// [`PostgresError`] where the source cannot be asked.
    pub async fn open(settings: &PostgresSettings, slot: Option<String>) -> Result<Self, PostgresError> {
        Ok(Self { settings: settings.clone(), client: connect(settings).await?, slot })
    }

    /// Writes a message into the WAL that the connector sends on: with it, its slot moves though nothing else happens. The
    /// connector needs the topic `<prefix>.message` for it.
    ///
    /// # Errors
    /// [`PostgresError`] where the source cannot be asked, or is a standby.
    pub async fn announce(&self) -> Result<(), PostgresError> {
        const MESSAGE: &str = "select pg_logical_emit_message(true, 'highwater', 'reconcile')::text";
        self.client.query_one(MESSAGE, &[]).await.map(drop).map_err(|error| self.answer(&error))
    }

    /// Where the slot is; `None` where there is none, as on a standby.
    ///
    /// # Errors
    /// [`PostgresError`] where the source cannot be asked, or there are several slots and none was named.
    pub async fn place(&self) -> Result<Option<SlotPlace>, PostgresError> {
        const SLOTS: &str = "select s.slot_name::text, (s.confirmed_flush_lsn - '0/0'::pg_lsn)::text, \
                                    (r.sent_lsn - '0/0'::pg_lsn)::text \
                             from pg_replication_slots s left join pg_stat_replication r on r.pid = s.active_pid \
                             where s.slot_type = 'logical' and s.database = current_database() \
                               and ($1::text is null or s.slot_name = $1)";
        let rows = self.client.query(SLOTS, &[&self.slot]).await.map_err(|error| self.answer(&error))?;
        let [row] = rows.as_slice() else {
            return match rows.len() {
                0 => Ok(None),
                several => Err(PostgresError::Other(format!(
                    "the database has {several} logical slots; name the connector's with slot = \"...\" in [source]"
                ))),
            };
        };
        let text = |column: usize| row.try_get::<_, Option<String>>(column).map_err(|error| self.answer(&error));
        let lsn = |text: Option<String>| text.and_then(|text| text.parse::<Lsn>().ok());
        let (name, confirmed, sent) = (text(0)?.unwrap_or_default(), lsn(text(1)?), lsn(text(2)?));
        Ok(Some(SlotPlace { name, confirmed: confirmed.unwrap_or_default(), sent }))
    }

    fn answer(&self, error: &tokio_postgres::Error) -> PostgresError {
        PostgresError::answer(error, &self.settings)
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery").field("slot", &self.slot).finish_non_exhaustive()
    }
}
