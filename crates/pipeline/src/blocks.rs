//! [`Blocks`]: a source over records that are at hand, such as a file's or a generator's.

use std::collections::{BTreeMap, VecDeque};

use change::Horizon;
use tokio::time::{Instant, sleep_until};

use crate::{Acknowledged, AssignedPartition, Fault, Part, Polled, Position, Records, Source, TopicPartition};

/// Records, and the horizons of their partitions before them where they are known.
#[derive(Debug, Default)]
pub struct Block {
    /// The records.
    pub records: Records,
    /// By partition; the horizon that the records before them left, where it is not named.
    pub horizons: BTreeMap<TopicPartition, Horizon>,
}

impl From<Records> for Block {
    fn from(records: Records) -> Self {
        Self { records, horizons: BTreeMap::new() }
    }
}

/// Hands out blocks one after the other. A partition is assigned when its first record comes up, and once more where
/// another horizon is named for it; it has ended when the blocks have.
#[derive(Debug)]
pub struct Blocks<I> {
    rest: I,
    assigned: BTreeMap<TopicPartition, Option<Horizon>>,
    waiting: VecDeque<Polled>,
    is_over: bool,
}

impl<I> Blocks<I> {
    /// A source over `blocks`, which are of [`Records`] or of [`Block`].
    pub fn new(blocks: I) -> Self {
        Self { rest: blocks, assigned: BTreeMap::new(), waiting: VecDeque::new(), is_over: false }
    }

    fn take(&mut self, Block { records, horizons }: Block) {
        let mut new = Vec::new();
        for Part { partition, .. } in records.partitions() {
            let horizon = horizons.get(partition).copied();
            let known = self.assigned.get(partition);
            if known.is_some_and(|known| horizon.is_none() || *known == horizon) {
                continue;
            }
            self.assigned.insert(partition.clone(), horizon);
            let committed = horizon
                .map(|horizon| Acknowledged { position: Position { horizon, ..Position::default() }, mark: None });
            new.push(AssignedPartition { partition: partition.clone(), committed, low: 0, high: i64::MAX });
        }
        if !new.is_empty() {
            self.waiting.push_back(Polled::Assigned(new));
        }
        self.waiting.push_back(Polled::Records(records));
    }

    fn end(&mut self) {
        self.is_over = true;
        if self.assigned.is_empty() {
            self.waiting.push_back(Polled::Assigned(Vec::new()));
        }
        self.waiting.push_back(Polled::Ended(self.assigned.keys().cloned().collect()));
    }
}

impl<I, B> Source for Blocks<I>
where
    I: Iterator<Item = Result<B, Fault>> + Send,
    B: Into<Block>,
{
    async fn poll(&mut self, deadline: Instant) -> Result<Polled, Fault> {
        if self.waiting.is_empty() && !self.is_over {
            match self.rest.next().transpose()? {
                Some(block) => self.take(block.into()),
                None => self.end(),
            }
        }
        if let Some(polled) = self.waiting.pop_front() {
            return Ok(polled);
        }
        sleep_until(deadline).await;
        Ok(Polled::Idle)
    }

    async fn start(&mut self, _: Vec<(TopicPartition, i64)>) -> Result<(), Fault> {
        Ok(())
    }

    async fn release(&mut self, _: Vec<TopicPartition>) -> Result<(), Fault> {
        Ok(())
    }

    fn hold(&mut self, _: TopicPartition) {}

    fn acknowledge(&mut self, _: Vec<(TopicPartition, Acknowledged)>) {}

    async fn close(self) {}
}
