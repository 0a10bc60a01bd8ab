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
    /// The commit LSN that preceded the event's transaction; or, by [`Order::of_offset`], a place in the partition.
    pub anchor: Lsn,
    /// The WAL address of the row change.
    pub lsn: Lsn,
}

impl Order {
    /// The order of a record by its offset in its partition, where not every record names an LSN: the anchor is the
    /// offset after it, above zero. A connector that delivers a part of its history again goes on from there in the
    /// same order, so the last record of a key is the right one; and a topic that is read again has the offsets that it
    /// had. `None` for an offset below zero.
    #[must_use]
    pub fn of_offset(offset: i64, lsn: Lsn) -> Option<Self> {
        let offset = u64::try_from(offset).ok()?;
        Some(Self { anchor: Lsn::try_from(offset + 1).ok()?, lsn })
    }

    /// The order of what was found out about a row beside its events: above the one that it has, and below that of every
    /// event that is still to come.
    #[must_use]
    pub fn just_above(self) -> Self {
        Self { lsn: self.lsn.just_above(), ..self }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.anchor, self.lsn)
    }
}

/// What has to be known of a partition's earlier records to order its later ones.
///
/// It belongs to the partition's checkpoint: a restart has to order events as the first run did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Horizon {
    /// The greatest LSN of the initial snapshots' rows. It anchors the first transaction after such a snapshot, whose
    /// events do not name the commit before them. The rows of ad-hoc snapshots name one and do not count: when the
    /// connector crashes after one and delivers that transaction again, its events must not come to stand above it.
    pub snapshots: Lsn,
    /// The greatest LSN that the stream has reached: the anchors of its events, and what ad-hoc snapshots name.
    pub streamed: Lsn,
    /// The greatest `source.ts_ms` of both.
    pub at: i64,
}

/// The sign that the source's LSNs have begun again: an initial snapshot that is newer by the clock than every event
/// before it, and below one of them by its LSN. A restored database, or a new one, gives it; an old snapshot row that is
/// delivered again does not. Ad-hoc snapshots tell nothing: one that a connector takes again after a crash stands where
/// its stream does, which is below what it had delivered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restart {
    /// The snapshot's LSN.
    pub lsn: Lsn,
    /// The LSN that had been reached before it.
    pub reached: Lsn,
    /// When the snapshot was taken: `source.ts_ms`, the same in all its rows.
    pub taken_at: i64,
}

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
    /// `source.ts_ms`.
    pub at: Option<i64>,
}

impl Place {
    /// The order of an event at this place; `None` where the envelope names no LSN to order it by.
    ///
    /// It becomes a part of the partition's `horizon`.
    pub fn order(&self, op: Op, horizon: &mut Horizon) -> Option<Order> {
        if op == Op::Read {
            let at = self.snapshot_lsn()?;
            let reached = if self.is_of_initial_snapshot() { &mut horizon.snapshots } else { &mut horizon.streamed };
            *reached = at.max(*reached);
            horizon.at = horizon.at.max(self.at.unwrap_or_default());
            return Some(Order { anchor: at.just_below(), lsn: at });
        }
        let lsn = self.lsn?;
        let anchor = match self.sequence {
            Some((None, _)) => lsn.max(horizon.snapshots),
            Some((Some(committed), _)) => committed,
            None => lsn,
        };
        horizon.streamed = horizon.streamed.max(anchor);
        horizon.at = horizon.at.max(self.at.unwrap_or_default());
        Some(Order { anchor, lsn })
    }

    /// Whether an event at this place shows that the source's LSNs have begun again. One without a time never does.
    #[must_use]
    pub fn restart(&self, op: Op, horizon: &Horizon) -> Option<Restart> {
        let (lsn, taken_at) = (self.snapshot_lsn()?, self.at?);
        let reached = horizon.streamed.max(horizon.snapshots);
        let is_initial = op == Op::Read && self.is_of_initial_snapshot();
        (is_initial && lsn < reached && taken_at > horizon.at).then_some(Restart { lsn, reached, taken_at })
    }

    /// Whether a snapshot row here is of an initial snapshot. Ad-hoc ones name the commit before them, or say that they are
    /// incremental.
    fn is_of_initial_snapshot(&self) -> bool {
        let (committed, _) = self.sequence.unwrap_or_default();
        committed.is_none() && !self.incremental
    }

    fn snapshot_lsn(&self) -> Option<Lsn> {
        let (committed, current) = self.sequence.unwrap_or_default();
        self.lsn.into_iter().chain(committed).chain(current).max()
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
        Place { lsn: at.map(lsn), sequence, incremental: false, at: None }
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
            let got = place.order(op, &mut Horizon { snapshots: lsn(seen), ..Horizon::default() });
            assert_eq!(got, expected.map(|(a, l)| Order { anchor: lsn(a), lsn: lsn(l) }), "{name}");
        }
    }

    #[test]
    fn only_rows_of_initial_snapshots_raise_the_horizon() {
        let mut horizon = Horizon::default();
        place(Some(100), None).order(Op::Read, &mut horizon);
        assert_eq!(horizon.snapshots, lsn(100));
        Place { incremental: true, ..place(Some(900), None) }.order(Op::Read, &mut horizon);
        place(Some(950), None).order(Op::Create, &mut horizon);
        place(Some(50), None).order(Op::Read, &mut horizon);
        place(Some(990), Some((Some(980), Some(990)))).order(Op::Read, &mut horizon);
        assert_eq!(horizon.snapshots, lsn(100));
    }

    #[test]
    fn a_later_snapshot_below_what_was_read_shows_that_the_lsns_have_begun_again() {
        let streamed = [
            ("names its commit", place(Some(90), Some((Some(120), Some(90)))), 120),
            ("has no sequence", place(Some(130), None), 130),
            ("names no commit", place(Some(900), Some((None, Some(900)))), 900),
        ];
        for (name, place, expected) in streamed {
            let mut horizon = Horizon::default();
            Place { at: Some(1000), ..place }.order(Op::Update, &mut horizon);
            assert_eq!(horizon.streamed, lsn(expected), "{name}");
        }
        let horizon = Horizon { snapshots: lsn(50), streamed: lsn(120), at: 1000 };
        let below = Place { at: Some(2000), ..place(Some(60), Some((None, Some(64)))) };
        let table = [
            ("a snapshot below", Op::Read, below, true),
            ("a genuine re-snapshot", Op::Read, Place { lsn: Some(lsn(120)), ..below }, false),
            ("a blocking one", Op::Read, Place { sequence: Some((Some(lsn(60)), Some(lsn(64)))), ..below }, false),
            ("of an incremental snapshot", Op::Read, Place { incremental: true, ..below }, false),
            ("an old one that comes again", Op::Read, Place { at: Some(900), ..below }, false),
            ("without a time", Op::Read, Place { at: None, ..below }, false),
            ("a streamed event", Op::Update, below, false),
        ];
        for (name, op, place, is_sign) in table {
            let sign = Restart { lsn: lsn(64), reached: lsn(120), taken_at: 2000 };
            assert_eq!(place.restart(op, &horizon), is_sign.then_some(sign), "{name}");
            let read_before = Horizon { snapshots: lsn(120), streamed: Lsn::ZERO, at: 1000 };
            assert_eq!(place.restart(op, &read_before), is_sign.then_some(sign), "{name}, nothing streamed");
        }
    }

    #[test]
    fn the_anchor_weighs_more_than_the_lsn() {
        let earlier = Order { anchor: lsn(99), lsn: lsn(100) };
        let later = Order { anchor: lsn(100), lsn: lsn(40) };
        assert!(later > earlier);
    }
}
