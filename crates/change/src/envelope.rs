//! [`Decoder`]: Debezium's JSON envelopes, straight into a table's [`BatchBuilder`].
//!
//! The rules: a row change must have a record key, an `op`, an LSN and exactly the table's columns; whatever is
//! missing, unknown or unfit is refused with the column's name, never filled in. Only a table that grows takes over new
//! columns, where the record says of what type they are, and holds null where one is gone. Of a delete only the record key
//! is read: under the default replica identity Debezium invents the rest of `before`. Records that change no row
//! are told apart by their shape. Both converter modes are read: with `schemas.enable=true` the payload is taken
//! and the record's schema decides the units. Rows that a transform has flattened are read in `flat`.

mod flat;
mod source_block;

use std::{cell::Cell as Slot, fmt, sync::Arc};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    BatchBuilder, EnvelopeForm, Horizon, Malformed, Op, Order, Problem, RecordRef, TableSchema,
    batch::Origin,
    cell::{Cell, CellSeed},
    numeric::ZEROS_A_ROW,
    order::{Place, Restart},
    partition,
    record_schema::RecordSchema,
    schema::Named,
    wire::Wire,
};

/// What a record turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// A row change; it was added to the batch.
    Change(Op, Order),
    /// The table was truncated; the batch ends here.
    Truncate(Order),
    /// Nothing that changes a row.
    NoChange(NoChange),
    /// The source's LSNs have begun again with this record, which was not added to the batch.
    Restart(Restart),
    /// The source's columns have grown to these. The record was not added to the batch: it is for a decoder and a batch
    /// of the new schema.
    Grown(Arc<TableSchema>),
}

/// A record that changes no row; its position moves all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoChange {
    /// A null value, which follows each delete.
    Tombstone,
    /// A heartbeat.
    Heartbeat,
    /// The begin or end of a transaction.
    TransactionMarker,
    /// A message from `pg_logical_emit_message`.
    LogicalMessage,
    /// A change of another table of the source, which shares the topic.
    OtherTable,
}

/// Decodes the records of one table.
#[derive(Debug)]
pub struct Decoder {
    schema: Arc<TableSchema>,
    /// How each column is written: as declared, or as the newest record schema says.
    wires: Vec<Option<Wire>>,
    /// How the last value of each column was seen to be written.
    seen: Vec<Slot<Option<Wire>>>,
    /// The record schema that `wires` come from; it is the same text record after record.
    record_schema: Option<Arc<str>>,
    /// Which columns a row has lacked, and of those the ones that nobody has asked for.
    gone: Vec<bool>,
    newly_gone: Vec<String>,
    nulled: u64,
}

impl Decoder {
    /// A decoder for `schema`'s table.
    #[must_use]
    pub fn new(schema: Arc<TableSchema>) -> Self {
        Self {
            wires: schema.columns().iter().map(|c| c.wire).collect(),
            seen: schema.columns().iter().map(|_| Slot::default()).collect(),
            record_schema: None,
            gone: vec![false; schema.columns().len()],
            newly_gone: Vec::new(),
            nulled: 0,
            schema,
        }
    }

