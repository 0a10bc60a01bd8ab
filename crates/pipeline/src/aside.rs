//! A table that stands still is set aside, so that the others go on.
//!
//! While a batch is on its way the next one fills, and then there is no place for the table's records. What is read of
//! it beyond that is dropped, and read again when the batch has landed. The same happens where the next record's schema
//! has yet to be fetched.

use std::{sync::Arc, time::Duration};

use crate::{
    Observer, Pipeline, Replica, Source, TopicPartition,
    table::{Flow, State},
};

/// So long do the others wait for a table: a merge may take that long, and reading again costs more than a short wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

impl<S: Source, R: Replica, O: Observer> Pipeline<S, R, O> {
    /// Sets a table aside if others are to go on and it has stood still for long enough.
    pub(crate) fn set_aside(&mut self, index: usize) -> bool {
        let mut others = self.tables.iter().enumerate().filter(|(other, _)| *other != index);
        let can_go_on = others.any(|(_, table)| table.state == State::Running);
        let table = &mut self.tables[index];
        if !S::RESUMES || !can_go_on || table.stands_still_since().elapsed() < PATIENCE {
            return false;
        }
        for (&partition, reading) in table.partitions.iter_mut().filter(|(_, reading)| reading.flow == Flow::On) {
            reading.flow = Flow::Held;
            self.source.hold(TopicPartition { topic: Arc::clone(&table.topic), partition });
        }
        tracing::info!(table = table.name, "set aside until it can take its next record: the other tables go on");
        true
    }

    /// Reads on a table that was set aside, now that it has a place for records again.
    pub(crate) fn read_on(&mut self, index: usize) {
        let table = &mut self.tables[index];
        if table.lack.is_some() {
            return;
        }
        let mut offsets = Vec::new();
        for (&partition, reading) in table.partitions.iter_mut().filter(|(_, reading)| reading.flow == Flow::Held) {
            reading.flow = Flow::Resuming;
            offsets.push((TopicPartition { topic: Arc::clone(&table.topic), partition }, reading.position.offset));
        }
        if !offsets.is_empty() {
            self.source.resume(offsets);
        }
    }

    /// What follows of these partitions is what they were to be read on with.
    pub(crate) fn resumed(&mut self, partitions: &[TopicPartition]) {
        for TopicPartition { topic, partition } in partitions {
            let Some(&index) = self.by_topic.get(topic) else { continue };
            if let Some(reading) = self.tables[index].partitions.get_mut(partition)
                && reading.flow == Flow::Resuming
            {
                reading.flow = Flow::On;
            }
        }
    }
}
