//! [`Stats`]: what happened how often.

use std::{fmt, ops::AddAssign};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts over one history or many.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Stats {
            /// 1 for each thing that happened at all.
            #[must_use]
            pub fn happened(&self) -> Self {
                Self { $($name: u64::from(self.$name > 0),)* }
            }

            /// Every count with its name.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }

        impl AddAssign for Stats {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

stats! {
    /// Records that were written to topics.
    records,
    /// Records that a member counted as received.
    received,
    /// Rows in the tables at the end.
    rows,
    /// Delta commits.
    versions,
    /// Members killed at an await.
    kills,
    /// Members that stood still.
    pauses,
    /// Sessions that expired.
    sessions_expired,
    /// Members that left in good order.
    leaves,
    /// Rebalances.
    rebalances,
    /// Offset commits refused, since the partition had another owner.
    commits_refused,
    /// Offset commits that got lost.
    commits_lost,
    /// Partitions read again, since their table was set aside.
    set_aside,
    /// Questions that the brokers did not answer.
    brokers_away,
    /// Stale offset commits that were taken.
    commits_stale,
    /// Delta commits that lost a race.
    conflicts,
    /// Delta commits of which the answer got lost.
    answers_lost,
    /// Calls of the store that failed.
    store_failures,
    /// Lists of the store that left out the newest commit.
    listed_late,
    /// Outages of the store.
    outages,
    /// Crashes of the connector.
    connector_crashes,
    /// Snapshots, the first ones among them.
    snapshots,
    /// Ad-hoc snapshots that held up the stream.
    blocking_snapshots,
    /// Chunks of incremental snapshots.
    incremental_chunks,
    /// Truncates.
    truncates,
    /// Changes of a key.
    key_changes,
    /// Records that the broker appended twice.
    duplicates,
    /// Partitions added.
    partitions_added,
    /// Records removed by retention after they were durable.
    trimmed,
    /// Bad records.
    poison,
    /// Tables halted by a bad record, and started again by the operator.
    halts,
    /// Tables halted by a store that was away for too long, and started again.
    gave_up,
    /// Accidents with the table, its topic or the source.
    accidents,
    /// Accidents that halted the table, and that the operator accepted.
    accepted,
    /// Records that the last replay delivered again.
    replayed,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, count)) in self.all().iter().enumerate() {
            write!(f, "{}{name}={count}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
