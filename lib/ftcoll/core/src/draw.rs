// SPDX-License-Identifier: Apache-2.0
//! Pseudo-random draws as a function of their place, so that a core has no generator to save.
//!
//! Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014),
//! the mixing function of `SplitMix64`.

use crate::Rank;

/// 64 bits that depend on all bits of `seed` and `place`.
#[must_use]
pub fn bits(seed: u64, place: u64) -> u64 {
    mix(mix(seed).wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The `count`-th draw of `me` among the other processes, each equally likely. `size` >= 2.
#[must_use]
pub fn other(seed: u64, me: Rank, count: u32, size: Rank) -> Rank {
    let place = (u64::from(me) << 32) | u64::from(count);
    // Lemire's reduction; its bias is below 2^-32 of a draw for any size.
    let wide = u128::from(bits(seed, place)) * u128::from(size - 1);
    let drawn = u32::try_from(wide >> 64).unwrap_or(0);
    if drawn >= me { drawn + 1 } else { drawn }
}

#[cfg(test)]
mod tests {
    use super::other;

    #[test]
    fn draws_are_even_and_never_oneself() {
        let size = 10;
        let mut hits = [0u32; 10];
        for count in 0..90_000 {
            hits[other(7, 3, count, size) as usize] += 1;
        }
        assert_eq!(hits[3], 0);
        assert!(hits.iter().enumerate().all(|(i, &h)| i == 3 || (9_500..10_500).contains(&h)));
    }
}
