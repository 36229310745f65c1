// SPDX-License-Identifier: Apache-2.0
//! How ranks leave, and whether the job has ended well: when all of them have come to MPI_Finalize.
//! A line that ends says little: the rank may have been killed, or its host lost, or only the
//! daemon between that passed its words on.

use crate::checkpoint::Caller;
use crate::machine::{Conn, Machine, RankState};
use crate::names::list_ranks;
use crate::texts::HINT_ENDING;
use std::collections::BTreeSet;

/// A host that was lost with ranks.
#[derive(Debug)]
pub(crate) struct Loss {
    text: String,
    ranks: BTreeSet<u32>,
}

impl Machine {
    pub(crate) fn on_finalizing(&mut self, conn: Conn, now_ms: u64) {
        let Some(agent) = self.agents.get_mut(&conn) else {
            return;
        };
        agent.state = RankState::Finalizing;
        if let Some(rank) = agent.rank {
            self.ended.insert(rank);
            self.rank_finalizes(rank, now_ms);
        }
    }

    pub(crate) fn on_host_lost(
        &mut self,
        host: &str,
        why: &str,
        is_silent: bool,
        conns: &[Conn],
        now_ms: u64,
    ) {
        let ranks: BTreeSet<u32> =
            conns.iter().filter_map(|conn| self.agents.get(conn)?.rank).collect();
        let text = if ranks.is_empty() {
            format!("host {host} is lost ({why})")
        } else {
            format!("host {host} is lost with {} ({why})", list_ranks(&ranks))
        };
        self.log(text.clone());
        self.gone.extend(&ranks);
        self.fail(&text, &self.hint_for_lost_host(is_silent), now_ms);
        self.losses.push(Loss { text, ranks });
        for conn in conns {
            self.on_closed(*conn, now_ms);
        }
    }

    pub(crate) fn on_closed(&mut self, conn: Conn, now_ms: u64) {
        if self.clients.remove(&conn) {
            // The checkpoint continues without its audience: what is half done helps nobody.
            if let Some(run) = &mut self.run {
                if run.caller == Caller::Client(conn) {
                    run.caller = Caller::Nobody;
                }
            }
        }
        let Some(rank) = self.agents.remove(&conn).and_then(|agent| agent.rank) else {
            return;
        };
        if self.ranks.get(&rank) == Some(&conn) {
            self.ranks.remove(&rank);
            self.forget_ask(rank);
            self.gone.insert(rank);
            self.rank_left(rank, now_ms);
        }
    }

    fn rank_left(&mut self, rank: u32, now: u64) {
        let who = self.name_rank(rank);
        if self.ended.contains(&rank) {
            self.fail(&format!("{who} has come to its end"), HINT_ENDING, now);
        } else {
            self.fail(&format!("{who} has left the job"), &self.hint_for_lost_rank(), now);
        }
    }

    pub(crate) fn rank_finalizes(&mut self, rank: u32, now: u64) {
        if self.needs_ranks() {
            let who = self.name_rank(rank);
            self.fail(&format!("{who} has entered MPI_Finalize"), HINT_ENDING, now);
        }
    }

    /// Why no checkpoint can be taken of a job that ranks have left, and what to do about it.
    pub(crate) fn refusal_after_ends(&self) -> (String, String) {
        let lost: BTreeSet<u32> = self.gone.difference(&self.ended).copied().collect();
        if lost.is_empty() {
            let why = format!("{} come to the end", self.name_ranks(&self.gone));
            (why, HINT_ENDING.into())
        } else {
            (format!("{} left the job", self.name_ranks(&lost)), self.hint_for_lost_rank())
        }
    }

    /// Whether a rank's line is still there that has not said how the rank ends.
    #[must_use]
    pub fn has_undecided_ranks(&self) -> bool {
        self.ranks.keys().any(|rank| !self.ended.contains(rank))
    }

    /// Whether any rank has come up.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.size.is_some()
    }

    /// Why a job that is over has not ended well; `None`: all ranks that were there have come to
    /// MPI_Finalize. `known`: those of which that is known from elsewhere.
    #[must_use]
    pub fn shortfall(&self, known: &BTreeSet<u32>) -> Option<String> {
        let there = self.ranks.keys().chain(&self.gone).copied();
        let lost: BTreeSet<u32> =
            there.filter(|rank| !self.ended.contains(rank) && !known.contains(rank)).collect();
        if lost.is_empty() {
            return None;
        }
        // Of a lost host the others' mpirun ends the rest.
        let loss = self.losses.iter().find(|loss| !loss.ranks.is_disjoint(&lost));
        let without = || format!("{} ended without MPI_Finalize", self.name_ranks(&lost));
        Some(loss.map_or_else(without, |loss| loss.text.clone()))
    }
}
