// SPDX-License-Identifier: Apache-2.0
//! Where redundancy lies: sets of nodes that share parities, and partners that hold copies; and
//! which failures it survives.
//!
//! A set that has two members behind one switch is broken by the loss of that switch. So sets are
//! filled over the groups: a node joins a set in which nobody shares a group with it, and where
//! there is none, the set where the shared groups fail least often.
//!
//! Survival is decided by looking at the nodes of each component, not by a formula: placement
//! decides (FFMK 2019).

use crate::topology::{Class, Lost, Scope, Topology};

/// How redundancy is laid over the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Over the failure groups: a group takes at most one member of a set where that can be.
    Groups,
    /// Neighbours in the order of hosts, as libraries do that are told no groups.
    Hosts,
    /// By a permutation from this seed: blind, but not by neighbourhood.
    Shuffled(u64),
}

/// The kinds of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On the node itself.
    Local,
    /// A parity over a set of nodes.
    Xor {
        /// Members of a set.
        set: u32,
    },
    /// Several parities over a set of nodes.
    Rs {
        /// Members of a set.
        set: u32,
        /// Lost members that are survived.
        parities: u32,
    },
    /// A copy on another node.
    Partner,
    /// A directory that all nodes see.
    Shared {
        /// Whether its contents outlive an outage of the whole system; a burst buffer's do not.
        survives_system: bool,
    },
    /// A bucket elsewhere.
    Object,
}

impl Kind {
    /// Whether it lies on the nodes of the job.
    pub fn is_on_nodes(self) -> bool {
        !matches!(self, Self::Shared { .. } | Self::Object)
    }
}

/// A level with its sets or partners chosen.
#[derive(Clone, Debug)]
pub struct Placed {
    kind: Kind,
    /// Set of each node, or its partner.
    of_node: Vec<u32>,
}

impl Placed {
    /// Chooses sets or partners.
    pub fn new(kind: Kind, topology: &Topology, classes: &[Class], order: Order) -> Self {
        let of_node = match kind {
            Kind::Xor { set } | Kind::Rs { set, .. } => sets(topology, classes, order, set),
            Kind::Partner => partners(topology, order),
            Kind::Local | Kind::Shared { .. } | Kind::Object => Vec::new(),
        };
        Self { kind, of_node }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Set of each node, or its partner; empty for levels that have neither.
    pub fn of_node(&self) -> &[u32] {
        &self.of_node
    }

    /// Whether what lies there can be restored without what the failure takes.
    pub fn survives(&self, lost: Lost) -> bool {
        match (self.kind, lost) {
            (Kind::Shared { survives_system }, Lost::All) => survives_system,
            (Kind::Shared { .. } | Kind::Object, _) | (_, Lost::Nothing) => true,
            (Kind::Local, _) | (_, Lost::All) => false,
            (Kind::Xor { .. }, Lost::Nodes(nodes)) => self.most_of_a_set(nodes) <= 1,
            (Kind::Rs { parities, .. }, Lost::Nodes(nodes)) => {
                self.most_of_a_set(nodes) <= parities
            }
            (Kind::Partner, Lost::Nodes(nodes)) => {
                nodes.iter().all(|node| nodes.binary_search(&self.of_node[*node as usize]).is_err())
            }
        }
    }

    /// How many further losses, each of one of `others` nodes, break it once a node is lost:
    /// (losses, nodes). `None`: it has nothing that single nodes can break.
    pub fn further_losses(&self) -> Option<(u32, u32)> {
        match self.kind {
            Kind::Xor { set } => Some((1, set.saturating_sub(1))),
            Kind::Rs { set, parities } => Some((parities, set.saturating_sub(1))),
            Kind::Partner => Some((1, 2)),
            Kind::Local | Kind::Shared { .. } | Kind::Object => None,
        }
    }

    fn most_of_a_set(&self, nodes: &[u32]) -> u32 {
        let mut sets: Vec<u32> = nodes.iter().map(|node| self.of_node[*node as usize]).collect();
        sets.sort_unstable();
        let runs = sets.chunk_by(|a, b| a == b).map(<[u32]>::len);
        runs.max().and_then(|most| u32::try_from(most).ok()).unwrap_or(0)
    }
}

/// The set of each node. All sets have `size` members or one less, as even as the number of nodes
/// allows.
fn sets(topology: &Topology, classes: &[Class], order: Order, size: u32) -> Vec<u32> {
    let nodes = topology.nodes();
    let count = nodes.div_ceil(size.max(1)).max(1);
    match order {
        Order::Hosts => in_turn(&(0..nodes).collect::<Vec<_>>(), count),
        Order::Shuffled(seed) => in_turn(&shuffled(nodes, seed), count),
        Order::Groups => over_groups(topology, classes, count),
    }
}

/// Neighbours in `order` into one set.
fn in_turn(order: &[u32], count: u32) -> Vec<u32> {
    let mut set_of = vec![0; order.len()];
    let total = order.len() as u64;
    for (at, node) in (0u64..).zip(order) {
        let set = at * u64::from(count) / total.max(1);
        set_of[*node as usize] = u32::try_from(set).unwrap_or(0);
    }
    set_of
}

/// A permutation that is the same for the same seed: Fisher and Yates over splitmix64.
fn shuffled(nodes: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut order: Vec<u32> = (0..nodes).collect();
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let other = usize::try_from(mixed % (last as u64 + 1)).unwrap_or(0);
        order.swap(last, other);
    }
    order
}

