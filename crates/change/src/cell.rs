//! [`Cell`]: one exact value of a row, on its way from JSON into an Arrow builder.

use std::{borrow::Cow, fmt};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{Column, DataType, Malformed, Problem, decimal, time, wire::Wire};

/// What Debezium writes in place of a TOASTed value that an update did not send (`unavailable.value.placeholder`).
pub const UNCHANGED: &str = "__debezium_unavailable_value";
/// The same in a binary column.
pub const UNCHANGED_BASE64: &str = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==";

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
}

impl Cell<'_> {
    /// The bytes that the value takes in a batch, about.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 4,
            Self::Binary(bytes) => bytes.len() + 4,
            Self::Decimal(_) => 16,
            _ => 8,
        }
    }
}

/// Reads one value of `column`. serde's own errors would quote the value, so the reason goes to `fault`.
pub(crate) struct CellSeed<'s> {
    pub(crate) column: &'s Column,
    pub(crate) wire: Option<Wire>,
    /// The form that the column's last value was seen to have, where none is known.
    pub(crate) seen: &'s std::cell::Cell<Option<Wire>>,
    pub(crate) fault: &'s mut Option<Malformed>,
}

impl CellSeed<'_> {
    fn refuse<E: Error>(self, problem: Problem) -> E {
        *self.fault = Some(problem.at(&self.column.name));
        E::custom("refused")
    }

    fn accept<E: Error>(self, value: Result<Cell<'_>, Problem>) -> Result<Cell<'_>, E> {
        value.map_err(|problem| self.refuse(problem))
    }

    fn mismatch<E: Error>(self, found: &'static str) -> E {
        let expected = match self.column.data_type {
            DataType::Boolean => "a boolean",
            DataType::Short => "an integer of 16 bits",
            DataType::Int => "an integer of 32 bits",
            DataType::Long => "an integer of 64 bits",
            DataType::Float | DataType::Double => "a number",
            DataType::Decimal { .. } => "a decimal",
            DataType::String => "a string",
            DataType::Binary => "a string in base64",
            DataType::Date => "a date",
            DataType::Timestamp | DataType::TimestampNtz => "a time",
        };
        self.refuse(Problem::Type { expected, found })
    }
}

impl<'de> DeserializeSeed<'de> for CellSeed<'_> {
    type Value = Cell<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Cell<'de>, D::Error> {
        // A decimal's digits are read from the token itself: a number would lose them in a double.
        if let DataType::Decimal { precision, scale } = self.column.data_type {
            let token = <&RawValue>::deserialize(json)?.get();
            let value = decimal::from_json(token, precision, scale, self.wire, self.seen);
            return self.accept(value.map(|v| v.map_or(Cell::Null, Cell::Decimal)));
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for CellSeed<'_> {
    type Value = Cell<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.column.data_type)
    }

    fn visit_unit<E: Error>(self) -> Result<Cell<'de>, E> {
        Ok(Cell::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Cell<'de>, E> {
        match self.column.data_type {
            DataType::Boolean => Ok(Cell::Boolean(value)),
            _ => Err(self.mismatch("a boolean")),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Cell<'de>, E> {
        const WIDE: &str = "does not fit the column's bits";
        let cell = match self.column.data_type {
            DataType::Short => i16::try_from(value).map(|_| Cell::Integer(value)).map_err(|_| Problem::Value(WIDE)),
            DataType::Int => i32::try_from(value).map(|_| Cell::Integer(value)).map_err(|_| Problem::Value(WIDE)),
            DataType::Long => Ok(Cell::Integer(value)),
            DataType::Float | DataType::Double => exact_real(value),
            DataType::Date => time::days(value, self.wire).map(Cell::Integer),
            DataType::Timestamp => time::micros(value, self.wire, None).map(Cell::Integer),
            DataType::TimestampNtz => time::micros(value, self.wire, Some(Wire::Micros)).map(Cell::Integer),
            _ => return Err(self.mismatch("a number")),
        };
        self.accept(cell)
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
        match self.column.data_type {
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

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, _: A) -> Result<Cell<'de>, A::Error> {
        Err(self.mismatch("an array"))
    }
}

impl CellSeed<'_> {
    fn text<E: Error>(self, text: Cow<'_, str>) -> Result<Cell<'_>, E> {
        let cell = match self.column.data_type {
            DataType::String if text == UNCHANGED => Ok(Cell::Unchanged),
            DataType::String => return Ok(Cell::Text(text)),
            DataType::Binary if text == UNCHANGED_BASE64 => Ok(Cell::Unchanged),
            DataType::Binary => match STANDARD.decode(text.as_bytes()) {
                Ok(bytes) => Ok(Cell::Binary(bytes)),
                Err(_) => Err(Problem::Type { expected: "a string in base64", found: "another string" }),
            },
            DataType::Float | DataType::Double => match text.as_ref() {
                "NaN" => Ok(Cell::Real(f64::NAN)),
                "Infinity" => Ok(Cell::Real(f64::INFINITY)),
                "-Infinity" => Ok(Cell::Real(f64::NEG_INFINITY)),
                _ => return Err(self.mismatch("a string")),
            },
            DataType::Date => time::date(&text).map(Cell::Integer),
            DataType::Timestamp => time::instant(&text).map(Cell::Integer),
            DataType::TimestampNtz => time::wall_clock(&text).map(Cell::Integer),
            _ => return Err(self.mismatch("a string")),
        };
        self.accept(cell)
    }
}

/// An integer as a double, where the double holds it exactly.
fn exact_real(value: i64) -> Result<Cell<'static>, Problem> {
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, which is checked")]
    let real = value as f64;
    if value.unsigned_abs() <= 1 << 53 {
        Ok(Cell::Real(real))
    } else {
        Err(Problem::Value("is an integer above 2^53, which a double cannot hold exactly"))
    }
}
