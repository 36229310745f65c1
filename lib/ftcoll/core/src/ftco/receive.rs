// SPDX-License-Identifier: Apache-2.0
//! What a process does upon a message.

use super::call::Watch;
use super::machine::{Doing, Ftco};
use super::{Body, Contribution, Damage, Ending, Message, Value, Verdict, Wanted};
use crate::Rank;
use crate::Time;
use std::sync::Arc;

impl<V: Value + PartialEq> Ftco<V> {
    /// Who speaks to this process has given up those between the two.
    fn learn(&mut self, from: Rank, actions: &mut Doing<V>) {
        if self.children.contains(&from) {
            return;
        }
        let (tree, me) = (Arc::clone(&self.setup.tree), self.me);
        if tree.is_above(me, from) {
            let between = tree.ancestors(from).take_while(|&rank| rank != me);
            self.hear_say(between, false, actions);
        } else if from > self.me {
            self.hear_say(0..self.me, false, actions);
        }
    }

    /// Takes note that others hold processes for dead, and asks these whether they live. Once they
    /// have answered they are not taken for dead in the next call.
    fn hear_say(
        &mut self,
        ranks: impl Iterator<Item = Rank>,
        is_certain: bool,
        actions: &mut Doing<V>,
    ) {
        for rank in ranks.filter(|&rank| rank != self.me) {
            let is_known = self.state.dead.contains(&rank);
            let into = if is_certain { &mut self.state.dead } else { &mut self.state.reported };
            if !is_known && into.insert(rank) {
                self.send(rank, Body::KeepAlive(Wanted::Life), actions);
            }
        }
    }

    pub(super) fn receive(
        &mut self,
        from: Rank,
        message: Message<V>,
        now: Time,
        actions: &mut Doing<V>,
    ) {
        if self.state.dead.contains(&from) {
            self.state.spoken.insert(from);
        }
        self.state.reported.remove(&from);
        let epoch = message.epoch;
        if epoch > self.state.epoch {
            if matches!(message.body, Body::KeepAlive(_)) {
                actions.send(from, Message { epoch, body: Body::Ack });
            }
            let is_kept = message.body != Body::KeepAlive(Wanted::Life);
            let parked = (from, message);
            if is_kept && !self.state.parked.contains(&parked) {
                self.state.parked.push(parked);
            }
        } else if epoch == self.state.epoch && self.state.call.is_some() {
            if let Some(call) = &mut self.state.call {
                call.hear(from, now);
            }
            self.receive_in_call(from, message.body, now, actions);
        } else if message.body == Body::KeepAlive(Wanted::Life) {
            actions.send(from, Message { epoch, body: Body::Ack });
        } else if matches!(message.body, Body::KeepAlive(_) | Body::Contribution(_)) {
            self.learn(from, actions);
            self.answer_late(from, epoch, actions);
        }
    }

    /// The root to name to `to` for a verdict of `root`. Who takes this process for the next root
    /// has promised to take nothing of earlier ones, and all of these are dead.
    pub(super) fn tag(&self, to: Rank, root: Rank) -> Rank {
        if to > self.me && !self.is_descendant(to) { root.max(self.me) } else { root }
    }

    /// Answers about a call that has ended here.
    fn answer_late(&mut self, from: Rank, epoch: u32, actions: &mut Doing<V>) {
        let known = self.state.past.iter().find(|(number, _, _)| *number == epoch);
        let body = match known {
            Some((_, root, verdict)) => {
                Body::Verdict { root: self.tag(from, *root), verdict: verdict.clone() }
            }
            None => {
                let missing = Vec::new();
                let verdict = Verdict { value: None, missing, ending: Ending::Forgotten };
                Body::Verdict { root: Rank::MAX, verdict }
            }
        };
        actions.send(from, Message { epoch, body });
    }

    fn receive_in_call(&mut self, from: Rank, body: Body<V>, now: Time, actions: &mut Doing<V>) {
        match body {
            Body::Contribution(contribution) => {
                self.learn(from, actions);
                if let Some(call) = &mut self.state.call {
                    call.take(from, contribution);
                }
                self.look(actions);
            }
            Body::KeepAlive(Wanted::Life) => self.send(from, Body::Ack, actions),
            Body::KeepAlive(Wanted::Verdict) => {
                self.learn(from, actions);
                if let Some(call) = &mut self.state.call {
                    call.ask(from);
                }
                self.send(from, Body::Ack, actions);
            }
            Body::KeepAlive(Wanted::Contribution { as_root }) => {
                self.follow(from, as_root, now, actions);
                self.answer_contribution(from, actions);
            }
            Body::Verdict { root, verdict } => self.receive_verdict(from, root, verdict, actions),
            Body::Ack => {}
        }
    }

    /// Takes a process that wants a contribution for the parent that it says it is.
    fn follow(&mut self, from: Rank, as_root: bool, now: Time, actions: &mut Doing<V>) {
        let (tree, is_above) = (Arc::clone(&self.setup.tree), self.is_ancestor(from));
        let Some(call) = &mut self.state.call else {
            return;
        };
        if call.is_root || !(is_above || as_root) {
            return;
        }
        if !is_above && self.setup.damage != Some(Damage::NoPromise) {
            call.promised = call.promised.max(from);
        }
        call.parent = Some((from, Watch::from(now)));
        // It may die once more, as it were: who is waited for can be given up.
        self.state.dead.remove(&from);
        if is_above {
            let between = tree.ancestors(self.me).take_while(|&rank| rank != from);
            self.hear_say(between, true, actions);
        } else {
            self.hear_say(0..from, true, actions);
        }
    }

    fn answer_contribution(&mut self, from: Rank, actions: &mut Doing<V>) {
        let Some(call) = &mut self.state.call else {
            return;
        };
        let is_new = !call.sent_to.contains(&from);
        let body = match &call.contribution {
            Some(contribution) if is_new => {
                call.sent_to.push(from);
                Body::Contribution(contribution.clone())
            }
            _ => Body::Ack,
        };
        self.send(from, body, actions);
    }

    fn receive_verdict(
        &mut self,
        from: Rank,
        root: Rank,
        verdict: Verdict<V>,
        actions: &mut Doing<V>,
    ) {
        let Some(call) = &mut self.state.call else {
            return;
        };
        // A root takes what it is told by those whom it has asked, but not what an earlier root,
        // which somebody else has replaced meanwhile, had sent to it before.
        let is_answer = call.is_root && call.waits_for(from);
        if is_answer || root >= call.promised {
            let root = if call.is_root { self.me } else { root };
            self.state.told_by = Some(from);
            self.adopt(verdict, root, Some(from), actions);
        } else if call.waits_for(from) {
            // It has ended with the verdict of a root that this process was told is dead.
            call.take(from, Contribution { value: None, missing: vec![from] });
            self.look(actions);
        }
    }
}
