// SPDX-License-Identifier: Apache-2.0
//! The machine: one process through all calls of a communicator.

use super::call::{Call, Held, Slot, Watch};
use super::{
    Body, Contribution, Damage, Ending, Message, Operation, Setup, Value, Verdict, Wanted,
};
use crate::{Actions, Core, Event, Rank, Time};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

pub(super) type Doing<V> = Actions<Message<V>, Verdict<V>>;

/// One process's part of the collectives of a communicator. It answers between calls as well.
#[derive(Clone, Debug)]
pub struct Ftco<V> {
    pub(super) setup: Arc<Setup>,
    pub(super) me: Rank,
    height: u32,
    /// In the tree, where a call looks first.
    parent: Option<Rank>,
    pub(super) children: Vec<Rank>,
    pub(super) state: State<V>,
    spare: Spare<V>,
}

/// Memory of calls that have ended, for the next one. A clone has none.
#[derive(Debug)]
struct Spare<V> {
    call: Option<Box<Call<V>>>,
    receivers: Vec<Rank>,
}

impl<V> Default for Spare<V> {
    fn default() -> Self {
        Self { call: None, receivers: Vec::new() }
    }
}

impl<V> Clone for Spare<V> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State<V> {
    /// Taken for dead. Those of `spoken` are so only up to the end of the call.
    pub(super) dead: BTreeSet<Rank>,
    /// Reported dead by others: left out from the next call on.
    pub(super) reported: BTreeSet<Rank>,
    pub(super) spoken: BTreeSet<Rank>,
    /// Of the present call, or else of the last one.
    pub(super) epoch: u32,
    pub(super) next: Option<(Operation, Option<V>)>,
    pub(super) call: Option<Box<Call<V>>>,
    pub(super) past: VecDeque<(u32, Rank, Verdict<V>)>,
    /// Messages of calls that this process has not entered yet.
    pub(super) parked: Vec<(Rank, Message<V>)>,
    /// Whom the last verdict came from: it knows that this process takes it for its parent.
    pub(super) told_by: Option<Rank>,
}

impl<V: Value + PartialEq> Ftco<V> {
    /// Process `me` of the communicator, before its first call.
    #[must_use]
    pub fn new(setup: Arc<Setup>, me: Rank) -> Self {
        let (height, parent) = (setup.tree.height(me), setup.tree.parent(me));
        let children = setup.tree.children(me).collect();
        let state = State {
            dead: BTreeSet::new(),
            reported: BTreeSet::new(),
            spoken: BTreeSet::new(),
            epoch: 0,
            next: None,
            call: None,
            past: VecDeque::new(),
            parked: Vec::new(),
            told_by: None,
        };
        Self { setup, me, height, parent, children, state, spare: Spare::default() }
    }

    /// Says what the next call, which [`Event::Start`] begins, is to do. In a bcast only the
    /// root's value counts.
    pub fn prepare(&mut self, operation: Operation, value: Option<V>) {
        self.state.next = Some((operation, value));
    }

