//! Writes the events that passed the guard: a delta-rs MERGE, or an append where every key is new.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::{Field, Schema},
    error::ArrowError,
};
use change::TableSchema;
use datafusion::{
    common::Column,
    logical_expr::{Expr, binary_expr, when},
    prelude::SessionContext,
};
use deltalake_core::{
    DeltaTable, DeltaTableError,
    kernel::{
        Action,
        transaction::{CommitBuilder, CommitProperties, TableReference},
    },
    protocol::DeltaOperation,
};
use pipeline::{Fault, Work};

use crate::{Verdict, data_file, fault, fold::Folded, guard::key_operator};

const SOURCE: &str = "source";
const TARGET: &str = "target";

/// Rows that passed the guard.
pub(crate) struct Winners {
    /// In the replica's shape, each key once.
    pub(crate) rows: RecordBatch,
    /// The rows of which the stored one keeps every column.
    pub(crate) keeps_all: BooleanArray,
    /// By source column: the rows whose stored value stays.
    pub(crate) keeps: HashMap<usize, BooleanArray>,
    /// How many of the keys are there already.
    pub(crate) matched: usize,
}

impl Winners {
    /// The winners that passed the guard.
    pub(crate) fn passed(folded: &Folded, verdicts: &[Verdict]) -> Result<Self, ArrowError> {
        let passed: BooleanArray = verdicts.iter().map(|verdict| Some(!verdict.is_guarded())).collect();
        let pick = |flags: &Vec<bool>| {
            flags.iter().zip(&passed).filter(|(_, p)| *p == Some(true)).map(|(f, _)| Some(*f)).collect()
        };
        Ok(Self {
            rows: filter_record_batch(&folded.rows, &passed)?,
            keeps_all: pick(&folded.keeps_all),
            keeps: folded.keeps.iter().map(|(&column, flags)| (column, pick(flags))).collect(),
            matched: verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Update(_))).count(),
        })
    }
}

/// Writes `winners` in one commit with `properties`, and hands back the table at its new version.
///
/// # Errors
/// A redo where another writer committed in between; a fault of the store; a halt where the MERGE did not touch the
/// rows that the guard let through.
pub(crate) async fn write(
    context: &SessionContext,
    table: DeltaTable,
    schema: &TableSchema,
    winners: Winners,
    properties: CommitProperties,
    work: &mut Work,
) -> Result<DeltaTable, Fault> {
    if winners.matched == 0 {
        return append(table, winners.rows, properties, work).await.map_err(|e| fault::delta("appending", &e));
    }
    let expected = winners.rows.num_rows();
    let merged = merge(context, table, schema, winners, properties, work).await;
    let (table, touched) = merged.map_err(|e| fault::delta("merging", &e))?;
    if touched != expected {
        return Err(Fault::halt(format!(
            "the merge touched {touched} rows instead of {expected}: the table has rows with one key, or was changed \
             by a writer that Delta could not see; reconcile it"
        )));
    }
    Ok(table)
}

