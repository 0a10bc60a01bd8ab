//! What the operator accepts, by table.

use anyhow::Result;
use pipeline::Accept;
use replica_delta::Lake;

use crate::{
    assemble,
    cli::{AcceptArgs, TableEpoch},
    config::{Config, Problems},
};

impl AcceptArgs {
    /// Whether every table that is named is in the config.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Problems> {
        let epochs = self.epoch.iter().map(|TableEpoch { table, .. }| table);
        let mut named = self.gap.iter().chain(&self.topic).chain(epochs);
        named.try_for_each(|name| config.table(Some(name)).map(drop))
    }

    /// What is accepted for a table at an assignment.
    pub(crate) fn of(&self, table: &str) -> Accept {
        let names = |list: &[String]| list.iter().any(|name| name == table);
        Accept { gap: names(&self.gap), topic: names(&self.topic) }
    }

    /// Begins the epochs that are accepted. This comes before any record is read, so that none is decoded under the old one.
    pub(crate) async fn begin_epochs(&self, lake: &Lake, config: &Config, group: &str) -> Result<()> {
        for TableEpoch { table, since } in &self.epoch {
            let mut replica = assemble::replica(lake, config, config.table(Some(table))?, group).await?;
            if replica.begin_epoch(*since).await? {
                tracing::warn!(
                    table,
                    epoch = since,
                    "began a new epoch: the rows are soft-deleted until they are read again"
                );
            } else {
                tracing::info!(table, epoch = since, "has this epoch, or a later one, already");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command, TableEpoch};

    #[test]
    fn what_is_accepted_is_accepted_for_the_named_tables_only() {
        let args = ["highwater", "run", "--accept-gap", "a", "--accept-topic", "b", "--accept-gap", "b"];
        let cli = Cli::try_parse_from(args.iter().chain(&["--accept-epoch", "odd@name@1796031625098"])).unwrap();
        let Command::Run(run) = cli.command else { panic!("not run") };
        let of = |table| (run.accept.of(table).gap, run.accept.of(table).topic);
        assert_eq!([of("a"), of("b"), of("c")], [(true, false), (true, true), (false, false)]);
        let epoch = TableEpoch { table: "odd@name".to_owned(), since: 1_796_031_625_098 };
        assert_eq!(run.accept.epoch, [epoch]);
        for bad in ["orders", "orders@", "orders@soon"] {
            assert!(Cli::try_parse_from(["highwater", "run", "--accept-epoch", bad]).is_err(), "{bad}");
        }
    }
}
