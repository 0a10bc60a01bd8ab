//! [`Postgres`]: a source database of a few tables, whose transactions run side by side.
//!
//! A row change gets its WAL address when it is made, so that those of concurrent transactions interleave; the
//! transactions reach the log in the order of their commits. A change locks its row, a truncate its table, as in
//! PostgreSQL: nobody reads a table that is being truncated, so a snapshot holds no row that a transaction which was
//! open then has truncated.

use std::collections::BTreeMap;

/// What stands for the key in a truncate.
pub const TRUNCATED: i64 = -1;

/// A row's columns outside the key. Every write has a number of its own, so that no two row images are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// A column that every change carries.
    pub status: u64,
    /// A column that may be TOASTed: an update that leaves it as it is does not carry it.
    pub note: Option<u64>,
}

/// What a row change does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The row is there now.
    Insert(Row),
    /// The row has these values now.
    Update {
        /// The whole row.
        row: Row,
        /// Whether the update set the note.
        note_changed: bool,
    },
    /// The row is gone.
    Delete,
    /// Every row of the table is gone.
    Truncate,
}

/// A row change in the log.
#[derive(Debug, Clone)]
pub struct Change {
    /// The table.
    pub table: usize,
    /// The row's key, or [`TRUNCATED`].
    pub key: i64,
    /// Its WAL address.
    pub lsn: u64,
    /// What it does.
    pub effect: Effect,
}

/// A committed transaction in the log.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The WAL address of the commit.
    pub lsn: u64,
    /// Its changes, in the order of their addresses.
    pub changes: Vec<Change>,
    /// It is the mark of an incremental snapshot.
    pub mark: Option<Mark>,
}

/// The marks around an incremental snapshot's chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// The chunk is read after this one.
    Low,
    /// The chunk was read before this one.
    High {
        /// The table.
        table: usize,
        /// What was read.
        chunk: BTreeMap<i64, Row>,
    },
}

/// What a transaction is asked to do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Insert the row, or update it with a new note.
    Put,
    /// Update the row and leave the note as it is.
    Touch,
    /// Delete the row.
    Delete,
    /// Give the row another key.
    Move(i64),
    /// Insert several rows by one WAL record, from this key on.
    Copy(u8),
    /// Empty the table.
    Truncate,
}

#[derive(Debug, Default, Clone)]
struct Open {
    changes: Vec<Change>,
    /// The rows as the transaction sees them; `None`: gone.
    seen: BTreeMap<(usize, i64), Option<Row>>,
}

/// The database.
#[derive(Debug, Default, Clone)]
pub struct Postgres {
    lsn: u64,
    value: u64,
    rows: BTreeMap<(usize, i64), Row>,
    open: BTreeMap<u8, Open>,
    /// Who holds a row.
    locks: BTreeMap<(usize, i64), u8>,
    /// Who holds a table.
    table_locks: BTreeMap<usize, u8>,
    /// The log, in the order of commits.
    pub log: Vec<Committed>,
}

impl Postgres {
    /// Sets the database back to what `backup` holds.
    pub fn restore(&mut self, backup: Self) {
        // values stay unique, or an older row could pass for a newer one
        let (open, locks, table_locks) = Default::default();
        // and no address of the new space is one of the old
        *self = Self { value: self.value, lsn: backup.lsn + 4, open, locks, table_locks, ..backup };
    }

    /// The next WAL address.
    pub fn advance(&mut self) -> u64 {
        self.lsn += 8;
        self.lsn
    }

    /// The committed rows of a table.
    #[must_use]
    pub fn rows(&self, table: usize) -> BTreeMap<i64, Row> {
        self.rows.iter().filter(|((t, _), _)| *t == table).map(|((_, key), row)| (*key, row.clone())).collect()
    }

    /// Whether a truncate that has not committed keeps readers out of a table.
    #[must_use]
    pub fn is_locked(&self, table: usize) -> bool {
        self.table_locks.contains_key(&table)
    }

    /// Transactions that are open.
    #[must_use]
    pub fn open(&self) -> Vec<u8> {
        self.open.keys().copied().collect()
    }

