// SPDX-License-Identifier: Apache-2.0
//! The words that ranks and coordinator exchange.
//!
//! Each rank has one line to the coordinator and back, which keeps order; the lines are independent
//! of each other and may be slow. Nothing is sent from rank to rank.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// A world rank.
pub type RankId = u32;

/// Names a group of ranks, or a communicator: whatever has a clock. All members use the same id.
pub type GroupId = u64;

/// Numbers the directives to one rank, from 1; 0 stands for no directive yet.
///
/// Only comparisons within one rank matter. So states that differ in nothing but how many
/// directives there have been behave alike, and have the same hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 == 0).hash(state);
    }
}

/// How many collective calls a rank has begun in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Clock {
    /// The group.
    pub group: GroupId,
    /// Calls begun. Non-blocking ones count when they are initiated (Xu and Cooperman, 4.3.1).
    pub seq: u64,
}

/// What a waiting rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitKind {
    /// A message: the peer runs on until it has sent `count` messages to the waiting rank.
    Message,
    /// The peer's matching receive, in a synchronous send: the peer runs on until it has matched
    /// `count` messages of the waiting rank.
    Receipt,
    /// Room, in a standard send that the MPI has not finished: the peer, once it is parked, takes
    /// in the first `count` messages of the waiting rank. It need not run on.
    Room,
}

/// An edge of the wait-for graph: a rank cannot continue before a peer has done something. In a
/// report `peer` is the rank that is waited for, in a directive, where the edge is an obligation,
/// the one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitEdge {
    /// The other rank.
    pub peer: RankId,
    /// What is waited for.
    pub kind: WaitKind,
    /// How far the peer has to come, counted since the start of the job.
    pub count: u64,
}

/// Where a thread is in its program, as far as the protocol is concerned. A rank is where all its
/// threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position<'a> {
    /// Outside MPI, or between two calls.
    Computing,
    /// At the entry of a collective call that has not been counted.
    CollectiveEntry,
    /// Inside a blocking collective call. Its other members come because of their targets.
    Collective,
    /// Waits for the end of a non-blocking collective call, in a loop that can be left.
    Completing,
    /// Waits for a message of one of these, in a loop that can be left.
    Receiving(&'a [RankId]),
    /// In a standard send to this rank, inside the MPI library, which waits for room.
    Sending(RankId),
    /// In a synchronous send to this rank.
    Synchronous(RankId),
    /// At the entry of MPI_Finalize: this rank will send and receive no more.
    Ending,
}

impl Position<'_> {
    /// True where a rank can be saved. A synchronous send that has been begun is like a collective
    /// call of two members: the cut may not lie between their parts.
    #[must_use]
    pub fn is_parkable(&self) -> bool {
        *self != Self::Collective && !self.is_sending()
    }

    /// True in a send that has been begun.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        matches!(self, Self::Sending(_) | Self::Synchronous(_))
    }
}

/// Why a rank that waits for others does not stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It owes a collective call, or stands in a send.
    Root,
    /// Nothing but its obligations to others. Ranks with several threads may wait for each other
    /// for ever, so such edges count only as long as one of those others is waited for, too, by a
    /// chain that begins at a root.
    Derived,
}

/// What the coordinator wants of one rank, all of it: a later one replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Directive {
    /// Grows with each directive to this rank.
    pub version: Version,
    /// Targets of the rank's groups.
    pub targets: Vec<Clock>,
    /// What others wait for this rank to do.
    pub obligations: Vec<WaitEdge>,
}

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// The clocks as they stood when the request had become visible to the rank's wrappers.
    Clocks(Vec<Clock>),
    /// A collective call beyond its target is about to begin.
    Raise(Clock),
    /// Cannot continue without these. Replaces what this rank has waited for before.
    Waits(Origin, Vec<WaitEdge>),
    /// Continues, waits for nothing any more.
    Runs,
    /// Stands still under the directive of this version, and stays so until it gets another one.
    /// The clocks are those of now: calls may have been begun before the first directive came.
    Parked(Version, Vec<Clock>),
    /// Is inside MPI_Finalize and cannot be saved.
    Ending,
    /// Has been cut in the safe state, and stands still until all have been.
    Cut,
}
