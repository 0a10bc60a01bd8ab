//! Asks a running process for its [`Status`].

use std::time::Duration;

use reqwest::{StatusCode, header::AUTHORIZATION};

use crate::{Status, Token};

/// How long a process may take to answer; it does so from memory.
const ANSWER: Duration = Duration::from_secs(3);

/// The status of the process at `url`.
///
/// # Errors
/// A sentence with the url and why there is none.
pub async fn fetch(url: &str, token: Option<&Token>) -> Result<Status, String> {
    let url = format!("{}/status", url.trim_end_matches('/'));
    let client = reqwest::Client::builder().timeout(ANSWER).build().map_err(|error| error.to_string())?;
    let mut request = client.get(&url);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token.header());
    }
    let answer = request.send().await.map_err(|error| {
        let why = if error.is_timeout() { "not in time" } else { "nobody listens there" };
        format!("{url}: no answer ({why})")
    })?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => return Err(format!("{url}: the token of [http] is not the one of that process")),
        other => return Err(format!("{url}: it answers {other}")),
    }
    let text = answer.text().await.map_err(|_| format!("{url}: the answer broke off"))?;
    serde_json::from_str(&text).map_err(|_| format!("{url}: the answer is no status of Highwater"))
}