async fn merge(
    context: &SessionContext,
    table: DeltaTable,
    schema: &TableSchema,
    winners: Winners,
    properties: CommitProperties,
    work: &mut Work,
) -> Result<(DeltaTable, usize), DeltaTableError> {
    let operator = key_operator(schema, &winners.rows);
    let on = schema.key_names().map(|key| binary_expr(column(TARGET, key), operator, column(SOURCE, key)));
    let Some(on) = on.reduce(Expr::and) else { return Ok((table, 0)) };
    let meta = schema.meta();
    let meta_columns = [meta.source_lsn.as_str(), &meta.source_anchor, &meta.is_deleted];

    let flags = Flags::of(&winners);
    let source = context.read_batch(flags.added_to(&winners)?)?;
    let value = |index: usize, name: &str| -> Result<Expr, DeltaTableError> {
        let incoming = column(SOURCE, name);
        Ok(match flags.keeps.get(&index) {
            Some(flag) => when(column(SOURCE, flag), column(TARGET, name)).otherwise(incoming)?,
            None => incoming,
        })
    };
    let all: Vec<(String, Expr)> = schema
        .columns()
        .iter()
        .enumerate()
        .map(|(i, c)| Ok((c.name.clone(), value(i, &c.name)?)))
        .chain(meta_columns.iter().map(|&name| Ok((name.to_owned(), column(SOURCE, name)))))
        .collect::<Result<_, DeltaTableError>>()?;

    let mut builder = table.merge(source, on).with_source_alias(SOURCE).with_target_alias(TARGET);
    if let Some(flag) = &flags.keeps_all {
        let keeps_all = column(SOURCE, flag);
        builder = builder.when_matched_update(|update| {
            meta_columns.iter().fold(update.predicate(keeps_all), |update, &name| {
                update.update(Column::from_name(name), column(SOURCE, name))
            })
        })?;
    }
    builder = builder.when_matched_update(|update| {
        all.iter().fold(update, |update, (name, value)| update.update(Column::from_name(name), value.clone()))
    })?;
    if winners.matched < winners.rows.num_rows() {
        builder = builder.when_not_matched_insert(|insert| {
            let names = schema.arrow().fields().iter().map(|field| field.name());
            names.fold(insert, |insert, name| insert.set(Column::from_name(name), column(SOURCE, name)))
        })?;
    }
    let (table, metrics) =
        builder.with_session_state(Arc::new(context.state())).with_commit_properties(properties).await?;
    tracing::debug!(?metrics, "merged");
    work.files_written += metrics.num_target_files_added as u64;
    work.files_removed += metrics.num_target_files_removed as u64;
    work.rows_copied += metrics.num_target_rows_copied as u64;
    Ok((table, metrics.num_target_rows_updated + metrics.num_target_rows_inserted))
}

/// `relation.name`, whatever characters the name has.
fn column(relation: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(relation), name))
}

/// The names of the flag columns that go with the rows into the MERGE.
struct Flags {
    keeps_all: Option<String>,
    keeps: HashMap<usize, String>,
}

impl Flags {
    fn of(winners: &Winners) -> Self {
        let taken = winners.rows.schema();
        let free = |mut name: String| {
            while taken.fields().iter().any(|field| field.name().eq_ignore_ascii_case(&name)) {
                name.push('_');
            }
            name
        };
        Self {
            keeps_all: (winners.keeps_all.true_count() > 0).then(|| free("keeps_all".to_owned())),
            keeps: winners.keeps.keys().map(|&column| (column, free(format!("keeps_{column}")))).collect(),
        }
    }

    fn added_to(&self, winners: &Winners) -> Result<RecordBatch, ArrowError> {
        let all = self.keeps_all.iter().map(|name| (name, &winners.keeps_all));
        let flags = all.chain(self.keeps.iter().map(|(column, name)| (name, &winners.keeps[column])));
        let mut fields: Vec<Arc<Field>> = winners.rows.schema().fields().iter().cloned().collect();
        let mut columns: Vec<ArrayRef> = winners.rows.columns().to_vec();
        for (name, flag) in flags {
            fields.push(Arc::new(Field::new(name, flag.data_type().clone(), false)));
            columns.push(Arc::new(flag.clone()));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }
}

/// Where no key is in the table a MERGE would join for nothing. The commit is a MERGE's all the same, one that read
/// the whole table, so that it fails when another writer was faster: that one may have inserted the same keys.
async fn append(
    mut table: DeltaTable,
    rows: RecordBatch,
    properties: CommitProperties,
    work: &mut Work,
) -> Result<DeltaTable, DeltaTableError> {
    let state = table.snapshot()?;
    let mut writer = data_file::writer(&table, rows.schema())?;
    writer.write(&rows).await?;
    let added: Vec<_> = writer.close().await?.into_iter().map(Action::Add).collect();
    work.files_written += added.len() as u64;
    let commit = CommitBuilder::from(properties)
        .with_actions(added)
        .build(Some(state.snapshot() as &dyn TableReference), table.log_store(), whole_table())
        .await?;
    table.state = Some(commit.snapshot());
    Ok(table)
}

/// The operation of a commit that rests on all rows of the version before it.
pub(crate) fn whole_table() -> DeltaOperation {
    DeltaOperation::Merge {
        predicate: None,
        merge_predicate: None,
        matched_predicates: Vec::new(),
        not_matched_predicates: Vec::new(),
        not_matched_by_source_predicates: Vec::new(),
    }
}
