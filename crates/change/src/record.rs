//! [`RecordRef`]: a Kafka record before it is decoded.

/// One record of a topic's partition, borrowed from wherever it was read to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The partition that the record was read from.
    pub partition: i32,
    /// Its offset in that partition.
    pub offset: i64,
    /// The raw key; `None` where the record has none.
    pub key: Option<&'a [u8]>,
    /// The raw value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The broker's timestamp, in milliseconds, where it is known.
    pub timestamp: Option<i64>,
    /// Of a row whose key was changed, the key that it had before: the header `__debezium.oldkey` of its create.
    pub old_key: Option<&'a [u8]>,
}
