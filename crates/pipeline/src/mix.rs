//! `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014), for the pauses of a
//! [`crate::Backoff`] and the hash of a [`crate::Witness`]. The second is stored, so it must not change.

/// From one number of a sequence to the next.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads every bit of a number over all bits.
pub(crate) fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
