//! Delta's, DataFusion's and the store's errors, as faults with a remedy.

use std::error::Error;

use datafusion::error::DataFusionError;
use deltalake_core::{DeltaTableError, kernel::transaction::TransactionError};
use pipeline::Fault;

/// A Delta error at `doing`. Lost races are to be done again, what a store or the network did passes by itself,
/// anything else halts the table.
pub(crate) fn delta(doing: &str, error: &DeltaTableError) -> Fault {
    match error {
        DeltaTableError::VersionAlreadyExists(_)
        | DeltaTableError::Transaction {
            source: TransactionError::CommitConflict(_) | TransactionError::MaxCommitAttempts(_),
        } => Fault::redo(format!("{doing}: {error}")),
        _ => by_cause(doing, error),
    }
}

/// A DataFusion error at `doing`.
pub(crate) fn datafusion(doing: &str, error: &DataFusionError) -> Fault {
    by_cause(doing, error)
}

/// The remedy of what lies at the bottom of `error`.
fn by_cause(doing: &str, error: &(dyn Error + 'static)) -> Fault {
    let mut cause = Some(error);
    let mut message = format!("{doing}: {error}");
    while let Some(current) = cause {
        if let Some(store) = current.downcast_ref::<object_store::Error>() {
            return match store {
                object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                    Fault::halt(format!("{message}; check the store's credentials and permissions"))
                }
                _ if is_denied(store) => Fault::halt(format!("{message}; check the folder's owner and permissions")),
                _ => match refusal(&message) {
                    Some(hint) => Fault::halt(format!("{message}; {hint}")),
                    None => Fault::retry(message),
                },
            };
        }
        if current.is::<std::io::Error>() {
            return Fault::retry(message);
        }
        cause = current.source();
        if let Some(next) = cause {
            let text = next.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
        }
    }
    Fault::halt(message)
}

/// What S3 refuses for good. The store tells it from a passing fault for single objects only, not for a list, so
/// that here the answer's status has to be read in the text.
fn refusal(message: &str) -> Option<&'static str> {
    let has = |part: &str| message.contains(part);
    if has("NoSuchBucket") {
        Some("create the bucket, or correct the location")
    } else if has("403 Forbidden")
        || has("401 Unauthorized")
        || has("SignatureDoesNotMatch")
        || has("InvalidAccessKeyId")
        || has("AccessDenied")
    {
        Some("check the store's credentials and permissions")
    } else if has("169.254.169.254") {
        Some(
            "no credentials were found: set aws_access_key_id and aws_secret_access_key in [store] or in the environment",
        )
    } else {
        None
    }
}

/// The local store hides what the operating system said in its sources.
fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return matches!(io.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem);
        }
        cause = current.source();
    }
    false
}
