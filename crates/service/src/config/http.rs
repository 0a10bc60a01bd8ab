//! `[http]`, `[connect]` and `[reconcile]`: what is served, and what else is looked at for it.

use std::{net::SocketAddr, path::PathBuf};

use monitor::{ConnectClient, Token};
use serde::Deserialize;

/// Where the process says how it is doing.
#[derive(Debug, Clone)]
pub(crate) struct HttpConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) token: Option<Token>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpSection {
    #[serde(default = "listen")]
    listen: String,
    token: Option<String>,
}

fn listen() -> String {
    "127.0.0.1:9184".to_owned()
}

impl HttpSection {
    pub(super) fn check(self, problems: &mut Vec<String>) -> Option<HttpConfig> {
        let Ok(listen) = self.listen.parse::<SocketAddr>() else {
            problems.push(format!("[http]: listen = \"{}\" is no address: write 127.0.0.1:9184", self.listen));
            return None;
        };
        let token = match self.token.map(|token| Token::new(&token)).transpose() {
            Ok(token) => token,
            Err(why) => {
                problems.push(format!("[http]: token: {why}"));
                return None;
            }
        };
        if !listen.ip().is_loopback() && token.is_none() {
            problems.push(format!(
                "[http]: listen = \"{listen}\" is open to other machines: add token = \"${{file:PATH}}\", or listen on \
                 127.0.0.1"
            ));
            return None;
        }
        Some(HttpConfig { listen, token })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConnectSection {
    url: String,
    name: String,
    username: Option<String>,
    password: Option<String>,
}

impl ConnectSection {
    pub(super) fn check(self, problems: &mut Vec<String>) -> Option<ConnectClient> {
        let login = match (self.username, self.password) {
            (None, None) => None,
            (Some(username), Some(password)) => Some((username, password)),
            _ => {
                problems.push("[connect]: write username and password, or neither".to_owned());
                return None;
            }
        };
        ConnectClient::new(&self.url, &self.name, login).map_err(|why| problems.push(format!("[connect]: {why}"))).ok()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReconcileSection {
    /// The file in which `reconcile --continuous` writes down what it has found.
    pub(super) state: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn with(section: &str) -> Result<Config, String> {
        let table =
            "[[table]]\nname = \"a\"\ntopic = \"a\"\nlocation = \"a\"\nkey = [\"id\"]\ncolumns = { id = \"long\" }";
        Config::parse(&format!("{section}\n{table}")).map_err(|problems| problems.to_string())
    }

    #[test]
    fn nothing_listens_unless_told_and_beyond_loopback_only_with_a_token() {
        assert!(with("").unwrap().http.is_none());
        let listen = |section: &str| with(section).unwrap().http.unwrap().listen.to_string();
        assert_eq!(listen("[http]"), "127.0.0.1:9184");
        assert_eq!(listen("[http]\nlisten = \"[::1]:0\""), "[::1]:0");
        assert_eq!(listen("[http]\nlisten = \"0.0.0.0:80\"\ntoken = \"s3cret\""), "0.0.0.0:80");
        assert!(!format!("{:?}", with("[http]\ntoken = \"s3cret\"")).contains("s3cret"));
        for (section, problem) in [
            ("listen = \"0.0.0.0:80\"", "[http]: listen = \"0.0.0.0:80\" is open to other machines"),
            ("listen = \"[::]:80\"", "[http]: listen = \"[::]:80\" is open to other machines"),
            ("listen = \"localhost\"", "[http]: listen = \"localhost\" is no address"),
            ("token = \" \"", "[http]: token: it is empty"),
            ("port = 80", "[http]: unknown field `port`"),
        ] {
            let problems = with(&format!("[http]\n{section}")).unwrap_err();
            assert!(problems.starts_with(problem), "{problems}");
        }
    }

    #[test]
    fn a_connector_has_an_address_and_a_name() {
        assert!(with("[connect]\nurl = \"http://localhost:8083\"\nname = \"shop\"").unwrap().connect.is_some());
        for (section, problem) in [
            ("url = \"http://localhost:8083\"", "[connect]: missing field `name`"),
            ("url = \"localhost\"\nname = \"shop\"", "[connect]: url is no address"),
            (
                "url = \"http://localhost\"\nname = \"shop\"\nusername = \"me\"",
                "[connect]: write username and password",
            ),
        ] {
            let problems = with(&format!("[connect]\n{section}")).unwrap_err();
            assert!(problems.starts_with(problem), "{problems}");
        }
    }
}
