//! Where to begin reading an assigned partition, and the accidents that are seen there.
//!
//! Whatever does not fit halts the table with a command as the remedy: reading on elsewhere would skip records, or take
//! another topic's for this one's. `docs/adr/0005-epochs.md` has the reasons.

use change::{Horizon, Lsn, RecordRef, Restart};

use crate::{
    Acknowledged, AssignedPartition, Before, Checkpoint, Epoch, Fault, Mark, Position, TopicPartition, Witness,
};

/// Which positions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The group's offset or the replica's checkpoint, whichever is further; the beginning where there is neither.
    Resume,
    /// The group's offset alone; the beginning where there is none.
    Committed,
    /// The beginning, whatever was acknowledged.
    Earliest,
}

/// What the operator accepts for a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accept {
    /// Records that are gone before they were read.
    pub gap: bool,
    /// A topic that is not the one that the table was read from.
    pub topic: bool,
}

/// Where a partition begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) position: Position,
    /// The table's own position has to be set back to it.
    pub(crate) is_rewound: bool,
}

/// One partition at its assignment, and what its table knows of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) table: &'a str,
    pub(crate) assigned: &'a AssignedPartition,
    /// The positions in the table's commits.
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) epoch: Epoch,
    pub(crate) accept: Accept,
    /// The table's rows are ordered by the offsets of their records.
    pub(crate) by_offset: bool,
}

impl Mark {
    /// Whether a table of this epoch, with this checkpoint, still holds what was there when the mark was made.
    fn is_held(self, epoch: Epoch, checkpoint: Option<Position>) -> bool {
        // a position of a time without marks has none of these
        let is_same = self.epoch.table == 0 || self.epoch.table == epoch.table;
        is_same && self.epoch.since == epoch.since && self.checkpoint <= checkpoint.map_or(0, |known| known.offset)
    }
}

