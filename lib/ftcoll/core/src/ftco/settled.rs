// SPDX-License-Identifier: Apache-2.0
//! What can have no effect any more in the last call of a communicator: for the model checker,
//! which takes states for one that differ in nothing else.
//!
//! Each part says why it is without effect. Time is not looked at: the checker's stands still.

use super::machine::Ftco;
use super::{Body, Message, Value, Wanted};
use crate::Rank;

impl<V: Value + PartialEq> Ftco<V> {
    /// Whether this process has ended its call, so that, if no other one follows, all that it
    /// still does is to answer, always the same to the same question.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.call.is_none() && self.state.epoch > 0
    }

    /// Whether this message of the last call changes nothing here but what [`Ftco::settle`]
    /// forgets, and is answered by nothing but such messages.
    ///
    /// An ACK and a question for life only say that somebody lives, which matters to the clock and
    /// to the next call. A verdict that comes after another one is not looked at.
    #[must_use]
    pub fn is_settled(&self, message: &Message<V>) -> bool {
        match message.body {
            Body::Ack | Body::KeepAlive(Wanted::Life) => true,
            Body::Verdict { .. } => self.has_ended(),
            Body::KeepAlive(_) | Body::Contribution(_) => false,
        }
    }

    /// Forgets what has no effect in the last call, given who is dead indeed.
    ///
    /// - Who was reported dead, has spoken since, or told the verdict: is looked at when the next
    ///   call begins, and decides before that only who is asked for life.
    /// - That a dead process was sent the contribution, wants the verdict or was given up: decides
    ///   only whether it is sent something, which is lost.
    /// - After the call, whom this process holds for dead: likewise. Answers are made from the
    ///   verdict that is kept.
    pub fn settle(&mut self, is_dead: impl Fn(Rank) -> bool) {
        let has_ended = self.has_ended();
        let state = &mut self.state;
        state.reported.clear();
        state.spoken.clear();
        state.told_by = None;
        if has_ended {
            state.dead.clear();
        }
        if let Some(call) = &mut state.call {
            for ranks in [&mut call.sent_to, &mut call.askers, &mut call.suspects] {
                ranks.retain(|&rank| !is_dead(rank));
            }
        }
    }
}
