// SPDX-License-Identifier: Apache-2.0
//! One TCP connection to another process, which never blocks: what cannot be sent waits here.

use crate::carrier::End;
use crate::channel::{Channel, Stranger};
use crate::key::Key;
use crate::session::Word;
use crate::wire::{self, PREFIX_BYTES};
use fermata_ftcoll::Rank;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

/// Taken from a socket before others get their turn.
const READ_BYTES: usize = 256 << 10;

/// What the processes tell each other first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Processes in the job.
    pub size: Rank,
    /// Who speaks.
    pub from: Rank,
    /// To whom.
    pub to: Rank,
    /// How many frames of whom it is said to have come before, on other connections.
    pub received: u64,
    /// Where its carrier is reached; empty: it has none.
    pub carrier: Vec<u8>,
}

/// In the byte order of the machine: one of another order is no process of this job.
const MAGIC: u32 = 0x4654_4333;
/// Without the address of the carrier.
const GREETING_BYTES: usize = 24;

impl Greeting {
    fn frame(self) -> Vec<u8> {
        let mut body: Vec<u8> =
            [MAGIC, self.size, self.from, self.to].into_iter().flat_map(u32::to_ne_bytes).collect();
        body.extend(self.received.to_ne_bytes());
        body.extend(self.carrier);
        [&(body.len() as u64).to_le_bytes()[..], &body].concat()
    }

    /// From a body; `None` if it is none.
    pub fn read(body: &[u8]) -> Option<Self> {
        let (body, carrier) = body.split_first_chunk::<GREETING_BYTES>()?;
        let number = |at: usize| {
            let bytes = body[at..].first_chunk().copied().unwrap_or_default();
            u32::from_ne_bytes(bytes)
        };
        let received = body[16..].first_chunk().copied().unwrap_or_default();
        let received = u64::from_ne_bytes(received);
        let carrier = carrier.to_vec();
        let greeting = Self { size: number(4), from: number(8), to: number(12), received, carrier };
        (number(0) == MAGIC).then_some(greeting)
    }
}

/// One connection.
pub(crate) struct Link {
    stream: TcpStream,
    channel: Channel,
    /// Whom this end has dialed.
    pub dialed: Option<Rank>,
    /// Who the other end is, once it has said so.
    pub peer: Option<Rank>,
    /// A stranger is sent away then.
    pub until: Instant,
    has_greeted: bool,
    is_connecting: bool,
    is_deaf: bool,
    raw: Vec<u8>,
    plain: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    sealed: Vec<u8>,
    /// What leads to the other end beside the socket.
    end: Option<End>,
    /// What is said, and what is heard, goes by that.
    speaks_by_end: bool,
    hears_by_end: bool,
}

impl Link {
    fn new(stream: TcpStream, channel: Channel, until: Instant) -> Self {
        Self {
            stream,
            channel,
            dialed: None,
            peer: None,
            until,
            has_greeted: false,
            is_connecting: false,
            is_deaf: false,
            raw: Vec::new(),
            plain: Vec::new(),
            out: Vec::new(),
            sent: 0,
            sealed: Vec::new(),
            end: None,
            speaks_by_end: false,
            hears_by_end: false,
        }
    }

