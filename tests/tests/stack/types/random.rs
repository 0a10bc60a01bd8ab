//! Random values, as texts that PostgreSQL's types read: the extremes of each type among them, but only what every mode can carry.

use std::net::{Ipv4Addr, Ipv6Addr};

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// 0001-01-01 and 9999-12-30 as Julian days. A time of the day after would round to the year 10000 where a type has few digits.
const DAYS: std::ops::RangeInclusive<i64> = 1_721_426..=5_373_483;
/// 1582-10-15, the first day of the Gregorian calendar.
const GREGORIAN: i64 = 2_299_161;

/// One in so many values is an extreme.
const EXTREME: u32 = 8;

fn extreme<T: Copy>(random: &mut StdRng, extremes: &[T]) -> Option<T> {
    if random.random_ratio(1, EXTREME) { extremes.choose(random).copied() } else { None }
}

fn digits(random: &mut StdRng, count: usize) -> String {
    (0..count).map(|_| random.random_range('0'..='9')).collect()
}

/// Of so many bits, of every magnitude.
pub(crate) fn integer(random: &mut StdRng, bits: u32) -> String {
    let greatest = i64::MAX >> (64 - bits);
    let any = random.random::<i64>() >> (64 - random.random_range(1..=bits));
    extreme(random, &[greatest, -greatest - 1, 0]).unwrap_or(any).to_string()
}

pub(crate) fn decimal(random: &mut StdRng, precision: usize, scale: usize) -> String {
    let any = random.random_range(0..=precision);
    let nines = extreme(random, &[()]).map(|()| "9".repeat(precision));
    let unscaled = nines.unwrap_or_else(|| digits(random, any));
    let unscaled = format!("{unscaled:0>width$}", width = scale + 1);
    let (whole, fraction) = unscaled.split_at(unscaled.len() - scale);
    format!("{}{whole}.{fraction}", sign(random))
}

fn sign(random: &mut StdRng) -> &'static str {
    if random.random() { "-" } else { "" }
}

pub(crate) fn numeric(random: &mut StdRng) -> String {
    if let Some(special) = extreme(random, &["NaN", "Infinity", "-Infinity", "0.000"]) {
        return special.into();
    }
    let (whole, fraction) = (random.random_range(1..60), random.random_range(0..40));
    let zeros = "0".repeat(random.random_range(0..4));
    format!("{}{}.{}{zeros}", sign(random), digits(random, whole), digits(random, fraction))
}

pub(crate) fn money(random: &mut StdRng) -> String {
    let any = random.random::<i64>() >> random.random_range(0..63);
    let cents = extreme(random, &[i64::MAX, i64::MIN, 0]).unwrap_or(any);
    let (sign, whole, cents) =
        (if cents < 0 { "-" } else { "" }, cents.unsigned_abs() / 100, cents.unsigned_abs() % 100);
    format!("{sign}{whole}.{cents:02}")
}

pub(crate) fn real(random: &mut StdRng) -> String {
    let bits = f32::from_bits(random.random());
    let near = f32::from(random.random::<i16>()) / 100.0;
    let any = if random.random() { bits } else { near };
    let value = extreme(random, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, -0.0]);
    format!("{:e}", value.unwrap_or(any)).replace("inf", "Infinity")
}

pub(crate) fn double(random: &mut StdRng) -> String {
    let bits = f64::from_bits(random.random());
    let near = f64::from(random.random::<i32>()) / 100.0;
    let any = if random.random() { bits } else { near };
    let value = extreme(random, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -0.0]);
    format!("{:e}", value.unwrap_or(any)).replace("inf", "Infinity")
}

pub(crate) fn boolean(random: &mut StdRng) -> String {
    if random.random() { "t" } else { "f" }.into()
}

pub(crate) fn bits(random: &mut StdRng, length: usize) -> String {
    (0..length).map(|_| random.random_range('0'..='1')).collect()
}

pub(crate) fn bytes(random: &mut StdRng) -> String {
    let length = random.random_range(0..40);
    (0..length).fold("\\x".to_owned(), |text, _| text + &format!("{:02x}", random.random::<u8>()))
}

fn character(random: &mut StdRng) -> char {
    match random.random_range(0..10) {
        0..5 => random.random_range(' '..='~'),
        5..7 => *b"\t\n\r\"\\'/{},:\x01\x1f\x7f".choose(random).unwrap_or(&b' ') as char,
        7 => random.random_range('\u{a1}'..='\u{7ff}'),
        8 => random.random_range('\u{2000}'..='\u{d7ff}'),
        _ => random.random_range('\u{e000}'..='\u{10ffff}'),
    }
}

