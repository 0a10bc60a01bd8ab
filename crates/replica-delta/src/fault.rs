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
        // the commit that was faster is not listed yet
        | DeltaTableError::InvalidVersion(_)
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
    let mut message = format!("{doing}: {error}");
    let mut is_store = false;
    let mut cause = Some(error);
    while let Some(current) = cause {
        is_store |= current.is::<object_store::Error>() || current.is::<std::io::Error>();
        let text = current.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = current.source();
    }
    let message = without_partition_values(&message);
    let lower_case = message.to_lowercase();
    match refusal(&message) {
        Some(hint) => Fault::halt(format!("{message}; {hint}")),
        None if NOT_LISTED.iter().any(|sign| message.contains(sign)) => Fault::redo(message),
        None if is_store || STORE.iter().any(|sign| lower_case.contains(sign)) => Fault::retry(message),
        None => Fault::halt(message),
    }
}

/// The message without what a folder `column=value` says of a row. Values are percent-encoded there.
fn without_partition_values(message: &str) -> String {
    let mut parts = message.split('/');
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        said.push('/');
        match part.split_once('=') {
            Some((column, rest)) if !column.contains(['?', '&']) => {
                let end = rest.find(|c: char| c.is_whitespace() || ":,;\"'()".contains(c)).unwrap_or(rest.len());
                said += column;
                said += "=***";
                said += &rest[end..];
            }
            _ => said += part,
        }
    }
    said
}

/// The kernel's words for a commit that is there, but not in the store's list yet.
const NOT_LISTED: [&str; 3] =
    ["no new commits were found", "LogSegment end version", "is older than the existing snapshot version"];

/// What a store's errors say. delta-kernel and Parquet wrap them in ways that the chain of sources does not show.
const STORE: [&str; 5] = [
    "object store",
    "generic s3 error",
    "generic localfilesystem error",
    "generic durablelocal error",
    "error sending request",
];

/// What a store refuses for good, by its own words: the kinds of `object_store::Error` tell it from a passing fault
/// for single objects only, not for a list.
fn refusal(message: &str) -> Option<&'static str> {
    const CREDENTIALS: &str = "check the store's credentials and permissions";
    const FOLDER: &str = "check the folder's owner and permissions";
    const MISSING: &str =
        "no credentials were found: set aws_access_key_id and aws_secret_access_key in [store] or in the environment";
    const NAME: &str = "a value of a partition column is too long for a folder's name; partition by another column";
    const SIGNS: [(&str, &str); 11] = [
        ("NoSuchBucket", "create the bucket, or correct the location"),
        ("403 Forbidden", CREDENTIALS),
        ("401 Unauthorized", CREDENTIALS),
        ("SignatureDoesNotMatch", CREDENTIALS),
        ("InvalidAccessKeyId", CREDENTIALS),
        ("AccessDenied", CREDENTIALS),
        ("lacked the necessary privileges", CREDENTIALS),
        ("File name too long", NAME),
        ("Permission denied", FOLDER),
        ("Read-only file system", FOLDER),
        ("169.254.169.254", MISSING),
    ];
    SIGNS.iter().find(|(sign, _)| message.contains(sign)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use pipeline::Remedy;

    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str);

    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Wrapped {}

    #[test]
    fn a_message_names_the_folders_of_partitions_without_their_values() {
        let at =
            "writing: Unable to open /lake/t/The Land=a%2Fb/n=7/part-0.parquet, or GET http://s3/?prefix=t/n=8: no";
        let expected =
            "writing: Unable to open /lake/t/The Land=***/n=***/part-0.parquet, or GET http://s3/?prefix=t/n=***: no";
        assert_eq!(without_partition_values(at), expected);
    }

    #[test]
    fn an_outage_passes_and_a_refusal_halts_however_it_is_wrapped() {
        let table = [
            (
                "Kernel error: Error interacting with object store: Generic S3 error: Error performing list request",
                Remedy::Retry,
            ),
            (
                "Failed to parse parquet: External: Generic LocalFileSystem error: No space left on device",
                Remedy::Retry,
            ),
            ("Parquet error: Failed to fetch metadata: Object Store error: Generic X error: away", Remedy::Retry),
            ("Failed to parse parquet: External: The operation lacked the necessary privileges", Remedy::Halt),
            (
                "Generic S3 error: Client error with status 403 Forbidden: <Code>SignatureDoesNotMatch</Code>",
                Remedy::Halt,
            ),
            ("Generic S3 error: 404: <Code>NoSuchBucket</Code>", Remedy::Halt),
            ("Generic LocalFileSystem error: Unable to create dir: Permission denied (os error 13)", Remedy::Halt),
            (
                "Generic LocalFileSystem error: Unable to create dir part=x: File name too long (os error 36)",
                Remedy::Halt,
            ),
            ("Schema error: no field named x", Remedy::Halt),
            ("Kernel error: Requested snapshot version 1 is not available: no new commits were found", Remedy::Redo),
        ];
        for (text, remedy) in table {
            assert_eq!(by_cause("writing", &Wrapped(text)).remedy, remedy, "{text}");
        }
        let store = object_store::Error::Generic { store: "x", source: Box::new(Wrapped("gone")) };
        assert_eq!(by_cause("writing", &store).remedy, Remedy::Retry);
    }
}
