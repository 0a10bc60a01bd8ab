//! [`Lake`]: where tables lie, and how to open one.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use deltalake_core::{DeltaTable, DeltaTableBuilder};
use object_store::{DynObjectStore, RetryConfig, aws::AmazonS3Builder, memory::InMemory};
use pipeline::Fault;
use url::Url;

use crate::durable::DurableLocal;

/// The stores behind the locations of a config. Tables in `memory://` live as long as the lake and its clones.
#[derive(Debug, Clone)]
pub struct Lake {
    memory: Arc<DynObjectStore>,
    options: HashMap<String, String>,
}

impl Default for Lake {
    fn default() -> Self {
        Self::new(HashMap::new())
    }
}

impl Lake {
    /// A lake with options for S3, by the names of `object_store`'s `AmazonS3ConfigKey` (`aws_endpoint`,
    /// `aws_region`, `aws_access_key_id`, `aws_allow_http`, ...). What is not named comes from the environment.
    #[must_use]
    pub fn new(options: HashMap<String, String>) -> Self {
        Self { memory: Arc::new(InMemory::new()), options }
    }

    /// A lake whose `memory://` is this store.
    #[cfg(test)]
    pub(crate) fn over(store: Arc<DynObjectStore>) -> Self {
        Self { memory: store, options: HashMap::new() }
    }

    /// A handle on the table at `location`, which may not exist yet.
    ///
    /// # Errors
    /// A halt where the location cannot be understood or reached.
    pub fn table(&self, location: &str) -> Result<DeltaTable, Fault> {
        let url = Self::url(location)?;
        let store: Arc<DynObjectStore> = match url.scheme() {
            "file" => Arc::new(DurableLocal::new()),
            "memory" => Arc::clone(&self.memory),
            _ => {
                register_s3()?;
                Arc::new(self.s3(&url)?)
            }
        };
        let builder = DeltaTableBuilder::from_url(url.clone()).map_err(|e| bad(location, &e))?;
        builder.with_storage_backend(store, url).build().map_err(|e| bad(location, &e))
    }

    /// The location as a URL; a path becomes an absolute `file` URL.
    ///
    /// # Errors
    /// A halt where it is neither a path nor a `file`, `s3` or `memory` URL.
    pub fn url(location: &str) -> Result<Url, Fault> {
        if location.contains("://") {
            let url = Url::parse(location).map_err(|e| bad(location, &e))?;
            return match url.scheme() {
                "file" | "s3" | "memory" => Ok(url),
                other => {
                    Err(bad(location, &format!("unknown scheme {other}; use a path, file://, s3:// or memory://")))
                }
            };
        }
        let path = std::path::absolute(Path::new(location)).map_err(|e| bad(location, &e))?;
        Url::from_directory_path(&path).map_err(|()| bad(location, &"not an absolute path"))
    }

    fn s3(&self, url: &Url) -> Result<object_store::aws::AmazonS3, Fault> {
        let option = |name: &str| self.options.get(name).map(String::as_str);
        let is_plain = option("aws_endpoint").is_some_and(|endpoint| endpoint.starts_with("http://"));
        if is_plain && option("aws_allow_http") != Some("true") {
            return Err(Fault::halt("[store]: aws_endpoint is http://, which needs aws_allow_http = \"true\""));
        }
        let mut builder = AmazonS3Builder::from_env().with_url(url.as_str());
        for (name, value) in &self.options {
            let key = name.parse().map_err(|_| Fault::halt(format!("[store]: unknown option `{name}`")))?;
            builder = builder.with_config(key, value);
        }
        builder.with_retry(retries()).build().map_err(|e| bad(url.as_str(), &e))
    }
}

/// delta-rs without its AWS crate knows no log store for `s3`; the default one serves it, with conditional puts.
fn register_s3() -> Result<(), Fault> {
    let factories = deltalake_core::logstore::logstore_factories();
    let (memory, s3) = (Url::parse("memory://").map_err(Fault::halt)?, Url::parse("s3://").map_err(Fault::halt)?);
    let default = factories.get(&memory).map(|entry| Arc::clone(entry.value()));
    if let Some(default) = default {
        factories.entry(s3).or_insert(default);
    }
    Ok(())
}

/// The pipeline tries again by itself and says so; the store's own attempts are for a hiccup of one request.
fn retries() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(30), ..RetryConfig::default() }
}

fn bad(location: &str, reason: &dyn std::fmt::Display) -> Fault {
    Fault::halt(format!("cannot use the location {location}: {reason}"))
}
