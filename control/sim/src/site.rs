// SPDX-License-Identifier: Apache-2.0
//! Jobs that save to one shared file system, with and without the service that puts their
//! checkpoints in order. What decides are `fermata_site::{service, client}`; here are time, work,
//! failures and the file system.

use crate::random::Random;
use crate::store::{Transfer, shares};
use fermata_plan::simple::daly;
use fermata_site::client::{Action, Client, Event as ClientEvent, Job as ClientJob};
use fermata_site::service::{Event as ServiceEvent, Service, Store};
use fermata_site::{Answer, JobId, Offer};
use std::collections::VecDeque;

/// What a job is.
#[derive(Clone, Copy, Debug)]
pub struct JobSpec {
    /// Nodes.
    pub nodes: u32,
    /// Bytes of all its nodes.
    pub bytes: f64,
    /// Mean time between failures, seconds.
    pub mtbf_s: f64,
}

/// Who says when a job saves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// Each job has the file system to itself: no order can waste less.
    Undisturbed,
    /// Each job by Daly's interval for the file system alone to itself.
    Alone,
    /// Each job by Daly's interval for what saving has cost it so far.
    Measured,
    /// As `Alone`, standing still until those before it are through.
    InTurn,
    /// The service.
    Site {
        /// It ends at this time, seconds.
        ends_s: f64,
        /// Another replica leads from this time on.
        replica_from_s: f64,
    },
}

/// A file system, its jobs, how long they are watched.
#[derive(Clone, Debug)]
pub struct Site {
    /// The jobs.
    pub jobs: Vec<JobSpec>,
    /// Bytes per second of the file system.
    pub per_s: f64,
    /// Bytes per second of a node's link.
    pub node_per_s: f64,
    /// From a failure to when the images are read, seconds.
    pub relaunch_s: f64,
    /// Seconds.
    pub horizon_s: f64,
}

/// Node seconds that were no progress, over all node seconds.
#[derive(Clone, Debug, Default)]
pub struct Waste {
    /// Writing.
    pub write: f64,
    /// Standing still for the file system.
    pub wait: f64,
    /// Computing that failures have undone.
    pub rework: f64,
    /// Restarting.
    pub restart: f64,
    /// Of the job that has most, over its own node seconds.
    pub worst_job: f64,
    /// The longest time between the end of the service, or a checkpoint's being due if that is
    /// later, and its beginning, seconds.
    pub late_s: f64,
}

impl Waste {
    /// Checkpoint overhead: making checkpoints and computing again what failures have undone.
    ///
    /// Source: M. Gholami et al., SRMPDS 2018, who count the same two.
    pub fn overhead(&self) -> f64 {
        self.write + self.wait + self.rework
    }
}

impl Site {
    /// The share of time that the file system is written to if every job has it to itself.
    pub fn load(&self) -> f64 {
        let of = |job: &JobSpec| {
            let cost_s = job.bytes / self.rate(job);
            cost_s / (daly(cost_s, job.mtbf_s) + cost_s)
        };
        self.jobs.iter().map(of).sum()
    }

    /// The bandwidth at which the jobs have this load.
    pub fn at_load(mut self, load: f64) -> Self {
        let (mut low, mut high) = (1e8f64, 1e15f64);
        for _ in 0..80 {
            self.per_s = (low * high).sqrt();
            if self.load() > load { low = self.per_s } else { high = self.per_s }
        }
        self
    }

    fn rate(&self, job: &JobSpec) -> f64 {
        self.per_s.min(self.most(job))
    }

    fn most(&self, job: &JobSpec) -> f64 {
        f64::from(job.nodes) * self.node_per_s
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Computing {
        since_s: f64,
    },
    /// Stands still for its turn; computed since then.
    Queueing {
        since_s: f64,
        from_s: f64,
    },
    Writing {
        from_s: f64,
        computed_s: f64,
        left: f64,
    },
    Starting {
        from_s: f64,
        until_s: f64,
    },
    Reading {
        from_s: f64,
        left: f64,
    },
}

struct Running {
    spec: JobSpec,
    client: Client,
    phase: Phase,
    wake_s: f64,
    due_s: f64,
    cost_s: f64,
    failures: Random,
    failure_s: f64,
    /// Seconds by kind.
    waste: [f64; 4],
}

const WRITE: usize = 0;
const WAIT: usize = 1;
const REWORK: usize = 2;
const RESTART: usize = 3;

struct World<'a> {
    site: &'a Site,
    policy: Policy,
    now_s: f64,
    jobs: Vec<Running>,
    queue: VecDeque<usize>,
    service: Service,
    replica: Service,
    late_s: f64,
}

