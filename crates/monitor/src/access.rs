//! [`Token`]: who may look.

use axum::http::{HeaderMap, header::AUTHORIZATION};
use base64::{Engine as _, engine::general_purpose::STANDARD};

/// What a request has to bring along, as a bearer token or as the password of basic authentication.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A token.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, &'static str> {
        let text = text.trim();
        match text {
            "" => Err("it is empty"),
            _ if text.chars().any(|c| c.is_ascii_control() || !c.is_ascii() || c == ':') => {
                Err("it has characters other than letters, digits and signs of ASCII, or a colon")
            }
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// Whether a request brings it along.
    pub(crate) fn is_in(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return false };
        match given.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => self.equals(token.trim().as_bytes()),
            Some((scheme, login)) if scheme.eq_ignore_ascii_case("basic") => {
                let login = STANDARD.decode(login.trim()).unwrap_or_default();
                let colon = login.iter().position(|byte| *byte == b':');
                colon.is_some_and(|colon| self.equals(&login[colon + 1..]))
            }
            _ => false,
        }
    }

    /// The header that brings it along.
    #[must_use]
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Compares all bytes whatever the first ones are, so that the time does not tell how many were right.
    fn equals(&self, given: &[u8]) -> bool {
        let ours = self.0.as_bytes();
        let differing = ours.iter().zip(given).fold(0, |differing, (a, b)| differing | (a ^ b));
        ours.len() == given.len() && differing == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_as_a_bearer_or_as_a_password_and_is_never_shown() {
        let token = Token::new("s3cret\n").unwrap();
        assert_eq!(format!("{token:?}"), "***");
        let with = |value: String| token.is_in(&HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]));
        let basic = |login: &str| with(format!("Basic {}", STANDARD.encode(login)));
        assert!(with(token.header()) && with("bearer  s3cret".into()) && basic("me:s3cret") && basic(":s3cret"));
        for wrong in ["Bearer s3cre", "Bearer s3cretx", "Bearer", "s3cret", "Basic czNjcmV0", "Digest s3cret", ""] {
            assert!(!with(wrong.into()), "{wrong}");
        }
        assert!(!basic("s3cret:") && !token.is_in(&HeaderMap::new()));
        assert!(Token::new(" ").is_err() && Token::new("a\tb").is_err() && Token::new("a:b").is_err());
    }
}
