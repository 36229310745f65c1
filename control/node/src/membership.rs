// SPDX-License-Identifier: Apache-2.0
//! This host's part in the membership of the run. The coordinator gives the number and says who
//! else is there; what is thought of others here, nobody asks.

use fermata_membership::NodeId;
use fermata_transport::{Gossip, Part, Secret, bind_datagrams};
use fermata_types::{Joined, Peer};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The coordinator's number.
const COORDINATOR: NodeId = 0;

/// A part that begins when the coordinator has given it a number.
pub(crate) struct Membership {
    secret: Secret,
    /// Until then.
    socket: Option<UdpSocket>,
    port: u16,
    node: NodeId,
    gossip: Option<Gossip>,
    /// Where the coordinator is, by the line to it.
    coordinator: Option<IpAddr>,
}

impl Membership {
    pub(crate) fn new(secret: Secret) -> Self {
        // Without datagrams this host takes no part: that it dies is noticed later.
        let socket = bind_datagrams().ok();
        let port = socket.as_ref().and_then(|socket| socket.local_addr().ok());
        let port = port.map_or(0, |address| address.port());
        Self { secret, socket, port, node: 0, gossip: None, coordinator: None }
    }

    /// What the coordinator is told: the number, 0 if there is none yet, and the port, 0 if there
    /// is none.
    pub(crate) fn told(&self) -> (u32, u32) {
        (self.node.into(), self.port.into())
    }

    /// There is a line to the coordinator.
    pub(crate) fn connected(&mut self, coordinator: Option<IpAddr>) {
        self.coordinator = coordinator;
    }

    pub(crate) fn joined(&mut self, joined: &Joined) {
        let (Ok(node), Ok(port)) = (NodeId::try_from(joined.node), u16::try_from(joined.port))
        else {
            return;
        };
        let Some(there) = self.coordinator.map(|ip| SocketAddr::new(ip, port)) else { return };
        if let Some(gossip) = &self.gossip {
            return gossip.add_peer(COORDINATOR, there);
        }
        let Some(socket) = self.socket.take() else { return };
        self.node = node;
        let peers = BTreeMap::from([(COORDINATOR, there)]);
        let part = Part { secret: self.secret.clone(), me: node, incarnation: 1, peers };
        self.gossip = Gossip::begin(part, socket, |_| {}).ok();
    }

    pub(crate) fn add(&self, peer: &Peer) {
        if let (Some(gossip), Ok(node), Ok(address)) =
            (&self.gossip, NodeId::try_from(peer.node), peer.address.parse())
        {
            gossip.add_peer(node, address);
        }
    }
}
