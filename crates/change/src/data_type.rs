//! [`DataType`]: what a column holds in the replica.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::datatypes::{DataType as ArrowType, Field, TimeUnit};

use crate::SchemaError;

/// A column's type in the replica, by its name in the Delta protocol ("Primitive Types"). What Delta has no type for is
/// a `string` there, in one form of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataType {
    /// `boolean`
    Boolean,
    /// `short`: 16 bits
    Short,
    /// `int` (`integer` in the protocol): 32 bits
    Int,
    /// `long`: 64 bits
    Long,
    /// `float`: IEEE 754, 32 bits
    Float,
    /// `double`: IEEE 754, 64 bits
    Double,
    /// `decimal(p,s)`: p digits, s of them after the point; 1 <= p <= 38, 0 <= s <= p
    Decimal {
        /// All digits.
        precision: u8,
        /// The digits after the point.
        scale: u8,
    },
    /// `string`: UTF-8
    String,
    /// `binary`
    Binary,
    /// `date`: days of the proleptic Gregorian calendar
    Date,
    /// `timestamp`: an instant, to the microsecond
    Timestamp,
    /// `timestamp_ntz`: a wall-clock time without a zone, to the microsecond
    TimestampNtz,
    /// A number in digits, for a `numeric` that no decimal holds; as a `string`, the digits after the point as the source
    /// sends them
    Numeric {
        /// How many those are, where the source's own type fixes it; negative: zeros before the point.
        scale: Option<i16>,
    },
    /// A time of day, 00:00:00.000000 to 24:00:00.000000, as a `string` of that form
    Time,
    /// A span of time in ISO 8601, as a `string`
    Interval,
    /// A JSON document, as a `string` that holds its text
    Json,
    /// An `hstore`, as a `string` that holds a JSON object
    Hstore,
    /// `array` of values of one type, nulls among them
    Array(Box<DataType>),
}

/// The greatest precision and scale that a `numeric` can be declared with in PostgreSQL.
const PRECISION_MAX: i16 = 1000;

impl DataType {
    /// The Arrow type that holds it.
    #[must_use]
    pub fn arrow(&self) -> ArrowType {
        match self {
            Self::Boolean => ArrowType::Boolean,
            Self::Short => ArrowType::Int16,
            Self::Int => ArrowType::Int32,
            Self::Long => ArrowType::Int64,
            Self::Float => ArrowType::Float32,
            Self::Double => ArrowType::Float64,
            Self::Decimal { precision, scale } => ArrowType::Decimal128(*precision, scale.cast_signed()),
            Self::String | Self::Numeric { .. } | Self::Time | Self::Interval | Self::Json | Self::Hstore => {
                ArrowType::Utf8
            }
            Self::Binary => ArrowType::Binary,
            Self::Date => ArrowType::Date32,
            Self::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::TimestampNtz => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            Self::Array(element) => ArrowType::List(Arc::new(element.arrow_element())),
        }
    }

    /// The digits after the point, where the type fixes them.
    pub(crate) fn scale(&self) -> Option<i32> {
        match self {
            Self::Decimal { scale, .. } => Some((*scale).into()),
            Self::Numeric { scale } => scale.map(i32::from),
            _ => None,
        }
    }

    /// The Arrow field of an array's elements of this type, named as Delta does.
    pub(crate) fn arrow_element(&self) -> Field {
        Field::new("element", self.arrow(), true)
    }

