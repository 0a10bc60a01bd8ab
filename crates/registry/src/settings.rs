//! [`RegistrySettings`]: where the schema registry is, and how to be let in.

use std::fmt;

/// Where the schema registry is. Neither password nor token is ever printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrySettings {
    /// The base of its REST interface: one address, or several of one registry with commas between them. For Apicurio it
    /// ends with `/apis/ccompat/v7`.
    pub url: String,
    /// How it lets in.
    pub login: Login,
}

/// How the registry lets in whoever asks.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Login {
    /// Everybody.
    #[default]
    Open,
    /// By HTTP basic authentication.
    Basic {
        /// The user's name, or an API key.
        username: String,
        /// The password, or the key's secret.
        password: String,
    },
    /// By a bearer token.
    Token(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("Open"),
            Self::Basic { username, .. } => {
                f.debug_struct("Basic").field("username", username).field("password", &"***").finish()
            }
            Self::Token(_) => f.debug_tuple("Token").field(&"***").finish(),
        }
    }
}
