// SPDX-License-Identifier: Apache-2.0
//! One node's part in the membership: `step(event, now)` returns what to do.
//!
//! ```text
//!     every tick      tell my watchers, and one node at random, that I live and what I know
//!     silent 0.7 s    a watcher asks the silent node every 0.2 s
//!     silent 1.2 s    it suspects it, and tells whoever decides, every 0.2 s
//!     silent 2.9 s    whoever decides has asked it five times, and pronounces it down
//! ```
//! Silence is measured from the last evidence of life that has come here by whatever way. A
//! suspicion carries that evidence, so newer evidence refutes it wherever the two meet. A node that
//! hears that it is suspected speaks up at once; one that hears that it was pronounced down takes
//! the next incarnation and is there again.

use crate::config::Config;
use crate::event::{Action, Event};
use crate::member::{Change, Known, State};
use crate::ring::Ring;
use crate::window::Table;
use crate::wire::{BEAT_MAX, Entry, Errand, Load, Message};
use crate::{NODES_MAX, NodeId};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;

/// Being so late means that this process has stood still, in milliseconds.
const LATE_MS: u64 = 200;
/// Whoever has stood still hears for so long before it suspects anybody.
const CALM_MS: u64 = 300;
/// After a standstill of so long the socket has not held all that came meanwhile.
const LONG_MS: u64 = 2000;
/// Two alarms about this node itself within so many milliseconds are one.
const HURRY_MS: u64 = 50;
/// What was announced and not confirmed is said again after so many milliseconds.
const ANNOUNCE_MS: u64 = 50;
/// So many of those who have not been heard yet are told something at a time.
const CONTACTS_AT_ONCE: usize = 16;
/// One in so many ticks also tells a node that is down, which may have come back.
const DOWN_ONE_IN: u64 = 8;

/// One node's part.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    me: NodeId,
    incarnation: u16,
    born: u64,
    random: SmallRng,
    table: Table,
    ring: Ring,
    /// Nodes that others have named and that have not been heard of.
    contacts: BTreeSet<NodeId>,
    load: Load,
    load_at: u64,
    frozen_until: u64,
    /// The last one that was told. What is said about a standstill has one of its own: of two
    /// entries with the same, the second is no news.
    beat: u64,
    next_tick: u64,
    next_look: u64,
    /// A standstill is announced since then and not confirmed, and is said again then.
    announced: Option<(u64, u64)>,
    due: Option<u64>,
    /// Until then nobody is suspected: this process has stood still.
    calm_until: u64,
    /// Silence counts from then on at the earliest: what came before may be lost.
    heard_since: u64,
    hurried_at: u64,
    actions: Vec<Action>,
}

impl Machine {
    /// Of node `me`, less than `NODES_MAX`, at time `now` in milliseconds on a clock that never
    /// goes back. The incarnation is higher than any that this run has known of the node. The
    /// machine wants a `Timer` event at once.
    #[must_use]
    pub fn new(config: Config, me: NodeId, incarnation: u16, seed: u64, now: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let next_tick = now + random.random_range(0..config.tick_ms.max(1));
        Self {
            config,
            me,
            incarnation,
            born: now,
            random,
            table: Table::default(),
            ring: Ring::default(),
            contacts: BTreeSet::new(),
            load: Load::default(),
            load_at: now,
            frozen_until: 0,
            beat: 0,
            next_tick,
            next_look: next_tick,
            announced: None,
            due: None,
            calm_until: 0,
            heard_since: 0,
            hurried_at: 0,
            actions: Vec::new(),
        }
    }

    /// Takes an event in and returns what to do. Allocates, blocks never. `now` is in milliseconds,
    /// on the clock of `new`.
    pub fn step(&mut self, event: Event, now: u64) -> Vec<Action> {
        match event {
            Event::Datagram { from, bytes } => self.hear(from, &bytes, now),
            Event::Timer => self.wake(now),
            Event::Frozen { until } => self.freeze(until, now),
            Event::Load { entry } => {
                self.load = entry;
                self.load_at = now;
            }
            Event::Join { node } => {
                if node < NODES_MAX && node != self.me && self.table.get(node).is_none() {
                    self.contacts.insert(node);
                }
            }
        }
        let again = self.announced.map_or(u64::MAX, |(_, again)| again);
        let due = self.next_tick.min(self.next_look).min(again);
        if self.due != Some(due) {
            self.due = Some(due);
            self.actions.push(Action::Timer { at: due });
        }
        std::mem::take(&mut self.actions)
    }

