//! `sql`: DataFusion over the replicas.

use std::process::ExitCode;

use anyhow::{Context, Result};
use datafusion::prelude::{Expr, SessionContext};
use replica_delta::{DeltaReplica, Lake};

use crate::{
    assemble,
    cli::SqlArgs,
    config::{Config, TableConfig},
    print,
};

pub(crate) async fn sql(args: SqlArgs) -> Result<ExitCode> {
    let config = Config::read(&args.config.config)?.discovered().await?;
    let lake = assemble::lake(&config);
    let context = SessionContext::new();
    for table in &config.tables {
        let replica = open(&lake, table).await?;
        register(&context, &table.name, &replica).await?;
    }
    let rows = context.sql(&args.query).await.context("the query")?;
    print::frame(rows, args.print).await?;
    Ok(ExitCode::SUCCESS)
}

/// A table that is there.
pub(crate) async fn open(lake: &Lake, table: &TableConfig) -> Result<DeltaReplica> {
    let replica = DeltaReplica::existing(lake, &table.name, &table.location, "", table.schema.clone()).await?;
    replica.with_context(|| format!("table `{}`: there is nothing at {} yet; run first", table.name, table.location))
}

/// Registers a replica under its name, and without its soft-deleted rows as `<name>_current`.
pub(crate) async fn register(context: &SessionContext, name: &str, replica: &DeltaReplica) -> Result<()> {
    replica.prepare(context)?;
    let provider = replica.provider().await?;
    let is_deleted = Expr::Column(datafusion::common::Column::from_name(&replica.schema().meta().is_deleted));
    let current = context.read_table(provider.clone())?.filter(!is_deleted)?;
    context.register_table(datafusion::common::TableReference::bare(name), provider)?;
    context.register_table(datafusion::common::TableReference::bare(format!("{name}_current")), current.into_view())?;
    Ok(())
}
