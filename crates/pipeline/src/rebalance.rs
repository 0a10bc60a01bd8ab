//! The loop's answers to a rebalance: where to begin, and what has to be durable before a partition leaves.

use std::sync::Arc;

use crate::{
    AssignedPartition, Fault, Observer, Pipeline, Position, Replica, Source, Table, TopicPartition, table::State,
};

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// Begins to read partitions that were assigned, each at the further of group offset and checkpoint.
    pub(crate) async fn assign(&mut self, partitions: Vec<AssignedPartition>) -> Result<(), Fault> {
        let mut ahead = 0;
        let mut offsets = Vec::new();
        for index in 0..self.tables.len() {
            let topic = Arc::clone(&self.tables[index].topic);
            let assigned: Vec<_> = partitions.iter().filter(|assigned| assigned.partition.topic == topic).collect();
            if assigned.is_empty() {
                continue;
            }
            self.land_table(index).await?;
            match self.starts(index, &assigned).await {
                Ok(starts) => {
                    for (assigned, position) in assigned.iter().zip(starts) {
                        self.tables[index].assign(assigned.partition.partition, position, assigned.high);
                        let left = assigned.high.saturating_sub(position.offset);
                        ahead = u64::saturating_add(ahead, u64::try_from(left).unwrap_or(0));
                        offsets.push((assigned.partition.clone(), position.offset));
                    }
                }
                Err(fault) => self.halt(index, fault),
            }
        }
        self.assigned_once = true;
        let named: Vec<_> = partitions.into_iter().map(|assigned| assigned.partition).collect();
        self.observer.assigned(&named, ahead);
        self.source.start(offsets).await
    }

    /// Where each of a table's partitions is to be read from. A table that has halted reads none.
    async fn starts(&mut self, index: usize, assigned: &[&AssignedPartition]) -> Result<Vec<Position>, Fault> {
        let table = &mut self.tables[index];
        let (State::Running, Some(replica)) = (&table.state, &mut table.replica) else { return Ok(Vec::new()) };
        let named: Vec<_> = assigned.iter().map(|assigned| assigned.partition.clone()).collect();
        let checkpoint = replica.checkpoint(&named).await?;
        assigned.iter().map(|assigned| self.settings.start_at.position(assigned, &checkpoint)).collect()
    }

    /// Makes durable what was read of the partitions that leave, and lets go of them.
    pub(crate) async fn revoke(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Fault> {
        let leaving = |table: &Table<R>| partitions.iter().any(|tp| tp.topic == table.topic);
        self.drain(leaving).await?;
        for TopicPartition { topic, partition } in &partitions {
            if let Some(&table) = self.by_topic.get(topic) {
                self.tables[table].partitions.remove(partition);
            }
        }
        self.source.release(partitions).await
    }

    /// Waits until a table's batch has landed, without sending off another.
    async fn land_table(&mut self, index: usize) -> Result<(), Fault> {
        while self.tables[index].replica.is_none() {
            match self.flights.join_next().await {
                Some(flight) => self.land(flight)?,
                None => return Err(Fault::halt("a table has lost its replica")),
            }
        }
        Ok(())
    }
}
