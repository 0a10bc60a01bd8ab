//! Data files as the table's own properties and partition columns want them.

use std::collections::HashMap;

use arrow::datatypes::SchemaRef;
use deltalake_core::{
    DeltaTable, DeltaTableError,
    operations::{
        get_num_idx_cols_and_stats_columns,
        write::writer::{DeltaWriter, WriterConfig},
    },
    table::config::TablePropertiesExt as _,
};

/// A writer of rows with these columns into files of the table's target size, one or more a partition, each with the
/// statistics that the table keeps.
pub(crate) fn writer(table: &DeltaTable, columns: SchemaRef) -> Result<DeltaWriter, DeltaTableError> {
    let state = table.snapshot()?;
    let (properties, partitions) = (state.table_config(), state.metadata().partition_columns().to_vec());
    let (indexed, statistics) = get_num_idx_cols_and_stats_columns(Some(properties), HashMap::new());
    let size = Some(properties.target_file_size());
    let configuration = WriterConfig::new(columns, partitions, None, size, None, indexed, statistics);
    Ok(DeltaWriter::new(table.object_store(), configuration))
}
