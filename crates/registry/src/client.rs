//! [`Client`]: the calls of a schema registry's REST interface that reading needs, with each answer's remedy.
//!
//! The interface is Confluent's, which Apicurio, Karapace, Redpanda and others speak too. A registry's own word that it
//! does not know a thing is a value here and not an error.

use std::{
    error::Error,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use pipeline::Fault;
use reqwest::{
    StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue},
};
use serde::Deserialize;

use crate::{Login, RegistrySettings};

/// A registry in another part of the world answers in well under a second.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Of one answer. The schema of a table of 1,600 columns takes less than one.
const BYTES_MAX: usize = 16 << 20;

/// A schema as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Registered {
    /// Its id, where the answer names it.
    pub id: Option<u32>,
    /// Its version within its subject, where the answer names it.
    pub version: Option<u32>,
    /// Its text.
    pub schema: String,
    /// `AVRO`, `JSON` or `PROTOBUF`.
    #[serde(rename = "schemaType", default = "avro")]
    pub kind: String,
    /// The schemas that it names.
    #[serde(default)]
    pub references: Vec<Reference>,
}

fn avro() -> String {
    "AVRO".to_owned()
}

/// A schema that another one names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct Reference {
    /// The name that stands in the other schema.
    pub name: String,
    /// The subject under which it is registered.
    pub subject: String,
    /// Its version there.
    pub version: u32,
}

/// A client of one schema registry.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    urls: Vec<Url>,
    /// The address that answered last.
    last: AtomicUsize,
}

impl Client {
    /// A client; nothing is asked yet.
    ///
    /// # Errors
    /// A halt that names the setting that cannot be used.
    pub fn new(settings: &RegistrySettings) -> Result<Self, Fault> {
        let urls = settings.url.split(',').map(|url| address(url.trim())).collect::<Result<_, _>>()?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.schemaregistry.v1+json, application/json"));
        let login = match &settings.login {
            Login::Open => None,
            Login::Basic { username, password } => {
                Some(format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))))
            }
            Login::Token(token) => Some(format!("Bearer {token}")),
        };
        if let Some(login) = login {
            let mut login = HeaderValue::try_from(login)
                .map_err(|_| Fault::halt("[schema_registry]: the token has characters that no token has"))?;
            login.set_sensitive(true);
            headers.insert(AUTHORIZATION, login);
        }
        let http = reqwest::Client::builder()
            .default_headers(headers)
            .connect_timeout(CONNECT_WITHIN)
            .timeout(ANSWER_WITHIN)
            .build()
            .map_err(|e| Fault::halt(format!("no HTTP client for the schema registry: {}", cause(&e))))?;
        Ok(Self { http, urls, last: AtomicUsize::new(0) })
    }

    /// The schema of this id; `None` where the registry does not know it.
    ///
    /// # Errors
    /// A fault to retry where the registry does not answer, a halt where it does not let in or is none.
    pub async fn schema(&self, id: u32) -> Result<Option<Registered>, Fault> {
        self.get(&["schemas", "ids", &id.to_string()]).await
    }

    /// A version of a subject; `None` where the registry does not know it.
    ///
    /// # Errors
    /// As [`Self::schema`].
    pub async fn version(&self, subject: &str, version: u32) -> Result<Option<Registered>, Fault> {
        self.get(&["subjects", subject, "versions", &version.to_string()]).await
    }

    /// The latest version of a subject; `None` where the registry does not know it. Converters register a topic's values
    /// under `TOPIC-value` and its keys under `TOPIC-key`, unless they are told otherwise.
    ///
    /// # Errors
    /// As [`Self::schema`].
    pub async fn latest(&self, subject: &str) -> Result<Option<Registered>, Fault> {
        self.get(&["subjects", subject, "versions", "latest"]).await
    }

    /// Asks the address that answered last, and the others where it does not.
    async fn get(&self, path: &[&str]) -> Result<Option<Registered>, Fault> {
        let first = self.last.load(Ordering::Relaxed);
        let mut fault = None;
        for index in (first..first + self.urls.len()).map(|index| index % self.urls.len()) {
            match self.get_from(&self.urls[index], path).await {
                Err(found) if found.remedy == pipeline::Remedy::Retry => fault = Some(found),
                answer => {
                    self.last.store(index, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        Err(fault.unwrap_or_else(|| Fault::halt("[schema_registry]: url names no address")))
    }

    async fn get_from(&self, base: &Url, path: &[&str]) -> Result<Option<Registered>, Fault> {
        let mut url = base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        let away = |e: reqwest::Error| Fault::retry(format!("schema registry {base}: {}", cause(&e)));
        let mut answer = self.http.get(url).send().await.map_err(away)?;
        let status = answer.status();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(away)? {
            if body.len() + chunk.len() > BYTES_MAX {
                return Err(Fault::halt(format!("schema registry {base}: an answer has more than {BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        read(base, status, &body)
    }
}

/// One address of the registry.
fn address(text: &str) -> Result<Url, Fault> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url =
        url.ok_or_else(|| Fault::halt("[schema_registry]: url is no address: write http://... or https://..."))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::halt("[schema_registry]: url holds a login: write username and password beside it"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(Fault::halt("[schema_registry]: url goes on after its path: leave out what begins with ? or #"));
    }
    Ok(url)
}

/// What an answer means.
fn read(base: &Url, status: StatusCode, body: &[u8]) -> Result<Option<Registered>, Fault> {
    /// What a registry says of a failure. Its 404 for a page that it has not got is a plain 404 here, too.
    #[derive(Deserialize)]
    struct Refusal {
        error_code: u32,
    }
    const NO_REGISTRY: &str = "[schema_registry] url has to be the base of the interface; for Apicurio it ends with \
                               /apis/ccompat/v7";
    match status {
        StatusCode::OK => serde_json::from_slice(body).map(Some).map_err(|_| {
            Fault::halt(format!("schema registry {base}: its answer is none of a registry: {NO_REGISTRY}"))
        }),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Fault::halt(format!(
            "schema registry {base}: it does not let in (HTTP {}): check username and password, or token, in \
             [schema_registry], and that they may read subjects and schemas",
            status.as_u16()
        ))),
        StatusCode::NOT_FOUND => match serde_json::from_slice::<Refusal>(body) {
            Ok(Refusal { error_code: 40400..=40499 }) => Ok(None),
            _ => Err(Fault::halt(format!("schema registry {base}: it has no such page (HTTP 404): {NO_REGISTRY}"))),
        },
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => Err(busy(base, status)),
        status if status.is_server_error() => Err(busy(base, status)),
        status => Err(Fault::halt(format!("schema registry {base}: HTTP {}: {NO_REGISTRY}", status.as_u16()))),
    }
}

fn busy(base: &Url, status: StatusCode) -> Fault {
    Fault::retry(format!("schema registry {base}: HTTP {}", status.as_u16()))
}

/// What is at the bottom of it: the error itself says little more than that there was one.
fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
