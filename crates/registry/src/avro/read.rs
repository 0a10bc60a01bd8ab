//! Avro's binary encoding into JSON text, in one pass and without a tree of values.
//!
//! The text is what Kafka Connect's JSON converter writes for the same data: bytes in base64, a float that is no number as
//! the string `"NaN"`, `"Infinity"` or `"-Infinity"`. The bytes may be anything: a length is compared with what is left
//! before anything is done with it, and every element of an array takes a byte at least, so that neither time nor memory
//! goes beyond what bytes and schema warrant.

use base64::{Engine, engine::general_purpose::STANDARD};
use std::io::Write;

use super::{Field, Type};

/// The bytes do not follow the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The field at fault, where it is one of a record.
    pub(crate) field: Option<String>,
    pub(crate) what: &'static str,
}

impl From<&'static str> for Broken {
    fn from(what: &'static str) -> Self {
        Self { field: None, what }
    }
}

const CUT_OFF: &str = "the bytes end before the record does";
const NOT_UTF_8: &str = "a string is not UTF-8";

/// Appends the JSON text of the one value that `bytes` hold.
pub(crate) fn to_json(of: &Type, bytes: &[u8], json: &mut Vec<u8>) -> Result<(), Broken> {
    let mut rest = Rest(bytes);
    rest.value(of, json)?;
    if rest.0.is_empty() { Ok(()) } else { Err("bytes are left over after the record".into()) }
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn value(&mut self, of: &Type, json: &mut Vec<u8>) -> Result<(), Broken> {
        match of {
            Type::Null => json.extend(b"null"),
            Type::Boolean => match self.take(1)? {
                [0] => json.extend(b"false"),
                [1] => json.extend(b"true"),
                _ => return Err("a boolean is neither 0 nor 1".into()),
            },
            Type::Int => {
                let value = i32::try_from(self.long()?).map_err(|_| "an int has more than 32 bits")?;
                write(json, format_args!("{value}"));
            }
            Type::Long => {
                let value = self.long()?;
                write(json, format_args!("{value}"));
            }
            // its shortest digits as a double are exactly the float, whoever reads them
            Type::Float => real(f64::from(f32::from_le_bytes(self.array()?)), json),
            Type::Double => real(f64::from_le_bytes(self.array()?), json),
            Type::Bytes => {
                let length = self.length()?;
                base64(self.take(length)?, json);
            }
            Type::Fixed(length) => base64(self.take(*length)?, json),
            Type::String => self.string(json)?,
            Type::Enum(symbols) => {
                let symbol = usize::try_from(self.long()?).ok().and_then(|index| symbols.get(index));
                json.extend(symbol.ok_or("an enum's index has no symbol")?.as_bytes());
            }
            Type::Array(items) => {
                json.push(b'[');
                self.elements(json, |rest, json| rest.value(items, json))?;
                json.push(b']');
            }
            Type::Map(values) => {
                json.push(b'{');
                self.elements(json, |rest, json| {
                    rest.string(json)?;
                    json.push(b':');
                    rest.value(values, json)
                })?;
                json.push(b'}');
            }
            Type::Record(fields) => self.record(fields, json)?,
            Type::Union(branches) => {
                let branch = usize::try_from(self.long()?).ok().and_then(|index| branches.get(index));
                self.value(branch.ok_or("a union's index has no branch")?, json)?;
            }
        }
        Ok(())
    }

    fn record(&mut self, fields: &[Field], json: &mut Vec<u8>) -> Result<(), Broken> {
        json.push(b'{');
        for (index, Field { name, label, of }) in fields.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            json.extend(label.as_bytes());
            self.value(of, json)
                .map_err(|broken| Broken { field: broken.field.or_else(|| Some(name.clone())), ..broken })?;
        }
        json.push(b'}');
        Ok(())
    }

    /// Blocks, each with the number of its elements before it; an empty one ends them. A negative number has the block's
    /// bytes after it, for those who pass over it.
    fn elements(
        &mut self,
        json: &mut Vec<u8>,
        mut element: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        let mut is_first = true;
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                if !std::mem::take(&mut is_first) {
                    json.push(b',');
                }
                let before = self.0.len();
                element(self, json)?;
                if self.0.len() == before {
                    return Err("an element takes no bytes".into());
                }
            }
        }
    }

    fn string(&mut self, json: &mut Vec<u8>) -> Result<(), Broken> {
        let length = self.length()?;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| NOT_UTF_8)?;
        serde_json::to_writer(json, text).map_err(|_| NOT_UTF_8.into())
    }

    fn length(&mut self) -> Result<usize, Broken> {
        usize::try_from(self.long()?).map_err(|_| "a length is negative".into())
    }

    /// A zigzag integer of variable length, low bits first.
    fn long(&mut self) -> Result<i64, Broken> {
        let mut bits = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let part = u64::from(byte & 0x7F);
            bits |= part << shift;
            if byte & 0x80 == 0 {
                // of the tenth byte there is a place for one bit
                if shift == 63 && part > 1 {
                    break;
                }
                return Ok((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed());
            }
        }
        Err("an integer has more than 64 bits".into())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (head, rest) = self.0.split_first_chunk().ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(*head)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (head, rest) = self.0.split_at_checked(length).ok_or(CUT_OFF)?;
        self.0 = rest;
        Ok(head)
    }
}

fn real(value: f64, json: &mut Vec<u8>) {
    if value.is_finite() {
        // serde_json has the shortest digits, and a minus before zero
        _ = serde_json::to_writer(json, &value);
    } else if value.is_nan() {
        json.extend(b"\"NaN\"");
    } else {
        json.extend(if value > 0.0 { &b"\"Infinity\""[..] } else { &b"\"-Infinity\""[..] });
    }
}

fn base64(bytes: &[u8], json: &mut Vec<u8>) {
    json.push(b'"');
    let start = json.len();
    json.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // the place is exactly what it takes
    _ = STANDARD.encode_slice(bytes, &mut json[start..]);
    json.push(b'"');
}

fn write(json: &mut Vec<u8>, value: std::fmt::Arguments<'_>) {
    // memory takes everything
    _ = json.write_fmt(value);
}
