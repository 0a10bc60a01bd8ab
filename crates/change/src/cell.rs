//! [`Cell`]: one exact value of a row, on its way from JSON into an Arrow builder.

use std::{borrow::Cow, fmt};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    Column, DataType, Malformed, Placeholder, Problem, Unfit, decimal, numeric, time,
    wire::{self, Wire},
};

/// A decoded value; text without JSON escapes is borrowed from the record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    /// The row image does not have the column.
    Missing,
    Null,
    /// A TOASTed value that the source did not send.
    Unchanged,
    Boolean(bool),
    /// A short, int or long, a date in days, or a time in microseconds.
    Integer(i64),
    Real(f64),
    Decimal(i128),
    Text(Cow<'a, str>),
    Binary(Vec<u8>),
    Array(Vec<Cell<'a>>),
    /// What the column's type cannot hold, as the connector wrote it.
    Unfit(Cow<'a, str>),
}

impl Cell<'_> {
    /// The bytes that the value takes in a batch, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Unfit(text) => text.len() + 4,
            Self::Binary(bytes) => bytes.len() + 4,
            Self::Decimal(_) => 16,
            Self::Array(cells) => cells.iter().map(Self::bytes).sum::<usize>() + 8,
            _ => 8,
        }
    }
}

/// Reads one value. serde's own errors would quote it, so the reason goes to `fault`.
pub(crate) struct CellSeed<'s> {
    pub(crate) column: &'s Column,
    /// The column's type in the source, or that of its elements.
    pub(crate) data_type: &'s DataType,
    pub(crate) wire: Option<Wire>,
    /// The form that the column's last value was seen to have, where none is known.
    pub(crate) seen: &'s std::cell::Cell<Option<Wire>>,
    /// `None` in an array, of which an element is always a value.
    pub(crate) placeholder: Option<&'s Placeholder>,
    pub(crate) unfit: Unfit,
    /// How many zeros the row's numbers may still be written out with.
    pub(crate) zeros: &'s std::cell::Cell<usize>,
    pub(crate) fault: &'s mut Option<Malformed>,
}

impl CellSeed<'_> {
    fn refuse<E: Error>(self, problem: Problem) -> E {
        *self.fault = Some(problem.at_column(self.column));
        E::custom("refused")
    }

    /// `token` is what was read, for a column that keeps what does not fit it.
    fn accept<'a, E: Error>(
        self,
        value: Result<Cell<'a>, Problem>,
        token: impl FnOnce() -> Cow<'a, str>,
    ) -> Result<Cell<'a>, E> {
        match value {
            Err(Problem::Unfit(_)) if self.unfit != Unfit::Refuse => Ok(Cell::Unfit(token())),
            value => value.map_err(|problem| self.refuse(problem)),
        }
    }

    fn mismatch<E: Error>(self, found: &'static str) -> E {
        let expected = match self.data_type {
            DataType::Boolean => "a boolean",
            DataType::Short => "an integer of 16 bits",
            DataType::Int => "an integer of 32 bits",
            DataType::Long => "an integer of 64 bits",
            DataType::Float | DataType::Double => "a number",
            DataType::Decimal { .. } => "a decimal",
            DataType::Numeric { .. } => "a number in digits",
            DataType::String | DataType::Json | DataType::Hstore => "a string",
            DataType::Binary => "a string of encoded bytes",
            DataType::Date => "a date",
            DataType::Time => "a time of day",
            DataType::Timestamp | DataType::TimestampNtz => "a time",
            DataType::Interval => "an interval in ISO 8601",
            DataType::Array(_) => "an array",
        };
        self.refuse(Problem::Type { expected, found })
    }

    fn is_placeholder(&self, test: impl FnOnce(&Placeholder) -> bool) -> bool {
        self.placeholder.is_some_and(test)
    }
}

