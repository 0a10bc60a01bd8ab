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
            let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            writeln!(out, "{}", table(&batches, &names)?)?;
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

/// A table of text that has its header only.
pub(crate) fn headed(names: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(names);
    table
}

/// A table of text.
pub(crate) fn table(batches: &[RecordBatch], names: &[&str]) -> Result<Table> {
    let mut table = headed(names);
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

/// One object a row, its columns in the table's order. Integers, booleans and finite floats are JSON's own; everything
/// else is a string, so that no reader rounds a decimal.
pub(crate) fn json(batch: &RecordBatch, out: &mut impl Write) -> Result<()> {
    let columns = formatters(batch)?;
    let schema = batch.schema();
    for row in 0..batch.num_rows() {
        for (index, (field, column)) in schema.fields().iter().zip(batch.columns()).enumerate() {
            out.write_all(if index == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut *out, field.name())?;
            out.write_all(b":")?;
            let text = (!column.is_null(row)).then(|| columns[index].value(row).to_string());
            serde_json::to_writer(&mut *out, &text.map(|text| value(field.data_type(), &text)))?;
        }
        out.write_all(b"}\n")?;
    }
    Ok(())
}

fn value(data_type: &DataType, text: &str) -> serde_json::Value {
    let bare = data_type.is_integer() || data_type.is_floating() || *data_type == DataType::Boolean;
    match (bare.then(|| serde_json::from_str(text)), text) {
        (Some(Ok(value)), _) => value,
        // as PostgreSQL and Debezium write them
        (Some(Err(_)), "inf") => "Infinity".into(),
        (Some(Err(_)), "-inf") => "-Infinity".into(),
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn a_row_keeps_its_order_and_its_digits() {
        let columns: [(&str, ArrayRef); 4] = [
            ("z", Arc::new(Int64Array::from(vec![Some(i64::MAX), None]))),
            ("a \"b\"", Arc::new(StringArray::from(vec!["7", "x"]))),
            ("d", Arc::new(Decimal128Array::from(vec![1, -12_345]).with_precision_and_scale(38, 2).unwrap())),
            ("f", Arc::new(Float64Array::from(vec![f64::NEG_INFINITY, -0.0]))),
        ];
        let mut out = Vec::new();
        json(&RecordBatch::try_from_iter(columns).unwrap(), &mut out).unwrap();
        let expected = r#"{"z":9223372036854775807,"a \"b\"":"7","d":"0.01","f":"-Infinity"}
{"z":null,"a \"b\"":"x","d":"-123.45","f":-0.0}
"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
