// SPDX-License-Identifier: Apache-2.0
//! Who is dead, and from when. The same seed gives the same dead whatever the algorithm, so that
//! algorithms are compared over the same failures.

use crate::world::NEVER;
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::{Rank, Time};
use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};

/// The generator of a run.
#[must_use]
pub fn generator(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Where the dead are. The root lives: without it there is nothing to broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Anywhere.
    Random,
    /// Racks of so many ranks in a row.
    Racks(u32),
    /// At the top of the tree: those with the largest subtrees.
    Top,
}

/// For each process the time that it is dead from: 0 or never.
pub fn before(placement: Placement, tree: &Tree, count: u32, seed: u64) -> Vec<Time> {
    let size = tree.size();
    let mut dead = vec![NEVER; size as usize];
    let mut random = generator(seed);
    match placement {
        Placement::Random => {
            for index in sample(&mut random, size as usize - 1, count as usize) {
                dead[index + 1] = 0;
            }
        }
        Placement::Racks(width) => {
            let racks = ((size - 1) / width) as usize;
            for rack in sample(&mut random, racks, count.div_ceil(width) as usize) {
                let first = 1 + rack * width as usize;
                dead[first..first + width as usize].fill(0);
            }
        }
        Placement::Top => {
            let mut below = vec![1u32; size as usize];
            for rank in (1..size).rev() {
                let parent = tree.parent(rank).unwrap_or(0);
                below[parent as usize] += below[rank as usize];
            }
            let mut ranks: Vec<Rank> = (1..size).collect();
            ranks.sort_by_key(|&rank| std::cmp::Reverse(below[rank as usize]));
            for rank in ranks.into_iter().take(count as usize) {
                dead[rank as usize] = 0;
            }
        }
    }
    dead
}

/// Adds `count` more deaths of processes other than the root at times before `end`.
pub fn during(dead: &mut [Time], count: u32, end: Time, seed: u64) {
    let mut random = generator(seed);
    for _ in 0..count {
        let rank = random.random_range(1..dead.len());
        if dead[rank] == NEVER {
            dead[rank] = random.random_range(0..end.max(1)) + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Placement, before};
    use fermata_ftcoll::tree::Tree;

    #[test]
    fn as_many_die_as_asked_for() {
        let tree = Tree::binomial(256);
        for (placement, count) in
            [(Placement::Random, 10), (Placement::Racks(8), 16), (Placement::Top, 7)]
        {
            let dead = before(placement, &tree, count, 3);
            assert_eq!(dead.iter().filter(|&&time| time == 0).count(), count as usize);
            assert_ne!(dead[0], 0);
        }
        let top = before(Placement::Top, &tree, 3, 0);
        let never = crate::world::NEVER;
        assert_eq!(top[1..5], [0, 0, 0, never], "1, 2 and 3 head the largest");
    }
}
