// SPDX-License-Identifier: Apache-2.0
//! The service: takes offers, answers each at once.
//!
//! Invariant: an offer is answered in the step that brings it, so a job's wait for the answer is
//! that of the network. Leases end by themselves; what is known of a job that asks no more is
//! forgotten.
//!
//! Who leads among replicas is decided elsewhere and told by `Lead`. One that does not lead answers
//! nothing.

use crate::client::AGAIN_MS;
use crate::order::{TRY_ALL, Task, arrange};
use crate::{Answer, JobId, Lease, Offer};
use std::collections::BTreeMap;

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A job offers a checkpoint, or reads for a restart.
    Offer(Offer),
    /// A job has written; its lease ends.
    Done {
        /// Who.
        job: JobId,
        /// The lease's number.
        lease: u64,
    },
    /// A job has ended.
    Gone {
        /// Who.
        job: JobId,
    },
    /// This replica leads, or no longer does.
    Lead(bool),
}

/// What the service knows of the store.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Bytes per second.
    pub per_s: f64,
}

/// A job's next checkpoint as it was offered last.
#[derive(Clone, Copy, Debug)]
struct Known {
    offer: Offer,
    due_ms: i64,
    /// It is taken to be alive until then.
    until_ms: i64,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    job: JobId,
    is_restart: bool,
    per_s: f64,
    /// When the job should be through, and when the lease ends in any case.
    expected_ms: i64,
    ends_ms: i64,
}

/// A checkpoint that is to come, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// As it was offered last.
    pub offer: Offer,
    /// Until the job's own plan has it due, milliseconds; below 0: since then.
    pub due_in_ms: i64,
    /// Until it should begin by what is known now, milliseconds.
    pub start_in_ms: u64,
}

/// A lease that is held, for people.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Its number.
    pub lease: u64,
    /// Its holder reads.
    pub is_restart: bool,
    /// Until the job should be through, milliseconds.
    pub done_in_ms: u64,
    /// Until the lease ends in any case, milliseconds.
    pub ends_in_ms: u64,
}

/// The service, one replica of it.
#[derive(Clone, Debug)]
pub struct Service {
    store: Store,
    leads: bool,
    known: BTreeMap<JobId, Known>,
    given: BTreeMap<u64, Given>,
    next_lease: u64,
}

/// A lease lasts so many times as long as it should take.
const SLACK: f64 = 2.0;
/// A job that was told to ask is forgotten so long after it should have.
const FORGET_MS: i64 = 120_000;
/// A lease for a checkpoint whose size is not known lasts so long. Others ask again meanwhile.
const UNKNOWN_MS: i64 = 60_000;
/// Starting so much earlier or later than the plan has it makes no difference.
const SLOP_S: f64 = 1.0;

impl Service {
    /// One replica. It does not lead until it is told to.
    ///
    /// `leases_from` is the first number of its leases; replicas that lead one after the other take
    /// numbers apart, so that none is taken for another's.
    pub fn new(store: Store, leases_from: u64) -> Self {
        Self {
            store,
            leads: false,
            known: BTreeMap::new(),
            given: BTreeMap::new(),
            next_lease: leases_from,
        }
    }

    /// How many leases are held at this time.
    pub fn leases(&self) -> usize {
        self.given.len()
    }

    /// What is known of a job's next checkpoint at this time, unless it has been asked about long
    /// ago or its lease is given.
    pub fn planned(&self, job: JobId, now_ms: u64) -> Option<Planned> {
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let known = self.known.get(&job).filter(|known| known.until_ms > now_ms)?;
        let start_in_ms = milliseconds(self.planned_start_s(job, now_ms).max(0.0)).unsigned_abs();
        Some(Planned { offer: known.offer, due_in_ms: known.due_ms - now_ms, start_in_ms })
    }

    /// The lease that a job holds at this time.
    pub fn held(&self, job: JobId, now_ms: u64) -> Option<Held> {
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let holds = |(_, given): &(&u64, &Given)| given.job == job && given.ends_ms > now_ms;
        let (number, given) = self.given.iter().find(holds)?;
        let in_ms = |at_ms: i64| (at_ms - now_ms).max(0).unsigned_abs();
        Some(Held {
            lease: *number,
            is_restart: given.is_restart,
            done_in_ms: in_ms(given.expected_ms),
            ends_in_ms: in_ms(given.ends_ms),
        })
    }

    /// Takes an event at `now_ms`; the answer, if there is one to give.
    pub fn step(&mut self, event: &Event, now_ms: u64) -> Option<Answer> {
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        self.given.retain(|_, given| given.ends_ms > now_ms);
        self.known.retain(|_, known| known.until_ms > now_ms);
        match *event {
            Event::Offer(offer) if self.leads => Some(self.answer(offer, now_ms)),
            Event::Offer(_) => None,
            Event::Done { job, lease } => {
                self.given.retain(|number, given| *number != lease || given.job != job);
                None
            }
            Event::Gone { job } => {
                self.known.remove(&job);
                self.given.retain(|_, given| given.job != job);
                None
            }
            Event::Lead(leads) => {
                self.leads = leads;
                if !leads {
                    self.known.clear();
                    self.given.clear();
                }
                None
            }
        }
    }

