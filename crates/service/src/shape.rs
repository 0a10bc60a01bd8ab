//! The table that `simulate` and `explain` work on: the config's, or one described by flags.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context, Result, bail};
use change::{Column, MetaColumns, TableSchema};
use pipeline::OnError;
use replica_delta::Layout;

use crate::{
    cli::TableArgs,
    config::{Config, TableConfig},
    recorded::{self, Recorded},
};

/// The tables to work on; with flags it is one, named `table`.
pub(crate) fn tables(args: &TableArgs, config: Option<&Config>, files: &[PathBuf]) -> Result<Vec<TableConfig>> {
    if let Some(config) = config {
        return Ok(match &args.table {
            Some(name) => vec![config.table(Some(name))?.clone()],
            None => config.tables.clone(),
        });
    }
    let columns = args
        .column
        .iter()
        .map(|declared| {
            let (name, declaration) =
                declared.split_once(':').with_context(|| format!("--column {declared}: write NAME:TYPE"))?;
            Column::declared(name, declaration).with_context(|| format!("--column {declared}"))
        })
        .collect::<Result<Vec<_>>>()?;
    let schema = TableSchema::new(columns, &args.key, MetaColumns::default())?;
    let topic = match &args.topic {
        Some(topic) => topic.clone(),
        None => only_topic(files)?,
    };
    Ok(vec![TableConfig {
        name: "table".to_owned(),
        topic,
        location: "memory:///table".to_owned(),
        source_table: None,
        on_error: OnError::Halt,
        schema: Arc::new(schema),
        layout: Layout::default(),
    }])
}

/// The one topic that the files' messages are of.
fn only_topic(files: &[PathBuf]) -> Result<String> {
    use std::io::BufRead;
    let mut topics = std::collections::BTreeSet::new();
    for file in files {
        for line in recorded::lines(file)?.lines() {
            let line = line.with_context(|| format!("cannot read {}", file.display()))?;
            if let Ok(Recorded { topic: Some(topic), .. }) = Recorded::parse(&line) {
                topics.insert(topic);
            }
        }
    }
    let names: Vec<_> = topics.iter().cloned().collect();
    match names.as_slice() {
        [] => Ok("table".to_owned()),
        [topic] => Ok(topic.clone()),
        _ => bail!("the input has several topics, choose one with --topic: {}", names.join(", ")),
    }
}
