// SPDX-License-Identifier: Apache-2.0
//! Tree collectives that bypass dead processes (FTCO): bcast, reduce, allreduce, and barrier, which
//! is an allreduce of nothing.
//!
//! Contributions go up the tree and one process, the root, decides; its verdict goes down. Whoever
//! waits asks after half a timeout whether the other one lives, and takes it for dead after a whole
//! one of silence, half of it after the question. A parent replaces a dead child by the child's
//! children; a child replaces a dead parent by the next ancestor, or, if none lives, by the process
//! of the lowest rank, which becomes the root. The dead are remembered: later calls leave them out
//! and cost nothing.
//!
//! Invariants, as long as nobody takes a living process for dead:
//! - A contribution is in a verdict as a whole or not at all: what a process covers is a set of
//!   subtrees none of which holds another, each taken from one message.
//! - A verdict comes to a process only from a process above it, or from a root all of whose
//!   predecessors are dead. So whoever lives and has no verdict has nobody with one below it.
//! - All living processes get the same verdict. A new root asks the topmost living processes, takes
//!   over the verdict that one of them has, and decides only if none has any; with its answer each
//!   of them promises to take no verdict of an earlier root, which may still be on its way.
//!
//! If a living process is taken for dead (a timeout that is too short) its contribution may be
//! missing and verdicts may differ, but every call still ends, and the process takes part in the
//! next call, once it has been heard of.
//!
//! Messages: DATA is [`Body::Contribution`] and [`Body::Verdict`], KEEPALIVE and ACK themselves.
//!
//! Sources: FFMK's final report, section 3.1 (message types, timeouts by height, bypass, any tree);
//! Margolin and Barak, "Tree-based fault-tolerant collective operations for MPI" (`ExaMPI`, CCPE).
//! The new root's questions and promises follow the ballots of Lamport, "The part-time parliament"
//! (1998); the rest of the protocol is our own, for the authors' is not public.

use crate::tree::Tree;
use crate::{Rank, Time};
use std::sync::Arc;

mod call;
mod machine;
mod receive;
mod settled;

pub use machine::Ftco;

/// What a process contributes.
pub trait Value: Clone {
    /// Combines this with what comes behind it in the order of the tree.
    fn merge(&mut self, behind: &Self);
}

/// How long to wait before a silent process is taken for dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// At a leaf.
    pub base: Time,
    /// More for each level above the leaves, so that a parent is not about to give up a child
    /// that has just given up one of its own.
    pub step: Time,
}

/// What all processes of a communicator know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Along which to gather and to send. An operation that may not change the order of its
    /// operands needs one that is numbered in order.
    pub tree: Arc<Tree>,
    /// When to give up a process.
    pub timeouts: Timeouts,
    /// How many verdicts to keep for processes that are behind. At most so many calls may end at
    /// one process before each other one has entered the first of them: a driver that broadcasts
    /// more often in a row puts a barrier between.
    pub kept: usize,
    /// For the test of the model checker only: what is left out.
    pub damage: Option<Damage>,
}

/// Parts of the protocol that can be left out, to see that the checker misses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// A new root decides without asking whether somebody has a verdict.
    RootDoesNotAsk,
    /// Who answers a new root takes verdicts of earlier ones all the same.
    NoPromise,
    /// Dead children are given up, but not replaced by theirs.
    NoBypass,
    /// A dead parent is asked forever.
    NoNewParent,
    /// Whom a process has given up is expected again in the next call.
    NoMemory,
}

/// The collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// The root's value to all.
    Bcast,
    /// All values to the root. The others learn what it holds.
    Reduce,
    /// All values to all; without values, a barrier.
    Allreduce,
}

/// Whether an operation has done what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It has.
    Complete,
    /// The root of a bcast or a reduce died, and no living process has a result.
    RootFailed,
    /// This process was so far behind that nobody has the verdict any more.
    Forgotten,
}

/// How an operation ended, the same at all living processes but for the value of a reduce, which
/// only the root has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Verdict<V> {
    /// The result; none after a failed root, of a barrier, and of a reduce but at its root.
    pub value: Option<V>,
    /// Whose contributions it lacks, ascending.
    pub missing: Vec<Rank>,
    /// Whether it is a result.
    pub ending: Ending,
}

/// What a process says about the values of its subtree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contribution<V> {
    /// Merged from all of the subtree but `missing`.
    pub value: Option<V>,
    /// Processes of the subtree that are not in it.
    pub missing: Vec<Rank>,
}

/// What a KEEPALIVE waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The verdict: the sender takes the receiver for its parent.
    Verdict,
    /// A contribution: the sender takes itself for the receiver's parent.
    Contribution {
        /// Because it is the root: it claims that all lower ranks are dead.
        as_root: bool,
    },
    /// Nothing but an answer: others say that the receiver is dead.
    Life,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body<V> {
    /// DATA, upward.
    Contribution(Contribution<V>),
    /// DATA, downward, or to a root that asked.
    Verdict {
        /// Who decided, or last decided to keep it.
        root: Rank,
        /// What.
        verdict: Verdict<V>,
    },
    /// Do you live? Send what I want, if you have it.
    KeepAlive(Wanted),
    /// I live, and do not have it yet.
    Ack,
}

/// A message of the call number `epoch` of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message<V> {
    /// Counts the calls, from 1.
    pub epoch: u32,
    /// What it says.
    pub body: Body<V>,
}

#[cfg(test)]
#[path = "ftco_tests.rs"]
mod tests;
