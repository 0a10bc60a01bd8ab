//! Numbers in digits, for a `numeric` that no Delta decimal holds: every form that keeps all of them, as one text.

use std::{borrow::Cow, cell::Cell};

use base64::{Engine, engine::general_purpose::STANDARD};
use num_bigint::BigInt;

use crate::{
    Problem,
    decimal::{self, VariableScale},
    wire::Wire,
};

const TEXT: &str = "a number in digits";
const LOSSY: Problem =
    Problem::Value("a JSON number, which has lost digits; set decimal.handling.mode to precise or string");
const TOO_LONG: Problem = Problem::Value("would have more zeros than the numbers of one row may have: 16 MiB");
const NO_SCALE: Problem = Problem::Value(
    "could be digits or base64 without a scale; declare the column as numeric@text or numeric(p,s)@base64, by the \
     connector's decimal.handling.mode",
);
/// The digits that a `numeric` may have after the point in PostgreSQL, and a few more than before it.
const SCALES: std::ops::RangeInclusive<i32> = -131_072..=16_383;
/// A few more bytes than all of those digits take.
const BYTES_MAX: usize = 61_440;
/// The zeros that the numbers of one row may be written out with. Thirty characters of an envelope can stand for 131,072
/// of them, and an array can repeat that.
pub(crate) const ZEROS_A_ROW: usize = 16 << 20;

/// The digits of a JSON token; `None` is a JSON null. `zeros` are those that the row may still have written out.
///
/// # Errors
/// A [`Problem`] where the token is no number, or may have lost digits.
pub(crate) fn from_json<'a>(
    token: &'a str,
    scale: Option<i16>,
    wire: Option<Wire>,
    zeros: &Cell<usize>,
) -> Result<Option<Cow<'a, str>>, Problem> {
    let digits = match token.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b'"') => {
            // neither digits nor base64 hold anything that JSON would escape
            let text = token.trim_matches('"');
            match (wire, scale) {
                (Some(Wire::Scaled(written)), _) => Cow::Owned(from_base64(text, written, zeros)?),
                (Some(Wire::Base64), Some(scale)) => Cow::Owned(from_base64(text, scale.into(), zeros)?),
                (Some(_), _) => from_text(text)?,
                // digits with a point or a sign are no base64, and base64 with a letter is no digits
                (None, _) if text.contains(['.', '-']) || !text.len().is_multiple_of(4) => from_text(text)?,
                (None, Some(scale)) if !decimal::is_number(text) => Cow::Owned(from_base64(text, scale.into(), zeros)?),
                (None, _) => return Err(NO_SCALE),
            }
        }
        Some(b'{') => {
            let shape = Problem::Type { expected: TEXT, found: "an object without scale and value" };
            let number: VariableScale<'_> = serde_json::from_str(token).map_err(|_| shape)?;
            Cow::Owned(from_base64(number.value, number.scale, zeros)?)
        }
        Some(b'0'..=b'9' | b'-') => return Err(LOSSY),
        Some(b't' | b'f') => return Err(Problem::Type { expected: TEXT, found: "a boolean" }),
        _ => return Err(Problem::Type { expected: TEXT, found: "an array" }),
    };
    Ok(Some(digits))
}

fn from_base64(text: &str, scale: i32, zeros: &Cell<usize>) -> Result<String, Problem> {
    let shape = Problem::Type { expected: "a number in base64", found: "another string" };
    let bytes = STANDARD.decode(text).map_err(|_| shape.clone())?;
    if bytes.is_empty() {
        return Err(shape);
    }
    if !SCALES.contains(&scale) {
        return Err(Problem::Value("has a scale that no numeric has"));
    }
    if bytes.len() > BYTES_MAX {
        return Err(Problem::Value("has more digits than any numeric"));
    }
    let unscaled = BigInt::from_signed_bytes_be(&bytes);
    let mut digits = unscaled.magnitude().to_string();
    let point = usize::try_from(scale.unsigned_abs()).unwrap_or_default();
    let (before, after) = match scale.signum() {
        -1 if digits != "0" => (0, point),
        1 => ((point + 1).saturating_sub(digits.len()), 0),
        _ => (0, 0),
    };
    zeros.set(zeros.get().checked_sub(before + after).ok_or(TOO_LONG)?);
    digits.insert_str(0, &"0".repeat(before));
    digits.extend(std::iter::repeat_n('0', after));
    if scale > 0 {
        digits.insert(digits.len() - point, '.');
    }
    let sign = if unscaled.sign() == num_bigint::Sign::Minus { "-" } else { "" };
    Ok(format!("{sign}{digits}"))
}

