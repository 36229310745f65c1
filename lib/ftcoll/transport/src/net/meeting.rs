// SPDX-License-Identifier: Apache-2.0
//! How the processes find each other: those of higher rank dial those of lower rank, at the
//! beginning and, if all connections are gone by a restart from a checkpoint, each one again as
//! soon as it is known where the other one is.
//!
//! *Held*, around a checkpoint, a connection that breaks is nobody's loss yet, and none comes into
//! being. *Apart*, a process has no connection and nobody knows where it is.

use super::{Arrival, LISTENER, Net, Peer, Ways};
use crate::link::Link;
use crate::session::Session;
use fermata_ftcoll::Rank;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Time for a connection to show the key.
const STRANGER_LIMIT: Duration = Duration::from_secs(20);
/// Time for a connection to come about, if the process may be found elsewhere.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Connections that have not shown the key, beside those of the job, at any time.
const STRANGERS_MAX: usize = 64;

impl Net {
    /// Begins to meet the others, of whom this process is number `me`. Each may be found at one of
    /// its addresses, which are tried one after the other.
    pub fn meet(&mut self, me: Rank, addresses: &[Vec<SocketAddr>], until: Instant) {
        self.me = me;
        self.peers = vec![Peer::Awaited; addresses.len()];
        self.peers[me as usize] = Peer::Lost;
        self.sessions.resize_with(addresses.len(), Session::default);
        self.ways = addresses.iter().map(|at| Ways::to(at, until)).collect();
        for rank in 0..me {
            if !self.dial(rank) {
                self.peers[rank as usize] = Peer::Lost;
            }
        }
    }

    /// Whether nobody is awaited any more.
    pub fn is_complete(&self) -> bool {
        !self.peers.contains(&Peer::Awaited)
    }

    /// Ends the meeting: nobody can connect any more, and who has not is taken for dead.
    pub fn close_door(&mut self) {
        self.listeners.clear();
        for peer in self.peers.iter_mut().filter(|peer| **peer == Peer::Awaited) {
            *peer = Peer::Lost;
        }
        for link in &mut self.links {
            if link.as_ref().is_some_and(|link| link.peer.is_none()) {
                *link = None;
            }
        }
    }

    /// Whether connections may come into being.
    pub(super) fn is_meeting(&self) -> bool {
        !self.is_held && (self.is_parted || !self.listeners.is_empty())
    }

    /// Begins to connect to where the process may be next. False: it can be nowhere.
    pub(super) fn dial(&mut self, rank: Rank) -> bool {
        while let Some(address) = self.ways[rank as usize].untried.pop() {
            let ways = &self.ways[rank as usize];
            let limit = Instant::now() + STRANGER_LIMIT;
            // At the last place it may take all the time there is.
            let until = if ways.untried.is_empty() { ways.until } else { limit.min(ways.until) };
            let link = Link::dial(rank, address, &self.key, until);
            if link.and_then(|link| self.add(link)).is_ok() {
                return true;
            }
        }
        false
    }

    pub(super) fn accept(&mut self) {
        if self.is_held {
            return;
        }
        for at in 0..self.listeners.len() {
            while let Some(Ok((stream, _))) = self.listeners.get(at).map(TcpListener::accept) {
                let strangers = self.links.iter().flatten().filter(|link| link.peer.is_none());
                if strangers.count() < STRANGERS_MAX + self.peers.len() {
                    let link = Link::answer(stream, &self.key, Instant::now() + STRANGER_LIMIT);
                    // One that cannot be watched is closed, and its end takes this process for
                    // dead.
                    let _ = link.and_then(|link| self.add(link));
                }
            }
        }
    }

    pub(super) fn dismiss_strangers(&mut self, arrivals: &mut Vec<Arrival>) {
        let now = Instant::now();
        for at in 0..self.links.len() {
            let is_over = |link: &Link| {
                let may_be_elsewhere =
                    link.dialed.is_some_and(|rank| !self.ways[rank as usize].untried.is_empty());
                let is_late = may_be_elsewhere && link.is_connecting();
                let unused = if is_late { STRANGER_LIMIT - CONNECT_LIMIT } else { Duration::ZERO };
                link.peer.is_none() && link.until <= now + unused
            };
            if self.links[at].as_ref().is_some_and(is_over) {
                self.drop_link(at, arrivals);
            }
        }
    }

