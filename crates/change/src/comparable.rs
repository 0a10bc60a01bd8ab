//! [`Comparable`]: the text by which a value of the replica is compared with the source's, and [`row_text`], the one of a
//! whole row.
//!
//! PostgreSQL writes the same texts in SQL (`source-postgres/comparable.rs`). Equal values have one text, and different
//! ones have different texts.

use std::{borrow::Cow, fmt::Write as _, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, Float32Array, Float64Array, StringArray},
    compute::cast,
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    },
    error::ArrowError,
};
use serde_json::Value;

use crate::{DataType, decimal, time, wire};

/// How values of a column become text:
///
/// | type | text |
/// |---|---|
/// | `boolean` | `true` or `false` |
/// | `short`, `int`, `long` | decimal digits |
/// | `float`, `double` | the bits in hexadecimal, the most significant first; `NaN` |
/// | `decimal(p,s)`, `numeric` | decimal digits, without zeros at the end of a fraction; `NaN`, `Infinity`, `-Infinity` |
/// | `date` | `YYYY-MM-DD` |
/// | `timestamp` | `YYYY-MM-DD HH:MM:SS[.ffffff]+00`, without zeros at the end of the fraction |
/// | `timestamp_ntz` | the same without `+00` |
/// | `binary` | hexadecimal digits |
/// | `hstore` | its pairs by the order of the keys' bytes, each as the row text of key and value |
/// | `array<T>` | the row text of its elements |
/// | a point, in a `json` | the bits of x, then those of y |
/// | `string`, `json`, `time`, `interval` | what the replica holds |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparable {
    data_type: DataType,
    is_point: bool,
}

impl Comparable {
    /// Of a column of this type.
    #[must_use]
    pub fn new(data_type: DataType) -> Self {
        Self { data_type, is_point: false }
    }

    /// Of a column that holds PostgreSQL's points as the connector writes them: as documents with x and y.
    #[must_use]
    pub fn point() -> Self {
        Self { data_type: DataType::Json, is_point: true }
    }

    /// The type of the column.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The text of a value; `None` for null. The array is of [`DataType::arrow`].
    #[must_use]
    pub fn text<'a>(&self, values: &'a dyn Array, row: usize) -> Option<Cow<'a, str>> {
        if values.is_null(row) {
            return None;
        }
        let text = match &self.data_type {
            DataType::Boolean => values.as_boolean().value(row).to_string(),
            DataType::Short => values.as_primitive::<Int16Type>().value(row).to_string(),
            DataType::Int => values.as_primitive::<Int32Type>().value(row).to_string(),
            DataType::Long => values.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Float => bits32(values.as_primitive::<Float32Type>().value(row)),
            DataType::Double => bits64(values.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal { scale, .. } => {
                let digits = decimal::in_digits(values.as_primitive::<Decimal128Type>().value(row), *scale);
                trimmed(&digits).to_owned()
            }
            DataType::Numeric { .. } => return Some(Cow::Borrowed(trimmed(values.as_string::<i32>().value(row)))),
            // what no date of ours can be has no text of ours, and so is like nothing in the source
            DataType::Date => {
                let days = values.as_primitive::<Date32Type>().value(row);
                time::date_text(days.into()).unwrap_or_else(|| format!("{days} days"))
            }
            DataType::Timestamp => moment(values, row) + "+00",
            DataType::TimestampNtz => moment(values, row),
            DataType::Binary => wire::to_hex(values.as_binary::<i32>().value(row)),
            DataType::Hstore => return Some(pairs(values.as_string::<i32>().value(row))),
            DataType::Array(element) => {
                let (elements, element) = (values.as_list::<i32>().value(row), Self::new((**element).clone()));
                row_text((0..elements.len()).map(|at| element.text(&elements, at)))
            }
            DataType::Json if self.is_point => return Some(point(values.as_string::<i32>().value(row))),
            DataType::String | DataType::Json | DataType::Time | DataType::Interval => {
                return Some(Cow::Borrowed(values.as_string::<i32>().value(row)));
            }
        };
        Some(Cow::Owned(text))
    }

    /// The values that have these texts, as an array of [`DataType::arrow`].
    ///
    /// # Errors
    /// Arrow's, where a text is none of the type.
    pub fn values(&self, texts: &[Option<&str>]) -> Result<ArrayRef, ArrowError> {
        let unfit = || ArrowError::CastError(format!("a text that is no {}", self.data_type));
        let bits = |text: &str| if text == "NaN" { None } else { u64::from_str_radix(text, 16).ok() };
        Ok(match &self.data_type {
            DataType::Float => {
                let value = |text| bits(text).and_then(|b| u32::try_from(b).ok()).map_or(f32::NAN, f32::from_bits);
                Arc::new(texts.iter().map(|text| text.map(value)).collect::<Float32Array>())
            }
            DataType::Double => {
                let value = |text| bits(text).map_or(f64::NAN, f64::from_bits);
                Arc::new(texts.iter().map(|text| text.map(value)).collect::<Float64Array>())
            }
            DataType::Binary => {
                let bytes =
                    texts.iter().map(|text| text.map(|text| wire::from_hex(text).ok_or_else(unfit)).transpose());
                Arc::new(bytes.collect::<Result<BinaryArray, _>>()?)
            }
            DataType::Timestamp => {
                let clocks = texts.iter().map(|text| text.map(|text| text.trim_end_matches("+00")));
                let clocks = cast(&clocks.collect::<StringArray>(), &DataType::TimestampNtz.arrow())?;
                Arc::new(clocks.as_primitive::<TimestampMicrosecondType>().clone().with_timezone("UTC"))
            }
            other => cast(&texts.iter().copied().collect::<StringArray>(), &other.arrow())?,
        })
    }

    /// The text of a value that can be in a key, as the JSON token that the value is read from ([`SourceRow`](crate::SourceRow)).
    #[must_use]
    pub fn token(&self, text: &str) -> String {
        match self.data_type {
            DataType::Boolean | DataType::Short | DataType::Int | DataType::Long => text.to_owned(),
            DataType::Float | DataType::Double => {
                let literal = self.literal(text);
                let is_number = literal.starts_with(|first: char| first.is_ascii_digit() || first == '-')
                    && literal.ends_with(|last: char| last.is_ascii_digit());
                match literal.as_ref() {
                    number if is_number => number.to_owned(),
                    "inf" => "\"Infinity\"".to_owned(),
                    "-inf" => "\"-Infinity\"".to_owned(),
                    _ => "\"NaN\"".to_owned(),
                }
            }
            _ => Value::from(text).to_string(),
        }
    }

    /// The text in the form that PostgreSQL reads as a value of the column's type there.
    #[must_use]
    pub fn literal<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let bits = || u64::from_str_radix(text, 16).ok();
        match self.data_type {
            DataType::Float => {
                let value = bits().and_then(|bits| u32::try_from(bits).ok()).map(f32::from_bits);
                value.map_or(Cow::Borrowed(text), |value| Cow::Owned(format!("{value:e}")))
            }
            DataType::Double => {
                bits().map(f64::from_bits).map_or(Cow::Borrowed(text), |value| Cow::Owned(format!("{value:e}")))
            }
            DataType::Binary => Cow::Owned(format!("\\x{text}")),
            _ => Cow::Borrowed(text),
        }
    }
}

