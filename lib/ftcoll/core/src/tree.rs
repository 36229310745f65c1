// SPDX-License-Identifier: Apache-2.0
//! Trees to disseminate and to gather along: shapes, and how their places are numbered.
//!
//! A tree whose numbering is *interleaved* spreads each subtree over the ring of ranks: a dead
//! inner node leaves small gaps, which a correction closes quickly. Numbered *in order* (preorder)
//! a subtree is one run of ranks; this is what the interleaved numbering is compared with, and what
//! an operation needs that may not change the order of its operands.
//!
//! Invariant: a parent's rank is lower than its children's.
//!
//! Sources: interleaved k-ary trees: Küttler et al., "Corrected trees for reliable group
//! communication" (`PPoPP` 2019), and FFMK's final report, section 3.3. Lamé trees: the same, whose
//! simulator's numbering the recurrence follows; the optimal tree for L, o and g: Karp, Sahay,
//! Santos, Schauser, "Optimal broadcast and summation in the LogP model" (SPAA 1993), section 2.

use crate::Rank;

/// A tree over the ranks 0..size, rooted at 0.
#[derive(Clone, Debug)]
pub struct Tree {
    size: Rank,
    shape: Shape,
    order: Option<Order>,
}

#[derive(Clone, Debug)]
enum Shape {
    Kary(u32),
    Waves(Waves),
}

/// Numbering other than that of the shape: the rank of a place, and the place of a rank.
#[derive(Clone, Debug)]
struct Order {
    rank_of: Vec<Rank>,
    place_of: Vec<Rank>,
}

/// Places in the order in which a message reaches them if everybody sends one every `step` from
/// the moment on that it has it, and it takes `hop` to arrive.
///
/// Wave t holds the places reached at time t: `first[t]..first[t + 1]`. `senders[t]` of them, of
/// the waves t, t - step, t - 2 step.. in ascending order, send at t and make wave t + hop.
#[derive(Clone, Debug)]
struct Waves {
    hop: usize,
    step: usize,
    first: Vec<u64>,
    senders: Vec<u64>,
}

impl Waves {
    fn new(size: Rank, hop: usize, step: usize) -> Self {
        let mut waves = Self { hop, step, first: vec![0, 1], senders: vec![] };
        for time in 0.. {
            let arrivals = waves.first[time + 1] - waves.first[time];
            let before = waves.senders_before(time);
            waves.senders.push(before + arrivals);
            if waves.first[time + 1] >= u64::from(size) {
                break;
            }
            let next = (time + 1).checked_sub(hop).map_or(0, |sent| waves.senders[sent]);
            waves.first.push(waves.first[time + 1] + next);
        }
        waves
    }

    /// How many of earlier waves send at `time`.
    fn senders_before(&self, time: usize) -> u64 {
        time.checked_sub(self.step).map_or(0, |earlier| self.senders[earlier])
    }

    fn wave_of(&self, place: u64) -> usize {
        self.first.partition_point(|&first| first <= place) - 1
    }

    fn child(&self, place: u64, index: u32) -> Option<u64> {
        let wave = self.wave_of(place);
        let sent = wave + index as usize * self.step;
        let first = self.first.get(sent + self.hop)?;
        Some(first + self.senders_before(wave) + (place - self.first[wave]))
    }

    fn parent(&self, place: u64) -> u64 {
        let wave = self.wave_of(place);
        let sent = wave - self.hop;
        let among = place - self.first[wave];
        let mut sender_wave = sent;
        while self.senders_before(sender_wave) > among {
            sender_wave -= self.step;
        }
        self.first[sender_wave] + among - self.senders_before(sender_wave)
    }
}

/// The first place of the level that holds `place`, and how many places that level has.
fn level_of(place: u64, arity: u32) -> (u64, u64) {
    let (mut first, mut width) = (0, 1);
    while place - first >= width {
        first += width;
        width *= u64::from(arity);
    }
    (first, width)
}

impl Tree {
    fn with(size: Rank, shape: Shape) -> Self {
        assert!(size > 0, "a tree has at least its root");
        Self { size, shape, order: None }
    }

    /// Every place has up to `arity` (at least 2) children; level l holds arity^l places. The
    /// children of r on level l are r + i * arity^l for 0 < i <= arity.
    #[must_use]
    pub fn kary(size: Rank, arity: u32) -> Self {
        assert!(arity >= 2, "a tree of arity {arity} is none");
        Self::with(size, Shape::Kary(arity))
    }

