//! [`Story`]: what a run of records becomes, and what has to hold after each of them.

use std::sync::Arc;

use arrow::array::{Array, AsArray};

use super::leaks;
use crate::{
    BatchBuilder, ChangeBatch, Decoded, Decoder, Horizon, Malformed, RecordRef, TableSchema, numeric::ZEROS_A_ROW,
};

/// When a batch is sealed, in bytes.
const BATCH_MAX: usize = 1 << 20;

/// A decoder with its open batch, which follows its table as the pipeline does.
pub(super) struct Story {
    schema: Arc<TableSchema>,
    decoder: Decoder,
    batch: BatchBuilder,
    horizon: Horizon,
    offset: i64,
    end: End,
}

/// What the records became.
#[derive(Default, PartialEq)]
pub(super) struct End {
    decoded: Vec<Result<Decoded, Malformed>>,
    batches: Vec<ChangeBatch>,
    horizon: Horizon,
    nulled: u64,
    gone: Vec<String>,
}

impl Story {
    pub(super) fn of(schema: &Arc<TableSchema>) -> Self {
        Self {
            schema: Arc::clone(schema),
            decoder: Decoder::new(Arc::clone(schema)),
            batch: BatchBuilder::new(Arc::clone(schema)),
            horizon: Horizon::default(),
            offset: 0,
            end: End::default(),
        }
    }

    pub(super) fn read(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        let record = RecordRef { partition: 7, offset: self.offset, key, value, timestamp: None, old_key: None };
        self.offset += 1;
        let mut decoded = self.decode(record);
        if let Ok(Decoded::Grown(grown)) = &decoded {
            assert!(self.schema.grows() && !grown.since(&self.schema).is_empty(), "no growth");
            for old in self.schema.columns() {
                let kept = grown.columns().iter().find(|column| column.name == old.name);
                let types = kept.map(|kept| (kept.source_type(), old.source_type()));
                assert!(
                    types.is_some_and(|(new, old)| new == old || new.widens(old)),
                    "a column is lost or got narrower"
                );
            }
            let grown = Arc::clone(grown);
            self.seal(grown);
            decoded = self.decode(record);
            assert!(!matches!(decoded, Ok(Decoded::Grown(_))), "one record lets the table grow twice");
        }
        if self.batch.is_truncated() || self.batch.bytes() > BATCH_MAX {
            self.seal(Arc::clone(&self.schema));
        }
        self.end.decoded.push(decoded);
    }

    pub(super) fn end(mut self) -> End {
        self.seal(Arc::clone(&self.schema));
        End { horizon: self.horizon, ..self.end }
    }

    fn decode(&mut self, record: RecordRef<'_>) -> Result<Decoded, Malformed> {
        let (rows, bytes) = (self.batch.rows(), self.batch.bytes());
        let decoded = self.decoder.decode(record, &mut self.horizon, &mut self.batch);
        let (rows, bytes) = (self.batch.rows() - rows, self.batch.bytes() - bytes);
        assert_eq!(rows, usize::from(matches!(decoded, Ok(Decoded::Change(..)))), "rows that a record added");
        assert_eq!(self.batch.is_truncated(), matches!(decoded, Ok(Decoded::Truncate(_))), "is truncated");
        let length = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        let has_numeric = self.schema.columns().iter().any(|column| column.data_type.to_string().contains("numeric"));
        let zeros = if has_numeric { ZEROS_A_ROW } else { 0 };
        let limit = 16 * length + rows * (32 + 8 * self.schema.columns().len()) + zeros;
        assert!(bytes <= limit, "{bytes} bytes of batch from {length} bytes of record");
        if let Err(malformed) = &decoded {
            leaks::check(malformed, record, &self.schema);
        }
        decoded
    }

    /// Ends the batch, and begins one of `next`.
    fn seal(&mut self, next: Arc<TableSchema>) {
        self.end.nulled += self.decoder.nulled();
        self.end.gone.extend(self.decoder.newly_gone());
        if next != self.schema {
            self.decoder = Decoder::new(Arc::clone(&next));
        }
        let rows = self.batch.rows();
        let batch = std::mem::replace(&mut self.batch, BatchBuilder::new(Arc::clone(&next))).finish();
        let batch = batch.unwrap_or_else(|error| unreachable!("{error}"));
        assert_eq!((batch.rows.num_rows(), batch.partitions.len(), batch.offsets.len()), (rows, rows, rows));
        let is_deleted = batch.rows.column(batch.rows.num_columns() - 1).as_boolean();
        for (index, unchanged) in batch.unchanged.iter().enumerate() {
            let column = batch.rows.column(index);
            let is_key = batch.schema.key().contains(&index);
            assert!(unchanged.as_ref().is_none_or(|unchanged| unchanged.len() == rows && !is_key));
            for row in 0..rows {
                let is_null = column.is_null(row);
                assert!(
                    is_null || !unchanged.as_ref().is_some_and(|unchanged| unchanged.value(row)),
                    "unchanged, stored"
                );
                assert!(is_null || is_key || !is_deleted.value(row), "a delete stores more than its key");
            }
        }
        for (index, _) in batch.schema.columns().iter().enumerate().filter(|(_, column)| column.mask.is_some()) {
            let mut masks = batch.rows.column(index).as_string::<i32>().iter().flatten();
            assert!(masks.all(|mask| mask.len() == 64 && mask.bytes().all(|b| b.is_ascii_hexdigit())), "a clear value");
        }
        self.end.batches.push(batch);
        self.schema = next;
    }
}
