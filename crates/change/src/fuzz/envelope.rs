//! Any records, through the decoder of one table.

use super::{story::Story, tables::TABLES};

/// The first byte of `input`, a digit, picks the table. Each line after it is a record, `key TAB value`: without a tab there is no
/// key, and an empty value is a tombstone.
///
/// # Panics
/// Where the decoder breaks a promise.
pub fn envelope(input: &[u8]) {
    let Some((pick, lines)) = input.split_first() else { return };
    let tell = || {
        let mut story = Story::of(&TABLES[usize::from(pick.wrapping_sub(b'0')) % TABLES.len()]);
        for line in lines.split(|&byte| byte == b'\n') {
            let mut parts = line.splitn(2, |&byte| byte == b'\t');
            let (first, second) = (parts.next(), parts.next());
            let (key, value) = if second.is_some() { (first, second) } else { (None, first) };
            story.read(key, value.filter(|value| !value.is_empty()));
        }
        story.end()
    };
    assert!(tell() == tell(), "the same records became something else the second time");
}