    /// What is known of the other nodes, by number.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &Known)> {
        self.table.iter()
    }

    /// This node's incarnation.
    #[must_use]
    pub const fn incarnation(&self) -> u16 {
        self.incarnation
    }

    /// Whose verdict counts, as this node sees it: the lowest that is not suspected.
    #[must_use]
    pub fn decider(&self) -> NodeId {
        let good = self.table.iter().find(|(_, known)| known.state == State::Up);
        good.map_or(self.me, |(node, _)| node.min(self.me))
    }

    fn hear(&mut self, from: NodeId, bytes: &[u8], now: u64) {
        let Ok(message) = Message::decode(bytes) else { return };
        if from == self.me || message.entries.first().is_none_or(|own| own.node != from) {
            return;
        }
        let mut outdated = Vec::new();
        for entry in &message.entries {
            if entry.node == self.me {
                self.hear_of_me(entry, from, now);
            } else if self.take_in(entry, from, now) {
                outdated.push(entry.node);
            }
        }
        match message.errand {
            Errand::Ask(token) => {
                let most = self.config.entries_near;
                self.send(from, Errand::Answer(token), &outdated, most, now);
            }
            _ if !outdated.is_empty() => self.tell(from, &outdated, self.config.entries_near, now),
            Errand::Answer(token) if token <= now => self.hear_answer(from, token),
            Errand::Answer(_) | Errand::Tell => {}
        }
    }

    fn hear_answer(&mut self, from: NodeId, token: u64) {
        if let Some(known) = self.table.get_mut(from) {
            known.has_answered(token);
            self.table.note(from);
        }
        let is_confirmed = self.announced.is_some_and(|(since, _)| token >= since);
        if is_confirmed && from == self.whom_to_convince() {
            self.announced = None;
            self.actions.push(Action::Announced);
        }
    }

    /// Returns whether the sender lacks something that is known here.
    fn take_in(&mut self, entry: &Entry, from: NodeId, now: u64) -> bool {
        let node = entry.node;
        let Some(known) = self.table.get_mut(node) else {
            self.contacts.remove(&node);
            self.table.insert(node, Known::new(entry, now));
            if entry.state == State::Down {
                return false; // it has never been there for anybody here
            }
            self.has_changed(node, State::Down, now);
            return false;
        };
        let change = known.merge(entry, node == from, now);
        let is_suspected = entry.state == State::Suspect && known.state == State::Suspect;
        if is_suspected && self.ring.is_watcher(from, node, self.config.watchers) {
            known.is_witnessed = true;
        }
        self.table.note(node);
        match change {
            Change::State(before) => self.has_changed(node, before, now),
            Change::Frozen => {
                self.table.make_urgent(node);
                self.form_ring();
            }
            Change::Outdated => return true,
            Change::None => {}
        }
        false
    }

    fn has_changed(&mut self, node: NodeId, before: State, now: u64) {
        self.table.note(node);
        let Some(known) = self.table.get_mut(node) else { return };
        known.asks = 0;
        if (before, known.state) != (State::Suspect, State::Up) {
            // Else the evidence that has refuted it is among the newest anyway.
            self.table.make_urgent(node);
        }
        let Some(known) = self.table.get(node) else { return };
        let mut is_refuted = false;
        match known.state {
            State::Up if before == State::Up => {}
            State::Up => {
                self.actions.push(Action::Up { node });
                is_refuted = before == State::Suspect;
            }
            State::Suspect => {
                self.actions.push(Action::Suspect { node });
                self.next_look = self.next_look.min(now);
            }
            State::Down => self.actions.push(Action::Down { node }),
        }
        self.form_ring();
        let decider = self.decider();
        let is_watched = self.ring.watched(self.config.watchers).any(|other| other == node);
        if is_refuted && is_watched && decider != self.me {
            // Whom it has told of the suspicion.
            self.tell(decider, &[node], self.config.entries_near, now);
        }
    }

    fn form_ring(&mut self) {
        let others = self.table.iter().filter(|(_, known)| known.state != State::Down);
        self.ring = Ring::new(self.me, others.map(|(node, known)| (node, known.is_awake())));
    }

    fn hear_of_me(&mut self, entry: &Entry, from: NodeId, now: u64) {
        let is_current = entry.incarnation >= self.incarnation;
        let is_down = entry.state == State::Down;
        // What was suspected before the last time has been refuted then.
        let is_new = self.born + entry.beat >= self.hurried_at;
        let is_alarm = is_current && entry.state != State::Up && (is_new || is_down);
        if entry.incarnation > self.incarnation || is_current && is_down {
            self.incarnation = entry.incarnation.saturating_add(1);
        }
        let is_urgent = is_alarm && now >= self.hurried_at + HURRY_MS;
        if is_urgent {
            self.hurried_at = now;
            self.tell_widely(Some(from), now);
        }
    }

    /// Whoever has to know at once: the watchers, whoever decides, and `also`.
    fn tell_widely(&mut self, also: Option<NodeId>, now: u64) {
        let mut to: BTreeSet<NodeId> = self.ring.watchers(self.config.watchers).collect();
        to.extend(also);
        to.extend(self.contacts.iter().take(CONTACTS_AT_ONCE));
        to.insert(self.decider());
        to.remove(&self.me);
        for node in to {
            self.tell(node, &[], self.config.entries_near, now);
        }
    }

    fn freeze(&mut self, until: u64, now: u64) {
        let was = self.frozen_until > now;
        self.frozen_until = until;
        self.beat += 1;
        self.announced = None;
        if until > now {
            self.announced = Some((now, now));
            self.announce(now);
        } else if was {
            self.tell_widely(None, now);
        }
    }

    /// The coordinator, unless it is dead or there is none; whoever decides then.
    fn whom_to_convince(&self) -> NodeId {
        let is_there = |node: &NodeId| match self.table.get(*node) {
            Some(known) => known.state != State::Down,
            None => self.contacts.contains(node),
        };
        self.config.coordinator.filter(is_there).unwrap_or_else(|| self.decider())
    }

    /// Says that this node will stand still, until that is confirmed.
    fn announce(&mut self, now: u64) {
        let Some((_, again)) = &mut self.announced else { return };
        *again = now + ANNOUNCE_MS;
        self.tell_widely(None, now);
        let whom = self.whom_to_convince();
        if whom != self.me {
            self.send(whom, Errand::Ask(now), &[], self.config.entries_near, now);
        } else if self.contacts.is_empty() {
            self.announced = None;
            self.actions.push(Action::Announced);
        }
    }

    fn wake(&mut self, now: u64) {
        let due = self.due.take(); // so that it is named again, whatever it is
        if due.is_some_and(|due| now > due + LATE_MS) {
            self.calm_until = now + CALM_MS;
        }
        if due.is_some_and(|due| now > due + LONG_MS) {
            self.heard_since = now;
        }
        if now >= self.next_tick {
            self.tick(now);
        }
        if self.announced.is_some_and(|(_, again)| now >= again) {
            self.announce(now);
        }
        self.look(now);
    }

    fn tick(&mut self, now: u64) {
        let tick = self.config.tick_ms;
        self.next_tick = now + tick - tick / 16 + self.random.random_range(0..=tick / 8);
        let near: Vec<NodeId> = self.ring.watchers(self.config.watchers).collect();
        for &to in &near {
            self.tell(to, &[], self.config.entries_near, now);
        }
        let living: Vec<NodeId> = self.table.living().collect();
        if let Some(&to) = living.choose(&mut self.random) {
            if !near.contains(&to) {
                self.tell(to, &[], self.config.entries_far, now);
            }
        }
        if self.random.random_range(0..DOWN_ONE_IN) == 0 {
            let down = self.table.iter().filter(|(_, known)| known.state == State::Down);
            let down: Vec<NodeId> = down.map(|(node, _)| node).collect();
            if let Some(&to) = down.choose(&mut self.random) {
                self.tell(to, &[to], self.config.entries_far, now);
            }
        }
        let contacts: Vec<NodeId> = self.contacts.iter().copied().take(CONTACTS_AT_ONCE).collect();
        for to in contacts {
            self.tell(to, &[], self.config.entries_near, now);
        }
    }

    /// Asks whoever is silent, suspects, pronounces down.
    fn look(&mut self, now: u64) {
        let is_decider = self.decider() == self.me;
        let config = self.config;
        let near: BTreeSet<NodeId> = self.ring.watched(config.watchers).collect();
        let mut watched = near.clone();
        if is_decider {
            let far = self.table.iter().filter(|(_, known)| {
                let silence = known.silence(now).min(now.saturating_sub(self.heard_since));
                known.state == State::Suspect || silence >= config.far_after_ms
            });
            watched.extend(far.map(|(node, _)| node));
        }
        self.next_look = u64::MAX;
        let mut suspects = Vec::new();
        for node in watched {
            let Some(known) = self.table.get(node) else { continue };
            let silence = known.silence(now).min(now.saturating_sub(self.heard_since));
            match known.state {
                State::Down => {}
                State::Up if silence < config.ask_after_ms => {
                    let later = now + (config.ask_after_ms - silence).max(1);
                    self.next_look = self.next_look.min(later);
                }
                _ => {
                    self.next_look = self.next_look.min(now + config.ask_every_ms / 2);
                    let has_witness = near.contains(&node) || known.is_witnessed;
                    let factor = if has_witness { 1 } else { 2 };
                    let asks = is_decider.then_some(factor * config.asks_before_down);
                    if self.look_at(node, silence, asks, now) {
                        suspects.push(node);
                    }
                }
            }
        }
        let decider = self.decider();
        if decider != self.me && !suspects.is_empty() {
            self.tell(decider, &suspects, config.entries_far, now);
        }
    }

    /// `asks`: it may be judged after so many. Returns whether it is suspected and was asked now.
    fn look_at(&mut self, node: NodeId, silence: u64, asks: Option<u8>, now: u64) -> bool {
        let config = self.config;
        let has_majority = self.has_majority();
        let Some(known) = self.table.get_mut(node) else { return false };
        let before = known.state;
        let is_asked = known.asks >= config.asks_before_suspect;
        let is_long = silence >= config.suspect_after_ms && now >= self.calm_until && is_asked;
        if before == State::Up && is_long {
            known.state = State::Suspect;
        }
        let is_asked = asks.is_some_and(|asks| known.asks >= asks);
        let is_over = silence >= config.down_after_ms && is_asked;
        if before == State::Suspect && is_over && has_majority {
            known.state = State::Down;
        }
        let after = known.state;
        let is_to_ask = silence > 0
            && after != State::Down
            && now >= known.asked_at + config.ask_every_ms.saturating_sub(1);
        if before != after {
            self.has_changed(node, before, now);
        }
        if after == State::Down {
            self.tell_widely(Some(node), now);
            return false;
        }
        if is_to_ask {
            if let Some(known) = self.table.get_mut(node) {
                known.asked_at = now;
                known.asks = known.asks.saturating_add(1);
            }
            self.send(node, Errand::Ask(now), &[node], config.entries_near, now);
        }
        is_to_ask && after == State::Suspect
    }

    /// Whether this node may judge: it is the coordinator, or hears more than half of the nodes.
    /// One that hears nobody is cut off itself.
    fn has_majority(&self) -> bool {
        let heard = 1 + self.table.iter().filter(|(_, k)| k.state == State::Up).count();
        let all = 1 + self.table.iter().filter(|(_, k)| k.state != State::Down).count();
        self.config.coordinator == Some(self.me) || 2 * heard > all
    }

    fn own_entry(&mut self, now: u64) -> Entry {
        self.beat = self.beat.max(now.saturating_sub(self.born)).min(BEAT_MAX);
        let tenths = |ms: u64| u16::try_from(ms.div_ceil(100)).unwrap_or(u16::MAX);
        Entry {
            node: self.me,
            incarnation: self.incarnation,
            beat: self.beat,
            age_ms: 0,
            state: State::Up,
            frozen_ds: tenths(self.frozen_until.saturating_sub(now)),
            load_age_ds: tenths(now.saturating_sub(self.load_at)),
            load: self.load,
        }
    }

    fn tell(&mut self, to: NodeId, first: &[NodeId], most: usize, now: u64) {
        self.send(to, Errand::Tell, first, most, now);
    }

    fn send(&mut self, to: NodeId, errand: Errand, first: &[NodeId], most: usize, now: u64) {
        let own = self.own_entry(now);
        let entries = self.table.window(own, to, first, most, now);
        let bytes = Message { errand, entries }.encode();
        self.actions.push(Action::Send { to, bytes });
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
