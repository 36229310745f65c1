// SPDX-License-Identifier: Apache-2.0
//! This host's part in the membership of the run. The coordinator gives the number and says who
//! else is there; what is thought of others here, nobody asks.

use fermata_membership::{Load, NodeId};
use fermata_sysio::{HostLoad, LoadMeter};
use fermata_transport::{Gossip, Part, Secret, bind_datagrams};
use fermata_types::{Joined, Peer};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The coordinator's number.
const COORDINATOR: NodeId = 0;
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A part that begins when the coordinator has given it a number.
pub(crate) struct Membership {
    secret: Secret,
    /// Until then.
    socket: Option<UdpSocket>,
    port: u16,
    node: NodeId,
    gossip: Option<Arc<Gossip>>,
    /// Where the coordinator is, by the line to it.
    coordinator: Option<IpAddr>,
    /// Of the disk whose free space is told.
    directory: PathBuf,
}

impl Membership {
    pub(crate) fn new(secret: Secret, directory: PathBuf) -> Self {
        // Without datagrams this host takes no part: that it dies is noticed later.
        let socket = bind_datagrams().ok();
        let port = socket.as_ref().and_then(|socket| socket.local_addr().ok());
        let port = port.map_or(0, |address| address.port());
        Self { secret, socket, port, node: 0, gossip: None, coordinator: None, directory }
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
        self.gossip = Gossip::begin(part, socket, |_| {}).ok().map(Arc::new);
        if let Some(gossip) = &self.gossip {
            tell_loads(gossip, &self.directory);
        }
    }

    pub(crate) fn add(&self, peer: &Peer) {
        if let (Some(gossip), Ok(node), Ok(address)) =
            (&self.gossip, NodeId::try_from(peer.node), peer.address.parse())
        {
            gossip.add_peer(node, address);
        }
    }
}

/// Tells how this host fares, until nobody takes part any more. Without a thread nobody hears it.
fn tell_loads(gossip: &Arc<Gossip>, directory: &Path) {
    let (gossip, mut meter) = (Arc::downgrade(gossip), LoadMeter::new(directory));
    let work = move || {
        loop {
            thread::sleep(LOOK_EVERY);
            let Some(gossip) = gossip.upgrade() else { return };
            gossip.set_load(load(meter.look()));
        }
    };
    let _ = thread::Builder::new().name("load".into()).spawn(work);
}

/// As datagrams have it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 1000")]
fn load(seen: HostLoad) -> Load {
    let mib = |bytes: Option<u64>| u32::try_from(bytes.unwrap_or(0) >> 20).unwrap_or(u32::MAX);
    Load {
        cpu: (1000.0 * seen.cpu.unwrap_or(0.0).clamp(0.0, 1.0)).round() as u16,
        memory_mib: mib(seen.memory),
        space_mib: mib(seen.space),
        ..Load::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_in_mib_and_thousandths() {
        let seen = HostLoad { cpu: Some(0.2504), memory: Some(3 << 20), space: None };
        let told = load(seen);
        assert_eq!((told.cpu, told.memory_mib, told.space_mib), (250, 3, 0));
    }
}
