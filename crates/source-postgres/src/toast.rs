//! Values that an update leaves out because they are TOASTed and have not changed.

use change::DataType;

use crate::{
    ColumnPlan,
    table::{ReplicaIdentity, Table},
};

/// What an operator should know about a table's columns that can be TOASTed, a sentence each.
pub(crate) fn warnings(table: &Table, columns: &[ColumnPlan]) -> Vec<String> {
    if table.replica_identity == ReplicaIdentity::Full {
        return Vec::new();
    }
    let toastable = table.columns.iter().zip(columns).filter(|(column, _)| column.toastable);
    let declared = toastable.filter_map(|(_, plan)| plan.declared());
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for column in declared {
        let name = format!("`{}`", column.name);
        match &column.data_type {
            DataType::String | DataType::Json | DataType::Hstore | DataType::Binary => kept.push(name),
            DataType::Array(element) if has_placeholder(element) => kept.push(name),
            DataType::Array(_) | DataType::Numeric { scale: None } => lost.push(name),
            // short enough to stay in their row
            _ => {}
        }
    }
    let mut warnings = Vec::new();
    if !kept.is_empty() {
        warnings.push(format!(
            "without REPLICA IDENTITY FULL, an update that leaves such a value unchanged does not carry it, and the \
             replica keeps the value that it has; a change of the key then needs REPLICA IDENTITY FULL: {}",
            kept.join(", ")
        ));
    }
    if !lost.is_empty() {
        warnings.push(format!(
            "without REPLICA IDENTITY FULL, an unchanged value of more than about 2 kB is lost in an update: it \
             arrives as null or as another value; set REPLICA IDENTITY FULL: {}",
            lost.join(", ")
        ));
    }
    warnings
}

/// Whether the connector writes a placeholder that is known in an array of these.
fn has_placeholder(element: &DataType) -> bool {
    matches!(element, DataType::String | DataType::Short | DataType::Int | DataType::Long)
}
