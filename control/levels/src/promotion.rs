// SPDX-License-Identifier: Apache-2.0
//! How a snapshot gets from one level to the next, behind the running job: a machine.
//!
//! ```text
//!     queued ──> active: hosts make it ──> active: it is noted ──> done ──> dropped
//!       │                  └───────────────────┴──> failed: what was made of it is thrown away
//!       └──> superseded by a newer snapshot
//! ```
//!
//! Each snapshot is to have all levels, unless a plan says which are *wanted* of which. One level
//! of one snapshot is made at a time. Of those that wait it is that of a level that has not been
//! made for the longest time: else a fast level would keep a slow one from ever being made.
//! Nothing is made again once it has failed; the next snapshot is.
//!
//! Invariant: what is done is dropped only when as many newer snapshots as are kept are done at the
//!            same level or a stronger one.
//! Invariant: the images of a snapshot stay on their hosts as long as a level on hosts needs them.
//! Invariant: once a host has died nothing is made and nothing is dropped: the run is over, and its
//!            restart needs what is there.
//! Invariant: every wait has a deadline.

use crate::level::{Chain, Level};
use crate::snapshot::Id;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

/// What a run wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Its levels.
    pub chain: Chain,
    /// Its hosts, which have numbers from 0.
    pub hosts: u32,
    /// Snapshots that are kept of each level, at least one. Partners rotate: with two the loss of a
    /// pair costs one interval.
    pub keep: u32,
    /// A level of which nothing is heard for so long has failed.
    pub deadline_ms: u64,
    /// Levels are made when they are wanted, not of each snapshot.
    pub on_demand: bool,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// All hosts have their images of a new snapshot, durably.
    Saved(Id),
    /// This level of it is to be made.
    Wanted {
        /// Of which snapshot.
        id: Id,
        /// Which level.
        level: Level,
    },
    /// A host has made its share, durably.
    Made {
        /// Of which attempt.
        attempt: u64,
        /// Who.
        host: u32,
    },
    /// A host has made something of its share.
    Advanced {
        /// Of which attempt.
        attempt: u64,
    },
    /// A host cannot make its share, or a level cannot be noted.
    Failed {
        /// Of which attempt.
        attempt: u64,
        /// Why.
        why: String,
    },
    /// A level has been noted as done, durably.
    Noted {
        /// Of which attempt.
        attempt: u64,
    },
    /// A host is lost.
    Died(u32),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A host is to make its share of a level.
    Make {
        /// To be named in the answer.
        attempt: u64,
        /// Of which snapshot.
        id: Id,
        /// Which level.
        level: Level,
        /// Who.
        host: u32,
    },
    /// All shares are made: it is to be noted, where they are.
    Note {
        /// To be named in the answer.
        attempt: u64,
        /// Of which snapshot.
        id: Id,
        /// Which level.
        level: Level,
    },
    /// What has been made in an attempt is to be thrown away; it is not waited for.
    Abort {
        /// Which.
        attempt: u64,
        /// Of which snapshot.
        id: Id,
        /// Which level.
        level: Level,
    },
    /// What a level has of a snapshot may go; `Local`: all that is left of it on hosts.
    Drop {
        /// Of which snapshot.
        id: Id,
        /// Which level.
        level: Level,
    },
}

/// How far a level of a snapshot is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits.
    Queued,
    /// It is being made.
    Active,
    /// It is there.
    Done,
    /// It could not be made.
    Failed(String),
}

/// What a test breaks, to see that it is found.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// A newer snapshot counts as soon as it is saved.
    DropsAtOnce,
    /// Images go though parities over them stay.
    DropsImages,
    /// A level is done when the first host has made its share.
    HearsOne,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Active {
    attempt: u64,
    id: Id,
    level: Level,
    /// Who has not made its share; nobody: it is being noted.
    missing: BTreeSet<u32>,
    heard_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kept {
    levels: BTreeMap<Level, Status>,
    /// An earlier run's: whether all its hosts live is not known, so nothing older goes for it.
    is_earlier: bool,
}

/// The promotion of the snapshots of one run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Promotion {
    config: Config,
    snapshots: BTreeMap<Id, Kept>,
    active: Option<Active>,
    dead: BTreeSet<u32>,
    attempts: u64,
    /// The last attempt at each level.
    last: BTreeMap<Level, u64>,
    damage: Option<Damage>,
}

