//! Flattened rows: the record's value is the row itself, with the transform's fields beside its columns.
//!
//! The rules are those of envelopes; what they need is read from other places. A field that was added by the transform is
//! never a column. A delete is known by its own mark or by a null value, as the table says. Of a deleted row nothing
//! is read but the record key, so its values cannot be wrong. What is no row was passed on by the transform as it was.

mod row;

use std::sync::Arc;

use self::row::Flat;
use super::{Decoded, Decoder, NoChange, Wrapper, text};
use crate::{
    BatchBuilder, Deletes, Flattening, Horizon, Malformed, Metadata, Op, Order, Problem, RecordRef, cell::Cell,
};

const ADD_OP: &str = "add op to the transform's add.fields";
const ADD_LSN: &str = "add lsn and source.sequence to the transform's add.fields";
const REWRITE: &str =
    "set the transform's delete.tombstone.handling.mode to rewrite, or the table's deletes to \"tombstone\"";

impl Decoder {
    /// Decodes one record of a topic that is flattened so.
    pub(super) fn decode_flattened(
        &mut self,
        flattening: &Flattening,
        record: RecordRef<'_>,
        horizon: &mut Horizon,
        batch: &mut BatchBuilder,
    ) -> Result<Decoded, Malformed> {
        let value = record.value.map_or(Ok("null"), |value| text(value, "value"))?;
        let (schema, json) = self.unwrapped(value);
        if let Some(schema) = schema
            && let Some(grown) = self.learn(schema)?
        {
            return Ok(Decoded::Grown(Arc::new(grown)));
        }
        let row = self.row(json, flattening)?;
        if !row.is_row && !row.is_null {
            return self.passed_on(json).map(Decoded::NoChange);
        }
        let missing = |metadata, remedy| Problem::NoMetadata { field: flattening.name(metadata).to_owned(), remedy };
        let (op, order) = match flattening.deletes() {
            Deletes::Rewrite if row.is_null => return Ok(Decoded::NoChange(NoChange::Tombstone)),
            Deletes::Rewrite => {
                let op = match row.op {
                    _ if row.is_deleted == Some(true) => Op::Delete,
                    None => return Err(missing(Metadata::Op, ADD_OP).into()),
                    Some(Op::Delete) => Op::Delete,
                    // under the other modes no row has the mark, and deletes would pass unseen
                    Some(_) if row.is_deleted.is_none() => return Err(missing(Metadata::Deleted, REWRITE).into()),
                    Some(op) => op,
                };
                if let Some(restart) = row.place.restart(op, horizon) {
                    return Ok(Decoded::Restart(restart));
                }
                (op, row.place.order(op, horizon).ok_or_else(|| missing(Metadata::Lsn, ADD_LSN))?)
            }
            Deletes::Tombstone => {
                let op = match row.op {
                    _ if row.is_null || row.is_delete() => Op::Delete,
                    Some(op) => op,
                    // an insert takes no value from the row that its key had before
                    None if row.cells.contains(&Cell::Unchanged) => return Err(missing(Metadata::Op, ADD_OP).into()),
                    None => Op::Update,
                };
                (op, Order::of_offset(record.offset, row.place.lsn.unwrap_or_default()).ok_or(Problem::NoOffset)?)
            }
        };
        let key = record.key.filter(|&key| key != b"null").ok_or(Problem::NoKey)?;
        let mut cells = if op == Op::Delete { self.key_cells(text(key, "key")?)? } else { row.cells };
        self.add(op, order, &mut cells, &record, batch)
    }

    /// The value's schema and the value without the wrapper that it has under `schemas.enable=true`.
    fn unwrapped<'a>(&self, value: &'a str) -> (Option<&'a str>, &'a str) {
        let is_column = |name| self.schema.position(name, 0).is_some();
        if value.starts_with("{\"schema\":")
            && !(is_column("schema") && is_column("payload"))
            && let Ok(Wrapper { schema, payload }) = serde_json::from_str(value)
        {
            return (Some(schema.get()), payload.get());
        }
        (None, value)
    }

    /// The row. Where it cannot be read, it is enough that it was deleted, or that it is none.
    fn row<'a>(&self, json: &'a str, flattening: &Flattening) -> Result<Flat<'a>, Malformed> {
        Flat::read(json, self, flattening, true).or_else(|malformed| {
            let row = Flat::read(json, self, flattening, false);
            row.ok().filter(|row| row.is_delete() || !row.is_row).ok_or(malformed)
        })
    }

    /// What the transform passes on as it was, because it is no row change.
    fn passed_on(&self, json: &str) -> Result<NoChange, Malformed> {
        let envelope = self.envelope(json)?;
        match envelope.op {
            None => envelope.without_op(),
            Some(Op::Message) => Ok(NoChange::LogicalMessage),
            Some(_) => Err(Problem::NotFlattened.into()),
        }
    }
}

#[cfg(test)]
mod tests;