    /// Decodes one record; a row change goes into `batch`, and a record that is refused leaves `batch` as it was.
    ///
    /// `horizon` is that of the record's partition.
    ///
    /// # Errors
    /// [`Malformed`] where the record is no change event of this table.
    pub fn decode(
        &mut self,
        record: RecordRef<'_>,
        horizon: &mut Horizon,
        batch: &mut BatchBuilder,
    ) -> Result<Decoded, Malformed> {
        if let EnvelopeForm::Flattened(flattening) = self.schema.form() {
            let flattening = Arc::clone(flattening);
            return self.decode_flattened(&flattening, record, horizon, batch);
        }
        let Some(value) = record.value else { return Ok(Decoded::NoChange(NoChange::Tombstone)) };
        if self.is_of_another_table(record)? {
            return Ok(Decoded::NoChange(NoChange::OtherTable));
        }
        let mut envelope = self.envelope(text(value, "value")?)?;
        if let Some(payload) = envelope.payload {
            if let Some(schema) = envelope.schema
                && let Some(grown) = self.learn(schema.get())?
            {
                return Ok(Decoded::Grown(Arc::new(grown)));
            }
            envelope = self.envelope(payload.get())?;
        }
        if envelope.is_null {
            return Ok(Decoded::NoChange(NoChange::Tombstone));
        }
        let Some(op) = envelope.op else { return envelope.without_op().map(Decoded::NoChange) };
        if op == Op::Message {
            return Ok(Decoded::NoChange(NoChange::LogicalMessage));
        }
        let place = envelope.place.ok_or(Problem::NotAnEnvelope("it has no source block"))?;
        if let Some(restart) = place.restart(op, horizon) {
            return Ok(Decoded::Restart(restart));
        }
        let order = place.order(op, horizon).ok_or(Problem::NoLsn)?;
        if op == Op::Truncate {
            batch.truncate(order);
            return Ok(Decoded::Truncate(order));
        }
        let key = record.key.filter(|&key| key != b"null").ok_or(Problem::NoKey)?;
        let mut cells = match (op, envelope.after) {
            (Op::Delete, None) => self.key_cells(text(key, "key")?)?,
            (Op::Delete, Some(_)) => return Err(Problem::NotAnEnvelope("a delete has a row in after").into()),
            (_, None) => return Err(Problem::NotAnEnvelope("it has no row in after").into()),
            (_, Some(cells)) => cells,
        };
        self.add(op, order, &mut cells, &record, batch)
    }

    /// Whether the topic carries other tables' changes, too, and the record is one.
    fn is_of_another_table(&self, record: RecordRef<'_>) -> Result<bool, Malformed> {
        let (Some(sources), Some(value)) = (self.schema.sources(), record.value) else { return Ok(false) };
        Ok(sources.pass_over(text(value, "value")?)?)
    }

    /// Adds a row to the batch, unless something is missing from it.
    fn add(
        &mut self,
        op: Op,
        order: Order,
        cells: &mut [Cell<'_>],
        record: &RecordRef<'_>,
        batch: &mut BatchBuilder,
    ) -> Result<Decoded, Malformed> {
        self.fill_gone(cells)?;
        if let Some(&key) = self.schema.key().iter().find(|&&key| cells[key] == Cell::Unchanged) {
            return Err(Problem::KeyLeftOut.at_column(&self.schema.columns()[key]));
        }
        self.hide(cells);
        partition::check(&self.schema, cells)?;
        let origin = Origin { order, deleted: op == Op::Delete, partition: record.partition, offset: record.offset };
        let left_out = cells.iter().position(|cell| *cell == Cell::Unchanged);
        match left_out.filter(|_| matches!(op, Op::Create | Op::Read)) {
            None => {
                self.settle_unfit(cells);
                batch.push(cells, origin);
            }
            Some(column) => {
                let Some(old_key) = record.old_key.filter(|_| op == Op::Create) else {
                    return Err(Problem::LeftOut.at_column(&self.schema.columns()[column]));
                };
                let old_key = self.old_key_cells(old_key);
                self.settle_unfit(cells);
                batch.push_moved(cells, &old_key, origin);
            }
        }
        Ok(Decoded::Change(op, order))
    }

    /// Decodes a record as [`Self::decode`] does, where what `schemas.enable=true` would have written before its value is
    /// known from elsewhere.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn decode_described(
        &mut self,
        record: RecordRef<'_>,
        record_schema: &Arc<str>,
        horizon: &mut Horizon,
        batch: &mut BatchBuilder,
    ) -> Result<Decoded, Malformed> {
        if !self.record_schema.as_ref().is_some_and(|known| Arc::ptr_eq(known, record_schema)) {
            if self.is_of_another_table(record)? {
                return Ok(Decoded::NoChange(NoChange::OtherTable));
            }
            if let Some(grown) = self.learn(record_schema)? {
                return Ok(Decoded::Grown(Arc::new(grown)));
            }
            self.record_schema = Some(Arc::clone(record_schema));
        }
        self.decode(record, horizon, batch)
    }

