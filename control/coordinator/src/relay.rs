// SPDX-License-Identifier: Apache-2.0
//! A daemon's line: many agents behind one peer. Each of its channels becomes a connection of the
//! machine, which knows nothing of daemons.

use crate::lines::{Input, LineEnd, NobodyListens, Reception, next_message};
use fermata_transport::{Inlet, Line, Outlet};
use fermata_types::{
    DaemonHello, Detached, FrameBuffer, Message, Relayed, decode_frame, encode_frame,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

type Shared = Arc<Mutex<Box<dyn Outlet>>>;

fn say(outlet: &Shared, message: &Message) -> io::Result<()> {
    outlet.lock().unwrap_or_else(PoisonError::into_inner).send(&encode_frame(message))
}

/// The way to one agent, through its host's daemon.
struct Channel {
    outlet: Shared,
    channel: u64,
}

impl Outlet for Channel {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let relayed = Relayed { channel: self.channel, frame: frame.to_vec() };
        say(&self.outlet, &relayed.into())
    }
    fn end(&mut self) {
        // If this fails the daemon is gone, and with it the agent's line.
        let _ = say(&self.outlet, &Detached { channel: self.channel }.into());
    }
}

/// The daemon's line itself, among the peers so that it ends with the coordinator.
struct Trunk(Shared);

impl Outlet for Trunk {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(frame)
    }
    fn end(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

/// Serves a daemon until its line ends.
pub(crate) fn serve(reception: &Reception, line: Line, frames: FrameBuffer, hello: &DaemonHello) {
    let Line { mut inlet, outlet } = line;
    if hello.job != reception.depot.name() {
        inlet.end();
        let why = format!("turned away a daemon of job '{}'", hello.job);
        let _ = reception.tell(Input::Note(why));
        return;
    }
    let outlet: Shared = Arc::new(Mutex::new(outlet));
    // A coordinator that has ended takes no line.
    let _ = converse(reception, &mut *inlet, frames, &outlet, hello);
    inlet.end();
}

fn converse(
    reception: &Reception,
    inlet: &mut dyn Inlet,
    frames: FrameBuffer,
    outlet: &Shared,
    hello: &DaemonHello,
) -> Result<(), NobodyListens> {
    let (host, trunk) = (&hello.host, reception.number());
    reception.tell(Input::Connected(trunk, Box::new(Trunk(Arc::clone(outlet)))))?;
    reception.tell(Input::Note(format!("host {host}: daemon {} is here", hello.pid)))?;
    reception.tell(Input::HostThere(host.clone()))?;
    let mut conns = BTreeMap::new();
    let end = read(reception, inlet, frames, outlet, &mut conns)?;
    reception.tell(Input::Closed(trunk))?;
    reception.tell(if conns.is_empty() {
        Input::Note(format!("host {host}: its daemon has ended"))
    } else {
        Input::HostLost(host.clone(), end, conns.into_values().collect())
    })
}

/// Returns how the line ended.
fn read(
    reception: &Reception,
    inlet: &mut dyn Inlet,
    mut frames: FrameBuffer,
    outlet: &Shared,
    conns: &mut BTreeMap<u64, u64>,
) -> Result<LineEnd, NobodyListens> {
    loop {
        let message = match next_message(inlet, &mut frames) {
            Ok(Some(message)) => message,
            Ok(None) => return Ok(LineEnd::closed("its daemon has ended")),
            Err(error) => return Ok(LineEnd::of(&error)),
        };
        match message {
            Message::Attached(m) => {
                let conn = reception.number();
                conns.insert(m.channel, conn);
                let channel = Channel { outlet: Arc::clone(outlet), channel: m.channel };
                reception.tell(Input::Connected(conn, Box::new(channel)))?;
            }
            Message::Relayed(m) => {
                let Some(conn) = conns.get(&m.channel) else { continue };
                match decode_frame(&m.frame) {
                    Ok(message) => reception.tell(Input::Message(*conn, message))?,
                    Err(error) => {
                        reception.tell(Input::Note(format!("connection {conn}: {error}")))?;
                        let _ = say(outlet, &Detached { channel: m.channel }.into());
                    }
                }
            }
            Message::Detached(m) => {
                if let Some(conn) = conns.remove(&m.channel) {
                    reception.tell(Input::Closed(conn))?;
                }
            }
            other => return Ok(LineEnd::closed(format!("its daemon said {}", other.name()))),
        }
    }
}