    /// A change by transaction `tx`, which begins with it. A change that would have to wait for a lock is left out.
    pub fn write(&mut self, tx: u8, table: usize, key: i64, write: Write) -> bool {
        match write {
            Write::Truncate => return self.truncate(tx, table),
            Write::Copy(rows) => {
                let lsn = self.lsn + 8;
                let inserted = (key..key + i64::from(rows))
                    .filter(|&key| self.lock(tx, table, key) && self.see(tx, table, key).is_none())
                    .collect::<Vec<_>>();
                for &key in &inserted {
                    let row = self.new_row();
                    self.change(tx, table, key, lsn, Effect::Insert(row));
                }
                if !inserted.is_empty() {
                    self.advance();
                }
                return !inserted.is_empty();
            }
            _ => {}
        }
        if !self.lock(tx, table, key) {
            return false;
        }
        let current = self.see(tx, table, key);
        let effect = match (current, write) {
            (None, Write::Put) => Effect::Insert(self.new_row()),
            (Some(_), Write::Put) => Effect::Update { row: self.new_row(), note_changed: true },
            (Some(row), Write::Touch) => {
                let status = self.new_row().status;
                Effect::Update { row: Row { status, note: row.note }, note_changed: false }
            }
            (Some(_), Write::Delete) => Effect::Delete,
            (Some(row), Write::Move(to)) if to != key => {
                if !self.lock(tx, table, to) || self.see(tx, table, to).is_some() {
                    return false;
                }
                // both records of a change of the key have one address
                let lsn = self.advance();
                self.change(tx, table, key, lsn, Effect::Delete);
                self.change(tx, table, to, lsn, Effect::Insert(row));
                return true;
            }
            _ => return false,
        };
        let lsn = self.advance();
        self.change(tx, table, key, lsn, effect);
        true
    }

    /// Commits `tx`. `false`: it is not open.
    pub fn commit(&mut self, tx: u8) -> bool {
        self.unlock(tx);
        let Some(open) = self.open.remove(&tx) else { return false };
        for (key, row) in open.seen {
            match row {
                Some(row) => _ = self.rows.insert(key, row),
                None => _ = self.rows.remove(&key),
            }
        }
        let lsn = self.advance();
        self.log.push(Committed { lsn, changes: open.changes, mark: None });
        true
    }

    /// Rolls `tx` back: its addresses are used up, and nothing reaches the log.
    pub fn abort(&mut self, tx: u8) -> bool {
        self.unlock(tx);
        self.open.remove(&tx).is_some()
    }

    /// Writes the marks of an incremental snapshot around a read of some keys. What commits between the two marks
    /// is up to the caller: `between` runs there.
    pub fn read_chunk(&mut self, table: usize, keys: std::ops::Range<i64>, between: impl FnOnce(&mut Self)) {
        let lsn = self.advance();
        self.log.push(Committed { lsn, changes: Vec::new(), mark: Some(Mark::Low) });
        let chunk = self.rows(table).into_iter().filter(|(key, _)| keys.contains(key)).collect();
        between(self);
        let lsn = self.advance();
        self.log.push(Committed { lsn, changes: Vec::new(), mark: Some(Mark::High { table, chunk }) });
    }

    fn new_row(&mut self) -> Row {
        self.value += 1;
        // now and then there is no note at all
        Row { status: self.value, note: (!self.value.is_multiple_of(5)).then_some(self.value) }
    }

    fn see(&self, tx: u8, table: usize, key: i64) -> Option<Row> {
        match self.open.get(&tx).and_then(|open| open.seen.get(&(table, key))) {
            Some(seen) => seen.clone(),
            None => self.rows.get(&(table, key)).cloned(),
        }
    }

    fn lock(&mut self, tx: u8, table: usize, key: i64) -> bool {
        let table_is_free = self.table_locks.get(&table).is_none_or(|&holder| holder == tx);
        table_is_free && *self.locks.entry((table, key)).or_insert(tx) == tx
    }

    fn unlock(&mut self, tx: u8) {
        self.locks.retain(|_, holder| *holder != tx);
        self.table_locks.retain(|_, holder| *holder != tx);
    }

    fn change(&mut self, tx: u8, table: usize, key: i64, lsn: u64, effect: Effect) {
        let open = self.open.entry(tx).or_default();
        let row = match &effect {
            Effect::Insert(row) | Effect::Update { row, .. } => Some(row.clone()),
            Effect::Delete | Effect::Truncate => None,
        };
        open.seen.insert((table, key), row);
        open.changes.push(Change { table, key, lsn, effect });
    }

    fn truncate(&mut self, tx: u8, table: usize) -> bool {
        let others = self.locks.iter().any(|((t, _), &holder)| *t == table && holder != tx);
        let free = self.table_locks.get(&table).is_none_or(|&holder| holder == tx);
        if others || !free {
            return false;
        }
        self.table_locks.insert(table, tx);
        let lsn = self.advance();
        let committed: Vec<_> = self.rows.keys().filter(|(t, _)| *t == table).copied().collect();
        let open = self.open.entry(tx).or_default();
        for key in committed {
            open.seen.insert(key, None);
        }
        for (_, row) in open.seen.iter_mut().filter(|((t, _), _)| *t == table) {
            *row = None;
        }
        open.changes.push(Change { table, key: TRUNCATED, lsn, effect: Effect::Truncate });
        true
    }
}
