// SPDX-License-Identifier: Apache-2.0
//! One job under a plan, on nodes that fail: an event-driven simulation. What decides is
//! `fermata_plan::follow`; what survives is `fermata_plan::placement`; here are time, work and what
//! lies where.

use crate::random::Random;
use fermata_plan::follow::{Action, Epoch, Event, Follower};
use fermata_plan::placement::Placed;
use fermata_plan::topology::{Class, Lost, Topology};
use fermata_plan::{Planned, Planner};
use std::collections::BTreeMap;

/// Failures in the order of time, the same for a seed whatever the job does.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    topology: &'a Topology,
    classes: &'a [Class],
    /// Of each class: its stream, its next time in seconds.
    next: Vec<(Random, f64)>,
}

impl<'a> Trace<'a> {
    /// The failures of a seed.
    pub fn new(topology: &'a Topology, classes: &'a [Class], seed: u64) -> Self {
        let first = |(number, class): (u64, &Class)| {
            let mut random = Random::new(seed, number);
            let at = random.exponential(topology.rate(class));
            (random, at)
        };
        Self { topology, classes, next: (0..).zip(classes).map(first).collect() }
    }

    fn next_s(&self) -> f64 {
        self.next.iter().map(|(_, at)| *at).fold(f64::INFINITY, f64::min)
    }

    /// The next failure: class and component.
    fn take(&mut self) -> (usize, u32) {
        let earliest = |a: &usize, b: &usize| self.next[*a].1.total_cmp(&self.next[*b].1);
        let class = (0..self.next.len()).min_by(earliest).unwrap_or(0);
        let (random, at) = &mut self.next[class];
        let component = random.below(self.topology.components(self.classes[class].scope));
        *at += random.exponential(self.topology.rate(&self.classes[class]));
        (class, component)
    }
}

/// What there is of a checkpoint.
#[derive(Clone, Debug)]
struct Snapshot {
    work_ms: f64,
    /// Of each place of the chain: whether it was made, and the nodes whose part is lost.
    at: Vec<Option<Vec<u32>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Computing,
    Saving {
        ends_ms: u64,
    },
    /// From which snapshot, at which place; from the beginning without.
    Restarting {
        ends_ms: u64,
        from: Option<(Epoch, usize)>,
    },
}

/// Where the time of a job has gone, seconds.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All of it.
    pub wall_s: f64,
    /// Standing still for checkpoints.
    pub paused_s: f64,
    /// Computing again what was lost.
    pub rework_s: f64,
    /// Restarting.
    pub restart_s: f64,
    /// Restarts, by place of the chain.
    pub restarts: Vec<u32>,
    /// Restarts from the beginning, for want of any snapshot.
    pub from_nothing: u32,
}

/// A job that is being simulated.
struct Job<'a> {
    follower: Follower,
    placed: &'a [Placed],
    trace: Trace<'a>,
    behind: bool,
    slowdown: f64,
    now_ms: u64,
    work_ms: f64,
    phase: Phase,
    wake_ms: u64,
    epoch: Epoch,
    snapshots: BTreeMap<Epoch, Snapshot>,
    /// What is being made: checkpoint, place, milliseconds left.
    active: Option<(Epoch, usize, u64)>,
    paused: BTreeMap<(Epoch, usize), u64>,
    outcome: Outcome,
}

/// How a world is set up beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Work of the job, seconds.
    pub work_s: f64,
    /// Whether levels are made behind the running job.
    pub behind: bool,
    /// The share of speed lost meanwhile.
    pub slowdown: f64,
}

