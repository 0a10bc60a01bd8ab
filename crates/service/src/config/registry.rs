//! `[schema_registry]`.

use ::registry::{Login, RegistrySettings};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegistrySection {
    url: String,
    username: Option<String>,
    password: Option<String>,
    token: Option<String>,
}

impl RegistrySection {
    pub(super) fn check(self, problems: &mut Vec<String>) -> Option<RegistrySettings> {
        let login = match (self.username, self.password, self.token) {
            (None, None, None) => Login::Open,
            (Some(username), Some(password), None) => Login::Basic { username, password },
            (None, None, Some(token)) => Login::Token(token),
            _ => {
                problems.push("[schema_registry]: write username and password, or token, or none of them".to_owned());
                return None;
            }
        };
        let settings = RegistrySettings { url: self.url, login };
        match ::registry::Client::new(&settings) {
            Ok(_) => Some(settings),
            Err(fault) => {
                problems.push(fault.message);
                None
            }
        }
    }
}
