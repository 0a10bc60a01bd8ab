//! Positions as committed offsets: the offset, and the partition's horizon in the commit's metadata.

use change::{Horizon, Lsn};
use pipeline::{Fault, Position, TopicPartition};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, RebalanceProtocol},
    error::KafkaResult,
    topic_partition_list::TopicPartitionListElem,
};

use crate::callbacks::Callbacks;

const HORIZON: &str = "highwater:horizon=";

/// The list to commit for these positions.
pub(crate) fn to_commit(positions: &[(TopicPartition, Position)]) -> Result<TopicPartitionList, Fault> {
    let mut list = TopicPartitionList::new();
    for (partition, position) in positions {
        let mut element = list.add_partition(&partition.topic, partition.partition);
        element.set_offset(Offset::Offset(position.offset)).map_err(Fault::halt)?;
        if position.horizon.0 > Lsn::ZERO {
            element.set_metadata(format!("{HORIZON}{}", position.horizon.0.as_long()));
        }
    }
    Ok(list)
}

/// The position of a committed offset; `None` where nothing is committed.
pub(crate) fn committed(element: &TopicPartitionListElem<'_>) -> Option<Position> {
    let Offset::Offset(offset) = element.offset() else { return None };
    let horizon = element.metadata().strip_prefix(HORIZON).and_then(|lsn| lsn.parse().ok()).unwrap_or_default();
    Some(Position { offset, horizon: Horizon(horizon) })
}

/// The partitions of a list.
pub(crate) fn partitions(list: &TopicPartitionList) -> Vec<TopicPartition> {
    list.elements().iter().map(|e| TopicPartition::new(e.topic(), e.partition())).collect()
}

/// A list of partitions without offsets.
pub(crate) fn list(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(&partition.topic, partition.partition);
    }
    list
}

/// Lets go of partitions, in the way of the group's protocol.
pub(crate) fn unassign(consumer: &BaseConsumer<Callbacks>, list: &TopicPartitionList) -> KafkaResult<()> {
    match consumer.rebalance_protocol() {
        RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
        _ => consumer.unassign(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_the_commit_with_its_horizon() {
        let horizon = Horizon(Lsn::try_from(29_292_664_u64).unwrap());
        let position = Position { offset: 7, horizon };
        let list = to_commit(&[(TopicPartition::new("t", 3), position)]).unwrap();
        assert_eq!(committed(&list.elements()[0]), Some(position));
        let unset = super::list(&[TopicPartition::new("t", 3)]);
        assert_eq!(committed(&unset.elements()[0]), None);
    }
}