/// `[-]digits[.digits]`, or one of the values that are no number.
fn from_text(text: &str) -> Result<Cow<'_, str>, Problem> {
    let special = match text {
        "NaN" | "NAN" => Some("NaN"),
        "Infinity" | "POSITIVE_INFINITY" => Some("Infinity"),
        "-Infinity" | "NEGATIVE_INFINITY" => Some("-Infinity"),
        _ => None,
    };
    if let Some(special) = special {
        return Ok(Cow::Borrowed(special));
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if is_digits(whole) && is_digits(fraction) {
        Ok(Cow::Borrowed(text))
    } else {
        Err(Problem::Type { expected: TEXT, found: "another string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_keeps_every_digit() {
        let table: &[(&str, Option<i16>, Option<Wire>, &str)] = &[
            (r#"{"scale":5,"value":"BMsv"}"#, None, None, "3.14159"),
            (r#"{"scale": 20, "value": "AQ=="}"#, None, None, "0.00000000000000000001"),
            (
                r#"{"scale": 9, "value": "XODppWAV/sWq36MorjmBFQ=="}"#,
                None,
                None,
                "123456789012345678901234567890.123456789",
            ),
            (r#"{"scale": 0, "value": "DJ8snNBGdO3qQAAAAA=="}"#, None, None, "1000000000000000000000000000000"),
            (r#"{"scale":-2,"value":"Aw=="}"#, None, None, "300"),
            (r#"{"scale":1,"value":"8Q=="}"#, None, None, "-1.5"),
            (r#"{"scale":3,"value":"/w=="}"#, None, None, "-0.001"),
            (r#"{"scale":-3,"value":"AA=="}"#, None, None, "0"),
            (r#""BNI=""#, Some(2), Some(Wire::Base64), "12.34"),
            (r#""BNI=""#, Some(-2), None, "123400"),
            (r#""BNI=""#, Some(2), Some(Wire::Scaled(3)), "1.234"),
            (r#""1234""#, None, Some(Wire::Scaled(0)), "-2658824"),
            (r#""1.500""#, None, None, "1.500"),
            (r#""-0.10""#, None, Some(Wire::Text), "-0.10"),
            (r#""1234""#, None, Some(Wire::Text), "1234"),
            (r#""12345""#, None, None, "12345"),
            (r#""NAN""#, None, Some(Wire::Text), "NaN"),
            (r#""NEGATIVE_INFINITY""#, None, Some(Wire::Text), "-Infinity"),
        ];
        let zeros = Cell::new(ZEROS_A_ROW);
        for (token, scale, wire, expected) in table {
            assert_eq!(from_json(token, *scale, *wire, &zeros).unwrap().as_deref(), Some(*expected), "{token}");
        }
        assert_eq!(from_json("null", None, None, &zeros), Ok(None));
    }

    #[test]
    fn what_lost_digits_or_is_none_is_refused() {
        let zeros = Cell::new(ZEROS_A_ROW);
        for token in [
            "1.2345678901234568E29",
            "7",
            "true",
            "[1]",
            r#""""#,
            r#"".5""#,
            r#""1.""#,
            r#""1e5""#,
            r#""12 ""#,
            r#""1234""#,
            r#""BNI=""#,
            r#"{"value":"BMsv"}"#,
            r#"{"scale":5,"value":""}"#,
            r#"{"scale":2147483647,"value":"BMsv"}"#,
            r#"{"scale":-2147483648,"value":"BMsv"}"#,
        ] {
            assert!(from_json(token, None, None, &zeros).is_err(), "{token}");
        }
    }

    #[test]
    fn digits_and_an_infinity_are_never_taken_for_base64() {
        for token in [r#""1234""#, r#""1E+3""#, r#""12e4""#, r#""Infinity""#] {
            assert_eq!(from_json(token, Some(2), None, &Cell::new(ZEROS_A_ROW)), Err(NO_SCALE), "{token}");
        }
    }

    #[test]
    fn a_row_of_numbers_takes_no_more_memory_than_a_row_may() {
        let zeros = Cell::new(ZEROS_A_ROW);
        let greatest = r#"{"scale":-131072,"value":"AQ=="}"#;
        for _ in 0..ZEROS_A_ROW / 131_072 {
            let digits = from_json(greatest, None, None, &zeros).unwrap().unwrap();
            assert_eq!(digits.len(), 131_073);
        }
        assert_eq!(from_json(greatest, None, None, &zeros), Err(TOO_LONG));
        assert!(from_json(r#"{"scale":2,"value":"BNI="}"#, None, None, &zeros).is_ok(), "no zeros");
        let beyond = format!(r#"{{"scale":0,"value":"{}"}}"#, "AQID".repeat(BYTES_MAX / 3 + 1));
        assert!(from_json(&beyond, None, None, &zeros).is_err());
    }
}