impl<'de> DeserializeSeed<'de> for CellSeed<'_> {
    type Value = Cell<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Cell<'de>, D::Error> {
        // A decimal's digits are read from the token itself: a number would lose them in a double.
        match self.data_type {
            DataType::Decimal { precision, scale } => {
                let token = <&RawValue>::deserialize(json)?.get();
                let value = decimal::from_json(token, *precision, *scale, self.wire, self.seen);
                self.accept(value.map(|v| v.map_or(Cell::Null, Cell::Decimal)), || token.trim_matches('"').into())
            }
            DataType::Numeric { scale } => {
                let token = <&RawValue>::deserialize(json)?.get();
                let value = numeric::from_json(token, *scale, self.wire, self.zeros);
                self.accept(value.map(|v| v.map_or(Cell::Null, Cell::Text)), || token.trim_matches('"').into())
            }
            DataType::Json | DataType::Hstore => {
                let token = <&RawValue>::deserialize(json)?.get();
                self.document(token)
            }
            _ => json.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for CellSeed<'_> {
    type Value = Cell<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.data_type)
    }

    fn visit_unit<E: Error>(self) -> Result<Cell<'de>, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Cell<'de>, E> {
        match self.data_type {
            DataType::Boolean => Ok(Cell::Boolean(value)),
            _ => Err(self.mismatch("a boolean")),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Cell<'de>, E> {
        const WIDE: &str = "does not fit the column's bits";
        const APPROXIMATE: Problem =
            Problem::Value("counts a month as 30.4375 days; set interval.handling.mode to string");
        let cell = match self.data_type {
            DataType::Short => i16::try_from(value).map(|_| Cell::Integer(value)).map_err(|_| Problem::Value(WIDE)),
            DataType::Int => i32::try_from(value).map(|_| Cell::Integer(value)).map_err(|_| Problem::Value(WIDE)),
            DataType::Long => Ok(Cell::Integer(value)),
            DataType::Float => {
                exact_real(value, 1 << 24, "is an integer above 2^24, which a float cannot hold exactly")
            }
            DataType::Double => {
                exact_real(value, 1 << 53, "is an integer above 2^53, which a double cannot hold exactly")
            }
            DataType::Date => time::days(value, self.wire).map(Cell::Integer),
            DataType::Time => time::of_day(value, self.wire).map(|text| Cell::Text(text.into())),
            DataType::Timestamp => time::micros(value, self.wire, None).map(Cell::Integer),
            DataType::TimestampNtz => time::micros(value, self.wire, Some(Wire::Micros)).map(Cell::Integer),
            DataType::Interval => Err(APPROXIMATE),
            _ => return Err(self.mismatch("a number")),
        };
        self.accept(cell, || value.to_string().into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Cell<'de>, E> {
        match i64::try_from(value) {
            Ok(value) => self.visit_i64(value),
            Err(_) => self.visit_f64(f64::INFINITY),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Cell<'de>, E> {
        #[expect(clippy::cast_possible_truncation, reason = "the range is checked right there")]
        let fits_float = |value: f64| (value as f32).is_finite();
        match self.data_type {
            DataType::Double if value.is_finite() => Ok(Cell::Real(value)),
            DataType::Float if fits_float(value) => Ok(Cell::Real(value)),
            DataType::Float | DataType::Double => Err(self.refuse(Problem::Value("is beyond the column's range"))),
            _ => Err(self.mismatch("a number that is no integer of 64 bits")),
        }
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cell<'de>, E> {
        self.text(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cell<'de>, E> {
        self.text(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Cell<'de>, E> {
        self.text(Cow::Owned(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Cell<'de>, A::Error> {
        Err(self.mismatch("an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Cell<'de>, A::Error> {
        let DataType::Array(element) = self.data_type else { return Err(self.mismatch("an array")) };
        let Self { column, wire, seen, placeholder, zeros, fault, .. } = self;
        let mut cells = Vec::new();
        while let Some(cell) = array.next_element_seed(CellSeed {
            column,
            data_type: element,
            wire,
            seen,
            placeholder: None,
            unfit: Unfit::Refuse,
            zeros,
            fault: &mut *fault,
        })? {
            cells.push(cell);
        }
        let left_out = placeholder.is_some_and(|placeholder| match cells.as_slice() {
            [Cell::Text(text)] => placeholder.is_text(text),
            integers => placeholder.is_integers(integers.iter().map(|cell| match cell {
                Cell::Integer(integer) => Some(*integer),
                _ => None,
            })),
        });
        Ok(if left_out { Cell::Unchanged } else { Cell::Array(cells) })
    }
}

impl CellSeed<'_> {
    fn text<E: Error>(self, text: Cow<'_, str>) -> Result<Cell<'_>, E> {
        let cell = match self.data_type {
            DataType::String if self.is_placeholder(|placeholder| placeholder.is_text(&text)) => Ok(Cell::Unchanged),
            DataType::String => return Ok(Cell::Text(text)),
            DataType::Binary => match bytes(&text, self.wire) {
                Ok(bytes) if self.is_placeholder(|placeholder| placeholder.is_bytes(&bytes)) => Ok(Cell::Unchanged),
                bytes => bytes.map(Cell::Binary),
            },
            DataType::Float | DataType::Double => match text.as_ref() {
                "NaN" => Ok(Cell::Real(f64::NAN)),
                "Infinity" => Ok(Cell::Real(f64::INFINITY)),
                "-Infinity" => Ok(Cell::Real(f64::NEG_INFINITY)),
                _ => return Err(self.mismatch("a string")),
            },
            DataType::Date => time::date(&text).map(Cell::Integer),
            DataType::Time => time::of_day_text(&text).map(|text| Cell::Text(text.into())),
            DataType::Timestamp => time::instant(&text).map(Cell::Integer),
            DataType::TimestampNtz => time::wall_clock(&text).map(Cell::Integer),
            DataType::Interval if text.starts_with('P') => {
                return time::interval(text).map(Cell::Text).map_err(|problem| self.refuse(problem));
            }
            _ => return Err(self.mismatch("a string")),
        };
        self.accept(cell, || text)
    }

    /// A JSON document: the content of a string, or whatever else stands there, as it is.
    fn document<E: Error>(self, token: &str) -> Result<Cell<'_>, E> {
        let text = match token.as_bytes() {
            b"null" => return Ok(Cell::Null),
            [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Cow::Borrowed(&token[1..token.len() - 1]),
            [b'"', ..] => match serde_json::from_str(token) {
                Ok(text) => Cow::Owned(text),
                Err(_) => return Err(self.mismatch("a string with half a character")),
            },
            _ => Cow::Borrowed(token),
        };
        let left_out = self.is_placeholder(|placeholder| match self.data_type {
            DataType::Hstore => placeholder.is_object(&text),
            _ => placeholder.is_text(&text),
        });
        Ok(if left_out { Cell::Unchanged } else { Cell::Text(text) })
    }
}

fn bytes(text: &str, wire: Option<Wire>) -> Result<Vec<u8>, Problem> {
    let (bytes, expected) = match wire {
        Some(Wire::Hex) => (wire::from_hex(text), "a string of hexadecimal digits"),
        Some(Wire::Base64Url) => (URL_SAFE.decode(text).ok(), "a string in base64 for URLs"),
        _ => (STANDARD.decode(text).ok(), "a string in base64"),
    };
    bytes.ok_or(Problem::Type { expected, found: "another string" })
}

/// An integer as a real, up to the greatest that this one holds exactly.
fn exact_real(value: i64, max: u64, beyond: &'static str) -> Result<Cell<'static>, Problem> {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, and `max` is no more")]
    let real = value as f64;
    if value.unsigned_abs() <= max { Ok(Cell::Real(real)) } else { Err(Problem::Value(beyond)) }
}
