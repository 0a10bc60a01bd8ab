//! The options of a connector that are one of a few words.

/// An enum of an option's words, the connector's default first.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $first:ident = $word:literal $(, $other:ident = $other_word:literal)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[expect(missing_docs, reason = "the connector's own words")]
        pub enum $name {
            #[default]
            $first,
            $($other),*
        }

        impl Words for $name {
            const ALL: &[(Self, &str)] = &[(Self::$first, $word) $(, (Self::$other, $other_word))*];
        }
    };
}

/// An option's words.
pub(crate) trait Words: Copy + Default + PartialEq + 'static {
    const ALL: &[(Self, &str)];

    /// The value of a word, whatever its case.
    fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| known.eq_ignore_ascii_case(word)).map(|(value, _)| *value)
    }

    /// Its word.
    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(value, _)| *value == self).map_or("", |(_, word)| word)
    }

    /// All words, for a message.
    fn expected() -> String {
        Self::ALL.iter().map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
    }
}

words! {
    /// `decimal.handling.mode`
    DecimalMode: Precise = "precise", Double = "double", String = "string"
}

words! {
    /// `time.precision.mode`
    TimeMode: Adaptive = "adaptive", AdaptiveTimeMicroseconds = "adaptive_time_microseconds", Connect = "connect",
        IsoString = "isostring", Microseconds = "microseconds", Nanoseconds = "nanoseconds"
}

words! {
    /// `interval.handling.mode`
    IntervalMode: Numeric = "numeric", String = "string"
}

words! {
    /// `binary.handling.mode`; the JSON converter writes `bytes` as base64.
    BinaryMode: Bytes = "bytes", Base64 = "base64", Base64UrlSafe = "base64-url-safe", Hex = "hex"
}
