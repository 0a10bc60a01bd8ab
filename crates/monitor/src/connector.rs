//! [`ConnectClient`]: the connector, by Kafka Connect's REST API.

use std::time::Duration;

use reqwest::{StatusCode, Url};
use serde::Deserialize;

use crate::status::{Connector, Task};

/// How long a worker may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Of a task's trace only so much is shown.
const WHY_CHARS: usize = 500;

/// A worker of Kafka Connect, and the connector that is looked at.
#[derive(Debug, Clone)]
pub struct ConnectClient {
    client: reqwest::Client,
    connector: Url,
    name: String,
    login: Option<(String, Login)>,
}

#[derive(Clone)]
struct Login(String);

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// `GET /connectors/{name}/status` (Kafka's documentation, "Connect: REST API").
#[derive(Deserialize)]
struct Answer {
    connector: Part,
    #[serde(default)]
    tasks: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    id: i64,
    state: String,
    worker_id: Option<String>,
    trace: Option<String>,
}

impl ConnectClient {
    /// A client for the connector `name` at the worker `url`.
    ///
    /// # Errors
    /// What is wrong with the url.
    pub fn new(url: &str, name: &str, login: Option<(String, String)>) -> Result<Self, String> {
        let mut connector: Url = url.parse().map_err(|error| format!("url is no address: {error}"))?;
        if !matches!(connector.scheme(), "http" | "https") {
            return Err("url is no address of http or https".to_owned());
        }
        if !connector.username().is_empty() || connector.password().is_some() {
            return Err("url holds a login; write username and password".to_owned());
        }
        let mut path = connector.path_segments_mut().map_err(|()| "url is no address")?;
        path.pop_if_empty().extend(["connectors", name]);
        drop(path);
        let client = reqwest::Client::builder().timeout(ANSWER).build().map_err(|error| error.to_string())?;
        let login = login.map(|(username, password)| (username, Login(password)));
        Ok(Self { client, connector, name: name.to_owned(), login })
    }

    /// The connector now. What cannot be asked stands in its `error`.
    pub async fn now(&self) -> Connector {
        let mut found =
            self.ask().await.unwrap_or_else(|error| Connector { error: Some(error), ..Connector::default() });
        found.name.clone_from(&self.name);
        found.restart = format!("curl -X POST '{}/restart?includeTasks=true&onlyFailed=true'", self.connector.as_str());
        found
    }

    async fn ask(&self) -> Result<Connector, String> {
        let mut request = self.client.get(format!("{}/status", self.connector));
        if let Some((username, Login(password))) = &self.login {
            request = request.basic_auth(username, Some(password));
        }
        let answer = request.send().await.map_err(|error| words(&error))?;
        let status = answer.status();
        if status == StatusCode::NOT_FOUND {
            return Ok(Connector { state: Some("MISSING".to_owned()), ..Connector::default() });
        }
        if !status.is_success() {
            return Err(format!("the worker answers {status}"));
        }
        let text = answer.text().await.map_err(|error| words(&error))?;
        let answer: Answer =
            serde_json::from_str(&text).map_err(|_| "the worker's answer is no connector's status".to_owned())?;
        let task = |part: Part| Task {
            id: part.id,
            state: part.state,
            worker: part.worker_id,
            why: part.trace.as_deref().map(why),
        };
        Ok(Connector {
            state: Some(answer.connector.state),
            worker: answer.connector.worker_id,
            tasks: answer.tasks.into_iter().map(task).collect(),
            ..Connector::default()
        })
    }
}

/// What a trace begins with, and its innermost cause.
fn why(trace: &str) -> String {
    let first = trace.lines().next().unwrap_or_default().trim();
    let cause = trace.lines().rev().find_map(|line| line.strip_prefix("Caused by: "));
    let text = cause.map_or_else(|| first.to_owned(), |cause| format!("{first}; {}", cause.trim()));
    text.chars().take(WHY_CHARS).collect()
}

/// An error and its causes, without the address, which the reader knows.
fn words(error: &reqwest::Error) -> String {
    let mut text = if error.is_timeout() { "no answer in time" } else { "no answer" }.to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_worker_and_holds_no_login() {
        let client = ConnectClient::new("http://localhost:8083/", "a b/c", None).unwrap();
        assert_eq!(client.connector.as_str(), "http://localhost:8083/connectors/a%20b%2Fc");
        for bad in ["localhost:8083", "ftp://localhost", "http://me:SECRET@localhost", ""] {
            let problem = ConnectClient::new(bad, "shop", None).unwrap_err();
            assert!(problem.starts_with("url ") && !problem.contains("SECRET"), "{problem}");
        }
        let login = Some(("me".to_owned(), "SECRET".to_owned()));
        assert!(!format!("{:?}", ConnectClient::new("http://localhost", "shop", login)).contains("SECRET"));
    }

    #[test]
    fn of_a_trace_its_beginning_and_its_cause_are_shown() {
        let trace =
            "org.E: it failed.\n\tat a\nCaused by: b.F: first\n\tat c\nCaused by: d.G: the slot is lost\n\tat e\n";
        assert_eq!(why(trace), "org.E: it failed.; d.G: the slot is lost");
        assert_eq!(why(""), "");
        assert_eq!(why(&"x".repeat(1000)).len(), WHY_CHARS);
    }
}