/// Runs the site over its horizon.
pub fn run(site: &Site, policy: Policy, seed: u64) -> Waste {
    let store = Store { per_s: site.per_s };
    let mut world = World {
        site,
        policy,
        now_s: 0.0,
        jobs: Vec::new(),
        queue: VecDeque::new(),
        service: Service::new(store, 1),
        replica: Service::new(store, 1 << 32),
        late_s: 0.0,
    };
    world.service.step(&ServiceEvent::Lead(true), 0);
    for (number, spec) in (0u64..).zip(&site.jobs) {
        let mut failures = Random::new(seed, 1000 + number);
        let failure_s = failures.exponential(1.0 / spec.mtbf_s);
        let client = Client::new(ClientJob {
            job: number,
            bytes: spec.bytes,
            nodes: spec.nodes,
            mtbf_s: spec.mtbf_s,
            most_per_s: site.most(spec),
        });
        world.jobs.push(Running {
            spec: *spec,
            client,
            phase: Phase::Computing { since_s: 0.0 },
            wake_s: f64::INFINITY,
            due_s: 0.0,
            cost_s: spec.bytes / site.rate(spec),
            failures,
            failure_s,
            waste: [0.0; 4],
        });
    }
    for at in 0..world.jobs.len() {
        world.compute(at);
    }
    while world.now_s < site.horizon_s {
        world.advance();
    }
    world.waste()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

impl World<'_> {
    fn transfers(&self) -> (Vec<usize>, Vec<Transfer>) {
        let of = |at: usize| match self.jobs[at].phase {
            Phase::Writing { left, .. } | Phase::Reading { left, .. } => Some((at, left)),
            _ => None,
        };
        let using: Vec<(usize, f64)> = (0..self.jobs.len()).filter_map(of).collect();
        let transfer = |(at, left): &(usize, f64)| Transfer {
            most_per_s: self.site.most(&self.jobs[*at].spec),
            left: *left,
        };
        (using.iter().map(|(at, _)| *at).collect(), using.iter().map(transfer).collect())
    }

    /// To the next event, and through it.
    fn advance(&mut self) {
        let (users, transfers) = self.transfers();
        let rates = match self.policy {
            Policy::Undisturbed => {
                transfers.iter().map(|of| of.most_per_s.min(self.site.per_s)).collect()
            }
            _ => shares(&transfers, self.site.per_s),
        };
        let mut next_s = self.site.horizon_s;
        let mut who = None;
        let mut offer = |at_s: f64, what: (usize, What)| {
            if at_s < next_s {
                next_s = at_s;
                who = Some(what);
            }
        };
        for (at, job) in self.jobs.iter().enumerate() {
            offer(job.failure_s, (at, What::Failure));
            match job.phase {
                Phase::Computing { .. } => offer(job.wake_s, (at, What::Wake)),
                Phase::Starting { until_s, .. } => offer(until_s, (at, What::Started)),
                _ => {}
            }
        }
        for ((at, transfer), rate) in users.iter().zip(&transfers).zip(&rates) {
            offer(self.now_s + transfer.left / rate, (*at, What::Transferred));
        }
        let passed_s = next_s - self.now_s;
        for (at, rate) in users.iter().zip(&rates) {
            match &mut self.jobs[*at].phase {
                Phase::Writing { left, .. } | Phase::Reading { left, .. } => {
                    *left = (*left - rate * passed_s).max(0.0);
                }
                _ => {}
            }
        }
        self.now_s = next_s;
        match who {
            Some((at, What::Failure)) => self.fail(at),
            Some((at, What::Wake)) => self.wake(at),
            Some((at, What::Started)) => self.read(at),
            Some((at, What::Transferred)) => self.transferred(at),
            None => {}
        }
    }

    /// Begins to compute; the next checkpoint is an interval away.
    fn compute(&mut self, at: usize) {
        let now_s = self.now_s;
        let job = &mut self.jobs[at];
        job.phase = Phase::Computing { since_s: now_s };
        job.due_s = now_s + daly(job.cost_s, job.spec.mtbf_s);
        job.wake_s = job.due_s;
        if matches!(self.policy, Policy::Site { .. }) {
            let due_ms = milliseconds(job.due_s);
            let actions = job.client.step(&ClientEvent::Computing { due_ms }, milliseconds(now_s));
            self.follow(at, actions);
        }
    }

    fn wake(&mut self, at: usize) {
        match self.policy {
            Policy::Undisturbed | Policy::Alone | Policy::Measured => self.write(at),
            Policy::InTurn => {
                if let Phase::Computing { since_s } = self.jobs[at].phase {
                    self.jobs[at].phase = Phase::Queueing { since_s, from_s: self.now_s };
                    self.queue.push_back(at);
                    self.next_in_turn();
                }
            }
            Policy::Site { .. } => {
                let now_ms = milliseconds(self.now_s);
                self.jobs[at].wake_s = f64::INFINITY;
                let actions = self.jobs[at].client.step(&ClientEvent::Wake, now_ms);
                self.follow(at, actions);
            }
        }
    }

    fn next_in_turn(&mut self) {
        let busy =
            |job: &Running| matches!(job.phase, Phase::Writing { .. } | Phase::Reading { .. });
        if self.jobs.iter().any(busy) {
            return;
        }
        while let Some(at) = self.queue.pop_front() {
            if let Phase::Queueing { from_s, .. } = self.jobs[at].phase {
                self.jobs[at].waste[WAIT] += self.now_s - from_s;
                self.write(at);
                return;
            }
        }
    }

    fn follow(&mut self, at: usize, actions: Vec<Action>) {
        let mut actions: VecDeque<Action> = actions.into();
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Offer { offer, replica } => {
                    if let Some(answer) = self.ask(offer, replica) {
                        let event = ClientEvent::Answer(answer);
                        let now_ms = milliseconds(self.now_s);
                        actions.clear();
                        actions.extend(self.jobs[at].client.step(&event, now_ms));
                    }
                }
                Action::Write { .. } => self.write(at),
                Action::Done { lease } => {
                    let job = at as JobId;
                    let now_ms = milliseconds(self.now_s);
                    self.service.step(&ServiceEvent::Done { job, lease }, now_ms);
                    self.replica.step(&ServiceEvent::Done { job, lease }, now_ms);
                }
                Action::WakeAt(at_ms) => {
                    self.jobs[at].wake_s = (at_ms as f64 / 1e3).max(self.now_s);
                }
            }
        }
    }

    fn ask(&mut self, offer: Offer, replica: u32) -> Option<Answer> {
        let Policy::Site { ends_s, replica_from_s } = self.policy else { return None };
        let now_ms = milliseconds(self.now_s);
        if replica % 2 == 0 {
            let alive = self.now_s < ends_s;
            return alive.then(|| self.service.step(&ServiceEvent::Offer(offer), now_ms)).flatten();
        }
        if self.now_s >= replica_from_s {
            self.replica.step(&ServiceEvent::Lead(true), now_ms);
        }
        self.replica.step(&ServiceEvent::Offer(offer), now_ms)
    }

    fn write(&mut self, at: usize) {
        if let Policy::Site { ends_s, .. } = self.policy {
            if self.now_s >= ends_s {
                self.late_s = self.late_s.max(self.now_s - self.jobs[at].due_s.max(ends_s));
            }
        }
        let now_s = self.now_s;
        let job = &mut self.jobs[at];
        let computed_s = match job.phase {
            Phase::Computing { since_s } => now_s - since_s,
            Phase::Queueing { since_s, from_s } => from_s - since_s,
            _ => return,
        };
        job.phase = Phase::Writing { from_s: now_s, computed_s, left: job.spec.bytes };
    }

    fn transferred(&mut self, at: usize) {
        let now_s = self.now_s;
        let measures = matches!(self.policy, Policy::Measured | Policy::Site { .. });
        let job = &mut self.jobs[at];
        match job.phase {
            Phase::Writing { from_s, .. } => {
                let took_s = now_s - from_s;
                job.waste[WRITE] += took_s;
                if measures {
                    job.cost_s = (2.0 * job.cost_s + took_s) / 3.0;
                }
                let actions = job.client.step(&ClientEvent::Written, milliseconds(now_s));
                self.follow(at, actions);
            }
            Phase::Reading { from_s, .. } => {
                job.waste[RESTART] += now_s - from_s;
                self.restart_read(at, false);
            }
            _ => {}
        }
        self.compute(at);
        self.next_in_turn();
    }

    fn fail(&mut self, at: usize) {
        let now_s = self.now_s;
        let job = &mut self.jobs[at];
        job.failure_s = now_s + job.failures.exponential(1.0 / job.spec.mtbf_s);
        match job.phase {
            Phase::Computing { since_s } => job.waste[REWORK] += now_s - since_s,
            Phase::Queueing { since_s, from_s } => {
                job.waste[REWORK] += from_s - since_s;
                job.waste[WAIT] += now_s - from_s;
            }
            Phase::Writing { from_s, computed_s, .. } => {
                job.waste[REWORK] += computed_s;
                job.waste[WRITE] += now_s - from_s;
            }
            Phase::Starting { from_s, .. } | Phase::Reading { from_s, .. } => {
                job.waste[RESTART] += now_s - from_s;
            }
        }
        job.phase = Phase::Starting { from_s: now_s, until_s: now_s + self.site.relaunch_s };
        job.wake_s = f64::INFINITY;
        let actions = job.client.step(&ClientEvent::Written, milliseconds(now_s));
        self.follow(at, actions);
        self.restart_read(at, false);
        self.next_in_turn();
    }

    fn read(&mut self, at: usize) {
        let now_s = self.now_s;
        let job = &mut self.jobs[at];
        if let Phase::Starting { from_s, .. } = job.phase {
            job.waste[RESTART] += now_s - from_s;
        }
        job.phase = Phase::Reading { from_s: now_s, left: job.spec.bytes };
        self.restart_read(at, true);
    }

    /// Tells the service that a restart reads, or no longer does. Nobody waits for the answer.
    fn restart_read(&mut self, at: usize, begins: bool) {
        if !matches!(self.policy, Policy::Site { .. }) {
            return;
        }
        let spec = self.jobs[at].spec;
        let offer = Offer {
            job: at as JobId,
            bytes: spec.bytes,
            nodes: spec.nodes,
            mtbf_s: spec.mtbf_s,
            due_in_ms: 0,
            most_per_s: self.site.most(&spec),
            is_restart: true,
        };
        if begins {
            let _ = self.ask(offer, 0).or_else(|| self.ask(offer, 1));
        } else {
            let gone = ServiceEvent::Gone { job: at as JobId };
            let now_ms = milliseconds(self.now_s);
            self.service.step(&gone, now_ms);
            self.replica.step(&gone, now_ms);
        }
    }

    fn waste(&self) -> Waste {
        let horizon_s = self.site.horizon_s;
        let nodes: f64 = self.jobs.iter().map(|job| f64::from(job.spec.nodes)).sum();
        let of = |kind: usize| {
            let lost = self.jobs.iter().map(|job| job.waste[kind] * f64::from(job.spec.nodes));
            lost.sum::<f64>() / (nodes * horizon_s)
        };
        let worst = self.jobs.iter().map(|job| job.waste.iter().sum::<f64>() / horizon_s);
        Waste {
            write: of(WRITE),
            wait: of(WAIT),
            rework: of(REWORK),
            restart: of(RESTART),
            worst_job: worst.fold(0.0, f64::max),
            late_s: self.late_s,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Failure,
    Wake,
    Started,
    Transferred,
}
