//! [`Fault`]: what went wrong, and what to do about it.

use std::fmt;

/// What the caller has to do. Nothing else about a fault is matched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Make the same call again after a while: a server or a store that does not answer.
    Retry,
    /// Make the same call again at once: another writer was faster.
    Redo,
    /// Stop the table and tell the operator.
    Halt,
}

/// A fault with its remedy and a sentence for the operator. The sentence names table, column, offset or file, and
/// never holds a value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What to do.
    pub remedy: Remedy,
    /// What happened, lower case, without a full stop.
    pub message: String,
}

impl Fault {
    /// A fault that passes by itself.
    pub fn retry(message: impl fmt::Display) -> Self {
        Self { remedy: Remedy::Retry, message: message.to_string() }
    }

    /// A lost race.
    pub fn redo(message: impl fmt::Display) -> Self {
        Self { remedy: Remedy::Redo, message: message.to_string() }
    }

    /// A fault that needs a person.
    pub fn halt(message: impl fmt::Display) -> Self {
        Self { remedy: Remedy::Halt, message: message.to_string() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
