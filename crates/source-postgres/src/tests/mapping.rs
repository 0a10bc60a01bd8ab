//! What the document's table does not have.

use super::{modes, table};
use crate::{Sent, columns};

fn sent(sql: &str, json: &str) -> (Sent, String) {
    let plan = columns(&table(&[("c", sql)]), &modes(json)).remove(0);
    (plan.sent, plan.notes.join("; "))
}

fn declared(sql: &str, json: &str) -> String {
    match sent(sql, json).0 {
        Sent::As(declaration) => declaration,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn forms_follow_the_modes() {
    let micros = r#"{"time.precision.mode": "microseconds"}"#;
    let nanos = r#"{"time.precision.mode": "nanoseconds"}"#;
    let urls = r#"{"binary.handling.mode": "base64-url-safe", "include.unknown.datatypes": true}"#;
    let text = r#"{"decimal.handling.mode": "string"}"#;
    let double = r#"{"decimal.handling.mode": "double"}"#;
    let cents = r#"{"money.fraction.digits": 4}"#;
    let table = [
        ("time(3)", micros, "time@micros"),
        ("timestamp(0)", micros, "timestamp_ntz@micros"),
        ("time", nanos, "time@nanos"),
        ("timestamp", nanos, "timestamp_ntz@nanos"),
        ("date", nanos, "date"),
        ("time[]", "{}", "array<time>@micros"),
        ("time(2)[]", "{}", "array<time>@millis"),
        ("bytea", urls, "binary@base64url"),
        ("bytea[]", urls, "array<binary>@base64url"),
        ("pg_lsn", urls, "binary@base64url"),
        ("pg_lsn[]", urls, "array<binary>@base64url"),
        ("bit(8)", urls, "binary"),
        ("numeric(38,38)", "{}", "decimal(38,38)@base64"),
        ("numeric(39,2)", "{}", "numeric(39,2)@base64"),
        ("numeric(3,5)", "{}", "numeric(3,5)@base64"),
        ("numeric(1000,0)", text, "numeric(1000,0)@text"),
        ("numeric(1000,0)", double, "numeric(1000,0)"),
        ("numeric[]", text, "array<numeric>@text"),
        ("money", cents, "decimal(19,4)@base64"),
        ("smallint[]", "{}", "array<short>"),
        ("real[]", "{}", "array<float>"),
        ("citext[]", "{}", "array<string>"),
        ("jsonb[]", "{}", "array<json>"),
        ("name", r#"{"include.unknown.datatypes": true}"#, "string"),
        ("bit varying(1)", "{}", "boolean"),
    ];
    for (sql, json, expected) in table {
        assert_eq!(declared(sql, json), expected, "{sql} under {json}");
    }
}

#[test]
fn what_is_not_sent_or_not_known_says_why() {
    let unknown = r#"{"include.unknown.datatypes": true}"#;
    for (sql, json) in [
        ("money[]", "{}"),
        ("money[]", unknown),
        ("interval[]", unknown),
        ("name[]", "{}"),
        ("cube", "{}"),
        ("domain over numeric[]", "{}"),
    ] {
        assert!(matches!(sent(sql, json).0, Sent::LeftOut(reason) if reason.contains(sql)), "{sql}");
    }
    for sql in ["vector", "tsvector[]", "bit(3)[]", "numeric(5,-2)"] {
        assert!(matches!(sent(sql, unknown).0, Sent::Unread(reason) if reason.contains(sql)), "{sql}");
    }
}

#[test]
fn a_mode_that_loses_something_is_noted() {
    let table = [
        ("numeric(12,2)", "{}", "NaN"),
        ("numeric", "{}", "1.5"),
        ("numeric(16,2)", r#"{"decimal.handling.mode": "double"}"#, "15 digits"),
        ("numeric(15,2)", r#"{"decimal.handling.mode": "double"}"#, ""),
        ("numeric", r#"{"decimal.handling.mode": "double"}"#, "refused"),
        ("timestamp", r#"{"time.precision.mode": "connect"}"#, "milliseconds"),
        ("timestamp(3)", r#"{"time.precision.mode": "connect"}"#, ""),
        ("time", r#"{"time.precision.mode": "isostring"}"#, "24:00:00"),
        ("interval", "{}", "interval.handling.mode=string"),
        ("name", "{}", "include.unknown.datatypes"),
        ("numeric(12,2)", r#"{"decimal.handling.mode": "string"}"#, ""),
        ("timestamp with time zone", "{}", ""),
    ];
    for (sql, json, part) in table {
        let notes = sent(sql, json).1;
        assert!(notes.contains(part) && notes.is_empty() == part.is_empty(), "{sql} under {json}: {notes}");
    }
}

#[test]
fn a_second_dimension_is_noted() {
    let mut table = table(&[("c", "integer[]")]);
    table.columns[0].array = Some(2);
    assert!(columns(&table, &modes("{}"))[0].notes[0].contains("second dimension"));
}

#[test]
fn the_connectors_column_lists_leave_columns_out() {
    let table = table(&[("id", "bigint"), ("secret", "text")]);
    let sent =
        |json| columns(&table, &modes(json)).into_iter().map(|plan| plan.declared().is_some()).collect::<Vec<_>>();
    assert_eq!(sent(r#"{"column.exclude.list": "public.t.secret"}"#), [true, false]);
    assert_eq!(sent(r#"{"column.include.list": "public[.]t[.](id|x)"}"#), [true, false]);
}

#[test]
fn a_generated_column_has_to_be_left_out() {
    let mut table = table(&[("id", "bigint"), ("twice", "bigint")]);
    table.columns[1].generated = true;
    assert!(
        matches!(&columns(&table, &modes("{}"))[1].sent, Sent::Unread(reason) if reason.contains("column.exclude.list"))
    );
    let excluded = columns(&table, &modes(r#"{"column.exclude.list": "public.t.twice"}"#));
    assert!(matches!(excluded[1].sent, Sent::LeftOut(_)));
}
