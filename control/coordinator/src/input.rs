// SPDX-License-Identifier: Apache-2.0
//! What the reading threads tell the one that owns the machine, and the way to it.

use fermata_job::{Conn, Event};
use fermata_site::Answer;
use fermata_transport::Writer;
use fermata_types::Message;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// What the reading threads tell the one that owns the machine.
pub(crate) enum Input {
    /// A new connection; nothing has been said on it.
    Connected(Conn, Box<dyn Writer>),
    Message(Conn, Message),
    Closed(Conn),
    /// The connection to a host's daemon has ended: host, how, its connections.
    HostLost(String, LinkEnd, Vec<Conn>),
    /// A host's daemon is there, perhaps again.
    HostThere(String),
    /// What has become of a task of the storage worker.
    Done(Event),
    /// The site's service has answered the offer of this number.
    Advised(u64, Answer),
    /// For the log.
    Note(String),
    /// Somebody who has proved nothing has been turned away, and why.
    TurnedAway(String),
}

/// How a daemon's connection has ended.
pub(crate) struct LinkEnd {
    pub why: String,
    /// The other side no longer answers at all. Else it has closed the connection: a daemon that is
    /// killed does, and harms no rank.
    pub is_silent: bool,
}

impl LinkEnd {
    pub(crate) fn closed(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_silent: false }
    }

    /// By the membership: no datagram has come for `down_after_ms`, whoever asked.
    pub(crate) fn silent() -> Self {
        Self { why: "nobody has heard of it for 3 s".into(), is_silent: true }
    }

    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
        let kinds = [TimedOut, HostUnreachable, NetworkUnreachable, NetworkDown];
        Self { why: error.to_string(), is_silent: kinds.contains(&error.kind()) }
    }
}

/// The machine is gone: there is nobody left to read for.
pub(crate) struct NobodyListens;

/// The way to the thread that owns the machine.
#[derive(Clone)]
pub(crate) struct Inbox {
    inputs: Sender<Input>,
    /// The number of the next connection.
    next: Arc<AtomicU64>,
}

impl Inbox {
    pub(crate) fn new(inputs: Sender<Input>) -> Self {
        Self { inputs, next: Arc::new(AtomicU64::new(1)) }
    }

    pub(crate) fn put(&self, input: Input) -> Result<(), NobodyListens> {
        self.inputs.send(input).map_err(|_| NobodyListens)
    }

    /// Numbers a connection.
    pub(crate) fn number(&self) -> Conn {
        self.next.fetch_add(1, Ordering::AcqRel)
    }
}
