// SPDX-License-Identifier: Apache-2.0
//! The coordinator's part in the membership of a run: it numbers the daemons, tells each of the
//! others, and ends the line to a daemon whose host has fallen silent. TCP notices that too, but
//! later (`SILENCE_MAX`).
//!
//! Invariant: a host counts as silent only if its datagrams have come before: where none may pass,
//!            TCP alone decides, as ever.

use crate::hosts;
use crate::relay::{Link, say};
use fermata_membership::{Load, NODES_MAX, NodeId, State};
use fermata_sysio::HostLoad;
use fermata_transport::{Gossip, Part, Secret, Verdict, bind_datagrams};
use fermata_types::{DaemonHello, Joined, Peer};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The coordinator's own number.
const SELF: NodeId = 0;

/// Who takes part.
pub(crate) struct Members {
    gossip: Gossip,
    daemons: Arc<Mutex<Daemons>>,
}

#[derive(Default)]
struct Daemons {
    by_node: BTreeMap<NodeId, Daemon>,
    /// The highest number that was given.
    last: NodeId,
}

struct Daemon {
    host: String,
    address: SocketAddr,
    link: Link,
    is_silent: bool,
}

fn lock(daemons: &Mutex<Daemons>) -> MutexGuard<'_, Daemons> {
    daemons.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Members {
    /// Takes part from now on, as node 0.
    ///
    /// # Errors
    /// There is no socket, or no thread.
    pub(crate) fn begin(secret: Secret) -> io::Result<Self> {
        let (verdicts, heard) = channel();
        let part = Part { secret, me: SELF, incarnation: 1, peers: BTreeMap::new() };
        let gossip = Gossip::begin(part, bind_datagrams()?, move |verdict| {
            let _ = verdicts.send(verdict); // nobody listens once the run has ended
        })?;
        let daemons = Arc::new(Mutex::new(Daemons::default()));
        let known = Arc::clone(&daemons);
        thread::Builder::new().spawn(move || end_silent_links(&heard, &known))?;
        Ok(Self { gossip, daemons })
    }

    /// A daemon has said hello, from this address. Returns its number; `None`: it takes no part.
    pub(crate) fn join(&self, hello: &DaemonHello, from: IpAddr, link: &Link) -> Option<NodeId> {
        let port = u16::try_from(hello.port).ok().filter(|port| *port != 0)?;
        let address = SocketAddr::new(from, port);
        let mut daemons = lock(&self.daemons);
        let node =
            NodeId::try_from(hello.node).ok().filter(|node| (1..=daemons.last).contains(node));
        let node = node.or_else(|| daemons.last.checked_add(1)).filter(|node| *node < NODES_MAX)?;
        daemons.last = daemons.last.max(node);
        let others: Vec<(NodeId, SocketAddr, Link)> = daemons
            .by_node
            .iter()
            .filter(|(other, _)| **other != node)
            .map(|(other, daemon)| (*other, daemon.address, Arc::clone(&daemon.link)))
            .collect();
        let daemon =
            Daemon { host: hello.host.clone(), address, link: Arc::clone(link), is_silent: false };
        daemons.by_node.insert(node, daemon);
        drop(daemons);
        self.gossip.add_peer(node, address);
        let port = u32::from(self.gossip.address().port());
        // Who does not hear this has gone, and its reading thread sees that.
        let _ = say(link, &Joined { node: node.into(), port }.into());
        for (other, there, its_link) in others {
            let _ = say(link, &peer(other, there).into());
            let _ = say(&its_link, &peer(node, address).into());
        }
        Some(node)
    }

    /// How the daemons' hosts fare, as far as they have told. Blocks for a second at most.
    pub(crate) fn loads(&self) -> BTreeMap<String, HostLoad> {
        let told: BTreeMap<NodeId, Load> = self.gossip.loads().into_iter().collect();
        let daemons = lock(&self.daemons);
        let of = |(node, daemon): (&NodeId, &Daemon)| {
            told.get(node).map(|load| (daemon.host.clone(), hosts::told(*load)))
        };
        daemons.by_node.iter().filter_map(of).collect()
    }

    /// The line to a daemon has ended. Returns whether that was because its host is silent.
    pub(crate) fn leave(&self, node: NodeId, link: &Link) -> bool {
        let mut daemons = lock(&self.daemons);
        // It may be back already, over another line.
        let is_its_own = |daemon: &Daemon| Arc::ptr_eq(&daemon.link, link);
        if !daemons.by_node.get(&node).is_some_and(is_its_own) {
            return false;
        }
        daemons.by_node.remove(&node).is_some_and(|daemon| daemon.is_silent)
    }
}

fn peer(node: NodeId, address: SocketAddr) -> Peer {
    Peer { node: node.into(), address: address.to_string() }
}

/// Until the membership ends. A thread of its own: a line that somebody writes to must be waited
/// for.
fn end_silent_links(heard: &Receiver<Verdict>, daemons: &Mutex<Daemons>) {
    for verdict in heard {
        if verdict.state != State::Down {
            continue;
        }
        let link = lock(daemons).by_node.get_mut(&verdict.node).map(|daemon| {
            daemon.is_silent = true;
            Arc::clone(&daemon.link)
        });
        if let Some(link) = link {
            link.lock().unwrap_or_else(PoisonError::into_inner).end();
        }
    }
}
