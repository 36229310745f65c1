// SPDX-License-Identifier: Apache-2.0
//! When a job takes its next checkpoint of itself: never, this often, or as its plan says.
//!
//! The machine of a job holds one of these and tells it what happens to the job; it answers when a
//! checkpoint is due, and which level is to be made. It knows three things that a plan does not.
//! A job cannot always be checkpointed: what falls due meanwhile is taken as soon as it can. Before
//! the first checkpoint all costs are guesses, so the first comes after a quarter of the interval
//! that they give, and measures. A checkpoint that has failed leaves the job exposed, so it is
//! tried again after an eighth of the interval, then a quarter, and so on up to all of it.
//!
//! A pace that *waits for leave* says when a checkpoint is due and takes none: somebody else, who
//! knows of other jobs, says when, earlier or later (`Event::Leave`).
//!
//! Invariant: a checkpoint is asked for only while the job can be checkpointed and none is being
//! taken, whoever has asked for that one.

use crate::follow::{Action, Epoch, Event as Followed, Follower, milliseconds};

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The job can be checkpointed from now on, or cannot.
    Able(bool),
    /// A checkpoint has begun, whoever has asked for it.
    Began,
    /// It is complete on the first level, and the job continues.
    Saved {
        /// Its number.
        epoch: Epoch,
        /// The job stood for so long, milliseconds.
        pause_ms: u64,
    },
    /// It has failed, and the job continues.
    Failed,
    /// A level is made.
    Promoted {
        /// Its place in the plan's chain.
        place: usize,
        /// Making it took so long, pauses left out, milliseconds.
        took_ms: u64,
    },
    /// A level could not be made.
    PromotionFailed {
        /// Its place in the plan's chain.
        place: usize,
    },
    /// A checkpoint may be taken now, due or not. Only a pace that waits for leave hears this.
    Leave,
    /// Time has passed.
    Wake,
}

/// How often.
#[derive(Clone, Debug)]
pub enum Every {
    /// Only when asked.
    Never,
    /// This often, milliseconds, from when the job can first be checkpointed or the last
    /// checkpoint has ended.
    Fixed(u64),
    /// As its plan says.
    Auto(Box<Follower>),
}

/// Says when.
#[derive(Clone, Debug)]
pub struct Pace {
    every: Every,
    waits_for_leave: bool,
    /// The snapshot that the job continues from.
    from: Option<Epoch>,
    is_able: bool,
    has_begun: bool,
    is_saving: bool,
    /// It was this machine that asked for the checkpoint that is being taken.
    is_own: bool,
    /// Of `Fixed`: the next. Of `Auto`: one that comes before the plan's.
    due_ms: Option<u64>,
    failures: u32,
}

/// The first checkpoint comes after the interval over this.
const FIRST: u64 = 4;
/// A failed checkpoint is tried again after the interval over two to this power, then one less.
const AGAIN: u32 = 3;

impl Pace {
    /// For a job that begins, or continues from this snapshot.
    pub fn new(every: Every, from: Option<Epoch>) -> Self {
        Self {
            every,
            waits_for_leave: false,
            from,
            is_able: false,
            has_begun: false,
            is_saving: false,
            is_own: false,
            due_ms: None,
            failures: 0,
        }
    }

    /// The same, with somebody else to say when.
    #[must_use]
    pub fn with_leave(self) -> Self {
        Self { waits_for_leave: true, ..self }
    }

    /// What it follows, if it does.
    pub fn follower(&self) -> Option<&Follower> {
        match &self.every {
            Every::Auto(follower) => Some(follower),
            Every::Never | Every::Fixed(_) => None,
        }
    }

