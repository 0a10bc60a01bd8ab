//! Exact dates and times: numbers of a declared unit, and ISO 8601 text, into days or microseconds.

use std::borrow::Cow;

use jiff::{
    Span,
    civil::{Date, DateTime, Time},
    fmt::temporal::Pieces,
};

use crate::{Problem, wire::Wire};

const UNIT_UNKNOWN: Problem = Problem::Value(
    "a number without a unit; declare the column as timestamp@millis, timestamp@micros or timestamp@nanos",
);
const UNIT_OF_DAY_UNKNOWN: Problem =
    Problem::Value("a number without a unit; declare the column as time@millis, time@micros or time@nanos");
const NOT_OF_DAY: Problem = Problem::Value("lies outside 00:00 to 24:00");
const TOO_FINE: Problem = Problem::Value("is finer than a microsecond");
const OUT_OF_RANGE: Problem = Problem::Unfit("is infinite, or lies outside the years 1 to 9999");

/// 0001-01-01 and 9999-12-31, in days since 1970-01-01: the range that every Delta reader can show.
const DAYS: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;
const MICROS_A_DAY: i64 = 86_400_000_000;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

fn in_range(micros: i64) -> Result<i64, Problem> {
    if DAYS.contains(&micros.div_euclid(MICROS_A_DAY)) { Ok(micros) } else { Err(OUT_OF_RANGE) }
}

/// Microseconds since 1970-01-01 from a number; without a declared unit, `default` holds.
pub(crate) fn micros(number: i64, wire: Option<Wire>, default: Option<Wire>) -> Result<i64, Problem> {
    match wire.or(default) {
        Some(Wire::Millis) => in_range(number.checked_mul(1000).ok_or(OUT_OF_RANGE)?),
        Some(Wire::Micros) => in_range(number),
        Some(Wire::Nanos) if number % 1000 == 0 => in_range(number / 1000),
        Some(Wire::Nanos) => Err(TOO_FINE),
        Some(_) => Err(Problem::Type { expected: "a time in ISO 8601", found: "a number" }),
        None => Err(UNIT_UNKNOWN),
    }
}

/// `HH:MM:SS.ffffff` from a number that counts from midnight; 24:00 is a time of its own in PostgreSQL.
pub(crate) fn of_day(number: i64, wire: Option<Wire>) -> Result<String, Problem> {
    let micros = match wire {
        Some(Wire::Millis) => number.checked_mul(1000).ok_or(NOT_OF_DAY)?,
        Some(Wire::Micros) => number,
        Some(Wire::Nanos) if number % 1000 == 0 => number / 1000,
        Some(Wire::Nanos) => return Err(TOO_FINE),
        Some(_) => return Err(Problem::Type { expected: "a time of day in ISO 8601", found: "a number" }),
        None => return Err(UNIT_OF_DAY_UNKNOWN),
    };
    if !(0..=MICROS_A_DAY).contains(&micros) {
        return Err(NOT_OF_DAY);
    }
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    Ok(format!("{:02}:{:02}:{:02}.{micros:06}", seconds / 3600, seconds / 60 % 60, seconds % 60))
}

/// The same from ISO 8601 text. A trailing `Z`, which Debezium's isostring mode adds, carries no meaning.
pub(crate) fn of_day_text(text: &str) -> Result<String, Problem> {
    let shape = Problem::Type { expected: "a time of day in ISO 8601", found: "another string" };
    let time = text.strip_suffix('Z').unwrap_or(text);
    if time.starts_with("24:00:00") && time[8..].chars().all(|c| matches!(c, '.' | '0')) {
        return of_day(MICROS_A_DAY, Some(Wire::Micros));
    }
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    if !has_form(clock, "00:00:00") || clock.ends_with("60") || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return Err(shape);
    }
    let parsed: Time = time.parse().map_err(|_| shape)?;
    if parsed.subsec_nanosecond() % 1000 != 0 {
        return Err(TOO_FINE);
    }
    Ok(format!("{clock}.{:06}", parsed.subsec_nanosecond() / 1000))
}

/// Days since 1970-01-01 from a number.
pub(crate) fn days(number: i64, wire: Option<Wire>) -> Result<i64, Problem> {
    match wire.unwrap_or(Wire::Days) {
        Wire::Days if DAYS.contains(&number) => Ok(number),
        Wire::Days => Err(OUT_OF_RANGE),
        _ => Err(Problem::Type { expected: "a date in ISO 8601", found: "a number" }),
    }
}

