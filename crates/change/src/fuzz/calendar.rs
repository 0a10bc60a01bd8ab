//! Dates and times without jiff: a second opinion on what the decoder made of a text.

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, from counting leap years.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let leap_days = |year: i64| year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let is_leap = leap_days(year) > leap_days(year - 1);
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: i64 = months.iter().zip(1..month).map(|(days, _)| days).sum();
    (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969) + before + day - 1
}

/// Cuts a number of so many digits off `text`.
fn digits(text: &mut &str, count: usize) -> Option<i64> {
    let (number, rest) = text.split_at_checked(count)?;
    let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
    *text = rest;
    Some(number)
}

fn mark(text: &mut &str, marks: &[char]) -> Option<()> {
    *text = text.strip_prefix(marks)?;
    Some(())
}

/// `YYYY-MM-DD`, in days since 1970-01-01.
pub(super) fn date(text: &mut &str) -> Option<i64> {
    let year = digits(text, 4)?;
    mark(text, &['-'])?;
    let month = digits(text, 2)?;
    mark(text, &['-'])?;
    Some(days(year, month, digits(text, 2)?))
}

/// `HH:MM:SS` and digits after a point, in microseconds.
pub(super) fn clock(text: &mut &str) -> Option<i64> {
    let hour = digits(text, 2)?;
    mark(text, &[':'])?;
    let minute = digits(text, 2)?;
    mark(text, &[':'])?;
    let second = digits(text, 2).filter(|second| *second < 60)?;
    let mut nanos = 0;
    if mark(text, &['.', ',']).is_some() {
        let mut weight = 100_000_000;
        while let Some(digit) = digits(text, 1) {
            nanos += digit * weight;
            weight /= 10;
        }
    }
    ((nanos % 1000) == 0).then_some(((hour * 60 + minute) * 60 + second) * 1_000_000 + nanos / 1000)
}

/// A date, a clock and what follows them, in microseconds since 1970-01-01T00:00:00 and as text.
pub(super) fn time(mut text: &str) -> Option<(i64, &str)> {
    let day = date(&mut text)?;
    mark(&mut text, &['T', 't', ' '])?;
    Some((day * 86_400_000_000 + clock(&mut text)?, text))
}

/// `Z` or `+HH:MM`, in microseconds east of Greenwich; `None` where it is written in another way.
pub(super) fn offset(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(0),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let hours = digits(&mut rest, 2)?;
    mark(&mut rest, &[':'])?;
    let minutes = digits(&mut rest, 2)?;
    rest.is_empty().then_some(sign * (hours * 60 + minutes) * 60_000_000)
}
