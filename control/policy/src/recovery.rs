// SPDX-License-Identifier: Apache-2.0
//! Whether a run that has broken off is begun again in the same allocation.
//!
//! What is begun again is what may go well another time: a rank that a signal has killed, a host
//! that is lost, a launcher that has failed. What the program itself says by its exit code is its
//! own affair and would be the same again, and what was refused before any rank ran as well. The
//! first time it is begun again at once, then after pauses that double. A snapshot that has been
//! committed since is progress, and resets them.
//!
//! A program that dies at the same place whatever one does is told by its deaths: the same cause
//! three times without a snapshot between is a crash loop, and ends the chain by name. A host that
//! is lost is left out from then on.
//!
//! Invariant: what has come to its end, or has been saved and stopped, is not begun again.
//! Invariant: there are no more runs than one and the retries that were allowed.

use std::collections::{BTreeMap, BTreeSet};

/// So many deaths of one cause without a snapshot between are a crash loop.
pub const LOOP_LENGTH: u32 = 3;
/// After the second death; the first is answered at once.
const PAUSE_MS: u64 = 1000;
const PAUSE_MAX_MS: u64 = 60_000;

/// What a run has died of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A rank.
    Rank {
        /// Its number, if it is known.
        rank: Option<u32>,
        /// The signal that it has died of, where mpirun tells it.
        signal: Option<i32>,
    },
    /// This host is lost.
    Host(String),
    /// mpirun has failed with this code.
    Launcher(i32),
    /// A daemon of mpirun has died, and no rank.
    Daemon,
}

/// How a run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The job has come to its end.
    Done,
    /// It was saved and stopped.
    Stopped,
    /// Nothing has run: it was refused, or a rank could not be started or restored.
    Refused,
    /// The program has ended itself with this exit code.
    Program(i32),
    /// Somebody has ended it with this signal.
    Told(i32),
    /// It has broken off.
    Lost(Cause),
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A run has ended.
    Ended {
        /// How.
        ending: Ending,
        /// The newest snapshot that was committed since the first run began, 0 if none.
        newest_epoch: u32,
    },
    /// The allocation ends, or a signal asks for that, while nothing runs.
    StopAsked,
    /// Time has passed.
    Tick,
}

/// Why there is no further run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This ending is not of the kind that is begun again.
    AsItEnded,
    /// All retries are used up: so many.
    NoRetryLeft(u32),
    /// It dies of this again and again, so many times.
    CrashLoop(Cause, u32),
    /// The allocation ends.
    StopAsked,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing before this time; then tell of it by `Event::Tick`.
    Wait {
        /// Milliseconds since 1970.
        until_ms: u64,
    },
    /// Run from the newest intact snapshot of this chain, or from the beginning if there is none.
    Restart {
        /// Number of the retry, from 1 on.
        retry: u32,
        /// Hosts that are lost.
        without: Vec<String>,
    },
    /// Nothing is run any more.
    End(Verdict),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// A run is under way.
    Running,
    /// One has ended, and the next begins at this time.
    Pausing { until_ms: u64 },
    /// There is no next one.
    Ended,
}

/// A chain of runs in one allocation.
#[derive(Clone, Debug)]
pub struct Recovery {
    retries_max: u32,
    retries: u32,
    state: State,
    /// The newest snapshot at the last death.
    newest_epoch: u32,
    /// Deaths since the last snapshot.
    deaths: BTreeMap<Cause, u32>,
    lost: BTreeSet<String>,
}

impl Recovery {
    /// Of a chain whose first run begins. `retries_max`: how often it is begun again at most.
    #[must_use]
    pub fn new(retries_max: u32) -> Self {
        Self {
            retries_max,
            retries: 0,
            state: State::Running,
            newest_epoch: 0,
            deaths: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Takes one event at the time `now_ms` and tells what to do; `None`: nothing new.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Option<Action> {
        match (event, &self.state) {
            (Event::Ended { ending, newest_epoch }, State::Running) => {
                Some(self.on_ended(ending, newest_epoch, now_ms))
            }
            (Event::StopAsked, State::Pausing { .. }) => Some(self.end(Verdict::StopAsked)),
            (Event::Tick, State::Pausing { until_ms }) if now_ms >= *until_ms => {
                self.state = State::Running;
                self.retries += 1;
                let without = self.lost.iter().cloned().collect();
                Some(Action::Restart { retry: self.retries, without })
            }
            _ => None,
        }
    }

    fn on_ended(&mut self, ending: Ending, newest_epoch: u32, now_ms: u64) -> Action {
        let Ending::Lost(cause) = ending else { return self.end(Verdict::AsItEnded) };
        if newest_epoch > self.newest_epoch {
            self.newest_epoch = newest_epoch;
            self.deaths.clear();
        }
        if let Cause::Host(name) = &cause {
            self.lost.insert(name.clone());
        }
        let times = self.deaths.entry(cause.clone()).or_default();
        *times += 1;
        let times = *times;
        if self.retries_max > 0 && times >= LOOP_LENGTH {
            return self.end(Verdict::CrashLoop(cause, times));
        }
        if self.retries >= self.retries_max {
            return self.end(Verdict::NoRetryLeft(self.retries));
        }
        let until_ms = now_ms.saturating_add(self.pause_ms());
        self.state = State::Pausing { until_ms };
        Action::Wait { until_ms }
    }

    /// By the number of deaths since the last snapshot.
    fn pause_ms(&self) -> u64 {
        match self.deaths.values().sum::<u32>() {
            0 | 1 => 0,
            deaths => (PAUSE_MS << (deaths - 2).min(10)).min(PAUSE_MAX_MS),
        }
    }

    fn end(&mut self, verdict: Verdict) -> Action {
        self.state = State::Ended;
        Action::End(verdict)
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
