//! Exact decimals: text, base64 of the unscaled integer, and JSON numbers, into an unscaled `i128`.

use std::cell::Cell;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use crate::{Problem, wire::Wire};

const TEXT: &str = "a decimal in digits";
const TOO_FINE: Problem = Problem::Unfit("has more digits after the point than the column");
const TOO_WIDE: Problem = Problem::Unfit("has more digits than the column");
const AMBIGUOUS: Problem = Problem::Value(
    "could be digits or base64; declare the column as decimal(p,s)@text or decimal(p,s)@base64, \
     by the connector's decimal.handling.mode",
);
const INEXACT: Problem = Problem::Value(
    "a JSON number with a fraction is exact up to 15 digits only; set decimal.handling.mode to precise or string",
);

/// The digits that survive a trip through a double (C's `DBL_DIG`).
const DOUBLE_DIGITS: u8 = 15;

/// Debezium's VariableScaleDecimal.
#[derive(Deserialize)]
pub(crate) struct VariableScale<'a> {
    pub(crate) scale: i32,
    pub(crate) value: &'a str,
}

/// The unscaled value of a JSON token for a `decimal(precision, scale)` column; `None` is a JSON null.
///
/// `wire` is the column's form where it is known. Otherwise `seen` is the form of the last value that could be only
/// one of the two: a connector writes all values of a column alike, so it decides for those that could be both.
///
/// # Errors
/// A [`Problem`] where the token is no decimal, or does not fit the column exactly: nothing is rounded.
pub(crate) fn from_json(
    token: &str,
    precision: u8,
    scale: u8,
    wire: Option<Wire>,
    seen: &Cell<Option<Wire>>,
) -> Result<Option<i128>, Problem> {
    let unscaled = match token.as_bytes().first() {
        Some(b'n') => return Ok(None),
        Some(b'"') => {
            // neither digits nor base64 hold anything that JSON would escape
            let text = token.trim_matches('"');
            match wire.map_or_else(|| tell_apart(text, seen), Ok)? {
                Wire::Base64 => from_base64(text)?,
                Wire::Scaled(written) => rescale(from_base64(text)?, written, scale)?,
                _ => from_text(text, scale)?,
            }
        }
        Some(b'{') => {
            let shape = Problem::Type { expected: "a decimal", found: "an object without scale and value" };
            let decimal: VariableScale<'_> = serde_json::from_str(token).map_err(|_| shape)?;
            rescale(from_base64(decimal.value)?, decimal.scale, scale)?
        }
        Some(b'0'..=b'9' | b'-') => {
            if precision > DOUBLE_DIGITS && token.contains(['.', 'e', 'E']) {
                return Err(INEXACT);
            }
            from_text(token, scale)?
        }
        Some(b't' | b'f') => return Err(Problem::Type { expected: "a decimal", found: "a boolean" }),
        _ => return Err(Problem::Type { expected: "a decimal", found: "an array" }),
    };
    if unscaled.unsigned_abs() >= 10_u128.pow(u32::from(precision)) {
        return Err(TOO_WIDE);
    }
    Ok(Some(unscaled))
}

/// Whether a text without a point or a minus is a number, although base64 has all of its letters, too.
pub(crate) fn is_number(text: &str) -> bool {
    text == "Infinity" || text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'e' | b'E' | b'+'))
}

/// Digits with a point or a minus are no base64, and what is no base64 is digits or refused later. A string of
/// plain digits, or one such as `1E+3`, whose length is a multiple of four could be both.
fn tell_apart(text: &str, seen: &Cell<Option<Wire>>) -> Result<Wire, Problem> {
    let wire = match (is_number(text), text.len().is_multiple_of(4) && !text.is_empty()) {
        (true, true) => return seen.get().ok_or(AMBIGUOUS),
        (false, true) if !text.contains(['.', '-']) => Wire::Base64,
        _ => Wire::Text,
    };
    seen.set(Some(wire));
    Ok(wire)
}

/// The big-endian two's complement integer of `java.math.BigInteger.toByteArray`.
fn from_base64(text: &str) -> Result<i128, Problem> {
    let mut bytes = [0_u8; 24];
    let shape = Problem::Type { expected: "a decimal in base64", found: "another string" };
    let length = match STANDARD.decode_slice(text, &mut bytes) {
        Ok(length) if length > 0 => length,
        Err(base64::DecodeSliceError::OutputSliceTooSmall) => return Err(TOO_WIDE),
        _ => return Err(shape),
    };
    let bytes = &bytes[..length];
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { 0xFF };
    let (extension, digits) = bytes.split_at(length.saturating_sub(16));
    if extension.iter().any(|&b| b != sign) {
        return Err(TOO_WIDE);
    }
    let mut wide = [sign; 16];
    wide[16 - digits.len()..].copy_from_slice(digits);
    let value = i128::from_be_bytes(wide);
    // the bytes cut off above were sign bytes only if the rest still carries that sign
    if (value < 0) == (sign == 0xFF) { Ok(value) } else { Err(TOO_WIDE) }
}

/// The digits of an unscaled value, `scale` of them after the point and at least one before it.
pub(crate) fn in_digits(unscaled: i128, scale: u8) -> String {
    let point = usize::from(scale);
    let mut digits = format!("{:0width$}", unscaled.unsigned_abs(), width = point + 1);
    if scale > 0 {
        digits.insert(digits.len() - point, '.');
    }
    if unscaled < 0 {
        digits.insert(0, '-');
    }
    digits
}

