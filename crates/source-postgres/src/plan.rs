//! [`TablePlan`]: what becomes of a table.

use change::{MetaColumns, TableSchema};

use crate::{ColumnPlan, Modes, Sent, columns, key, table::Table, toast};

/// What becomes of a table: its columns and key, and what an operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePlan {
    /// Its schema.
    pub schema: String,
    /// Its name in the schema.
    pub table: String,
    /// Its `COMMENT`.
    pub comment: Option<String>,
    /// Of each column, in order.
    pub columns: Vec<ColumnPlan>,
    /// The key's columns in order.
    pub key: Vec<String>,
    /// The names of the columns that Highwater adds: others than the default where the table has such names itself.
    pub meta: MetaColumns,
    /// What is worth knowing, a sentence each.
    pub warnings: Vec<String>,
    /// Why it cannot be replicated as it is, and what to do, a sentence each; empty where it can.
    pub refusals: Vec<String>,
}

impl TablePlan {
    /// The plan of `table` under the connector's `modes`.
    #[must_use]
    pub fn new(table: &Table, modes: &Modes) -> Self {
        let columns = columns(table, modes);
        let key = key::key(table, modes);
        let mut warnings = key.warnings;
        if table.partitioned {
            warnings.push(
                "partitioned: its changes come under this name only where the publication has \
                 publish_via_partition_root = true, and each partition's own REPLICA IDENTITY counts"
                    .to_owned(),
            );
        }
        warnings.extend(toast::warnings(table, &columns));
        warnings.extend(invented(table, modes));
        warnings.extend(unusual(&columns));
        let mut refusals: Vec<String> = key.refusal.into_iter().collect();
        refusals.extend(same_names(table));
        let mut plan = Self {
            schema: table.schema.clone(),
            table: table.name.clone(),
            comment: table.comment.clone(),
            columns,
            key: key.columns,
            meta: meta(table),
            warnings,
            refusals,
        };
        plan.check();
        plan
    }

    /// Whether a config can have it.
    #[must_use]
    pub fn can_be_replicated(&self) -> bool {
        self.refusals.is_empty()
    }

    /// Columns of which a record would halt the table.
    pub fn unread(&self) -> impl Iterator<Item = &ColumnPlan> {
        self.columns.iter().filter(|column| matches!(column.sent, Sent::Unread(_)))
    }

    /// Refuses what a config would be refused for.
    fn check(&mut self) {
        if !self.can_be_replicated() {
            return;
        }
        let without =
            |name: &String| self.columns.iter().any(|column| column.name == *name && column.declared().is_none());
        if let Some(column) = self.key.iter().find(|name| without(name)) {
            self.refusals
                .push(format!("its key has `{column}`, which is not sent; name others in message.key.columns"));
            return;
        }
        let declared = self.columns.iter().filter_map(ColumnPlan::declared).collect();
        if let Err(problem) = TableSchema::new(declared, &self.key, self.meta.clone()) {
            self.refusals.push(problem.to_string());
        }
    }
}

/// Columns whose names differ in nothing but case.
fn same_names(table: &Table) -> Option<String> {
    let mut names: Vec<_> = table.columns.iter().map(|column| (column.name.to_lowercase(), &column.name)).collect();
    names.sort();
    let pair = names.windows(2).find(|pair| pair[0].0 == pair[1].0)?;
    Some(format!(
        "`{}` and `{}` differ in nothing but case, which Delta does not tell apart (nor does the connector); rename \
         one of them",
        pair[0].1, pair[1].1
    ))
}

/// Columns of which a null can arrive as another value.
fn invented(table: &Table, modes: &Modes) -> Option<String> {
    let could = table.columns.iter().filter(|column| column.has_default && !column.not_null && !modes.nulls_stay);
    let names: Vec<_> = could.map(|column| format!("`{}`", column.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "a null arrives as the column's default unless value.converter.replace.null.with.default=false: {}",
            names.join(", ")
        )
    })
}

/// Columns whose names Delta's protocol allows with column mapping only, which Highwater does not write.
fn unusual(columns: &[ColumnPlan]) -> Option<String> {
    const UNUSUAL: [char; 10] = [' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];
    let declared = columns.iter().filter(|column| column.declared().is_some() && column.name.contains(UNUSUAL));
    let names: Vec<_> = declared.map(|column| format!("`{}`", column.name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "other writers of Delta, such as Spark, refuse names with a space or one of ,;{{}}()=; give another name for \
             the replica: {}",
            names.join(", ")
        )
    })
}

/// Names for Highwater's own columns that the table does not have.
fn meta(table: &Table) -> MetaColumns {
    let free = |name: String| {
        let taken = |name: &str| table.columns.iter().any(|column| column.name.to_lowercase() == name);
        let mut name = name;
        while taken(&name) {
            name.insert(0, '_');
        }
        name
    };
    let MetaColumns { source_lsn, source_anchor, is_deleted } = MetaColumns::default();
    MetaColumns { source_lsn: free(source_lsn), source_anchor: free(source_anchor), is_deleted: free(is_deleted) }
}
