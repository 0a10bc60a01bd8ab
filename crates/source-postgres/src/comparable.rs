//! SQL for the texts by which values are compared, the same ones as [`change::Comparable`] makes of the replica's.

use change::{Comparable, DataType, Unfit};

use crate::table::{BaseType, Column, TypeKind};

/// SQL for the text of a column's values, of `value`, and how the replica's are written; `declared` is the column there.
pub(crate) fn text(value: &str, column: &Column, declared: &change::Column) -> (String, Comparable) {
    let data_type = &meant(&declared.data_type, &column.base);
    let is_point = column.array.is_none() && built_in(&column.base) == Some("point");
    let comparable =
        if is_point && *data_type == DataType::Json { Comparable::point() } else { Comparable::new(data_type.clone()) };
    let fitting = match fits(value, data_type) {
        Some(fits) if declared.unfit != Unfit::Refuse => format!("(case when {fits} then {value} end)"),
        _ => value.to_owned(),
    };
    (scalar(&fitting, &column.base, data_type), comparable)
}

/// SQL for a column's values as the tokens of a [`change::SourceRow`].
pub(crate) fn token(value: &str, column: &Column, declared: &change::Column) -> String {
    let data_type = &meant(declared.source_type(), &column.base);
    match fits(value, data_type) {
        // beside what does not fit, the replica keeps what the connector wrote, which nobody knows here
        Some(fits) if declared.unfit == Unfit::Null => {
            json(&format!("(case when {fits} then {value} end)"), &column.base, data_type)
        }
        _ => json(value, &column.base, data_type),
    }
}

fn json(value: &str, base: &BaseType, data_type: &DataType) -> String {
    let string = |text: &str| format!("to_json({text})::text");
    match (data_type, built_in(base)) {
        (DataType::Boolean | DataType::Short | DataType::Int | DataType::Long, _) => scalar(value, base, data_type),
        (DataType::Float | DataType::Double, _) => {
            let words = "'NaN', 'Infinity', '-Infinity'";
            format!("case when {value} in ({words}) then {} else {value}::text end", string(&format!("{value}::text")))
        }
        (DataType::Numeric { .. }, _) => string(&format!("{value}::numeric::text")),
        (DataType::Json, Some("point")) => {
            let bytes = |part: u8| {
                let byte = |at: u8| format!("substr(float8send({value}[{part}]), {at}, 1)");
                (1..=8).rev().map(byte).collect::<Vec<_>>().join(" || ")
            };
            let wkb = format!("encode('\x0101000000'::bytea || {} || {}, 'base64')", bytes(0), bytes(1));
            let point = format!("json_build_object('x', {value}[0], 'y', {value}[1], 'wkb', {wkb}, 'srid', null)");
            format!("case when {value} is not null then {} end", string(&format!("{point}::text")))
        }
        (DataType::Hstore, _) => format!("{}.hstore_to_json({value})::text", quoted(&base.schema)),
        (DataType::Array(element), _) => {
            let elements = format!("string_agg(coalesce({}, 'null'), ',' order by n)", json("e", base, element));
            let of = format!("unnest({value}) with ordinality as u(e, n)");
            format!("case when {value} is not null then (select '[' || coalesce({elements}, '') || ']' from {of}) end")
        }
        _ => string(&scalar(value, base, data_type)),
    }
}

/// What a string of the replica holds, where its declaration does not say: that of a column which came by growth.
fn meant(data_type: &DataType, base: &BaseType) -> DataType {
    match (data_type, built_in(base)) {
        (DataType::String, Some("json" | "jsonb" | "point")) => DataType::Json,
        (DataType::String, Some("time")) => DataType::Time,
        (DataType::String, Some("interval")) => DataType::Interval,
        (DataType::String, Some("numeric")) => DataType::Numeric { scale: None },
        (DataType::String, None) if base.name == "hstore" => DataType::Hstore,
        (DataType::Array(element), _) => DataType::Array(Box::new(meant(element, base))),
        _ => data_type.clone(),
    }
}

/// What holds of a value that the type can hold, where there are others.
fn fits(value: &str, data_type: &DataType) -> Option<String> {
    Some(match data_type {
        DataType::Date => format!("{value} between '0001-01-01' and '9999-12-31'"),
        DataType::TimestampNtz => format!("{value} between '0001-01-01' and '9999-12-31 23:59:59.999999'"),
        DataType::Timestamp => format!("{value} between '0001-01-01 00:00+00' and '9999-12-31 23:59:59.999999+00'"),
        DataType::Decimal { precision, scale } => {
            format!(
                "abs({value}::numeric) < 1e{} and {value}::numeric = round({value}::numeric, {scale})",
                precision - scale
            )
        }
        // an infinity less itself is none
        DataType::Numeric { .. } => format!("{value}::numeric - {value}::numeric = 0"),
        _ => return None,
    })
}

