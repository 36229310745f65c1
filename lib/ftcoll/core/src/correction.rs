// SPDX-License-Identifier: Apache-2.0
//! What a process that has the message sends along the ring of ranks, so that it reaches those whom
//! the dissemination missed. It sends to both sides in turn, to distance 1, 2, 3.. of each.
//!
//! Sources: Hoefler, Barak, Shiloh, Drezner, "Corrected gossip algorithms for fast reliable
//! broadcast on unreliable systems" (IPDPS 2017): opportunistic, checked, fail-proof; Küttler et
//! al., "Corrected trees for reliable group communication" (`PPoPP` 2019): optimised. The mechanism
//! of fail-proof and the rule of optimised are our own, with the following arguments.
//!
//! **Checked.** A side is done once this process has sent at least as far as the nearest process
//! that it heard of from there. Let a < b be neighbours among the processes that send. Nobody
//! between them sends, so what a hears from the right comes from b or from beyond: a sends to
//! everybody up to b.
//!
//! **Fail-proof.** Everybody who has the message sends, and a side is done once this process has
//! sent at least as far as the (f + 1)-th nearest of those that it heard of from there. Let u live
//! and not have the message, and a be the nearest living process to its left that has. If a was
//! done before it reached u, f + 1 processes between a and u have sent; at most f of them died, so
//! one that has the message lives between a and u, which a was chosen to rule out. Where fewer than
//! f + 1 send at all, a goes around the ring. So either all living processes get the message or
//! none, and all of them if the root lives.
//!
//! **Optimised.** To be within the reach r of a sender at distance x is to be covered by it: up to
//! r - x on the far side. A sender may not rely on a process that relies on it, so it gives up the
//! side that it hears from only if it has sent nothing there: whoever a process has sent to on a
//! side may rely on it for that side. Then to rely on somebody is to rely on a process further to
//! the same side, which ends, and what is covered is what opportunistic correction covers.

use crate::Rank;

/// Most faults that fail-proof correction can be told to bear.
pub const MAX_FAULTS: usize = 7;

/// Which correction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// None: what the dissemination misses stays missed.
    None,
    /// To so many of the nearest, half of them (rounded down) to the left.
    Opportunistic {
        /// Messages of each process.
        distance: u32,
    },
    /// The same without what another process is known to cover.
    Optimised {
        /// Messages of each process at most.
        distance: u32,
    },
    /// Until each side is known to be covered; all living get the message if nobody dies meanwhile.
    Checked,
    /// All living get the message, or none, if at most so many die meanwhile.
    FailProof {
        /// At most `MAX_FAULTS`.
        faults: u32,
    },
}

/// A direction along the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// To lower ranks.
    Left,
    /// To higher ranks.
    Right,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// How far it is from one rank to another in a direction along the ring.
#[must_use]
pub fn distance(from: Rank, to: Rank, side: Side, size: Rank) -> u32 {
    let (low, high) = match side {
        Side::Right => (from, to),
        Side::Left => (to, from),
    };
    if high >= low { high - low } else { high + (size - low) }
}

/// Who is so far from a rank in a direction. `distance` < `size`.
#[must_use]
pub fn neighbour(rank: Rank, distance: u32, side: Side, size: Rank) -> Rank {
    let step = if side == Side::Right { distance } else { size - distance };
    let until_wrap = size - rank;
    if step >= until_wrap { step - until_wrap } else { rank + step }
}

/// What one side has been sent and what was heard of from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Arm {
    /// Distance of the last message, or what the side need not be sent.
    reached: u32,
    /// Messages.
    sent: u32,
    /// Nothing (more) is sent, whatever is heard.
    closed: bool,
    /// Distances of the nearest that were heard of, ascending; as many as `heard_count` says.
    heard: [u32; MAX_FAULTS + 1],
    heard_count: u8,
}

impl Arm {
    fn hear(&mut self, distance: u32, wanted: usize) {
        let count = usize::from(self.heard_count);
        let at = self.heard[..count].partition_point(|&nearer| nearer < distance);
        if at >= wanted {
            return;
        }
        let kept = count.min(wanted - 1);
        self.heard.copy_within(at..kept, at + 1);
        self.heard[at] = distance;
        self.heard_count = u8::try_from(kept + 1).unwrap_or(u8::MAX);
    }

    fn is_covered(&self, wanted: usize) -> bool {
        usize::from(self.heard_count) >= wanted && self.reached >= self.heard[wanted - 1]
    }
}

/// One process's correction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correction {
    left: Arm,
    right: Arm,
}

impl Correction {
    /// Before anything was sent or heard.
    #[must_use]
    pub fn new() -> Self {
        Self { left: Arm::default(), right: Arm::default() }
    }

    fn arm(&mut self, side: Side) -> &mut Arm {
        match side {
            Side::Left => &mut self.left,
            Side::Right => &mut self.right,
        }
    }