    /// The table's columns and key.
    #[must_use]
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Takes over what a record says of its fields; `Some` where these are more than the table's.
    fn learn(&mut self, record_schema: &str) -> Result<Option<TableSchema>, Malformed> {
        if self.record_schema.as_deref() == Some(record_schema) {
            return Ok(None);
        }
        if let Some(row) = RecordSchema::of_row(record_schema, self.schema.form()) {
            if self.schema.grows()
                && let Some(grown) = self.schema.extended_by(row.columns()).map_err(Problem::NewColumn)?
            {
                return Ok(Some(grown));
            }
            self.wires = row.wires(&self.schema);
        }
        self.record_schema = Some(record_schema.into());
        Ok(None)
    }

    /// The columns that rows have begun to lack since the last call, as messages name them: the source has dropped them.
    pub fn newly_gone(&mut self) -> Vec<String> {
        std::mem::take(&mut self.newly_gone)
    }

    /// How many values did not fit their column and became null since the last call.
    pub fn nulled(&mut self) -> u64 {
        std::mem::take(&mut self.nulled)
    }

    /// Gives the columns that keep rows with values that do not fit null for these, and each companion its text.
    fn settle_unfit(&mut self, cells: &mut [Cell<'_>]) {
        for &(column, companion) in self.schema.lenient() {
            let text = match std::mem::replace(&mut cells[column], Cell::Null) {
                Cell::Unfit(text) => Cell::Text(text),
                other => {
                    let is_unchanged = other == Cell::Unchanged;
                    cells[column] = other;
                    if is_unchanged { Cell::Unchanged } else { Cell::Null }
                }
            };
            match companion {
                Some(companion) => cells[companion] = text,
                None => self.nulled += u64::from(matches!(text, Cell::Text(_))),
            }
        }
    }

    /// Puts masks in the place of the values that have one.
    fn hide(&self, cells: &mut [Cell<'_>]) {
        for &column in self.schema.masked() {
            if let Some(masked) = &self.schema.columns()[column].mask {
                masked.hide(&mut cells[column]);
            }
        }
    }

    /// Gives null to the columns that a row of a growing table lacks; those of its key are never among them.
    fn fill_gone(&mut self, cells: &mut [Cell<'_>]) -> Result<(), Malformed> {
        for (index, cell) in cells.iter_mut().enumerate().filter(|(_, cell)| **cell == Cell::Missing) {
            if self.schema.is_companion(Some(index)) {
                continue;
            }
            let column = &self.schema.columns()[index];
            if !self.schema.grows() || self.schema.key().contains(&index) {
                return Err(Problem::ColumnMissing.at_column(column));
            }
            if !std::mem::replace(&mut self.gone[index], true) {
                self.newly_gone.push(column.to_string());
            }
            *cell = Cell::Null;
        }
        Ok(())
    }

    fn envelope<'a>(&self, json: &'a str) -> Result<Envelope<'a>, Malformed> {
        let mut fault = None;
        let seed = EnvelopeSeed { decoder: self, fault: &mut fault };
        parse(json, "value", seed).map_err(|problem| fault.unwrap_or_else(|| problem.into()))
    }

    /// Reads the value of a column, the next one in `map`.
    #[inline]
    fn read_cell<'a, A: MapAccess<'a>>(
        &self,
        index: usize,
        cells: &mut [Cell<'a>],
        zeros: &Slot<usize>,
        map: &mut A,
        fault: &mut Option<Malformed>,
    ) -> Result<(), A::Error> {
        let column = &self.schema.columns()[index];
        if cells[index] != Cell::Missing {
            *fault = Some(Problem::ColumnTwice.at_column(column));
            return Err(A::Error::custom("refused"));
        }
        let seed = CellSeed {
            column,
            data_type: column.source_type(),
            wire: self.wires[index],
            seen: &self.seen[index],
            placeholder: Some(self.schema.placeholder()),
            unfit: column.unfit,
            zeros,
            fault,
        };
        cells[index] = map.next_value_seed(seed)?;
        Ok(())
    }

    /// A row of nothing but the key that a row had before. The header's converter writes some types in another way than the
    /// key's: one that cannot be read is null.
    fn old_key_cells<'a>(&self, json: &'a [u8]) -> Vec<Cell<'a>> {
        let read = text(json, "old key").map_err(Malformed::from).and_then(|json| self.key_cells(json));
        let mut cells = read.unwrap_or_else(|_| vec![Cell::Null; self.schema.columns().len()]);
        self.hide(&mut cells);
        cells
    }

