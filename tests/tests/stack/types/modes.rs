//! The sets of the connector's modes under which every type is sent.

/// A set of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mode {
    /// What docs/types.md recommends.
    Recommended,
    /// The connector's defaults.
    Precise,
    /// Texts wherever there is a mode for it, and the types that the connector does not know.
    IsoString,
    /// The times of Kafka Connect.
    Connect,
    /// Numbers as doubles.
    Double,
}

/// All of them, as the document's table has them.
pub(crate) const MODES: [Mode; 5] = [Mode::Recommended, Mode::Precise, Mode::IsoString, Mode::Connect, Mode::Double];

impl Mode {
    /// An SQL identifier.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Recommended => "recommended",
            Self::Precise => "precise",
            Self::IsoString => "isostring",
            Self::Connect => "connect",
            Self::Double => "double",
        }
    }

    /// The head of its column in the document.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Recommended => "string, adaptive, interval string",
            Self::Precise => "precise, adaptive",
            Self::IsoString => "string, isostring, interval string, hex, hstore map",
            Self::Connect => "string, connect",
            Self::Double => "double, adaptive_time_microseconds, base64-url-safe",
        }
    }

    /// Where the connector's settings differ from those of `connectors/shop-orders.json`, which are [`Mode::Precise`].
    pub(crate) fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Recommended => &[("decimal.handling.mode", "string"), ("interval.handling.mode", "string")],
            Self::Precise => &[],
            Self::IsoString => &[
                ("decimal.handling.mode", "string"),
                ("time.precision.mode", "isostring"),
                ("interval.handling.mode", "string"),
                ("binary.handling.mode", "hex"),
                ("hstore.handling.mode", "map"),
                ("include.unknown.datatypes", "true"),
            ],
            Self::Connect => &[("decimal.handling.mode", "string"), ("time.precision.mode", "connect")],
            Self::Double => &[
                ("decimal.handling.mode", "double"),
                ("time.precision.mode", "adaptive_time_microseconds"),
                ("binary.handling.mode", "base64-url-safe"),
            ],
        }
    }
}
