// SPDX-License-Identifier: Apache-2.0
//! Corrected broadcast: a dissemination that reaches most, then a correction that reaches the rest.
//! No acknowledgement, no detector of failures, no timeout.
//!
//! The dissemination is a tree or gossip. The correction begins at a time that all know (the
//! dissemination is over then: fewest messages, needs clocks) or as soon as this process has sent
//! what the dissemination asks of it; a message that came early by correction is then sent down the
//! tree as well.
//!
//! The core sends one message per [`Event::PortFree`], for what it hears meanwhile decides what is
//! still worth sending.
//!
//! Sources: those of `correction`; FFMK's final report, sections 3.2 and 3.3.

use crate::correction::{Correction, Rule, Side, distance, neighbour};
use crate::tree::Tree;
use crate::{Actions, Core, Event, Rank, Time, draw};
use std::sync::Arc;

/// How the message reaches most processes.
#[derive(Clone, Debug)]
pub enum Dissemination {
    /// Down a tree.
    Tree(Arc<Tree>),
    /// To randomly drawn others.
    Gossip(Gossip),
}

/// Everybody who has the message sends it to others, drawn at random, up to an end.
#[derive(Clone, Copy, Debug)]
pub struct Gossip {
    /// Of the draws; the same at all processes.
    pub seed: u64,
    /// When nobody sends any more.
    pub until: Until,
}

/// The end of gossip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// A time, on clocks that all share.
    Time(Time),
    /// So many steps of a logical clock that the messages carry, for processes without a common
    /// clock. A process sends one message per step, and a message takes `hop` steps.
    Steps {
        /// Length of the gossip.
        steps: u32,
        /// Steps from one process to the next: (L + 2o) / max(o, g).
        hop: u32,
    },
}

/// When the correction begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At a time that all know. Whom a correction reaches does not disseminate.
    At(Time),
    /// After this process's share of the dissemination.
    WhenSent,
}

/// What all processes of a broadcast know beforehand.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Processes.
    pub size: Rank,
    /// How most are reached.
    pub dissemination: Dissemination,
    /// How the rest is.
    pub correction: Rule,
    /// When the correction begins.
    pub begin: Begin,
}

/// The message, beside the value that is broadcast: how it got here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// From the parent in the tree.
    Tree,
    /// By gossip; the logical time of its arrival.
    Gossip {
        /// In steps.
        step: u32,
    },
    /// By correction, going to this side.
    Correction(Side),
}

/// One process's part. Its output comes when it has the value, or, at the root, at once.
#[derive(Clone, Debug)]
pub struct Broadcast {
    plan: Arc<Plan>,
    me: Rank,
    state: State,
}

/// What changes during a broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    has_value: bool,
    /// The dissemination reached it, so that it disseminates and corrects.
    is_reached: bool,
    /// Messages of the dissemination that were sent.
    disseminated: u32,
    /// Logical time at which gossip reached it.
    step: u32,
    correction: Correction,
}

impl Broadcast {
    /// Process `me` of the plan.
    #[must_use]
    pub fn new(plan: Arc<Plan>, me: Rank) -> Self {
        let state = State {
            has_value: false,
            is_reached: false,
            disseminated: 0,
            step: 0,
            correction: Correction::new(),
        };
        Self { plan, me, state }
    }

    /// Whether this process has the value.
    #[must_use]
    pub fn has_value(&self) -> bool {
        self.state.has_value
    }