/// `[-]digits[.digits][E[+-]digits]`, to the unscaled value at `scale`.
fn from_text(text: &str, scale: u8) -> Result<i128, Problem> {
    let shape = || match text.to_ascii_lowercase().trim_start_matches(['+', '-']) {
        "nan" | "infinity" | "positive_infinity" | "negative_infinity" => {
            Problem::Unfit("is NaN or infinite, which no Delta decimal is")
        }
        _ => Problem::Type { expected: TEXT, found: "another string" },
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| shape())?),
        None => (text, 0),
    };
    let negative = mantissa.starts_with('-');
    let unsigned = mantissa.strip_prefix(['-', '+']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(shape());
    }
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        if !digit.is_ascii_digit() {
            return Err(shape());
        }
        let next = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0')));
        value = next.ok_or(TOO_WIDE)?;
    }
    let written = i32::try_from(fraction.len()).map_err(|_| TOO_FINE)?.checked_sub(exponent).ok_or(TOO_WIDE)?;
    rescale(if negative { -value } else { value }, written, scale)
}

/// Moves the point without losing a digit.
fn rescale(value: i128, from: i32, to: u8) -> Result<i128, Problem> {
    let shift = i64::from(to) - i64::from(from);
    if value == 0 {
        return Ok(0);
    }
    let power = 10_i128.checked_pow(u32::try_from(shift.unsigned_abs()).unwrap_or(u32::MAX));
    if shift >= 0 {
        return power.and_then(|p| value.checked_mul(p)).ok_or(TOO_WIDE);
    }
    match power {
        Some(power) if value % power == 0 => Ok(value / power),
        _ => Err(TOO_FINE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_exact() {
        let table: &[(&str, u8, u8, Option<Wire>, i128)] = &[
            (r#""25.00""#, 10, 2, None, 2500),
            (r#""-0.01""#, 10, 2, None, -1),
            (r#""+7.5""#, 10, 2, None, 750),
            (r#""0.00000""#, 10, 2, None, 0),
            (r#""1E+3""#, 10, 2, Some(Wire::Text), 100_000),
            (r#""25""#, 10, 2, None, 2500),
            (r#""1234""#, 10, 2, Some(Wire::Text), 123_400),
            (r#""A+g=""#, 12, 2, None, 1000),
            (r#""BNI=""#, 12, 2, None, 1234),
            (r#""ZA==""#, 12, 2, None, 100),
            (r#""/w==""#, 12, 2, None, -1),
            (r#""AA==""#, 12, 2, None, 0),
            (r#""AP8=""#, 12, 2, None, 255),
            (r#""CUmw9vACMxPESZBQ3jjzTg==""#, 38, 0, None, 12_345_678_901_234_567_890_123_456_789_012_345_678),
            (r#"{"scale":5,"value":"BMsv"}"#, 12, 5, None, 314_159),
            (r#"{"scale":0,"value":"BMsv"}"#, 12, 2, None, 31_415_900),
            (r#"{"scale":-2,"value":"Aw=="}"#, 12, 2, None, 30_000),
            (r#""ZA==""#, 12, 4, Some(Wire::Scaled(2)), 10_000),
            (r#""JxA=""#, 12, 2, Some(Wire::Scaled(4)), 100),
            ("12.34", 12, 2, None, 1234),
            ("-7", 38, 0, None, -7),
        ];
        for (token, precision, scale, wire, expected) in table {
            assert_eq!(from_json(token, *precision, *scale, *wire, &Cell::default()), Ok(Some(*expected)), "{token}");
        }
        assert_eq!(from_json("null", 12, 2, None, &Cell::default()), Ok(None));
    }

    #[test]
    fn what_does_not_fit_is_refused_not_rounded() {
        let table: &[(&str, u8, u8)] = &[
            (r#""0.001""#, 12, 2),
            (r#""10000000000.00""#, 12, 2),
            (r#""NaN""#, 12, 2),
            (r#""POSITIVE_INFINITY""#, 12, 2),
            (r#""1234""#, 12, 2),
            (r#""""#, 12, 2),
            (r#"".""#, 12, 2),
            (r#""1.2.3""#, 12, 2),
            (r#""12 ""#, 12, 2),
            (r#""CUmw9vACMxPESZBQ3jjzTg==""#, 12, 0),
            (r#""AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=""#, 38, 0),
            (r#""1e999999999999""#, 12, 2),
            (r#""1e2147483647""#, 12, 2),
            (r#""1e-2147483648""#, 12, 2),
            (r#"{"scale":3,"value":"BMsv"}"#, 12, 2),
            (r#"{"scale":2147483647,"value":"BMsv"}"#, 12, 2),
            (r#"{"value":"BMsv"}"#, 12, 2),
            ("1.2345678901234568E37", 38, 0),
            ("true", 12, 2),
            ("[1]", 12, 2),
        ];
        for (token, precision, scale) in table {
            assert!(from_json(token, *precision, *scale, None, &Cell::default()).is_err(), "{token}");
        }
    }

    #[test]
    fn the_form_of_the_other_values_decides_for_one_that_could_be_both() {
        let seen = Cell::default();
        for ambiguous in [r#""1234""#, r#""1E+3""#, r#""12e4""#, r#""+123""#, r#""Infinity""#] {
            assert_eq!(from_json(ambiguous, 12, 2, None, &seen), Err(AMBIGUOUS), "{ambiguous}");
        }
        assert_eq!(from_json(r#""BNI=""#, 12, 2, None, &seen), Ok(Some(1234)));
        assert_eq!(from_json(r#""1234""#, 12, 2, None, &seen), Ok(Some(-2_658_824)));
        assert_eq!(from_json(r#""7.00""#, 12, 2, None, &seen), Ok(Some(700)));
        assert_eq!(from_json(r#""1234""#, 12, 2, None, &seen), Ok(Some(123_400)));
        assert_eq!(from_json(r#""1E+3""#, 12, 2, None, &seen), Ok(Some(100_000)));
    }
}
