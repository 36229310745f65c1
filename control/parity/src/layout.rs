// SPDX-License-Identifier: Apache-2.0
//! Which segment of which member is in which stripe, and where in its file.

use serde::{Deserialize, Serialize};

/// Segments are whole blocks of this, so that the code has no odd ends.
const BLOCK: u64 = 64;
/// More members than any set has; the code takes as many.
const MEMBERS_MAX: usize = 1024;

/// What a member has of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// A segment of its image.
    Image,
    /// A segment of its file of parities.
    Parity,
}

/// The segment of one member in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Shard {
    /// Whose.
    pub member: usize,
    /// Of which of its files.
    pub part: Part,
    /// Which segment of that file.
    pub segment: usize,
}

/// The members of a set, by the lengths of their images, and how many may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    lengths: Vec<u64>,
    parities: usize,
    segment_bytes: u64,
}

/// Why there is no such set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Nothing would be rebuilt.
    #[error("a set without a parity rebuilds nothing")]
    NoParity,
    /// Parities are over other members.
    #[error("{members} members are too few for {parities} parities")]
    TooFew {
        /// Members of the set.
        members: usize,
        /// Parities.
        parities: usize,
    },
    /// The code has an end.
    #[error("{members} members are too many for a set, at most {MEMBERS_MAX}")]
    TooMany {
        /// Members of the set.
        members: usize,
    },
}

impl Layout {
    /// A set whose members have images of these lengths.
    ///
    /// # Errors
    /// There is none with so many members and parities.
    pub fn new(lengths: Vec<u64>, parities: usize) -> Result<Self, LayoutError> {
        let members = lengths.len();
        match (members, parities) {
            (_, 0) => return Err(LayoutError::NoParity),
            _ if members <= parities => return Err(LayoutError::TooFew { members, parities }),
            _ if members > MEMBERS_MAX => return Err(LayoutError::TooMany { members }),
            _ => {}
        }
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let segment = longest.div_ceil((members - parities) as u64);
        let segment_bytes = segment.div_ceil(BLOCK) * BLOCK;
        Ok(Self { lengths, parities, segment_bytes })
    }

    /// How many members there are.
    #[must_use]
    pub fn members(&self) -> usize {
        self.lengths.len()
    }

    /// How many of them may be lost.
    #[must_use]
    pub fn parities(&self) -> usize {
        self.parities
    }

    /// Segments of an image, and those of other members that a parity is over.
    #[must_use]
    pub fn data(&self) -> usize {
        self.members() - self.parities
    }

    /// Stripes: one for each member.
    #[must_use]
    pub fn stripes(&self) -> usize {
        self.members()
    }

    /// Bytes of a segment.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of a member's image.
    #[must_use]
    pub fn image_bytes(&self, member: usize) -> u64 {
        self.lengths[member]
    }

    /// Bytes of each member's file of parities.
    #[must_use]
    pub fn parity_bytes(&self) -> u64 {
        self.parities as u64 * self.segment_bytes
    }

    /// What members have of a stripe: those of images in the order of the code, then its parities.
    #[must_use]
    pub fn stripe(&self, stripe: usize) -> (Vec<Shard>, Vec<Shard>) {
        let members = self.members();
        let member = |place: usize| (stripe + place) % members;
        let parity = |place| Shard { member: member(place), part: Part::Parity, segment: place };
        let image = |place: usize| Shard {
            member: member(place),
            part: Part::Image,
            segment: place - self.parities,
        };
        let parities = (0..self.parities).map(parity).collect();
        ((self.parities..members).map(image).collect(), parities)
    }

    /// The segments of one of a member's files, in order.
    pub fn segments(&self, member: usize, part: Part) -> impl Iterator<Item = Shard> + use<> {
        let count = match part {
            Part::Image => self.data(),
            Part::Parity => self.parities,
        };
        (0..count).map(move |segment| Shard { member, part, segment })
    }

    /// Where a segment begins in its file, and how much of it the file has: what is missing at the
    /// end of an image are zeros.
    #[must_use]
    pub fn extent(&self, shard: Shard) -> (u64, u64) {
        let begin = shard.segment as u64 * self.segment_bytes;
        let end = match shard.part {
            Part::Image => self.lengths[shard.member],
            Part::Parity => self.parity_bytes(),
        };
        (begin, end.saturating_sub(begin).min(self.segment_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_segment_is_in_one_stripe_and_each_stripe_has_one_of_each_member() {
        for (members, parities) in [(2, 1), (4, 1), (5, 2), (8, 3), (9, 8)] {
            let layout = Layout::new(vec![1000; members], parities).unwrap();
            let mut seen = BTreeSet::new();
            for stripe in 0..layout.stripes() {
                let (data, parity) = layout.stripe(stripe);
                assert_eq!((data.len(), parity.len()), (members - parities, parities));
                let all: Vec<Shard> = data.into_iter().chain(parity).collect();
                let whose: BTreeSet<usize> = all.iter().map(|shard| shard.member).collect();
                assert_eq!(whose.len(), members);
                seen.extend(all);
            }
            let all = (0..members).flat_map(|member| {
                let of = |part| layout.segments(member, part);
                of(Part::Image).chain(of(Part::Parity)).collect::<Vec<_>>()
            });
            assert_eq!(seen, all.collect());
        }
    }

    #[test]
    fn segments_cover_the_longest_image() {
        let layout = Layout::new(vec![0, 1, 700, 64], 1).unwrap();
        assert_eq!(layout.segment_bytes(), 256);
        let of = |member, segment| layout.extent(Shard { member, part: Part::Image, segment });
        assert_eq!([of(2, 0), of(2, 1), of(2, 2)], [(0, 256), (256, 256), (512, 188)]);
        assert_eq!([of(1, 0), of(1, 1), of(0, 0)], [(0, 1), (256, 0), (0, 0)]);
        assert_eq!(layout.parity_bytes(), 256);
    }

    #[test]
    fn sets_that_rebuild_nothing_are_refused() {
        let why = |members, parities| Layout::new(vec![1; members], parities).unwrap_err();
        assert_eq!(why(4, 0), LayoutError::NoParity);
        assert_eq!(why(1, 1).to_string(), "1 members are too few for 1 parities");
        assert_eq!(why(2, 2), LayoutError::TooFew { members: 2, parities: 2 });
        assert_eq!(why(1025, 2), LayoutError::TooMany { members: 1025 });
    }
}
