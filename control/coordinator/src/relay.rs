// SPDX-License-Identifier: Apache-2.0
//! A daemon's link: many agents behind one peer. Each of its channels becomes a connection of the
//! machine, which knows nothing of daemons.

use crate::input::{Inbox, Input, LinkEnd, NobodyListens};
use crate::levels::{Levels, Line};
use crate::members::Members;
use fermata_transport::{Connection, Reader, Writer, next_message};
use fermata_types::{
    DaemonHello, Detached, FrameBuffer, Message, Relayed, decode_frame, encode_frame,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The way to a daemon, shared by all who speak through it.
pub(crate) type Link = Arc<Mutex<Box<dyn Writer>>>;

/// Sends the daemon a message. Blocks as its writer does.
pub(crate) fn say(writer: &Link, message: &Message) -> io::Result<()> {
    writer.lock().unwrap_or_else(PoisonError::into_inner).send(&encode_frame(message))
}

/// The way to one agent, through its host's daemon.
struct Channel {
    writer: Link,
    channel: u64,
}

impl Writer for Channel {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let relayed = Relayed { channel: self.channel, frame: frame.to_vec() };
        say(&self.writer, &relayed.into())
    }
    fn end(&mut self) {
        // If this fails the daemon is gone, and with it the agent's connection.
        let _ = say(&self.writer, &Detached { channel: self.channel }.into());
    }
}

/// The daemon's connection itself, among the peers so that it ends with the coordinator.
struct DaemonLink(Link);

impl Writer for DaemonLink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(frame)
    }
    fn end(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

/// Whom a daemon meets here.
pub(crate) struct Company<'a> {
    /// The job's name.
    pub job: &'a str,
    pub members: Option<&'a Members>,
    pub levels: Option<&'a Levels>,
}

/// Serves a daemon of the job until its connection ends.
pub(crate) fn serve(
    inbox: &Inbox,
    company: &Company,
    connection: Connection,
    frames: FrameBuffer,
    hello: &DaemonHello,
) {
    let Connection { mut reader, writer, peer } = connection;
    if hello.job != company.job {
        reader.end();
        let why = format!("turned away a daemon of job '{}'", hello.job);
        let _ = inbox.put(Input::Note(why));
        return;
    }
    let writer: Link = Arc::new(Mutex::new(writer));
    let part = company.members.zip(peer).and_then(|(members, from)| {
        let node = members.join(hello, from, &writer)?;
        Some((members, node))
    });
    let mut line = company.levels.zip(peer).map(|(levels, from)| {
        Line::new(levels.clone(), hello.host.clone(), from, Arc::clone(&writer))
    });
    let was_silent = || part.is_some_and(|(members, node)| members.leave(node, &writer));
    // A coordinator that has ended takes no connection.
    let levels = line.as_mut();
    let _ = converse(inbox, &mut *reader, frames, &writer, hello, levels, was_silent);
    reader.end();
}

fn converse(
    inbox: &Inbox,
    reader: &mut dyn Reader,
    frames: FrameBuffer,
    writer: &Link,
    hello: &DaemonHello,
    mut levels: Option<&mut Line>,
    was_silent: impl FnOnce() -> bool,
) -> Result<(), NobodyListens> {
    let (host, daemon_link) = (&hello.host, inbox.number());
    inbox.put(Input::Connected(daemon_link, Box::new(DaemonLink(Arc::clone(writer)))))?;
    inbox.put(Input::Note(format!("host {host}: daemon {} is here", hello.pid)))?;
    inbox.put(Input::HostThere(host.clone()))?;
    let mut conns = BTreeMap::new();
    let end = read(inbox, reader, frames, writer, &mut conns, levels.as_deref_mut())?;
    let end = if was_silent() { LinkEnd::silent() } else { end };
    if let Some(line) = levels {
        line.ended(end.is_silent);
    }
    inbox.put(Input::Closed(daemon_link))?;
    inbox.put(if conns.is_empty() {
        Input::Note(format!("host {host}: its daemon has ended"))
    } else {
        Input::HostLost(host.clone(), end, conns.into_values().collect())
    })
}

/// Returns how the connection ended.
fn read(
    inbox: &Inbox,
    reader: &mut dyn Reader,
    mut frames: FrameBuffer,
    writer: &Link,
    conns: &mut BTreeMap<u64, u64>,
    mut levels: Option<&mut Line>,
) -> Result<LinkEnd, NobodyListens> {
    loop {
        let message = match next_message(reader, &mut frames) {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(LinkEnd::closed("its daemon has ended")),
            Err(error) => return Ok(LinkEnd::of(&error)),
        };
        match message {
            Message::Attached(m) => {
                let conn = inbox.number();
                conns.insert(m.channel, conn);
                let channel = Channel { writer: Arc::clone(writer), channel: m.channel };
                inbox.put(Input::Connected(conn, Box::new(channel)))?;
            }
            Message::Relayed(m) => {
                let Some(conn) = conns.get(&m.channel) else { continue };
                match decode_frame(&m.frame) {
                    Ok(message) => inbox.put(Input::Message(*conn, message))?,
                    Err(error) => {
                        inbox.put(Input::Note(format!("connection {conn}: {error}")))?;
                        let _ = say(writer, &Detached { channel: m.channel }.into());
                    }
                }
            }
            Message::Detached(m) => {
                if let Some(conn) = conns.remove(&m.channel) {
                    inbox.put(Input::Closed(conn))?;
                }
            }
            // Of snapshots that stay on hosts; else a daemon says nothing of them.
            other if levels.as_mut().is_some_and(|line| line.hear(&other)) => {}
            other => return Ok(LinkEnd::closed(format!("its daemon said {}", other.name()))),
        }
    }
}
