// SPDX-License-Identifier: Apache-2.0
//! All connections of a process: at the beginning each process dials those of lower rank and is
//! dialed by those of higher rank, and then the listening socket is closed for good.
//!
//! Invariants: nothing of a connection is looked at before its other end has shown the key; a
//! stranger is sent away after some seconds; nothing here blocks.
//!
//! If connections may be made again, for a restart from a checkpoint, what was sent is kept until
//! the other end has it (`session.rs`). How processes find each other, at first and again, and what
//! a checkpoint means to connections, is in `net/meeting.rs`.

mod meeting;

use crate::carrier::Carrier;
use crate::key::Key;
use crate::link::{Greeting, Link};
use crate::session::{self, Session, Word};
use fermata_ftcoll::Rank;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SCRATCH_BYTES: usize = 64 << 10;
const LISTENER: u64 = u64::MAX;
/// Of one that does so once.
const NUDGE: u64 = u64::MAX - 1;
/// Of that of the carrier.
const CARRIER: u64 = u64::MAX - 2;

/// What has happened.
pub(crate) enum Arrival {
    /// A frame's body has come from this process.
    Body(Rank, Vec<u8>),
    /// Nothing will come from this process any more.
    Lost(Rank),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// Its connection is gone, and nobody has said where it is now.
    Apart,
    /// It dials, or is dialed.
    Awaited,
    Linked(usize),
    /// Its connection has broken while all were held.
    Broken,
    Lost,
}

/// Where a process may be that is dialed.
#[derive(Clone)]
struct Ways {
    /// Where it has not been looked for yet; the last one is next.
    untried: Vec<SocketAddr>,
    until: Instant,
}

/// The connections.
pub(crate) struct Net {
    me: Rank,
    key: Key,
    epoll: Arc<OwnedFd>,
    listeners: Vec<TcpListener>,
    links: Vec<Option<Link>>,
    /// Of each link, whether the system tells when it can be written to.
    watched: Vec<bool>,
    peers: Vec<Peer>,
    ways: Vec<Ways>,
    /// Connections may be made again: what is sent is kept.
    keeps: bool,
    /// A connection that breaks is nobody's loss yet, and none is taken or made.
    is_held: bool,
    /// Somebody whose connection is gone has none yet.
    is_parted: bool,
    sessions: Vec<Session>,
    scratch: Vec<u8>,
    bodies: Vec<Vec<u8>>,
    /// Where bytes go beside the sockets. Dropped after the links.
    carrier: Option<Carrier>,
    /// In how long it has something to do, without an event.
    carrier_due: Option<Duration>,
    /// Wakes whoever waits, once.
    nudge: OwnedFd,
}