    /// Whether it has sent all that it will ever send, whatever comes.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let (rule, size) = (self.plan.correction, self.plan.size);
        let mut after = self.clone();
        self.state.is_reached
            && after.disseminate(Time::MAX).is_none()
            && self.state.correction.has_ended(rule, size)
    }

    /// Forgets what cannot matter any more. Of processes without a clock
    /// ([`Begin::WhenSent`]); it changes nothing else.
    pub fn settle(&mut self) {
        if !self.state.has_value || self.plan.begin != Begin::WhenSent {
            return;
        }
        let is_tree = matches!(self.plan.dissemination, Dissemination::Tree(_));
        if is_tree && matches!(self.plan.correction, Rule::FailProof { .. }) {
            // It sends the same whoever reached it.
            self.state.is_reached = true;
        }
        let horizon = self.state.correction.horizon(self.plan.correction, self.plan.size);
        self.state.correction.forget(horizon);
    }

    /// Whether a message changes nothing but what [`Broadcast::settle`] forgets.
    #[must_use]
    pub fn is_settled(&self, from: Rank, message: &Message) -> bool {
        let (rule, size) = (self.plan.correction, self.plan.size);
        self.state.has_value
            && self.plan.begin == Begin::WhenSent
            && match message {
                Message::Tree | Message::Gossip { .. } => self.state.is_reached,
                Message::Correction(side) => {
                    let [left, right] = self.state.correction.horizon(rule, size);
                    let from_side = side.opposite();
                    let horizon = if from_side == Side::Left { left } else { right };
                    distance(self.me, from, from_side, size) > horizon
                }
            }
    }

    fn receive(&mut self, from: Rank, message: Message) {
        self.state.has_value = true;
        match message {
            Message::Tree => self.state.is_reached = true,
            Message::Gossip { step } => {
                if !self.state.is_reached {
                    self.state.step = step;
                }
                self.state.is_reached = true;
            }
            Message::Correction(side) => {
                let far = distance(self.me, from, side.opposite(), self.plan.size);
                self.state.correction.hear(self.plan.correction, side.opposite(), far);
            }
        }
    }

    /// The next message of the dissemination, if one is due.
    fn disseminate(&mut self, now: Time) -> Option<(Rank, Message)> {
        let sent = self.state.disseminated;
        let next = match &self.plan.dissemination {
            Dissemination::Tree(tree) => {
                let is_late = matches!(self.plan.begin, Begin::At(begin) if now >= begin);
                if is_late && !self.state.is_reached {
                    return None;
                }
                (tree.child(self.me, sent)?, Message::Tree)
            }
            Dissemination::Gossip(gossip) => {
                let step = self.state.step + sent;
                let arrival = match gossip.until {
                    Until::Time(end) => (now < end).then_some(0)?,
                    Until::Steps { steps, hop } => (step < steps).then_some(step + hop)?,
                };
                if !self.state.is_reached || self.plan.size < 2 {
                    return None;
                }
                let to = draw::other(gossip.seed, self.me, sent, self.plan.size);
                (to, Message::Gossip { step: arrival })
            }
        };
        self.state.disseminated += 1;
        Some(next)
    }

    /// The next message of the correction, if one is due.
    fn correct(&mut self, now: Time, wake: &mut Option<Time>) -> Option<(Rank, Message)> {
        let everybody = matches!(self.plan.correction, Rule::FailProof { .. });
        if self.plan.correction == Rule::None || !(self.state.is_reached || everybody) {
            return None;
        }
        match self.plan.begin {
            Begin::At(begin) if now < begin => {
                *wake = Some(begin);
                return None;
            }
            _ => {}
        }
        let (side, far) = self.state.correction.next(self.plan.correction, self.plan.size)?;
        Some((neighbour(self.me, far, side, self.plan.size), Message::Correction(side)))
    }
}

impl Core for Broadcast {
    type Message = Message;
    type Output = ();

    fn step(&mut self, event: Event<Message>, now: Time, actions: &mut Actions<Message, ()>) {
        let had_value = self.state.has_value;
        match event {
            Event::Start if self.me == 0 => {
                self.state.has_value = true;
                self.state.is_reached = true;
            }
            Event::Message { from, message } => self.receive(from, message),
            Event::PortFree | Event::Timer if self.state.has_value => {
                let mut wake = None;
                let next = self.disseminate(now).or_else(|| self.correct(now, &mut wake));
                if let Some((to, message)) = next {
                    actions.send(to, message);
                } else if let Some(time) = wake {
                    actions.wake_at(time);
                }
            }
            _ => {}
        }
        if self.state.has_value && !had_value {
            actions.output = Some(());
        }
    }
}

/// Two machines are equal if they do the same from now on.
impl PartialEq for Broadcast {
    fn eq(&self, other: &Self) -> bool {
        self.me == other.me && self.state == other.state
    }
}

impl Eq for Broadcast {}

impl std::hash::Hash for Broadcast {
    fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
        (self.me, &self.state).hash(hasher);
    }
}
