//! [`Mask`]: what the replica holds in place of a column's values.
//!
//! HMAC-SHA-256 (RFC 2104) under one secret gives equal values equal masks, so that they can be joined, grouped and be a
//! key, and nobody without the secret can find the value behind one or try out likely ones. NULL stays NULL, and a value
//! that an update left out stays left out.

use std::{fmt, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{DataType, SchemaError, canonical, cell::Cell, wire};

/// Half of what HMAC-SHA-256 can use at best: 2^128 tries.
const SECRET_BYTES_MIN: usize = 16;

/// What stands in place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mask {
    /// Null, whatever the value is.
    Null,
    /// The HMAC-SHA-256 of the value's canonical text under this secret, in 64 lower-case hexadecimal digits.
    HmacSha256(Secret),
}

/// A column's mask and what is under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Masked {
    /// The source's type, which decides how a value is read and what its canonical text is.
    pub data_type: DataType,
    /// What stands in place of each value.
    pub mask: Mask,
}

/// What masks are made with. It is never printed, and two of them are the same where they make the same masks.
#[derive(Clone)]
pub struct Secret(Arc<Hmac<Sha256>>);

impl Mask {
    /// A mask from its declaration, `hmac-sha256` or `null`.
    ///
    /// # Errors
    /// [`SchemaError`] where it is neither, or needs a secret and there is none.
    pub fn declared(declaration: &str, secret: Option<&Secret>) -> Result<Self, SchemaError> {
        match (declaration, secret) {
            ("null", _) => Ok(Self::Null),
            ("hmac-sha256", Some(secret)) => Ok(Self::HmacSha256(secret.clone())),
            ("hmac-sha256", None) => Err(SchemaError::NoSecret),
            _ => Err(SchemaError::UnknownMask(declaration.to_owned())),
        }
    }
}

impl Masked {
    /// Puts the mask in the value's place.
    pub(crate) fn hide(&self, cell: &mut Cell<'_>) {
        *cell = match (&self.mask, &*cell) {
            (Mask::Null, _) => Cell::Null,
            (_, Cell::Missing | Cell::Null | Cell::Unchanged | Cell::Unfit(_)) => return,
            (Mask::HmacSha256(secret), value) => match canonical::bytes(value, &self.data_type) {
                Some(bytes) => Cell::Text(secret.mask(&bytes).into()),
                None => Cell::Null,
            },
        };
    }

    /// Whether every value keeps its mask where the source's type has become this wider one.
    pub(crate) fn is_kept_under(&self, wider: &DataType) -> bool {
        use DataType::{Decimal, Int, Long, Short};
        self.mask == Mask::Null
            || match (&self.data_type, wider) {
                (Short | Int, Int | Long) => true,
                (Decimal { scale, .. }, Decimal { scale: wider, .. }) => scale == wider,
                _ => false,
            }
    }
}

impl Secret {
    /// A secret of at least 16 bytes, as `openssl rand -hex 32` makes one.
    ///
    /// # Errors
    /// [`SchemaError::ShortSecret`].
    pub fn new(secret: &[u8]) -> Result<Self, SchemaError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(SchemaError::ShortSecret);
        }
        let keyed = Hmac::new_from_slice(secret).map_err(|_| SchemaError::ShortSecret)?;
        Ok(Self(Arc::new(keyed)))
    }

    fn mask(&self, bytes: &[u8]) -> String {
        wire::to_hex(&Hmac::clone(&self.0).chain_update(bytes).finalize().into_bytes())
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.mask(b"") == other.mask(b"")
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_those_of_rfc_4231() {
        // test cases 1, 3, 4, 6 and 7; the other two have a key that is too short, or a result that is cut off
        let counting: Vec<u8> = (1..=25).collect();
        let cases: [(&[u8], &[u8], &str); 5] = [
            (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
            (&counting, &[0xcd; 50], "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
            (
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to \
                  be hashed before being used by the HMAC algorithm.",
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
            ),
        ];
        for (key, data, expected) in cases {
            assert_eq!(Secret::new(key).unwrap().mask(data), expected);
        }
    }

    #[test]
    fn a_short_secret_is_refused_and_none_is_printed() {
        assert_eq!(Secret::new(b""), Err(SchemaError::ShortSecret));
        assert_eq!(Secret::new(b"fifteen bytes.."), Err(SchemaError::ShortSecret));
        let secret = Secret::new(b"sixteen bytes...").unwrap();
        assert_eq!(format!("{:?}", Mask::HmacSha256(secret.clone())), "HmacSha256(***)");
        assert_eq!(secret, Secret::new(b"sixteen bytes...").unwrap());
        assert_ne!(secret, Secret::new(b"sixteen bytes..!").unwrap());
    }

    #[test]
    fn a_mask_is_declared_by_name_and_the_hmac_needs_its_secret() {
        let secret = Secret::new(b"sixteen bytes...").unwrap();
        assert_eq!(Mask::declared("null", None), Ok(Mask::Null));
        assert_eq!(Mask::declared("hmac-sha256", Some(&secret)), Ok(Mask::HmacSha256(secret.clone())));
        assert_eq!(Mask::declared("hmac-sha256", None), Err(SchemaError::NoSecret));
        assert_eq!(Mask::declared("md5", Some(&secret)), Err(SchemaError::UnknownMask("md5".to_owned())));
    }
}
