// SPDX-License-Identifier: Apache-2.0
//! What a signal means to a run: a batch system sends one before it takes the hosts away, and the
//! job is saved and stopped. So it is when the end of the allocation nears (`limit`).
//!
//! Batch systems repeat themselves, and tell every process of a job: while the job is being saved,
//! and once it is, further signals change nothing. A save that fails is tried again, at once if
//! another signal comes, as long as the job runs. A signal after the third failure is handed to the
//! job, as one is that is not to save: else a job that cannot be saved could not be ended either.
//!
//! What comes to a rank may be no word of a batch system: an mpirun ends a job that has lost a rank
//! by signals to the others. So it counts a moment later, and not at all once a rank is lost.
//!
//! Invariant: no attempt begins while another is under way, nor after one that was committed.

use std::collections::BTreeSet;

/// After so many attempts the next signal is the job's.
pub const ATTEMPTS_MAX: u32 = 3;
/// Between attempts, doubled with each.
const PAUSE_MS: u64 = 1000;
const PAUSE_MAX_MS: u64 = 30_000;
/// A rank that is lost is known by then, and long before as a rule: its line breaks before its
/// mpirun hears of its end.
const LOSS_KNOWN_MS: u64 = 500;

/// Signals that may save a job, by name. Those that stop a process, tell it of its own faults or
/// cannot be caught are none.
/// Source: signal(7), x86-64.
const NAMES: [(&str, i32); 9] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("USR1", 10),
    ("USR2", 12),
    ("ALRM", 14),
    ("TERM", 15),
    ("URG", 23),
    ("XCPU", 24),
];

/// The signals that save and stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaveOn(BTreeSet<i32>);

impl SaveOn {
    /// None: every signal is the job's.
    pub const NONE: &str = "none";

    /// What a batch system sends. `has_terminal`: somebody may press Ctrl-C, and means it.
    #[must_use]
    pub fn of_batch_systems(has_terminal: bool) -> Self {
        let names: &[&str] =
            if has_terminal { &["TERM", "USR1", "USR2"] } else { &["TERM", "USR1", "USR2", "INT"] };
        Self(names.iter().filter_map(|name| number_of(name)).collect())
    }

    /// `TERM,USR1`, `SIGTERM,10` or `none`.
    ///
    /// # Errors
    /// The word that is no such signal, as a message.
    pub fn parse(list: &str) -> Result<Self, String> {
        if list == Self::NONE {
            return Ok(Self::default());
        }
        let known = || NAMES.map(|(name, _)| name).join(", ");
        let number = |word: &str| {
            number_of(word)
                .ok_or_else(|| format!("'{word}' is no signal to save on: write {}", known()))
        };
        list.split(',').map(|word| number(word.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether this one does.
    #[must_use]
    pub fn has(&self, signal: i32) -> bool {
        self.0.contains(&signal)
    }

    /// Whether none does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// By number, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = i32> + '_ {
        self.0.iter().copied()
    }

    /// By number, with commas: `parse` reads it.
    #[must_use]
    pub fn text(&self) -> String {
        self.numbers().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
    }
}

/// `TERM`, `SIGTERM`, `15`
fn number_of(word: &str) -> Option<i32> {
    let word = word.to_ascii_uppercase();
    let name = word.strip_prefix("SIG").unwrap_or(&word);
    let is_it = |(known, number): &&(&str, i32)| *known == name || number.to_string() == name;
    NAMES.iter().find(is_it).map(|(_, number)| *number)
}

/// Why a run is saved and stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// By this signal.
    Signal(i32),
    /// The end of its allocation nears.
    Limit,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// This process has been sent it.
    Signal(i32),
    /// A rank, or a helper of mpirun's, has been sent it.
    OfRank(i32),
    /// A rank is lost; may be said again.
    RankLost,
    /// It is time to save before the allocation ends; may be said again.
    Limit,
    /// The attempt has ended with a committed snapshot, and the job ends.
    Committed,
    /// The attempt has failed; the job continues.
    Failed,
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take a checkpoint that ends the job; answer with `Committed` or `Failed`.
    Save(Why),
    /// Hand the signal to the job.
    Pass(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody has asked.
    Running,
    /// An attempt is under way.
    Saving { why: Why, attempt: u32 },
    /// The last attempt has failed.
    Failed { why: Why, attempts: u32, until_ms: u64 },
    /// One is committed.
    Saved { why: Why },
}

/// Saving and stopping one run.
#[derive(Clone, Debug)]
pub struct Stopping {
    save_on: SaveOn,
    state: State,
    of_rank: OfRank,
}

/// What has come to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfRank {
    Nothing,
    /// It counts from this time on.
    Heard {
        signal: i32,
        from_ms: u64,
    },
    /// Whatever comes is mpirun's.
    Lost,
}

impl Stopping {
    /// Of a run that begins.
    #[must_use]
    pub fn new(save_on: SaveOn) -> Self {
        Self { save_on, state: State::Running, of_rank: OfRank::Nothing }
    }

