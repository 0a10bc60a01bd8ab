//! Positions as committed offsets: the offset, and the rest of the position and its mark in the commit's metadata.

use change::{Horizon, Lsn};
use pipeline::{Acknowledged, Epoch, Fault, Mark, Position, TopicPartition, Witness};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _, RebalanceProtocol},
    error::KafkaResult,
    topic_partition_list::TopicPartitionListElem,
};

use crate::callbacks::Callbacks;

/// What our metadata begins with; numbers by name follow, those that are 0 left out.
const OURS: &str = "highwater:";

/// The list to commit for these positions.
pub(crate) fn to_commit(positions: &[(TopicPartition, Acknowledged)]) -> Result<TopicPartitionList, Fault> {
    let mut list = TopicPartitionList::new();
    for (partition, acknowledged) in positions {
        let mut element = list.add_partition(&partition.topic, partition.partition);
        element.set_offset(Offset::Offset(acknowledged.position.offset)).map_err(Fault::halt)?;
        element.set_metadata(metadata(acknowledged));
    }
    Ok(list)
}

fn metadata(Acknowledged { position, mark }: &Acknowledged) -> String {
    let Position { horizon, witness, .. } = position;
    let Mark { epoch, checkpoint } = mark.unwrap_or_default();
    let numbers = [
        ("horizon", horizon.snapshots.as_long()),
        ("streamed", horizon.streamed.as_long()),
        ("at", horizon.at),
        ("witness", witness.as_long()),
        ("table", epoch.table),
        ("epoch", epoch.since),
        ("checkpoint", checkpoint),
    ];
    let set = numbers.iter().filter(|(_, number)| *number != 0).map(|(name, number)| format!("{name}={number}"));
    format!("{OURS}{}", set.collect::<Vec<_>>().join(";"))
}

/// The position of a committed offset; `None` where nothing is committed. What its metadata does not say is 0.
pub(crate) fn committed(element: &TopicPartitionListElem<'_>) -> Option<Acknowledged> {
    let Offset::Offset(offset) = element.offset() else { return None };
    let written = element.metadata().strip_prefix(OURS).unwrap_or_default();
    let number = |name: &str| -> i64 {
        let found = written.split(';').filter_map(|part| part.split_once('=')).find(|(known, _)| *known == name);
        found.and_then(|(_, number)| number.parse().ok()).unwrap_or_default()
    };
    let lsn = |name| Lsn::try_from(number(name)).unwrap_or_default();
    let horizon = Horizon { snapshots: lsn("horizon"), streamed: lsn("streamed"), at: number("at") };
    let position = Position { offset, horizon, witness: Witness::from_long(number("witness")) };
    let epoch = Epoch { table: number("table"), since: number("epoch") };
    Some(Acknowledged { position, mark: Some(Mark { epoch, checkpoint: number("checkpoint") }) })
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

/// A list of partitions, each with an offset.
pub(crate) fn list_at(offsets: &[(TopicPartition, i64)]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(&partition.topic, partition.partition, Offset::Offset(*offset))?;
    }
    Ok(list)
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
    fn a_position_and_its_mark_survive_the_commit() {
        let lsn = |lsn: u64| Lsn::try_from(lsn).unwrap();
        let horizon = Horizon { snapshots: lsn(29_292_664), streamed: lsn(29_292_700), at: 1_796_031_625_098 };
        let position = Position { offset: 7, horizon, witness: Witness::from_long(i64::MAX) };
        let mark = Some(Mark { epoch: Epoch { table: 5, since: 1_796_031_625_098 }, checkpoint: 6 });
        let tp = TopicPartition::new("t", 3);
        for acknowledged in [
            Acknowledged { position, mark },
            Acknowledged { position: Position { offset: 7, ..Position::default() }, mark: Some(Mark::default()) },
        ] {
            let list = to_commit(&[(tp.clone(), acknowledged)]).unwrap();
            assert_eq!(committed(&list.elements()[0]), Some(acknowledged));
        }
        let unset = super::list(&[tp]);
        assert_eq!(committed(&unset.elements()[0]), None);
    }

    #[test]
    fn metadata_of_an_earlier_version_or_of_another_tool_is_read_as_far_as_it_goes() {
        for (metadata, snapshots) in [("", 0_u64), ("highwater:horizon=29292664", 29_292_664), ("NONE=1;x", 0)] {
            let mut list = TopicPartitionList::new();
            let mut element = list.add_partition("t", 3);
            element.set_offset(Offset::Offset(7)).unwrap();
            element.set_metadata(metadata);
            let found = committed(&list.elements()[0]).unwrap();
            assert_eq!(found.position.horizon.snapshots, Lsn::try_from(snapshots).unwrap(), "{metadata}");
            assert_eq!((found.position.offset, found.mark), (7, Some(Mark::default())), "{metadata}");
        }
    }
}
