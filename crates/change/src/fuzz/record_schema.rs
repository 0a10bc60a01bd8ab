//! Any record schema and row, through the decoder of a table that grows.

use super::{story::Story, tables::GROWING};

/// Each line of `input` is a record schema and the row after the change, with a tab between them.
///
/// # Panics
/// Where the decoder breaks a promise.
pub fn record_schema(input: &[u8]) {
    let tell = || {
        let mut story = Story::of(&GROWING);
        for line in input.split(|&byte| byte == b'\n') {
            let mut parts = line.splitn(2, |&byte| byte == b'\t');
            let (schema, row) = (parts.next().unwrap_or_default(), parts.next().unwrap_or(br#"{"id":1}"#));
            let [begin, middle] = [br#"{"schema":"#.as_slice(), br#","payload":{"op":"u","after":"#];
            let value = [begin, schema, middle, row, br#","source":{"lsn":8}}}"#].concat();
            story.read(Some(br#"{"id":1}"#), Some(&value));
        }
        story.end()
    };
    assert!(tell() == tell(), "the same records became something else the second time");
}
