// SPDX-License-Identifier: Apache-2.0
//! Up-correction: a reduction that f dead processes cannot spoil, for operations that commute.
//!
//! The root has f + 1 subtrees whose sizes differ by at most one. The processes p of one *group*,
//! (p - 1) / (f + 1), stand at the same place of each subtree and first exchange their values, so
//! that each subtree alone holds everybody's. Then each subtree reduces to its top as usual and
//! reports with its value whether somebody in it stayed silent. At most f subtrees have a dead
//! process; the root takes the first whole one. If the last group is short the root belongs to it.
//!
//! A dead process costs one timeout in all, whatever their number: the groups wait at the same
//! time, and a parent waits one step longer per level.
//!
//! The value of a process that dies meanwhile is in the result as a whole or not at all.
//!
//! Source: Küttler, Härtig, "Fault-tolerant reduce and allreduce operations based on correction"
//! (arXiv, 2022): groups, I(f)-trees, the theorem, and the failure information in one bit.

use crate::ftco::{Timeouts, Value};
use crate::tree::Tree;
use crate::{Actions, Core, Event, Rank, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Who exchanges and reduces with whom.
#[derive(Clone, Debug)]
pub struct Layout {
    size: Rank,
    faults: u32,
    /// Of one subtree, over the places of its processes; the largest.
    places: Tree,
}

impl Layout {
    /// For `size` processes of which `faults` may die.
    #[must_use]
    pub fn new(size: Rank, faults: u32) -> Self {
        let places = (size.max(2) - 1).div_ceil(faults + 1);
        Self { size, faults, places: Tree::binomial(places) }
    }

    /// Processes.
    #[must_use]
    pub fn size(&self) -> Rank {
        self.size
    }

    fn width(&self) -> u32 {
        self.faults + 1
    }

    /// Processes of the last group, if that is short, without the root; else 0.
    fn rest(&self) -> u32 {
        (self.size - 1) % self.width()
    }

    /// The others of a process's group.
    pub fn group(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        let (width, rest) = (self.width(), self.rest());
        let short = self.size - rest;
        let first = if rank == 0 { short } else { rank - (rank - 1) % width };
        let end = (first + width).min(self.size);
        let root = (rest > 0 && first == short).then_some(0);
        root.into_iter().chain(first..end).filter(move |&member| member != rank)
    }

    /// The subtree of a process other than the root, from 0.
    fn subtree(&self, rank: Rank) -> u32 {
        (rank - 1) % self.width()
    }

    fn place(&self, rank: Rank) -> u32 {
        (rank - 1) / self.width()
    }

    /// The children in the I(f)-tree.
    pub fn children(&self, rank: Rank) -> impl Iterator<Item = Rank> + '_ {
        let tops = if rank == 0 { self.width().min(self.size - 1) } else { 0 };
        let below = (rank > 0).then(|| {
            let subtree = self.subtree(rank);
            let inner = self.places.children(self.place(rank));
            inner.map(move |place| place * self.width() + subtree + 1)
        });
        (1..=tops).chain(below.into_iter().flatten()).filter(|&child| child < self.size)
    }

    /// The parent in the I(f)-tree; the root has none.
    #[must_use]
    pub fn parent(&self, rank: Rank) -> Option<Rank> {
        let place = self.place(rank.max(1));
        let above = self.places.parent(place);
        (rank > 0).then(|| above.map_or(0, |p| p * self.width() + self.subtree(rank) + 1))
    }

    /// Levels below a process.
    #[must_use]
    pub fn height(&self, rank: Rank) -> u32 {
        if rank == 0 { 1 + self.places.height(0) } else { self.places.height(self.place(rank)) }
    }

    /// Messages of a reduction in which nobody is dead: f (f+1) floor((n-1)/(f+1)) + a (a-1) + n-1
    /// with a = ((n-1) mod (f+1)) + 1.
    #[must_use]
    pub fn messages(&self) -> u64 {
        let [size, width, rest] = [self.size, self.width(), self.rest()].map(u64::from);
        (width - 1) * width * ((size - 1) / width) + (rest + 1) * rest + (size - 1)
    }
}

/// What all processes know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Who exchanges and reduces with whom.
    pub layout: Layout,
    /// When a silent process is taken for dead, counted from the beginning here. A step must be
    /// longer than a message takes and than processes enter the operation apart.
    pub timeouts: Timeouts,
}

/// What processes tell each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message<V> {
    /// To the others of the group: the sender's own value.
    Group(V),
    /// To the parent.
    Up {
        /// Of the subtree.
        value: V,
        /// Somebody in the subtree stayed silent.
        has_failed: bool,
    },
}

/// What a process has at the end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reduced<V> {
    /// At the root: the values of all that live, and of some that died meanwhile.
    Value(V),
    /// At the root: more processes are dead than the layout bears.
    TooManyFaults,
    /// Elsewhere: its part is done.
    Sent,
}

/// One process's part.
#[derive(Clone, Debug)]
pub struct Reduction<V> {
    setup: Arc<Setup>,
    me: Rank,
    /// Levels below it.
    levels: u32,
    own: V,
    /// Its own and what came of the group.
    value: V,
    /// Of the group and of the children: who is awaited.
    group: BTreeSet<Rank>,
    children: BTreeSet<Rank>,
    /// What came from the children, merged; at the root, the first whole subtree and its value.
    below: Option<V>,
    whole: Option<u32>,
    has_failed: bool,
    is_done: bool,
    began: Time,
}

