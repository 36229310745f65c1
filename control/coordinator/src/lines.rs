// SPDX-License-Identifier: Apache-2.0
//! One thread per listener that accepts, one per line that reads. What a peer is, agent, command,
//! daemon or a daemon's image line, its first message tells.

use crate::image_server::ImageServer;
use crate::relay;
use fermata_job::Event;
use fermata_transport::{Line, Listener, PendingPeer, Reader, Writer};
use fermata_types::{FrameBuffer, Message};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// What the reading threads tell the one that owns the machine.
pub(crate) enum Input {
    /// A new connection; nothing has been said on it.
    Connected(u64, Box<dyn Writer>),
    Message(u64, Message),
    Closed(u64),
    /// The line to a host's daemon has ended: host, how, its connections.
    HostLost(String, LineEnd, Vec<u64>),
    /// A host's daemon is there, perhaps again.
    HostThere(String),
    /// What has become of a task of the storage worker.
    Done(Event),
    /// For the log.
    Note(String),
    /// Somebody who has proved nothing has been turned away, and why.
    TurnedAway(String),
}

/// How a daemon's line has ended.
pub(crate) struct LineEnd {
    pub why: String,
    /// The other side no longer answers at all. Else it has closed the line: a daemon that is
    /// killed does, and harms no rank.
    pub is_silent: bool,
}

impl LineEnd {
    pub(crate) fn closed(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_silent: false }
    }

    pub(crate) fn of(error: &io::Error) -> Self {
        use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
        let kinds = [TimedOut, HostUnreachable, NetworkUnreachable, NetworkDown];
        Self { why: error.to_string(), is_silent: kinds.contains(&error.kind()) }
    }
}

/// What reading threads need.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub inputs: Sender<Input>,
    pub image_server: Arc<ImageServer>,
    /// The number of the next connection.
    pub next: Arc<AtomicU64>,
    /// The coordinator has ended.
    pub over: Arc<AtomicBool>,
}

/// The machine is gone: there is nobody left to read for.
pub(crate) struct NobodyListens;

impl Acceptor {
    pub(crate) fn tell(&self, input: Input) -> Result<(), NobodyListens> {
        self.inputs.send(input).map_err(|_| NobodyListens)
    }

    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// Accepts until the coordinator has ended (noticed at the next peer).
    pub(crate) fn accept(self, mut listener: Box<dyn Listener>) {
        while !self.over.load(Ordering::Acquire) {
            match listener.accept() {
                Ok(pending) => {
                    let acceptor = self.clone();
                    // Without a thread there is nobody to hear this peer, who is sent away.
                    if let Err(error) =
                        thread::Builder::new().spawn(move || acceptor.receive(pending))
                    {
                        thread::sleep(PAUSE_AFTER_ERROR);
                        let _ =
                            self.tell(Input::TurnedAway(format!("turned a guest away: {error}")));
                    }
                }
                Err(error) => {
                    // Out of descriptors, most likely: try again, but do not spin on it.
                    thread::sleep(PAUSE_AFTER_ERROR);
                    let _ = self.tell(Input::TurnedAway(format!("refused a connection: {error}")));
                }
            }
        }
    }

    fn receive(self, pending: Box<dyn PendingPeer>) {
        let mut line = match pending.admit() {
            Ok(line) => line,
            Err(error) => {
                let _ = self.tell(Input::TurnedAway(format!("turned a guest away: {error}")));
                return;
            }
        };
        let mut frames = FrameBuffer::default();
        let first = match next_message(&mut *line.reader, &mut frames) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => {
                line.writer.end();
                let _ = self.tell(Input::TurnedAway(format!("turned a peer away: {error}")));
                return;
            }
        };
        match first {
            Message::DaemonHello(hello) => relay::serve(&self, line, frames, &hello),
            Message::PutImage(image) => self.image_server.take(line, frames, &image),
            Message::GetImage(wish) => self.image_server.give(line, &wish),
            message => {
                let _ = self.converse(line, frames, message);
            }
        }
    }

    /// An agent or a command.
    fn converse(
        &self,
        line: Line,
        mut frames: FrameBuffer,
        first: Message,
    ) -> Result<(), NobodyListens> {
        let Line { mut reader, writer } = line;
        let conn = self.number();
        self.tell(Input::Connected(conn, writer))?;
        self.tell(Input::Message(conn, first))?;
        loop {
            match next_message(&mut *reader, &mut frames) {
                Ok(Some(message)) => self.tell(Input::Message(conn, message))?,
                Ok(None) => break,
                Err(error) => {
                    self.tell(Input::Note(format!("connection {conn}: {error}")))?;
                    break;
                }
            }
        }
        reader.end();
        self.tell(Input::Closed(conn))
    }
}

/// Blocks for the next whole message; `None` when the peer has closed.
pub(crate) fn next_message(
    reader: &mut dyn Reader,
    frames: &mut FrameBuffer,
) -> io::Result<Option<Message>> {
    let mut buffer = [0; 64 * 1024];
    loop {
        let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        if let Some(message) = frames.pop().map_err(broken)? {
            return Ok(Some(message));
        }
        match reader.receive(&mut buffer) {
            Ok(0) => return Ok(None),
            Ok(bytes) => frames.push(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