    /// Whether a call is in progress.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.state.call.is_some()
    }

    /// The number of the present call, or else of the last one.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.state.epoch
    }

    /// Who is taken for dead.
    pub fn dead(&self) -> impl Iterator<Item = Rank> + '_ {
        self.state.dead.iter().copied()
    }

    /// Who is waited for, so that it matters whether it lives.
    #[must_use]
    pub fn watched(&self) -> Vec<Rank> {
        let Some(call) = &self.state.call else {
            return Vec::new();
        };
        let waits = |slot: &&Slot<V>| matches!(slot.held, Held::Waits(_));
        let children = call.cover.iter().filter(waits).map(|slot| slot.rank);
        let all = children.chain(call.parent.map(|(parent, _)| parent));
        all.filter(|rank| !self.state.dead.contains(rank)).collect()
    }

    fn is_damaged(&self, damage: Damage) -> bool {
        self.setup.damage == Some(damage)
    }

    pub(super) fn send(&self, to: Rank, body: Body<V>, actions: &mut Doing<V>) {
        actions.send(to, Message { epoch: self.state.epoch, body });
    }

    /// Whether a process is on the way from this one to the root of the tree.
    pub(super) fn is_ancestor(&self, rank: Rank) -> bool {
        self.parent == Some(rank) || self.setup.tree.is_above(rank, self.me)
    }

    /// Whether this process is on the way from another one to the root of the tree.
    pub(super) fn is_descendant(&self, rank: Rank) -> bool {
        self.children.contains(&rank) || self.setup.tree.is_above(self.me, rank)
    }

    /// The nearest living ancestor, or else the living process of the lowest rank; none if that
    /// is this process, which then is the root.
    fn find_parent(&self) -> Option<Rank> {
        let lives = |rank: &Rank| !self.state.dead.contains(rank);
        if self.parent.as_ref().is_some_and(lives) {
            return self.parent;
        }
        self.setup.tree.ancestors(self.me).find(lives).or_else(|| (0..self.me).find(lives))
    }

    fn start(&mut self, now: Time, actions: &mut Doing<V>) {
        let Some((operation, own)) = self.state.next.take() else {
            return;
        };
        self.state.epoch += 1;
        let mut reported = std::mem::take(&mut self.state.reported);
        self.state.dead.append(&mut reported);
        let spoken = std::mem::take(&mut self.state.spoken);
        self.state.dead.retain(|rank| !spoken.contains(rank));
        if self.is_damaged(Damage::NoMemory) {
            self.state.dead.clear();
        }

        let decides_now = operation == Operation::Bcast && self.me == 0;
        let (own, told) = if decides_now { (None, own) } else { (own, None) };
        let mut call = self.spare.call.take().unwrap_or_else(|| Box::new(Call::new(operation)));
        call.operation = operation;
        let (tree, dead, gathers) = (&self.setup.tree, &self.state.dead, call.gathers());
        let Call { cover, lost, .. } = &mut *call;
        let own_part = Contribution { value: own, missing: vec![] };
        cover.push(Slot { rank: self.me, held: Held::Got(own_part) });
        let mut wait_for = |rank| {
            let nothing = Contribution { value: None, missing: vec![] };
            let held = if gathers { Held::Waits(Watch::from(now)) } else { Held::Got(nothing) };
            cover.push(Slot { rank, held });
        };
        for &child in &self.children {
            Call::<V>::expand(tree, child, dead, lost, &mut wait_for);
        }
        self.state.call = Some(call);
        if decides_now {
            let missing = self.state.dead.iter().copied().collect();
            let verdict = Verdict { value: told, missing, ending: Ending::Complete };
            self.adopt(verdict, 0, None, actions);
            return;
        }
        self.set_parent(operation == Operation::Bcast, now, actions);
        self.greet_new_parent(actions);
        self.look(actions);
        let mut parked = std::mem::take(&mut self.state.parked);
        // What somebody had said before it was taken for dead asks for nothing any more.
        parked.retain(|(from, _)| !self.state.dead.contains(from));
        for (from, message) in parked {
            self.receive(from, message, now, actions);
        }
    }

    /// Finds out who the parent is, and makes this process the root if there is none.
    /// `asks`: whether to ask at once those who do not contribute by themselves.
    fn set_parent(&mut self, asks: bool, now: Time, actions: &mut Doing<V>) {
        let parent = self.find_parent();
        let is_ancestor = parent.is_some_and(|rank| self.is_ancestor(rank));
        let Some(call) = &mut self.state.call else {
            return;
        };
        call.parent = parent.map(|rank| (rank, Watch::from(now)));
        let Some(parent) = parent else {
            self.become_root(asks, now, actions);
            return;
        };
        if !is_ancestor {
            call.promised = call.promised.max(parent);
        }
    }

    /// At the begin of a bcast: asks a parent that need not know that it has become one. In other
    /// calls the contribution tells it.
    fn greet_new_parent(&mut self, actions: &mut Doing<V>) {
        let Some(call) = &self.state.call else { return };
        let parent = call.parent.map(|(parent, _)| parent);
        let is_new = parent != self.parent && parent != self.state.told_by;
        if let Some(parent) = parent.filter(|_| is_new && !call.gathers()) {
            self.send(parent, Body::KeepAlive(Wanted::Verdict), actions);
        }
    }

    fn become_root(&mut self, asks: bool, now: Time, actions: &mut Doing<V>) {
        let (dead, tree) = (&self.state.dead, &self.setup.tree);
        let Some(call) = &mut self.state.call else {
            return;
        };
        call.is_root = true;
        if self.me == 0 {
            return;
        }
        call.lost.retain(|&rank| tree.is_above(self.me, rank));
        let mut own = std::mem::take(&mut call.cover);
        let (mut top, mut asked) = (Vec::new(), Vec::new());
        Call::<V>::expand(tree, 0, dead, &mut call.lost, &mut |rank| top.push(rank));
        for rank in top {
            if rank == self.me {
                call.cover.append(&mut own);
                continue;
            }
            let mut slot = call.slot(rank, now);
            if self.setup.damage == Some(Damage::RootDoesNotAsk) && !call.gathers() {
                slot.held = Held::Got(Contribution { value: None, missing: vec![] });
            }
            if matches!(slot.held, Held::Waits(_)) {
                asked.push(rank);
            }
            call.cover.push(slot);
        }
        if asks {
            for rank in asked {
                let wanted = Wanted::Contribution { as_root: true };
                self.send(rank, Body::KeepAlive(wanted), actions);
            }
        }
    }

    /// Looks whether all that is covered is there, and passes it on or decides.
    pub(super) fn look(&mut self, actions: &mut Doing<V>) {
        let Some(call) = &mut self.state.call else {
            return;
        };
        if call.is_root {
            if let Some(all) = call.gathered(true) {
                self.decide(all, actions);
            }
            return;
        }
        if call.contribution.is_none() {
            call.contribution = call.gathered(false);
        }
        self.contribute(actions);
    }

    /// Sends the contribution to the parent, if it is there, wanted and not sent.
    fn contribute(&mut self, actions: &mut Doing<V>) {
        let Some(parent) = self.state.call.as_ref().and_then(|call| call.parent) else {
            return;
        };
        let (parent, is_ancestor) = (parent.0, self.is_ancestor(parent.0));
        let Some(call) = &mut self.state.call else {
            return;
        };
        let Some(contribution) = &call.contribution else {
            return;
        };
        let is_wanted = call.gathers() || !is_ancestor;
        if is_wanted && !call.sent_to.contains(&parent) {
            call.sent_to.push(parent);
            let body = Body::Contribution(contribution.clone());
            self.send(parent, body, actions);
        }
    }

    fn decide(&mut self, all: Contribution<V>, actions: &mut Doing<V>) {
        let Some(call) = &self.state.call else { return };
        let has_result = call.operation == Operation::Allreduce || self.me == 0;
        let verdict = if has_result {
            Verdict { value: all.value, missing: all.missing, ending: Ending::Complete }
        } else {
            Verdict { value: None, missing: all.missing, ending: Ending::RootFailed }
        };
        self.adopt(verdict, self.me, None, actions);
    }

    /// Ends the call with a verdict and sends it on, but not back to `from`.
    pub(super) fn adopt(
        &mut self,
        verdict: Verdict<V>,
        root: Rank,
        from: Option<Rank>,
        actions: &mut Doing<V>,
    ) {
        let Some(mut call) = self.state.call.take() else {
            return;
        };
        let mut told = verdict.clone();
        if call.operation == Operation::Reduce {
            told.value = None;
        }
        let mut receivers = std::mem::take(&mut self.spare.receivers);
        call.receivers(&self.setup.tree, self.me, &self.state.dead, &mut receivers);
        for to in receivers.drain(..) {
            if Some(to) != from {
                let root = self.tag(to, root);
                self.send(to, Body::Verdict { root, verdict: told.clone() }, actions);
            }
        }
        self.state.past.push_back((self.state.epoch, root, told));
        while self.state.past.len() > self.setup.kept {
            self.state.past.pop_front();
        }
        actions.output = Some(verdict);
        call.empty();
        self.spare = Spare { call: Some(call), receivers };
    }

    fn give_up(&mut self, rank: Rank, now: Time, actions: &mut Doing<V>) {
        self.state.spoken.remove(&rank);
        if !self.state.dead.insert(rank) {
            return;
        }
        let Some(call) = &mut self.state.call else {
            return;
        };
        call.suspects.push(rank);
        let is_root = call.is_root;
        if call.waits_for(rank) {
            let (tree, mut living) = (&self.setup.tree, Vec::new());
            let live = &mut |rank| living.push(rank);
            Call::<V>::expand(tree, rank, &self.state.dead, &mut call.lost, live);
            if self.setup.damage == Some(Damage::NoBypass) {
                living.clear();
            }
            let slots: Vec<_> = living.iter().map(|&child| call.slot(child, now)).collect();
            let waits = |slot: &&Slot<V>| matches!(slot.held, Held::Waits(_));
            let asked: Vec<_> = slots.iter().filter(waits).map(|slot| slot.rank).collect();
            call.replace(rank, slots);
            for child in asked {
                let as_root = is_root && !self.is_descendant(child);
                let wanted = Wanted::Contribution { as_root };
                self.send(child, Body::KeepAlive(wanted), actions);
            }
        }
        let has_lost_parent = matches!(
            &self.state.call, Some(call) if call.parent.is_some_and(|(parent, _)| parent == rank));
        if has_lost_parent && !self.is_damaged(Damage::NoNewParent) {
            self.change_parent(now, actions);
        }
        self.look(actions);
    }

    fn change_parent(&mut self, now: Time, actions: &mut Doing<V>) {
        self.set_parent(true, now, actions);
        self.contribute(actions);
        let Some(call) = &self.state.call else { return };
        let parent = call.parent.map(|(parent, _)| parent);
        if let Some(parent) = parent.filter(|parent| !call.sent_to.contains(parent)) {
            self.send(parent, Body::KeepAlive(Wanted::Verdict), actions);
        }
    }

    fn limit(&self, levels: u32) -> Time {
        let timeouts = &self.setup.timeouts;
        timeouts.base + timeouts.step * Time::from(self.height + levels)
    }

    fn tick(&mut self, now: Time, actions: &mut Doing<V>) {
        let (of_child, of_parent) = (self.limit(0), self.limit(1));
        let Some(call) = &mut self.state.call else {
            return;
        };
        let (mut silent, mut asked) = (Vec::new(), Vec::new());
        let is_root = call.is_root;
        for slot in &mut call.cover {
            if let Held::Waits(watch) = &mut slot.held {
                let as_root = is_root && !self.setup.tree.is_above(self.me, slot.rank);
                let wanted = Wanted::Contribution { as_root };
                look_at(slot.rank, watch, of_child, wanted, now, &mut silent, &mut asked);
            }
        }
        if let Some((parent, watch)) = &mut call.parent {
            look_at(*parent, watch, of_parent, Wanted::Verdict, now, &mut silent, &mut asked);
        }
        for (rank, wanted) in asked {
            self.send(rank, Body::KeepAlive(wanted), actions);
        }
        for rank in silent {
            self.give_up(rank, now, actions);
        }
    }

    /// When something is due next, if nothing comes.
    fn next_due(&self) -> Option<Time> {
        let call = self.state.call.as_ref()?;
        let children = call.cover.iter().filter_map(|slot| match &slot.held {
            Held::Waits(watch) => Some(watch.due(self.limit(0))),
            Held::Got(_) => None,
        });
        children.chain(call.parent.map(|(_, watch)| watch.due(self.limit(1)))).min()
    }
}

