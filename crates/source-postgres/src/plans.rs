//! [`plans`]: every table that a connector captures, by its topic.

use std::collections::BTreeMap;

use crate::{Catalog, Modes, PostgresError, PostgresSettings, Selection, TablePlan, connect, topic};

/// What becomes of each table that the connector of `modes` captures, by its topic.
///
/// # Errors
/// [`PostgresError`] where the source cannot be asked.
pub async fn plans(settings: &PostgresSettings, modes: &Modes) -> Result<BTreeMap<String, TablePlan>, PostgresError> {
    let mut client = connect(settings).await?;
    let catalog = Catalog::read(&mut client, settings, &Selection::new(modes, &[])?).await?;
    let prefix = modes.topic_prefix.as_deref().unwrap_or_default();
    let delimiter = modes.topic_delimiter.as_deref().unwrap_or(".");
    let plans = catalog
        .tables
        .iter()
        .map(|table| (topic::topic(prefix, delimiter, &table.schema, &table.name), TablePlan::new(table, modes)));
    Ok(plans.collect())
}