    /// Everybody who has the message sends it in each round.
    #[must_use]
    pub fn binomial(size: Rank) -> Self {
        Self::lame(size, 1)
    }

    /// The Lamé tree: what is sent in a round arrives `order` (at least 1) rounds later, and
    /// everybody who has the message sends in each round.
    #[must_use]
    pub fn lame(size: Rank, order: u32) -> Self {
        Self::optimal(size, order, 1)
    }

    /// The tree that reaches all first when a message takes `hop` (L + 2o) from one process to
    /// the next and a process sends one every `step` (the larger of o and g), both at least 1.
    /// Allocates as many numbers as the message takes units of time to reach all.
    #[must_use]
    pub fn optimal(size: Rank, hop: u32, step: u32) -> Self {
        assert!(hop >= 1 && step >= 1, "a hop and a step take time");
        Self::with(size, Shape::Waves(Waves::new(size, hop as usize, step as usize)))
    }

    /// The same shape numbered in preorder. Allocates two numbers per process.
    #[must_use]
    pub fn in_order(self) -> Self {
        let size = self.size as usize;
        let mut below = vec![1u32; size];
        for place in (1..self.size).rev() {
            if let Some(parent) = self.shape_parent(place) {
                below[parent as usize] += below[place as usize];
            }
        }
        let (mut rank_of, mut place_of) = (vec![0; size], vec![0; size]);
        for place in 0..self.size {
            let mut next = rank_of[place as usize] + 1;
            for index in 0.. {
                let Some(child) = self.shape_child(place, index) else {
                    break;
                };
                rank_of[child as usize] = next;
                next += below[child as usize];
            }
        }
        for (place, &rank) in (0..).zip(&rank_of) {
            place_of[rank as usize] = place;
        }
        Self { order: Some(Order { rank_of, place_of }), ..self }
    }

    /// Processes in the tree.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.size
    }

    fn shape_child(&self, place: Rank, index: u32) -> Option<Rank> {
        let child = match &self.shape {
            Shape::Kary(arity) if index >= *arity => return None,
            Shape::Kary(arity) => {
                let (_, width) = level_of(u64::from(place), *arity);
                u64::from(place) + (u64::from(index) + 1) * width
            }
            Shape::Waves(waves) => waves.child(u64::from(place), index)?,
        };
        Rank::try_from(child).ok().filter(|&child| child < self.size)
    }

    fn shape_parent(&self, place: Rank) -> Option<Rank> {
        let wide = u64::from(place);
        let parent = match &self.shape {
            _ if place == 0 => return None,
            Shape::Kary(arity) => {
                let (first, width) = level_of(wide, *arity);
                let above = width / u64::from(*arity);
                first - above + (wide - first) % above
            }
            Shape::Waves(waves) => waves.parent(wide),
        };
        Rank::try_from(parent).ok()
    }

    /// The `index`-th child of `rank`, in the order of sending.
    #[must_use]
    pub fn child(&self, rank: Rank, index: u32) -> Option<Rank> {
        match &self.order {
            None => self.shape_child(rank, index),
            Some(order) => {
                let child = self.shape_child(order.place_of[rank as usize], index)?;
                Some(order.rank_of[child as usize])
            }
        }
    }

    /// The children of `rank`, in the order of sending.
    pub fn children(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        (0..).map_while(move |index| self.child(rank, index))
    }

    /// The parent of `rank`; the root has none.
    #[must_use]
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        match &self.order {
            None => self.shape_parent(rank),
            Some(order) => {
                let parent = self.shape_parent(order.place_of[rank as usize])?;
                Some(order.rank_of[parent as usize])
            }
        }
    }

    /// The ancestors of `rank`, from its parent to the root.
    pub fn ancestors(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        std::iter::successors(self.parent(rank), move |&above| self.parent(above))
    }

    /// Whether `above` is on the way from `rank` to the root, `rank` itself not counted.
    #[must_use]
    pub fn is_above(&self, above: Rank, rank: Rank) -> bool {
        self.ancestors(rank).take_while(|&ancestor| ancestor >= above).any(|a| a == above)
    }

    /// Edges on the longest way down from `rank`. Visits the whole subtree; allocates.
    #[must_use]
    pub fn height(&self, rank: Rank) -> u32 {
        let (mut highest, mut open) = (0, vec![(rank, 0)]);
        while let Some((at, depth)) = open.pop() {
            highest = highest.max(depth);
            open.extend(self.children(at).map(|child| (child, depth + 1)));
        }
        highest
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