    /// Takes an event at `now_ms` and says what to do.
    pub fn step(&mut self, event: &Event, now_ms: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        match *event {
            Event::Able(is_able) => self.able(is_able, now_ms, &mut actions),
            Event::Began => {
                self.is_own &= self.is_saving;
                self.is_saving = true;
            }
            Event::Saved { epoch, pause_ms } => {
                self.ended(now_ms);
                (self.due_ms, self.failures) = (self.fixed_ms(now_ms), 0);
                self.follow(&Followed::Saved { epoch, pause_ms }, now_ms, &mut actions);
            }
            Event::Failed => self.failed(now_ms, &mut actions),
            Event::Promoted { place, took_ms } => {
                self.follow(&Followed::Promoted { place, took_ms }, now_ms, &mut actions);
            }
            Event::PromotionFailed { place } => {
                self.follow(&Followed::PromotionFailed { place }, now_ms, &mut actions);
            }
            Event::Leave if self.is_able && !self.is_saving => {
                (self.is_saving, self.is_own, self.due_ms) = (true, true, None);
                actions.push(Action::Save);
            }
            Event::Leave | Event::Wake => {}
        }
        // What falls due while the job cannot be checkpointed is found here as soon as it can.
        if self.is_able && !self.is_saving && !self.waits_for_leave {
            self.save_if_due(now_ms, &mut actions);
        }
        self.only_wake(&mut actions);
        actions
    }

    fn able(&mut self, is_able: bool, now_ms: u64, actions: &mut Vec<Action>) {
        self.is_able = is_able;
        if !is_able || self.has_begun {
            return;
        }
        self.has_begun = true;
        self.follow(&Followed::Running { from: self.from }, now_ms, actions);
        self.due_ms = self.interval_ms().map(|interval_ms| match self.every {
            Every::Auto(_) => now_ms + interval_ms / FIRST,
            Every::Never | Every::Fixed(_) => now_ms + interval_ms,
        });
    }

    fn ended(&mut self, now_ms: u64) {
        self.is_saving = false;
        self.is_own = false;
        self.due_ms = self.fixed_ms(now_ms).or(self.due_ms);
    }

    fn failed(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let was_own = self.is_own;
        self.ended(now_ms);
        // Somebody else's does not change when the plan's own is due.
        if let (Every::Auto(_), true, Some(interval_ms)) =
            (&self.every, was_own, self.interval_ms())
        {
            self.failures += 1;
            let halvings = (AGAIN + 1).saturating_sub(self.failures);
            self.due_ms = Some(now_ms + (interval_ms >> halvings).max(1));
            self.follow(&Followed::SaveFailed, now_ms, actions);
        }
    }

    /// How often it saves, milliseconds, if it does.
    pub fn interval_ms(&self) -> Option<u64> {
        match &self.every {
            Every::Never => None,
            Every::Fixed(every_ms) => Some(*every_ms),
            Every::Auto(follower) => Some(milliseconds(follower.planned().plan.interval_s)),
        }
    }

    fn fixed_ms(&self, now_ms: u64) -> Option<u64> {
        match self.every {
            Every::Fixed(every_ms) => Some(now_ms + every_ms),
            Every::Never | Every::Auto(_) => None,
        }
    }

    fn follow(&mut self, event: &Followed, now_ms: u64, actions: &mut Vec<Action>) {
        if let Every::Auto(follower) = &mut self.every {
            actions.extend(follower.step(event, now_ms));
        }
    }

    fn save_if_due(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        if self.due_ms.is_some_and(|due_ms| now_ms >= due_ms) {
            self.due_ms = None;
            actions.push(Action::Save);
        } else {
            self.follow(&Followed::Wake, now_ms, actions);
        }
        if actions.contains(&Action::Save) {
            (self.is_saving, self.is_own) = (true, true);
        }
    }

    /// One time to wake at, the earlier of the plan's and its own; none while nothing can begin.
    fn only_wake(&self, actions: &mut Vec<Action>) {
        actions.retain(|action| !matches!(action, Action::WakeAt(_)));
        let planned_ms = self.follower().and_then(Follower::due_ms);
        let next_ms = self.due_ms.into_iter().chain(planned_ms).min();
        if let (true, false, Some(at_ms)) = (self.is_able, self.is_saving, next_ms) {
            actions.push(Action::WakeAt(at_ms));
        }
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