impl Promotion {
    /// At the beginning of a run. `earlier`: what is there of earlier runs, and is dropped as it
    /// becomes old.
    #[must_use]
    pub fn new(config: Config, earlier: &BTreeMap<Id, BTreeSet<Level>>) -> Self {
        let kept = |levels: &BTreeSet<Level>| Kept {
            levels: levels.iter().map(|level| (*level, Status::Done)).collect(),
            is_earlier: true,
        };
        Self {
            config,
            snapshots: earlier.iter().map(|(id, levels)| (*id, kept(levels))).collect(),
            active: None,
            dead: BTreeSet::new(),
            attempts: 0,
            last: BTreeMap::new(),
            damage: None,
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn damaged(self, damage: Option<Damage>) -> Self {
        Self { damage, ..self }
    }

    /// How far each level of each snapshot is.
    pub fn statuses(&self) -> impl Iterator<Item = (Id, Level, &Status)> {
        self.snapshots
            .iter()
            .flat_map(|(id, kept)| kept.levels.iter().map(|(level, status)| (*id, *level, status)))
    }

    /// Whether nothing is being made and nothing waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.active.is_none() && (!self.dead.is_empty() || self.next().is_none())
    }

    /// When a tick is needed at the latest.
    #[must_use]
    pub fn wake_ms(&self) -> Option<u64> {
        let active = self.active.as_ref()?;
        Some(active.heard_ms.saturating_add(self.config.deadline_ms))
    }

    /// What follows from an event.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Saved(id) => self.saved(id),
            Event::Wanted { id, level } => self.wanted(id, level),
            Event::Advanced { attempt } => self.heard(attempt, now_ms),
            Event::Made { attempt, host } => {
                self.heard(attempt, now_ms);
                self.made(attempt, host, &mut actions);
            }
            Event::Failed { attempt, why } if self.is_active(attempt) => {
                self.fail(&why, &mut actions);
            }
            Event::Noted { attempt } if self.is_active(attempt) => self.noted(),
            Event::Failed { .. } | Event::Noted { .. } => {}
            Event::Died(host) => {
                self.dead.insert(host);
                self.fail("a host was lost", &mut actions);
            }
            Event::Tick if self.wake_ms().is_some_and(|wake| wake <= now_ms) => {
                self.fail("nothing was heard of it", &mut actions);
            }
            Event::Tick => {}
        }
        if self.dead.is_empty() {
            self.drop_old(&mut actions);
            self.begin(now_ms, &mut actions);
        }
        actions
    }

    fn is_active(&self, attempt: u64) -> bool {
        self.active.as_ref().is_some_and(|active| active.attempt == attempt)
    }

    fn heard(&mut self, attempt: u64, now_ms: u64) {
        if let Some(active) = self.active.as_mut().filter(|active| active.attempt == attempt) {
            active.heard_ms = now_ms;
        }
    }

    /// What waits of older snapshots is superseded, unless it was wanted of those.
    fn saved(&mut self, id: Id) {
        let is_newest = self.snapshots.keys().all(|known| *known < id);
        if !is_newest || !self.dead.is_empty() {
            return;
        }
        let mut levels = BTreeMap::from([(Level::Local, Status::Done)]);
        if !self.config.on_demand {
            for kept in self.snapshots.values_mut() {
                kept.levels.retain(|_, status| *status != Status::Queued);
            }
            let others = self.config.chain.levels().iter().filter(|level| **level != Level::Local);
            levels.extend(others.map(|level| (*level, Status::Queued)));
        }
        self.snapshots.insert(id, Kept { levels, is_earlier: false });
    }

    /// Only what its hosts still have can be made, and nothing twice.
    fn wanted(&mut self, id: Id, level: Level) {
        let kept = self.snapshots.get_mut(&id).filter(|kept| !kept.is_earlier);
        let Some(kept) = kept.filter(|kept| kept.levels.contains_key(&Level::Local)) else {
            return;
        };
        if self.config.chain.levels().contains(&level) {
            kept.levels.entry(level).or_insert(Status::Queued);
        }
    }

    fn made(&mut self, attempt: u64, host: u32, actions: &mut Vec<Action>) {
        let hears_one = self.damage == Some(Damage::HearsOne);
        let Some(active) = self.active.as_mut().filter(|active| active.attempt == attempt) else {
            return;
        };
        if !active.missing.remove(&host) {
            return; // said again
        }
        if hears_one {
            active.missing.clear();
        }
        if active.missing.is_empty() {
            let Active { attempt, id, level, .. } = *active;
            actions.push(Action::Note { attempt, id, level });
        }
    }

    fn noted(&mut self) {
        // Nobody notes what is not made.
        if let Some(active) = self.active.take_if(|active| active.missing.is_empty()) {
            self.set(active.id, active.level, Status::Done);
        }
    }

    fn fail(&mut self, why: &str, actions: &mut Vec<Action>) {
        if let Some(Active { attempt, id, level, .. }) = self.active.take() {
            self.set(id, level, Status::Failed(why.to_owned()));
            actions.push(Action::Abort { attempt, id, level });
        }
    }

    fn set(&mut self, id: Id, level: Level, status: Status) {
        if let Some(kept) = self.snapshots.get_mut(&id) {
            kept.levels.insert(level, status);
        }
    }

    /// The one that waits whose level was last made the longest time ago.
    fn next(&self) -> Option<(Id, Level)> {
        let queued = self.statuses().filter(|(_, _, status)| **status == Status::Queued);
        let waiting = queued.map(|(id, level, _)| (id, level));
        waiting.min_by_key(|(_, level)| (self.last.get(level).copied().unwrap_or(0), *level))
    }

    fn begin(&mut self, now_ms: u64, actions: &mut Vec<Action>) {
        if self.active.is_some() {
            return;
        }
        let Some((id, level)) = self.next() else { return };
        self.attempts += 1;
        let attempt = self.attempts;
        self.last.insert(level, attempt);
        self.set(id, level, Status::Active);
        let missing = (0..self.config.hosts).collect();
        self.active = Some(Active { attempt, id, level, missing, heard_ms: now_ms });
        let make = |host| Action::Make { attempt, id, level, host };
        actions.extend((0..self.config.hosts).map(make));
    }

    /// How many newer snapshots are done at this level or a stronger one.
    fn newer(&self, than: Id, at: Level) -> usize {
        let of_this_run =
            self.snapshots.range((Excluded(than), Unbounded)).filter(|(_, kept)| !kept.is_earlier);
        let counts = |kept: &Kept| match self.damage {
            Some(Damage::DropsAtOnce) => true,
            _ => kept.levels.range(at..).any(|(_, status)| *status == Status::Done),
        };
        of_this_run.filter(|(_, kept)| counts(kept)).count()
    }

    /// Whether a snapshot's images are needed by another of its levels.
    fn are_needed(&self, kept: &Kept) -> bool {
        self.damage != Some(Damage::DropsImages)
            && kept.levels.iter().any(|(level, status)| match status {
                Status::Queued | Status::Active => true,
                Status::Done => *level != Level::Local && level.is_on_hosts(),
                Status::Failed(_) => false,
            })
    }

    fn drop_old(&mut self, actions: &mut Vec<Action>) {
        let keep = self.config.keep.max(1) as usize;
        let ids: Vec<Id> = self.snapshots.keys().copied().collect();
        for id in ids {
            // The strongest first; the images last.
            let levels: Vec<Level> = self.done(id).into_iter().rev().collect();
            for level in levels {
                let Some(kept) = self.snapshots.get(&id) else { break };
                let stays = self.newer(id, level) < keep
                    || (level == Level::Local && self.are_needed(kept));
                if !stays {
                    actions.push(Action::Drop { id, level });
                    if let Some(kept) = self.snapshots.get_mut(&id) {
                        kept.levels.remove(&level);
                    }
                }
            }
            if self.done(id).is_empty() && !self.is_being_made(id) {
                self.snapshots.remove(&id);
            }
        }
    }

    fn is_being_made(&self, id: Id) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == id)
    }

    fn done(&self, id: Id) -> Vec<Level> {
        let Some(kept) = self.snapshots.get(&id) else { return Vec::new() };
        let done = kept.levels.iter().filter(|(_, status)| **status == Status::Done);
        done.map(|(level, _)| *level).collect()
    }
}

#[cfg(test)]
#[path = "promotion_tests.rs"]
mod tests;
