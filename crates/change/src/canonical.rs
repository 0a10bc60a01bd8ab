//! The bytes that stand for a value when its mask is made: the same ones for the same value, in whatever form the
//! connector writes it.
//!
//! They are simple enough to be made elsewhere, too: for most types they are PostgreSQL's own text of the value.

use std::borrow::Cow;

use crate::{DataType, cell::Cell, decimal, time};

/// The canonical bytes of a value of this type:
///
/// | type | bytes |
/// |---|---|
/// | `boolean` | `true` or `false` |
/// | `short`, `int`, `long` | decimal digits |
/// | `decimal(p,s)` | decimal digits, s of them after the point |
/// | `float`, `double` | the shortest digits that read back as the value, without an exponent; `NaN`, `Infinity`, `-Infinity`; 0 also for -0 |
/// | `date` | `YYYY-MM-DD` |
/// | `timestamp` | `YYYY-MM-DDTHH:MM:SS.ffffffZ` |
/// | `timestamp_ntz` | the same without the `Z` |
/// | `binary` | the bytes |
/// | `string`, and what else the replica holds as one | its UTF-8 |
///
/// `None` for an array, and for what is no value of the type.
pub(crate) fn bytes<'c>(value: &'c Cell<'_>, data_type: &DataType) -> Option<Cow<'c, [u8]>> {
    let text = match (data_type, value) {
        (DataType::Boolean, Cell::Boolean(value)) => value.to_string(),
        (DataType::Short | DataType::Int | DataType::Long, Cell::Integer(value)) => value.to_string(),
        (DataType::Decimal { scale, .. }, Cell::Decimal(unscaled)) => decimal::in_digits(*unscaled, *scale),
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked when the cell was read")]
        (DataType::Float, Cell::Real(value)) => real((*value as f32).to_string()),
        (DataType::Double, Cell::Real(value)) => real(value.to_string()),
        (DataType::Date, Cell::Integer(days)) => time::date_text(*days)?,
        (DataType::Timestamp, Cell::Integer(micros)) => time::wall_clock_text(*micros)? + "Z",
        (DataType::TimestampNtz, Cell::Integer(micros)) => time::wall_clock_text(*micros)?,
        (DataType::Binary, Cell::Binary(bytes)) => return Some(Cow::Borrowed(bytes)),
        (_, Cell::Text(text)) => return Some(Cow::Borrowed(text.as_bytes())),
        _ => return None,
    };
    Some(Cow::Owned(text.into_bytes()))
}

/// Rust's shortest digits, in PostgreSQL's words for what has none.
fn real(shortest: String) -> String {
    match shortest.as_str() {
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        "-0" => "0".to_owned(),
        _ => shortest,
    }
}