/// At most so many characters of any kind.
pub(crate) fn text(random: &mut StdRng, length: usize) -> String {
    let length = random.random_range(0..=length);
    (0..length).map(|_| character(random)).collect()
}

fn word(random: &mut StdRng) -> String {
    let length = random.random_range(1..8);
    (0..length).map(|_| random.random_range('a'..='z')).collect()
}

pub(crate) fn letter(random: &mut StdRng) -> String {
    random.random_range('!'..='[').into()
}

pub(crate) fn mood(random: &mut StdRng) -> String {
    ["sad", "ok", "happy"].choose(random).copied().unwrap_or_default().into()
}

pub(crate) fn uuid(random: &mut StdRng) -> String {
    format!("{:032x}", random.random::<u128>())
}

/// Without characters that XML does not have.
pub(crate) fn xml(random: &mut StdRng) -> String {
    let mut content = || -> String {
        let text = text(random, 10);
        let kept =
            text.chars().filter(|c| !matches!(c, '<' | '>' | '&' | '"' | '\u{0}'..='\u{1f}' | '\u{fffe}'..='\u{ffff}'));
        kept.collect()
    };
    format!("<a b=\"{}\">{}<!-- --></a>", content(), content())
}

fn address(random: &mut StdRng, is_network: bool) -> String {
    if random.random() {
        let length = random.random_range(0..=32);
        let mask = if is_network { u32::MAX.checked_shl(32 - length).unwrap_or(0) } else { u32::MAX };
        format!("{}/{length}", Ipv4Addr::from(random.random::<u32>() & mask))
    } else {
        let length = random.random_range(0..=128);
        let mask = if is_network { u128::MAX.checked_shl(128 - length).unwrap_or(0) } else { u128::MAX };
        let zeros = random.random_range(0..128);
        format!("{}/{length}", Ipv6Addr::from((random.random::<u128>() >> zeros) & mask))
    }
}

pub(crate) fn inet(random: &mut StdRng) -> String {
    address(random, false)
}

pub(crate) fn cidr(random: &mut StdRng) -> String {
    address(random, true)
}

/// Of so many bytes.
pub(crate) fn mac(random: &mut StdRng, length: usize) -> String {
    (0..length).map(|_| format!("{:02x}", random.random::<u8>())).collect::<Vec<_>>().join(":")
}

pub(crate) fn ltree(random: &mut StdRng) -> String {
    let length = random.random_range(0..5);
    (0..length).map(|_| word(random)).collect::<Vec<_>>().join(".")
}

pub(crate) fn tsvector(random: &mut StdRng) -> String {
    let length = random.random_range(0..5);
    let lexeme = |_| {
        let quoted = text(random, 6).replace('\\', "\\\\").replace('\'', "''");
        format!("'w{quoted}':{}A,{}", random.random_range(1..100), random.random_range(100..16_383))
    };
    (0..length).map(lexeme).collect::<Vec<_>>().join(" ")
}

/// A range whose bounds are made in order and then written.
pub(crate) fn range(random: &mut StdRng, bound: impl Fn(&mut StdRng) -> i64, write: impl Fn(i64) -> String) -> String {
    let (one, other) = (bound(random), bound(random));
    let (lower, upper) = (write(one.min(other)), write(one.max(other)));
    match random.random_range(0..12) {
        0 => "empty".into(),
        1 => "(,)".into(),
        2 => format!("[{lower},)"),
        3 => format!("(,{upper}]"),
        4..6 => format!("({lower},{upper}]"),
        _ => format!("[{lower},{upper})"),
    }
}