impl Net {
    /// Listens at `address`; port 0: one of the system's choice. Returns also where. `keeps`:
    /// connections may be made again, and there is no carrier then.
    pub fn listen(
        key: Key,
        address: SocketAddr,
        keeps: bool,
        carrier: Option<Carrier>,
    ) -> io::Result<(Self, SocketAddr)> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut net = Self {
            me: 0,
            key,
            epoll: Arc::new(epoll),
            listeners: Vec::new(),
            links: Vec::new(),
            watched: Vec::new(),
            peers: Vec::new(),
            ways: Vec::new(),
            keeps,
            is_held: false,
            is_parted: false,
            sessions: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            bodies: Vec::new(),
            carrier,
            carrier_due: None,
            nudge: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        };
        epoll::add(&*net.epoll, &net.nudge, EventData::new_u64(NUDGE), EventFlags::IN)?;
        if let Some(carrier) = &net.carrier {
            let data = EventData::new_u64(CARRIER);
            epoll::add(&*net.epoll, carrier.event_fd(), data, EventFlags::IN)?;
        }
        let address = net.open_door(address)?;
        Ok((net, address))
    }

    /// Listens, there too. Returns where.
    pub fn open_door(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        epoll::add(&*self.epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let address = listener.local_addr()?;
        self.listeners.push(listener);
        Ok(address)
    }

    /// What to wait at for something to happen.
    pub fn epoll(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.epoll)
    }

    /// Ends all connections, and takes none any more.
    pub fn close(&mut self) {
        self.links.clear();
        self.listeners.clear();
        self.peers.fill(Peer::Lost);
        self.is_parted = false;
    }

    /// Who cannot be reached.
    pub fn lost(&self) -> impl Iterator<Item = Rank> + '_ {
        let lost = (0..).zip(&self.peers).filter(|(_, peer)| **peer == Peer::Lost);
        lost.map(|(rank, _)| rank).filter(|&rank| rank != self.me)
    }

    /// Sends a frame to a process, or loses it if it is dead.
    pub fn send(&mut self, to: Rank, frame: &[u8]) {
        let Some(&peer) = self.peers.get(to as usize) else { return };
        if peer != Peer::Lost {
            match &mut self.sessions[to as usize] {
                session if self.keeps => session.keep(frame),
                session => session.count(),
            }
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
        self.links.iter().flatten().any(Link::wants_to_write) || self.is_carrying()
    }

    fn is_carrying(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::is_sending)
    }

    /// How many processes are reached by the carrier.
    pub fn carried(&self) -> usize {
        self.links.iter().flatten().filter(|link| link.speaks_by_end()).count()
    }

    /// In how long there is something to do without an event, if there is.
    pub fn next_due(&self) -> Option<Duration> {
        let carrying = self.is_carrying().then_some(CARRYING_STEP);
        self.carrier_due.into_iter().chain(carrying).min()
    }

    /// Has who waits look at the time again: something is due earlier.
    pub fn nudge(&self) {
        // A counter at its end is one that wakes.
        let _ = rustix::io::write(&self.nudge, &1u64.to_ne_bytes());
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
                CARRIER => {}
                NUDGE => {
                    // Nothing to be read is one that has been heard.
                    let _ = rustix::io::read(&self.nudge, &mut [0; 8]);
                }
                token => self.serve(usize::try_from(token).unwrap_or(usize::MAX), arrivals),
            }
        }
        self.serve_carrier(arrivals);
        if self.is_meeting() {
            self.dismiss_strangers(arrivals);
        }
        if self.is_parted && !self.is_held && !self.peers.iter().any(Peer::has_no_link) {
            self.is_parted = false;
            self.close_door();
        }
        Ok(())
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
        let is_sound = self.hand_over(at, arrivals);
        // What has come beside the socket is behind that, and before its end.
        let is_sound = is_sound && self.serve_end(at, arrivals);
        if is_alive && is_known && is_sound {
            self.watch(at);
        } else {
            self.drop_link(at, arrivals);
        }
    }

    /// Reads what has come beside the socket of a link. False: it is malformed, or at its end.
    fn serve_end(&mut self, at: usize, arrivals: &mut Vec<Arrival>) -> bool {
        loop {
            let (Some(carrier), Some(link)) = (&self.carrier, &mut self.links[at]) else {
                return true;
            };
            let is_more = carrier.progress();
            let bodies = &mut self.bodies;
            bodies.clear();
            let is_alive = link.read_end(&mut self.scratch, |body| bodies.push(body.to_vec()));
            if !self.hand_over(at, arrivals) || !is_alive {
                return false;
            }
            if !is_more {
                return true;
            }
        }
    }

    fn serve_carrier(&mut self, arrivals: &mut Vec<Arrival>) {
        let mut tokens = [0; 64];
        let mut idle = 0;
        for _ in 0..CARRIER_TURNS {
            let Some(carrier) = &self.carrier else { return };
            let is_more = carrier.progress();
            let ready = carrier.ready(&mut tokens);
            for &at in ready {
                if self.links.get(at).is_some_and(Option::is_some) && !self.serve_end(at, arrivals)
                {
                    self.drop_link(at, arrivals);
                }
            }
            if is_more || !ready.is_empty() {
                idle = 0;
            } else if self.carrier.as_ref().is_none_or(Carrier::arm) {
                self.carrier_due = None;
                return;
            } else {
                idle += 1;
            }
            // It also says so while what it has to send to a dead process waits, for ever.
            if idle == CARRIER_IDLE {
                self.carrier_due = Some(CARRYING_STEP);
                return;
            }
        }
        self.carrier_due = Some(Duration::ZERO);
    }

    /// Takes the bodies that have come by a link, once it is known from whom. False: one is
    /// malformed.
    fn hand_over(&mut self, at: usize, arrivals: &mut Vec<Arrival>) -> bool {
        let is_told = self.is_told_of(at);
        let Some(link) = &mut self.links[at] else { return true };
        let Some(from) = link.peer else { return true };
        let session = &mut self.sessions[from as usize];
        for body in self.bodies.drain(..) {
            match session::word(&body) {
                Some(Word::Receipt(count)) if session.forget(count).is_err() => return false,
                Some(Word::Receipt(_)) => {}
                Some(Word::Question) => link.send(&session.tell()),
                Some(Word::Ready) => link.speak_by_end(),
                Some(Word::Switch) if !link.hear_by_end() => return false,
                Some(Word::Switch) => {}
                None => {
                    let receipt = session.note(&body).filter(|_| is_told);
                    receipt.iter().for_each(|frame| link.send(frame));
                    arrivals.push(Arrival::Body(from, body));
                }
            }
        }
        true
    }

    /// Exchanges greetings. False: the other end says what it should not.
    fn introduce(&mut self, at: usize) -> bool {
        let Some(link) = self.links[at].as_mut() else { return false };
        let (me, size) = (self.me, Rank::try_from(self.peers.len()).unwrap_or(Rank::MAX));
        if let Some(to) = link.dialed {
            let (received, carrier) = (self.sessions[to as usize].received(), &self.carrier);
            link.greet(|| Greeting { size, from: me, to, received, carrier: address_of(carrier) });
        }
        if link.peer.is_some() || self.bodies.is_empty() {
            return true;
        }
        let Some(greeting) = Greeting::read(&self.bodies.remove(0)) else { return false };
        let is_expected = match link.dialed {
            Some(rank) => greeting.from == rank,
            None => greeting.from > me,
        };
        let is_awaited = self.peers.get(greeting.from as usize).is_some_and(Peer::has_no_link);
        if !is_expected || !is_awaited || greeting.to != me || greeting.size != size {
            return false;
        }
        let session = &mut self.sessions[greeting.from as usize];
        link.peer = Some(greeting.from);
        self.peers[greeting.from as usize] = Peer::Linked(at);
        let (to, received, carrier) = (greeting.from, session.received(), &self.carrier);
        link.greet(|| Greeting { size, from: me, to, received, carrier: address_of(carrier) });
        let Ok(kept) = session.resume(greeting.received) else { return false };
        kept.for_each(|frame| link.send(frame));
        let is_reached = !greeting.carrier.is_empty() && !link.is_near();
        if let Some(carrier) = carrier.as_ref().filter(|_| is_reached) {
            let end = carrier.connect(&greeting.carrier, at);
            end.into_iter().for_each(|end| link.lead(end));
        }
        true
    }

    fn drop_link(&mut self, at: usize, arrivals: &mut Vec<Arrival>) {
        let Some(link) = self.links[at].take() else { return };
        // What is closed is watched no more.
        let _ = epoll::delete(&*self.epoll, link.stream());
        let is_dialed_again = |rank| link.peer.is_none() && self.is_meeting() && self.dial(rank);
        if let Some(rank) = link.peer.or(link.dialed) {
            if !link.dialed.is_some_and(is_dialed_again) {
                self.lose(rank, arrivals);
            }
        }
    }

    /// A process is not at the other end of any connection.
    fn lose(&mut self, rank: Rank, arrivals: &mut Vec<Arrival>) {
        if self.is_held {
            self.peers[rank as usize] = Peer::Broken;
            return;
        }
        self.peers[rank as usize] = Peer::Lost;
        self.sessions[rank as usize] = Session::default();
        arrivals.push(Arrival::Lost(rank));
    }
}

impl Peer {
    fn has_no_link(&self) -> bool {
        matches!(self, Self::Apart | Self::Awaited)
    }
}

fn address_of(carrier: &Option<Carrier>) -> Vec<u8> {
    carrier.as_ref().map(Carrier::address).unwrap_or_default()
}

/// Between two looks whether the carrier takes what waits.
const CARRYING_STEP: Duration = Duration::from_micros(200);
/// Between looks at the sockets.
const CARRIER_TURNS: usize = 64;
/// Without anything that has come, though the carrier says that it has something to do.
const CARRIER_IDLE: u32 = 4;

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
