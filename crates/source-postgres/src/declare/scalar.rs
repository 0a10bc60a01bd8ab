//! What the connector makes of a single value of each type.

use super::{Form, number};
use crate::{
    BinaryMode, IntervalMode, Modes, TimeMode,
    table::{BaseType, TypeKind},
};

/// The digits of a second that a time has without a modifier.
const MICROSECONDS: i32 = 6;
/// The digits up to which the adaptive modes count milliseconds.
const MILLISECONDS: i32 = 3;

const CUT: &str = "cut to milliseconds; time.precision.mode=adaptive keeps all digits";
const REVERSED: &str = "its bytes arrive in reverse order: the first one holds the last eight bits";

pub(super) fn form(base: &BaseType, modifier: Option<i32>, modes: &Modes) -> Form {
    match base.kind {
        TypeKind::Enum => return Form::plain("string"),
        TypeKind::Composite | TypeKind::Domain => return Form::Unknown,
        TypeKind::Range | TypeKind::Base => {}
    }
    if base.schema != "pg_catalog" {
        return extension(&base.name);
    }
    let seconds = modifier.unwrap_or(MICROSECONDS);
    match base.name.as_str() {
        "int2" => Form::plain("short"),
        "int4" => Form::plain("int"),
        "int8" | "oid" => Form::plain("long"),
        "float4" => Form::plain("float"),
        "float8" => Form::plain("double"),
        "numeric" => number::numeric(modifier, modes),
        "money" => number::money(modes),
        "bool" => Form::plain("boolean"),
        "text" | "varchar" | "bpchar" | "char" | "uuid" | "xml" | "inet" | "cidr" | "macaddr" | "macaddr8"
        | "tsvector" | "int4range" | "int8range" | "numrange" | "tsrange" | "tstzrange" | "daterange" => {
            Form::plain("string")
        }
        "name" if modes.unknown_datatypes => Form::plain("string"),
        "name" => {
            Form::plain("string").noting("a streamed change carries null; include.unknown.datatypes=true sends it")
        }
        "json" | "jsonb" | "point" => Form::plain("json"),
        "bytea" => Form::wired("binary", bytes(modes)),
        "bit" if modifier == Some(1) => Form::plain("boolean"),
        "varbit" if modifier == Some(1) => Form::plain("boolean").noting("an empty one cannot be told from a 0"),
        "bit" | "varbit" => Form::plain("binary").noting(REVERSED),
        "date" => {
            let wire = if modes.time == TimeMode::IsoString { "@text" } else { "" };
            Form::wired("date", wire).noting("a date BC of a snapshot arrives as another one")
        }
        "time" => time_of_day(seconds, modes.time),
        "timetz" => Form::plain("string").noting("arrives in UTC, without its own offset"),
        "timestamp" => timestamp(seconds, modes.time),
        "timestamptz" => Form::plain("timestamp"),
        "interval" if modes.interval == IntervalMode::String => Form::plain("interval"),
        "interval" => Form::plain("interval").noting(
            "every value is refused: the connector counts a month as 30.4375 days; set interval.handling.mode=string",
        ),
        _ => Form::Unknown,
    }
}

/// Types that extensions define, which the connector knows by their name.
fn extension(name: &str) -> Form {
    match name {
        "citext" | "ltree" | "isbn" => Form::plain("string"),
        "hstore" => Form::plain("hstore"),
        "geometry" | "geography" | "vector" | "halfvec" | "sparsevec" => Form::Unproven,
        _ => Form::Unknown,
    }
}

/// The form of a `bytea`, and of what the connector does not know.
pub(super) fn bytes(modes: &Modes) -> &'static str {
    match modes.binary {
        // base64 is what binary is without a form
        BinaryMode::Bytes | BinaryMode::Base64 => "",
        BinaryMode::Base64UrlSafe => "@base64url",
        BinaryMode::Hex => "@hex",
    }
}

fn time_of_day(seconds: i32, mode: TimeMode) -> Form {
    const NAME: &str = "time";
    match mode {
        TimeMode::Adaptive | TimeMode::Connect if seconds <= MILLISECONDS => Form::wired(NAME, "@millis"),
        TimeMode::Adaptive | TimeMode::AdaptiveTimeMicroseconds | TimeMode::Microseconds => {
            Form::wired(NAME, "@micros")
        }
        TimeMode::Connect => Form::wired(NAME, "@millis").noting(CUT),
        TimeMode::Nanoseconds => Form::wired(NAME, "@nanos"),
        TimeMode::IsoString => Form::wired(NAME, "@text").noting("24:00:00 arrives as 00:00:00"),
    }
}

fn timestamp(seconds: i32, mode: TimeMode) -> Form {
    const NAME: &str = "timestamp_ntz";
    match mode {
        TimeMode::Adaptive | TimeMode::AdaptiveTimeMicroseconds | TimeMode::Connect if seconds <= MILLISECONDS => {
            Form::wired(NAME, "@millis")
        }
        TimeMode::Adaptive | TimeMode::AdaptiveTimeMicroseconds | TimeMode::Microseconds => {
            Form::wired(NAME, "@micros")
        }
        TimeMode::Connect => Form::wired(NAME, "@millis").noting(CUT),
        TimeMode::Nanoseconds => Form::wired(NAME, "@nanos")
            .noting("nanoseconds reach from 1677 to 2262 only; time.precision.mode=adaptive reaches further"),
        TimeMode::IsoString => Form::wired(NAME, "@text"),
    }
}
