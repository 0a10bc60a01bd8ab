//! [`Callbacks`]: what librdkafka calls back with, from inside a poll; it is only noted.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rdkafka::{
    ClientContext, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, ConsumerContext},
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};

use crate::group::unassign;

pub(crate) enum Rebalanced {
    Assigned(TopicPartitionList),
    Revoked(TopicPartitionList),
}

/// Collects what librdkafka calls back with.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) rebalances: Mutex<VecDeque<Rebalanced>>,
    /// At the end nobody waits for the pipeline's word any more.
    pub(crate) is_closing: AtomicBool,
    /// An offset commit was refused. During a rebalance even an owner's is.
    pub(crate) is_commit_refused: AtomicBool,
    /// The last error that a broker connection met.
    pub(crate) last_error: Mutex<String>,
}

impl ClientContext for Callbacks {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info => tracing::trace!(facility, "{message}"),
            _ => tracing::debug!(facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // the end of a partition is reported here too; the poll has its own report of it
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::PartitionEOF) {
            return;
        }
        let is_summary = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        let mut last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        let text = format!("{error}: {reason}");
        if is_summary || *last == text {
            tracing::debug!("Kafka: {text}");
        } else {
            tracing::warn!("Kafka: {text}");
            *last = text;
        }
    }
}

impl ConsumerContext for Callbacks {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let is_assignment = event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.is_closing.load(Ordering::SeqCst) {
            let left = if is_assignment { Ok(()) } else { unassign(consumer, list) };
            if let Err(error) = left {
                tracing::debug!("leaving the group: {error}");
            }
            return;
        }
        let rebalanced =
            if is_assignment { Rebalanced::Assigned(list.clone()) } else { Rebalanced::Revoked(list.clone()) };
        self.rebalances.lock().unwrap_or_else(PoisonError::into_inner).push_back(rebalanced);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            // a former owner's commit is refused, and that is right; the checkpoint is the truth
            tracing::debug!("an offset commit was refused: {error}");
            self.is_commit_refused.store(true, Ordering::SeqCst);
        }
    }
}
