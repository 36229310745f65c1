// SPDX-License-Identifier: Apache-2.0
//! A lane: the machine of one communicator for one root. Machines are numbered from the root, and
//! a machine counts its own calls, so each root has a lane of its own; large values have others,
//! for a machine keeps the verdicts of some calls.
//!
//! Invariant: a broadcast's root waits for nobody, so at most `Lane::ahead_max` broadcasts of a
//! lane follow each other without a call that all have to enter (`fermata_ftcoll::ftco::Setup`).

use crate::value::{Data, Slot};
use fermata_ftcoll::ftco::{Ftco, Operation, Setup, Timeouts, Verdict};
use fermata_ftcoll::plain::Plain;
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::{Actions, Core, Event, Rank, Renumbering, Time, ftco};
use std::sync::Arc;

/// From here on a value is large.
pub(crate) const LARGE_BYTES: usize = 64 << 10;
const KEPT: usize = 64;
const KEPT_LARGE: usize = 4;

/// Which lane of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneKey {
    /// The root's rank in the communicator.
    pub root: Rank,
    /// Whether it is for large values.
    pub is_large: bool,
}

/// What a machine does upon an event.
pub(crate) type Doing = Actions<ftco::Message<Data>, Verdict<Data>>;

/// What runs the calls of a lane.
enum Machine {
    Survives(Box<Ftco<Data>>),
    Plain(Plain<Data>),
}

/// One machine and what belongs to it.
pub(crate) struct Lane {
    machine: Machine,
    numbering: Renumbering,
    /// Of the program's operation, for values that come.
    pub slot: Slot,
    wake: Option<Time>,
    result: Option<Verdict<Data>>,
    ahead: usize,
    ahead_max: usize,
}

impl Lane {
    /// Of process `me` of `size`, with a binomial tree numbered in order, so that operands keep
    /// the order of the ranks, counted from the root. Without timeouts it survives nothing.
    pub fn new(key: LaneKey, me: Rank, size: Rank, timeouts: Option<Timeouts>) -> Self {
        let kept = if key.is_large { KEPT_LARGE } else { KEPT };
        let tree = Arc::new(Tree::binomial(size).in_order());
        let numbering = Renumbering { size, root: key.root };
        let me = numbering.to_virtual(me);
        let machine = match timeouts {
            Some(timeouts) => {
                let setup = Setup { tree, timeouts, kept, damage: None };
                Machine::Survives(Box::new(Ftco::new(Arc::new(setup), me)))
            }
            None => Machine::Plain(Plain::new(tree, me)),
        };
        Self {
            machine,
            numbering,
            slot: Slot::default(),
            wake: None,
            result: None,
            ahead: 0,
            ahead_max: kept / 2,
        }
    }

    /// The rank in the communicator of what the machine sends to.
    pub fn to_real(&self, rank: Rank) -> Rank {
        self.numbering.to_real(rank)
    }

    pub fn step(&mut self, event: Event<ftco::Message<Data>>, now: Time, actions: &mut Doing) {
        if event == Event::Timer {
            self.wake = None;
        }
        match &mut self.machine {
            Machine::Survives(machine) => machine.step(event, now, actions),
            Machine::Plain(machine) => machine.step(event, now, actions),
        }
        self.wake = actions.wake.take().or(self.wake);
        if let Some(mut verdict) = actions.output.take() {
            // The machine counts from its root.
            verdict.missing.iter_mut().for_each(|rank| *rank = self.numbering.to_real(*rank));
            verdict.missing.sort_unstable();
            self.result = Some(verdict);
            self.wake = None;
        }
    }

    /// A message of a process of the communicator.
    pub fn message(&self, from: Rank, message: ftco::Message<Data>) -> Event<ftco::Message<Data>> {
        Event::Message { from: self.numbering.to_virtual(from), message }
    }

    /// The death of a process of the communicator.
    pub fn death(&self, rank: Rank) -> Event<ftco::Message<Data>> {
        Event::Dead(self.numbering.to_virtual(rank))
    }

    /// Says what the next call is to do.
    pub fn prepare(&mut self, operation: Operation, value: Option<Data>) {
        self.ahead = if operation == Operation::Bcast { self.ahead + 1 } else { 0 };
        match &mut self.machine {
            Machine::Survives(machine) => machine.prepare(operation, value),
            Machine::Plain(machine) => machine.prepare(operation, value),
        }
    }

    /// Whether so many broadcasts have followed each other that a barrier has to come first.
    pub fn is_far_ahead(&self) -> bool {
        self.ahead >= self.ahead_max
    }

    pub fn is_due(&self, now: Time) -> bool {
        self.wake.is_some_and(|wake| wake <= now)
    }

    pub fn wake(&self) -> Option<Time> {
        self.wake
    }

    pub fn has_result(&self) -> bool {
        self.result.is_some()
    }

    pub fn take_result(&mut self) -> Option<Verdict<Data>> {
        self.result.take()
    }

    /// Who is taken for dead here, by rank in the communicator.
    pub fn dead(&self) -> impl Iterator<Item = Rank> + '_ {
        let machine = match &self.machine {
            Machine::Survives(machine) => Some(machine.as_ref()),
            Machine::Plain(_) => None,
        };
        let dead = machine.into_iter().flat_map(Ftco::dead);
        dead.map(|rank| self.numbering.to_real(rank))
    }
}
