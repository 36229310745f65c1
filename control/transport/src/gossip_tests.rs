// SPDX-License-Identifier: Apache-2.0
//! Several nodes on the loopback, in real time. Verdicts are waited for, never their time.
#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeSet;

const LONG: Duration = Duration::from_secs(60);

type Heard = (NodeId, Verdict);

fn begin(
    me: NodeId,
    secret: &Secret,
    peers: BTreeMap<NodeId, SocketAddr>,
    heard: &Sender<Heard>,
) -> Gossip {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let part = Part { secret: secret.clone(), me, incarnation: 0, peers };
    let heard = heard.clone();
    let told = move |verdict| {
        let _ = heard.send((me, verdict));
    };
    Gossip::begin(part, socket, told).unwrap()
}

/// Node 0 and others, who know of it; the coordinator tells each of the others.
fn cluster(count: NodeId, secret: &Secret, heard: &Sender<Heard>) -> BTreeMap<NodeId, Gossip> {
    let mut nodes = BTreeMap::from([(0, begin(0, secret, BTreeMap::new(), heard))]);
    for me in 1..count {
        let known = nodes.iter().map(|(node, gossip)| (*node, gossip.address())).collect();
        let own = begin(me, secret, known, heard);
        for gossip in nodes.values() {
            gossip.add_peer(me, own.address());
        }
        nodes.insert(me, own);
    }
    nodes
}

/// Waits until each of `by` has said this of `node`. Returns all that was said meanwhile.
fn wait(heard: &Receiver<Heard>, by: &[NodeId], node: NodeId, state: State) -> Vec<Heard> {
    let mut missing: BTreeSet<NodeId> = by.iter().copied().collect();
    let mut said = Vec::new();
    while !missing.is_empty() {
        let (who, verdict) = heard.recv_timeout(LONG).expect("a verdict within a minute");
        if verdict == (Verdict { node, state }) {
            missing.remove(&who);
        }
        said.push((who, verdict));
    }
    said
}

#[test]
fn the_death_of_a_node_becomes_known_to_all_and_strangers_change_nothing() {
    let secret = Secret::generate().unwrap();
    let (sender, heard) = channel();
    let mut nodes = cluster(5, &secret, &sender);
    for node in 0..5 {
        let others: Vec<NodeId> = (0..5).filter(|&other| other != node).collect();
        for by in others {
            nodes[&by].add_peer(node, nodes[&node].address());
        }
    }
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut forged = Guard::new(&[1; 32], 900, 9);
    for to in [0, 1] {
        let address = nodes[&to].address();
        stranger.send_to(&forged.seal(to, b"anything"), address).unwrap();
        stranger.send_to(&[0; 2000], address).unwrap();
    }
    let mut said = wait(&heard, &[0, 1, 2, 4], 3, State::Up);
    drop(nodes.remove(&3));
    said.extend(wait(&heard, &[0, 1, 2, 4], 3, State::Down));
    assert!(said.iter().all(|(_, verdict)| verdict.node < 5), "{said:?}");
}

#[test]
fn a_node_that_comes_back_under_the_next_incarnation_is_there_again() {
    let secret = Secret::generate().unwrap();
    let (sender, heard) = channel();
    let mut nodes = cluster(2, &secret, &sender);
    let _ = wait(&heard, &[0], 1, State::Up);
    assert!(nodes[&1].announce_standstill(Duration::ZERO));
    drop(nodes.remove(&1));
    let _ = wait(&heard, &[0], 1, State::Down);
    let peers = BTreeMap::from([(0, nodes[&0].address())]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let part = Part { secret, me: 1, incarnation: 1, peers };
    let again = Gossip::begin(part, socket, |_| {}).unwrap();
    again.set_load(Load { ranks: 3, ..Load::default() });
    let _ = wait(&heard, &[0], 1, State::Up);
}
