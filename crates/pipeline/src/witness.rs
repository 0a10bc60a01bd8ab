//! [`Witness`]: by what a record is known again.

use change::RecordRef;

use crate::mix::mix;

/// So many bytes at a value's end count. An envelope ends in times to the nanosecond, and hashing whole values would
/// cost a tenth of the decoding.
const TAIL: usize = 64;

/// A hash of a record's timestamp, its key, and the length and the end of its value.
///
/// Kafka's client does not say which topic of a name it reads. A topic that was re-created, or is another cluster's,
/// has another record at an offset, so the record before a position tells whether the topic is still the same one.
/// The hash is stored, so it must not change: FNV-1a over 64-bit words (Fowler, Noll, Vo), finished as `SplitMix64` does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Witness(i64);

impl Witness {
    /// Nothing is known of the record.
    pub const UNKNOWN: Self = Self(0);

    /// The witness of a record.
    #[must_use]
    pub fn of(record: &RecordRef<'_>) -> Self {
        let mut hash = Hash::default();
        hash.word(record.timestamp.map_or(u64::MAX, i64::cast_unsigned));
        hash.bytes(record.key);
        hash.bytes(record.value);
        Self(hash.finish())
    }

    /// The number that it is stored as; 0 where it is unknown.
    #[must_use]
    pub fn as_long(self) -> i64 {
        self.0
    }

    /// From a stored number.
    #[must_use]
    pub fn from_long(long: i64) -> Self {
        Self(long)
    }

    /// Whether it can be compared.
    #[must_use]
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}

/// A number from 1 to 2^63 - 1 for a name; the same one everywhere and always.
#[must_use]
pub fn number_of(name: &[u8]) -> i64 {
    let mut hash = Hash::default();
    for word in name.chunks(8) {
        hash.word(word_of(word));
    }
    hash.finish()
}

struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hash {
    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    }

    /// The length and the end of what is there; nothing differs from nothing at all.
    fn bytes(&mut self, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes else { return self.word(u64::MAX) };
        self.word(bytes.len() as u64);
        for word in bytes[bytes.len().saturating_sub(TAIL)..].chunks(8) {
            self.word(word_of(word));
        }
    }

    fn finish(self) -> i64 {
        (mix(self.0) >> 1).max(1).cast_signed()
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stable_and_differs_with_every_part_of_a_record() {
        let long = [b'x'; 500];
        let record =
            |timestamp, key, value| RecordRef { partition: 0, offset: 0, key, value, timestamp, old_key: None };
        let longer = [long.as_slice(), b"y"].concat();
        let records = [
            record(Some(1), Some(b"k".as_slice()), Some(long.as_slice())),
            record(Some(2), Some(b"k"), Some(&long)),
            record(None, Some(b"k"), Some(&long)),
            record(Some(1), Some(b"l"), Some(&long)),
            record(Some(1), None, Some(&long)),
            record(Some(1), Some(b"k"), Some(&long[1..])),
            record(Some(1), Some(b"k"), Some(&longer)),
            record(Some(1), Some(b"k"), Some(b"")),
            record(Some(1), Some(b"k"), None),
        ];
        let witnesses: std::collections::BTreeSet<_> = records.iter().map(Witness::of).collect();
        assert_eq!(witnesses.len(), records.len());
        assert!(witnesses.iter().all(|witness| witness.is_known() && witness.as_long() > 0));
        assert_eq!(Witness::of(&records[0]), Witness::of(&RecordRef { partition: 3, offset: 9, ..records[0] }));
        // it is stored: another value would halt every table
        assert_eq!(Witness::of(&records[0]).as_long(), 2_413_769_026_991_727_523);
    }
}