    /// Takes note of a correction that came from `distance` away on `side`.
    pub fn hear(&mut self, rule: Rule, side: Side, distance: u32) {
        match rule {
            Rule::None | Rule::Opportunistic { .. } => {}
            Rule::Optimised { distance: all } => {
                let reach = limit(all, side.opposite());
                let far = self.arm(side.opposite());
                far.reached = far.reached.max(reach.saturating_sub(distance));
                let near = self.arm(side);
                near.closed |= near.sent == 0;
            }
            Rule::Checked | Rule::FailProof { .. } => {
                self.arm(side).hear(distance, wanted(rule));
            }
        }
    }

    fn is_done(&self, rule: Rule, side: Side, size: Rank) -> bool {
        let (arm, other) = match side {
            Side::Left => (&self.left, &self.right),
            Side::Right => (&self.right, &self.left),
        };
        let is_around = arm.reached + other.reached >= size - 1;
        arm.closed
            || is_around
            || match rule {
                Rule::None => true,
                Rule::Opportunistic { distance } | Rule::Optimised { distance } => {
                    arm.reached >= limit(distance, side)
                }
                Rule::Checked | Rule::FailProof { .. } => arm.is_covered(wanted(rule)),
            }
    }

    /// The next message, if one is due now: the side and the distance to send to. Ask again after
    /// something was heard, for nothing is due only as things are.
    pub fn next(&mut self, rule: Rule, size: Rank) -> Option<(Side, u32)> {
        let mut side = if self.left.sent < self.right.sent { Side::Left } else { Side::Right };
        if self.is_done(rule, side, size) {
            side = side.opposite();
        }
        if self.is_done(rule, side, size) {
            return None;
        }
        let arm = self.arm(side);
        arm.reached += 1;
        arm.sent += 1;
        Some((side, arm.reached))
    }

    /// How far what it hears of, or has heard of, can change what it sends from now on: the
    /// distances to the left and to the right. Of whatever is beyond, nothing need be known
    /// ([`Correction::forget`]). It looks at all that can be heard, so it is for small groups; of
    /// [`Rule::Optimised`] it tells nothing.
    #[must_use]
    pub fn horizon(&self, rule: Rule, size: Rank) -> [u32; 2] {
        if let Rule::Optimised { .. } = rule {
            return [u32::MAX; 2];
        }
        let mut deaf = self.clone();
        deaf.forget([0; 2]);
        let mut horizon = [0; 2];
        deaf.look_ahead(rule, size, &mut horizon);
        horizon
    }

    /// What is heard of a side matters only by whether the side is done, which it may be if the
    /// whole side has been heard of, and is not if nothing has. Where one of the two sides makes
    /// a difference, what is as near as it has been sent to matters.
    fn look_ahead(&self, rule: Rule, size: Rank, horizon: &mut [u32; 2]) {
        let [none, left, right, both] =
            [&[][..], &[Side::Left], &[Side::Right], &[Side::Left, Side::Right]].map(|sides| {
                let mut later = self.clone();
                for &side in sides {
                    (1..size).for_each(|distance| later.hear(rule, side, distance));
                }
                let next = later.next(rule, size);
                later.forget([0; 2]);
                next.map(|_| later)
            });
        if none != left || right != both {
            horizon[0] = horizon[0].max(self.left.reached);
        }
        if none != right || left != both {
            horizon[1] = horizon[1].max(self.right.reached);
        }
        let mut nexts: Vec<Self> = Vec::new();
        for next in [none, left, right, both].into_iter().flatten() {
            if !nexts.contains(&next) {
                next.look_ahead(rule, size, horizon);
                nexts.push(next);
            }
        }
    }

    /// Forgets who was heard of beyond these distances to the left and to the right.
    pub fn forget(&mut self, horizon: [u32; 2]) {
        for (arm, horizon) in [&mut self.left, &mut self.right].into_iter().zip(horizon) {
            let kept = arm.heard[..usize::from(arm.heard_count)]
                .partition_point(|&distance| distance <= horizon);
            arm.heard[kept..].fill(0);
            arm.heard_count = u8::try_from(kept).unwrap_or(u8::MAX);
        }
    }

    /// Whether nothing is due, and nothing will be whatever is heard.
    #[must_use]
    pub fn has_ended(&self, rule: Rule, size: Rank) -> bool {
        [Side::Left, Side::Right].iter().all(|&side| self.is_done(rule, side, size))
    }
}

impl Default for Correction {
    fn default() -> Self {
        Self::new()
    }
}

/// How far `distance` messages reach to a side.
fn limit(distance: u32, side: Side) -> u32 {
    match side {
        Side::Left => distance / 2,
        Side::Right => distance - distance / 2,
    }
}

/// How many must have been heard of on a side that is done.
fn wanted(rule: Rule) -> usize {
    match rule {
        Rule::FailProof { faults } => (faults as usize).min(MAX_FAULTS) + 1,
        _ => 1,
    }
}

#[cfg(test)]
#[path = "correction_tests.rs"]
mod tests;