    fn answer(&mut self, offer: Offer, now_ms: i64) -> Answer {
        // What it held is over: it would not ask.
        self.given.retain(|_, given| given.job != offer.job);
        if offer.is_restart {
            self.known.remove(&offer.job);
            return self.accept(offer, now_ms);
        }
        let due_ms = now_ms.saturating_add(offer.due_in_ms);
        let until_ms = now_ms + FORGET_MS;
        self.known.insert(offer.job, Known { offer, due_ms, until_ms });
        let free_s = self.free_s(now_ms);
        // One that is due asks again before the store is free: there is nothing to arrange yet.
        let is_early = offer.due_in_ms <= 0 && free_s * 1e3 >= AGAIN_MS as f64;
        let start_s = if is_early { free_s } else { self.planned_start_s(offer.job, now_ms) };
        if start_s <= SLOP_S && self.given.is_empty() {
            return self.accept(offer, now_ms);
        }
        let ask_in_ms = milliseconds(start_s.max(SLOP_S));
        if let Some(known) = self.known.get_mut(&offer.job) {
            known.until_ms = now_ms.saturating_add(ask_in_ms).saturating_add(FORGET_MS);
        }
        Answer::Deny { ask_in_ms: ask_in_ms.unsigned_abs() }
    }

    /// When the store is expected to be free, seconds from now.
    fn free_s(&self, now_ms: i64) -> f64 {
        // One that should be through and is not: a while longer, by what its lease has left.
        let left_ms = |given: &Given| match given.expected_ms - now_ms {
            left_ms @ 1.. => left_ms,
            _ => (given.ends_ms - now_ms) / 8,
        };
        self.given.values().map(left_ms).max().map_or(0.0, |left_ms| left_ms as f64 / 1e3)
    }

    /// When this job's checkpoint should start, seconds from now, among those that it can collide
    /// with.
    fn planned_start_s(&self, job: JobId, now_ms: i64) -> f64 {
        let free_s = self.free_s(now_ms);
        let task = |known: &Known| Task {
            due_s: (known.due_ms - now_ms) as f64 / 1e3,
            lasts_s: known.offer.bytes / self.rate(&known.offer),
            weight: f64::from(known.offer.nodes) / known.offer.mtbf_s,
        };
        let Some(own) = self.known.get(&job).map(task) else { return 0.0 };
        let others = self.known.iter().filter(|(other, _)| **other != job);
        let mut tasks: Vec<Task> = others.map(|(_, known)| task(known)).collect();
        // The nearest in time; each takes the window along in which others collide.
        tasks.sort_by(|a, b| apart(a, &own).total_cmp(&apart(b, &own)));
        let span = |task: &Task| {
            let from_s = task.due_s.max(free_s);
            (from_s, from_s + task.lasts_s)
        };
        let mut window = span(&own);
        let mut near = vec![own];
        for task in tasks {
            let (from_s, to_s) = span(&task);
            if near.len() < TRY_ALL && from_s <= window.1 && to_s >= window.0 {
                window = (window.0.min(from_s - task.lasts_s), window.1.max(to_s) + task.lasts_s);
                near.push(task);
            }
        }
        arrange(&near, free_s).0[0]
    }

    fn rate(&self, offer: &Offer) -> f64 {
        offer.most_per_s.min(self.store.per_s)
    }

    fn accept(&mut self, offer: Offer, now_ms: i64) -> Answer {
        let number = self.next_lease;
        self.next_lease += 1;
        self.known.remove(&offer.job);
        let per_s = self.rate(&offer);
        let taken: f64 = self.given.values().map(|given| given.per_s).sum();
        let alone_ms = milliseconds(offer.bytes / per_s);
        // With restarts beside it everything takes longer.
        let crowd = ((taken + per_s) / self.store.per_s).max(1.0);
        let expected_ms = now_ms + milliseconds(offer.bytes / per_s * crowd);
        let lasts_ms = match alone_ms {
            0 => UNKNOWN_MS,
            _ => milliseconds(alone_ms as f64 / 1e3 * crowd * SLACK) + 1000,
        };
        let ends_ms = now_ms + lasts_ms;
        let (job, is_restart) = (offer.job, offer.is_restart);
        self.given.insert(number, Given { job, is_restart, per_s, expected_ms, ends_ms });
        Answer::Accept(Lease { number, lasts_ms: lasts_ms.unsigned_abs(), per_s })
    }
}

fn apart(one: &Task, other: &Task) -> f64 {
    (one.due_s - other.due_s).abs()
}

#[allow(clippy::cast_possible_truncation)] // saturates
fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1e3).ceil() as i64
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