    /// Takes one event at the time `now_ms` and tells what to do.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Option<Action> {
        match event {
            Event::Signal(signal) if !self.save_on.has(signal) => Some(Action::Pass(signal)),
            Event::Signal(signal) => self.on_signal(signal),
            Event::OfRank(signal) => {
                if self.of_rank == OfRank::Nothing && self.save_on.has(signal) {
                    let from_ms = now_ms.saturating_add(LOSS_KNOWN_MS);
                    self.of_rank = OfRank::Heard { signal, from_ms };
                }
                None
            }
            Event::RankLost => {
                self.of_rank = OfRank::Lost;
                None
            }
            Event::Limit if self.state == State::Running => self.save(Why::Limit, 1),
            Event::Committed => {
                if let State::Saving { why, .. } = self.state {
                    self.state = State::Saved { why };
                }
                None
            }
            Event::Failed => {
                if let State::Saving { why, attempt } = self.state {
                    let pause_ms = PAUSE_MS << attempt.saturating_sub(1).min(10);
                    let until_ms = now_ms.saturating_add(pause_ms.min(PAUSE_MAX_MS));
                    self.state = State::Failed { why, attempts: attempt, until_ms };
                }
                None
            }
            Event::Limit | Event::Tick => self.on_time(now_ms),
        }
    }

    fn on_time(&mut self, now_ms: u64) -> Option<Action> {
        if let OfRank::Heard { signal, from_ms } = self.of_rank
            && now_ms >= from_ms
        {
            self.of_rank = OfRank::Nothing;
            return self.on_signal(signal);
        }
        match self.state {
            State::Failed { why, attempts, until_ms } if now_ms >= until_ms => {
                self.save(why, attempts.saturating_add(1))
            }
            _ => None,
        }
    }

    fn on_signal(&mut self, signal: i32) -> Option<Action> {
        match self.state {
            State::Running => self.save(Why::Signal(signal), 1),
            State::Failed { attempts, .. } if attempts >= ATTEMPTS_MAX => {
                Some(Action::Pass(signal))
            }
            State::Failed { why, attempts, .. } => self.save(why, attempts.saturating_add(1)),
            State::Saving { .. } | State::Saved { .. } => None,
        }
    }

    fn save(&mut self, why: Why, attempt: u32) -> Option<Action> {
        self.state = State::Saving { why, attempt };
        Some(Action::Save(why))
    }

    /// Why the run is to be saved and stopped, whatever has come of it so far: an attempt whose
    /// answer was lost may have done it all the same. `None`: nobody has asked.
    #[must_use]
    pub fn why(&self) -> Option<Why> {
        match self.state {
            State::Running => None,
            State::Saving { why, .. } | State::Failed { why, .. } | State::Saved { why } => {
                Some(why)
            }
        }
    }
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