    /// The Delta type that this Arrow type holds, if it is one of ours.
    #[must_use]
    pub fn of_arrow(arrow: &ArrowType) -> Option<Self> {
        let decimal = |precision: u8, scale: i8| Some(Self::Decimal { precision, scale: u8::try_from(scale).ok()? });
        let plain = [
            Self::Boolean,
            Self::Short,
            Self::Int,
            Self::Long,
            Self::Float,
            Self::Double,
            Self::String,
            Self::Binary,
            Self::Date,
            Self::Timestamp,
            Self::TimestampNtz,
        ];
        match arrow {
            ArrowType::Decimal128(precision, scale) => decimal(*precision, *scale),
            ArrowType::List(element) => Some(Self::Array(Box::new(Self::of_arrow(element.data_type())?))),
            other => plain.into_iter().find(|plain| plain.arrow() == *other),
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal { precision, scale } => return write!(f, "decimal({precision},{scale})"),
            Self::String => "string",
            Self::Binary => "binary",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::TimestampNtz => "timestamp_ntz",
            Self::Numeric { scale: None } => "numeric",
            Self::Numeric { scale: Some(scale) } => return write!(f, "numeric({PRECISION_MAX},{scale})"),
            Self::Time => "time",
            Self::Interval => "interval",
            Self::Json => "json",
            Self::Hstore => "hstore",
            Self::Array(element) => return write!(f, "array<{element}>"),
        })
    }
}

impl FromStr for DataType {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        let unknown = || SchemaError::UnknownType(text.to_owned());
        Ok(match text.trim() {
            "boolean" => Self::Boolean,
            "short" => Self::Short,
            "int" | "integer" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "string" => Self::String,
            "binary" => Self::Binary,
            "date" => Self::Date,
            "timestamp" => Self::Timestamp,
            "timestamp_ntz" => Self::TimestampNtz,
            "numeric" => Self::Numeric { scale: None },
            "time" => Self::Time,
            "interval" => Self::Interval,
            "json" => Self::Json,
            "hstore" => Self::Hstore,
            other => {
                let array = other.strip_prefix("array<").and_then(|inner| inner.strip_suffix('>'));
                if let Some(element) = array {
                    return match element.parse()? {
                        // Debezium writes the elements of a second dimension as nulls
                        Self::Array(_) => Err(unknown()),
                        element => Ok(Self::Array(Box::new(element))),
                    };
                }
                let (name, digits) = other.strip_suffix(')').and_then(|d| d.split_once('(')).ok_or_else(unknown)?;
                let (precision, scale) = digits.split_once(',').ok_or_else(unknown)?;
                let precision: i16 = precision.trim().parse().map_err(|_| unknown())?;
                let scale: i16 = scale.trim().parse().map_err(|_| unknown())?;
                match (name, u8::try_from(precision), u8::try_from(scale)) {
                    ("decimal", Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => {
                        Self::Decimal { precision, scale }
                    }
                    ("numeric", ..) if (1..=PRECISION_MAX).contains(&precision) && scale.abs() <= PRECISION_MAX => {
                        Self::Numeric { scale: Some(scale) }
                    }
                    _ => return Err(unknown()),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_read_back_as_written() {
        for name in [
            "boolean",
            "short",
            "int",
            "long",
            "float",
            "double",
            "decimal(12,2)",
            "string",
            "binary",
            "date",
            "timestamp",
            "timestamp_ntz",
            "array<decimal(12,2)>",
        ] {
            let parsed = name.parse::<DataType>().unwrap();
            assert_eq!(parsed.to_string(), name);
            assert_eq!(DataType::of_arrow(&parsed.arrow()), Some(parsed));
        }
        for name in ["numeric", "numeric(1000,-2)", "time", "interval", "json", "hstore", "array<time>"] {
            let parsed = name.parse::<DataType>().unwrap();
            assert_eq!(parsed.to_string(), name);
            assert!(matches!(parsed.arrow(), ArrowType::Utf8 | ArrowType::List(_)), "{name}");
        }
        for bad in [
            "",
            "text",
            "decimal",
            "decimal(39,0)",
            "decimal(2,3)",
            "decimal(0,0)",
            "decimal(12,-2)",
            "numeric(1001,0)",
            "numeric(2)",
            "array",
            "array<>",
            "array<array<int>>",
        ] {
            assert!(bad.parse::<DataType>().is_err(), "{bad}");
        }
    }
}
