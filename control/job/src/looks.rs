// SPDX-License-Identifier: Apache-2.0
//! What may be asked of the machine: who is there, how far it is, how the job has ended. Nothing of
//! it changes anything.

use super::Machine;
use crate::interface::RankView;
use fermata_protocol::RankId;
use std::collections::BTreeSet;

impl Machine {
    /// Agents connected now.
    #[must_use]
    pub fn agent_count(&self) -> usize {
        self.registry.agents().len()
    }

    /// Whether the job was ended by a checkpoint with `stop`.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.stopped
    }

    /// Newest committed epoch.
    #[must_use]
    pub fn committed_epoch(&self) -> u32 {
        self.committed
    }

    /// From the request to the commit of the newest checkpoint of this run; `None`: there was none.
    #[must_use]
    pub fn newest_cost_ms(&self) -> Option<u64> {
        self.newest_cost_ms
    }

    /// Whether ranks have been told to write their images, and not all have.
    #[must_use]
    pub fn is_writing_images(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.attempt.is_writing())
    }

    /// Whether a rank's line is still there that has not said how the rank ends.
    #[must_use]
    pub fn has_undecided_ranks(&self) -> bool {
        self.registry.has_undecided()
    }

    /// How many hosts have ranks, if all ranks are there and none has come to its end; else 0.
    #[must_use]
    pub fn hosts_of_all(&self) -> usize {
        self.registry.hosts_of_all()
    }

    /// Whether all ranks are there, and none has come to its end.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.registry.is_whole()
    }

    /// Whether any rank has come up.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.registry.size().is_some()
    }

    /// Why a job that is over has not ended well; `None`: all ranks that were there have come to
    /// MPI_Finalize. `known`: those of which that is known from elsewhere.
    #[must_use]
    pub fn shortfall(&self, known: &BTreeSet<RankId>) -> Option<String> {
        self.registry.shortfall(known).map(|shortfall| self.scene().shortfall(&shortfall))
    }

    /// Whether a rank has left the job without `MPI_Finalize`, and has not come back.
    #[must_use]
    pub fn has_lost_rank(&self) -> bool {
        self.registry.first_to_leave().is_some()
    }

    /// The rank that was the first to leave the job without MPI_Finalize, and its host. `known`: as
    /// for `shortfall`.
    #[must_use]
    pub fn first_to_leave(&self, known: &BTreeSet<RankId>) -> Option<(RankId, String)> {
        let rank = self.registry.first_to_leave().filter(|rank| !known.contains(rank))?;
        Some((rank, self.registry.hosts().get(&rank).cloned().unwrap_or_default()))
    }

    /// The code of the first MPI_Abort that came after a rank had left the job so: what has ended
    /// the job is then that rank's end.
    #[must_use]
    pub fn abort_after_loss(&self) -> Option<i32> {
        self.registry.abort_after_loss()
    }

    /// All agents, for people.
    #[must_use]
    pub fn rank_views(&self) -> Vec<RankView> {
        self.registry.views()
    }
}
