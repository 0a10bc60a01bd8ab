//! `simulate`: recorded messages through the whole pipeline, without a broker.

use std::process::ExitCode;

use anyhow::Result;
use datafusion::prelude::{Expr, SessionContext};
use pipeline::{BatchLimits, Blocks, DeadLetters, LetterFile, LogOnly, OnError, Pipeline, Settings, StartAt, Table};
use replica_delta::{DeltaReplica, Lake};

use crate::{
    assemble,
    cli::{OnErrorArg, SimulateArgs},
    config::Config,
    print,
    recorded::RecordedBlocks,
    run, shape, sql, stop,
};

pub(crate) async fn simulate(args: SimulateArgs) -> Result<ExitCode> {
    let config = args.table.config.as_deref().map(Config::read).transpose()?;
    let mut tables = shape::tables(&args.table, config.as_ref(), &args.files)?;
    if let (Some(location), [table]) = (&args.into, tables.as_mut_slice()) {
        table.location.clone_from(location);
    } else {
        for table in &mut tables {
            table.location = format!("memory:///{}", table.name);
        }
    }
    let lake = config.as_ref().map_or_else(Lake::default, assemble::lake);
    let mut limits = config.as_ref().map_or_else(BatchLimits::default, |config| config.batch);
    limits.records = args.batch_rows.unwrap_or(limits.records).max(1);
    // batches are to depend on the input only, not on how fast this machine is
    limits.age = std::time::Duration::from_hours(24);

    let mut assembled = Vec::new();
    for table in &tables {
        let on_error = match args.on_error {
            Some(OnErrorArg::Halt) => OnError::Halt,
            Some(OnErrorArg::DeadLetter) => OnError::DeadLetter,
            None => table.on_error,
        };
        let replica = DeltaReplica::open(&lake, &table.name, &table.location, "simulate", table.schema.clone()).await?;
        assembled.push(Table::new(&table.name, &table.topic, &table.schema, limits, on_error, replica));
    }
    let dead_letters: Box<dyn DeadLetters> = match &args.dead_letters {
        Some(path) => Box::new(LetterFile::open(path)?),
        None => Box::new(LogOnly),
    };
    let retry_max = std::time::Duration::from_secs(10);
    let settings = Settings { start_at: StartAt::Earliest, until_caught_up: true, retry_max, ..Settings::default() };
    let default_topic = tables.first().map_or("table", |table| table.topic.as_str());
    let source = Blocks::new(RecordedBlocks::new(args.files, default_topic));
    let pipeline = Pipeline::new(source, assembled, dead_letters, settings, ());
    let summary = pipeline.run(stop::requested()).await?;
    if let Some(form) = args.print {
        for table in &tables {
            let context = SessionContext::new();
            sql::register(&context, &table.name, &sql::open(&lake, table).await?).await?;
            let rows = context.table(datafusion::common::TableReference::bare(table.name.as_str())).await?;
            let key = table
                .schema
                .key_names()
                .map(|name| Expr::Column(datafusion::common::Column::from_name(name)).sort(true, true));
            print::frame(rows.sort(key.collect())?, form).await?;
        }
    }
    Ok(run::report(&summary))
}
