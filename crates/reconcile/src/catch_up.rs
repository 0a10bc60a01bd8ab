//! [`CatchUp`]: waits until a replica has come to an LSN of the source.
//!
//! First everything that was committed before it has to be in Kafka. That is known when the connector's slot has
//! confirmed the LSN; or when the replica has a streamed row of a later one, as the connector sends transactions in the
//! order of their commits. Where the source is idle neither comes about: then it is taken from the server having sent all
//! that it decoded up to there, a while ago. Then the replica has to come to where its topic ended at that moment.

use std::time::{Duration, Instant};

use change::Lsn;
use pipeline::{Fault, Replica as _};
use replica_delta::{Compared, DeltaReplica, ReplicaView};
use source_kafka::TopicEnds;
use source_postgres::{Delivery, SlotPlace};

const POLL: Duration = Duration::from_millis(250);

/// Waits until a replica has come to an LSN.
#[derive(Debug)]
pub struct CatchUp {
    /// The connection to the primary.
    pub delivery: Delivery,
    /// The table's topic.
    pub topic: TopicEnds,
    /// It gives up after so long.
    pub patience: Duration,
    /// What was sent so long ago has reached Kafka, where the source is idle.
    pub grace: Duration,
    /// Whether to write a message into the WAL, so that an idle source's slot moves.
    pub announces: bool,
    /// What sorting and hashing may take of the memory, in bytes.
    pub memory: usize,
}

impl CatchUp {
    /// Waits until `replica`, which is read again and again meanwhile, holds everything that was committed before `lsn`, and
    /// hands back that version.
    ///
    /// # Errors
    /// A halt that says who is behind, after [`Self::patience`]; a fault of the store or of the brokers.
    pub async fn wait(&self, replica: &mut DeltaReplica, compared: &Compared, lsn: Lsn) -> Result<ReplicaView, Fault> {
        let began = Instant::now();
        if self.announces {
            self.delivery.announce().await.map_err(Fault::halt)?;
        }
        let mut sent_since: Option<Instant> = None;
        let mut seen: Option<(u64, Lsn)> = None;
        loop {
            let place = self.delivery.place().await.map_err(Fault::halt)?;
            if place.as_ref().is_some_and(|place| place.confirmed >= lsn) {
                break;
            }
            replica.checkpoint(self.topic.partitions()).await?;
            if seen.is_none_or(|(version, _)| version != replica.version()) {
                let view = ReplicaView::new(replica, compared.clone(), self.memory).await?;
                seen = Some((view.version(), view.newest_lsn().await?));
            }
            if seen.is_some_and(|(_, newest)| newest > lsn) {
                break;
            }
            let is_sent = place.as_ref().and_then(|place| place.sent).is_some_and(|sent| sent >= lsn);
            sent_since = if is_sent { sent_since.or_else(|| Some(Instant::now())) } else { None };
            if sent_since.is_some_and(|since| since.elapsed() >= self.grace) {
                break;
            }
            if began.elapsed() > self.patience {
                return Err(Fault::halt(match place {
                    Some(SlotPlace { name, confirmed, sent: Some(sent) }) => format!(
                        "the server has sent its WAL up to {sent} through the connector's slot `{name}`, whose reader has \
                         confirmed {confirmed}, and the comparison waits for {lsn}: is the connector running?"
                    ),
                    Some(SlotPlace { name, confirmed, sent: None }) => format!(
                        "the connector's slot `{name}` has confirmed {confirmed}, and the comparison waits for {lsn}: is the \
                         connector running? An idle source's slot does not move: grant pg_read_all_stats to the user of \
                         [source], who then sees how far the server has sent its WAL, or use --announce"
                    ),
                    None => format!(
                        "the database has no logical slot, and the replica has not come to {lsn} by itself: name the \
                         primary with primary = \"postgres://...\" in [source], or the connector's slot with slot = \"...\""
                    ),
                }));
            }
            tokio::time::sleep(POLL).await;
        }
        self.read_up(replica, began).await?;
        ReplicaView::new(replica, compared.clone(), self.memory).await
    }

    /// Waits until the replica has everything that its topic holds now.
    async fn read_up(&self, replica: &mut DeltaReplica, began: Instant) -> Result<(), Fault> {
        let ends = tokio::task::block_in_place(|| self.topic.now())?;
        loop {
            let known = replica.checkpoint(self.topic.partitions()).await?;
            let group = tokio::task::block_in_place(|| self.topic.now())?;
            let behind = ends.iter().zip(&group).find_map(|(end, now)| {
                let held = known.get(&end.partition).map_or(0, |position| position.offset);
                // records that change nothing move the group's offset alone
                let position = held.max(now.committed.unwrap_or_default());
                end.end.filter(|&end| position < end).map(|goal| (end.partition.clone(), position, goal))
            });
            let Some((partition, position, goal)) = behind else { return Ok(()) };
            if began.elapsed() > self.patience {
                return Err(Fault::halt(format!(
                    "the replica has read {partition} up to offset {position}, and the comparison waits for {goal}: is \
                     highwater running, and the table not halted?"
                )));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}
