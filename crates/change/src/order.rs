//! [`Order`]: which of two events of a key is newer.
//!
//! A row's LSN alone loses rows on real Debezium streams: a transaction that was open when a snapshot began
//! delivers, after the snapshot row, a change whose LSN is below the snapshot's. So an event is ordered by two
//! LSNs, compared as a pair: the *anchor*, which orders transactions, and the LSN, which orders the changes
//! within one. `docs/adr/0001-ordering.md` argues for the rule and names its limits.

use crate::{Lsn, Op};

/// The pair (anchor, LSN). The guard lets an event through when its order is greater than the stored one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// The commit LSN that preceded the event's transaction.
    pub anchor: Lsn,
    /// The WAL address of the row change.
    pub lsn: Lsn,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.anchor, self.lsn)
    }
}

/// The greatest LSN of the snapshot rows read on one partition, incremental snapshots apart.
///
/// It anchors the first transaction after an initial snapshot, whose events do not name the commit before
/// them. It belongs to the partition's checkpoint: a restart has to order those events as the first run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon(pub Lsn);

/// `source.sequence`: the last commit before the event, and the event's own position.
pub type Sequence = (Option<Lsn>, Option<Lsn>);

/// What an envelope's `source` block says about an event's place in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// `source.lsn`.
    pub lsn: Option<Lsn>,
    /// `source.sequence`.
    pub sequence: Option<Sequence>,
    /// `source.snapshot` is `incremental`.
    pub incremental: bool,
}

impl Place {
    /// The order of an event at this place; `None` where the envelope names no LSN to order it by.
    ///
    /// A snapshot row raises the partition's `horizon`, unless it belongs to an incremental snapshot.
    pub fn order(&self, op: Op, horizon: &mut Horizon) -> Option<Order> {
        if op == Op::Read {
            let (committed, current) = self.sequence.unwrap_or_default();
            let at = self.lsn.into_iter().chain(committed).chain(current).max()?;
            if !self.incremental {
                horizon.0 = horizon.0.max(at);
            }
            return Some(Order { anchor: at.just_below(), lsn: at });
        }
        let lsn = self.lsn?;
        let anchor = match self.sequence {
            Some((Some(committed), _)) => committed,
            Some((None, _)) => lsn.max(horizon.0),
            None => lsn,
        };
        Some(Order { anchor, lsn })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(n: u64) -> Lsn {
        Lsn::try_from(n).unwrap()
    }

    fn place(at: Option<u64>, sequence: Option<(Option<u64>, Option<u64>)>) -> Place {
        let sequence = sequence.map(|(c, n)| (c.map(lsn), n.map(lsn)));
        Place { lsn: at.map(lsn), sequence, incremental: false }
    }

    #[test]
    fn every_row_of_the_rule() {
        let seen = 100;
        let table = [
            ("streamed", Op::Update, place(Some(90), Some((Some(120), Some(90)))), Some((120, 90))),
            ("first after a snapshot", Op::Update, place(Some(90), Some((None, Some(90)))), Some((100, 90))),
            ("first, above the snapshot", Op::Create, place(Some(140), Some((None, Some(140)))), Some((140, 140))),
            ("snapshot row", Op::Read, place(Some(200), Some((None, Some(200)))), Some((199, 200))),
            ("ad-hoc snapshot row without lsn", Op::Read, place(None, Some((Some(300), Some(296)))), Some((299, 300))),
            ("without sequence", Op::Delete, place(Some(150), None), Some((150, 150))),
            ("snapshot row without sequence", Op::Read, place(Some(150), None), Some((149, 150))),
            ("nothing to order by", Op::Read, place(None, None), None),
            ("streamed without lsn", Op::Create, place(None, Some((Some(5), Some(6)))), None),
        ];
        for (name, op, place, expected) in table {
            let got = place.order(op, &mut Horizon(lsn(seen)));
            assert_eq!(got, expected.map(|(a, l)| Order { anchor: lsn(a), lsn: lsn(l) }), "{name}");
        }
    }

    #[test]
    fn only_ordinary_snapshot_rows_raise_the_horizon() {
        let mut horizon = Horizon::default();
        place(Some(100), None).order(Op::Read, &mut horizon);
        assert_eq!(horizon.0, lsn(100));
        Place { incremental: true, ..place(Some(900), None) }.order(Op::Read, &mut horizon);
        place(Some(950), None).order(Op::Create, &mut horizon);
        place(Some(50), None).order(Op::Read, &mut horizon);
        assert_eq!(horizon.0, lsn(100));
    }

    #[test]
    fn the_anchor_weighs_more_than_the_lsn() {
        let earlier = Order { anchor: lsn(99), lsn: lsn(100) };
        let later = Order { anchor: lsn(100), lsn: lsn(40) };
        assert!(later > earlier);
    }
}
