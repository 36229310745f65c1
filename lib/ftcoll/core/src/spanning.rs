// SPDX-License-Identifier: Apache-2.0
//! Spanning trees of the living processes, made online by corrected broadcasts, for operations that
//! are repeated. Several are kept, so that another one can be taken when a process dies.
//!
//! [`Generator`]: each process takes the first that brought it the broadcast for its parent and
//! tells it so. Gossip with different seeds gives different trees. When no more children can come,
//! the sizes and heights of the subtrees go up, and so everybody knows which child is a leaf.
//!
//! [`Cast`]: an allreduce along a kept tree. A child that stays silent is left out if it is a leaf.
//! If not, its parent reports a failure, and the root begins again along the next tree, where
//! the dead process may be a leaf. Who misses the verdict on the way down asks the root. If every
//! tree fails the operation ends without a value, and new trees are to be generated.
//!
//! Sources: FFMK's final report, section 3.2, "Framework for Collective Algorithms" (an independent
//! spanning tree generated online, recovery trivial with enough of them). The construction and the
//! rules of changing are our own.

use crate::broadcast::{self, Broadcast, Plan};
use crate::ftco::{Timeouts, Value};
use crate::{Actions, Core, Event, Rank, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The extent of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Processes.
    pub size: u32,
    /// Edges on the longest way down.
    pub height: u32,
}

/// One process's place in a spanning tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Branch {
    /// Its parent; the root has none.
    pub parent: Option<Rank>,
    /// Its children.
    pub children: BTreeMap<Rank, Extent>,
}

impl Branch {
    /// The extent of its own subtree.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let sizes = self.children.values().map(|child| child.size);
        let height = self.children.values().map(|child| child.height + 1).max();
        Extent { size: 1 + sizes.sum::<u32>(), height: height.unwrap_or(0) }
    }
}

/// What processes tell each other while a tree is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Growth {
    /// The broadcast.
    Cast(broadcast::Message),
    /// You are my parent.
    Adopt,
    /// My subtree.
    Extent(Extent),
}

/// One process's part in making a tree.
#[derive(Clone, Debug)]
pub struct Generator {
    cast: Broadcast,
    me: Rank,
    parent: Option<Rank>,
    children: BTreeMap<Rank, Option<Extent>>,
    /// When no more children can come: the broadcast is over everywhere.
    closed_at: Time,
    /// More time for each process that the subtree can be high.
    give_up_at: Time,
    is_done: bool,
    cast_actions: Actions<broadcast::Message, ()>,
}

impl Generator {
    /// Process `me` of a broadcast that is over at `closed_at`; the extents are up at `give_up_at`,
    /// when children that have not told theirs are left out.
    #[must_use]
    pub fn new(plan: Arc<Plan>, me: Rank, closed_at: Time, give_up_at: Time) -> Self {
        Self {
            cast: Broadcast::new(plan, me),
            me,
            parent: None,
            children: BTreeMap::new(),
            closed_at,
            give_up_at,
            is_done: false,
            cast_actions: Actions::default(),
        }
    }

    fn cast_step(
        &mut self,
        event: Event<broadcast::Message>,
        now: Time,
        actions: &mut Actions<Growth, Branch>,
    ) {
        self.cast.step(event, now, &mut self.cast_actions);
        for (to, message) in self.cast_actions.sends.drain(..) {
            actions.send(to, Growth::Cast(message));
        }
        if let Some(wake) = self.cast_actions.wake.take() {
            actions.wake_at(wake);
        }
        self.cast_actions.clear();
    }

    fn look(&mut self, now: Time, actions: &mut Actions<Growth, Branch>) {
        let is_root = self.me == 0;
        if self.is_done || now < self.closed_at || !(is_root || self.parent.is_some()) {
            return;
        }
        if now < self.give_up_at && self.children.values().any(Option::is_none) {
            actions.wake_at(self.give_up_at);
            return;
        }
        let told = self.children.iter().filter_map(|(&child, extent)| Some((child, (*extent)?)));
        let branch = Branch { parent: self.parent, children: told.collect() };
        if let Some(parent) = branch.parent {
            actions.send(parent, Growth::Extent(branch.extent()));
        }
        self.is_done = true;
        actions.output = Some(branch);
    }
}

impl Core for Generator {
    type Message = Growth;
    type Output = Branch;

