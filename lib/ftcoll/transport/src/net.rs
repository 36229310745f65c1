// SPDX-License-Identifier: Apache-2.0
//! All connections of a process: at the beginning each process dials those of lower rank and is
//! dialed by those of higher rank, and then the listening socket is closed for good.
//!
//! Invariants: nothing of a connection is looked at before its other end has shown the key; a
//! stranger is sent away after some seconds; nothing here blocks.
//!
//! If connections may be made again, for a restart from a checkpoint, what was sent is kept until
//! the other end has it (`session.rs`). *Held*, a connection that breaks is nobody's loss yet;
//! *apart*, none are there, and who is not lost is awaited; then the processes *meet* again.

use crate::key::Key;
use crate::link::{Greeting, Link};
use crate::session::{self, Session};
use fermata_ftcoll::Rank;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time for a connection to show the key.
const STRANGER_LIMIT: Duration = Duration::from_secs(20);
/// Time for a connection to come about, if the process may be found elsewhere.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Connections that have not shown the key, beside those of the job, at any time.
const STRANGERS_MAX: usize = 64;
const SCRATCH_BYTES: usize = 64 << 10;
const LISTENER: u64 = u64::MAX;
/// Of a descriptor that only wakes whoever waits.
const BELL: u64 = u64::MAX - 1;

/// What has happened.
pub(crate) enum Arrival {
    /// A frame's body has come from this process.
    Body(Rank, Vec<u8>),
    /// Nothing will come from this process any more.
    Lost(Rank),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    Awaited,
    Linked(usize),
    /// Its connection has broken while all were held.
    Broken,
    Lost,
}

/// Where the others are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contact {
    /// At the other ends of the connections.
    Known,
    /// Nobody has said so since the connections are gone.
    Apart,
    /// They are dialed, or dial.
    Meeting,
}

/// The connections.
pub(crate) struct Net {
    me: Rank,
    key: Key,
    epoll: Arc<OwnedFd>,
    listener: Option<TcpListener>,
    links: Vec<Option<Link>>,
    /// Of each link, whether the system tells when it can be written to.
    watched: Vec<bool>,
    peers: Vec<Peer>,
    /// Of each process, where it has not been looked for yet; the last one is next.
    untried: Vec<Vec<SocketAddr>>,
    until: Instant,
    /// Connections may be made again: what is sent is kept.
    keeps: bool,
    /// A connection that breaks is nobody's loss yet.
    is_held: bool,
    contact: Contact,
    sessions: Vec<Session>,
    scratch: Vec<u8>,
    bodies: Vec<Vec<u8>>,
}

