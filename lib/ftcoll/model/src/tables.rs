// SPDX-License-Identifier: Apache-2.0
//! Numbers for what occurs in a search, so that a state of a group is a few of them.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A map with a hash that is quick on numbers.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;
/// A set with the same.
pub type Set<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// Folds words by a multiplication of 64 times 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);

impl Mix {
    /// The hash of one value: 64 bits that stand for it in the set of visited states.
    pub fn of(value: &impl Hash) -> u64 {
        let mut mix = Self(0x243f_6a88_85a3_08d3);
        value.hash(&mut mix);
        mix.finish()
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        // Both factors have 64 bits, so the product has 128.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        let bytes = product.to_le_bytes();
        let half = |at: usize| {
            let mut half = [0; 8];
            half.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(half)
        };
        self.0 = (half(0) ^ half(8)).wrapping_add(0xa076_1d64_78bd_642f);
    }

    fn finish(&self) -> u64 {
        let mut last = *self;
        last.write_u64(0x1319_8a2e_0370_7344);
        last.0
    }
}

/// Things that are equal have one number, counted from 0.
#[derive(Debug)]
pub struct Table<T> {
    numbers: HashMap<T, u32>,
    things: Vec<T>,
}

impl<T: Clone + Eq + Hash> Table<T> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self { numbers: HashMap::new(), things: Vec::new() }
    }

    /// The number of a thing, and whether it is new.
    ///
    /// # Panics
    /// If there are 2^32 things.
    pub fn number(&mut self, thing: &T) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(thing) {
            return (number, false);
        }
        let number = u32::try_from(self.things.len()).expect("fewer than 2^32 things");
        self.numbers.insert(thing.clone(), number);
        self.things.push(thing.clone());
        (number, true)
    }

    /// The thing that has this number.
    #[must_use]
    pub fn thing(&self, number: u32) -> &T {
        &self.things[number as usize]
    }
}

impl<T: Clone + Eq + Hash> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}