    fn step(&mut self, event: Event<Growth>, now: Time, actions: &mut Actions<Growth, Branch>) {
        match event {
            Event::Message { from, message: Growth::Cast(message) } => {
                if self.me > 0 && self.parent.is_none() {
                    self.parent = Some(from);
                    actions.send(from, Growth::Adopt);
                }
                self.cast_step(Event::Message { from, message }, now, actions);
            }
            Event::Message { from, message: Growth::Adopt } => {
                self.children.insert(from, None);
            }
            Event::Message { from, message: Growth::Extent(extent) } => {
                self.children.insert(from, Some(extent));
            }
            Event::Start => self.cast_step(Event::Start, now, actions),
            Event::PortFree => self.cast_step(Event::PortFree, now, actions),
            Event::Timer => self.cast_step(Event::Timer, now, actions),
            Event::Dead(_) => {}
        }
        self.look(now, actions);
        if !self.is_done && now < self.closed_at {
            actions.wake_at(self.closed_at);
        }
    }
}

/// What all processes know of an operation along kept trees.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// When a silent child is taken for dead; by height, as in FTCO.
    pub timeouts: Timeouts,
    /// When the operation ends without a value.
    pub give_up: Time,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body<V> {
    /// Of a subtree; nothing if part of it is lost.
    Up(Option<V>),
    /// The verdict; nothing if every tree has failed.
    Down(Option<V>),
    /// Begin again along this tree.
    Again,
    /// To the root: what is the verdict?
    Ask,
}

/// A message of an attempt, which has a tree of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message<V> {
    /// Counts the trees.
    pub attempt: u32,
    /// What it says.
    pub body: Body<V>,
}

/// One process's part of an allreduce along kept trees, root 0. Its output is the result and the
/// attempt that gave it: take that many trees off the front for the next operation.
#[derive(Clone, Debug)]
pub struct Cast<V> {
    setup: Setup,
    me: Rank,
    trees: Arc<Vec<Branch>>,
    own: V,
    attempt: u32,
    /// When the operation and the attempt began here.
    began: Time,
    attempt_began: Time,
    /// Of the attempt: values of children, and who of them is awaited.
    value: Option<V>,
    awaited: BTreeMap<Rank, Extent>,
    has_sent: bool,
    has_asked: bool,
    verdict: Option<Option<V>>,
    /// Who asked before there was a verdict.
    askers: Vec<Rank>,
    parked: Vec<(Rank, Message<V>)>,
}

type Doing<V> = Actions<Message<V>, (u32, Option<V>)>;

impl<V: Value> Cast<V> {
    /// Process `me` with its value and its places in the trees.
    #[must_use]
    pub fn new(setup: Setup, me: Rank, trees: Arc<Vec<Branch>>, own: V) -> Self {
        Self {
            setup,
            me,
            trees,
            own,
            attempt: 0,
            began: 0,
            attempt_began: 0,
            value: None,
            awaited: BTreeMap::new(),
            has_sent: false,
            has_asked: false,
            verdict: None,
            askers: Vec::new(),
            parked: Vec::new(),
        }
    }

    fn branch(&self) -> Option<&Branch> {
        self.trees.get(self.attempt as usize)
    }

    fn begin(&mut self, attempt: u32, now: Time, actions: &mut Doing<V>) {
        self.attempt = attempt;
        self.attempt_began = now;
        if attempt == 0 {
            self.began = now;
        }
        let Some(branch) = self.trees.get(attempt as usize) else {
            return;
        };
        self.awaited.clone_from(&branch.children);
        self.value = Some(self.own.clone());
        (self.has_sent, self.has_asked) = (false, false);
        if attempt > 0 {
            for &child in branch.children.keys() {
                actions.send(child, Message { attempt, body: Body::Again });
            }
        }
        for (from, message) in std::mem::take(&mut self.parked) {
            self.receive(from, message, now, actions);
        }
    }

    /// When a silent child is given up in this attempt, and when the root is asked.
    fn limits(&self) -> (Time, Time) {
        let levels = |count: u32| self.setup.timeouts.step * Time::from(count);
        let height = self.branch().map_or(0, |branch| branch.extent().height);
        let child = self.attempt_began + self.setup.timeouts.base + levels(height);
        (child, child + self.setup.timeouts.base)
    }

