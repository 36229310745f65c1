// SPDX-License-Identifier: Apache-2.0
//! The membership of a run on a UDP socket: one thread that hears, steps the machine of
//! `fermata-membership`, and sends. What is not authentic is dropped before anything looks at it.
//!
//! Invariant: all datagrams that wait in the socket are taken in before a timer, so that a process
//!            that has stood still judges by what has come meanwhile.

use crate::Secret;
use fermata_membership::{
    Action, Config, DATAGRAM_BYTES, Event, Guard, Load, Machine, NodeId, State,
};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// So many datagrams are taken in before the timer has its turn, whoever floods the socket.
const AT_ONCE: usize = 4096;
/// The least that is waited for; a socket knows no shorter wait than zero, which is for ever.
const LEAST: Duration = Duration::from_millis(1);
/// Until a standstill is known to others.
const ANNOUNCED: Duration = Duration::from_secs(1);
/// Until the thread has answered.
const ANSWERED: Duration = Duration::from_secs(1);
/// After an error of the socket.
const AGAIN: Duration = Duration::from_millis(50);

/// Who takes part.
pub struct Part {
    /// The run's secret.
    pub secret: Secret,
    /// This node.
    pub me: NodeId,
    /// Higher than any that the run has known of this node.
    pub incarnation: u16,
    /// Where the others can be reached, as far as that is known. Who is heard is known from then
    /// on.
    pub peers: BTreeMap<NodeId, SocketAddr>,
}

/// A verdict about another node, as it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which node.
    pub node: NodeId,
    /// What is thought of it now.
    pub state: State,
}

enum Order {
    Event(Event),
    /// It stands still for so long; whom to tell that this is known.
    Frozen(Duration, Sender<()>),
    Peer(NodeId, SocketAddr),
    /// Whom to tell how the other nodes fare.
    Loads(Sender<Vec<(NodeId, Load)>>),
    Stop,
}

