//! [`Registry`]: the schemas of a registry, each fetched and prepared once.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    pin::Pin,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use change::{Malformed, Problem};
use pipeline::{Fault, Reading, Schemas};

use crate::{Client, client::Registered, prepared::Prepared};

/// A schema that was registered a moment ago is not known to every member of a registry at once.
const UNKNOWN_TRIES: u32 = 3;
const UNKNOWN_PAUSE: Duration = Duration::from_millis(500);
/// After that long it is worth asking for it again, as where a registry was restored meanwhile.
const UNKNOWN_FOR: Duration = Duration::from_mins(1);
/// Of one schema, and of those that these name.
const REFERENCES_MAX: usize = 100;

/// Reads what was written under schemas of a registry.
#[derive(Debug)]
pub struct Registry {
    client: Client,
    known: RwLock<HashMap<u32, Known>>,
}

#[derive(Debug, Clone)]
enum Known {
    Prepared(Arc<Prepared>),
    /// It cannot be used, and never will: a schema does not change.
    Unfit(Arc<str>),
    /// The registry did not know it.
    Absent(Instant),
}

impl Registry {
    /// The schemas that `client` fetches.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, known: RwLock::default() }
    }

    async fn find(&self, id: u32) -> Result<Known, Fault> {
        for attempt in 1.. {
            if let Some(registered) = self.client.schema(id).await? {
                return self.prepare(id, registered).await;
            }
            if attempt == UNKNOWN_TRIES {
                break;
            }
            tokio::time::sleep(UNKNOWN_PAUSE).await;
        }
        Ok(Known::Absent(Instant::now()))
    }

    async fn prepare(&self, id: u32, registered: Registered) -> Result<Known, Fault> {
        let prepared = match self.references(&registered).await? {
            Ok(references) => Prepared::new(&registered, &references),
            Err(why) => Err(why),
        };
        Ok(match prepared {
            Ok(prepared) => {
                tracing::debug!(id, kind = registered.kind, "schema fetched");
                Known::Prepared(Arc::new(prepared))
            }
            Err(why) => Known::Unfit(why.into()),
        })
    }

    /// The schemas that `of` names, and those that these name, by their names; each one after those that it names itself.
    async fn references(&self, of: &Registered) -> Result<Result<Vec<(String, String)>, String>, Fault> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut open: Vec<_> = of.references.iter().rev().map(|reference| (reference.clone(), None)).collect();
        while let Some((reference, fetched)) = open.pop() {
            if let Some(schema) = fetched {
                found.push((reference.name, schema));
                continue;
            }
            if !seen.insert(reference.clone()) {
                continue;
            }
            if seen.len() > REFERENCES_MAX {
                return Ok(Err(format!("it names more than {REFERENCES_MAX} others")));
            }
            let Some(registered) = self.client.version(&reference.subject, reference.version).await? else {
                let (subject, version) = (&reference.subject, reference.version);
                return Ok(Err(format!(
                    "it names version {version} of subject `{subject}`, which the registry does not know"
                )));
            };
            let inner = registered.references.iter().rev().map(|reference| (reference.clone(), None));
            open.push((reference, Some(registered.schema.clone())));
            open.extend(inner);
        }
        Ok(Ok(found))
    }
}

impl Schemas for Registry {
    fn read(&self, framed: &[u8], part: &'static str, json: &mut Vec<u8>) -> Result<Reading, Malformed> {
        let Some(([_, id @ ..], message)) = framed.split_first_chunk::<5>() else {
            return Err(Problem::Framed(part).into());
        };
        let id = u32::from_be_bytes(*id);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        let refuse = |what: String| Problem::Schema { part, id, what };
        match known {
            Some(Known::Prepared(schema)) => match schema.read(message, json) {
                Ok(()) => Ok(Reading::Json(Arc::clone(schema.record_schema()))),
                Err(broken) => {
                    let problem = refuse(format!("it is not followed: {}", broken.what));
                    Err(match broken.field {
                        Some(field) => problem.at(&field),
                        None => problem.into(),
                    })
                }
            },
            Some(Known::Unfit(why)) => Err(refuse(why.to_string()).into()),
            Some(Known::Absent(since)) if since.elapsed() < UNKNOWN_FOR => Err(refuse(absent(id)).into()),
            _ => Ok(Reading::Unknown(id)),
        }
    }

    fn fetch(&self, id: u32) -> Pin<Box<dyn Future<Output = Result<(), Fault>> + Send + '_>> {
        Box::pin(async move {
            let known = self.find(id).await?;
            self.known.write().unwrap_or_else(PoisonError::into_inner).insert(id, known);
            Ok(())
        })
    }
}

fn absent(id: u32) -> String {
    // an id of eight bytes begins with four zeros
    let hint = if id == 0 { "; for Apicurio's converter set apicurio.registry.as-confluent to true" } else { "" };
    format!("the registry does not know it{hint}")
}
