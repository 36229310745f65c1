// SPDX-License-Identifier: Apache-2.0
//! Times and chances of fake time, of which a second has 10^6.

/// A second.
pub const SECOND: u64 = 1_000_000;

/// A random word that these decide.
pub fn mix(words: [u64; 4]) -> u64 {
    words.into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash, word| {
        let mut z = (hash ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// Between 0 and 1, from a random word.
pub fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// A rounded time that is not negative.
pub fn time(value: f64) -> u64 {
    // In range: times are below a year of microseconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = value.max(0.0) as u64;
    whole
}

/// How long a datagram is under way: a switched network, with queues now and then.
pub fn delay(word: u64) -> u64 {
    let quick = 50.0 - 150.0 * unit(mix([word, 1, 0, 0])).max(1e-9).ln();
    let tail = unit(mix([word, 2, 0, 0]));
    let share = unit(mix([word, 3, 0, 0]));
    let slow = match tail {
        t if t < 0.0001 => 1_000_000.0 * share,
        t if t < 0.001 => 200_000.0 * share,
        t if t < 0.01 => 20_000.0 * share,
        _ => 0.0,
    };
    time(quick + slow)
}
