//! [`PostgresSettings`]: where the source is, and how the way there is guarded.

use std::{path::PathBuf, str::FromStr, time::Duration};

use percent_encoding::percent_decode_str;
use tokio_postgres::config::{Host, SslMode};

use crate::PostgresError;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Where the URL does not set `connect_timeout`. Longer than a lost packet's first two repeats take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What is checked of the server's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing: who listens in is kept out, who stands in for the server is not. As libpq has it for `prefer` and
    /// `require`.
    Anyone,
    /// Its name, and that it is signed by one of the system's authorities.
    System,
    /// Its name, and that it is signed by one of the authorities in this PEM file.
    File(PathBuf),
}

/// How to reach a database: `postgres://user:password@host:port/database?sslmode=...`, with the parameters of
/// `tokio_postgres::Config`. The password is never shown.
///
/// `sslmode` is one of libpq's: `disable`; `prefer` (the default) and `require`, which encrypt but check no
/// certificate; and `verify-full`, which checks it by the system's authorities or by those of `sslrootcert=FILE`.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) trust: Trust,
}

impl PostgresSettings {
    /// The database's name; PostgreSQL takes the user's where none is given.
    #[must_use]
    pub fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }

    pub(crate) fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }

    /// Host and port of each server that is tried, for a message.
    pub(crate) fn address(&self) -> String {
        let ports = self.config.get_ports();
        let port = |index: usize| ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let hosts = self.config.get_hosts().iter().enumerate().map(|(index, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(index)),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}, port {}", folder.display(), port(index)),
        });
        hosts.collect::<Vec<_>>().join(" or ")
    }
}

impl FromStr for PostgresSettings {
    type Err = PostgresError;

    fn from_str(url: &str) -> Result<Self, PostgresError> {
        let bad = |problem: &str| PostgresError::Url(problem.to_owned());
        let rest = SCHEMES.iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or_else(|| bad("it does not begin with postgres:// or postgresql://"))?;
        // everything before the first @ is user and password; with a second one, part of a password would be a host
        let place = rest.split_once('@').map_or(rest, |(_, place)| place);
        if place.contains('@') {
            return Err(bad("it has more than one @; write %40 for one in a user's name or password"));
        }
        let (place, query) = place.split_once('?').unwrap_or((place, ""));
        let head = &url[..url.len() - rest.len() + rest.find('@').map_or(0, |at| at + 1)];

        let (mut mode, mut root, mut others) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => root = Some(percent_decode_str(value).decode_utf8_lossy().into_owned()),
                _ => others.push(parameter),
            }
        }
        let plain = format!("{head}{place}?{}", others.join("&"));
        let mut config = plain.parse::<tokio_postgres::Config>().map_err(|error| {
            // the cause names a parameter, never its value
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            PostgresError::Url(cause.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() {
            return Err(bad("it names no host"));
        }
        let (mode, trust) = match (mode.unwrap_or("prefer"), root) {
            ("disable" | "prefer" | "require", Some(_)) => {
                return Err(bad("sslrootcert needs sslmode=verify-full: no other mode looks at the certificate"));
            }
            ("disable", None) => (SslMode::Disable, Trust::Anyone),
            ("prefer", None) => (SslMode::Prefer, Trust::Anyone),
            ("require", None) => (SslMode::Require, Trust::Anyone),
            ("verify-full", None) => (SslMode::Require, Trust::System),
            ("verify-full", Some(root)) if root == "system" => (SslMode::Require, Trust::System),
            ("verify-full", Some(root)) => (SslMode::Require, Trust::File(root.into())),
            ("verify-ca", _) => {
                return Err(bad("sslmode=verify-ca is not known here; verify-full checks the name too"));
            }
            _ => return Err(bad("sslmode is one of disable, prefer, require and verify-full")),
        };
        config.ssl_mode(mode);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("highwater");
        }
        Ok(Self { config, trust })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(url: &str) -> Result<PostgresSettings, String> {
        url.parse().map_err(|error: PostgresError| error.to_string())
    }

    #[test]
    fn the_parts_of_a_url_are_read() {
        let read =
            settings("postgres://cdc:p%40ss@db.example:6432/shop?sslmode=verify-full&sslrootcert=%2Fca.pem").unwrap();
        assert_eq!((read.database(), read.user(), read.address().as_str()), ("shop", "cdc", "db.example:6432"));
        assert_eq!(read.config.get_password(), Some(b"p@ss".as_slice()));
        assert_eq!(read.trust, Trust::File("/ca.pem".into()));
        assert_eq!(read.config.get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn each_sslmode_means_what_it_means_to_libpq() {
        let table = [
            ("", SslMode::Prefer, Trust::Anyone),
            ("?sslmode=disable", SslMode::Disable, Trust::Anyone),
            ("?sslmode=prefer", SslMode::Prefer, Trust::Anyone),
            ("?connect_timeout=3&sslmode=require", SslMode::Require, Trust::Anyone),
            ("?sslmode=verify-full", SslMode::Require, Trust::System),
            ("?sslmode=verify-full&sslrootcert=system", SslMode::Require, Trust::System),
        ];
        for (query, mode, trust) in table {
            let read = settings(&format!("postgresql://u@h/d{query}")).unwrap();
            assert_eq!((read.config.get_ssl_mode(), read.trust), (mode, trust), "{query}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_password() {
        for (url, part) in [
            ("mysql://u:secret@h/d", "postgres://"),
            ("host=h password=secret", "postgres://"),
            ("postgres://u:sec@ret@h/d", "%40"),
            ("postgres://u:secret", "port"),
            ("postgres://u:secret@/d", "no host"),
            ("postgres://u:secret@h:port/d", "port"),
            ("postgres://u:secret@h/d?sslmode=perhaps", "verify-full"),
            ("postgres://u:secret@h/d?sslmode=verify-ca", "verify-full"),
            ("postgres://u:secret@h/d?sslrootcert=/ca.pem", "verify-full"),
            ("postgres://u:secret@h/d?colour=red", "colour"),
        ] {
            let error = settings(url).unwrap_err();
            assert!(error.contains(part) && !error.contains("sec") && !error.contains("ret@"), "{url}: {error}");
        }
        let shown = format!("{:?}", settings("postgres://u:secret@h/d").unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }
}
