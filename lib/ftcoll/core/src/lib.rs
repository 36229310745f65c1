// SPDX-License-Identifier: Apache-2.0
//! Collective operations that survive dead processes, as pure machines.
//!
//! Each algorithm is a [`Core`]: one process's part of a collective, driven by events and a time
//! that the driver hands in. No core has I/O, a clock or a source of randomness (gossip draws its
//! targets from a seed), so the simulator, the model checker and the transport drive the same code.
//!
//! ```text
//! tree         shapes and numberings: k-ary, binomial, Lamé, optimal; interleaved or in order
//! broadcast    corrected broadcast: a dissemination (tree, gossip) and a correction on the ring
//! correction   what is sent to whom on the ring, and when a side is done
//! ftco         a tree that bypasses dead processes: bcast, reduce, allreduce, barrier
//! plain        the same tree without tolerance, to compare with
//! upward       up-correction: reduce that f dead processes cannot spoil
//! allreduce    up-correction and a corrected broadcast, under one root after the other
//! spanning     spanning trees from corrected broadcasts, several kept, changed on failure
//! ```
//!
//! The model of failure of all of them: processes stop and do not return, messages between living
//! processes arrive once and in order, and a message to a dead process is lost without notice.
//!
//! Ranks here are virtual: the root is 0. [`Renumbering`] maps them to those of a communicator.

pub mod allreduce;
pub mod broadcast;
pub mod correction;
pub mod draw;
pub mod ftco;
pub mod plain;
pub mod spanning;
pub mod tree;
pub mod upward;

#[cfg(test)]
mod testbed;

/// A process, counted from the root, which is 0.
pub type Rank = u32;
/// A point in time or a span, in the unit of the driver: nanoseconds, or steps of a simulation.
pub type Time = u64;

/// What happens to a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event<M> {
    /// The process enters the operation.
    Start,
    /// A message has come.
    Message {
        /// Who sent it.
        from: Rank,
        /// What it says.
        message: M,
    },
    /// The transport has taken every message so far and would take another one.
    PortFree,
    /// The time that the core asked to be woken at has come.
    Timer,
    /// The transport knows that a process is dead (its connection broke).
    Dead(Rank),
}

/// What a process does upon an event. The driver keeps one and empties it after each step, so a
/// step allocates hardly anything once its lists have grown.
#[derive(Clone, Debug)]
pub struct Actions<M, O> {
    /// Messages to send, in this order.
    pub sends: Vec<(Rank, M)>,
    /// The result of the operation here.
    pub output: Option<O>,
    /// When to wake the core. It replaces what was asked for before; `None` leaves that as it is.
    pub wake: Option<Time>,
}

impl<M, O> Default for Actions<M, O> {
    fn default() -> Self {
        Self { sends: Vec::new(), output: None, wake: None }
    }
}

impl<M, O> Actions<M, O> {
    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.sends.clear();
        self.output = None;
        self.wake = None;
    }

    pub(crate) fn send(&mut self, to: Rank, message: M) {
        self.sends.push((to, message));
    }

    pub(crate) fn wake_at(&mut self, time: Time) {
        self.wake = Some(self.wake.map_or(time, |earlier| earlier.min(time)));
    }
}

/// One process's part of a collective operation.
pub trait Core {
    /// What processes tell each other.
    type Message;
    /// What the operation gives to this process.
    type Output;

    /// Takes an event at a time and adds what follows from it to `actions`. Times never decrease.
    fn step(
        &mut self,
        event: Event<Self::Message>,
        now: Time,
        actions: &mut Actions<Self::Message, Self::Output>,
    );
}

/// Maps the ranks of a communicator to virtual ones, so that any process can be the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renumbering {
    /// Processes in the communicator.
    pub size: Rank,
    /// The root's rank there.
    pub root: Rank,
}

impl Renumbering {
    /// The virtual rank of a rank.
    #[must_use]
    pub fn to_virtual(self, rank: Rank) -> Rank {
        if rank >= self.root { rank - self.root } else { rank + (self.size - self.root) }
    }

    /// The rank of a virtual rank.
    #[must_use]
    pub fn to_real(self, rank: Rank) -> Rank {
        let until_wrap = self.size - self.root;
        if rank < until_wrap { rank + self.root } else { rank - until_wrap }
    }
}

#[cfg(test)]
mod tests {
    use super::Renumbering;

    #[test]
    fn renumbering_is_a_rotation() {
        for root in 0..7 {
            let map = Renumbering { size: 7, root };
            assert_eq!(map.to_virtual(root), 0);
            for rank in 0..7 {
                assert_eq!(map.to_real(map.to_virtual(rank)), rank);
            }
        }
    }
}
