// SPDX-License-Identifier: Apache-2.0
//! Who is there: connections, ranks and their hosts; and who has left, and how. A job has ended
//! well when all ranks have come to MPI_Finalize. A line that ends says little: the rank may have
//! been killed, or its host lost, or only the daemon between that passed its words on.
//!
//! Invariant: a rank has one connection, and the ranks that are there count as neither gone nor
//!            ended by an earlier program of the job.

use crate::interface::{Conn, RankView};
use crate::reasons::{Loss, Ranks, Refusal, Shortfall, Stranger};
use fermata_protocol::RankId;
use fermata_types::Hello;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RankState {
    Starting,
    Running,
    Finalizing,
}

#[derive(Debug)]
struct Agent {
    rank: Option<RankId>,
    state: RankState,
    hello: Hello,
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It has not said so yet.
    Unknown,
    Agent,
    Client,
}

/// Who is there.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    agents: BTreeMap<Conn, Agent>,
    clients: BTreeSet<Conn>,
    /// World rank -> connection.
    ranks: BTreeMap<RankId, Conn>,
    /// World rank -> host, also of ranks that have gone.
    hosts: BTreeMap<RankId, String>,
    size: Option<u32>,
    /// Ranks that were there and have no line any more.
    gone: Ranks,
    /// The first of them that had not come to MPI_Finalize.
    first_to_leave: Option<RankId>,
    /// With which code the first MPI_Abort after that has ended the job.
    abort_after_loss: Option<i32>,
    /// Ranks that have come to MPI_Finalize, also of those that have gone.
    ended: Ranks,
    /// Hosts that were lost with ranks.
    losses: Vec<Loss>,
}

/// Who comes and goes.
impl Registry {
    pub(crate) fn add_client(&mut self, conn: Conn) {
        self.clients.insert(conn);
    }

    pub(crate) fn add_agent(&mut self, conn: Conn, hello: Hello) {
        let agent = Agent { rank: None, state: RankState::Starting, hello };
        self.agents.insert(conn, agent);
    }

    /// An agent's rank is ready. Returns whether with it all of them are.
    pub(crate) fn on_ready(
        &mut self,
        conn: Conn,
        rank: RankId,
        size: u32,
    ) -> Result<bool, Stranger> {
        if rank >= size || self.size.is_some_and(|known| known != size) {
            return Err(Stranger::NoSuchRank { rank, size });
        }
        if self.ranks.get(&rank).is_some_and(|other| *other != conn) {
            return Err(Stranger::SecondRank(rank));
        }
        self.size = Some(size);
        let is_new = self.ranks.insert(rank, conn).is_none();
        self.gone.remove(&rank);
        self.ended.remove(&rank);
        if self.first_to_leave == Some(rank) {
            self.first_to_leave = None;
            self.abort_after_loss = None;
        }
        if let Some(agent) = self.agents.get_mut(&conn) {
            agent.rank = Some(rank);
            agent.state = RankState::Running;
            self.hosts.insert(rank, agent.hello.host.clone());
        }
        Ok(is_new && self.ranks.len() == size as usize)
    }

    /// An agent's process has entered MPI_Finalize. Returns its rank.
    pub(crate) fn on_finalizing(&mut self, conn: Conn) -> Option<RankId> {
        let agent = self.agents.get_mut(&conn)?;
        agent.state = RankState::Finalizing;
        self.ended.extend(agent.rank);
        agent.rank
    }

    /// An agent's process has entered MPI_Abort.
    pub(crate) fn on_aborting(&mut self, code: i32) {
        if self.first_to_leave.is_some() {
            self.abort_after_loss.get_or_insert(code);
        }
    }

    /// A connection has ended. Returns whether it was a command's.
    pub(crate) fn remove_client(&mut self, conn: Conn) -> bool {
        self.clients.remove(&conn)
    }

    /// A connection has ended. Returns the rank that has left with it.
    pub(crate) fn remove_agent(&mut self, conn: Conn) -> Option<RankId> {
        let rank = self.agents.remove(&conn)?.rank?;
        if self.ranks.get(&rank) != Some(&conn) {
            return None;
        }
        self.ranks.remove(&rank);
        self.gone.insert(rank);
        if !self.ended.contains(&rank) {
            self.first_to_leave.get_or_insert(rank);
        }
        Some(rank)
    }

    /// A host is lost with the ranks of these connections, which end now.
    pub(crate) fn lose_host(&mut self, host: String, why: String, conns: &[Conn]) -> Loss {
        let ranks: Ranks = conns.iter().filter_map(|conn| self.rank_of(*conn)).collect();
        self.gone.extend(&ranks);
        let loss = Loss { host, why, ranks };
        self.losses.push(loss.clone());
        loss
    }
}

/// Who is there, and where.
impl Registry {
    pub(crate) fn peer(&self, conn: Conn) -> Peer {
        if self.agents.contains_key(&conn) {
            Peer::Agent
        } else if self.clients.contains(&conn) {
            Peer::Client
        } else {
            Peer::Unknown
        }
    }

