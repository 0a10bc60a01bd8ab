//! [`PostgresError`]: why the source could not be asked, and what to do about it.

use std::error::Error;

use tokio_postgres::error::SqlState;

use crate::{ModesError, PostgresSettings};

/// Why the source could not be asked. Its text names server, user and database, and never a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// The URL cannot be used.
    #[error("the source's URL: {0}")]
    Url(String),
    /// Nobody answers, or not in time.
    #[error("cannot reach PostgreSQL at {address}: {cause}; check host and port, and that the server listens there")]
    Unreachable {
        /// Host and port of each server that was tried.
        address: String,
        /// What the system says.
        cause: String,
    },
    /// No TLS, or none that is trusted.
    #[error(
        "no TLS to PostgreSQL at {address}: {cause}; set sslmode (disable, prefer, require or verify-full) and \
         sslrootcert by what the server offers"
    )]
    Tls {
        /// Host and port of each server that was tried.
        address: String,
        /// What the handshake says.
        cause: String,
    },
    /// A wrong password, or none where one is needed.
    #[error(
        "PostgreSQL refuses user `{user}`: {cause}; check user and password, with %XX for special characters in the URL"
    )]
    Password {
        /// The user.
        user: String,
        /// What the server says.
        cause: String,
    },
    /// The server's rules let nobody in from here.
    #[error("PostgreSQL does not let user `{user}` in: {cause}; add a line for it to the server's pg_hba.conf")]
    NotLetIn {
        /// The user.
        user: String,
        /// What the server says.
        cause: String,
    },
    /// There is no such database.
    #[error("PostgreSQL has no database `{0}`: name one that exists after the host, as in postgres://host/database")]
    NoDatabase(String),
    /// The user may not do it.
    #[error("PostgreSQL forbids it to user `{user}`: {cause}; grant it, or connect as a user who may")]
    NoPrivilege {
        /// The user.
        user: String,
        /// What the server says.
        cause: String,
    },
    /// What a pattern takes cannot be told.
    #[error(transparent)]
    Patterns(#[from] ModesError),
    /// Anything else that the server or the connection says.
    #[error("PostgreSQL: {0}")]
    Other(String),
}

impl PostgresError {
    /// Of a connection that could not be made.
    pub(crate) fn connecting(error: &tokio_postgres::Error, settings: &PostgresSettings) -> Self {
        let address = settings.address();
        let cause = root_cause(error);
        match (error.code(), error.to_string().as_str()) {
            (Some(_), _) => Self::answer(error, settings),
            // the words are all that tells these kinds apart
            (None, "error performing TLS handshake") => Self::Tls { address, cause },
            (None, "invalid configuration" | "authentication error") => {
                Self::Password { user: settings.user().to_owned(), cause }
            }
            (None, _) => Self::Unreachable { address, cause },
        }
    }

    /// Of a server that answers with an error.
    pub(crate) fn answer(error: &tokio_postgres::Error, settings: &PostgresSettings) -> Self {
        let (user, cause) = (settings.user().to_owned(), root_cause(error));
        match error.code() {
            Some(code) if *code == SqlState::INVALID_PASSWORD => Self::Password { user, cause },
            Some(code) if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => Self::NotLetIn { user, cause },
            Some(code) if *code == SqlState::INVALID_CATALOG_NAME => Self::NoDatabase(settings.database().to_owned()),
            Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => Self::NoPrivilege { user, cause },
            _ => Self::Other(cause),
        }
    }
}

/// The innermost cause: what the server, the system or the handshake itself said. Of a server's error only the message:
/// detail and context can quote rows.
fn root_cause(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut cause: &dyn Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
