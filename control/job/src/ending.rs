// SPDX-License-Identifier: Apache-2.0
//! When a coordinator ends: it is told to, or the job has gone, or nobody has come. A machine of
//! its own beside that of the job, because it lives on what the shell knows: whether the disk is at
//! work, and whether anything is left to read.
//!
//! Invariant: a snapshot that is being stored is waited for, but by whoever is in a hurry.
//! Invariant: a coordinator that has been told to end does so, after `STORE_WAIT_MS` at the latest.

/// A server that waits for an input looks up so often.
pub const TICK_MS: u64 = 50;
/// A snapshot that is being stored when the job ends is waited for, but no longer than this.
const STORE_WAIT_MS: u64 = 1_800_000;
/// How long the lines of a job that has ended are read on, if a snapshot depends on it.
const READ_WAIT_MS: u64 = 2000;
/// So many times as long as after the last agent it waits for the first.
const FIRST_AGENT_TIMES: u64 = 6;

/// What the server tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is about to wait for an input.
    Next,
    /// The same, and it has been told to end.
    Stop {
        /// Whatever is under way.
        at_once: bool,
        /// The disk is at work.
        is_storing: bool,
        /// Lines are still being read, and a snapshot depends on it, or whether the job has ended
        /// well.
        may_report: bool,
    },
    /// No input has come in the time that `Action::Wait` gave.
    Silence,
    /// An input has been handled, and that is how the job is now.
    Handled {
        /// Agents are there.
        has_agents: bool,
        /// The disk is at work.
        is_storing: bool,
        /// A checkpoint with `stop` has ended the job.
        was_stopped: bool,
    },
    /// The answer to `Action::LookAtOutlived`: that process is alive.
    OutlivedLives,
    /// The answer to `Action::LookAtOutlived`: there is none, or it has ended.
    OutlivedEnded,
}

/// What the server is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait for an input, so long; 0: take only what is there already.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// Say whether the process is alive that the coordinator is to outlive.
    LookAtOutlived,
    /// Serve: there is no reason to end.
    Serve,
    /// End.
    End,
}

/// Who has been there.
#[derive(Clone, Copy, Debug)]
enum Company {
    /// Nobody, since then.
    NotYet { since_ms: u64 },
    /// Somebody, last then.
    Met { last_ms: u64 },
}

/// How far the end has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nobody has told the coordinator to end.
    Serving,
    /// Somebody has, at that time.
    Stopping { since_ms: u64 },
    /// Nothing is waited for any more but what has come already.
    Emptying { since_ms: u64 },
}

/// The end of a coordinator.
#[derive(Debug)]
pub struct Ending {
    /// How long it stays by itself without agents; `None`: it ends only when told.
    linger_ms: Option<u64>,
    company: Company,
    stage: Stage,
}

impl Ending {
    /// Of a coordinator that begins.
    #[must_use]
    pub fn new(linger_ms: Option<u64>, now: u64) -> Self {
        let company = Company::NotYet { since_ms: now };
        Self { linger_ms, company, stage: Stage::Serving }
    }

    /// Takes one event at the time `now` (ms, monotonic) and tells what to do.
    pub fn step(&mut self, event: Event, now: u64) -> Action {
        match event {
            Event::Next => Action::Wait { ms: TICK_MS },
            Event::Stop { at_once, is_storing, may_report } => {
                self.on_stop(at_once, is_storing, may_report, now)
            }
            Event::Silence if matches!(self.stage, Stage::Emptying { .. }) => Action::End,
            Event::Handled { has_agents, is_storing, was_stopped } => {
                self.on_handled(has_agents, is_storing, was_stopped, now)
            }
            Event::OutlivedEnded => Action::End,
            Event::Silence | Event::OutlivedLives => Action::Serve,
        }
    }

    fn on_stop(&mut self, at_once: bool, is_storing: bool, may_report: bool, now: u64) -> Action {
        let since_ms = match self.stage {
            Stage::Serving => now,
            Stage::Stopping { since_ms } | Stage::Emptying { since_ms } => since_ms,
        };
        self.stage = Stage::Stopping { since_ms };
        let elapsed = now - since_ms;
        if at_once || elapsed >= STORE_WAIT_MS {
            return Action::End;
        }
        if is_storing || may_report && elapsed < READ_WAIT_MS {
            return Action::Wait { ms: TICK_MS };
        }
        // What ranks said before they ended may complete a snapshot.
        self.stage = Stage::Emptying { since_ms };
        Action::Wait { ms: 0 }
    }

    fn on_handled(
        &mut self,
        has_agents: bool,
        is_storing: bool,
        was_stopped: bool,
        now: u64,
    ) -> Action {
        if has_agents || is_storing {
            self.company = Company::Met { last_ms: now };
        }
        let Some(linger_ms) = self.linger_ms else { return Action::Serve };
        // Whoever stopped the job on request may want to restart it at once.
        if was_stopped && !has_agents && !is_storing {
            return Action::End;
        }
        let is_alone = match self.company {
            Company::NotYet { since_ms } => now - since_ms >= FIRST_AGENT_TIMES * linger_ms,
            Company::Met { last_ms } => now - last_ms >= linger_ms,
        };
        if is_alone { Action::LookAtOutlived } else { Action::Serve }
    }
}

#[cfg(test)]
#[path = "ending_tests.rs"]
mod tests;
