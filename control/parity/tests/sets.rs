// SPDX-License-Identifier: Apache-2.0
//! Sets of any size, with images of any lengths: whatever can be lost is rebuilt as it was.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use fermata_parity::{Layout, Members, Part, Sums, WorkError, check, encode, rebuild};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Members in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    images: Vec<Vec<u8>>,
    parities: Vec<Vec<u8>>,
    /// Who may not be read.
    lost: BTreeSet<usize>,
}

impl Memory {
    fn file(&mut self, member: usize, part: Part) -> &mut Vec<u8> {
        match part {
            Part::Image => &mut self.images[member],
            Part::Parity => &mut self.parities[member],
        }
    }

    fn lose(&mut self, lost: &BTreeSet<usize>) {
        for member in lost {
            self.images[*member].fill(0xee);
            self.parities[*member].clear();
        }
        self.lost.clone_from(lost);
    }
}

impl Members for Memory {
    type Error = String;

    fn read(&mut self, m: usize, part: Part, offset: u64, bytes: &mut [u8]) -> Result<(), String> {
        if self.lost.contains(&m) {
            return Err(format!("member {m} is lost"));
        }
        let begin = usize::try_from(offset).unwrap();
        let has = self.file(m, part).get(begin..begin + bytes.len()).ok_or("beyond the end")?;
        bytes.copy_from_slice(has);
        Ok(())
    }

    fn write(&mut self, m: usize, part: Part, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let begin = usize::try_from(offset).unwrap();
        let file = self.file(m, part);
        file.get_mut(begin..begin + bytes.len()).ok_or("beyond the end")?.copy_from_slice(bytes);
        Ok(())
    }
}

fn set(lengths: &[usize], parities: usize, seed: u64) -> (Layout, Sums, Memory) {
    let lengths64 = lengths.iter().map(|bytes| *bytes as u64).collect();
    let layout = Layout::new(lengths64, parities).unwrap();
    let mut state = seed;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let images = lengths.iter().map(|bytes| (0..*bytes).map(|_| byte()).collect()).collect();
    let parity_bytes = usize::try_from(layout.parity_bytes()).unwrap();
    let parities = vec![vec![0; parity_bytes]; lengths.len()];
    let mut memory = Memory { images, parities, lost: BTreeSet::new() };
    // In any order: each stripe is made by another host.
    let mut all = Vec::new();
    for stripe in (0..layout.stripes()).rev() {
        all.extend(encode(&layout, stripe, &mut memory).unwrap());
    }
    let sums = Sums::of(&layout, &all);
    assert!(sums.fits(&layout));
    (layout, sums, memory)
}

/// Lengths, parities, and who is lost.
fn sets() -> impl Strategy<Value = (Vec<usize>, usize, BTreeSet<usize>, u64)> {
    (2_usize..9, 1_usize..5, any::<u64>()).prop_flat_map(|(members, parities, seed)| {
        let parities = parities.min(members - 1);
        let length = prop_oneof![Just(0), 1..300_usize, Just(4096), 100_000..400_000_usize];
        let lost = proptest::collection::btree_set(0..members, 0..=parities);
        (proptest::collection::vec(length, members), Just(parities), lost, Just(seed))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_may_be_lost_is_rebuilt((lengths, parities, lost, seed) in sets()) {
        let (layout, sums, whole) = set(&lengths, parities, seed);
        for member in 0..layout.members() {
            for part in [Part::Image, Part::Parity] {
                check(&layout, &sums, member, part, &mut whole.clone()).unwrap();
            }
        }
        let mut memory = whole.clone();
        memory.lose(&lost);
        rebuild(&layout, &sums, &lost, &mut memory).unwrap();
        prop_assert_eq!(memory.images, whole.images);
    }

    /// One flipped bit of somebody who lives: it is named, or was not needed.
    #[test]
    fn what_has_changed_is_named((lengths, parities, lost, seed) in sets(), bit in any::<u64>()) {
        let (layout, sums, whole) = set(&lengths, parities, seed);
        let living: Vec<usize> = (0..layout.members()).filter(|m| !lost.contains(m)).collect();
        let member = living[usize::try_from(seed % living.len() as u64).unwrap()];
        let part = if bit % 2 == 0 { Part::Image } else { Part::Parity };
        let mut memory = whole.clone();
        let file = memory.file(member, part);
        prop_assume!(!file.is_empty());
        let at = usize::try_from((bit / 16) % file.len() as u64).unwrap();
        file[at] ^= 1 << (bit / 2 % 8);
        let found = check(&layout, &sums, member, part, &mut memory.clone());
        prop_assert!(matches!(found, Err(WorkError::Changed(s)) if s.member == member));
        memory.lose(&lost);
        match rebuild(&layout, &sums, &lost, &mut memory) {
            Ok(()) => {
                for member in &lost {
                    prop_assert_eq!(&memory.images[*member], &whole.images[*member]);
                }
            }
            Err(WorkError::Changed(shard)) => {
                prop_assert_eq!((shard.member, shard.part), (member, part));
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn more_than_may_be_lost_is_refused() {
    let (layout, sums, mut memory) = set(&[100, 200, 300, 50], 2, 7);
    let lost = BTreeSet::from([0, 1, 3]);
    memory.lose(&lost);
    let why = rebuild(&layout, &sums, &lost, &mut memory).unwrap_err();
    assert_eq!(why, WorkError::TooManyLost { lost: 3, parities: 2 });
    assert_eq!(why.to_string(), "3 members are lost, and the set rebuilds 2");
}

#[test]
fn a_rebuilt_image_that_is_wrong_is_said() {
    let (layout, _, whole) = set(&[1000, 900, 800], 1, 3);
    let (_, others, _) = set(&[1000, 900, 800], 1, 4);
    let mut memory = whole.clone();
    memory.lose(&BTreeSet::from([1]));
    let why = rebuild(&layout, &others, &BTreeSet::from([1]), &mut memory).unwrap_err();
    assert!(matches!(why, WorkError::Changed(_)), "{why}");
}

#[test]
fn a_file_that_cannot_be_read_is_said() {
    let (layout, sums, mut memory) = set(&[1000, 900, 800], 1, 3);
    memory.lost.insert(2);
    let why = rebuild(&layout, &sums, &BTreeSet::from([1]), &mut memory).unwrap_err();
    assert_eq!(why, WorkError::Members("member 2 is lost".into()));
}