/// Runs a job to its end, or to 50 times its work.
pub fn run(
    planner: &Planner,
    planned: &Planned,
    placed: &[Placed],
    trace: Trace,
    setting: Setting,
) -> Outcome {
    let mut job = Job {
        follower: Follower::new(planner.clone(), planned.clone()),
        placed,
        trace,
        behind: setting.behind,
        slowdown: setting.slowdown,
        now_ms: 0,
        work_ms: 0.0,
        phase: Phase::Computing,
        wake_ms: u64::MAX,
        epoch: 0,
        snapshots: BTreeMap::new(),
        active: None,
        paused: BTreeMap::new(),
        outcome: Outcome { restarts: vec![0; planned.plan.levels.len()], ..Outcome::default() },
    };
    job.tell(&Event::Running { from: None });
    let goal_ms = setting.work_s * 1e3;
    while job.work_ms < goal_ms - 0.5 && (job.now_ms as f64) < 50.0 * goal_ms {
        job.advance(goal_ms);
    }
    job.outcome.wall_s = job.now_ms as f64 / 1e3;
    job.outcome
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn whole(milliseconds: f64) -> u64 {
    milliseconds.ceil() as u64
}

impl Job<'_> {
    /// Work per time now.
    fn speed(&self) -> f64 {
        match (self.phase, self.active, self.behind) {
            (Phase::Computing, None, _) => 1.0,
            (Phase::Computing, Some(_), true) => 1.0 - self.slowdown,
            _ => 0.0,
        }
    }

    /// To the next event, and through it.
    fn advance(&mut self, goal_ms: f64) {
        let speed = self.speed();
        let failure_ms = milliseconds(self.trace.next_s()).max(self.now_ms);
        let phase_ms = match self.phase {
            Phase::Computing if speed > 0.0 => {
                self.wake_ms.min(self.now_ms + whole((goal_ms - self.work_ms) / speed))
            }
            Phase::Computing => u64::MAX,
            Phase::Saving { ends_ms } | Phase::Restarting { ends_ms, .. } => ends_ms,
        };
        let made_ms = self.active.map_or(u64::MAX, |(_, _, left_ms)| self.now_ms + left_ms);
        let next_ms = failure_ms.min(phase_ms).min(made_ms).max(self.now_ms);
        let passed_ms = next_ms - self.now_ms;
        self.account(passed_ms as f64, speed);
        if let Some((_, _, left_ms)) = &mut self.active {
            *left_ms -= passed_ms;
        }
        self.now_ms = next_ms;
        if next_ms == failure_ms {
            self.fail();
        } else if next_ms == made_ms {
            self.made();
        } else {
            self.phase_ends(goal_ms);
        }
    }

    fn account(&mut self, passed_ms: f64, speed: f64) {
        self.work_ms += passed_ms * speed;
        match self.phase {
            Phase::Saving { .. } => self.outcome.paused_s += passed_ms / 1e3,
            Phase::Restarting { .. } => self.outcome.restart_s += passed_ms / 1e3,
            Phase::Computing if speed <= 0.0 => self.outcome.paused_s += passed_ms / 1e3,
            Phase::Computing => {}
        }
    }

    fn phase_ends(&mut self, goal_ms: f64) {
        match self.phase {
            Phase::Computing if self.work_ms < goal_ms - 0.5 => self.tell(&Event::Wake),
            Phase::Computing => {}
            Phase::Saving { .. } => {
                self.phase = Phase::Computing;
                self.epoch += 1;
                let epoch = self.epoch;
                let mut at = vec![None; self.outcome.restarts.len()];
                at[0] = Some(Vec::new());
                self.forget(0);
                self.snapshots.insert(epoch, Snapshot { work_ms: self.work_ms, at });
                let pause_ms = milliseconds(self.follower.planned().stages[0].pause_s);
                self.tell(&Event::Saved { epoch, pause_ms });
            }
            Phase::Restarting { from, .. } => self.restarted(from),
        }
    }

    /// A newer checkpoint takes this place; those of which nothing is left are gone.
    fn forget(&mut self, place: usize) {
        for snapshot in self.snapshots.values_mut() {
            snapshot.at[place] = None;
        }
        let wanted: Vec<Epoch> = self.paused.keys().map(|(epoch, _)| *epoch).collect();
        let active = self.active.map(|(epoch, ..)| epoch);
        self.snapshots.retain(|epoch, snapshot| {
            snapshot.at.iter().any(Option::is_some)
                || wanted.contains(epoch)
                || active == Some(*epoch)
                || *epoch + 2 > self.epoch
        });
    }

    fn made(&mut self) {
        let Some((epoch, place, _)) = self.active else { return };
        self.forget(place);
        self.active = None; // until here it kept the checkpoint from being forgotten
        if let Some(snapshot) = self.snapshots.get_mut(&epoch) {
            snapshot.at[place] = Some(Vec::new());
        }
        let took_ms = milliseconds(self.cost_s(place));
        self.tell(&Event::Promoted { place, took_ms });
    }

    fn cost_s(&self, place: usize) -> f64 {
        let stage = self.follower.planned().stages[place];
        stage.behind_s + stage.pause_s
    }

    fn tell(&mut self, event: &Event) {
        for action in self.follower.step(event, self.now_ms) {
            match action {
                Action::Save => {
                    let pause_s = self.follower.planned().stages[0].pause_s;
                    self.phase = Phase::Saving { ends_ms: self.now_ms + milliseconds(pause_s) };
                }
                Action::Promote { epoch, place } => {
                    let all_ms = milliseconds(self.cost_s(place));
                    let left_ms = self.paused.remove(&(epoch, place)).unwrap_or(all_ms);
                    self.active = Some((epoch, place, left_ms));
                }
                Action::Pause { epoch, place } => {
                    if let Some((_, _, left_ms)) = self.active.take() {
                        self.paused.insert((epoch, place), left_ms);
                    }
                }
                Action::WakeAt(at_ms) => self.wake_ms = at_ms.max(self.now_ms),
                Action::Replanned => {}
            }
        }
    }

    fn fail(&mut self) {
        let (class, component) = self.trace.take();
        let scope = self.trace.classes[class].scope;
        let mut one = [0];
        match self.trace.topology.lost(scope, component, &mut one) {
            // What is made behind the job continues; where the job stands, the ranks make it.
            Lost::Nothing if self.behind => {}
            Lost::Nothing => self.break_off(),
            lost => self.lose(lost),
        }
        let found = self.snapshots.iter().rev().find_map(|(epoch, snapshot)| {
            let place = (0..snapshot.at.len()).find(|place| self.is_there(snapshot, *place))?;
            Some((*epoch, place))
        });
        let restart_s = found.map_or(self.follower.planned().stages[0].restart_s, |(_, place)| {
            self.follower.planned().stages[place].restart_s
        });
        self.phase =
            Phase::Restarting { ends_ms: self.now_ms + milliseconds(restart_s), from: found };
        self.wake_ms = u64::MAX;
    }

    fn is_there(&self, snapshot: &Snapshot, place: usize) -> bool {
        let level = &self.placed[self.follower.planned().plan.levels[place]];
        match &snapshot.at[place] {
            Some(lost) if lost.is_empty() => true,
            Some(lost) => level.survives(Lost::Nodes(lost)),
            None => false,
        }
    }

    fn lose(&mut self, lost: Lost) {
        let levels = &self.follower.planned().plan.levels;
        for snapshot in self.snapshots.values_mut() {
            for (place, level) in levels.iter().enumerate() {
                let level = &self.placed[*level];
                let Some(gone) = &mut snapshot.at[place] else { continue };
                match lost {
                    Lost::Nodes(nodes) if level.kind().is_on_nodes() => {
                        gone.extend(nodes);
                        gone.sort_unstable();
                        gone.dedup();
                    }
                    _ if level.survives(lost) => {}
                    _ => snapshot.at[place] = None,
                }
            }
        }
        // What was being made has lost a part of what it is made from.
        self.break_off();
    }

    /// No level is being made any more; all that were wanted stay due.
    fn break_off(&mut self) {
        self.active = None;
        self.paused.clear();
        for place in 1..self.outcome.restarts.len() {
            self.tell(&Event::PromotionFailed { place });
            self.active = None;
        }
    }

    fn restarted(&mut self, from: Option<(Epoch, usize)>) {
        self.phase = Phase::Computing;
        let work_before_ms = self.work_ms;
        self.work_ms = 0.0;
        match from {
            None => {
                self.outcome.from_nothing += 1;
                self.snapshots.clear();
            }
            Some((epoch, place)) => {
                self.outcome.restarts[place] += 1;
                self.snapshots.retain(|other, _| *other <= epoch);
                if let Some(snapshot) = self.snapshots.get_mut(&epoch) {
                    self.work_ms = snapshot.work_ms;
                    snapshot.at[0] = Some(Vec::new());
                    snapshot.at[place] = Some(Vec::new());
                }
            }
        }
        self.outcome.rework_s += (work_before_ms - self.work_ms) / 1e3;
        self.paused.retain(|(epoch, _), _| from.is_some_and(|(from, _)| *epoch <= from));
        if self.active.is_some_and(|(epoch, ..)| from.is_none_or(|(from, _)| epoch > from)) {
            self.active = None;
        }
        self.tell(&Event::Running { from: from.map(|(epoch, _)| epoch) });
    }
}