    /// A row of nothing but the key columns, from a record key.
    fn key_cells<'a>(&self, json: &'a str) -> Result<Vec<Cell<'a>>, Malformed> {
        // with schemas.enable=true the key has the same wrapper as the value
        if json.starts_with("{\"schema\":")
            && let Ok(Wrapper { payload, .. }) = serde_json::from_str(json)
        {
            return self.key_cells(payload.get());
        }
        let mut fault = None;
        let seed = RowSeed { decoder: self, key_only: true, fault: &mut fault };
        let cells = parse(json, "key", seed).map_err(|problem| fault.unwrap_or_else(|| problem.into()))?;
        let mut cells = cells.ok_or(Problem::NoKey)?;
        for (index, cell) in cells.iter_mut().enumerate() {
            let is_key = self.schema.key().contains(&index);
            match cell {
                Cell::Missing if is_key => {
                    return Err(Problem::KeyColumnMissing.at_column(&self.schema.columns()[index]));
                }
                Cell::Missing => *cell = Cell::Null,
                _ => {}
            }
        }
        Ok(cells)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapper<'a> {
    #[serde(borrow)]
    schema: &'a RawValue,
    #[serde(borrow)]
    payload: &'a RawValue,
}

fn text<'a>(bytes: &'a [u8], part: &'static str) -> Result<&'a str, Problem> {
    if bytes.first() == Some(&0) {
        return Err(Problem::Framed(part));
    }
    std::str::from_utf8(bytes).map_err(|e| Problem::NotJson { part, byte: e.valid_up_to() })
}

/// Parses the whole of `json`. Only syntax errors are taken from serde: its other messages quote values.
fn parse<'a, S: DeserializeSeed<'a>>(json: &'a str, part: &'static str, seed: S) -> Result<S::Value, Problem> {
    let mut parser = serde_json::Deserializer::from_str(json);
    let parsed = seed.deserialize(&mut parser).and_then(|value| parser.end().map(|()| value));
    parsed.map_err(|e| match e.classify() {
        // the converters write one line; a column is a byte then
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof => {
            Problem::NotJson { part, byte: e.column() }
        }
        _ if part == "key" => Problem::NotAnEnvelope("the record key is not an object"),
        _ => Problem::NotAnEnvelope("the value is not an object"),
    })
}

/// The parts of an envelope that matter, in whatever order they stood.
#[derive(Default)]
struct Envelope<'a> {
    is_null: bool,
    op: Option<Op>,
    after: Option<Vec<Cell<'a>>>,
    place: Option<Place>,
    schema: Option<&'a RawValue>,
    payload: Option<&'a RawValue>,
    has_row_or_source: bool,
    has_time: bool,
    is_transaction: (bool, bool),
}

impl Envelope<'_> {
    fn without_op(&self) -> Result<NoChange, Malformed> {
        match (self.is_transaction, self.has_row_or_source, self.has_time) {
            ((true, true), false, _) => Ok(NoChange::TransactionMarker),
            (_, false, true) => Ok(NoChange::Heartbeat),
            _ => Err(Problem::NotAnEnvelope("it has no op").into()),
        }
    }
}

struct EnvelopeSeed<'s> {
    decoder: &'s Decoder,
    fault: &'s mut Option<Malformed>,
}

