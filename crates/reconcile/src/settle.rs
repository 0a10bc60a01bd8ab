//! [`settle`]: rows that differed or moved are looked at again until they are equal or stay different.
//!
//! A row differs for good when two looks in a row see the same on both sides: the second one looks at the source after
//! the replica was looked at the first time, so whatever the replica had then is visible, and it waits for the replica,
//! so whatever the source had then has arrived.

use std::{collections::HashMap, time::Duration};

use change::Lsn;
use pipeline::Fault;
use replica_delta::view::RowState;
use source_postgres::{Key, SourceView};

use crate::{
    compare::{Reconciliation, Step},
    report::{ColumnDifference, Difference, Drift},
};

/// Between two looks at least: a commit that waits for a standby is in Kafka before it can be seen.
const PAUSE: Duration = Duration::from_secs(1);

/// What both sides had of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) source: Option<String>,
    pub(crate) replica: Option<RowState>,
}

/// Rows to be looked at; with what differed at the last look, unless it moved then.
pub(crate) type Open = HashMap<Key, Option<Seen>>;

/// What became of them.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) looks: u32,
    pub(crate) drift: Vec<Drift>,
    pub(crate) has_more: bool,
    pub(crate) unsettled: usize,
}

/// What a look makes of a row.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Equal,
    Differs,
    /// Not known yet; with what is to be compared with the next look.
    Open(Option<Seen>),
}

fn look(before: Option<&Seen>, now: Seen, lsn: Lsn) -> Look {
    if now.source.as_deref() == now.replica.as_ref().and_then(|row| row.hash.as_deref()) {
        return Look::Equal;
    }
    if now.replica.as_ref().is_some_and(|row| row.order.lsn > lsn) {
        return Look::Open(None);
    }
    if before == Some(&now) { Look::Differs } else { Look::Open(Some(now)) }
}

pub(crate) async fn settle(
    reconciliation: &mut Reconciliation,
    mut open: Open,
    step: &mut (dyn FnMut(Step) + Send),
) -> Result<Settled, Fault> {
    let mut settled = Settled::default();
    while !open.is_empty() && settled.looks < reconciliation.limits.looks {
        tokio::time::sleep(PAUSE).await;
        settled.looks += 1;
        step(Step::Looking { rows: open.len() });
        let source = reconciliation.look().await?;
        let replica = reconciliation.arrived(source.lsn()).await?;
        let keys: Vec<Key> = open.keys().cloned().collect();
        let of_source = source.hashes(&keys).await.map_err(Fault::halt)?;
        let of_replica = replica.named(&keys).await?;
        let (mut next, mut differing) = (Open::new(), Vec::new());
        for ((key, source_row), replica_row) in keys.into_iter().zip(of_source).zip(of_replica) {
            let now = Seen { source: source_row, replica: replica_row };
            let before = open.get(&key).and_then(Option::as_ref);
            match look(before, now.clone(), source.lsn()) {
                Look::Equal => {}
                Look::Differs => differing.push((key, now)),
                Look::Open(seen) => _ = next.insert(key, seen),
            }
        }
        let room = reconciliation.limits.named.saturating_sub(settled.drift.len());
        settled.has_more |= differing.len() > room;
        differing.truncate(room);
        settled.drift.extend(describe(reconciliation, &source, &replica, differing).await?);
        open = next;
    }
    settled.unsettled = open.len();
    settled.drift.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(settled)
}

/// Says in what way these rows differ.
async fn describe(
    reconciliation: &Reconciliation,
    source: &SourceView,
    replica: &replica_delta::ReplicaView,
    rows: Vec<(Key, Seen)>,
) -> Result<Vec<Drift>, Fault> {
    let is_on_both = |seen: &Seen| seen.source.is_some() && seen.replica.as_ref().is_some_and(|row| row.hash.is_some());
    let keys: Vec<Key> = rows.iter().filter(|(_, seen)| is_on_both(seen)).map(|(key, _)| key.clone()).collect();
    let of_source = source.texts(&keys).await.map_err(Fault::halt)?;
    let of_replica = replica.texts(&keys).await?;
    let mut texts = of_source.into_iter().zip(of_replica);
    let mut drift = Vec::with_capacity(rows.len());
    for (key, seen) in rows {
        let difference = if is_on_both(&seen) {
            let (one, other) = texts.next().unwrap_or_default();
            let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
            let columns = reconciliation.table.columns().iter().zip(one.into_iter().zip(other));
            let differing = columns.filter(|(_, (source, replica))| source != replica);
            let named = differing.map(|(column, (source, replica))| {
                let column = column.name.clone();
                ColumnDifference { column, source, replica }
            });
            Difference::Different(named.collect())
        } else if seen.source.is_some() {
            Difference::Missing
        } else {
            Difference::Extra
        };
        drift.push(Drift { key, difference, order: seen.replica.map(|row| row.order) });
    }
    Ok(drift)
}

#[cfg(test)]
mod tests {
    use change::Order;

    use super::*;

    fn seen(source: Option<&str>, replica: Option<(Option<&str>, u64)>) -> Seen {
        Seen {
            source: source.map(str::to_owned),
            replica: replica.map(|(hash, lsn)| {
                let order = Order { lsn: Lsn::try_from(lsn).unwrap(), ..Order::default() };
                RowState { hash: hash.map(str::to_owned), order }
            }),
        }
    }

    #[test]
    fn a_row_differs_when_two_looks_see_the_same_difference() {
        let lsn = Lsn::try_from(100_u64).unwrap();
        for now in [
            seen(Some("a"), Some((Some("b"), 90))),
            seen(Some("a"), None),
            seen(Some("a"), Some((None, 90))),
            seen(None, Some((Some("b"), 90))),
        ] {
            assert_eq!(look(None, now.clone(), lsn), Look::Open(Some(now.clone())));
            assert_eq!(look(Some(&now), now.clone(), lsn), Look::Differs);
            // it is another difference than before
            let before = Seen { source: Some("z".to_owned()), replica: now.replica.clone() };
            assert_eq!(look(Some(&before), now.clone(), lsn), Look::Open(Some(now.clone())));
        }
    }

    #[test]
    fn a_row_that_is_equal_is_done_and_one_that_is_ahead_is_asked_for_again() {
        let lsn = Lsn::try_from(100_u64).unwrap();
        for equal in [
            seen(Some("a"), Some((Some("a"), 90))),
            seen(Some("a"), Some((Some("a"), 101))),
            seen(None, None),
            seen(None, Some((None, 101))),
        ] {
            assert_eq!(look(None, equal, lsn), Look::Equal);
        }
        let ahead = seen(Some("a"), Some((Some("b"), 101)));
        assert_eq!(look(Some(&ahead), ahead.clone(), lsn), Look::Open(None));
    }
}
