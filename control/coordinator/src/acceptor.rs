// SPDX-License-Identifier: Apache-2.0
//! One thread per listener that accepts, one per connection that reads. What a peer is, an agent, a
//! command, a daemon or a daemon with an image, its first message tells.

use crate::image_server::ImageServer;
use crate::input::{Inbox, Input, NobodyListens};
use crate::levels::Levels;
use crate::members::Members;
use crate::relay::{self, Company};
use fermata_transport::{Connection, Listener, PendingPeer, next_message};
use fermata_types::{FrameBuffer, Message};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(50);

/// What reading threads need.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub inbox: Inbox,
    pub image_server: Arc<ImageServer>,
    /// Of a job on several hosts.
    pub members: Option<Arc<Members>>,
    /// Where images stay on their hosts.
    pub levels: Option<Levels>,
    /// The coordinator has ended.
    pub over: Arc<AtomicBool>,
}

impl Acceptor {
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
                        self.note_turned_away(format!("turned a guest away: {error}"));
                    }
                }
                Err(error) => {
                    // Out of descriptors, most likely: try again, but do not spin on it.
                    thread::sleep(PAUSE_AFTER_ERROR);
                    self.note_turned_away(format!("refused a connection: {error}"));
                }
            }
        }
    }

    /// A coordinator that has ended notes nothing.
    fn note_turned_away(&self, why: String) {
        let _ = self.inbox.put(Input::TurnedAway(why));
    }

    fn receive(self, pending: Box<dyn PendingPeer>) {
        let mut connection = match pending.admit() {
            Ok(connection) => connection,
            Err(error) => {
                return self.note_turned_away(format!("turned a guest away: {error}"));
            }
        };
        let mut frames = FrameBuffer::default();
        let first = match next_message(&mut *connection.reader, &mut frames) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => {
                connection.writer.end();
                return self.note_turned_away(format!("turned a peer away: {error}"));
            }
        };
        match first {
            Message::DaemonHello(hello) => {
                let company = Company {
                    job: self.image_server.name(),
                    members: self.members.as_deref(),
                    levels: self.levels.as_ref(),
                };
                relay::serve(&self.inbox, &company, connection, frames, &hello);
            }
            Message::PutImage(image) => self.image_server.take(connection, frames, &image),
            Message::GetImage(wish) => self.image_server.give(connection, &wish),
            message => {
                let _ = self.converse(connection, frames, message);
            }
        }
    }

    /// An agent or a command.
    fn converse(
        &self,
        connection: Connection,
        mut frames: FrameBuffer,
        first: Message,
    ) -> Result<(), NobodyListens> {
        let Connection { mut reader, writer, .. } = connection;
        let conn = self.inbox.number();
        self.inbox.put(Input::Connected(conn, writer))?;
        self.inbox.put(Input::Message(conn, first))?;
        loop {
            match next_message(&mut *reader, &mut frames) {
                Ok(Some(message)) => self.inbox.put(Input::Message(conn, message))?,
                Ok(None) => break,
                Err(error) => {
                    self.inbox.put(Input::Note(format!("connection {conn}: {error}")))?;
                    break;
                }
            }
        }
        reader.end();
        self.inbox.put(Input::Closed(conn))
    }
}
