// SPDX-License-Identifier: Apache-2.0
//! Which entries a datagram carries beside the sender's own: those that are asked for, then what
//! has changed and has not been said often enough, then the newest, and one or two in turn, so that
//! whoever has missed something hears of it in the end.
//!
//! The newest, because they are evidence of life, and because what is old is known already (Amar et
//! al. 2009). What has changed a number of times that grows with the logarithm of the number of
//! members: so each hears of it with high probability (SWIM, section 4.1).

use crate::NodeId;
use crate::member::{Known, State};
use crate::wire::Entry;

/// All that is known, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Option<Known>>,
    /// When each was known to live last; 0: it is down, or there is none. Beside `slots`, because
    /// each datagram looks at all of it.
    alive: Vec<u64>,
    /// Those of which there are urgent news.
    urgent: Vec<NodeId>,
    count: usize,
    /// The next node in turn.
    turn: usize,
}

impl Table {
    pub(crate) fn get(&self, node: NodeId) -> Option<&Known> {
        self.slots.get(usize::from(node))?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, node: NodeId) -> Option<&mut Known> {
        self.slots.get_mut(usize::from(node))?.as_mut()
    }

    pub(crate) fn insert(&mut self, node: NodeId, known: Known) {
        let at = usize::from(node);
        if self.slots.len() <= at {
            self.slots.resize(at + 1, None);
            self.alive.resize(at + 1, 0);
        }
        self.count += usize::from(self.slots[at].is_none());
        self.slots[at] = Some(known);
        self.note(node);
    }

    /// After something has changed that `Known::alive_at` or the state depends on.
    pub(crate) fn note(&mut self, node: NodeId) {
        let of =
            |known: &Known| if known.state == State::Down { 0 } else { known.alive_at().max(1) };
        if let Some(Some(known)) = self.slots.get(usize::from(node)) {
            self.alive[usize::from(node)] = of(known);
        }
    }

    /// There are news of it that datagrams carry first from now on.
    pub(crate) fn make_urgent(&mut self, node: NodeId) {
        let spread = self.spread();
        if let Some(known) = self.get_mut(node) {
            known.urgent = spread;
            if !self.urgent.contains(&node) {
                self.urgent.push(node);
            }
        }
    }

    /// The members that are not down.
    pub(crate) fn living(&self) -> impl Iterator<Item = NodeId> {
        let all = (0..).zip(&self.alive);
        all.filter(|(_, alive)| **alive > 0).map(|(node, _)| node)
    }

    /// By number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Known)> {
        let all = (0..).zip(&self.slots);
        all.filter_map(|(node, slot)| slot.as_ref().map(|known| (node, known)))
    }

    /// How many datagrams carry what has changed: more where there are more to hear it.
    fn spread(&self) -> u8 {
        let doublings = (self.count + 2).ilog2();
        u8::try_from(4 + 3 * doublings).unwrap_or(u8::MAX)
    }

    /// What is told to `to`: `own`, and at most `most` entries more, `first` among them.
    pub(crate) fn window(
        &mut self,
        own: Entry,
        to: NodeId,
        first: &[NodeId],
        most: usize,
        now: u64,
    ) -> Vec<Entry> {
        let mut chosen: Vec<NodeId> =
            first.iter().copied().filter(|&node| self.get(node).is_some()).take(most).collect();
        self.add_urgent(&mut chosen, to, most);
        self.add_in_turn(&mut chosen, most);
        self.add_newest(&mut chosen, to, most);
        let known = chosen.iter().filter_map(|&node| Some(self.get(node)?.entry(node, now)));
        std::iter::once(own).chain(known).collect()
    }

    fn add_urgent(&mut self, chosen: &mut Vec<NodeId>, to: NodeId, most: usize) {
        let urgent = std::mem::take(&mut self.urgent);
        for &node in &urgent {
            let Some(known) = self.get_mut(node) else { continue };
            let knows_itself = node == to && known.state == State::Up;
            if chosen.len() >= most / 2 || knows_itself {
                continue;
            }
            known.urgent = known.urgent.saturating_sub(1);
            if !chosen.contains(&node) {
                chosen.push(node);
            }
        }
        let left = urgent.into_iter();
        self.urgent = left.filter(|&node| self.get(node).is_some_and(|k| k.urgent > 0)).collect();
    }

    fn add_in_turn(&mut self, chosen: &mut Vec<NodeId>, most: usize) {
        for _ in 0..=most / 24 {
            let Some(at) = (self.turn..self.slots.len())
                .chain(0..self.turn.min(self.slots.len()))
                .find(|&at| self.slots[at].is_some())
            else {
                return;
            };
            self.turn = at + 1;
            let node = NodeId::try_from(at).unwrap_or(NodeId::MAX);
            if chosen.len() < most && !chosen.contains(&node) {
                chosen.push(node);
            }
        }
    }

    fn add_newest(&self, chosen: &mut Vec<NodeId>, to: NodeId, most: usize) {
        let room = most.saturating_sub(chosen.len());
        if room == 0 {
            return;
        }
        let others = self.living().filter(|node| *node != to && !chosen.contains(node));
        let mut newest: Vec<(u64, NodeId)> =
            others.map(|node| (u64::MAX - self.alive[usize::from(node)], node)).collect();
        if newest.len() > room {
            newest.select_nth_unstable(room);
            newest.truncate(room);
        }
        chosen.extend(newest.into_iter().map(|(_, node)| node));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Load;

    fn entry(node: NodeId, beat: u64) -> Entry {
        Entry {
            node,
            incarnation: 0,
            beat,
            age_ms: 0,
            state: State::Up,
            frozen_ds: 0,
            load_age_ds: 0,
            load: Load::default(),
        }
    }

    fn table(count: NodeId) -> Table {
        let mut table = Table::default();
        for node in 1..count {
            let now = 1000 + u64::from(node);
            table.insert(node, Known::new(&entry(node, now), now));
        }
        table
    }

    fn nodes(entries: &[Entry]) -> Vec<NodeId> {
        entries.iter().map(|entry| entry.node).collect()
    }

    #[test]
    fn few_are_told_whole_and_the_own_entry_comes_first() {
        let mut told = nodes(&table(5).window(entry(0, 9), 3, &[], 40, 2000));
        assert_eq!(told[0], 0);
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2, 4], "and none about the one who is told");
    }

    #[test]
    fn of_many_the_newest_are_told_and_all_in_turn() {
        let mut table = table(100);
        let mut seen = [false; 100];
        for _ in 0..100 {
            let told = nodes(&table.window(entry(0, 9), 1, &[], 8, 2000));
            assert_eq!(told.len(), 9);
            assert!((93..100).all(|node| told.contains(&node)));
            told.iter().for_each(|&node| seen[usize::from(node)] = true);
        }
        assert!(seen.iter().all(|&was| was));
    }

    #[test]
    fn news_come_before_the_newest_as_often_as_they_have_to() {
        let mut table = table(100);
        let spread = table.spread();
        table.make_urgent(5);
        for said in 0..2 * spread {
            let told = nodes(&table.window(entry(0, 9), 1, &[], 4, 2000));
            assert!(said >= spread || told.contains(&5), "{said}");
        }
        assert_eq!(table.get(5).unwrap().urgent, 0);
    }

    #[test]
    fn what_is_asked_for_is_always_there() {
        let told = nodes(&table(100).window(entry(0, 9), 7, &[7, 50], 2, 2000));
        assert_eq!(told, [0, 7, 50]);
    }
}
