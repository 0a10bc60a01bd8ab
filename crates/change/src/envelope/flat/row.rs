//! [`Flat`]: one flattened value, parsed in one pass.

use std::{cell::Cell as Slot, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::{
    Decoder, parse,
    source_block::{lsn, sequence},
};
use crate::{
    Flattening, Malformed, Metadata, Op, Problem, cell::Cell, numeric::ZEROS_A_ROW, order::Place, schema::Named,
};

/// What a flattened value says, in whatever order its fields stood.
#[derive(Default)]
pub(super) struct Flat<'a> {
    /// There is nothing.
    pub(super) is_null: bool,
    /// It has a column of the table, or a field that the transform adds.
    pub(super) is_row: bool,
    pub(super) op: Option<Op>,
    /// What the mark of a deleted row says, where there is one.
    pub(super) is_deleted: Option<bool>,
    pub(super) place: Place,
    pub(super) cells: Vec<Cell<'a>>,
}

impl<'a> Flat<'a> {
    /// Reads one of `decoder`'s table; without `reads_cells` the columns are passed over, whatever stands there.
    pub(super) fn read(
        json: &'a str,
        decoder: &Decoder,
        flattening: &Flattening,
        reads_cells: bool,
    ) -> Result<Self, Malformed> {
        let mut fault = None;
        let seed = FlatSeed { decoder, flattening, reads_cells, fault: &mut fault };
        parse(json, "value", seed).map_err(|problem| fault.unwrap_or_else(|| problem.into()))
    }
}

impl Flat<'_> {
    pub(super) fn is_delete(&self) -> bool {
        self.is_deleted == Some(true) || self.op == Some(Op::Delete)
    }

    /// Takes over what a field says.
    fn take(&mut self, metadata: Metadata, token: &str) -> Result<(), Problem> {
        let is_null = token == "null";
        match metadata {
            Metadata::Op if !is_null => {
                let op = Op::from_letter(token.trim_matches('"'));
                // a truncate and a message have no row to flatten
                let op = op.filter(|op| !matches!(op, Op::Truncate | Op::Message));
                self.op = Some(op.ok_or(Problem::Value("is none of r, c, u, d"))?);
            }
            Metadata::Deleted if !is_null => {
                self.is_deleted = Some(match token.trim_matches('"') {
                    "true" => true,
                    "false" => false,
                    _ => return Err(Problem::Value("is neither true nor false")),
                });
            }
            Metadata::Lsn => self.place.lsn = lsn(token).map_err(|_| Problem::Value("is no LSN"))?,
            Metadata::Sequence => {
                self.place.sequence = sequence(token).map_err(|_| Problem::Value("is no sequence of two LSNs"))?;
            }
            Metadata::Snapshot => self.place.incremental = token == "\"incremental\"",
            Metadata::Time => self.place.at = token.parse().ok(),
            Metadata::Op | Metadata::Deleted => {}
        }
        Ok(())
    }
}

struct FlatSeed<'s> {
    decoder: &'s Decoder,
    flattening: &'s Flattening,
    reads_cells: bool,
    fault: &'s mut Option<Malformed>,
}

impl<'de> DeserializeSeed<'de> for FlatSeed<'_> {
    type Value = Flat<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Flat<'de>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FlatSeed<'_> {
    type Value = Flat<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a flattened row")
    }

    fn visit_unit<E: Error>(self) -> Result<Flat<'de>, E> {
        Ok(Flat { is_null: true, ..Flat::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Flat<'de>, A::Error> {
        let Self { decoder, flattening, reads_cells, fault } = self;
        let mut row = Flat { cells: vec![Cell::Missing; decoder.schema.columns().len()], ..Flat::default() };
        let (mut hint, zeros) = (0, Slot::new(ZEROS_A_ROW));
        while let Some(field) = map.next_key_seed(FieldSeed { decoder, flattening, hint })? {
            row.is_row |= !matches!(field, Field::Unknown(_));
            match field {
                Field::Column(index) if reads_cells => {
                    decoder.read_cell(index, &mut row.cells, &zeros, &mut map, fault)?;
                    hint = index + 1;
                }
                Field::Metadata(metadata) => {
                    if let Err(problem) = row.take(metadata, map.next_value::<&RawValue>()?.get()) {
                        *fault = Some(problem.at(flattening.name(metadata)));
                        return Err(A::Error::custom("refused"));
                    }
                }
                Field::Unknown(name) if reads_cells => {
                    *fault = Some(Problem::UnknownColumn.at(&name));
                    return Err(A::Error::custom("refused"));
                }
                Field::Column(_) | Field::PassedOver | Field::Unknown(_) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if row.place.sequence.is_none() {
            // without it ad-hoc snapshots look like initial ones, and show a restart that there was not
            row.place.at = None;
        }
        Ok(row)
    }
}

/// What the field of a name is.
enum Field {
    Column(usize),
    Metadata(Metadata),
    /// A column that is left out, or something else that the transform adds.
    PassedOver,
    Unknown(String),
}

struct FieldSeed<'s> {
    decoder: &'s Decoder,
    flattening: &'s Flattening,
    hint: usize,
}

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Field, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldSeed<'_> {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field's name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Field, E> {
        let Self { decoder, flattening, hint } = self;
        Ok(match decoder.schema.named(name, hint) {
            Named::Column(index) => Field::Column(index),
            Named::PassedOver => Field::PassedOver,
            Named::Unknown => match flattening.metadata(name) {
                Some(metadata) => Field::Metadata(metadata),
                None if flattening.has_added(name) => Field::PassedOver,
                None => Field::Unknown(name.to_owned()),
            },
        })
    }
}
