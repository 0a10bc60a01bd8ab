//! Envelopes as Debezium writes them, and what is true of each.

use change::{Lsn, Order, RecordRef};

use crate::postgres::Row;

/// The placeholder of a value that an update did not send.
const UNCHANGED: &str = "__debezium_unavailable_value";

/// What the simulator knows of a record, apart from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// A change of a key's row, which stands here in the order.
    Change {
        /// The key.
        key: i64,
        /// Where it stands.
        order: Order,
    },
    /// A truncate.
    Truncate(Order),
    /// Tombstones, heartbeats, logical messages.
    NoChange,
    /// It cannot be decoded.
    Poison,
}

impl Record {
    /// Whether it is a bad record of the epoch since `since`: one of an earlier epoch is not even looked at.
    #[must_use]
    pub fn is_poison(&self, since: i64) -> bool {
        self.truth == Truth::Poison && self.timestamp >= since
    }

    /// The record as it is read from an offset.
    #[must_use]
    pub fn at(&self, partition: i32, offset: i64) -> RecordRef<'_> {
        let (key, value) = (self.key.as_deref().map(str::as_bytes), self.value.as_deref().map(str::as_bytes));
        RecordRef { partition, offset, key, value, timestamp: Some(self.timestamp), old_key: None }
    }
}

/// A record of a topic.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its key.
    pub key: Option<String>,
    /// Its value.
    pub value: Option<String>,
    /// The broker's time of it, in milliseconds.
    pub timestamp: i64,
    /// What is true of it.
    pub truth: Truth,
}

/// Where an event stands in the source's log.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// A streamed event, and the commit before its transaction, if the connector knows it.
    Streamed {
        /// The commit before.
        committed: Option<u64>,
        /// The event's own address.
        lsn: u64,
    },
    /// A row of an initial snapshot at this address.
    Initial(u64),
    /// A row of an ad-hoc snapshot, which names the stream's own place.
    AdHoc {
        /// The commit before.
        committed: Option<u64>,
        /// The address of the event that was streamed last.
        lsn: u64,
        /// It belongs to an incremental snapshot.
        incremental: bool,
    },
}

/// The order that a pair of addresses makes.
#[must_use]
pub fn order(anchor: u64, lsn: u64) -> Order {
    let lsn_of = |address| Lsn::try_from(address).unwrap_or_default();
    Order { anchor: lsn_of(anchor), lsn: lsn_of(lsn) }
}

impl Place {
    /// The rule of `docs/adr/0001-ordering.md`, written down a second time. `horizon` is the greatest address of
    /// the partition's initial and blocking snapshot rows.
    #[must_use]
    pub fn order(self, horizon: &mut u64) -> Order {
        match self {
            Self::Streamed { committed: Some(committed), lsn } => order(committed, lsn),
            Self::Streamed { committed: None, lsn } => order(lsn.max(*horizon), lsn),
            Self::Initial(at) => {
                *horizon = at.max(*horizon);
                order(at - 1, at)
            }
            Self::AdHoc { committed, lsn, .. } => {
                let at = lsn.max(committed.unwrap_or(0));
                order(at - 1, at)
            }
        }
    }

    fn source(self, clock: i64) -> String {
        let quoted = |lsn: Option<u64>| lsn.map_or("null".to_owned(), |lsn| format!(r#"\"{lsn}\""#));
        let place = match self {
            Self::Streamed { committed, lsn } => {
                format!(r#""snapshot":"false","lsn":{lsn},"sequence":"[{},\"{lsn}\"]""#, quoted(committed))
            }
            Self::Initial(at) => format!(r#""snapshot":"true","lsn":{at},"sequence":"[null,\"{at}\"]""#),
            Self::AdHoc { committed, lsn, incremental } => {
                let sequence = format!(r#""[{},\"{lsn}\"]""#, quoted(committed));
                // the real connector names no lsn in rows of an incremental snapshot
                let (snapshot, lsn) = if incremental { ("incremental", "null") } else { ("true", &*lsn.to_string()) };
                format!(r#""snapshot":"{snapshot}","lsn":{lsn},"sequence":{sequence}"#)
            }
        };
        format!(r#"{{"ts_ms":{clock},{place}}}"#)
    }
}

/// A row image. `note_sent`: the note is carried, not only marked as unchanged.
fn image(key: i64, row: &Row, note_sent: bool) -> String {
    let note = match row.note {
        None => "null".to_owned(),
        Some(_) if !note_sent => format!("\"{UNCHANGED}\""),
        Some(note) => format!("\"n{note}\""),
    };
    format!(r#"{{"id":{key},"status":"s{}","note":{note}}}"#, row.status)
}

/// The record key of a row.
#[must_use]
pub fn record_key(key: i64) -> String {
    format!(r#"{{"id":{key}}}"#)
}

/// The envelope of a row that is there: `op` is r, c or u. `clock` is the time that it claims to be from.
#[must_use]
pub fn upsert(op: char, key: i64, row: &Row, note_sent: bool, place: Place, clock: i64) -> String {
    let after = image(key, row, note_sent);
    format!(r#"{{"before":null,"after":{after},"source":{},"op":"{op}","ts_ms":{clock}}}"#, place.source(clock))
}

/// The envelope of a delete (d) or a truncate (t).
#[must_use]
pub fn without_row(op: char, place: Place, clock: i64) -> String {
    format!(r#"{{"before":null,"after":null,"source":{},"op":"{op}","ts_ms":{clock}}}"#, place.source(clock))
}