type Doing<V> = Actions<Message<V>, Reduced<V>>;

impl<V: Value> Reduction<V> {
    /// Process `me` with its value. `dead` are not waited for.
    #[must_use]
    pub fn new(setup: Arc<Setup>, me: Rank, own: V, dead: &BTreeSet<Rank>) -> Self {
        let group = setup.layout.group(me).filter(|rank| !dead.contains(rank)).collect();
        let all: BTreeSet<_> = setup.layout.children(me).collect();
        let children: BTreeSet<_> = all.difference(dead).copied().collect();
        let has_failed = children.len() < all.len();
        let value = own.clone();
        let (below, whole) = (None, None);
        let levels = setup.layout.height(me);
        Self {
            setup,
            me,
            levels,
            own,
            value,
            group,
            children,
            below,
            whole,
            has_failed,
            is_done: false,
            began: 0,
        }
    }

    /// Whether its part is done.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Who has stayed silent so far.
    pub fn silent(&self) -> impl Iterator<Item = Rank> + '_ {
        self.group.iter().chain(&self.children).copied()
    }

    fn start(&mut self, now: Time, actions: &mut Doing<V>) {
        self.began = now;
        for &member in &self.group {
            actions.send(member, Message::Group(self.own.clone()));
        }
    }

    fn merge_below(&mut self, value: V) {
        match &mut self.below {
            Some(below) => below.merge(&value),
            empty => *empty = Some(value),
        }
    }

    fn receive(&mut self, from: Rank, message: Message<V>) {
        match message {
            Message::Group(value) => {
                if self.group.remove(&from) {
                    self.value.merge(&value);
                }
            }
            Message::Up { value, has_failed } => {
                if !self.children.remove(&from) {
                    return;
                }
                if self.me > 0 {
                    self.has_failed |= has_failed;
                    self.merge_below(value);
                } else if !has_failed && self.whole.is_none() {
                    self.whole = Some(self.setup.layout.subtree(from));
                    self.below = Some(value);
                }
            }
        }
    }

    /// The end of the wait for the group, and for the children.
    fn deadlines(&self) -> (Time, Time) {
        let timeouts = self.setup.timeouts;
        let group = self.began + timeouts.base;
        (group, group + Time::from(self.levels) * timeouts.step)
    }

    fn tick(&mut self, now: Time) {
        let (group, children) = self.deadlines();
        if now >= group {
            self.group.clear();
        }
        if now >= children && !self.children.is_empty() {
            self.children.clear();
            self.has_failed = true;
        }
    }

    /// Whether the root's result is certain, and what it is.
    fn conclude(&self) -> Option<Reduced<V>> {
        let layout = &self.setup.layout;
        if layout.size - 1 < layout.width() {
            // All are of the root's own group.
            return self.group.is_empty().then(|| Reduced::Value(self.value.clone()));
        }
        let (Some(subtree), Some(below)) = (self.whole, &self.below) else {
            return self.children.is_empty().then_some(Reduced::TooManyFaults);
        };
        if subtree < layout.rest() {
            return Some(Reduced::Value(below.clone()));
        }
        if !self.group.is_empty() {
            return None;
        }
        let mut value = self.value.clone();
        value.merge(below);
        Some(Reduced::Value(value))
    }

    fn look(&mut self, actions: &mut Doing<V>) {
        if self.is_done {
            return;
        }
        if self.me == 0 {
            actions.output = self.conclude();
            self.is_done = actions.output.is_some();
        } else if self.group.is_empty() && self.children.is_empty() {
            let mut value = self.value.clone();
            if let Some(below) = &self.below {
                value.merge(below);
            }
            let parent = self.setup.layout.parent(self.me).unwrap_or(0);
            actions.send(parent, Message::Up { value, has_failed: self.has_failed });
            actions.output = Some(Reduced::Sent);
            self.is_done = true;
        }
    }
}

impl<V: Value> Core for Reduction<V> {
    type Message = Message<V>;
    type Output = Reduced<V>;

    fn step(&mut self, event: Event<Message<V>>, now: Time, actions: &mut Doing<V>) {
        match event {
            Event::Start => self.start(now, actions),
            Event::Message { from, message } => self.receive(from, message),
            Event::Timer => self.tick(now),
            Event::Dead(rank) => {
                self.group.remove(&rank);
                self.has_failed |= self.children.remove(&rank);
            }
            Event::PortFree => return,
        }
        self.look(actions);
        if !self.is_done {
            let (group, children) = self.deadlines();
            actions.wake =
                Some(if self.group.is_empty() || now >= group { children } else { group });
        }
    }
}

impl<V> Reduction<V> {
    /// All that changes.
    fn state(&self) -> impl PartialEq + std::hash::Hash + '_
    where
        V: PartialEq + std::hash::Hash,
    {
        let awaited = (&self.group, &self.children);
        let held = (&self.own, &self.value, &self.below, self.whole);
        (self.me, awaited, held, self.has_failed, self.is_done)
    }
}

/// Two machines are equal if they do the same from now on.
impl<V: PartialEq + std::hash::Hash> PartialEq for Reduction<V> {
    fn eq(&self, other: &Self) -> bool {
        self.state() == other.state()
    }
}

impl<V: Eq + std::hash::Hash> Eq for Reduction<V> {}

impl<V: PartialEq + std::hash::Hash> std::hash::Hash for Reduction<V> {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.state().hash(hasher);
    }
}

#[cfg(test)]
#[path = "upward_tests.rs"]
mod tests;
