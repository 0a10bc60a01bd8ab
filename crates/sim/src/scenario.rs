//! [`Scenario`]: a history as plain data, drawn from a seed. A scenario can be cut down and run again.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{lake::Mishap, postgres::Write};

/// Everything that a run depends on.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Scenario {
    /// Where it was drawn from; also the seed of the chances that the run itself takes.
    pub seed: u64,
    /// Tables, each with its topic.
    pub tables: usize,
    /// Keys that are written to.
    pub keys: i64,
    /// Partitions of each topic.
    pub partitions: i32,
    /// Members of the group.
    pub members: usize,
    /// Cooperative or eager rebalances.
    pub is_cooperative: bool,
    /// Updates leave out notes that did not change.
    pub leaves_out: bool,
    /// Bad records become dead letters, or halt their table.
    pub keeps_letters: bool,
    /// Records of a batch.
    pub batch_records: usize,
    /// Age of a batch.
    pub batch_age: Duration,
    /// How long a member waits for the store before it halts a table.
    pub retry_max: Duration,
    /// Bytes of the batches from which on a member reads no more.
    pub memory: usize,
    /// Blocks of records that a poll hands out at most.
    pub block: usize,
    /// The clocks of source and brokers can be relied on; otherwise they jump.
    pub is_clock_true: bool,
    /// What happens to the table, its topic or the source while no member runs.
    pub accident: Option<Accident>,
    /// What happens, one after the other.
    pub steps: Vec<Step>,
}

/// What the operator meets before the last member is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accident {
    /// The first table was deleted.
    LostTable,
    /// It was set back to an older version.
    OlderTable,
    /// Its topic was created anew, and filled by a new snapshot.
    NewTopic,
    /// The database was set back to an older state, its WAL addresses too, and snapshotted anew.
    OlderSource,
}

/// Something that happens a while after the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How long after the one before.
    pub after: Duration,
    /// What happens.
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A transaction writes a row.
    Write {
        /// The transaction; it begins with its first change.
        tx: u8,
        /// The table.
        table: usize,
        /// The key.
        key: i64,
        /// What it does.
        write: Write,
    },
    /// A transaction commits.
    Commit(u8),
    /// A transaction is rolled back.
    Abort(u8),
    /// The connector writes so many records.
    Connect(usize),
    /// It keeps its offsets.
    KeepOffsets,
    /// It crashes; `forget`: without its offsets.
    ConnectorCrash {
        /// The offsets are lost.
        forget: bool,
    },
    /// An ad-hoc snapshot that holds up the stream.
    Blocking(usize),
    /// A chunk of an incremental snapshot, and a transaction that commits in its window.
    Chunk {
        /// The table.
        table: usize,
        /// The first key.
        from: i64,
        /// The transaction.
        tx: u8,
    },
    /// A record that cannot be decoded.
    Poison(usize),
    /// A heartbeat or a logical message.
    NoChange(usize),
    /// The broker appends its last records once more.
    Repeat(usize),
    /// A member is killed at an await.
    Kill {
        /// The member.
        member: usize,
        /// How many awaits from now.
        at: u32,
    },
    /// A member stands still.
    Pause {
        /// The member.
        member: usize,
        /// For how long.
        time: Duration,
    },
    /// A member leaves in good order, and comes back.
    Leave(usize),
    /// The group hands its partitions out anew.
    Rebalance,
    /// Something goes wrong with a commit to come.
    Mishap(Mishap),
    /// The store does not answer.
    Outage(Duration),
    /// Offset commits get lost.
    LoseCommits(u32),
    /// An old coordinator takes offset commits of former owners.
    StaleCommits(u32),
    /// A partition more for each topic.
    AddPartition,
    /// Retention removes records that are durable.
    Trim,
}

