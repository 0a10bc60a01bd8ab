//! Where to begin reading an assigned partition.

use crate::{AssignedPartition, Checkpoint, Fault, Position};

/// Which positions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartAt {
    /// The group's offset or the replica's checkpoint, whichever is further; the beginning where there is neither.
    Resume,
    /// The beginning, whatever was acknowledged.
    Earliest,
    /// The group's offset alone; the beginning where there is none.
    Committed,
}

impl StartAt {
    /// The position to begin `assigned` at.
    ///
    /// # Errors
    /// A halt where the position lies outside what the topic still holds: reading on elsewhere would skip records
    /// silently or take another topic's for this one's.
    pub fn position(self, assigned: &AssignedPartition, checkpoint: &Checkpoint) -> Result<Position, Fault> {
        let AssignedPartition { partition, committed, low, high } = assigned;
        let earliest = Position { offset: *low, ..Position::default() };
        let known = match self {
            Self::Earliest => None,
            Self::Committed => *committed,
            // of two equal offsets, the horizon of the one that knows more
            Self::Resume => committed.iter().chain(checkpoint.get(partition)).max().copied(),
        };
        let Some(position) = known else { return Ok(earliest) };
        let offset = position.offset;
        if offset < *low {
            return Err(Fault::halt(format!(
                "{partition}: offsets {offset} to {} are gone from the topic before they were read, it begins at {low}; \
                 refill the table (replay after a new snapshot) and reset the group to {low}",
                low - 1
            )));
        }
        if offset > *high {
            return Err(Fault::halt(format!(
                "{partition}: offset {offset} is acknowledged but the topic ends at {high}; it was re-created or \
                 truncated, so its records are not the ones that the table knows: use a new group and table for it"
            )));
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use change::{Horizon, Lsn};

    use super::*;
    use crate::TopicPartition;

    fn position(offset: i64, horizon: u64) -> Position {
        Position { offset, horizon: Horizon(Lsn::try_from(horizon).unwrap()) }
    }

    #[test]
    fn the_further_of_group_and_checkpoint_within_the_topic() {
        let tp = TopicPartition::new("t", 0);
        let start = |committed, checkpoint: Option<Position>, low, high| {
            let assigned = AssignedPartition { partition: tp.clone(), committed, low, high };
            StartAt::Resume.position(&assigned, &checkpoint.map(|p| (tp.clone(), p)).into_iter().collect())
        };
        assert_eq!(start(None, None, 5, 9), Ok(position(5, 0)));
        assert_eq!(start(Some(position(7, 1)), None, 5, 9), Ok(position(7, 1)));
        assert_eq!(start(Some(position(7, 1)), Some(position(8, 2)), 5, 9), Ok(position(8, 2)));
        assert_eq!(start(Some(position(9, 1)), Some(position(8, 2)), 5, 9), Ok(position(9, 1)));
        assert_eq!(start(Some(position(8, 0)), Some(position(8, 2)), 5, 9), Ok(position(8, 2)));
        let gap = start(Some(position(100, 0)), None, 250, 300).unwrap_err().message;
        assert!(gap.contains("t/0: offsets 100 to 249 are gone"), "{gap}");
        let recreated = start(None, Some(position(16302, 0)), 0, 10).unwrap_err().message;
        assert!(recreated.contains("t/0: offset 16302 is acknowledged but the topic ends at 10"), "{recreated}");
        let assigned = AssignedPartition { partition: tp.clone(), committed: Some(position(7, 1)), low: 5, high: 9 };
        assert_eq!(StartAt::Earliest.position(&assigned, &Checkpoint::new()), Ok(position(5, 0)));
        let checkpoint = [(tp, position(8, 2))].into();
        assert_eq!(StartAt::Committed.position(&assigned, &checkpoint), Ok(position(7, 1)));
    }
}