impl Arrival<'_> {
    /// The partition's position in the table's commits.
    pub(crate) fn checkpoint(&self) -> Option<Position> {
        self.checkpoint.get(&self.assigned.partition).copied()
    }

    /// The position that reading resumes at, as far as table and group know; `None` is the beginning.
    pub(crate) fn resume(&self, start_at: StartAt) -> Option<Position> {
        let group = self.assigned.committed.filter(|_| self.lost_position().is_none()).map(|group| group.position);
        match start_at {
            StartAt::Earliest => None,
            StartAt::Committed => group,
            // of two equal offsets, the one that knows more
            StartAt::Resume => group.into_iter().chain(self.checkpoint()).max(),
        }
    }

    /// The group's position, where the table has not got what it counts on.
    fn lost_position(&self) -> Option<(Position, Mark)> {
        let Acknowledged { position, mark } = self.assigned.committed?;
        let mark = mark?;
        (!mark.is_held(self.epoch, self.checkpoint())).then_some((position, mark))
    }

    /// The offset whose record before it has to be the known one; `None` where there is none to look at. Beyond the
    /// end of the topic, too: the end was asked for before the table was read, and a member that the group has given
    /// up may have been at work in between.
    pub(crate) fn witness_wanted(&self, resume: Option<Position>) -> Option<(TopicPartition, i64)> {
        let AssignedPartition { partition, low, high, .. } = self.assigned;
        let Position { offset, witness, .. } = resume?;
        (*low < offset && (witness.is_known() || offset > *high)).then(|| (partition.clone(), offset))
    }

    /// Where to begin, given what was found before `resume`.
    ///
    /// # Errors
    /// A halt where records are missing, or the topic is another one, unless the operator accepted it.
    pub(crate) fn start(&self, resume: Option<Position>, found: Before) -> Result<Start, Fault> {
        let Self { table, assigned: AssignedPartition { partition, low, high, .. }, .. } = self;
        let (low, high) = (*low, *high);
        let Some(position) = resume else { return self.begin() };
        let offset = position.offset;
        if self.by_offset && position.horizon != Horizon::default() {
            return Err(self.begin_anew("its rows are ordered by LSNs, of a time before its deletes were tombstones"));
        }
        if offset < low {
            return self.gap(offset, position);
        }
        let sign = if found == Before::Nowhere {
            format!("offset {offset} is acknowledged but the topic ends at {high}")
        } else if matches!(found, Before::Record(found) if position.witness.is_known() && found != position.witness) {
            format!("the record before offset {offset} is not the one that the table knows")
        } else {
            if let Some((lost, mark)) = self.lost_position() {
                self.say_lost(partition, lost, mark, offset);
            }
            return Ok(Start { position, is_rewound: false });
        };
        let what = "the topic was re-created, or this is another cluster";
        if self.by_offset {
            return Err(self.begin_anew(&format!("{sign}: {what}, and the table's rows are ordered by their offsets")));
        }
        if !self.accept.topic {
            return Err(Fault::halt(format!(
                "{partition}: {sign}: {what}; check [kafka] bootstrap_servers and the topic; if it is the right one, \
                 `highwater run --accept-topic {table}` reads it from its beginning"
            )));
        }
        tracing::warn!(table, "{partition}: {sign}: {what}; accepted: reading from its beginning at {low}");
        // what was reached stays known: in the new topic, too, it shows whether the LSNs have begun again
        let Horizon { snapshots, streamed, at } = position.horizon;
        let horizon = Horizon { snapshots: Lsn::ZERO, streamed: streamed.max(snapshots), at };
        let position = Position { offset: low, horizon, witness: Witness::UNKNOWN };
        Ok(Start { position, is_rewound: true })
    }

    /// The offsets of the topic do not tell which of its records are newer than the table's rows.
    fn begin_anew(&self, why: &str) -> Fault {
        let Self { table, assigned: AssignedPartition { partition, .. }, epoch, .. } = self;
        // an epoch that no record is older than, unless it is of an earlier one
        let next = epoch.since + 1;
        Fault::halt(format!(
            "{partition}: {why}; check [kafka] bootstrap_servers, the topic and the table's envelope; if they are right, \
             `highwater run --accept-epoch {table}@{next}` soft-deletes its rows and fills it again from the whole topic"
        ))
    }

    /// At the beginning: nobody knows a position, or the only one counts on what the table has not got.
    fn begin(&self) -> Result<Start, Fault> {
        let AssignedPartition { partition, low, .. } = self.assigned;
        let earliest = Position { offset: *low, ..Position::default() };
        if let Some((lost, mark)) = self.lost_position() {
            self.say_lost(partition, lost, mark, *low);
            // an epoch passes over what came before it, so what is gone may be of no interest
            if *low > 0 && mark.epoch.since == self.epoch.since {
                return self.gap(0, earliest);
            }
        }
        Ok(Start { position: earliest, is_rewound: false })
    }

    fn say_lost(&self, partition: &TopicPartition, lost: Position, mark: Mark, begins: i64) {
        let Self { table, .. } = self;
        if mark.epoch.since == self.epoch.since {
            tracing::warn!(
                table,
                "{partition}: the group's offset {} counts on commits that the table has not got: it was deleted, or \
                 restored to an older version; reading again from {begins}",
                lost.offset
            );
        } else {
            tracing::warn!(
                table,
                "{partition}: the group's offset {} is of an earlier epoch; reading again from {begins}; where that \
                 is above 0, send a new snapshot if the records of this epoch began below it",
                lost.offset
            );
        }
    }

    /// Records from `offset` on are gone before they were read.
    fn gap(&self, offset: i64, position: Position) -> Result<Start, Fault> {
        let Self { table, assigned: AssignedPartition { partition, low, .. }, accept, .. } = self;
        let what = format!(
            "{partition}: offsets {offset} to {} are gone from the topic before they were read, it begins at {low}",
            low - 1
        );
        if !accept.gap {
            return Err(Fault::halt(format!(
                "{what}; `highwater run --accept-gap {table}` goes on at {low}; after that send a new snapshot of the \
                 source table, since what those records changed is missing"
            )));
        }
        tracing::warn!(table, "{what}; accepted: what these records changed is missing until a new snapshot brings it");
        let position = Position { offset: *low, witness: Witness::UNKNOWN, ..position };
        Ok(Start { position, is_rewound: false })
    }
}