impl Scenario {
    /// The scenario of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed ^ 0x5EED);
        let rng = &mut rng;
        let members = rng.random_range(1..=3);
        let tables = if rng.random_ratio(1, 4) { 2 } else { 1 };
        let mut scenario = Self {
            seed,
            tables,
            keys: rng.random_range(1..=10),
            partitions: rng.random_range(1..=4),
            members,
            is_cooperative: rng.random(),
            leaves_out: rng.random(),
            keeps_letters: rng.random_ratio(3, 4),
            batch_records: *pick(rng, &[1, 2, 3, 7, 20, 1000]),
            batch_age: Duration::from_millis(*pick(rng, &[10, 200, 2000])),
            retry_max: Duration::from_secs(*pick(rng, &[600, 600, 3])),
            memory: *pick(rng, &[200, 2000, 1 << 20]),
            block: *pick(rng, &[1, 3, 20, 100]),
            is_clock_true: rng.random(),
            accident: None,
            steps: Vec::new(),
        };
        if rng.random_ratio(1, 4) {
            let all = [Accident::LostTable, Accident::OlderTable, Accident::NewTopic, Accident::OlderSource];
            scenario.accident = Some(*pick(rng, &all));
            scenario.is_clock_true = true;
            if scenario.accident == Some(Accident::OlderSource) {
                // a partition that got no row of the new snapshot shows no sign (docs/adr/0005-epochs.md)
                (scenario.tables, scenario.partitions) = (1, 1);
            }
        }
        let length = *pick(rng, &[60, 160, 500]);
        // some histories are quiet and some are nothing but trouble
        let trouble = *pick(rng, &[0, 5, 15, 40]);
        for _ in 0..rng.random_range(20..length) {
            let what = if rng.random_range(0..100) < trouble { scenario.fault(rng) } else { scenario.work(rng) };
            let after = Duration::from_millis(if rng.random_ratio(1, 3) { 0 } else { rng.random_range(0..400) });
            scenario.steps.push(Step { after, what });
        }
        scenario
    }

    fn work(&self, rng: &mut StdRng) -> What {
        let (tx, table) = (rng.random_range(0..3), rng.random_range(0..self.tables));
        let key = rng.random_range(0..self.keys);
        match rng.random_range(0..100) {
            0..45 => {
                let write = match rng.random_range(0..100) {
                    0..45 => Write::Put,
                    45..65 => Write::Touch,
                    65..85 => Write::Delete,
                    85..91 => Write::Move(rng.random_range(0..self.keys)),
                    91..97 => Write::Copy(rng.random_range(2..6)),
                    _ => Write::Truncate,
                };
                What::Write { tx, table, key, write }
            }
            45..62 => What::Commit(tx),
            62..64 => What::Abort(tx),
            64..92 => What::Connect(rng.random_range(1..20)),
            92..97 => What::KeepOffsets,
            _ => What::NoChange(table),
        }
    }

    fn fault(&self, rng: &mut StdRng) -> What {
        let (member, table) = (rng.random_range(0..self.members), rng.random_range(0..self.tables));
        match rng.random_range(0..100) {
            0..18 => What::Kill { member, at: rng.random_range(0..30) },
            18..28 => What::Pause { member, time: Duration::from_millis(rng.random_range(10..25_000)) },
            28..33 => What::Leave(member),
            33..39 => What::Rebalance,
            39..47 => What::Mishap(Mishap::Fails),
            47..55 => What::Mishap(Mishap::AnswerLost),
            55..60 => What::Mishap(Mishap::Slow(Duration::from_millis(rng.random_range(100..15_000)))),
            60..64 => What::Outage(Duration::from_millis(rng.random_range(100..60_000))),
            64..69 => What::LoseCommits(rng.random_range(1..10)),
            69..72 => What::StaleCommits(rng.random_range(1..5)),
            72..80 => What::ConnectorCrash { forget: rng.random_ratio(1, 4) },
            80..83 => What::Blocking(table),
            83..87 => What::Chunk { table, from: rng.random_range(0..self.keys), tx: rng.random_range(0..3) },
            87..91 => What::Poison(table),
            91..95 => What::Repeat(rng.random_range(1..6)),
            95..98 => What::Trim,
            _ => What::AddPartition,
        }
    }
}

fn pick<'a, T>(rng: &mut StdRng, from: &'a [T]) -> &'a T {
    &from[rng.random_range(0..from.len())]
}
