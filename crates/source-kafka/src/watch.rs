//! [`GroupWatch`]: how the consumer group is doing, seen by a client that is no member of it.

use std::collections::BTreeMap;

use pipeline::{Fault, TopicPartition};
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaResult,
    groups::{GroupInfo, GroupMemberInfo},
    topic_partition_list::TopicPartitionListElem,
};

use crate::{
    KafkaSettings,
    callbacks::Callbacks,
    group,
    probe::{self, ANSWER},
};

/// A client that looks at the group and its topics.
pub struct GroupWatch {
    client: BaseConsumer<Callbacks>,
    group: String,
}

/// The group at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupState {
    /// Its members.
    pub members: Vec<Member>,
    /// The partitions of its topics.
    pub partitions: Vec<PartitionState>,
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id, which the broker gave it.
    pub id: String,
    /// Its `client.id`.
    pub client: String,
    /// Where it is, as the broker sees it.
    pub host: String,
    /// What it reads; empty where the group's protocol does not say.
    pub partitions: Vec<TopicPartition>,
}

/// A partition, and how far the group has come in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset of its first record.
    pub low: i64,
    /// The offset after its last record that a consumer may read.
    pub end: i64,
    /// The offset that the group has committed, if it has one.
    pub committed: Option<i64>,
}

impl GroupWatch {
    /// A client for the group of `settings`.
    ///
    /// # Errors
    /// A halt where a setting is wrong.
    pub fn new(settings: &KafkaSettings) -> Result<Self, Fault> {
        Ok(Self { client: probe::client(settings)?, group: settings.group.clone() })
    }

    /// The group, and the partitions of these topics; a topic that is not there has none.
    ///
    /// # Errors
    /// A retry where the brokers do not answer.
    pub fn now(&self, topics: &[&str]) -> Result<GroupState, Fault> {
        let failed = |error: &dyn std::fmt::Display| Fault::retry(format!("asking how the group is doing: {error}"));
        let metadata = self.client.fetch_metadata(None, ANSWER).map_err(|e| failed(&e))?;
        let named = metadata.topics().iter().filter(|topic| topics.contains(&topic.name()));
        let partitions: Vec<TopicPartition> = named
            .flat_map(|topic| topic.partitions().iter().map(|p| TopicPartition::new(topic.name(), p.id())))
            .collect();
        let members = self.members().map_err(|e| failed(&e))?;
        if partitions.is_empty() {
            return Ok(GroupState { members, partitions: Vec::new() });
        }
        let committed = self.client.committed_offsets(group::list(&partitions), ANSWER).map_err(|e| failed(&e))?;
        let at = |offset| self.at(&partitions, offset).map_err(|e| failed(&e));
        let (lows, ends, committed) = (at(Offset::Beginning)?, at(Offset::End)?, offsets(&committed));
        let state = |partition: TopicPartition| {
            let (low, end) = (*lows.get(&partition)?, *ends.get(&partition)?);
            Some(PartitionState { low, end, committed: committed.get(&partition).copied(), partition })
        };
        Ok(GroupState { members, partitions: partitions.into_iter().filter_map(state).collect() })
    }

    /// Asked for one of these two as a time, a broker answers with the offset: one request for all partitions.
    fn at(&self, partitions: &[TopicPartition], offset: Offset) -> KafkaResult<BTreeMap<TopicPartition, i64>> {
        let mut wanted = TopicPartitionList::new();
        for partition in partitions {
            wanted.add_partition_offset(&partition.topic, partition.partition, offset)?;
        }
        Ok(offsets(&self.client.offsets_for_times(wanted, ANSWER)?))
    }

    fn members(&self) -> KafkaResult<Vec<Member>> {
        let list = self.client.fetch_group_list(Some(&self.group), ANSWER)?;
        let members = list.groups().iter().filter(|group| group.name() == self.group).flat_map(GroupInfo::members);
        let member = |member: &GroupMemberInfo| Member {
            id: member.id().to_owned(),
            client: member.client_id().to_owned(),
            host: member.client_host().to_owned(),
            partitions: member.assignment().and_then(assignment).unwrap_or_default(),
        };
        Ok(members.map(member).collect())
    }
}

impl std::fmt::Debug for GroupWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupWatch").field("group", &self.group).finish_non_exhaustive()
    }
}

fn offsets(list: &TopicPartitionList) -> BTreeMap<TopicPartition, i64> {
    let offset = |element: &TopicPartitionListElem<'_>| match element.offset() {
        Offset::Offset(offset) => Some((TopicPartition::new(element.topic(), element.partition()), offset)),
        _ => None,
    };
    list.elements().iter().filter_map(offset).collect()
}

/// The partitions of a member's assignment, in the consumer protocol's form: a version, then each topic's name and
/// partitions (`ConsumerProtocolAssignment.json` in Kafka's clients).
fn assignment(bytes: &[u8]) -> Option<Vec<TopicPartition>> {
    let mut rest = Bytes(bytes);
    rest.take::<2>()?;
    let mut partitions = Vec::new();
    for _ in 0..i32::from_be_bytes(rest.take()?) {
        let length = usize::try_from(i16::from_be_bytes(rest.take()?)).ok()?;
        let topic = std::str::from_utf8(rest.slice(length)?).ok()?;
        for _ in 0..i32::from_be_bytes(rest.take()?) {
            partitions.push(TopicPartition::new(topic, i32::from_be_bytes(rest.take()?)));
        }
    }
    Some(partitions)
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.slice(N)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_as_far_as_it_is_whole() {
        let whole = b"\0\x01\0\0\0\x01\0\x03a.b\0\0\0\x02\0\0\0\0\0\0\0\x05\0\0\0\0";
        assert_eq!(assignment(whole), Some(vec![TopicPartition::new("a.b", 0), TopicPartition::new("a.b", 5)]));
        assert_eq!(assignment(b"\0\x03\0\0\0\0\xff\xff\xff\xff"), Some(Vec::new()));
        for length in 0..whole.len() - 4 {
            assert_eq!(assignment(&whole[..length]), None, "{length}");
        }
    }
}
