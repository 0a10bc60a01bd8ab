//! Compares PostgreSQL's table with the replica: both print every column of every row as CSV, with the same text for the same value, and the
//! texts must be equal; a count, an order-independent and an ordered hash of them are the figures.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;

use anyhow::{Context, Result, bail};

use crate::highwater::Highwater;
use crate::shop::Shop;

/// At most so many keys of a difference are named.
const NAMED: usize = 10;

/// What one side holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// How many.
    pub rows: usize,
    /// Sum of the rows' hashes: the same in any order.
    pub set: u64,
    /// Hash of the rows in the order of their keys.
    pub list: u64,
}

/// `status` gets a prefix, since CSV does not tell an empty text from a NULL everywhere, and no line breaks.
const STATUS: &str = "coalesce('=' || replace(status, chr(10), '\\n'), 'null') as status";

/// Fails with the differing keys, unless both sides hold the same rows.
pub fn compare(shop: &Shop, highwater: &Highwater) -> Result<Digest> {
    let source = source(shop)?;
    let replica = replica(highwater)?;
    let (ours, theirs) = (digest(&source), digest(&replica));
    if ours != theirs {
        bail!("the replica differs from PostgreSQL, {theirs:?} from {ours:?}: {}", differences(&source, &replica));
    }
    Ok(ours)
}

fn source(shop: &Shop) -> Result<Vec<String>> {
    let micros = "(extract(epoch from updated_at) * 1000000)::bigint as updated_at";
    let query =
        format!("select order_id, customer_id, {STATUS}, amount, {micros} from public.orders order by order_id");
    let mut client = shop.database.client()?;
    let mut text = String::new();
    client.copy_out(&format!("copy ({query}) to stdout (format csv)"))?.read_to_string(&mut text)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn replica(highwater: &Highwater) -> Result<Vec<String>> {
    let micros = "cast(updated_at as bigint) as updated_at";
    let query =
        format!("select order_id, customer_id, {STATUS}, amount, {micros} from orders_current order by order_id");
    let text = highwater.sql(&query)?;
    let mut lines = text.lines().map(str::to_owned);
    let header = lines.next().context("highwater sql printed nothing, not even a header")?;
    anyhow::ensure!(header == "order_id,customer_id,status,amount,updated_at", "unexpected header: {header}");
    Ok(lines.collect())
}

fn digest(lines: &[String]) -> Digest {
    let hash = |line: &String| {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        hasher.finish()
    };
    let mut list = DefaultHasher::new();
    lines.hash(&mut list);
    Digest { rows: lines.len(), set: lines.iter().map(hash).fold(0, u64::wrapping_add), list: list.finish() }
}

fn differences(source: &[String], replica: &[String]) -> String {
    let by_key = |lines: &[String]| -> BTreeMap<i64, String> {
        let key = |line: &String| line.split(',').next().and_then(|key| key.parse().ok()).unwrap_or(i64::MIN);
        lines.iter().map(|line| (key(line), line.clone())).collect()
    };
    let (source, replica) = (by_key(source), by_key(replica));
    let differing: Vec<String> = source
        .keys()
        .chain(replica.keys().filter(|key| !source.contains_key(key)))
        .filter_map(|key| match (source.get(key), replica.get(key)) {
            (Some(_), None) => Some(format!("{key} is missing")),
            (None, Some(_)) => Some(format!("{key} is too many")),
            (ours, theirs) => (ours != theirs).then(|| format!("{key} differs")),
        })
        .collect();
    let named = differing.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    format!("{} keys: {named}", differing.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_set_hash_ignores_the_order_and_the_list_hash_does_not() {
        let (a, b) = (digest(&lines("1,a 2,b")), digest(&lines("2,b 1,a")));
        assert_eq!(a.set, b.set);
        assert_ne!(a.list, b.list);
        assert_ne!(a.set, digest(&lines("1,a 2,c")).set);
    }

    #[test]
    fn a_difference_names_its_keys() {
        let text = differences(&lines("1,a 2,b 3,c"), &lines("1,a 3,d 4,e"));
        assert_eq!(text, "3 keys: 2 is missing, 3 differs, 4 is too many");
    }
}
