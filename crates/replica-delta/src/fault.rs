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
                _ => Fault::retry(message),
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
