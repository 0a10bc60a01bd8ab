//! The loop's answers to a rebalance: where to begin, and what has to be durable before a partition leaves.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Accept, AssignedPartition, Backoff, Before, Checkpoint, Fault, Observer, Pipeline, Replica, Source, Table,
    TopicPartition,
    start::{self, Arrival, Start},
    table::{Flow, Reading, State},
};

/// Where a table's assigned partitions begin.
#[derive(Debug, Default)]
struct Starts {
    readings: Vec<Reading>,
    /// Positions of the table that the group has not got: their acknowledgement was lost, and if no record follows
    /// there will be no other.
    unacknowledged: Checkpoint,
}

/// What stands before some offsets of a table's partitions. A source that does not answer is asked again.
async fn look<S: Source>(
    source: &mut S,
    wanted: &[(TopicPartition, i64)],
    table: &str,
    mut backoff: Backoff,
) -> Result<Vec<Before>, Fault> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    loop {
        match source.before(wanted.to_vec()).await {
            Ok(found) => return Ok(found),
            Err(fault) => backoff.wait(table, fault).await?,
        }
    }
}

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// Begins to read partitions that were assigned, each at the further of group offset and checkpoint.
    pub(crate) async fn assign(&mut self, partitions: Vec<AssignedPartition>) -> Result<(), Fault> {
        let mut ahead = 0;
        let (mut offsets, mut unsaid) = (Vec::new(), Vec::new());
        for index in 0..self.tables.len() {
            let topic = Arc::clone(&self.tables[index].topic);
            let assigned: Vec<_> = partitions.iter().filter(|assigned| assigned.partition.topic == topic).collect();
            if assigned.is_empty() {
                continue;
            }
            self.land_table(index).await?;
            match self.starts(index, &assigned).await {
                Ok(Starts { readings, unacknowledged }) => {
                    unsaid.push((index, unacknowledged));
                    for (assigned, reading) in assigned.iter().zip(readings) {
                        let left = reading.end.saturating_sub(reading.position.offset);
                        ahead = u64::saturating_add(ahead, u64::try_from(left).unwrap_or(0));
                        offsets.push((assigned.partition.clone(), reading.position.offset));
                        self.tables[index].partitions.insert(assigned.partition.partition, reading);
                    }
                }
                Err(fault) => self.halt(index, fault),
            }
        }
        self.assigned_once = true;
        let named: Vec<_> = partitions.into_iter().map(|assigned| assigned.partition).collect();
        self.observer.assigned(&named, ahead);
        self.source.start(offsets).await?;
        for (index, unacknowledged) in unsaid {
            let acknowledged = self.tables[index].acknowledged(unacknowledged);
            self.source.acknowledge(acknowledged);
        }
        Ok(())
    }

    /// Where each of a table's partitions is to be read from. A table that has halted reads none.
    async fn starts(&mut self, index: usize, assigned: &[&AssignedPartition]) -> Result<Starts, Fault> {
        let Self { tables, source, settings, .. } = self;
        let by_offset = tables[index].schema().form().orders_by_offset();
        let Table { name, state, replica, epoch: known, accept, .. } = &mut tables[index];
        let (State::Running, Some(replica)) = (&*state, replica) else { return Ok(Starts::default()) };
        let named: Vec<_> = assigned.iter().map(|assigned| assigned.partition.clone()).collect();
        let mut backoff = settings.backoff(index);
        let checkpoint = loop {
            match replica.checkpoint(&named).await {
                Ok(checkpoint) => break checkpoint,
                Err(fault) => backoff.wait(name, fault).await?,
            }
        };
        let epoch = replica.epoch();
        start::enter(name, known, epoch)?;
        let accept = *accept;
        let of = |assigned| Arrival { table: name, assigned, checkpoint: &checkpoint, epoch, accept, by_offset };
        let arrivals: Vec<_> = assigned.iter().map(|assigned| of(assigned)).collect();

        let resumes: Vec<_> = arrivals.iter().map(|arrival| arrival.resume(settings.start_at)).collect();
        let wanted = arrivals.iter().zip(&resumes).filter_map(|(arrival, resume)| arrival.witness_wanted(*resume));
        let wanted: Vec<_> = wanted.collect();
        let found = look(source, &wanted, name, backoff).await?;
        let found: HashMap<_, _> = wanted.into_iter().map(|(partition, _)| partition).zip(found).collect();

        let mut rewound = Checkpoint::new();
        let mut starts = Starts::default();
        for (arrival, resume) in arrivals.iter().zip(resumes) {
            let AssignedPartition { partition, high, committed, .. } = arrival.assigned;
            let Start { position, is_rewound } =
                arrival.start(resume, found.get(partition).copied().unwrap_or(Before::Unknown))?;
            if is_rewound {
                rewound.insert(partition.clone(), position);
            }
            if arrival.checkpoint() == Some(position) && committed.is_none_or(|group| group.position != position) {
                starts.unacknowledged.insert(partition.clone(), position);
            }
            starts.readings.push(Reading { position, end: *high, flow: Flow::On });
        }
        let mut backoff = settings.backoff(index);
        while !rewound.is_empty() {
            match replica.rewind(&rewound).await {
                Ok(()) => break,
                Err(fault) => backoff.wait(name, fault).await?,
            }
        }
        Ok(starts)
    }

    /// Stops the tables whose next offset is not in the topic, or not of the topic that they know: one that was created
    /// anew may have grown past the offset since the brokers refused it.
    pub(crate) async fn stop_strayed(&mut self, candidates: Vec<AssignedPartition>) -> Result<(), Fault> {
        let mut is_found = false;
        for assigned in &candidates {
            let AssignedPartition { partition, .. } = assigned;
            let Some(&index) = self.by_topic.get(&partition.topic) else { continue };
            let Table { name, partitions, epoch, .. } = &self.tables[index];
            let Some(reading) = partitions.get(&partition.partition) else { continue };
            let (resume, checkpoint) = (Some(reading.position), &Checkpoint::new());
            let (epoch, accept) = (epoch.unwrap_or_default(), Accept::default());
            let by_offset = self.tables[index].schema().form().orders_by_offset();
            let arrival = Arrival { table: name, assigned, checkpoint, epoch, accept, by_offset };
            let wanted: Vec<_> = arrival.witness_wanted(resume).into_iter().collect();
            let found = look(&mut self.source, &wanted, name, self.settings.backoff(index)).await?;
            if let Err(fault) = arrival.start(resume, found.first().copied().unwrap_or(Before::Unknown)) {
                self.tables[index].stop(fault);
                is_found = true;
            }
        }
        if is_found {
            return Ok(());
        }
        Err(Fault::halt("Kafka: an offset is not in its topic, of a partition that is not to be found; start again"))
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
