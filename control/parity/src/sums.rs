// SPDX-License-Identifier: Apache-2.0
//! The checksums of all segments of a set.

use crate::layout::{Layout, Part, Shard};
use serde::{Deserialize, Serialize};

/// The CRC32C of a segment, as far as its file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// Which segment.
    pub shard: Shard,
    /// Its checksum.
    pub crc: u32,
}

/// Those of all segments: of each member, its image's first, then its parities'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sums(Vec<Vec<u32>>);

impl Sums {
    /// From those of all stripes. What is of no segment of the set is passed over: they come from
    /// other hosts.
    #[must_use]
    pub fn of(layout: &Layout, all: &[Sum]) -> Self {
        let members = layout.members();
        let mut table = vec![vec![0; members]; members];
        for sum in all {
            let row = table.get_mut(sum.shard.member);
            if let Some(place) = row.and_then(|row| row.get_mut(column(layout, sum.shard))) {
                *place = sum.crc;
            }
        }
        Self(table)
    }

    /// Whether it has as many as a set of that layout.
    #[must_use]
    pub fn fits(&self, layout: &Layout) -> bool {
        let members = layout.members();
        self.0.len() == members && self.0.iter().all(|row| row.len() == members)
    }

    /// That of a segment; 0 where there is none.
    #[must_use]
    pub fn get(&self, layout: &Layout, shard: Shard) -> u32 {
        let row = self.0.get(shard.member);
        row.and_then(|row| row.get(column(layout, shard))).copied().unwrap_or(0)
    }
}

fn column(layout: &Layout, shard: Shard) -> usize {
    match shard.part {
        Part::Image => shard.segment,
        Part::Parity => layout.data().saturating_add(shard.segment),
    }
}