/// Asks a silent process, or notes that it has been silent for too long.
fn look_at(
    rank: Rank,
    watch: &mut Watch,
    limit: Time,
    wanted: Wanted,
    now: Time,
    silent: &mut Vec<Rank>,
    asked: &mut Vec<(Rank, Wanted)>,
) {
    if now < watch.due(limit) {
        return;
    }
    if watch.is_asked {
        silent.push(rank);
    } else {
        // However late it is asked, it has half the limit to answer.
        watch.since = watch.since.max(now.saturating_sub(limit / 2));
        watch.is_asked = true;
        asked.push((rank, wanted));
    }
}

impl<V: Value + PartialEq> Core for Ftco<V> {
    type Message = Message<V>;
    type Output = Verdict<V>;

    fn step(&mut self, event: Event<Message<V>>, now: Time, actions: &mut Doing<V>) {
        match event {
            Event::Start => self.start(now, actions),
            Event::Message { from, message } => self.receive(from, message, now, actions),
            Event::Timer => self.tick(now, actions),
            Event::Dead(rank) => self.give_up(rank, now, actions),
            Event::PortFree => return,
        }
        if let Some(due) = self.next_due() {
            actions.wake = Some(due.max(now));
        }
    }
}

/// Two machines are equal if they do the same from now on.
impl<V: PartialEq> PartialEq for Ftco<V> {
    fn eq(&self, other: &Self) -> bool {
        self.me == other.me && self.state == other.state
    }
}

impl<V: Eq> Eq for Ftco<V> {}

impl<V: std::hash::Hash> std::hash::Hash for Ftco<V> {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        self.me.hash(hasher);
        self.state.hash(hasher);
    }
}
