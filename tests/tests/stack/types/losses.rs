//! What arrives of a value under modes that lose something before Highwater sees it, as docs/types.md says. The random values are
//! compared with that, so that a mode loses this and nothing else.

use super::kinds::Kind;
use super::modes::Mode;

/// The digits that a double keeps of a decimal.
const DOUBLE_DIGITS: u8 = 15;

impl Kind {
    /// PostgreSQL's SQL for the text of what arrives of `value`; None where the mode's values of this kind are refused.
    pub(crate) fn arrives(self, mode: Mode, value: &str) -> Option<String> {
        use Mode::{Connect, Double, IsoString, Precise};
        let cut = |value: &str| format!("date_trunc('milliseconds', {value})");
        Some(match (self, mode) {
            (Self::Interval, Precise | Connect | Double) | (Self::Numeric | Self::Money, Double) => return None,
            (Self::Decimal(precision, _), Double) if precision > DOUBLE_DIGITS => return None,
            (Self::Numeric, Precise) => {
                format!("case when {value} not in ('NaN', 'Infinity', '-Infinity') then trim_scale({value})::text end")
            }
            (Self::VarBits, _) => Self::Bits.source(value),
            (Self::Time(_), IsoString) => {
                self.source(&format!("case when {value} = '24:00' then '00:00' else {value} end"))
            }
            (Self::Time(4..), Connect) => self.source(&cut(&format!("({value})::interval"))),
            (Self::Timestamp(4..), Connect) => self.source(&cut(value)),
            (Self::Array(Self::Timestamp(_)), Connect) => {
                let elements = format!("array(select {} from unnest({value}) as cut (element))", cut("element"));
                self.source(&format!("(case when {value} is not null then {elements} end)"))
            }
            _ => self.source(value),
        })
    }
}