/// How often the groups of a grouping fail, one of them, per second; 0 if the model has no such
/// class.
fn group_rate(classes: &[Class], grouping: usize) -> f64 {
    let of_it = classes.iter().filter(|class| class.scope == Scope::Group(grouping));
    of_it.map(|class| 1.0 / class.mttf_s).sum()
}

/// Nodes sorted by group, the largest groups first, so that each group is one run if groupings are
/// nested.
fn by_group(topology: &Topology) -> Vec<u32> {
    let mut groupings: Vec<usize> = (0..topology.groupings()).collect();
    groupings.sort_by_key(|grouping| std::cmp::Reverse(topology.largest(*grouping)));
    let mut order: Vec<u32> = (0..topology.nodes()).collect();
    let key = |node: u32| -> Vec<u32> {
        groupings.iter().map(|grouping| topology.group_of(*grouping, node)).collect()
    };
    order.sort_by_cached_key(|node| (key(*node), *node));
    order
}

/// How many sets a node tries before it takes the best of those seen.
const TRIES: u32 = 64;

/// The set of each node, of so many sets, which are filled over the groups.
#[must_use]
pub fn over_groups(topology: &Topology, classes: &[Class], count: u32) -> Vec<u32> {
    let order = by_group(topology);
    let rates: Vec<f64> =
        (0..topology.groupings()).map(|grouping| group_rate(classes, grouping)).collect();
    let full = order.len().div_ceil(count as usize);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); count as usize];
    let mut set_of = vec![0; order.len()];
    // What joining costs: how often groups fail that this node shares with members.
    let shared = |members: &[u32], node: u32| -> f64 {
        let of = |grouping: usize| {
            let group = topology.group_of(grouping, node);
            let mates = members.iter().filter(|m| topology.group_of(grouping, **m) == group);
            rates[grouping] * mates.count() as f64
        };
        (0..topology.groupings()).map(of).sum()
    };
    for (at, node) in (0u32..).zip(&order) {
        let candidates = (0..count.min(TRIES)).map(|step| (at + step) % count);
        let room = candidates.filter(|set| members[*set as usize].len() < full);
        let mut best: Option<(f64, u32)> = None;
        for set in room {
            let cost = shared(&members[set as usize], *node);
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, set));
            }
            if cost <= 0.0 {
                break;
            }
        }
        let free = || (0..count).find(|set| members[*set as usize].len() < full).unwrap_or(0);
        let set = best.map_or_else(free, |(_, set)| set);
        members[set as usize].push(*node);
        set_of[*node as usize] = set;
    }
    set_of
}

/// The partner of each node.
fn partners(topology: &Topology, order: Order) -> Vec<u32> {
    let nodes = topology.nodes();
    match order {
        Order::Hosts => around(&(0..nodes).collect::<Vec<_>>(), 1),
        Order::Shuffled(seed) => around(&shuffled(nodes, seed), 1),
        Order::Groups => {
            let order = by_group(topology);
            around(&order, hops(topology).first().copied().unwrap_or(1))
        }
    }
}

fn around(order: &[u32], hop: u32) -> Vec<u32> {
    let mut partner_of = vec![0; order.len()];
    for (at, node) in order.iter().enumerate() {
        partner_of[*node as usize] = order[(at + hop as usize) % order.len()];
    }
    partner_of
}

/// Distances to partners, along the nodes sorted by group, that leave every group; a rotating
/// partner takes one after the other. Never empty with two nodes or more.
pub fn hops(topology: &Topology) -> Vec<u32> {
    const ROTATION: u32 = 4;
    let nodes = topology.nodes();
    let widest = (0..topology.groupings()).map(|grouping| topology.largest(grouping)).max();
    let widest = widest.unwrap_or(1).max(1);
    let mut hops: Vec<u32> = (0..ROTATION)
        .map(|turn| nodes / 2 + turn * widest)
        .filter(|hop| *hop >= widest && *hop < nodes && nodes - hop >= widest)
        .collect();
    if hops.is_empty() && nodes > 1 {
        hops.push((nodes / 2).max(1));
    }
    hops
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
