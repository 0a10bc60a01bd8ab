//! An envelope's `source` block.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Lsn, Problem,
    order::{Place, Sequence},
};

/// The source block's part in the order; `None` where the block is null.
pub(super) fn place(source: &str) -> Result<Option<Place>, Problem> {
    #[derive(Deserialize)]
    struct Source<'a> {
        #[serde(borrow, default)]
        lsn: Option<&'a RawValue>,
        #[serde(borrow, default)]
        sequence: Option<&'a RawValue>,
        #[serde(borrow, default)]
        snapshot: Option<&'a RawValue>,
        #[serde(borrow, default)]
        ts_ms: Option<&'a RawValue>,
    }
    let source: Option<Source<'_>> =
        serde_json::from_str(source).map_err(|_| Problem::NotAnEnvelope("its source block is not an object"))?;
    let Some(source) = source else { return Ok(None) };
    let lsn = source.lsn.map(|token| lsn(token.get())).transpose()?.flatten();
    let sequence = source.sequence.map(|token| sequence(token.get())).transpose()?.flatten();
    let incremental = source.snapshot.is_some_and(|token| token.get() == "\"incremental\"");
    let at = source.ts_ms.and_then(|token| token.get().parse().ok());
    Ok(Some(Place { lsn, sequence, incremental, at }))
}

/// An LSN as a JSON number, a JSON string, or null.
pub(super) fn lsn(token: &str) -> Result<Option<Lsn>, Problem> {
    let unquoted = token.strip_prefix('"').and_then(|t| t.strip_suffix('"')).unwrap_or(token);
    match unquoted {
        "null" => Ok(None),
        text => text.parse().map(Some).map_err(|_| Problem::BadLsn("lsn")),
    }
}

/// `source.sequence`: a JSON array of two strings or nulls, itself written as a JSON string.
pub(super) fn sequence(token: &str) -> Result<Option<Sequence>, Problem> {
    const BAD: Problem = Problem::BadLsn("sequence");
    if token == "null" {
        return Ok(None);
    }
    // a string of an array of strings of digits: the only characters to unescape are the inner quotes
    let array = token.trim_matches('"').strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or(BAD)?;
    let (committed, current) = array.split_once(',').ok_or(BAD)?;
    let number = |text: &str| {
        let text = text.trim().trim_start_matches(['\\', '"']).trim_end_matches(['\\', '"']);
        lsn(text).map_err(|_| BAD)
    };
    Ok(Some((number(committed)?, number(current)?)))
}
