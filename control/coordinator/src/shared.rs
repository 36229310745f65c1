// SPDX-License-Identifier: Apache-2.0
//! What the coordinator's thread and whoever holds its handle say to each other.

use crate::losses::Losses;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize};

#[derive(Default)]
pub(crate) struct Shared {
    /// The coordinator is to end.
    pub stop: AtomicBool,
    /// Whatever is under way.
    pub stop_at_once: AtomicBool,
    pub stopped_by_checkpoint: AtomicBool,
    /// A rank has left without `MPI_Finalize`, and has not come back.
    pub has_lost_rank: AtomicBool,
    /// A rank is there that has not come to `MPI_Finalize`.
    pub has_undecided_ranks: AtomicBool,
    /// How many hosts have ranks while all ranks are there and none has come to its end; else 0.
    pub hosts_of_all: AtomicUsize,
    /// All ranks are to end.
    pub ends_ranks: AtomicBool,
    pub losses: Losses,
    pub committed: Mutex<Committed>,
    pub ends: Mutex<Ends>,
    /// Signals that have come to ranks, and that nobody has asked for yet.
    pub signals: Mutex<BTreeSet<u32>>,
}

/// The newest committed checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// Its number, 0 if there is none.
    pub epoch: u32,
    /// From the request to the commit, in milliseconds; `None`: it is not of this run.
    pub cost_ms: Option<u64>,
}

/// How the ranks of a job have ended.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// A rank has come up.
    pub have_begun: bool,
    /// Why not all that were there have come to MPI_Finalize; `None`: they have.
    pub shortfall: Option<String>,
    /// Some rank has left word that it has ended well.
    pub some_ended: bool,
    /// The first rank that left without it, and its host.
    pub first_to_leave: Option<(u32, String)>,
    /// With which code another has aborted the job after that.
    pub abort_after_loss: Option<i32>,
}