    /// The connections of all agents.
    pub(crate) fn agents(&self) -> impl ExactSizeIterator<Item = Conn> + '_ {
        self.agents.keys().copied()
    }

    /// Of an agent.
    pub(crate) fn rank_of(&self, conn: Conn) -> Option<RankId> {
        self.agents.get(&conn)?.rank
    }

    /// Of an agent.
    pub(crate) fn host_of(&self, conn: Conn) -> &str {
        self.agents.get(&conn).map_or("", |agent| &agent.hello.host)
    }

    /// An agent has not said which rank it is.
    pub(crate) fn is_anyone_starting(&self) -> bool {
        self.agents.values().any(|agent| agent.rank.is_none())
    }

    /// Name of the MPI below, as the agents told.
    pub(crate) fn lower(&self) -> String {
        self.agents.values().next().map(|agent| agent.hello.lower.clone()).unwrap_or_default()
    }

    /// The connection of a rank.
    pub(crate) fn conn_of(&self, rank: RankId) -> Option<Conn> {
        self.ranks.get(&rank).copied()
    }

    /// World rank -> connection.
    pub(crate) fn ranks(&self) -> &BTreeMap<RankId, Conn> {
        &self.ranks
    }

    /// World rank -> host.
    pub(crate) fn hosts(&self) -> &BTreeMap<RankId, String> {
        &self.hosts
    }

    /// World size, once known.
    pub(crate) fn size(&self) -> Option<u32> {
        self.size
    }

    pub(crate) fn views(&self) -> Vec<RankView> {
        let view = |agent: &Agent| RankView {
            rank: agent.rank,
            pid: agent.hello.pid,
            host: agent.hello.host.clone(),
            state: match agent.state {
                RankState::Starting => "starting",
                RankState::Running => "running",
                RankState::Finalizing => "finalizing",
            },
        };
        self.agents.values().map(view).collect()
    }
}

/// How ranks have left.
impl Registry {
    /// Whether ranks have left, one way or the other.
    pub(crate) fn is_anyone_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// The first rank that has left without having come to MPI_Finalize, and has not come back.
    pub(crate) fn first_to_leave(&self) -> Option<RankId> {
        self.first_to_leave
    }

    /// The code of the first MPI_Abort that came after a rank had left so.
    pub(crate) fn abort_after_loss(&self) -> Option<i32> {
        self.abort_after_loss
    }

    /// Whether a rank has come to MPI_Finalize.
    pub(crate) fn has_ended(&self, rank: RankId) -> bool {
        self.ended.contains(&rank)
    }

    /// Whether a rank's line is still there that has not said how the rank ends.
    pub(crate) fn has_undecided(&self) -> bool {
        self.ranks.keys().any(|rank| !self.ended.contains(rank))
    }

    /// Whether all ranks are there, and none has come to its end.
    pub(crate) fn is_whole(&self) -> bool {
        let is_there = |size| self.ranks.len() == size as usize;
        self.size.is_some_and(is_there) && self.gone.is_empty() && self.ended.is_empty()
    }

    /// How many hosts have ranks while that is so; else 0.
    pub(crate) fn hosts_of_all(&self) -> usize {
        let hosts: BTreeSet<&String> = self.hosts.values().collect();
        if self.is_whole() { hosts.len() } else { 0 }
    }

    /// Why no checkpoint can be taken of these ranks, if so.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        let Some(size) = self.size else { return Some(Refusal::NoRank) };
        if !self.gone.is_empty() {
            let lost: Ranks = self.gone.difference(&self.ended).copied().collect();
            let have_all_ended = lost.is_empty();
            return Some(if have_all_ended {
                Refusal::Ended(self.gone.clone())
            } else {
                Refusal::Lost(lost)
            });
        }
        let missing: Ranks = (0..size).filter(|rank| !self.ranks.contains_key(rank)).collect();
        if !missing.is_empty() {
            return Some(Refusal::Missing(missing));
        }
        let ending = self.agents.values().filter(|agent| agent.state == RankState::Finalizing);
        let ending: Ranks = ending.filter_map(|agent| agent.rank).collect();
        (!ending.is_empty()).then_some(Refusal::Finalizing(ending))
    }

    /// Why a job that is over has not ended well; `None`: all ranks that were there have come to
    /// MPI_Finalize. `known`: those of which that is known from elsewhere.
    pub(crate) fn shortfall(&self, known: &Ranks) -> Option<Shortfall> {
        let there = self.ranks.keys().chain(&self.gone).copied();
        let lost: Ranks =
            there.filter(|rank| !self.ended.contains(rank) && !known.contains(rank)).collect();
        if lost.is_empty() {
            return None;
        }
        let loss = self.losses.iter().find(|loss| !loss.ranks.is_disjoint(&lost));
        Some(
            loss.map_or_else(|| Shortfall::Ranks(lost.clone()), |l| Shortfall::HostLost(l.clone())),
        )
    }
}