/// What stands for the rows of a range on either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// How many they are.
    pub rows: u64,
    /// The sum of the first 64 bits of each row's MD5, as numbers with a sign: it does not depend on their order.
    pub sum: i128,
    /// The MD5, in hexadecimal, of their MD5s in hexadecimal, one after the other in the key's order.
    pub ordered: String,
}

/// Bytes in hexadecimal, as PostgreSQL writes them.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    wire::to_hex(bytes)
}

/// The text of a row: its values as PostgreSQL's `quote_nullable` writes them, with commas in between.
#[must_use]
pub fn row_text<'a>(values: impl IntoIterator<Item = Option<Cow<'a, str>>>) -> String {
    let mut row = String::new();
    for (place, value) in values.into_iter().enumerate() {
        if place > 0 {
            row.push(',');
        }
        push_quoted(&mut row, value.as_deref());
    }
    row
}

/// Adds a value as `quote_nullable` writes it.
pub fn push_quoted(row: &mut String, value: Option<&str>) {
    let Some(value) = value else { return row.push_str("NULL") };
    if !value.contains(['\'', '\\']) {
        row.push('\'');
        row.push_str(value);
        return row.push('\'');
    }
    if value.contains('\\') {
        row.push('E');
    }
    row.push('\'');
    for part in value.split_inclusive(['\'', '\\']) {
        row.push_str(part);
        row.extend(part.chars().next_back().filter(|last| matches!(last, '\'' | '\\')));
    }
    row.push('\'');
}

fn bits32(value: f32) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{:08x}", value.to_bits()) }
}

fn bits64(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{:016x}", value.to_bits()) }
}

/// Digits without zeros at the end of the fraction.
fn trimmed(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

fn moment(values: &dyn Array, row: usize) -> String {
    let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
    let Some(text) = time::wall_clock_text(micros) else { return format!("{micros} microseconds") };
    trimmed(&text).replacen('T', " ", 1)
}

/// An hstore's pairs; a document that is none stands for itself.
fn pairs(document: &str) -> Cow<'_, str> {
    let Ok(Value::Object(pairs)) = serde_json::from_str(document) else { return Cow::Borrowed(document) };
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    let parts = pairs.into_iter().flat_map(|(key, value)| {
        let value = match value {
            Value::Null => None,
            Value::String(text) => Some(Cow::Owned(text)),
            other => Some(Cow::Owned(other.to_string())),
        };
        [Some(Cow::Owned(key)), value]
    });
    Cow::Owned(row_text(parts))
}

