//! Rows on stdout, as a table, CSV or JSON.

use std::io::{self, Write};

use anyhow::Result;
use arrow::{
    array::{Array, RecordBatch},
    csv,
    datatypes::DataType,
    util::display::{ArrayFormatter, FormatOptions},
};
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use datafusion::prelude::DataFrame;
use futures::StreamExt;

use crate::cli::Print;

/// Values as text: NULL is empty, instants in UTC.
const FORMAT: FormatOptions<'static> = FormatOptions::new();

/// Prints a query's result.
pub(crate) async fn frame(frame: DataFrame, form: Print) -> Result<()> {
    let schema = frame.schema().as_arrow().clone();
    let mut stream = frame.execute_stream().await?;
    let mut out = io::BufWriter::new(io::stdout());
    match form {
        Print::Text => {
            let mut batches = Vec::new();
            while let Some(batch) = stream.next().await {
                batches.push(batch?);
            }
            writeln!(out, "{}", table(&batches, schema.fields().iter().map(|f| f.name().as_str()).collect())?)?;
        }
        Print::Csv => {
            let mut writer = csv::WriterBuilder::new().with_header(true).build(out);
            writer.write(&RecordBatch::new_empty(std::sync::Arc::new(schema)))?;
            while let Some(batch) = stream.next().await {
                writer.write(&batch?)?;
            }
            writer.into_inner().flush()?;
            return Ok(());
        }
        Print::Json => {
            while let Some(batch) = stream.next().await {
                json(&batch?, &mut out)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// A table of text.
pub(crate) fn table(batches: &[RecordBatch], names: Vec<&str>) -> Result<Table> {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(names);
    for batch in batches {
        let columns = formatters(batch)?;
        for row in 0..batch.num_rows() {
            table.add_row(columns.iter().map(|column| column.value(row).to_string()));
        }
    }
    Ok(table)
}

fn formatters(batch: &RecordBatch) -> Result<Vec<ArrayFormatter<'_>>> {
    Ok(batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &FORMAT)).collect::<Result<_, _>>()?)
}

/// One object a row. Integers, booleans and finite floats are JSON's own; everything else is a string, so that no
/// reader rounds a decimal.
pub(crate) fn json(batch: &RecordBatch, out: &mut impl Write) -> Result<()> {
    let columns = formatters(batch)?;
    let schema = batch.schema();
    for row in 0..batch.num_rows() {
        let mut object = serde_json::Map::new();
        for ((field, column), text) in schema.fields().iter().zip(batch.columns()).zip(&columns) {
            let value = if column.is_null(row) {
                serde_json::Value::Null
            } else {
                value(field.data_type(), text.value(row).to_string())
            };
            object.insert(field.name().clone(), value);
        }
        serde_json::to_writer(&mut *out, &object)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn value(data_type: &DataType, text: String) -> serde_json::Value {
    let bare = data_type.is_integer() || data_type.is_floating() || *data_type == DataType::Boolean;
    match bare.then(|| serde_json::from_str(&text)) {
        Some(Ok(value)) => value,
        _ => serde_json::Value::String(text),
    }
}
