// SPDX-License-Identifier: Apache-2.0
//! Following a plan while a job runs: when the next checkpoint is due, which level it is brought
//! to, which level is being made now.
//!
//! One level is made at a time. A cheaper one goes first: what is being made then pauses and
//! continues where it stood. A level that is being made, or waits for that, takes no newer
//! checkpoint; it stays due, and the next checkpoint after it is made goes there.
//!
//! Costs are taken as they are measured. When one has drifted by a fifth from what the plan was
//! made with, there is a new plan.
//!
//! Invariant: for each level, what counts towards its next checkpoint is known by snapshot, so a
//! restart counts on from where the job then is.

use crate::optimise::{Planned, Planner};
use std::collections::BTreeMap;

/// A checkpoint's number.
pub type Epoch = u32;

/// What has happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The job computes, from its beginning or from this snapshot.
    Running {
        /// The snapshot, if any.
        from: Option<Epoch>,
    },
    /// A checkpoint is complete on the first level, and the job continues.
    Saved {
        /// Its number.
        epoch: Epoch,
        /// The job stood for so long, milliseconds.
        pause_ms: u64,
    },
    /// A checkpoint has failed; the job continues.
    SaveFailed,
    /// A level is made.
    Promoted {
        /// Its place in the plan's chain.
        place: usize,
        /// Making it took so long, pauses left out, milliseconds.
        took_ms: u64,
    },
    /// A level could not be made, or what it is made from is lost.
    PromotionFailed {
        /// Its place in the plan's chain.
        place: usize,
    },
    /// Time has passed.
    Wake,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Take a checkpoint.
    Save,
    /// Make this level of it, or continue to.
    Promote {
        /// The checkpoint.
        epoch: Epoch,
        /// Its place in the plan's chain.
        place: usize,
    },
    /// Leave this level as far as it is, for now.
    Pause {
        /// The checkpoint.
        epoch: Epoch,
        /// Its place in the plan's chain.
        place: usize,
    },
    /// Send `Wake` at this time, in milliseconds; it replaces the one before.
    WakeAt(u64),
    /// Costs have drifted; from now on another plan holds.
    Replanned,
}

/// Checkpoints since the last one of each place of the chain.
type Counts = Vec<u64>;

/// A level that is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Wanted {
    epoch: Epoch,
    place: usize,
}

/// Follows a plan.
#[derive(Clone, Debug)]
pub struct Follower {
    planner: Planner,
    planned: Planned,
    counts: Counts,
    /// Counts at each checkpoint of which something may be left.
    known: BTreeMap<Epoch, Counts>,
    /// Cheapest first.
    wanted: Vec<Wanted>,
    active: Option<Wanted>,
    due_ms: Option<u64>,
    saving: bool,
    /// Seconds that were measured, by level: a mean in which the newest counts a third.
    measured_s: BTreeMap<usize, f64>,
}

/// How far a cost drifts before there is a new plan.
const DRIFT: f64 = 0.2;
/// Counts of so many checkpoints are kept.
const KEPT: usize = 4096;

impl Follower {
    /// Follows a plan of this planner.
    pub fn new(planner: Planner, planned: Planned) -> Self {
        let counts = vec![0; planned.plan.levels.len()];
        Self {
            planner,
            planned,
            counts,
            known: BTreeMap::new(),
            wanted: Vec::new(),
            active: None,
            due_ms: None,
            saving: false,
            measured_s: BTreeMap::new(),
        }
    }

    /// The plan that holds.
    pub fn planned(&self) -> &Planned {
        &self.planned
    }

    /// When the next checkpoint is due, milliseconds.
    pub fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// The place of the chain that the next checkpoint goes to, the last of them.
    pub fn next_place(&self) -> usize {
        let is_due = |place: &usize| self.counts[*place] + 1 >= self.planned.plan.period(*place);
        (0..self.counts.len())
            .rev()
            .filter(is_due)
            .find(|place| !self.is_wanted(*place))
            .unwrap_or(0)
    }

    fn is_wanted(&self, place: usize) -> bool {
        self.wanted.iter().any(|wanted| wanted.place == place)
    }

