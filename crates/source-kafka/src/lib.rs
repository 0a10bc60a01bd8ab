//! The source over a Kafka consumer group.
//!
//! [`consumer`] runs librdkafka's consumer on a thread of its own: it polls without a pause, so a merge of any length
//! costs no membership, copies what it reads into blocks, and hands rebalances on as values. [`KafkaSource`] is the
//! pipeline's end of that thread. [`group`] turns positions into committed offsets and back, and [`peek`] looks at the
//! record before a position, [`TopicEnds`] at where a topic ends, [`GroupWatch`] at the group from outside. Offsets are committed
//! only when the pipeline acknowledges them, and reading always begins at an offset that the pipeline names.

mod callbacks;
mod command;
mod consumer;
mod ends;
mod group;
mod peek;
mod probe;
mod settings;
mod source;
mod topics;
mod watch;

pub use ends::{PartitionEnd, TopicEnds};
pub use probe::probe;
pub use settings::KafkaSettings;
pub use source::KafkaSource;
pub use topics::{first_record, topics};
pub use watch::{GroupState, GroupWatch, Member, PartitionState};
