//! [`Column`]: a column of a table, as the source has it and as the replica does.

use std::{fmt, str::FromStr};

use crate::{
    DataType, SchemaError,
    mask::{Mask, Masked},
    wire::Wire,
};

/// A source column and what the replica makes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in the source, exactly as that writes it: in rows, in record keys and in record schemas.
    pub source: String,
    /// Its name in the replica.
    pub name: String,
    /// Its type in the replica.
    pub data_type: DataType,
    /// How its values are written in envelopes without a schema.
    pub wire: Option<Wire>,
    /// What becomes of a value that the type cannot hold.
    pub unfit: Unfit,
    /// What the replica holds in place of its values.
    pub mask: Option<Masked>,
}

/// What becomes of a value that the column's type cannot hold: an infinite time or one outside the years 1 to 9999, and a
/// number that is NaN, infinite or has too many digits for a decimal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unfit {
    /// The record is refused.
    #[default]
    Refuse,
    /// It is null, and counted.
    Null,
    /// It is null, and the column's companion `<name>__raw` holds the text that the connector wrote.
    Raw,
}

impl FromStr for Unfit {
    type Err = SchemaError;

    fn from_str(text: &str) -> Result<Self, SchemaError> {
        Ok(match text {
            "refuse" => Self::Refuse,
            "null" => Self::Null,
            "raw" => Self::Raw,
            _ => return Err(SchemaError::UnknownUnfit(text.to_owned())),
        })
    }
}

impl Column {
    /// A column of one name in source and replica, whose values have no special form, and that refuses what it cannot hold.
    #[must_use]
    pub fn new(name: &str, data_type: DataType) -> Self {
        let (wire, unfit, mask) = (None, Unfit::Refuse, None);
        Self { source: name.to_owned(), name: name.to_owned(), data_type, wire, unfit, mask }
    }

    /// The same column of the source, under another name in the replica.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// The same column, with another way for what it cannot hold.
    #[must_use]
    pub fn with_unfit(self, unfit: Unfit) -> Self {
        Self { unfit, ..self }
    }

    /// The same column, of which the replica has nothing but a mask: a `string`.
    #[must_use]
    pub fn masked(self, mask: Mask) -> Self {
        let data_type = self.source_type().clone();
        Self { data_type: DataType::String, mask: Some(Masked { data_type, mask }), ..self }
    }

    /// A column from its declaration `TYPE` or `TYPE@WIRE`, for example `timestamp_ntz@millis`.
    ///
    /// # Errors
    /// [`SchemaError`] names the type or the wire form that is not known, or that do not go together.
    pub fn declared(name: &str, declaration: &str) -> Result<Self, SchemaError> {
        let (data_type, wire) = match declaration.rsplit_once('@') {
            Some((data_type, wire)) => (data_type.parse()?, Some(wire.parse()?)),
            None => (declaration.parse()?, None),
        };
        let column = Self { wire, ..Self::new(name, data_type) };
        match wire {
            Some(wire) if !wire.fits(&column.data_type) => {
                Err(SchemaError::WireDoesNotFit { column: column.source, data_type: column.data_type, wire })
            }
            _ => Ok(column),
        }
    }

    /// Its type in the source: what its values are read as.
    #[must_use]
    pub fn source_type(&self) -> &DataType {
        self.mask.as_ref().map_or(&self.data_type, |masked| &masked.data_type)
    }

    /// The column beside it that keeps what does not fit as text.
    pub(crate) fn companion(&self) -> Option<Self> {
        (self.unfit == Unfit::Raw).then(|| Self::new(&format!("{}__raw", self.name), DataType::String))
    }

    /// Whether its parts go together, and with a place in the key.
    pub(crate) fn check(&self, is_key: bool) -> Result<(), SchemaError> {
        let (source, data_type) = (|| self.source.clone(), self.source_type());
        let is_array = matches!(data_type, DataType::Array(_));
        let is_document = is_array || matches!(data_type, DataType::Json | DataType::Hstore);
        if self.name.is_empty() {
            return Err(SchemaError::NoName(source()));
        }
        if is_key && (is_document || *data_type == DataType::Interval) {
            return Err(SchemaError::NoKeyType { column: source(), data_type: data_type.clone() });
        }
        if self.unfit != Unfit::Refuse && (is_key || is_array) {
            return Err(SchemaError::MustRefuse(source()));
        }
        match self.mask.as_ref().map(|masked| &masked.mask) {
            Some(Mask::Null) if is_key => Err(SchemaError::NullKey(source())),
            Some(Mask::HmacSha256(_)) if is_document => {
                Err(SchemaError::NoMaskOf { column: source(), data_type: data_type.clone() })
            }
            Some(_) if self.unfit == Unfit::Raw => Err(SchemaError::RawUnderMask(source())),
            _ => Ok(()),
        }
    }
}

/// As messages name it: as the source does, and where that differs as the replica does.
impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.source)?;
        if self.name == self.source { Ok(()) } else { write!(f, " (`{}` in the replica)", self.name) }
    }
}