    /// Begins to connect.
    pub fn dial(to: Rank, address: SocketAddr, key: &Key, until: Instant) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        let is_connecting = match rustix::net::connect(&socket, &address) {
            Ok(()) => false,
            Err(rustix::io::Errno::INPROGRESS) => true,
            Err(error) => return Err(error.into()),
        };
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        let mut out = Vec::new();
        let channel = Channel::dial(key, &mut out).map_err(|_| io::ErrorKind::Other)?;
        let dialed = Some(to);
        Ok(Self { out, dialed, is_connecting, ..Self::new(stream, channel, until) })
    }

    /// Takes a connection that somebody has dialed.
    pub fn answer(stream: TcpStream, key: &Key, until: Instant) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let channel = Channel::answer(key).map_err(|_| io::ErrorKind::Other)?;
        Ok(Self::new(stream, channel, until))
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether the other end has not taken the connection yet.
    pub fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    /// Whether it waits for the socket to take more.
    pub fn wants_to_write(&self) -> bool {
        !self.is_deaf && (self.is_connecting || self.sent < self.out.len())
    }

    /// Whether the other end is on this host.
    pub fn is_near(&self) -> bool {
        let (here, there) = (self.stream.local_addr(), self.stream.peer_addr());
        here.and_then(|here| Ok(here.ip() == there?.ip())).unwrap_or(false)
    }

    /// The other end may be reached beside the socket; both ends say so before they use it.
    pub fn lead(&mut self, end: End) {
        self.end = Some(end);
        self.send(&Word::Ready.frame());
    }

    /// Whether what is said goes beside the socket.
    pub fn speaks_by_end(&self) -> bool {
        self.speaks_by_end
    }

    /// The other end has said so, too.
    pub fn speak_by_end(&mut self) {
        if self.end.is_some() && !self.speaks_by_end {
            self.send(&Word::Switch.frame());
            self.speaks_by_end = true;
        }
    }

    /// All that follows comes beside the socket. False: nothing can.
    pub fn hear_by_end(&mut self) -> bool {
        self.hears_by_end = self.end.is_some();
        self.hears_by_end
    }

    /// Sends the greeting, once that is possible.
    pub fn greet(&mut self, greeting: impl FnOnce() -> Greeting) {
        if !self.has_greeted && self.channel.is_open() {
            self.has_greeted = true;
            self.send(&greeting().frame());
        }
    }

    /// Sends a frame, or keeps what the socket does not take now. One to a broken connection is
    /// lost; that it is broken is learned by reading.
    pub fn send(&mut self, frame: &[u8]) {
        if self.is_deaf {
            return;
        }
        let end = self.end.as_ref().filter(|_| self.speaks_by_end);
        let Some(end) = end else {
            self.is_deaf = self.channel.seal(frame, &mut self.out).is_err();
            self.flush();
            return;
        };
        self.sealed.clear();
        let is_sealed = self.channel.seal(frame, &mut self.sealed).is_ok();
        self.is_deaf = !is_sealed || !end.send(&self.sealed);
        if self.is_deaf {
            // Both ends learn it by reading.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets the socket take what waits.
    pub fn flush(&mut self) {
        if self.is_connecting {
            match self.stream.take_error() {
                Ok(None) if self.stream.peer_addr().is_ok() => self.is_connecting = false,
                Ok(None) => return,
                _ => self.is_deaf = true,
            }
        }
        while self.wants_to_write() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => self.is_deaf = true,
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_deaf = true,
            }
        }
        self.out.clear();
        self.sent = 0;
    }

    /// Takes what has come, and gives each whole frame's body to `deliver`. False if nothing will
    /// come any more: the other end has closed, or is a stranger.
    pub fn read(&mut self, scratch: &mut [u8], mut deliver: impl FnMut(&[u8])) -> bool {
        let mut left = READ_BYTES;
        while left > 0 {
            match self.stream.read(scratch) {
                Ok(0) => return false,
                Ok(_) if self.hears_by_end => return false,
                Ok(bytes) => {
                    if self.take(&scratch[..bytes], &mut deliver).is_err() {
                        return false;
                    }
                    left = left.saturating_sub(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    return self.is_connecting;
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// The same of what has come beside the socket.
    pub fn read_end(&mut self, scratch: &mut [u8], mut deliver: impl FnMut(&[u8])) -> bool {
        while self.hears_by_end {
            let Some(end) = &self.end else { return false };
            let Some(came) = end.receive(scratch) else { return false };
            if came.is_empty() {
                break;
            }
            if self.take(came, &mut deliver).is_err() {
                return false;
            }
        }
        true
    }

    fn take(&mut self, came: &[u8], deliver: &mut impl FnMut(&[u8])) -> Result<(), Stranger> {
        let before = self.out.len();
        if self.raw.is_empty() {
            let taken = self.channel.receive(came, &mut self.plain, &mut self.out)?;
            self.raw.extend_from_slice(&came[taken..]);
        } else {
            self.raw.extend_from_slice(came);
            let taken = self.channel.receive(&self.raw, &mut self.plain, &mut self.out)?;
            self.raw.drain(..taken);
        }
        if self.out.len() > before {
            self.flush();
        }
        let mut at = 0;
        while let Some(length) = wire::body_length(&self.plain[at..]).map_err(|_| Stranger)? {
            let begin = at + PREFIX_BYTES;
            let Some(end) = begin.checked_add(length) else { return Err(Stranger) };
            let Some(body) = self.plain.get(begin..end) else { break };
            deliver(body);
            at = end;
        }
        self.plain.drain(..at);
        Ok(())
    }
}