/// The infinities, and years with a sign: those before the year 0 and after 9999.
fn is_beyond(text: &str) -> bool {
    matches!(text, "infinity" | "-infinity")
        || text.strip_prefix(['+', '-']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether digits stand where `form` has zeros, and the same marks where it has marks; `_` is any.
fn has_form(text: &str, form: &str) -> bool {
    let is_alike =
        |(found, form): (u8, u8)| if form == b'0' { found.is_ascii_digit() } else { found == form || form == b'_' };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(is_alike)
}

/// jiff reads other forms of ISO 8601, too, and a leap second as second 59; hour 24 is not a time that it knows.
fn is_calendar_time(text: &str) -> bool {
    text.get(..19).is_some_and(|time| has_form(time, "0000-00-00_00:00:00") && !time.ends_with("60"))
}

/// An instant from ISO 8601 text with an offset, in microseconds since 1970-01-01T00:00:00Z.
pub(crate) fn instant(text: &str) -> Result<i64, Problem> {
    let shape = Problem::Type { expected: "an instant in ISO 8601 with its offset", found: "another string" };
    if is_beyond(text) {
        return Err(OUT_OF_RANGE);
    }
    if !is_calendar_time(text) {
        return Err(shape);
    }
    // jiff's own instants end a day before the year 9999 does
    let pieces = Pieces::parse(text).map_err(|_| shape.clone())?;
    let (Some(time), Some(offset)) = (pieces.time(), pieces.to_numeric_offset()) else { return Err(shape) };
    in_range(since_epoch(pieces.date().to_datetime(time))? - i64::from(offset.seconds()) * 1_000_000)
}

/// A wall-clock time from ISO 8601 text, in microseconds since 1970-01-01T00:00:00. A trailing `Z`, which
/// Debezium's isostring mode adds, carries no meaning for such a column.
pub(crate) fn wall_clock(text: &str) -> Result<i64, Problem> {
    let shape = Problem::Type { expected: "a time in ISO 8601 without an offset", found: "another string" };
    if is_beyond(text) {
        return Err(OUT_OF_RANGE);
    }
    if !is_calendar_time(text) || text.contains('[') || text[10..].contains(['+', '-']) {
        return Err(shape);
    }
    let time: DateTime = text.strip_suffix('Z').unwrap_or(text).parse().map_err(|_| shape)?;
    in_range(since_epoch(time)?)
}

/// Microseconds since 1970-01-01T00:00:00.
fn since_epoch(time: DateTime) -> Result<i64, Problem> {
    if time.subsec_nanosecond() % 1000 != 0 {
        return Err(TOO_FINE);
    }
    i64::try_from(time.duration_since(EPOCH).as_micros()).map_err(|_| OUT_OF_RANGE)
}

/// A date from ISO 8601 text, in days since 1970-01-01.
pub(crate) fn date(text: &str) -> Result<i64, Problem> {
    let shape = Problem::Type { expected: "a date in ISO 8601", found: "another string" };
    if is_beyond(text) {
        return Err(OUT_OF_RANGE);
    }
    let date = text.strip_suffix('Z').unwrap_or(text);
    if !has_form(date, "0000-00-00") {
        return Err(shape);
    }
    let date: Date = date.parse().map_err(|_| shape)?;
    let since = date.since(Date::constant(1970, 1, 1)).map_err(|_| OUT_OF_RANGE)?;
    days(i64::from(since.get_days()), None)
}

/// An interval in ISO 8601, to the microsecond. Debezium takes the seconds by way of a double and cuts them after nine
/// digits, so that 1.801344 may come as 1.801343999: nothing else is that close below a microsecond.
pub(crate) fn interval(text: Cow<'_, str>) -> Result<Cow<'_, str>, Problem> {
    let Some((rest, fraction)) = text.strip_suffix('S').and_then(|text| text.rsplit_once('.')) else { return Ok(text) };
    if fraction.len() <= 6 {
        return Ok(text);
    }
    let is_micros = |digits: &&str| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_digit());
    let below = fraction.strip_suffix("999").filter(is_micros).ok_or(TOO_FINE)?;
    let micros = below.parse::<u32>().map_err(|_| TOO_FINE)? + 1;
    if micros == 1_000_000 {
        return Err(TOO_FINE);
    }
    Ok(format!("{rest}.{}S", format!("{micros:06}").trim_end_matches('0')).into())
}

/// `YYYY-MM-DD` from days since 1970-01-01; `None` outside the years 1 to 9999.
pub(crate) fn date_text(days: i64) -> Option<String> {
    let days = Span::new().try_days(days).ok().filter(|_| DAYS.contains(&days))?;
    Some(Date::constant(1970, 1, 1).checked_add(days).ok()?.to_string())
}

/// `YYYY-MM-DDTHH:MM:SS.ffffff` from microseconds since 1970-01-01T00:00:00; `None` as above.
pub(crate) fn wall_clock_text(micros: i64) -> Option<String> {
    let date = date_text(micros.div_euclid(MICROS_A_DAY))?;
    let time = of_day(micros.rem_euclid(MICROS_A_DAY), Some(Wire::Micros)).ok()?;
    Some(format!("{date}T{time}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_in_every_form() {
        let micros_of = 1_709_210_096_789_012;
        assert_eq!(instant("2024-02-29T12:34:56.789012Z"), Ok(micros_of));
        assert_eq!(instant("2024-02-29T21:34:56.789012+09:00"), Ok(micros_of));
        assert_eq!(wall_clock("2024-02-29T12:34:56.789012"), Ok(micros_of));
        assert_eq!(wall_clock("2024-02-29T12:34:56.789012Z"), Ok(micros_of));
        assert_eq!(micros(micros_of, None, Some(Wire::Micros)), Ok(micros_of));
        assert_eq!(micros(1_709_210_096_789, Some(Wire::Millis), Some(Wire::Micros)), Ok(1_709_210_096_789_000));
        assert_eq!(micros(1_709_210_096_789_012_000, Some(Wire::Nanos), None), Ok(micros_of));
        assert_eq!(date("2024-02-29Z"), Ok(19_782));
        assert_eq!(date("2024-02-29"), Ok(19_782));
        assert_eq!(days(19_782, None), Ok(19_782));
        assert_eq!(date("0001-01-01"), Ok(*DAYS.start()));
        assert_eq!(date("9999-12-31"), Ok(*DAYS.end()));
    }

    #[test]
    fn the_first_and_the_last_microsecond_are_in_range_and_their_neighbours_are_not() {
        let (first, last) = (*DAYS.start() * MICROS_A_DAY, (*DAYS.end() + 1) * MICROS_A_DAY - 1);
        assert_eq!(wall_clock("0001-01-01T00:00:00"), Ok(first));
        assert_eq!(wall_clock("9999-12-31T23:59:59.999999Z"), Ok(last));
        assert_eq!(instant("0001-01-01T00:00:00Z"), Ok(first));
        assert_eq!(instant("9999-12-31T23:59:59.999999Z"), Ok(last));
        assert_eq!(instant("9999-12-31T21:59:59.999999-02:00"), Ok(last));
        assert_eq!(wall_clock("0000-12-31T23:59:59.999999"), Err(OUT_OF_RANGE));
        assert_eq!(instant("0001-01-01T00:00:00+00:01"), Err(OUT_OF_RANGE));
        assert_eq!(instant("9999-12-31T23:59:59.999999-00:01"), Err(OUT_OF_RANGE));
    }

    #[test]
    fn a_time_has_one_text_that_reads_back_as_it() {
        for micros in [1_709_210_096_789_012, 0, -1, DAYS.start() * MICROS_A_DAY, (DAYS.end() + 1) * MICROS_A_DAY - 1] {
            let text = wall_clock_text(micros).unwrap();
            assert_eq!((instant(&format!("{text}Z")), wall_clock(&text)), (Ok(micros), Ok(micros)), "{text}");
        }
        for days in [19_782, 0, -1, *DAYS.start(), *DAYS.end()] {
            assert_eq!(date(&date_text(days).unwrap()), Ok(days));
        }
        assert_eq!(wall_clock_text(1_709_210_096_789_012).as_deref(), Some("2024-02-29T12:34:56.789012"));
        assert_eq!((wall_clock_text((DAYS.end() + 1) * MICROS_A_DAY), date_text(DAYS.start() - 1)), (None, None));
        assert_eq!((wall_clock_text(i64::MAX), date_text(i64::MIN)), (None, None));
    }

    #[test]
    fn one_time_of_day_in_every_form() {
        let text = |text: &str| Ok(text.to_owned());
        assert_eq!(of_day(45_296_789_012, Some(Wire::Micros)), text("12:34:56.789012"));
        assert_eq!(of_day(45_296_789, Some(Wire::Millis)), text("12:34:56.789000"));
        assert_eq!(of_day(45_296_789_012_000, Some(Wire::Nanos)), text("12:34:56.789012"));
        assert_eq!(of_day(86_400_000_000, Some(Wire::Micros)), text("24:00:00.000000"));
        assert_eq!(of_day(0, Some(Wire::Millis)), text("00:00:00.000000"));
        assert_eq!(of_day_text("12:34:56.789Z"), text("12:34:56.789000"));
        assert_eq!(of_day_text("12:34:56"), text("12:34:56.000000"));
        assert_eq!(of_day_text("24:00:00Z"), text("24:00:00.000000"));
        for number in [-1, 86_400_000_001, i64::MAX, i64::MIN] {
            assert!(of_day(number, Some(Wire::Micros)).is_err() && of_day(number, Some(Wire::Millis)).is_err());
        }
        assert_eq!(of_day(1, None), Err(UNIT_OF_DAY_UNKNOWN));
        assert_eq!(of_day(1, Some(Wire::Nanos)), Err(TOO_FINE));
        for bad in [
            "",
            "24:00:01",
            "25:00:00",
            "12:34",
            "12:34:60",
            "12:34:56.",
            "12:34:56.1234567",
            "12:34:56+02:00",
            "T12:34:56",
            "1:2:3",
            "24:00:00.000001",
        ] {
            assert!(of_day_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interval_keeps_its_microseconds_where_the_connector_cut_a_double() {
        for (text, expected) in [
            ("P1Y2M3DT4H5M6.789012S", "P1Y2M3DT4H5M6.789012S"),
            ("P0Y0M0DT0H0M0S", "P0Y0M0DT0H0M0S"),
            ("P1064Y1M-3613350DT0H0M1.801343999S", "P1064Y1M-3613350DT0H0M1.801344S"),
            ("P0Y0M0DT-18H-28M-10.870951999S", "P0Y0M0DT-18H-28M-10.870952S"),
            ("P0Y0M0DT0H0M0.799999999S", "P0Y0M0DT0H0M0.8S"),
        ] {
            assert_eq!(interval(text.into()).as_deref(), Ok(expected));
        }
        for text in
            ["PT1.8013435S", "PT1.801343998S", "PT1.801344001S", "PT1.999999999S", "PT1.8013439999S", "PT1.+12345999S"]
        {
            assert_eq!(interval(text.into()), Err(TOO_FINE), "{text}");
        }
    }

    #[test]
    fn what_a_delta_time_cannot_hold_is_refused() {
        for number in [9_223_372_036_825_200_000, -9_223_372_036_832_400_000, i64::MAX, i64::MIN] {
            for wire in [Wire::Millis, Wire::Micros] {
                assert_eq!(micros(number, Some(wire), None), Err(OUT_OF_RANGE));
            }
        }
        assert_eq!(micros(1, None, None), Err(UNIT_UNKNOWN));
        assert_eq!(micros(1, Some(Wire::Nanos), None), Err(TOO_FINE));
        assert_eq!(days(2_932_897, None), Err(OUT_OF_RANGE));
        for text in
            ["infinity", "-infinity", "+294247-01-10T04:00:25.2Z", "-290308-12-21T19:59:27.6Z", "-0043-03-15T12:00:00Z"]
        {
            assert_eq!([instant(text), wall_clock(text)], [const { Err(OUT_OF_RANGE) }; 2], "{text}");
        }
        assert_eq!(date("-5877611-06-21Z"), Err(OUT_OF_RANGE));
        for text in [
            "infinity",
            "-infinity",
            "",
            "2024-02-30T00:00:00Z",
            "2024-02-29T23:59:60Z",
            "20240229T235960Z",
            "2024-02-29T23Z",
            "2024-W09-4T23:59:59Z",
            "2024-02-29 12:34:56",
            "2024-02-29T12:34:56",
            "+294276-12-31T23:59:59.999999Z",
            "-4713-01-01T00:00:00Z",
            "2024-02-29T12:34:56.1234567Z",
        ] {
            assert!(instant(text).is_err(), "{text}");
        }
        for text in [
            "2024-02-29T12:34:56+09:00",
            "2024-02-29T23:59:60",
            "20240229T235960",
            "2024-02-29T12:34:56[UTC]",
            "12:34:56",
        ] {
            assert!(wall_clock(text).is_err(), "{text}");
        }
        for text in ["2024-02-30", "2024-02-29T00:00:00Z", "20240229", "20240229T1", "infinity", "0000-12-31"] {
            assert!(date(text).is_err(), "{text}");
        }
    }
}
