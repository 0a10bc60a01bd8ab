//! [`Blocks`]: a source over records that are at hand, such as a file's or a generator's.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::{Instant, sleep_until};

use crate::{AssignedPartition, Fault, Polled, Position, Records, Source, TopicPartition};

/// Hands out blocks one after the other. A partition is assigned when its first record comes up, and has ended when
/// the blocks have.
#[derive(Debug)]
pub struct Blocks<I> {
    rest: I,
    assigned: BTreeSet<TopicPartition>,
    waiting: VecDeque<Polled>,
    is_over: bool,
}

impl<I> Blocks<I> {
    /// A source over `blocks`.
    pub fn new(blocks: I) -> Self {
        Self { rest: blocks, assigned: BTreeSet::new(), waiting: VecDeque::new(), is_over: false }
    }

    fn take(&mut self, block: Records) {
        let new: Vec<_> = block.partitions().iter().filter(|tp| self.assigned.insert((*tp).clone())).cloned().collect();
        if !new.is_empty() {
            let assign = |partition| AssignedPartition { partition, committed: None, low: 0, high: i64::MAX };
            self.waiting.push_back(Polled::Assigned(new.into_iter().map(assign).collect()));
        }
        self.waiting.push_back(Polled::Records(block));
    }

    fn end(&mut self) {
        self.is_over = true;
        if self.assigned.is_empty() {
            self.waiting.push_back(Polled::Assigned(Vec::new()));
        }
        self.waiting.push_back(Polled::Ended(self.assigned.iter().cloned().collect()));
    }
}

impl<I: Iterator<Item = Result<Records, Fault>> + Send> Source for Blocks<I> {
    async fn poll(&mut self, deadline: Instant) -> Result<Polled, Fault> {
        if self.waiting.is_empty() && !self.is_over {
            match self.rest.next().transpose()? {
                Some(block) => self.take(block),
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

    fn acknowledge(&mut self, _: Vec<(TopicPartition, Position)>) {}

    async fn close(self) {}
}
