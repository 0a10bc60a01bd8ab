//! [`Lsn`]: the address of a change in PostgreSQL's write-ahead log.

use std::{fmt, str::FromStr};

/// A WAL address, exact over its whole range and never compared as text.
///
/// It is written `X/Y` (two hexadecimal halves, as PostgreSQL's `pg_lsn`) and read in that form, as a decimal
/// number, or as a number in a JSON string. The replica stores it as a Delta `long`, so an address above
/// 2^63 - 1 (8 EiB of WAL) is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

/// The text or number is not a WAL address that a Delta `long` can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a WAL address: expected X/Y, or a number from 0 to 2^63 - 1")]
pub struct NotAnLsn;

impl Lsn {
    /// The beginning of the WAL: below every change.
    pub const ZERO: Self = Self(0);

    /// The address as Delta stores it.
    #[must_use]
    pub fn as_long(self) -> i64 {
        self.0.cast_signed()
    }

    /// The greatest one.
    pub const MAX: Self = Self(i64::MAX.cast_unsigned());

    /// The address one byte earlier. Row changes are 8-byte aligned, so it stands below this change and above
    /// every earlier one.
    #[must_use]
    pub fn just_below(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The address one byte later: above this change and below every later one.
    #[must_use]
    pub fn just_above(self) -> Self {
        Self((self.0 + 1).min(Self::MAX.0))
    }
}

impl TryFrom<u64> for Lsn {
    type Error = NotAnLsn;

    fn try_from(address: u64) -> Result<Self, NotAnLsn> {
        i64::try_from(address).map(|_| Self(address)).map_err(|_| NotAnLsn)
    }
}

impl TryFrom<i64> for Lsn {
    type Error = NotAnLsn;

    fn try_from(address: i64) -> Result<Self, NotAnLsn> {
        u64::try_from(address).map(Self).map_err(|_| NotAnLsn)
    }
}

impl FromStr for Lsn {
    type Err = NotAnLsn;

    fn from_str(text: &str) -> Result<Self, NotAnLsn> {
        let digits = |half: &str, radix| {
            // `from_str_radix` takes a sign, a WAL address has none
            half.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u64::from_str_radix(half, radix).ok())?
        };
        let address = match text.split_once('/') {
            Some((high, low)) => {
                let (high, low) = (digits(high, 16).ok_or(NotAnLsn)?, digits(low, 16).ok_or(NotAnLsn)?);
                if high > u64::from(u32::MAX) || low > u64::from(u32::MAX) {
                    return Err(NotAnLsn);
                }
                high << 32 | low
            }
            None => digits(text, 10).ok_or(NotAnLsn)?,
        };
        Self::try_from(address)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_form_exactly_and_refuses_the_rest() {
        let table: &[(&str, Option<u64>)] = &[
            ("0/0", Some(0)),
            ("0/9A", Some(0x9A)),
            ("0/100", Some(0x100)),
            ("16/B374D848", Some(0x16_B374_D848)),
            ("9007199254740993", Some((1 << 53) + 1)),
            ("9223372036854775807", Some(i64::MAX as u64)),
            ("9223372036854775808", None),
            ("FFFFFFFF/FFFFFFFF", None),
            ("1/100000000", None),
            ("", None),
            ("/", None),
            ("-1", None),
            ("+1", None),
            ("0x10", None),
            ("1.0", None),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<Lsn>().ok().map(|l| l.0), *expected, "{text}");
        }
    }

    #[test]
    fn text_is_ordered_by_address_not_by_letters() {
        assert!("0/9A".parse::<Lsn>().unwrap() < "0/100".parse::<Lsn>().unwrap());
        assert_eq!("16/B374D848".parse::<Lsn>().unwrap().to_string(), "16/B374D848");
    }
}
