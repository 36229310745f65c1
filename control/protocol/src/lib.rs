// SPDX-License-Identifier: Apache-2.0
//! The safe-state protocol: how the ranks of a running MPI job come to a point where all of them
//! may be saved, without a cost while nobody asks for it.
//!
//! A cut is safe if no rank is inside a collective call, no collective call has been begun by some
//! members and not by others, and every message under way has been counted by its sender. The way
//! there is a topological sort of the calls that must still happen:
//!
//! - *Collective clock.* Each rank counts the collective calls it has begun, by group. The greatest
//!   count of any member is the group's *target*; a rank behind a target owes calls and runs on. A
//!   rank that must pass another collective call on its way raises that call's target.
//!   Source: Xu and Cooperman 2024, section 4.2 (condition A', algorithms 1 to 3).
//! - *Wait-for graph.* A rank that must run on and waits in a point-to-point call says whose step
//!   it waits for (WAITS on the wire); those are obliged to run on, too, until it has been made.
//!   Ours; without it the published rule can wait for ever
//!   (`docs/decisions/0038-needs-for-point-to-point.md`).
//!
//! Both halves are pure: no I/O, no clock, no threads. The coordinator runs its half; the ranks
//! have theirs in C++ (`runtime/mpi/safepoint`), which a table of situations holds to this one
//! (`docs/evidence/protocol.md`). The rank's half neither allocates nor panics on what others send.
//! `fermata-model` checks the two together, over all small programs; `docs/evidence/protocol.md`
//! has the bounds and the counts.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod coordinator;
mod rank;
mod words;

pub use coordinator::{Coordinator, Output};
pub use rank::{CollectiveEntry, MessageCounts, RankMachine, Tell};
pub use words::{
    Clock, Directive, GroupId, Origin, Position, RankId, Report, Version, WaitEdge, WaitKind,
};