/// A document at most so deep, with space between its parts and numbers that no double holds.
pub(crate) fn json(random: &mut StdRng, depth: u32) -> String {
    let string = |random: &mut StdRng| {
        let text = text(random, 8).replace('\u{0}', "");
        serde_json::Value::from(text).to_string()
    };
    let space = ["", " ", "\n "].choose(random).copied().unwrap_or_default();
    match random.random_range(0..if depth == 0 { 4 } else { 6 }) {
        0 => ["true", "false", "null"].choose(random).copied().unwrap_or_default().into(),
        1 => format!("{}{}e{}", sign(random), random.random::<u32>(), random.random_range(-40..40)),
        2 => format!("{}{}.{}", sign(random), random.random::<u128>(), random.random::<u64>()),
        3 => string(random),
        4 => {
            let length = random.random_range(0..4);
            let elements: Vec<_> = (0..length).map(|_| json(random, depth - 1)).collect();
            format!("[{space}{}]", elements.join(&format!(",{space}")))
        }
        _ => {
            let length = random.random_range(0..4);
            let field = |_| format!("{}{space}:{}", string(random), json(random, depth - 1));
            let fields: Vec<_> = (0..length).map(field).collect();
            format!("{{{}{space}}}", fields.join(","))
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(crate) fn hstore(random: &mut StdRng) -> String {
    let length = random.random_range(0..5);
    let entry = |_| {
        let key = quoted(&text(random, 8));
        let value = if random.random_ratio(1, 5) { "NULL".to_owned() } else { quoted(&text(random, 8)) };
        format!("{key}=>{value}")
    };
    (0..length).map(entry).collect::<Vec<_>>().join(",")
}

pub(crate) fn point(random: &mut StdRng) -> String {
    format!("({},{})", double(random), double(random))
}

/// So many points with integers for coordinates.
pub(crate) fn points(random: &mut StdRng, count: usize) -> String {
    let point = |_| format!("({},{})", random.random::<i16>(), random.random::<i16>());
    (0..count).map(point).collect::<Vec<_>>().join(",")
}

/// A Julian day.
pub(crate) fn day(random: &mut StdRng) -> i64 {
    let any = random.random_range(DAYS);
    extreme(random, &[*DAYS.start(), *DAYS.end(), 2_440_588]).unwrap_or(any)
}

/// Without the days that the calendar's reform left out: a snapshot has them ten days later.
pub(crate) fn date(random: &mut StdRng) -> String {
    match day(random) {
        day if (GREGORIAN - 10..GREGORIAN).contains(&day) => format!("J{GREGORIAN}"),
        day => format!("J{day}"),
    }
}

fn of_day(micros: u64) -> String {
    let seconds = micros / 1_000_000;
    format!("{:02}:{:02}:{:02}.{:06}", seconds / 3600, seconds / 60 % 60, seconds % 60, micros % 1_000_000)
}

const DAY: u64 = 86_400_000_000;

pub(crate) fn time(random: &mut StdRng) -> String {
    let any = random.random_range(0..DAY);
    of_day(extreme(random, &[0, 1, DAY - 1, DAY]).unwrap_or(any))
}

pub(crate) fn time_of_millis(random: &mut StdRng) -> String {
    let any = random.random_range(0..DAY / 1000);
    of_day(1000 * extreme(random, &[0, 1, DAY / 1000 - 1, DAY / 1000]).unwrap_or(any))
}

/// With whole minutes: the connector cannot read the seconds of an offset.
pub(crate) fn time_with_zone(random: &mut StdRng) -> String {
    let (sign, minutes) = (if random.random() { '+' } else { '-' }, random.random_range(0..16 * 60));
    format!("{}{sign}{:02}:{:02}", of_day(random.random_range(0..DAY)), minutes / 60, minutes % 60)
}

pub(crate) fn timestamp(random: &mut StdRng) -> String {
    let any = random.random_range(0..DAY);
    let time = of_day(extreme(random, &[0, 1, DAY - 1]).unwrap_or(any));
    format!("J{} {time}", day(random))
}

/// After the calendar's reform: in an array, the connector takes earlier ones by the calendar of the time.
pub(crate) fn modern_timestamp(random: &mut StdRng) -> String {
    format!("J{} {}", day(random).max(GREGORIAN), of_day(random.random_range(0..DAY)))
}

pub(crate) fn instant(random: &mut StdRng) -> String {
    timestamp(random) + "+00"
}

pub(crate) fn interval(random: &mut StdRng) -> String {
    let (months, days) = (random.random::<i32>() >> random.random_range(0..32), random.random::<i32>() >> 8);
    let micros = random.random::<i64>() >> random.random_range(11..63);
    format!("{months} mons {days} days {micros} us")
}

/// An array of one dimension, nulls among its elements.
pub(crate) fn array(random: &mut StdRng, element: impl Fn(&mut StdRng) -> String) -> String {
    let length = random.random_range(0..5);
    let element = |_| if random.random_ratio(1, 8) { "NULL".to_owned() } else { quoted(&element(random)) };
    let elements: Vec<_> = (0..length).map(element).collect();
    format!("{{{}}}", elements.join(","))
}
