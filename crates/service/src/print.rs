//! Rows on stdout, as a table, CSV or JSON.

use std::{
    io::{self, Write},
    sync::Arc,
};

use anyhow::Result;
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, StringArray},
    csv,
    datatypes::{DataType, Field, Schema},
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
            writer.write(&flat(&RecordBatch::new_empty(Arc::new(schema)))?)?;
            while let Some(batch) = stream.next().await {
                writer.write(&flat(&batch?)?)?;
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

/// CSV has no arrays: each becomes a text, the array in JSON.
fn flat(batch: &RecordBatch) -> Result<RecordBatch> {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let column = match column.data_type() {
            DataType::List(_) => {
                let text = |row| Ok((!column.is_null(row)).then_some(array(column, row)?.to_string()));
                Arc::new((0..column.len()).map(text).collect::<Result<StringArray>>()?)
            }
            _ => Arc::clone(column),
        };
        columns.push((field.name().clone(), column));
    }
    let fields = columns.iter().map(|(name, column)| Field::new(name, column.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())?)
}

/// The array in a row of a column of arrays.
fn array(column: &ArrayRef, row: usize) -> Result<serde_json::Value> {
    let elements = column.as_list::<i32>().value(row);
    let texts = ArrayFormatter::try_new(&elements, &FORMAT)?;
    let element = |row| (!elements.is_null(row)).then(|| value(elements.data_type(), &texts.value(row).to_string()));
    Ok((0..elements.len()).map(element).collect::<Vec<_>>().into())
}

/// One object a row, its columns in the table's order. Integers, booleans, finite floats and arrays are JSON's own;
/// everything else is a string, so that no reader rounds a decimal.
pub(crate) fn json(batch: &RecordBatch, out: &mut impl Write) -> Result<()> {
    let columns = formatters(batch)?;
    let schema = batch.schema();
    for row in 0..batch.num_rows() {
        for (index, (field, column)) in schema.fields().iter().zip(batch.columns()).enumerate() {
            out.write_all(if index == 0 { b"{" } else { b"," })?;
            serde_json::to_writer(&mut *out, field.name())?;
            out.write_all(b":")?;
            let cell = match field.data_type() {
                _ if column.is_null(row) => serde_json::Value::Null,
                DataType::List(_) => array(column, row)?,
                data_type => value(data_type, &columns[index].value(row).to_string()),
            };
            serde_json::to_writer(&mut *out, &cell)?;
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
    use arrow::{
        array::{Decimal128Array, Float64Array, Int64Array, ListArray},
        datatypes::Int32Type,
    };

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

    #[test]
    fn arrays_are_arrays_in_json_and_text_in_csv() {
        let lists = [Some(vec![Some(1), None]), None, Some(Vec::new())];
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let batch = RecordBatch::try_from_iter([("a", Arc::new(lists) as ArrayRef)]).unwrap();
        let mut out = Vec::new();
        json(&batch, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":[1,null]}\n{\"a\":null}\n{\"a\":[]}\n");
        let flat = flat(&batch).unwrap();
        let texts: Vec<_> = flat.column(0).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("[1,null]"), None, Some("[]")]);
    }
}
