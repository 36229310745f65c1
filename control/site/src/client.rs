// SPDX-License-Identifier: Apache-2.0
//! A job's side: when to ask, and what to do without an answer.
//!
//! The job asks half an interval before its checkpoint is due, so that the service can predict, and
//! so that a service that is gone is known to be gone before anything is due. Two offers in a row
//! that stay unanswered, each to another replica, and the job follows its own plan for this
//! checkpoint; for the next one it asks again.
//!
//! Invariant: the job computes in every state but `Writing`. From when a checkpoint is due it is
//! begun within `AGAIN_MS` and two answers' time of the service's last word.

use crate::{Answer, JobId, Lease, Offer};

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The job computes, after a checkpoint, a restart or its start.
    Computing {
        /// Its own plan has the next checkpoint due then, milliseconds.
        due_ms: u64,
    },
    /// The service has answered the newest offer.
    Answer(Answer),
    /// Time has passed.
    Wake,
    /// The checkpoint is written, or has failed.
    Written,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Send this to the replica of that number, modulo how many there are.
    Offer {
        /// What.
        offer: Offer,
        /// To whom.
        replica: u32,
    },
    /// Take the checkpoint now; without a lease the job is on its own.
    Write {
        /// The service's leave.
        lease: Option<Lease>,
    },
    /// Tell the service that the lease is no longer used.
    Done {
        /// The lease's number.
        lease: u64,
    },
    /// Send `Wake` at this time, milliseconds; it replaces the one before.
    WakeAt(u64),
}

/// What a job is, for its offers.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Who.
    pub job: JobId,
    /// Bytes of all its nodes; 0: not known yet.
    pub bytes: f64,
    /// Its nodes.
    pub nodes: u32,
    /// Its mean time between failures, seconds.
    pub mtbf_s: f64,
    /// The most bytes per second that its nodes can write.
    pub most_per_s: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Idle,
    /// Not asked yet, or denied: asks at its next wake.
    Waiting,
    Asked {
        at_ms: u64,
    },
    Alone,
    Writing {
        lease: Option<u64>,
    },
}

/// An offer that is not answered in this time, milliseconds, never is.
pub const ANSWER_MS: u64 = 2_000;
/// So many unanswered offers in a row make a job follow its own plan.
pub const MISSES: u32 = 2;
/// A job whose checkpoint is due asks this often, milliseconds, whatever it was told.
pub const AGAIN_MS: u64 = 60_000;

/// The client of one job.
#[derive(Clone, Debug)]
pub struct Client {
    job: Job,
    state: State,
    due_ms: u64,
    misses: u32,
    replica: u32,
}

impl Client {
    /// For a job that has not begun to compute.
    pub fn new(job: Job) -> Self {
        Self { job, state: State::Idle, due_ms: 0, misses: 0, replica: 0 }
    }

    /// What the job is by now, for the next offers.
    pub fn update(&mut self, job: Job) {
        self.job = job;
    }

    /// Whether it has given the service up for this checkpoint.
    pub fn is_alone(&self) -> bool {
        matches!(self.state, State::Alone | State::Writing { lease: None })
    }

    /// Takes an event at `now_ms` and says what to do.
    pub fn step(&mut self, event: &Event, now_ms: u64) -> Vec<Action> {
        match (*event, self.state) {
            (Event::Computing { due_ms }, _) => {
                self.due_ms = due_ms;
                self.misses = 0;
                self.state = State::Waiting;
                vec![Action::WakeAt(now_ms + due_ms.saturating_sub(now_ms) / 2)]
            }
            (Event::Answer(answer), State::Asked { .. }) => self.answered(answer, now_ms),
            (Event::Wake, State::Waiting) => self.ask(now_ms),
            (Event::Wake, State::Asked { at_ms }) if now_ms < at_ms + ANSWER_MS => {
                vec![Action::WakeAt(at_ms + ANSWER_MS)]
            }
            (Event::Wake, State::Asked { .. }) => {
                self.misses += 1;
                self.replica = self.replica.wrapping_add(1);
                if self.misses < MISSES {
                    return self.ask(now_ms);
                }
                self.state = State::Alone;
                self.alone(now_ms)
            }
            (Event::Wake, State::Alone) => self.alone(now_ms),
            (Event::Written, State::Writing { lease }) => {
                self.state = State::Idle;
                lease.map(|lease| Action::Done { lease }).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn ask(&mut self, now_ms: u64) -> Vec<Action> {
        self.state = State::Asked { at_ms: now_ms };
        let Job { job, bytes, nodes, mtbf_s, most_per_s } = self.job;
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let due_in_ms = signed(self.due_ms) - signed(now_ms);
        let offer = Offer { job, bytes, nodes, mtbf_s, due_in_ms, most_per_s, is_restart: false };
        vec![Action::Offer { offer, replica: self.replica }, Action::WakeAt(now_ms + ANSWER_MS)]
    }

    fn answered(&mut self, answer: Answer, now_ms: u64) -> Vec<Action> {
        self.misses = 0;
        match answer {
            Answer::Accept(lease) => {
                self.state = State::Writing { lease: Some(lease.number) };
                vec![Action::Write { lease: Some(lease) }]
            }
            Answer::Deny { ask_in_ms } => {
                self.state = State::Waiting;
                let latest_ms = self.due_ms.max(now_ms) + AGAIN_MS;
                vec![Action::WakeAt((now_ms + ask_in_ms.max(1)).min(latest_ms))]
            }
        }
    }

    fn alone(&mut self, now_ms: u64) -> Vec<Action> {
        if now_ms < self.due_ms {
            return vec![Action::WakeAt(self.due_ms)];
        }
        self.state = State::Writing { lease: None };
        vec![Action::Write { lease: None }]
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