/// A node's part in the membership, until it is dropped.
pub struct Gossip {
    orders: Sender<Order>,
    waker: UdpSocket,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// A socket for datagrams on every address of this host, at a port of the system's choice.
///
/// # Errors
/// What the system says.
pub fn bind_datagrams() -> io::Result<UdpSocket> {
    UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .or_else(|_| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
}

/// The address as a socket bound to `own` can send to it.
fn sendable(address: SocketAddr, own: SocketAddr) -> SocketAddr {
    match (own, address.ip().to_canonical()) {
        (SocketAddr::V6(_), IpAddr::V4(ip)) => {
            SocketAddr::new(ip.to_ipv6_mapped().into(), address.port())
        }
        (_, ip) => SocketAddr::new(ip, address.port()),
    }
}

impl Gossip {
    /// Begins on a socket that is bound. `told` hears of each verdict, on the thread of the
    /// membership: it must not block.
    ///
    /// # Errors
    /// The socket cannot be used, or there can be no thread.
    pub fn begin(
        part: Part,
        socket: UdpSocket,
        told: impl FnMut(Verdict) + Send + 'static,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let waker = socket.try_clone()?;
        let (orders, receiver) = channel();
        let begun = Instant::now();
        // Membership decides nothing by chance: a seed that differs between nodes is enough.
        let seed = u64::from(part.me) << 16 | u64::from(part.incarnation);
        let (me, incarnation) = (part.me, part.incarnation);
        let peers = part.peers.iter().map(|(node, there)| (*node, sendable(*there, address)));
        let peers = peers.collect();
        let mut worker = Worker {
            guard: Guard::new(part.secret.bytes(), me, incarnation),
            machine: Machine::new(Config::default(), me, incarnation, seed, 0),
            peers,
            socket,
            begun,
            due: 0,
            known: None,
            told,
        };
        let work = move || worker.serve(&receiver);
        let thread = thread::Builder::new().name("membership".into()).spawn(work)?;
        Ok(Self { orders, waker, address, thread: Some(thread) })
    }

    /// Where this node is heard.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// There is another node, and it is reached there.
    pub fn add_peer(&self, node: NodeId, address: SocketAddr) {
        self.order(Order::Peer(node, sendable(address, self.address)));
    }

    /// This node will stand still for so long at most; zero: it no longer does. Blocks until this
    /// is known where it matters, for a second at most. Returns whether it is.
    pub fn announce_standstill(&self, length: Duration) -> bool {
        let (known, wait) = channel();
        self.order(Order::Frozen(length, known));
        length.is_zero() || wait.recv_timeout(ANNOUNCED).is_ok()
    }

    /// How this node fares.
    pub fn set_load(&self, load: Load) {
        self.order(Order::Event(Event::Load { entry: load }));
    }

    /// How the other nodes fare, as they have told last. Blocks for a second at most.
    #[must_use]
    pub fn loads(&self) -> Vec<(NodeId, Load)> {
        let (asked, told) = channel();
        self.order(Order::Loads(asked));
        told.recv_timeout(ANSWERED).unwrap_or_default()
    }

    fn order(&self, order: Order) {
        // A thread that has ended hears nothing, and has nothing to hear it for.
        let _ = self.orders.send(order);
        // An empty datagram to oneself ends the wait; a lost one costs a tick.
        let _ = self.waker.send_to(&[], self.address);
    }
}

impl Drop for Gossip {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker<F> {
    guard: Guard,
    machine: Machine,
    peers: BTreeMap<NodeId, SocketAddr>,
    socket: UdpSocket,
    begun: Instant,
    due: u64,
    /// Whom to tell that a standstill is known.
    known: Option<Sender<()>>,
    told: F,
}

impl<F: FnMut(Verdict)> Worker<F> {
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn serve(&mut self, orders: &Receiver<Order>) {
        let peers: Vec<NodeId> = self.peers.keys().copied().collect();
        for node in peers {
            self.step(Event::Join { node });
        }
        loop {
            for order in orders.try_iter() {
                match order {
                    Order::Event(event) => self.step(event),
                    Order::Frozen(length, known) => {
                        self.known = Some(known);
                        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
                        let until = self.now().saturating_add(ms);
                        self.step(Event::Frozen { until });
                    }
                    Order::Peer(node, address) => {
                        self.peers.insert(node, address);
                        self.step(Event::Join { node });
                    }
                    Order::Loads(asked) => {
                        let known = self.machine.members().map(|(node, known)| (node, known.load));
                        let _ = asked.send(known.collect());
                    }
                    Order::Stop => return,
                }
            }
            self.hear();
            if self.now() >= self.due {
                self.step(Event::Timer);
            }
        }
    }

    /// Waits until the timer is due or something comes, and takes in all that has.
    fn hear(&mut self) {
        let mut wait = Duration::from_millis(self.due.saturating_sub(self.now())).max(LEAST);
        let mut buffer = [0; DATAGRAM_BYTES + 1];
        for _ in 0..AT_ONCE {
            // After the first one only what has come already.
            let received = if wait.is_zero() {
                self.socket.set_nonblocking(true)
            } else {
                self.socket
                    .set_nonblocking(false)
                    .and_then(|()| self.socket.set_read_timeout(Some(wait)))
            };
            wait = Duration::ZERO;
            match received.and_then(|()| self.socket.recv_from(&mut buffer)) {
                Ok((bytes, source)) => self.take(&buffer[..bytes], source),
                Err(error) if is_silence(&error) => return,
                // Somebody whom we told something is not there (ICMP): no matter of ours.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => {
                    thread::sleep(AGAIN);
                    return;
                }
            }
        }
    }

    fn take(&mut self, datagram: &[u8], source: SocketAddr) {
        let Ok((from, content)) = self.guard.open(datagram) else { return };
        let bytes = content.to_vec();
        self.peers.insert(from, source);
        self.step(Event::Datagram { from, bytes });
    }

    fn step(&mut self, event: Event) {
        let now = self.now();
        for action in self.machine.step(event, now) {
            match action {
                Action::Send { to, bytes } => {
                    let Some(address) = self.peers.get(&to) else { continue };
                    // As good as lost on the way.
                    let _ = self.socket.send_to(&self.guard.seal(to, &bytes), address);
                }
                Action::Timer { at } => self.due = at,
                Action::Announced => {
                    // Whoever has asked may have waited long enough.
                    let _ = self.known.take().map(|known| known.send(()));
                }
                Action::Up { node } => (self.told)(Verdict { node, state: State::Up }),
                Action::Suspect { node } => (self.told)(Verdict { node, state: State::Suspect }),
                Action::Down { node } => (self.told)(Verdict { node, state: State::Down }),
            }
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(error.kind(), E::WouldBlock | E::TimedOut | E::Interrupted)
}

#[cfg(test)]
#[path = "gossip_tests.rs"]
mod tests;
