//! Any JSON value under any declaration: what is accepted is what stands there.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
    },
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use serde_json::{Value, value::RawValue};

use super::calendar;
use crate::{
    BatchBuilder, Column, DataType, Decoded, Decoder, Horizon, MetaColumns, Op, RecordRef, TableSchema,
    decimal::VariableScale, wire::Wire,
};

/// A declaration, a line feed, and a JSON value.
///
/// # Panics
/// Where a value is accepted and does not arrive as it is, or where the decoder breaks another promise.
pub fn values(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let Some((declaration, token)) = input.split_once('\n') else { return };
    let Ok(column) = Column::declared("c", declaration) else { return };
    let written = column.data_type.to_string();
    assert_eq!(written.parse().as_ref(), Ok(&column.data_type), "{written}");
    // whatever is no JSON value would end the row and begin something else
    let Ok(token) = serde_json::from_str::<&RawValue>(token).map(RawValue::get) else { return };
    let columns = vec![Column::new("id", DataType::Long), column.clone()];
    let Ok(table) = TableSchema::new(columns, &["id"], MetaColumns::default()) else { return };
    let table = Arc::new(table);

    let (mut decoder, mut batch) = (Decoder::new(Arc::clone(&table)), BatchBuilder::new(table));
    let value = format!(r#"{{"op":"u","after":{{"id":1,"c":{token}}},"source":{{"lsn":8}}}}"#);
    let (key, value) = (Some(br#"{"id":1}"#.as_slice()), Some(value.as_bytes()));
    let record = RecordRef { partition: 0, offset: 0, key, value, timestamp: None, old_key: None };
    match decoder.decode(record, &mut Horizon::default(), &mut batch) {
        Ok(outcome) => assert!(matches!(outcome, Decoded::Change(Op::Update, _))),
        Err(_) => return,
    }
    let batch = batch.finish().unwrap_or_else(|error| unreachable!("{error}"));
    if batch.has_unchanged() {
        assert!(is_left_out(token), "a value was taken for the placeholder");
    } else {
        assert_same(token, &column.data_type, column.wire, batch.rows.column(1), 0);
    }
}

/// The placeholder in one of its forms, or an array or object with nothing else in it.
fn is_left_out(token: &str) -> bool {
    const PLACEHOLDER: &str = "__debezium_unavailable_value";
    let forms = [PLACEHOLDER.to_owned(), hex(PLACEHOLDER.as_bytes()), STANDARD.encode(PLACEHOLDER)];
    let is_form = |text: &str| forms.iter().any(|form| form.eq_ignore_ascii_case(text));
    match serde_json::from_str(token) {
        Ok(Value::String(text)) => is_form(&text) || text == format!(r#"{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}"#),
        Ok(Value::Array(elements)) => match elements.as_slice() {
            [Value::String(text)] => is_form(text),
            integers => integers.iter().map(Value::as_u64).eq(PLACEHOLDER.bytes().map(|byte| Some(byte.into()))),
        },
        Ok(Value::Object(entries)) => entries.iter().all(|(key, value)| is_form(key) && value.as_str() == Some(key)),
        _ => false,
    }
}

fn assert_same(token: &str, data_type: &DataType, wire: Option<Wire>, column: &ArrayRef, row: usize) {
    assert_eq!(token == "null", column.is_null(row), "null, or lost");
    if column.is_null(row) {
        return;
    }
    let text = serde_json::from_str::<String>(token);
    let text = text.as_deref().ok();
    // whatever is in a token and is not understood here is not compared
    match data_type {
        DataType::Boolean => assert_eq!(column.as_boolean().value(row).to_string(), token),
        DataType::Short => assert_eq!(column.as_primitive::<Int16Type>().value(row).to_string(), token),
        DataType::Int => assert_eq!(column.as_primitive::<Int32Type>().value(row).to_string(), token),
        DataType::Long => assert_eq!(column.as_primitive::<Int64Type>().value(row).to_string(), token),
        DataType::Float => {
            let stored = column.as_primitive::<Float32Type>().value(row);
            let expected: f32 = text.unwrap_or(token).parse().unwrap_or_default();
            assert_eq!(stored.to_string(), expected.to_string());
            assert!(integer(token).is_none() || format!("{stored:.0}") == token, "an integer was rounded");
        }
        DataType::Double => {
            let stored = column.as_primitive::<Float64Type>().value(row);
            let expected: f64 = text.unwrap_or(token).parse().unwrap_or_default();
            assert_eq!(stored.to_string(), expected.to_string());
            assert!(integer(token).is_none() || format!("{stored:.0}") == token, "an integer was rounded");
        }
        DataType::Decimal { scale, .. } => {
            let stored = column.as_primitive::<Decimal128Type>().value(row);
            match text {
                Some(text) if is_base64(text, wire) => assert_eq!(stored, unscaled(text)),
                Some(text) => assert_number(text, stored, (*scale).into()),
                None if token.starts_with('{') => {}
                None => assert_number(token, stored, (*scale).into()),
            }
        }
        DataType::Numeric { scale } => {
            let stored = column.as_string::<i32>().value(row);
            let is_special = matches!(stored, "NaN" | "Infinity" | "-Infinity");
            assert!(is_special || stored.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte)));
            match (serde_json::from_str(token), text, scale) {
                (Ok(VariableScale { scale, value }), ..) => assert_digits(stored, value, scale),
                (_, Some(text), Some(scale)) if is_base64(text, wire) => assert_digits(stored, text, (*scale).into()),
                (_, text, _) => assert!(is_special || Some(stored) == text),
            }
        }
        DataType::String | DataType::Interval => assert_eq!(Some(column.as_string::<i32>().value(row)), text),
        DataType::Json | DataType::Hstore => {
            assert_eq!(column.as_string::<i32>().value(row), text.unwrap_or(token));
        }
        DataType::Binary => {
            let stored = column.as_binary::<i32>().value(row);
            let written = match wire {
                Some(Wire::Hex) => hex(stored),
                Some(Wire::Base64Url) => URL_SAFE.encode(stored),
                _ => STANDARD.encode(stored),
            };
            let is_hex = wire == Some(Wire::Hex);
            assert_eq!(
                text.map(|text| if is_hex { text.to_ascii_lowercase() } else { text.to_owned() }),
                Some(written)
            );
        }
        DataType::Date => {
            let stored = i64::from(column.as_primitive::<Date32Type>().value(row));
            assert_eq!(stored, integer(token).or_else(|| calendar::date(&mut text?)).unwrap_or(i64::MIN));
        }
        DataType::Timestamp => {
            let stored = column.as_primitive::<TimestampMicrosecondType>().value(row);
            match text {
                Some(text) => {
                    let (local, rest) = calendar::time(text).unwrap_or((i64::MIN, "?"));
                    let expected = calendar::offset(rest).map_or(stored, |offset| local - offset);
                    assert_eq!((stored, local == i64::MIN), (expected, false));
                }
                None => assert_eq!(Some(stored), micros(token, wire)),
            }
        }
        DataType::TimestampNtz => {
            let stored = column.as_primitive::<TimestampMicrosecondType>().value(row);
            match text {
                Some(text) => assert_eq!(Some(stored), calendar::time(text).map(|(local, _)| local)),
                None => assert_eq!(Some(stored), micros(token, wire.or(Some(Wire::Micros)))),
            }
        }
        DataType::Time => {
            let stored = column.as_string::<i32>().value(row);
            let expected = text.map_or_else(|| micros(token, wire), |mut text| calendar::clock(&mut text));
            assert_eq!((calendar::clock(&mut &*stored), stored.len()), (expected, 15));
        }
        DataType::Array(element) => {
            let tokens: Vec<&RawValue> = serde_json::from_str(token).unwrap_or_default();
            let elements = column.as_list::<i32>().value(row);
            assert_eq!(elements.len(), tokens.len());
            for (index, token) in tokens.iter().enumerate() {
                assert_same(token.get(), element, wire, &elements, index);
            }
        }
    }
}

fn integer(token: &str) -> Option<i64> {
    token.parse().ok()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A number of `wire`'s unit in microseconds; `None` where that is no whole number.
fn micros(token: &str, wire: Option<Wire>) -> Option<i64> {
    let number = i128::from(integer(token)?);
    let nanos = match wire? {
        Wire::Millis => number * 1_000_000,
        Wire::Micros => number * 1000,
        Wire::Nanos => number,
        _ => return None,
    };
    (nanos % 1000 == 0).then(|| i64::try_from(nanos / 1000).ok())?
}

/// Without a form, what no number is written with makes it base64, where its length can be that of base64.
fn is_base64(text: &str, wire: Option<Wire>) -> bool {
    let is_number = |text: &str| text == "Infinity" || text.bytes().all(|byte| b"+-.0123456789Ee".contains(&byte));
    wire.map_or_else(|| text.len().is_multiple_of(4) && !is_number(text), |wire| wire == Wire::Base64)
}

fn assert_digits(stored: &str, base64: &str, scale: i32) {
    // longer ones do not fit an i128
    if base64.len() <= 20 {
        assert_number(stored, unscaled(base64), scale.into());
    }
}

/// A big-endian two's complement integer in base64.
fn unscaled(text: &str) -> i128 {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let start = if negative { -1 } else { 0 };
    bytes.iter().fold(start, |value: i128, byte| value.wrapping_mul(256).wrapping_add((*byte).into()))
}

/// A number in digits, and perhaps an exponent, is `unscaled` with the point before its last `scale` digits.
fn assert_number(text: &str, unscaled: i128, scale: i64) {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(i64::MIN);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = format!("{}{fraction}", whole.trim_start_matches(['-', '+']));
    let written = (written.trim_start_matches('0'), exponent - i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    let stored = (unscaled.unsigned_abs().to_string(), -scale);
    let normal = |digits: &str, exponent: i64| {
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        let zeros = digits.trim_start_matches('0').len() - significant.len();
        (significant.to_owned(), if significant.is_empty() { 0 } else { exponent + i64::try_from(zeros).unwrap_or(0) })
    };
    assert_eq!(normal(written.0, written.1), normal(&stored.0, stored.1));
    assert!(unscaled == 0 || (unscaled < 0) == whole.starts_with('-'), "the sign");
}