impl Net {
    /// Listens at `address`; port 0: one of the system's choice. `keeps`: connections may be made
    /// again.
    pub fn listen(key: Key, address: SocketAddr, keeps: bool) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut net = Self {
            me: 0,
            key,
            epoll: Arc::new(epoll),
            listener: None,
            links: Vec::new(),
            watched: Vec::new(),
            peers: Vec::new(),
            untried: Vec::new(),
            until: Instant::now(),
            keeps,
            is_held: false,
            contact: Contact::Known,
            sessions: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            bodies: Vec::new(),
        };
        net.open_door(address)?;
        Ok(net)
    }

    /// Listens, once more.
    pub fn open_door(&mut self, address: SocketAddr) -> io::Result<()> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        epoll::add(&*self.epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    /// What to wait at for something to happen.
    pub fn epoll(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    /// Wakes whoever waits when `bell` can be read.
    pub fn hang(&self, bell: impl AsFd) -> io::Result<()> {
        Ok(epoll::add(&*self.epoll, bell, EventData::new_u64(BELL), EventFlags::IN)?)
    }

    /// Begins to meet the others, of whom this process is number `me`. Each may be found at one of
    /// its addresses, which are tried one after the other.
    pub fn meet(&mut self, me: Rank, addresses: &[Vec<SocketAddr>], until: Instant) {
        self.me = me;
        self.until = until;
        self.peers = vec![Peer::Awaited; addresses.len()];
        self.peers[me as usize] = Peer::Lost;
        self.sessions.resize_with(addresses.len(), Session::default);
        self.look_for(addresses);
    }

    /// Begins to connect to those of lower rank that are awaited.
    fn look_for(&mut self, addresses: &[Vec<SocketAddr>]) {
        self.untried = addresses.iter().map(|at| at.iter().rev().copied().collect()).collect();
        for rank in 0..self.me {
            if self.peers[rank as usize] == Peer::Awaited && !self.dial(rank) {
                self.peers[rank as usize] = Peer::Lost;
            }
        }
    }

    /// Begins to connect to where the process may be next. False: it can be nowhere.
    fn dial(&mut self, rank: Rank) -> bool {
        while let Some(address) = self.untried[rank as usize].pop() {
            let limit = Instant::now() + STRANGER_LIMIT;
            let until = if self.untried[rank as usize].is_empty() { self.until } else { limit };
            let link = Link::dial(rank, address, &self.key, until);
            if link.and_then(|link| self.add(link)).is_ok() {
                return true;
            }
        }
        false
    }

    /// Whether nobody is awaited any more.
    pub fn is_complete(&self) -> bool {
        !self.peers.contains(&Peer::Awaited)
    }

    /// Ends the meeting: nobody can connect any more, and who has not is taken for dead.
    pub fn close_door(&mut self) {
        self.listener = None;
        for peer in self.peers.iter_mut().filter(|peer| **peer == Peer::Awaited) {
            *peer = Peer::Lost;
        }
        for link in &mut self.links {
            if link.as_ref().is_some_and(|link| link.peer.is_none()) {
                *link = None;
            }
        }
    }

    /// Ends all connections.
    pub fn close(&mut self) {
        self.links.clear();
        self.peers.fill(Peer::Lost);
    }

    /// Who cannot be reached.
    pub fn lost(&self) -> impl Iterator<Item = Rank> + '_ {
        let lost = (0..).zip(&self.peers).filter(|(_, peer)| **peer == Peer::Lost);
        lost.map(|(rank, _)| rank).filter(|&rank| rank != self.me)
    }

    /// Sends a frame to a process, or loses it if it is dead.
    pub fn send(&mut self, to: Rank, frame: &[u8]) {
        let Some(&peer) = self.peers.get(to as usize) else { return };
        if self.keeps && peer != Peer::Lost {
            self.sessions[to as usize].keep(frame);
        }
        if let Peer::Linked(at) = peer {
            if let Some(link) = &mut self.links[at] {
                link.send(frame);
            }
            self.watch(at);
        }
    }

    /// Ends the connection with a process that breaks the rules.
    pub fn dismiss(&mut self, rank: Rank, arrivals: &mut Vec<Arrival>) {
        if let Some(&Peer::Linked(at)) = self.peers.get(rank as usize) {
            self.drop_link(at, arrivals);
        }
    }

    /// Whether something waits to be sent.
    pub fn is_sending(&self) -> bool {
        self.links.iter().flatten().any(Link::wants_to_write)
    }

    /// Does what can be done without waiting.
    pub fn turn(&mut self, arrivals: &mut Vec<Arrival>) -> io::Result<()> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let count = match epoll::wait(&*self.epoll, &mut events[..], Some(&NO_TIME)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            match event.data.u64() {
                LISTENER => self.accept(),
                BELL => {}
                token => self.serve(usize::try_from(token).unwrap_or(usize::MAX), arrivals),
            }
        }
        if self.listener.is_some() {
            self.dismiss_strangers(arrivals);
        }
        let is_over = || self.is_complete() || Instant::now() >= self.until;
        if self.contact == Contact::Meeting && is_over() {
            self.contact = Contact::Known;
            let missing = (0..).zip(&self.peers).filter(|(_, peer)| **peer == Peer::Awaited);
            arrivals.extend(missing.map(|(rank, _)| Arrival::Lost(rank)));
            self.close_door();
        }
        Ok(())
    }

    /// From now on a connection that breaks is nobody's loss.
    pub fn hold(&mut self) {
        self.is_held = self.keeps;
    }

    /// All is as it was before: what has broken meanwhile has.
    pub fn release(&mut self, arrivals: &mut Vec<Arrival>) {
        self.is_held = false;
        for (rank, peer) in (0..).zip(&mut self.peers) {
            if *peer == Peer::Broken {
                *peer = Peer::Lost;
                arrivals.push(Arrival::Lost(rank));
            }
        }
    }

    /// No connection is there any more; who was not lost is awaited.
    pub fn part(&mut self) {
        self.links.clear();
        self.watched.clear();
        self.listener = None;
        for peer in self.peers.iter_mut().filter(|peer| **peer != Peer::Lost) {
            *peer = Peer::Awaited;
        }
        self.is_held = false;
        self.contact = Contact::Apart;
    }

    /// Begins to meet those again who are awaited, where they are now.
    pub fn meet_again(&mut self, addresses: &[Vec<SocketAddr>], until: Instant) {
        self.until = until;
        self.contact = Contact::Meeting;
        self.look_for(addresses);
    }

    /// Whether connections are gone and nobody has said yet where the others are.
    pub fn is_apart(&self) -> bool {
        self.contact == Contact::Apart
    }

    /// Whether silence means nothing now.
    pub fn is_unsettled(&self) -> bool {
        self.is_held || self.contact != Contact::Known
    }

    /// The descriptors of all sockets.
    pub fn sockets(&self) -> Vec<RawFd> {
        let links = self.links.iter().flatten().map(|link| link.stream().as_raw_fd());
        links.chain(self.listener.as_ref().map(AsRawFd::as_raw_fd)).collect()
    }

    fn add(&mut self, link: Link) -> io::Result<()> {
        let at = self.links.iter().position(Option::is_none).unwrap_or(self.links.len());
        if at == self.links.len() {
            self.links.push(None);
            self.watched.push(false);
        }
        let flags = flags(link.wants_to_write());
        epoll::add(&*self.epoll, link.stream(), EventData::new_u64(at as u64), flags)?;
        self.watched[at] = link.wants_to_write();
        self.links[at] = Some(link);
        Ok(())
    }

    fn accept(&mut self) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let strangers = self.links.iter().flatten().filter(|link| link.peer.is_none());
            if strangers.count() < STRANGERS_MAX + self.peers.len() {
                let link = Link::answer(stream, &self.key, Instant::now() + STRANGER_LIMIT);
                // One that cannot be watched is closed, and its end takes this process for dead.
                let _ = link.and_then(|link| self.add(link));
            }
        }
    }

    fn dismiss_strangers(&mut self, arrivals: &mut Vec<Arrival>) {
        let now = Instant::now();
        for at in 0..self.links.len() {
            let is_over = |link: &Link| match link.dialed {
                None => link.until <= now,
                // At the last place it may take all the time there is.
                Some(rank) if self.untried[rank as usize].is_empty() => false,
                Some(_) if link.is_connecting() => {
                    link.until <= now + STRANGER_LIMIT - CONNECT_LIMIT
                }
                Some(_) => link.until <= now,
            };
            let link = self.links[at].as_ref();
            if link.is_some_and(|link| link.peer.is_none() && is_over(link)) {
                self.drop_link(at, arrivals);
            }
        }
    }

    /// Asks the system to tell when the link can be written to, if that matters.
    fn watch(&mut self, at: usize) {
        let Some(link) = &self.links[at] else { return };
        let wants = link.wants_to_write();
        if wants != self.watched[at] {
            let data = EventData::new_u64(at as u64);
            // It fails only for a descriptor that is not watched, and each is.
            let changed = epoll::modify(&*self.epoll, link.stream(), data, flags(wants));
            self.watched[at] = if changed.is_ok() { wants } else { self.watched[at] };
        }
    }

    fn serve(&mut self, at: usize, arrivals: &mut Vec<Arrival>) {
        let Some(link) = self.links.get_mut(at).and_then(Option::as_mut) else { return };
        link.flush();
        let bodies = &mut self.bodies;
        bodies.clear();
        let is_alive = link.read(&mut self.scratch, |body| bodies.push(body.to_vec()));
        let is_known = self.introduce(at);
        let is_sound = match self.links[at].as_ref().and_then(|link| link.peer) {
            Some(peer) => self.hand_over(at, peer, arrivals),
            None => true,
        };
        if is_alive && is_known && is_sound {
            self.watch(at);
        } else {
            self.drop_link(at, arrivals);
        }
    }

    /// Takes the bodies that have come from a process. False: one is malformed.
    fn hand_over(&mut self, at: usize, from: Rank, arrivals: &mut Vec<Arrival>) -> bool {
        let session = &mut self.sessions[from as usize];
        for body in self.bodies.drain(..) {
            if let Some(count) = session::receipt(&body) {
                if session.forget(count).is_err() {
                    return false;
                }
                continue;
            }
            let receipt = if self.keeps { session.note(&body) } else { None };
            if let (Some(frame), Some(link)) = (receipt, &mut self.links[at]) {
                link.send(&frame);
            }
            arrivals.push(Arrival::Body(from, body));
        }
        true
    }

    /// Exchanges greetings. False: the other end says what it should not.
    fn introduce(&mut self, at: usize) -> bool {
        let Some(link) = self.links[at].as_mut() else { return false };
        let (me, size) = (self.me, Rank::try_from(self.peers.len()).unwrap_or(Rank::MAX));
        if let Some(to) = link.dialed {
            let received = self.sessions[to as usize].received();
            link.greet(Greeting { size, from: me, to, received });
        }
        if link.peer.is_some() || self.bodies.is_empty() {
            return true;
        }
        let Some(greeting) = Greeting::read(&self.bodies.remove(0)) else { return false };
        let is_expected = match link.dialed {
            Some(rank) => greeting.from == rank,
            None => greeting.from > me,
        };
        let is_awaited = self.peers.get(greeting.from as usize) == Some(&Peer::Awaited);
        if !is_expected || !is_awaited || greeting.to != me || greeting.size != size {
            return false;
        }
        let session = &mut self.sessions[greeting.from as usize];
        link.peer = Some(greeting.from);
        self.peers[greeting.from as usize] = Peer::Linked(at);
        let received = session.received();
        link.greet(Greeting { size, from: me, to: greeting.from, received });
        let Ok(kept) = session.resume(greeting.received) else { return false };
        kept.for_each(|frame| link.send(frame));
        true
    }

    fn drop_link(&mut self, at: usize, arrivals: &mut Vec<Arrival>) {
        let Some(link) = self.links[at].take() else { return };
        // What is closed is watched no more.
        let _ = epoll::delete(&*self.epoll, link.stream());
        if let (None, Some(rank), true) = (link.peer, link.dialed, self.listener.is_some()) {
            if self.dial(rank) {
                return;
            }
        }
        if let Some(rank) = link.peer.or(link.dialed) {
            if self.is_held {
                self.peers[rank as usize] = Peer::Broken;
            } else {
                self.peers[rank as usize] = Peer::Lost;
                arrivals.push(Arrival::Lost(rank));
            }
        }
    }
}

const NO_TIME: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };

fn flags(wants_to_write: bool) -> EventFlags {
    if wants_to_write { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
}

/// Waits until something can be done at a [`Net`], at most for `limit`.
pub(crate) fn wait(epoll: &OwnedFd, limit: Duration) {
    let seconds = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
    let timeout =
        rustix::event::Timespec { tv_sec: seconds, tv_nsec: i64::from(limit.subsec_nanos()) };
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 1];
    // Interrupted or failed: whoever waits looks at the time, and at the net, again.
    let _ = epoll::wait(epoll, &mut events[..], Some(&timeout));
}