    /// Takes an event at `now_ms` and says what to do.
    pub fn step(&mut self, event: &Event, now_ms: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        match *event {
            Event::Running { from } => self.running(from, now_ms, &mut actions),
            Event::Saved { epoch, pause_ms } => {
                self.measure(0, pause_ms, &mut actions);
                self.saved(epoch);
                self.schedule(now_ms, &mut actions);
            }
            Event::SaveFailed => {
                self.saving = false;
                self.schedule(now_ms, &mut actions);
            }
            Event::Promoted { place, took_ms } => {
                if self.finish(place) {
                    self.measure(place, took_ms, &mut actions);
                    if self.wanted.is_empty() && !self.planner.is_behind() {
                        self.schedule(now_ms, &mut actions); // the job stood until now
                    }
                }
            }
            Event::PromotionFailed { place } => {
                if let Some(lost) = self.wanted.iter().find(|wanted| wanted.place == place) {
                    // It stays due: its count was not begun anew for nothing.
                    let epoch = lost.epoch;
                    self.finish(place);
                    self.count_as_missing(epoch, place);
                }
            }
            Event::Wake => self.wake(now_ms, &mut actions),
        }
        self.make(&mut actions);
        actions
    }

    fn running(&mut self, from: Option<Epoch>, now_ms: u64, actions: &mut Vec<Action>) {
        self.saving = false;
        self.counts = from
            .and_then(|epoch| self.known.get(&epoch).cloned())
            .unwrap_or_else(|| vec![0; self.counts.len()]);
        // What is newer than that is of another course of the job.
        self.known.retain(|epoch, _| from.is_some_and(|from| *epoch <= from));
        self.wanted.retain(|wanted| from.is_some_and(|from| wanted.epoch <= from));
        if self.active.is_some_and(|active| !self.wanted.contains(&active)) {
            self.active = None;
        }
        self.schedule(now_ms, actions);
    }

    fn schedule(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let due_ms = now_ms + milliseconds(self.planned.plan.interval_s);
        self.due_ms = Some(due_ms);
        actions.push(Action::WakeAt(due_ms));
    }

    fn wake(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        let stands = self.saving || (!self.planner.is_behind() && self.active.is_some());
        match self.due_ms {
            Some(due_ms) if now_ms >= due_ms && !stands => {
                self.saving = true;
                self.due_ms = None;
                actions.push(Action::Save);
            }
            Some(due_ms) if now_ms < due_ms => actions.push(Action::WakeAt(due_ms)),
            _ => {}
        }
    }

    fn saved(&mut self, epoch: Epoch) {
        self.saving = false;
        let last = self.next_place();
        for count in &mut self.counts {
            *count += 1;
        }
        for place in 0..=last {
            if place == 0 {
                self.counts[0] = 0;
            } else if !self.is_wanted(place) {
                self.counts[place] = 0;
                self.wanted.push(Wanted { epoch, place });
            }
        }
        self.wanted.sort_by_key(|wanted| wanted.place);
        self.known.insert(epoch, self.counts.clone());
        while self.known.len() > KEPT {
            self.known.pop_first();
        }
    }

    /// Whether it was wanted.
    fn finish(&mut self, place: usize) -> bool {
        let before = self.wanted.len();
        self.wanted.retain(|wanted| wanted.place != place);
        if self.active.is_some_and(|active| active.place == place) {
            self.active = None;
        }
        self.wanted.len() < before
    }

    /// From `epoch` on, counts of the place are those of a job that never had it made.
    fn count_as_missing(&mut self, epoch: Epoch, place: usize) {
        let period = self.planned.plan.period(place);
        let of_course = self.known.range_mut(epoch..).map(|(_, counts)| counts);
        for counts in of_course.chain(std::iter::once(&mut self.counts)) {
            counts[place] += period;
        }
    }

    /// Has the cheapest wanted level made.
    fn make(&mut self, actions: &mut Vec<Action>) {
        let first = self.wanted.first().copied();
        if first == self.active {
            return;
        }
        if let Some(Wanted { epoch, place }) = self.active {
            actions.push(Action::Pause { epoch, place });
        }
        if let Some(Wanted { epoch, place }) = first {
            actions.push(Action::Promote { epoch, place });
        }
        self.active = first;
    }

    fn measure(&mut self, place: usize, took_ms: u64, actions: &mut Vec<Action>) {
        let level = self.planned.plan.levels[place];
        let took_s = took_ms as f64 / 1e3;
        let mean = self.measured_s.get(&level).map_or(took_s, |mean| (2.0 * mean + took_s) / 3.0);
        self.measured_s.insert(level, mean);
        let cost = self.planner.costs[level];
        let planned_s = if place == 0 { cost.direct_s } else { cost.promote_s };
        if (mean - planned_s).abs() <= DRIFT * planned_s.max(1e-3) {
            return;
        }
        let cost = &mut self.planner.costs[level];
        if place == 0 {
            cost.direct_s = mean;
        } else {
            cost.promote_s = mean;
        }
        // The levels stay: changing them is for the next start.
        if let Some(planned) = self.planner.best_of(&self.planned.plan.levels) {
            self.planned = planned;
            actions.push(Action::Replanned);
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
pub(crate) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
