// SPDX-License-Identifier: Apache-2.0
//! Seeded randomness. Each thing that is random has a stream of its own, so that policies that are
//! compared meet the same failures at the same times, whatever else they draw.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(SmallRng);

impl Random {
    /// Stream number `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed.rotate_left(32) ^ stream))
    }

    /// Evenly in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Exponential with this rate per second, seconds.
    pub fn exponential(&mut self, rate: f64) -> f64 {
        -(1.0 - self.unit()).ln() / rate
    }

    /// Evenly in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// One of 0 to `count` - 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below count
    pub fn below(&mut self, count: u32) -> u32 {
        ((self.unit() * f64::from(count)) as u32).min(count.saturating_sub(1))
    }

    /// One of them; none if there are none.
    pub fn choice<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.choose(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_their_own_and_come_again() {
        let draw = |seed, stream| Random::new(seed, stream).unit();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }

    #[test]
    fn exponential_has_its_mean() {
        let mut random = Random::new(7, 0);
        let mean: f64 = (0..40_000).map(|_| random.exponential(0.5)).sum::<f64>() / 4e4;
        assert!((mean - 2.0).abs() < 0.05, "{mean}");
    }
}