    /// From now on a connection that breaks is nobody's loss, and none comes into being.
    pub fn hold(&mut self) {
        self.is_held = self.keeps;
        self.listen_for(EventFlags::empty());
    }

    /// All is as it was before: what has broken meanwhile has.
    pub fn release(&mut self, arrivals: &mut Vec<Arrival>) {
        self.is_held = false;
        self.listen_for(EventFlags::IN);
        for rank in 0..self.peers.len() {
            if self.peers[rank] == Peer::Broken {
                // Numbers of processes are ranks.
                let rank = Rank::try_from(rank).unwrap_or(Rank::MAX);
                self.lose(rank, arrivals);
            }
        }
    }

    fn listen_for(&self, flags: EventFlags) {
        for listener in &self.listeners {
            // It fails only for a descriptor that is not watched, and each is.
            let _ = epoll::modify(&*self.epoll, listener, EventData::new_u64(LISTENER), flags);
        }
    }

    /// No connection is there any more; nobody knows where those are who are not lost.
    pub fn part(&mut self) {
        self.links.clear();
        self.watched.clear();
        self.listeners.clear();
        for peer in self.peers.iter_mut().filter(|peer| **peer != Peer::Lost) {
            *peer = Peer::Apart;
        }
        self.is_held = false;
        self.is_parted = true;
    }

    /// Begins to connect again to a process of lower rank, at one of these addresses.
    pub fn meet_again(
        &mut self,
        rank: Rank,
        addresses: &[SocketAddr],
        until: Instant,
        arrivals: &mut Vec<Arrival>,
    ) {
        if rank >= self.me || self.peers[rank as usize] != Peer::Apart {
            return;
        }
        self.peers[rank as usize] = Peer::Awaited;
        self.ways[rank as usize] = Ways::to(addresses, until);
        if !self.dial(rank) {
            self.lose(rank, arrivals);
        }
    }

    /// Asks all that are connected whether they have what was sent to them.
    pub fn ask(&mut self) {
        for rank in 0..self.peers.len() {
            let Peer::Linked(at) = self.peers[rank] else { continue };
            if !self.is_told_of(at) {
                continue;
            }
            let Some(question) = self.sessions[rank].ask() else { continue };
            if let Some(link) = &mut self.links[at] {
                link.send(&question);
            }
            self.watch(at);
        }
    }

    /// Whether somebody who is connected has not said of all that was sent to it that it came.
    pub fn is_owing(&self) -> bool {
        let owed = |(peer, session): (&Peer, &Session)| match *peer {
            Peer::Linked(at) => session.is_owing() && self.is_told_of(at),
            _ => false,
        };
        self.peers.iter().zip(&self.sessions).any(owed)
    }

    /// Whether it matters what the other end of a link has got: it may be made again, or its socket
    /// ends before what was said beside it has come.
    pub(super) fn is_told_of(&self, at: usize) -> bool {
        self.keeps || self.links[at].as_ref().is_some_and(Link::speaks_by_end)
    }

    /// Whether this process may never have what was sent to it unless it finds this one again.
    pub fn owes(&self, rank: Rank) -> bool {
        let session = self.sessions.get(rank as usize);
        self.is_unsettled_with(rank) && session.is_some_and(Session::is_owing)
    }

    /// Whether this process has no connection, and nobody has said where it is.
    pub fn is_apart(&self, rank: Rank) -> bool {
        self.peers.get(rank as usize) == Some(&Peer::Apart)
    }

    /// Whether connections stand still for a checkpoint.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether somebody's silence means nothing now.
    pub fn is_unsettled(&self) -> bool {
        self.is_held || self.is_parted
    }

    /// Whether the silence of this process does.
    pub fn is_unsettled_with(&self, rank: Rank) -> bool {
        self.is_held || self.peers.get(rank as usize).is_some_and(Peer::has_no_link)
    }

    /// The descriptors of all sockets.
    pub fn sockets(&self) -> Vec<RawFd> {
        let links = self.links.iter().flatten().map(|link| link.stream().as_raw_fd());
        links.chain(self.listeners.iter().map(AsRawFd::as_raw_fd)).collect()
    }
}

impl Ways {
    fn to(addresses: &[SocketAddr], until: Instant) -> Self {
        Self { untried: addresses.iter().rev().copied().collect(), until }
    }
}
