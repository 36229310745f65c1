// SPDX-License-Identifier: Apache-2.0
//! Who watches whom: the members stand on a ring, in an order that a hash makes of their numbers,
//! so that nodes of one rack are not neighbours. A node tells its next `watchers` on the ring that
//! it lives; so each node watches those before it for which it is one of these.
//!
//! Nodes that are suspected or have said that they stand still are passed over and do not count:
//! whoever stood behind them watches in their place, and where several neighbours die at once,
//! those before them are still watched. All
//! compute the same from the same knowledge; where knowledge differs, a node that is watched and
//! does not know it answers when it is asked.

use crate::NodeId;

/// A node's place on the ring: splitmix64 of its number (Steele, Lea and Flood 2014).
fn place(node: NodeId) -> (u64, NodeId) {
    let mut z = u64::from(node).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31), node)
}

/// The members as one of them sees them, in the order of the ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring {
    /// All but `me`, beginning behind it, and whether they can watch.
    others: Vec<(NodeId, bool)>,
}

impl Ring {
    /// Of `me` and others, each with whether it can watch. Nodes that are down are none.
    pub(crate) fn new(me: NodeId, others: impl Iterator<Item = (NodeId, bool)>) -> Self {
        let mine = place(me);
        let placed = others.map(|(node, can_watch)| (place(node), can_watch));
        let mut placed: Vec<_> = placed.map(|(at, can_watch)| (at < mine, at, can_watch)).collect();
        placed.sort_unstable();
        Self { others: placed.into_iter().map(|(_, (_, node), can)| (node, can)).collect() }
    }

    /// Whom `me` tells that it lives: the next `count` that can watch.
    pub(crate) fn watchers(&self, count: usize) -> impl Iterator<Item = NodeId> + '_ {
        let good = self.others.iter().filter(|(_, is_good)| *is_good);
        good.take(count).map(|&(node, _)| node)
    }

    /// Whether `watcher`, who is not `me`, is one of those whom `node` tells that it lives.
    pub(crate) fn is_watcher(&self, watcher: NodeId, node: NodeId, count: usize) -> bool {
        let Some(at) = self.others.iter().position(|&(other, _)| other == node) else {
            return false;
        };
        let (before, behind) = self.others.split_at(at);
        let behind = behind.iter().skip(1).map(|&(other, can)| (Some(other), can));
        let mut passed = 0;
        for (other, can_watch) in behind
            .chain([(None, true)]) // `me`
            .chain(before.iter().map(|&(other, can)| (Some(other), can)))
        {
            if passed >= count {
                return false;
            }
            if other == Some(watcher) {
                return true;
            }
            passed += usize::from(can_watch);
        }
        false
    }

    /// Whom `me` watches: those before it up to `count` that can watch, and all between them.
    pub(crate) fn watched(&self, count: usize) -> impl Iterator<Item = NodeId> + '_ {
        let mut between = 0;
        let near = self.others.iter().rev().take_while(move |&&(_, is_good)| {
            let is_near = between < count;
            between += usize::from(is_good);
            is_near
        });
        near.map(|&(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn ring(me: NodeId, count: NodeId, suspects: &[NodeId]) -> Ring {
        let others = (0..count).filter(|&node| node != me);
        Ring::new(me, others.map(|node| (node, !suspects.contains(&node))))
    }

    #[test]
    fn whoever_is_told_watches() {
        for suspects in [&[][..], &[3, 4, 5, 6], &[1, 9, 17, 2]] {
            for count in [2, 3, 5, 20] {
                let told: BTreeSet<(NodeId, NodeId)> = (0..count)
                    .flat_map(|me| {
                        let to: Vec<NodeId> = ring(me, count, suspects).watchers(3).collect();
                        to.into_iter().map(move |to| (me, to))
                    })
                    .collect();
                let watching: BTreeSet<(NodeId, NodeId)> = (0..count)
                    .filter(|me| !suspects.contains(me))
                    .flat_map(|me| {
                        let from: Vec<NodeId> = ring(me, count, suspects).watched(3).collect();
                        from.into_iter().map(move |from| (from, me))
                    })
                    .collect();
                assert_eq!(told, watching, "{count} nodes, suspects {suspects:?}");
            }
        }
    }

    #[test]
    fn all_know_who_watches_whom() {
        let suspects = [3, 9, 1];
        for me in (0..20).filter(|me| !suspects.contains(me)) {
            let whole = ring(me, 20, &suspects);
            for watcher in (0..20).filter(|&other| other != me && !suspects.contains(&other)) {
                let watched: Vec<NodeId> = ring(watcher, 20, &suspects).watched(3).collect();
                for node in (0..20).filter(|&node| node != me && node != watcher) {
                    assert_eq!(whole.is_watcher(watcher, node, 3), watched.contains(&node));
                }
            }
        }
    }

    #[test]
    fn every_node_has_three_watchers_and_suspects_are_none() {
        let suspects: Vec<NodeId> = (0..8).collect();
        let mut watchers: BTreeMap<NodeId, usize> = BTreeMap::new();
        for me in 8..32 {
            for node in ring(me, 32, &suspects).watched(3) {
                *watchers.entry(node).or_default() += 1;
            }
        }
        assert!((0..32).all(|node| watchers[&node] == 3), "{watchers:?}");
    }
}
