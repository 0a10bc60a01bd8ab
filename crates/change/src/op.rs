//! [`Op`]: what a change event does.

/// The kind of a change event, named as in Debezium's `op` field. It never decides which event is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `r`: a row as a snapshot read it.
    Read,
    /// `c`: an inserted row.
    Create,
    /// `u`: an updated row.
    Update,
    /// `d`: a deleted row.
    Delete,
    /// `t`: the whole table was emptied.
    Truncate,
    /// `m`: a message written with `pg_logical_emit_message`; it changes no row.
    Message,
}

impl Op {
    /// The operation of Debezium's letter, if it is one.
    #[must_use]
    pub fn from_letter(letter: &str) -> Option<Self> {
        Some(match letter {
            "r" => Self::Read,
            "c" => Self::Create,
            "u" => Self::Update,
            "d" => Self::Delete,
            "t" => Self::Truncate,
            "m" => Self::Message,
            _ => return None,
        })
    }

    /// The word for it in messages to people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
            Self::Message => "logical message",
        }
    }
}