/// Takes over the epoch of a table's commits.
///
/// # Errors
/// A halt where records were decoded under another one already.
pub(crate) fn enter(table: &str, known: &mut Option<Epoch>, epoch: Epoch) -> Result<(), Fault> {
    if known.is_some_and(|known| known != epoch) {
        return Err(Fault::halt(format!(
            "table `{table}` is not the one of this member's start any more: another member accepted a new epoch, or it \
             was created anew; start this member again"
        )));
    }
    *known = Some(epoch);
    Ok(())
}

/// Says that the source's LSNs have begun again, with the command that begins a new epoch.
pub(crate) fn restarted(table: &str, partition: &TopicPartition, record: &RecordRef<'_>, restart: Restart) -> Fault {
    let Restart { lsn, reached, taken_at } = restart;
    // the epoch goes by the records' timestamps: where those are of another clock, it would pass over its own records
    let remedy = if record.timestamp.is_some_and(|timestamp| timestamp >= taken_at) {
        format!(
            "`highwater run --accept-epoch {table}@{taken_at}` soft-deletes its rows and fills it again from the records \
             since that snapshot"
        )
    } else {
        "fill a new location under a new group from a topic of its own".to_owned()
    };
    Fault::halt(format!(
        "table `{table}`, {partition} offset {}: a snapshot at LSN {lsn} lies below LSN {reached}, which was reached \
         before it: the source's LSNs have begun again, as after a restore or with another database; {remedy}",
        record.offset
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: i64 = 4711;

    fn at(offset: i64, snapshots: u64) -> Position {
        let horizon = Horizon { snapshots: Lsn::try_from(snapshots).unwrap(), ..Horizon::default() };
        Position { offset, horizon, witness: Witness::UNKNOWN }
    }

    fn witnessed(offset: i64) -> Position {
        Position { witness: Witness::from_long(KNOWN), ..at(offset, 0) }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as a case has it")]
    fn group(position: Position) -> Option<Acknowledged> {
        Some(Acknowledged { position, mark: None })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as a case has it")]
    fn marked(offset: i64, table: i64, since: i64, checkpoint: i64) -> Option<Acknowledged> {
        let mark = Some(Mark { epoch: Epoch { table, since }, checkpoint });
        Some(Acknowledged { position: at(offset, 0), mark })
    }

    struct Case {
        committed: Option<Acknowledged>,
        checkpoint: Option<Position>,
        range: (i64, i64),
        since: i64,
        found: Option<i64>,
        accept: Accept,
        by_offset: bool,
    }

    impl Default for Case {
        fn default() -> Self {
            Self {
                committed: None,
                checkpoint: None,
                range: (5, 9),
                since: 0,
                found: None,
                accept: Accept::default(),
                by_offset: false,
            }
        }
    }

    impl Case {
        fn starts(self) -> Result<Start, String> {
            let partition = TopicPartition::new("t", 0);
            let (low, high) = self.range;
            let assigned = AssignedPartition { partition: partition.clone(), committed: self.committed, low, high };
            let epoch = Epoch { table: 7, since: self.since };
            let arrival = Arrival {
                table: "orders",
                assigned: &assigned,
                checkpoint: &self.checkpoint.map(|known| (partition, known)).into_iter().collect(),
                epoch,
                accept: self.accept,
                by_offset: self.by_offset,
            };
            let resume = arrival.resume(StartAt::Resume);
            let (_, high) = self.range;
            let beyond = resume.is_some_and(|position| position.offset > high);
            let unknown = if beyond { Before::Nowhere } else { Before::Unknown };
            let known = self.found.filter(|_| arrival.witness_wanted(resume).is_some());
            let found = known.map_or(unknown, |found| Before::Record(Witness::from_long(found)));
            arrival.start(resume, found).map_err(|fault| fault.message)
        }

        fn offset(self) -> i64 {
            self.starts().unwrap().position.offset
        }
    }

    #[test]
    fn the_further_of_group_and_checkpoint_within_the_topic() {
        let start = |committed: Option<Position>, checkpoint| {
            let committed = committed.and_then(group);
            Case { committed, checkpoint, ..Case::default() }.starts().unwrap().position
        };
        assert_eq!(start(None, None), at(5, 0));
        assert_eq!(start(Some(at(7, 1)), None), at(7, 1));
        assert_eq!(start(None, Some(at(7, 1))), at(7, 1), "an expired group");
        assert_eq!(start(Some(at(7, 1)), Some(at(8, 2))), at(8, 2));
        assert_eq!(start(Some(at(9, 1)), Some(at(8, 2))), at(9, 1));
        assert_eq!(start(Some(at(8, 0)), Some(at(8, 2))), at(8, 2));
        let partition = TopicPartition::new("t", 0);
        let checkpoint = [(partition.clone(), at(8, 2))].into();
        let assigned = AssignedPartition { partition, committed: group(at(7, 1)), low: 5, high: 9 };
        let (epoch, accept) = (Epoch::default(), Accept::default());
        let by_offset = false;
        let arrival =
            Arrival { table: "orders", assigned: &assigned, checkpoint: &checkpoint, epoch, accept, by_offset };
        assert_eq!(arrival.resume(StartAt::Resume), Some(at(8, 2)));
        assert_eq!(arrival.resume(StartAt::Committed), Some(at(7, 1)));
        assert_eq!(arrival.resume(StartAt::Earliest), None);
    }

    #[test]
    fn a_gap_halts_with_its_remedy_and_is_passed_once_it_is_accepted() {
        let gap = |accept| Case { committed: group(at(100, 3)), range: (250, 300), accept, ..Case::default() };
        let halted = gap(Accept { topic: true, ..Accept::default() }).starts().unwrap_err();
        for part in ["t/0: offsets 100 to 249 are gone", "`highwater run --accept-gap orders` goes on at 250"] {
            assert!(halted.contains(part), "{halted}");
        }
        let accepted = gap(Accept { gap: true, ..Accept::default() }).starts();
        assert_eq!(accepted, Ok(Start { position: at(250, 3), is_rewound: false }));
    }

    #[test]
    fn another_topic_halts_with_its_remedy_and_is_read_from_its_beginning_once_it_is_accepted() {
        let shorter = |accept| Case { checkpoint: Some(at(16302, 3)), range: (2, 10), accept, ..Case::default() };
        let longer = |found: i64| Case { checkpoint: Some(witnessed(7)), found: Some(found), ..Case::default() };
        let accept = Accept { topic: true, ..Accept::default() };
        let signs = [
            (
                shorter(Accept { gap: true, ..Accept::default() }),
                "offset 16302 is acknowledged but the topic ends at 10",
            ),
            (longer(KNOWN + 1), "the record before offset 7 is not the one that the table knows"),
        ];
        for (case, sign) in signs {
            let halted = case.starts().unwrap_err();
            assert!(halted.contains(sign) && halted.contains("`highwater run --accept-topic orders`"), "{halted}");
        }
        let reached = Horizon { streamed: at(0, 3).horizon.snapshots, ..Horizon::default() };
        let begin = Position { horizon: reached, ..at(2, 0) };
        assert_eq!(shorter(accept).starts(), Ok(Start { position: begin, is_rewound: true }));
        assert_eq!(Case { accept, ..longer(KNOWN + 1) }.starts(), Ok(Start { position: at(5, 0), is_rewound: true }));
        let appended = Case { found: Some(1), ..shorter(Accept::default()) };
        assert_eq!(appended.offset(), 16302, "the end was asked for too early");
        assert_eq!(longer(KNOWN).offset(), 7);
        assert_eq!(Case { found: None, ..longer(0) }.offset(), 7, "no record stands there");
        let first_kept = Case { checkpoint: Some(witnessed(5)), found: Some(1), ..Case::default() };
        assert_eq!(first_kept.offset(), 5, "the record before it is gone, and is not asked for");
    }

    #[test]
    fn a_table_that_is_ordered_by_offsets_needs_an_epoch_where_they_begin_again() {
        let accept = Accept { topic: true, ..Accept::default() };
        let case = |checkpoint| Case { checkpoint: Some(checkpoint), accept, by_offset: true, ..Case::default() };
        let cases = [
            (Case { range: (2, 6), since: 7, ..case(witnessed(7)) }, "offset 7 is acknowledged but", "orders@8"),
            (Case { found: Some(KNOWN + 1), ..case(witnessed(7)) }, "the record before offset 7 is not", "orders@1"),
            (case(at(7, 3)), "its rows are ordered by LSNs", "orders@1"),
        ];
        for (case, sign, epoch) in cases {
            let halted = case.starts().unwrap_err();
            let remedy = format!("`highwater run --accept-epoch {epoch}`");
            assert!(halted.contains(sign) && halted.contains(&remedy), "{halted}");
        }
        assert_eq!(Case { found: Some(KNOWN), ..case(witnessed(7)) }.offset(), 7);
        assert_eq!(Case { since: 1, committed: marked(8, 7, 0, 8), ..case(at(5, 0)) }.offset(), 5, "accepted");
    }

    #[test]
    fn a_group_s_offset_counts_only_while_the_table_holds_what_it_held_then() {
        let held = |committed, checkpoint: Option<i64>| {
            Case { committed, checkpoint: checkpoint.map(|offset| at(offset, 0)), ..Case::default() }.offset()
        };
        assert_eq!(held(marked(8, 7, 0, 6), Some(6)), 8);
        assert_eq!(held(marked(8, 7, 0, 6), Some(7)), 8, "another member went on");
        assert_eq!(held(marked(8, 7, 0, 0), None), 8, "nothing has changed the table so far");
        assert_eq!(held(marked(8, 0, 0, 0), None), 8, "of a time without marks");
        assert_eq!(held(marked(8, 7, 0, 8), Some(6)), 6, "restored to an older version");
        let gone = Case { committed: marked(8, 7, 0, 8), checkpoint: Some(at(3, 0)), ..Case::default() };
        assert!(gone.starts().unwrap_err().contains("offsets 3 to 4 are gone"));
    }

    #[test]
    fn a_table_that_was_created_anew_needs_the_whole_topic() {
        let anew = |range, accept| Case { committed: marked(8, 6, 0, 8), range, accept, ..Case::default() };
        assert_eq!(anew((0, 9), Accept::default()).offset(), 0);
        let unchanged = Case { committed: marked(8, 6, 0, 0), range: (0, 9), ..Case::default() };
        assert_eq!(unchanged.offset(), 0, "nothing had changed the old one, which tells nothing of this one");
        let gone = anew((5, 9), Accept::default()).starts().unwrap_err();
        assert!(gone.contains("offsets 0 to 4 are gone"), "{gone}");
        assert_eq!(anew((5, 9), Accept { gap: true, ..Accept::default() }).offset(), 5);
        assert_eq!(Case::default().offset(), 5, "a new group on an old topic misses nothing that it had");
    }

    #[test]
    fn positions_of_an_earlier_epoch_do_not_count() {
        let epoch = |since, committed| Case { committed, since, ..Case::default() }.offset();
        assert_eq!(epoch(1000, marked(8, 7, 0, 0)), 5);
        assert_eq!(epoch(1000, marked(8, 0, 0, 0)), 5);
        assert_eq!(epoch(1000, marked(8, 7, 1000, 0)), 8);
    }
}
