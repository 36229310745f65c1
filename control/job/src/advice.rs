// SPDX-License-Identifier: Apache-2.0
//! Asking the site's service when to save (`fermata_site::client`): what of the job it is told, and
//! what its answers mean here. The pace says when a checkpoint is due and takes none by itself; it
//! has leave to when the service gives a lease, or when the client goes by the job's own plan.
//!
//! Of a checkpoint before the first of its kind only the time is known: its size is said as not
//! known. A restart is told of as long as the ranks come back, and waits for no answer.
//!
//! Invariant: a lease is given back when the checkpoint that it was for has ended or not begun.

use crate::interface::SiteJob;
use fermata_site::client::{Action, Client, Event, Job};
use fermata_site::{Answer, Lease, Offer};

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    /// Offer this, under this number.
    Offer(u64, Offer),
    /// The lease is no longer used.
    Done(u64),
    /// A checkpoint may begin; below 0: so long before it is due.
    Save { lease: Option<u64>, late_ms: i64 },
}

/// The restart's own offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    ToBeSaid,
    Reading { number: u64, lease: Option<u64> },
    Over { number: u64 },
}

/// Who asks for one job.
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    job: Job,
    client: Client,
    restart: Restart,
    /// Of the newest offer of a checkpoint.
    asked: u64,
    next: u64,
    /// Which due time the client has heard.
    due_ms: Option<u64>,
    wake_ms: Option<u64>,
    cost_s: Option<f64>,
}

/// A checkpoint is guessed to take the interval over this until one is measured.
const GUESS: f64 = 50.0;

impl Advice {
    pub(crate) fn new(site: SiteJob) -> Self {
        let job = Job {
            job: site.job,
            bytes: site.restored_bytes as f64,
            nodes: site.nodes.max(1),
            mtbf_s: f64::INFINITY,
            most_per_s: f64::INFINITY,
        };
        let restart = match site.restored_bytes {
            0 => Restart::Over { number: 0 },
            _ => Restart::ToBeSaid,
        };
        let client = Client::new(job);
        Self { job, client, restart, asked: 0, next: 1, due_ms: None, wake_ms: None, cost_s: None }
    }

    /// The job can be checkpointed: it does not read any more.
    pub(crate) fn running(&mut self) -> Vec<Effect> {
        let Restart::Reading { number, lease } = self.restart else { return Vec::new() };
        self.restart = Restart::Over { number };
        lease.map(Effect::Done).into_iter().collect()
    }

    /// A checkpoint is due then, if nothing comes between, and the next after so long.
    pub(crate) fn due(&mut self, due_ms: u64, every_ms: u64, now_ms: u64) -> Vec<Effect> {
        if self.due_ms == Some(due_ms) {
            return Vec::new();
        }
        self.due_ms = Some(due_ms);
        self.job.mtbf_s = self.mtbf_s(every_ms as f64 / 1e3);
        self.client.update(self.job);
        self.step(&Event::Computing { due_ms }, now_ms)
    }

    /// The time between failures for which this interval is best, by Young: T^2 = 2 C M. Whoever
    /// has chosen the interval has chosen how much a checkpoint at another time is worth.
    fn mtbf_s(&self, every_s: f64) -> f64 {
        let cost_s = self.cost_s.unwrap_or(every_s / GUESS).max(1e-3);
        (every_s * every_s / (2.0 * cost_s)).max(1e-3)
    }

    pub(crate) fn answered(&mut self, number: u64, answer: Answer, now_ms: u64) -> Vec<Effect> {
        let given = match answer {
            Answer::Accept(lease) => Some(lease.number),
            Answer::Deny { .. } => None,
        };
        match &mut self.restart {
            Restart::Reading { number: of, lease } if *of == number => {
                *lease = given;
                return Vec::new();
            }
            Restart::Over { number: of } if *of == number => {
                return given.map(Effect::Done).into_iter().collect();
            }
            _ => {}
        }
        let is_newest = number == self.asked;
        let event = Event::Answer(answer);
        let effects = if is_newest { self.step(&event, now_ms) } else { Vec::new() };
        let is_used = effects.iter().any(|effect| matches!(effect, Effect::Save { .. }));
        let unused = given.filter(|_| !is_used).map(Effect::Done);
        effects.into_iter().chain(unused).collect()
    }

    /// What a checkpoint took from the safe state to the commit.
    pub(crate) fn measured(&mut self, bytes: u64, write_ms: u64) -> Vec<Effect> {
        let write_s = write_ms.max(1) as f64 / 1e3;
        let per_s = bytes as f64 / write_s;
        let is_first = self.job.most_per_s.is_infinite();
        self.job.most_per_s = if is_first { per_s } else { self.job.most_per_s.max(per_s) };
        self.job.bytes = bytes as f64;
        self.cost_s = Some(write_s);
        Vec::new()
    }

    /// A checkpoint has ended, or has not begun.
    pub(crate) fn ended(&mut self, now_ms: u64) -> Vec<Effect> {
        self.due_ms = None;
        self.step(&Event::Written, now_ms)
    }

    pub(crate) fn on_time(&mut self, now_ms: u64) -> Vec<Effect> {
        if self.restart == Restart::ToBeSaid {
            let number = self.number();
            self.restart = Restart::Reading { number, lease: None };
            let Job { job, bytes, nodes, most_per_s, .. } = self.job;
            let (mtbf_s, is_restart) = (1.0, true);
            let offer = Offer { job, bytes, nodes, mtbf_s, due_in_ms: 0, most_per_s, is_restart };
            return vec![Effect::Offer(number, offer)];
        }
        if self.wake_ms.is_none_or(|wake_ms| now_ms < wake_ms) {
            return Vec::new();
        }
        self.wake_ms = None;
        self.step(&Event::Wake, now_ms)
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn step(&mut self, event: &Event, now_ms: u64) -> Vec<Effect> {
        let mut effects = Vec::new();
        for action in self.client.step(event, now_ms) {
            match action {
                Action::Offer { offer, .. } => {
                    self.asked = self.number();
                    effects.push(Effect::Offer(self.asked, offer));
                }
                Action::Write { lease } => effects.push(self.save(lease, now_ms)),
                Action::Done { lease } => effects.push(Effect::Done(lease)),
                Action::WakeAt(at_ms) => self.wake_ms = Some(at_ms),
            }
        }
        effects
    }

    fn save(&self, lease: Option<Lease>, now_ms: u64) -> Effect {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        let late_ms = signed(now_ms) - signed(self.due_ms.unwrap_or(now_ms));
        Effect::Save { lease: lease.map(|lease| lease.number), late_ms }
    }
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