impl<'de> DeserializeSeed<'de> for EnvelopeSeed<'_> {
    type Value = Envelope<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Envelope<'de>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EnvelopeSeed<'_> {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an envelope")
    }

    fn visit_unit<E: Error>(self) -> Result<Envelope<'de>, E> {
        Ok(Envelope { is_null: true, ..Envelope::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope<'de>, A::Error> {
        let Self { decoder, fault } = self;
        let mut envelope = Envelope::default();
        while let Some(field) = map.next_key::<EnvelopeField>()? {
            match field {
                EnvelopeField::Op => {
                    let op = map.next_value::<&RawValue>()?.get().trim_matches('"');
                    envelope.op = Op::from_letter(op);
                    if envelope.op.is_none() {
                        *fault = Some(Problem::UnknownOp.into());
                        return Err(A::Error::custom("refused"));
                    }
                }
                EnvelopeField::After => {
                    let seed = RowSeed { decoder, key_only: false, fault: &mut *fault };
                    envelope.after = map.next_value_seed(seed)?;
                    envelope.has_row_or_source = true;
                }
                EnvelopeField::Source => {
                    let source = map.next_value::<&RawValue>()?.get();
                    match source_block::place(source) {
                        Ok(place) => envelope.place = place,
                        Err(problem) => {
                            *fault = Some(problem.into());
                            return Err(A::Error::custom("refused"));
                        }
                    }
                    envelope.has_row_or_source = true;
                }
                EnvelopeField::Schema => envelope.schema = Some(map.next_value()?),
                EnvelopeField::Payload => envelope.payload = Some(map.next_value()?),
                EnvelopeField::Before => {
                    map.next_value::<IgnoredAny>()?;
                    envelope.has_row_or_source = true;
                }
                EnvelopeField::Time => {
                    map.next_value::<IgnoredAny>()?;
                    envelope.has_time = true;
                }
                EnvelopeField::Status => {
                    map.next_value::<IgnoredAny>()?;
                    envelope.is_transaction.0 = true;
                }
                EnvelopeField::Id => {
                    map.next_value::<IgnoredAny>()?;
                    envelope.is_transaction.1 = true;
                }
                EnvelopeField::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum EnvelopeField {
    Op,
    Before,
    After,
    Source,
    Schema,
    Payload,
    #[serde(rename = "ts_ms")]
    Time,
    Status,
    Id,
    #[serde(other)]
    Other,
}

/// Reads a row image; `None` is JSON's null.
struct RowSeed<'s> {
    decoder: &'s Decoder,
    /// A record key: columns that are not of the key are passed over.
    key_only: bool,
    fault: &'s mut Option<Malformed>,
}

impl<'de> DeserializeSeed<'de> for RowSeed<'_> {
    type Value = Option<Vec<Cell<'de>>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for RowSeed<'_> {
    type Value = Option<Vec<Cell<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { decoder, key_only, fault } = self;
        let schema = &decoder.schema;
        let mut cells = vec![Cell::Missing; schema.columns().len()];
        let mut hint = 0;
        let zeros = Slot::new(ZEROS_A_ROW);
        while let Some(found) = map.next_key_seed(ColumnSeed { schema, hint, key_only, fault: &mut *fault })? {
            let Some(index) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            decoder.read_cell(index, &mut cells, &zeros, &mut map, fault)?;
            hint = index + 1;
        }
        Ok(Some(cells))
    }
}

/// Finds a column by the name that stands in the JSON, without copying it. `None`: not of interest.
struct ColumnSeed<'s> {
    schema: &'s TableSchema,
    hint: usize,
    key_only: bool,
    fault: &'s mut Option<Malformed>,
}

impl<'de> DeserializeSeed<'de> for ColumnSeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<usize>, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for ColumnSeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a column name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        match self.schema.named(name, self.hint) {
            Named::Column(index) if !self.key_only || self.schema.key().contains(&index) => Ok(Some(index)),
            Named::Unknown if !self.key_only => {
                *self.fault = Some(Problem::UnknownColumn.at(name));
                Err(E::custom("refused"))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod masked;
#[cfg(test)]
mod renamed;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod type_matrix;
