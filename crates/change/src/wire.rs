//! [`Wire`]: how a column's values are written in an envelope.
//!
//! An envelope without a schema does not say whether `1709210096789` counts milli- or microseconds. The unit comes
//! from the table's declaration or from the envelope's own schema, and is never guessed from a magnitude.

use std::{fmt, str::FromStr};

use crate::{DataType, SchemaError};

/// The form of a column's values on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// A decimal as digits in a string (`decimal.handling.mode=string`), or a time in ISO 8601.
    Text,
    /// A decimal as base64 of its big-endian unscaled integer (`decimal.handling.mode=precise`); bytes as base64.
    Base64,
    /// Bytes as base64 with `-` and `_` (`binary.handling.mode=base64-url-safe`).
    Base64Url,
    /// Bytes as hexadecimal digits (`binary.handling.mode=hex`).
    Hex,
    /// A date as days since 1970-01-01.
    Days,
    /// A time as milliseconds since 1970-01-01, or since midnight.
    Millis,
    /// The same as microseconds.
    Micros,
    /// The same as nanoseconds.
    Nanos,
    /// A decimal as [`Self::Base64`], at a scale that is not the column's: only a record's own schema says so.
    Scaled(i32),
}

impl Wire {
    /// Whether a column of this type can be written so.
    #[must_use]
    pub fn fits(self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Decimal { .. } | DataType::Numeric { scale: Some(_) } => {
                matches!(self, Self::Text | Self::Base64 | Self::Scaled(_))
            }
            DataType::Numeric { scale: None } => matches!(self, Self::Text | Self::Scaled(_)),
            DataType::Binary => matches!(self, Self::Base64 | Self::Base64Url | Self::Hex),
            DataType::Array(element) => self.fits(element),
            DataType::Date => matches!(self, Self::Text | Self::Days),
            DataType::Timestamp | DataType::TimestampNtz | DataType::Time => {
                matches!(self, Self::Text | Self::Millis | Self::Micros | Self::Nanos)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Base64 | Self::Scaled(_) => "base64",
            Self::Base64Url => "base64url",
            Self::Hex => "hex",
            Self::Days => "days",
            Self::Millis => "millis",
            Self::Micros => "micros",
            Self::Nanos => "nanos",
        })
    }
}

impl FromStr for Wire {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        use Wire::{Base64, Base64Url, Days, Hex, Micros, Millis, Nanos, Text};
        let all = [Text, Base64, Base64Url, Hex, Days, Millis, Micros, Nanos];
        let found = all.into_iter().find(|wire| wire.to_string() == text);
        found.ok_or_else(|| SchemaError::UnknownWire(text.to_owned()))
    }
}

/// Pairs of lower-case hexadecimal digits from bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Bytes from pairs of hexadecimal digits.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs.iter().map(|[high, low]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()).collect()
}
