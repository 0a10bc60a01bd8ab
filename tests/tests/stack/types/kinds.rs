//! [`Kind`]: how the columns of a PostgreSQL type are declared in each mode, and the text that stands for a value on both sides.
//!
//! PostgreSQL and DataFusion each write a value in SQL, as the same text for the same value. What their SQL cannot write alike is brought
//! into one form here: a float becomes its bits, a time gets all digits of its second, and an array or another JSON document loses what
//! carries no meaning.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::modes::Mode;

/// A kind of PostgreSQL's types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Under this type of the replica.
    Integer(&'static str),
    /// With at most so many digits, and so many of them after the point.
    Decimal(u8, u8),
    Money,
    /// Without a scale.
    Numeric,
    Real,
    Double,
    Boolean,
    /// `bit(1)`
    Bit,
    /// Whatever arrives as PostgreSQL writes it.
    Text,
    TimeTz,
    Json,
    Hstore,
    Point,
    Bytes,
    /// With a length of its own.
    Bits,
    VarBits,
    /// What the connector leaves out, or sends as the bytes of its text.
    Unknown,
    Date,
    /// With so many digits of a second.
    Time(u8),
    /// With so many digits of a second.
    Timestamp(u8),
    Instant,
    Interval,
    Array(&'static Kind),
}

impl Kind {
    fn data_type(self) -> String {
        match self {
            Self::Integer(name) => name.into(),
            Self::Decimal(precision, scale) => format!("decimal({precision},{scale})"),
            Self::Money => "decimal(19,2)".into(),
            Self::Numeric => "numeric".into(),
            Self::Real => "float".into(),
            Self::Double => "double".into(),
            Self::Boolean | Self::Bit => "boolean".into(),
            Self::Text | Self::TimeTz => "string".into(),
            Self::Json | Self::Point => "json".into(),
            Self::Hstore => "hstore".into(),
            Self::Bytes | Self::Bits | Self::VarBits | Self::Unknown => "binary".into(),
            Self::Date => "date".into(),
            Self::Time(_) => "time".into(),
            Self::Timestamp(_) => "timestamp_ntz".into(),
            Self::Instant => "timestamp".into(),
            Self::Interval => "interval".into(),
            Self::Array(element) => format!("array<{}>", element.data_type()),
        }
    }

    fn form(self, mode: Mode) -> &'static str {
        use Mode::{Connect, Double, IsoString, Precise, Recommended};
        match (self, mode) {
            (Self::Decimal(..) | Self::Money, Precise) => "@base64",
            (Self::Decimal(..) | Self::Money | Self::Numeric, Recommended | IsoString | Connect)
            | (Self::Date | Self::Time(_) | Self::Timestamp(_), IsoString) => "@text",
            (Self::Time(_) | Self::Timestamp(_), Connect)
            | (Self::Time(0..=3), Recommended | Precise)
            | (Self::Timestamp(0..=3), _) => "@millis",
            (Self::Time(_) | Self::Timestamp(_), _) => "@micros",
            (Self::Bytes | Self::Unknown, IsoString) => "@hex",
            (Self::Bytes, Double) => "@base64url",
            (Self::Array(element), _) => element.form(mode),
            _ => "",
        }
    }

    /// The declaration under `[table.columns]`; None where the connector leaves such a column out.
    pub(crate) fn declaration(self, mode: Mode) -> Option<String> {
        let is_sent = self != Self::Unknown || mode == Mode::IsoString;
        is_sent.then(|| format!("{}{}", self.data_type(), self.form(mode)))
    }

    /// PostgreSQL's SQL for the text of `value`, an expression.
    pub(crate) fn source(self, value: &str) -> String {
        // a cast to text is not what the type's output function writes: it cuts a char(n), and adds /32 to an inet
        let output = || format!("case when {value} is distinct from null then format('%s', {value}) end");
        match self {
            Self::Text | Self::Unknown => output(),
            Self::Money => format!("({value})::numeric::text"),
            Self::Bit => format!("({value} = B'1')::text"),
            Self::TimeTz => format!("({value} at time zone 'UTC')::time::text"),
            Self::Hstore => format!("hstore_to_json({value})::text"),
            Self::Point => format!("point_as_json({value})::text"),
            Self::Bytes => format!("encode({value}, 'hex')"),
            Self::Bits => format!("encode(bits_as_bytes({value}), 'hex')"),
            // its length is lost with zeros at its beginning
            Self::VarBits => {
                let zeros = format!("nullif(substring({value}::text from '^0+'), '')");
                format!("{} || coalesce(' after ' || {zeros}, '')", Self::Bits.source(value))
            }
            Self::Time(_) => format!("to_char(({value})::interval, 'HH24:MI:SS.US')"),
            Self::Timestamp(_) => {
                let era = format!("to_char({value}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US BC')");
                format!("coalesce(replace({era}, ' AD', ''), ({value})::text)")
            }
            Self::Instant => Self::Timestamp(6).source(&format!("({value} at time zone 'UTC')")),
            Self::Interval => {
                let part = |part: &str| format!("trim_scale(extract({part} from {value}))");
                let parts = ["year", "month", "day", "hour", "minute", "second"].map(part).join(", ");
                format!("case when {value} is not null then format('P%sY%sM%sDT%sH%sM%sS', {parts}) end")
            }
            Self::Array(element) => {
                let elements = format!("json_agg({} order by place)", element.source("element"));
                let of = format!("unnest({value}) with ordinality as elements (element, place)");
                format!("case when {value} is not null then (select coalesce({elements}, '[]') from {of})::text end")
            }
            _ => format!("({value})::text"),
        }
    }

    /// DataFusion's SQL for the same text; an array is left to `sql`, which prints it in JSON.
    pub(crate) fn replica(self, column: &str) -> String {
        match self {
            Self::Array(_) => column.into(),
            Self::TimeTz => format!("replace({column}, 'Z', '')"),
            Self::Bytes | Self::Bits | Self::VarBits => format!("encode({column}, 'hex')"),
            // a snapshot has these as the driver writes them, with floats
            Self::Unknown => format!("replace(cast({column} as varchar), '.0', '')"),
            // not to_char, which takes a time by way of nanoseconds, and so no further than the year 2262
            _ => format!("cast({column} as varchar)"),
        }
    }

    /// One text for one value, whichever side wrote it.
    pub(crate) fn canonical(self, text: &str) -> Result<String> {
        Ok(match self {
            Self::Real => format!("{:08x}", text.parse::<f32>()?.to_bits()),
            Self::Double => format!("{:016x}", text.parse::<f64>()?.to_bits()),
            Self::Timestamp(_) | Self::Instant if text.contains('T') => {
                let time = text.trim_end_matches('Z');
                let (seconds, fraction) = time.split_once('.').unwrap_or((time, ""));
                format!("{seconds}.{fraction:0<6}")
            }
            Self::Hstore | Self::Point => document(&serde_json::from_str(text)?),
            Self::Array(kind) => {
                let elements = serde_json::from_str::<Value>(text)?;
                let canonical = |element: &Value| match element {
                    Value::Null => Ok("null".to_owned()),
                    Value::String(text) => Ok(Value::from(kind.canonical(text)?).to_string()),
                    other => Ok(Value::from(kind.canonical(&other.to_string())?).to_string()),
                };
                let elements = elements.as_array().context("no array")?.iter().map(canonical);
                format!("[{}]", elements.collect::<Result<Vec<_>>>()?.join(","))
            }
            _ => text.to_owned(),
        })
    }
}

/// A JSON document with sorted keys, and every number as the bits of a double.
fn document(json: &Value) -> String {
    match json {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            let fields = sorted.into_iter().fold(String::new(), |mut text, (name, value)| {
                let _ = write!(text, "{}:{},", Value::from(name.as_str()), document(value));
                text
            });
            format!("{{{fields}}}")
        }
        Value::Number(number) => {
            number.as_f64().map_or_else(String::new, |number| format!("{:016x}", number.to_bits()))
        }
        other => other.to_string(),
    }
}
