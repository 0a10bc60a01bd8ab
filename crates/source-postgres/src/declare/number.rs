//! What the connector makes of `numeric` and `money`.

use super::Form;
use crate::{DecimalMode, Modes};

/// A `numeric`'s modifier is its precision and scale, after the four bytes of a header that is no longer there
/// (PostgreSQL's `numeric.c`: `make_numeric_typmod`).
const HEADER_BYTES: i32 = 4;
/// The digits of Delta's decimals.
const DELTA_DIGITS: i32 = 38;
/// The digits that survive a trip through a double.
const DOUBLE_DIGITS: i32 = 15;
/// `money.fraction.digits` of a connector that does not set it.
const MONEY_DIGITS: u8 = 2;

const REFUSED: &str = "every value is refused: a double loses digits; set decimal.handling.mode=string";
const FRACTIONS_REFUSED: &str =
    "values with a fraction or an exponent are refused: a double has 15 digits; set decimal.handling.mode=string";
const NAN_IS_NULL: &str = "NaN arrives as null; decimal.handling.mode=string sends it, and it is refused";

pub(super) fn numeric(modifier: Option<i32>, modes: &Modes) -> Form {
    let Some((precision, scale)) = modifier.map(precision_and_scale) else {
        return match modes.decimal {
            DecimalMode::Precise => Form::plain("numeric")
                .noting("NaN and infinities arrive as null, and 1.500 as 1.5; decimal.handling.mode=string keeps them"),
            DecimalMode::String => Form::wired("numeric", "@text"),
            DecimalMode::Double => Form::plain("numeric").noting(REFUSED),
        };
    };
    let fits = precision <= DELTA_DIGITS && (0..=precision).contains(&scale);
    let data_type = format!("{}({precision},{scale})", if fits { "decimal" } else { "numeric" });
    match modes.decimal {
        // its driver takes 11 bits with a sign for 16 without one
        _ if scale < 0 => Form::Misread,
        DecimalMode::Precise => Form::wired(&data_type, "@base64").noting(NAN_IS_NULL),
        DecimalMode::String => Form::wired(&data_type, "@text"),
        DecimalMode::Double if !fits => Form::plain(&data_type).noting(REFUSED),
        DecimalMode::Double if precision > DOUBLE_DIGITS => Form::plain(&data_type).noting(FRACTIONS_REFUSED),
        DecimalMode::Double => Form::plain(&data_type),
    }
}

/// 64 bits of the smallest unit.
pub(super) fn money(modes: &Modes) -> Form {
    let data_type = format!("decimal(19,{})", modes.money_digits.unwrap_or(MONEY_DIGITS).min(19));
    match modes.decimal {
        DecimalMode::Precise => Form::wired(&data_type, "@base64"),
        DecimalMode::String => Form::wired(&data_type, "@text"),
        DecimalMode::Double => Form::plain(&data_type).noting(FRACTIONS_REFUSED),
    }
}

fn precision_and_scale(modifier: i32) -> (i32, i32) {
    let packed = modifier - HEADER_BYTES;
    // the scale is a number of 11 bits with a sign
    ((packed >> 16) & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024)
}