/// The bits of a point's coordinates; a document that has none stands for itself.
fn point(document: &str) -> Cow<'_, str> {
    let coordinates: Option<(f64, f64)> = serde_json::from_str::<Value>(document).ok().and_then(|document| {
        let coordinate = |name: &str| match &document[name] {
            Value::String(text) => text.parse().ok(),
            number => number.as_f64(),
        };
        Some((coordinate("x")?, coordinate("y")?))
    });
    let Some((x, y)) = coordinates else { return Cow::Borrowed(document) };
    let mut text = bits64(x);
    _ = write!(text, "{}", bits64(y));
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, ListArray, TimestampMicrosecondArray};

    use super::*;

    fn text(declared: &str, values: &dyn Array) -> String {
        Comparable::new(declared.parse().unwrap()).text(values, 0).unwrap().into_owned()
    }

    #[test]
    fn a_value_has_the_text_that_postgresql_writes() {
        let decimals = |unscaled| Decimal128Array::from(vec![unscaled]).with_precision_and_scale(12, 2).unwrap();
        assert_eq!(text("decimal(12,2)", &decimals(150)), "1.5");
        assert_eq!(text("decimal(12,2)", &decimals(-100)), "-1");
        assert_eq!(text("decimal(12,2)", &decimals(0)), "0");
        assert_eq!(text("numeric", &StringArray::from(vec!["100"])), "100");
        assert_eq!(text("numeric", &StringArray::from(vec!["0.00010"])), "0.0001");
        assert_eq!(text("double", &Float64Array::from(vec![-0.0])), "8000000000000000");
        assert_eq!(text("float", &Float32Array::from(vec![f32::NAN])), "NaN");
        let moment = TimestampMicrosecondArray::from(vec![1_709_210_096_789_000]);
        assert_eq!(text("timestamp", &moment), "2024-02-29 12:34:56.789+00");
        assert_eq!(
            text("timestamp_ntz", &TimestampMicrosecondArray::from(vec![-62_135_596_800_000_000])),
            "0001-01-01 00:00:00"
        );
        assert_eq!(text("hstore", &StringArray::from(vec![r#"{"b":null,"a'":"x"}"#])), "'a''','x','b',NULL");
        let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None, Some(-2)])]);
        assert_eq!(text("array<int>", &list), "'1',NULL,'-2'");
        let document = StringArray::from(vec![r#"{"x":1.5,"y":-0.0,"wkb":"AQ==","srid":null}"#]);
        assert_eq!(Comparable::point().text(&document, 0).unwrap(), "3ff80000000000008000000000000000");
    }

    #[test]
    fn rows_of_different_values_have_different_texts() {
        let row = |values: &[Option<&'static str>]| row_text(values.iter().map(|value| value.map(Cow::Borrowed)));
        assert_eq!(row(&[Some("a"), None, Some("NULL")]), "'a',NULL,'NULL'");
        assert_eq!(row(&[Some("it's"), Some(r"C:\'")]), r"'it''s',E'C:\\'''");
        assert_ne!(row(&[Some("a"), Some("b")]), row(&[Some("a','b")]));
        assert_eq!(row(&[Some("")]), "''");
    }

    #[test]
    fn texts_become_values_again() {
        for (declared, texts) in [
            ("boolean", ["true", "false"]),
            ("short", ["-32768", "7"]),
            ("long", ["9223372036854775807", "0"]),
            ("float", ["7f800000", "NaN"]),
            ("double", ["8000000000000000", "0000000000000001"]),
            ("decimal(38,10)", ["-1.5", "1234567890123456789012345678"]),
            ("numeric", ["1.5", "NaN"]),
            ("date", ["0001-01-01", "9999-12-31"]),
            ("timestamp", ["2024-02-29 12:34:56.789012+00", "0001-01-01 00:00:00+00"]),
            ("timestamp_ntz", ["1969-12-31 23:59:59.999999", "2024-02-29 00:00:00"]),
            ("binary", ["00ff", ""]),
            ("string", ["it's", ""]),
        ] {
            let column = Comparable::new(declared.parse().unwrap());
            let values = column.values(&[Some(texts[0]), Some(texts[1]), None]).unwrap();
            assert_eq!(values.data_type(), &column.data_type().arrow());
            let back: Vec<_> = (0..3).map(|row| column.text(&values, row).map(Cow::into_owned)).collect();
            assert_eq!(back, [Some(texts[0].to_owned()), Some(texts[1].to_owned()), None], "{declared}");
        }
        assert!(Comparable::new(DataType::Binary).values(&[Some("0")]).is_err());
    }

    #[test]
    fn postgresql_reads_what_a_key_is_looked_up_by() {
        let literal = |declared: &str, text| Comparable::new(declared.parse().unwrap()).literal(text).into_owned();
        assert_eq!(literal("double", "3ff8000000000000"), "1.5e0");
        assert_eq!(literal("double", "NaN"), "NaN");
        assert_eq!(literal("float", "7f800000"), "inf");
        assert_eq!(literal("binary", "00ff"), "\\x00ff");
        assert_eq!(literal("string", "00ff"), "00ff");
    }
}
