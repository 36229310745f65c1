// SPDX-License-Identifier: Apache-2.0
//! Allreduce by correction: an up-correction to a root, then a fail-proof corrected broadcast of
//! the result. If the root is dead nobody hears of a result, and all try the next one.
//!
//! All processes get the same value: the root that decides sends it, and fail-proof correction
//! brings it to all or to none. This needs a bound on the time of an attempt, and processes that
//! enter the operation less than `slack` of it apart: who has heard of nothing by then begins the
//! next attempt. At most f + 1 attempts are made.
//!
//! Source: Küttler, Härtig, "Fault-tolerant reduce and allreduce operations based on correction".

use crate::broadcast::{self, Broadcast};
use crate::ftco::Value;
use crate::upward::{self, Reduced, Reduction};
use crate::{Actions, Core, Event, Rank, Renumbering, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What all processes know.
#[derive(Clone, Debug)]
pub struct Setup {
    /// To the root.
    pub reduction: Arc<upward::Setup>,
    /// From the root. Its correction should be fail-proof.
    pub broadcast: Arc<broadcast::Plan>,
    /// How long an attempt may take: the timeout of the reduction, the broadcast, and slack.
    pub attempt: Time,
    /// Roots to try, f + 1, but no more than there are processes.
    pub attempts: u32,
}

/// What processes tell each other in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body<V> {
    /// Of the reduction.
    Up(upward::Message<V>),
    /// Of the broadcast, with the result.
    Down(broadcast::Message, V),
    /// The result, to a process that has missed it.
    Result(V),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message<V> {
    /// Which attempt; its root is the rank of this number.
    pub attempt: u32,
    /// What it says.
    pub body: Body<V>,
}

/// One process's part. Its output is the result, or nothing if all roots are dead.
#[derive(Clone, Debug)]
pub struct Allreduce<V> {
    setup: Arc<Setup>,
    me: Rank,
    own: V,
    dead: BTreeSet<Rank>,
    attempt: u32,
    began: Time,
    up: Reduction<V>,
    down: Broadcast,
    /// When the reduction wants to be woken.
    up_due: Option<Time>,
    result: Option<V>,
    is_done: bool,
    parked: Vec<(Rank, Message<V>)>,
    up_actions: Actions<upward::Message<V>, Reduced<V>>,
    down_actions: Actions<broadcast::Message, ()>,
}

type Doing<V> = Actions<Message<V>, Option<V>>;

impl<V: Value> Allreduce<V> {
    /// Process `me` with its value. `dead` are neither waited for nor tried as a root.
    #[must_use]
    pub fn new(setup: Arc<Setup>, me: Rank, own: V, dead: BTreeSet<Rank>) -> Self {
        let attempt = (0..setup.attempts).find(|root| !dead.contains(root)).unwrap_or(0);
        let (up, down) = cores(&setup, me, &own, &dead, attempt);
        Self {
            setup,
            me,
            own,
            dead,
            attempt,
            began: 0,
            up,
            down,
            up_due: None,
            result: None,
            is_done: false,
            parked: Vec::new(),
            up_actions: Actions::default(),
            down_actions: Actions::default(),
        }
    }

    fn numbering(&self) -> Renumbering {
        Renumbering { size: self.setup.broadcast.size, root: self.attempt }
    }

    fn begin(&mut self, now: Time, actions: &mut Doing<V>) {
        self.began = now;
        (self.up, self.down) = cores(&self.setup, self.me, &self.own, &self.dead, self.attempt);
        self.up_step(Event::Start, now, actions);
        let parked = std::mem::take(&mut self.parked);
        for (from, message) in parked {
            self.receive(from, message, now, actions);
        }
    }

    fn up_step(&mut self, event: Event<upward::Message<V>>, now: Time, actions: &mut Doing<V>) {
        self.up.step(event, now, &mut self.up_actions);
        let (map, attempt) = (self.numbering(), self.attempt);
        for (to, message) in self.up_actions.sends.drain(..) {
            actions.send(map.to_real(to), Message { attempt, body: Body::Up(message) });
        }
        self.up_due = self.up_actions.wake.take().or(self.up_due);
        if let Some(Reduced::Value(value)) = self.up_actions.output.take() {
            self.result = Some(value);
            self.down_step(Event::Start, now, actions);
        }
    }

    fn down_step(&mut self, event: Event<broadcast::Message>, now: Time, actions: &mut Doing<V>) {
        self.down.step(event, now, &mut self.down_actions);
        let (map, attempt) = (self.numbering(), self.attempt);
        if let Some(value) = &self.result {
            for (to, message) in self.down_actions.sends.drain(..) {
                let body = Body::Down(message, value.clone());
                actions.send(map.to_real(to), Message { attempt, body });
            }
        }
        if let Some(wake) = self.down_actions.wake.take() {
            actions.wake_at(wake);
        }
        if self.down_actions.output.take().is_some() {
            self.finish(actions);
        }
    }

    fn finish(&mut self, actions: &mut Doing<V>) {
        if !self.is_done {
            self.is_done = true;
            actions.output = Some(self.result.clone());
        }
    }

    fn receive(&mut self, from: Rank, message: Message<V>, now: Time, actions: &mut Doing<V>) {
        let map = self.numbering();
        match message.body {
            Body::Result(value) => {
                self.result.get_or_insert(value);
                self.finish(actions);
            }
            Body::Down(how, value) if message.attempt == self.attempt => {
                self.result.get_or_insert(value);
                let event = Event::Message { from: map.to_virtual(from), message: how };
                self.down_step(event, now, actions);
            }
            Body::Up(up) if message.attempt == self.attempt => {
                let event = Event::Message { from: map.to_virtual(from), message: up };
                self.up_step(event, now, actions);
            }
            body if message.attempt > self.attempt => match &self.result {
                Some(value) if self.is_done => {
                    let body = Body::Result(value.clone());
                    actions.send(from, Message { attempt: message.attempt, body });
                }
                _ => self.parked.push((from, Message { attempt: message.attempt, body })),
            },
            _ => {}
        }
    }

    fn tick(&mut self, now: Time, actions: &mut Doing<V>) {
        if self.is_done {
            self.down_step(Event::Timer, now, actions);
        } else if now < self.began + self.setup.attempt {
            self.up_step(Event::Timer, now, actions);
        } else {
            let next = self.attempt + 1;
            match (next..self.setup.attempts).find(|root| !self.dead.contains(root)) {
                Some(root) => {
                    self.attempt = root;
                    self.begin(now, actions);
                }
                None => self.finish(actions),
            }
        }
    }
}

/// The two machines of an attempt, whose root has the rank 0 in them.
fn cores<V: Value>(
    setup: &Setup,
    me: Rank,
    own: &V,
    dead: &BTreeSet<Rank>,
    attempt: u32,
) -> (Reduction<V>, Broadcast) {
    let map = Renumbering { size: setup.broadcast.size, root: attempt };
    let dead = dead.iter().map(|&rank| map.to_virtual(rank)).collect();
    let me = map.to_virtual(me);
    let up = Reduction::new(Arc::clone(&setup.reduction), me, own.clone(), &dead);
    (up, Broadcast::new(Arc::clone(&setup.broadcast), me))
}

impl<V: Value> Core for Allreduce<V> {
    type Message = Message<V>;
    type Output = Option<V>;

    fn step(&mut self, event: Event<Message<V>>, now: Time, actions: &mut Doing<V>) {
        match event {
            Event::Start => self.begin(now, actions),
            Event::Message { from, message } => self.receive(from, message, now, actions),
            Event::PortFree => self.down_step(Event::PortFree, now, actions),
            Event::Timer => self.tick(now, actions),
            Event::Dead(rank) => {
                self.dead.insert(rank);
                let rank = self.numbering().to_virtual(rank);
                self.up_step(Event::Dead(rank), now, actions);
            }
        }
        if !self.is_done {
            actions.wake_at(self.began + self.setup.attempt);
            if let Some(due) = self.up_due.filter(|&due| due > now) {
                actions.wake_at(due);
            }
        }
    }
}

#[cfg(test)]
#[path = "allreduce_tests.rs"]
mod tests;