/// SQL for the text of a value, or of an array's elements, of a type.
fn scalar(value: &str, base: &BaseType, data_type: &DataType) -> String {
    match (data_type, built_in(base)) {
        (DataType::Boolean, Some("bit" | "varbit")) => format!("({value} = B'1')::text"),
        (DataType::Float, _) => float(value, "float4"),
        (DataType::Double, _) => float(value, "float8"),
        (DataType::Decimal { .. } | DataType::Numeric { .. }, _) => format!("trim_scale({value}::numeric)::text"),
        (DataType::Date, _) => format!("{value}::date::text"),
        (DataType::Timestamp, _) => format!("{value}::timestamptz::text"),
        (DataType::TimestampNtz, _) => format!("{value}::timestamp::text"),
        (DataType::Time, _) => format!("to_char({value}::interval, 'HH24:MI:SS.US')"),
        (DataType::Interval, _) => {
            let part = |part: &str| format!("trim_scale(extract({part} from {value})::numeric)");
            let parts = ["year", "month", "day", "hour", "minute", "second"].map(part).join(", ");
            format!("case when {value} is not null then format('P%sY%sM%sDT%sH%sM%sS', {parts}) end")
        }
        (DataType::Json, Some("point")) => {
            let coordinate = |part: u8| float(&format!("{value}[{part}]"), "float8");
            format!("({}) || ({})", coordinate(0), coordinate(1))
        }
        (DataType::Hstore, _) => {
            let each = format!("{}.each({value}) as p(k, v)", quoted(&base.schema));
            let pairs = "string_agg(quote_nullable(k) || ',' || quote_nullable(v), ',' order by k collate \"C\")";
            format!("case when {value} is not null then (select coalesce({pairs}, '') from {each}) end")
        }
        (DataType::Binary, Some("bytea")) => format!("encode({value}, 'hex')"),
        (DataType::Binary, Some("bit" | "varbit")) => bits(value),
        (DataType::Binary, _) => format!("encode(convert_to({}, 'UTF8'), 'hex')", output(value)),
        (DataType::Array(element), _) => {
            let elements = format!("string_agg(quote_nullable({}), ',' order by n)", scalar("e", base, element));
            let of = format!("unnest({value}) with ordinality as u(e, n)");
            format!("case when {value} is not null then (select coalesce({elements}, '') from {of}) end")
        }
        (DataType::String, Some("timetz")) => format!("({value} at time zone 'UTC')::time::text || 'Z'"),
        // of these a cast writes what the output function does
        (
            _,
            Some("int2" | "int4" | "int8" | "oid" | "bool" | "text" | "varchar" | "uuid" | "json" | "jsonb" | "xml"),
        ) => {
            format!("{value}::text")
        }
        _ => output(value),
    }
}

/// What the type's output function writes: a cast to text cuts a `char(n)`, and adds `/32` to an `inet`.
fn output(value: &str) -> String {
    format!("case when {value} is distinct from null then format('%s', {value}) end")
}

fn float(value: &str, name: &str) -> String {
    format!("case when {value} = 'NaN' then 'NaN' else encode({name}send({value}), 'hex') end")
}

/// Bits as the connector sends them: the last eight first, up to the first that is set.
fn bits(value: &str) -> String {
    let padded = format!("lpad(ltrim({value}::text, '0'), (length({value}) + 7) / 8 * 8, '0')");
    let byte = "lpad(to_hex(substring(bits from n * 8 + 1 for 8)::bit(8)::int), 2, '0')";
    format!(
        "case when {value} is not null then (select coalesce(string_agg({byte}, '' order by n desc), '') \
         from (select {padded} as bits) b, generate_series(0, (length({value}) + 7) / 8 - 1) n \
         where ltrim(left(bits, n * 8 + 8), '0') <> '') end"
    )
}

/// The name of a type that is built in.
pub(crate) fn built_in(base: &BaseType) -> Option<&str> {
    (base.schema == "pg_catalog" && base.kind == TypeKind::Base).then_some(base.name.as_str())
}

/// An identifier, whatever characters it has.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