    fn receive(&mut self, from: Rank, message: Message<V>, now: Time, actions: &mut Doing<V>) {
        let attempt = message.attempt;
        match message.body {
            Body::Ask => {
                if let Some(verdict) = &self.verdict {
                    let body = Body::Down(verdict.clone());
                    actions.send(from, Message { attempt: self.attempt, body });
                } else {
                    self.askers.push(from);
                }
            }
            Body::Down(verdict) => self.take_verdict(verdict, attempt, actions),
            _ if self.verdict.is_some() => {}
            Body::Again if attempt > self.attempt => self.begin(attempt, now, actions),
            Body::Up(value) if attempt == self.attempt => self.take_value(from, value),
            body if attempt > self.attempt => self.parked.push((from, Message { attempt, body })),
            _ => {}
        }
    }

    fn take_verdict(&mut self, verdict: Option<V>, attempt: u32, actions: &mut Doing<V>) {
        if self.verdict.is_none() {
            self.attempt = attempt;
            self.finish(verdict, actions);
        }
    }

    fn take_value(&mut self, from: Rank, value: Option<V>) {
        if self.awaited.remove(&from).is_some() {
            self.merge(value);
        }
    }

    fn merge(&mut self, value: Option<V>) {
        match (&mut self.value, value) {
            (Some(sum), Some(value)) => sum.merge(&value),
            (sum, _) => *sum = None,
        }
    }

    fn finish(&mut self, verdict: Option<V>, actions: &mut Doing<V>) {
        let attempt = self.attempt;
        if let Some(branch) = self.branch() {
            for &child in branch.children.keys() {
                actions.send(child, Message { attempt, body: Body::Down(verdict.clone()) });
            }
        }
        for asker in std::mem::take(&mut self.askers) {
            actions.send(asker, Message { attempt, body: Body::Down(verdict.clone()) });
        }
        actions.output = Some((attempt, verdict.clone()));
        self.verdict = Some(verdict);
    }

    fn give_up(&mut self, child: Rank) {
        if self.awaited.remove(&child).is_some_and(|extent| extent.size > 1) {
            self.value = None;
        }
    }

    fn tick(&mut self, now: Time, actions: &mut Doing<V>) {
        let (child, ask) = self.limits();
        if now >= child {
            while let Some((&silent, _)) = self.awaited.first_key_value() {
                self.give_up(silent);
            }
        }
        if self.me > 0 && now >= ask && !self.has_asked {
            self.has_asked = true;
            actions.send(0, Message { attempt: self.attempt, body: Body::Ask });
        }
        if now >= self.began + self.setup.give_up {
            actions.output = Some((self.attempt, None));
            self.verdict = Some(None);
        }
    }

    fn look(&mut self, now: Time, actions: &mut Doing<V>) {
        if self.verdict.is_some() || self.has_sent || !self.awaited.is_empty() {
            return;
        }
        let Some(parent) = self.branch().map(|branch| branch.parent) else {
            return;
        };
        self.has_sent = true;
        if let Some(parent) = parent {
            let body = Body::Up(self.value.clone());
            actions.send(parent, Message { attempt: self.attempt, body });
        } else if self.value.is_some() || self.attempt as usize + 1 == self.trees.len() {
            self.finish(self.value.clone(), actions);
        } else {
            self.begin(self.attempt + 1, now, actions);
        }
    }
}

impl<V: Value> Core for Cast<V> {
    type Message = Message<V>;
    type Output = (u32, Option<V>);

    fn step(&mut self, event: Event<Message<V>>, now: Time, actions: &mut Doing<V>) {
        match event {
            Event::Start => self.begin(0, now, actions),
            Event::Message { from, message } => self.receive(from, message, now, actions),
            Event::Timer if self.verdict.is_none() => self.tick(now, actions),
            Event::Dead(rank) => self.give_up(rank),
            Event::Timer | Event::PortFree => {}
        }
        self.look(now, actions);
        if self.verdict.is_none() {
            let (child, ask) = self.limits();
            let end = self.began + self.setup.give_up;
            let due = if self.awaited.is_empty() || now >= child { ask } else { child };
            actions.wake = Some(if self.has_asked || now >= due { end } else { due.min(end) });
        }
    }
}

#[cfg(test)]
#[path = "spanning_tests.rs"]
mod tests;
