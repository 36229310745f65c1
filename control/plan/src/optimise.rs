// SPDX-License-Identifier: Apache-2.0
//! The plan of least overhead: all sensible chains of levels, the counts of each by coordinate
//! descent from the first-order pattern, the interval by golden section.

use crate::cost::Cost;
use crate::overhead::{MOST_STAGES, Stage, overhead};
use crate::placement::{Kind, Order, Placed};
use crate::simple::first_order;
use crate::system::{System, SystemError};
use crate::topology::{Class, Lost, Topology};
use std::collections::BTreeMap;

/// Which levels, how often each.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Levels, by their place in the input, freshest first.
    pub levels: Vec<usize>,
    /// So many checkpoints of the level before make one of this; 1 for the first.
    pub every: Vec<u32>,
    /// Work between checkpoints, seconds.
    pub interval_s: f64,
}

impl Plan {
    /// One of how many checkpoints goes to this place of the chain.
    pub fn period(&self, place: usize) -> u64 {
        self.every[..=place].iter().map(|count| u64::from(*count)).product()
    }
}

/// A plan and what it is expected to cost.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Costs and rates of its levels.
    pub stages: Vec<Stage>,
    /// Expected time over the time of the work, less one.
    pub overhead: f64,
}

/// Failures that leave the same levels.
#[derive(Clone, Copy, Debug)]
struct Exposure {
    /// Levels that survive, one bit each.
    survivors: u32,
    nodes_lost: u32,
    rate: f64,
}

/// All that a choice depends on. Costs can be replaced by measured ones.
#[derive(Clone, Debug)]
pub struct Planner {
    placed: Vec<(Kind, Option<(u32, u32)>)>,
    /// What each level costs.
    pub costs: Vec<Cost>,
    /// Starting the ranks, seconds.
    pub relaunch_s: f64,
    slowdown: f64,
    behind: bool,
    node_loss_rate: f64,
    exposures: Vec<Exposure>,
}

impl Planner {
    /// For a system, with sets and partners laid in this order.
    ///
    /// # Errors
    /// The input makes no sense, or no level survives one of the failures.
    pub fn new(system: &System, order: Order) -> Result<Self, SystemError> {
        system.check()?;
        let (topology, classes) = system.failures();
        let placed = system.place(&topology, &classes, order);
        Self::with(system, &topology, &classes, &placed)
    }

    /// For sets that are chosen already.
    ///
    /// # Errors
    /// No level survives one of the failures.
    pub fn with(
        system: &System,
        topology: &Topology,
        classes: &[Class],
        placed: &[Placed],
    ) -> Result<Self, SystemError> {
        let mut exposures: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for class in classes {
            let count = topology.components(class.scope);
            for component in 0..count {
                let mut one = [0];
                let lost = topology.lost(class.scope, component, &mut one);
                let survivors = survivors(placed, lost);
                if survivors == 0 {
                    return Err(SystemError::NothingSurvives(class.name.clone()));
                }
                let nodes = match lost {
                    Lost::Nothing => 0,
                    Lost::Nodes(nodes) => u32::try_from(nodes.len()).unwrap_or(u32::MAX),
                    Lost::All => topology.nodes(),
                };
                *exposures.entry((survivors, nodes)).or_default() += 1.0 / class.mttf_s;
            }
        }
        let exposures = exposures.into_iter().map(|((survivors, nodes_lost), rate)| Exposure {
            survivors,
            nodes_lost,
            rate,
        });
        Ok(Self {
            placed: placed.iter().map(|level| (level.kind(), level.further_losses())).collect(),
            costs: system.costs(),
            relaunch_s: system.relaunch,
            slowdown: system.slowdown,
            behind: system.behind,
            node_loss_rate: topology.node_loss_rate(classes),
            exposures: exposures.collect(),
        })
    }

    /// Costs and rates of a chain of levels; `None` if something can fail that none survives.
    pub fn stages(&self, levels: &[usize]) -> Option<Vec<Stage>> {
        let mut stages: Vec<Stage> = Vec::with_capacity(levels.len());
        for (place, level) in levels.iter().enumerate() {
            let cost = self.costs[*level];
            let (pause_s, behind_s) = match (place, self.behind) {
                (0, _) => (cost.direct_s, 0.0),
                (_, true) => (0.0, cost.promote_s),
                (_, false) => (cost.promote_s, 0.0),
            };
            let restart_s = self.relaunch_s + cost.restore_s;
            let slowdown = self.slowdown;
            stages.push(Stage { pause_s, behind_s, slowdown, restart_s, rate: 0.0 });
        }
        for exposure in &self.exposures {
            let mut rate = exposure.rate;
            for (place, level) in levels.iter().enumerate() {
                if exposure.survivors & (1 << level) == 0 {
                    continue;
                }
                let broken = self.broken_meanwhile(*level, exposure, stages[place].restart_s);
                stages[place].rate += rate * (1.0 - broken);
                rate *= broken;
            }
            // What breaks the last level as well is lost in the rounding; a class is not.
            if rate >= exposure.rate {
                return None;
            }
        }
        Some(stages)
    }

    /// How likely further losses break this level before it is whole again.
    fn broken_meanwhile(&self, level: usize, exposure: &Exposure, window_s: f64) -> f64 {
        let Some((losses, others)) = self.placed[level].1 else { return 0.0 };
        if exposure.nodes_lost == 0 {
            return 0.0;
        }
        let one = self.node_loss_rate * window_s;
        // Any `losses` of the others: the binomial coefficient times each one's chance.
        let ways = (0..losses).fold(1.0, |ways, taken| {
            ways * (f64::from(others) - f64::from(taken)).max(0.0) / f64::from(taken + 1) * one
        });
        (f64::from(exposure.nodes_lost) * ways).min(1.0)
    }

    /// Whether levels beyond the first are made behind the running job.
    pub fn is_behind(&self) -> bool {
        self.behind
    }

    /// Failures of all kinds per second.
    pub fn total_rate(&self) -> f64 {
        self.exposures.iter().map(|exposure| exposure.rate).sum()
    }

    /// All chains of levels that make sense, cheapest level first: with a local copy behind which
    /// others are made, or directly to stores that all nodes share.
    pub fn chains(&self) -> Vec<Vec<usize>> {
        let count = self.placed.len().min(MOST_STAGES);
        let subsets = (1u32..1 << count).map(|bits| {
            let mut levels: Vec<usize> = (0..count).filter(|l| bits & (1 << l) != 0).collect();
            let cost = |level: usize| match self.placed[level].0 {
                Kind::Local => -1.0,
                _ => self.costs[level].promote_s,
            };
            levels.sort_by(|a, b| cost(*a).total_cmp(&cost(*b)).then(a.cmp(b)));
            levels
        });
        let sensible = |levels: &Vec<usize>| {
            let local = levels.iter().filter(|l| self.placed[**l].0 == Kind::Local).count();
            local == 1 || (local == 0 && levels.iter().all(|l| !self.placed[*l].0.is_on_nodes()))
        };
        subsets.filter(sensible).collect()
    }

    /// The plan of least expected overhead.
    ///
    /// Takes some milliseconds for each of up to 2^(levels - 1) chains. `None` if every plan is
    /// worse than not to come to an end.
    pub fn best(&self) -> Option<Planned> {
        let of_all = self.chains().into_iter().filter_map(|levels| self.best_of(&levels));
        of_all.min_by(|a, b| a.overhead.total_cmp(&b.overhead))
    }

    /// The plan of least expected overhead that uses these levels, all of them.
    pub fn best_of(&self, levels: &[usize]) -> Option<Planned> {
        let stages = self.stages(levels)?;
        let (every, interval_s, overhead) = search(&stages, None);
        planned(levels, every, interval_s, overhead, stages)
    }

    /// The same, where the interval is given.
    pub fn best_at(&self, levels: &[usize], interval_s: f64) -> Option<Planned> {
        let stages = self.stages(levels)?;
        let (every, interval_s, overhead) = search(&stages, Some(interval_s));
        planned(levels, every, interval_s, overhead, stages)
    }

    /// What a plan that was made elsewhere is expected to cost here. `None` if something can fail
    /// that none of its levels survives.
    pub fn judge(&self, plan: &Plan) -> Option<Planned> {
        let stages = self.stages(&plan.levels)?;
        let every: Vec<f64> = plan.every.iter().map(|count| f64::from(*count)).collect();
        let overhead = overhead(&stages, &every, plan.interval_s);
        Some(Planned { plan: plan.clone(), stages, overhead })
    }
}

fn planned(
    levels: &[usize],
    every: Vec<u32>,
    interval_s: f64,
    overhead: f64,
    stages: Vec<Stage>,
) -> Option<Planned> {
    let plan = Plan { levels: levels.to_vec(), every, interval_s };
    overhead.is_finite().then_some(Planned { plan, stages, overhead })
}

fn survivors(placed: &[Placed], lost: Lost) -> u32 {
    let bit = |(at, level): (usize, &Placed)| u32::from(level.survives(lost)) << at;
    placed.iter().enumerate().map(bit).sum()
}

/// One checkpoint of a level for at most so many of the level before it.
const MOST_EVERY: f64 = 100_000.0;

/// Least overhead over counts and interval: counts, interval in seconds, overhead.
///
/// Coordinate descent over the counts, each with its own best interval, in steps by factors and by
/// one, with a compensating step of the next count; from the first-order pattern and from one of
/// each. That it finds the least is compared with all counts in the tests.
pub fn search(stages: &[Stage], interval_s: Option<f64>) -> (Vec<u32>, f64, f64) {
    let costs: Vec<f64> =
        stages.iter().map(|stage| stage.pause_s + stage.slowdown * stage.behind_s).collect();
    let rates: Vec<f64> = stages.iter().map(|stage| stage.rate).collect();
    let (guess_s, counts) = first_order(&costs, &rates);
    let mut pattern = vec![1.0; stages.len()];
    for place in 1..stages.len() {
        pattern[place] = (counts[place - 1] / counts[place]).round().clamp(1.0, MOST_EVERY);
    }
    let total: f64 = rates.iter().sum();
    let range = (guess_s.min(1.0 / total) * 1e-3, 30.0 / total);
    let at_best = |every: &[f64], near_s: Option<f64>| match (interval_s, near_s) {
        (Some(interval_s), _) => (interval_s, overhead(stages, every, interval_s)),
        (None, Some(near_s)) => {
            golden((near_s / 3.0, near_s * 3.0), 20, |at_s| overhead(stages, every, at_s))
        }
        (None, None) => golden(range, 40, |at_s| overhead(stages, every, at_s)),
    };
    let descend = |mut every: Vec<f64>| {
        let (mut best_s, mut least) = at_best(&every, None);
        for _ in 0..200 {
            let mut better = None;
            for next in neighbours(&every) {
                let near_s = least.is_finite().then_some(best_s);
                let (next_s, value) = at_best(&next, near_s);
                if value < least || (!least.is_finite() && better.is_none()) {
                    (best_s, least) = (next_s, value);
                    better = Some(next);
                }
            }
            match better {
                Some(next) => every = next,
                None => break,
            }
        }
        (every, best_s, least)
    };
    let starts = [vec![1.0; stages.len()], pattern];
    let found = starts.into_iter().map(descend).min_by(|a, b| a.2.total_cmp(&b.2));
    let (every, best_s, least) = found.unwrap_or((Vec::new(), 0.0, f64::INFINITY));
    (every.into_iter().map(count).collect(), best_s, least)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 1 and MOST_EVERY
fn count(every: f64) -> u32 {
    every as u32
}

/// Counts that differ in one place, or in one with the next compensating.
fn neighbours(every: &[f64]) -> Vec<Vec<f64>> {
    let mut all = Vec::new();
    for place in 1..every.len() {
        let now = every[place];
        let steps = [now + 1.0, now - 1.0, now * 1.2, now / 1.2, now * 2.0, now / 2.0, now * 8.0];
        for step in steps {
            let step = step.round();
            if !(1.0..=MOST_EVERY).contains(&step) || step == now {
                continue;
            }
            let mut next = every.to_vec();
            next[place] = step;
            if place + 1 < every.len() {
                let mut with_next = next.clone();
                with_next[place + 1] =
                    (every[place + 1] * now / step).round().clamp(1.0, MOST_EVERY);
                all.push(with_next);
            }
            all.push(next);
        }
    }
    all
}

/// The least value of a function with one minimum over a range, by golden section over the
/// logarithm, in so many steps. Where the function is infinite, larger arguments are better.
///
/// Source: J. Kiefer, Sequential minimax search for a maximum, 1953.
pub fn golden(range: (f64, f64), steps: u32, f: impl Fn(f64) -> f64) -> (f64, f64) {
    const RATIO: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (range.0.ln(), range.1.ln());
    let at = |x: f64| f(x.exp());
    let (mut left, mut right) = (high - RATIO * (high - low), low + RATIO * (high - low));
    let (mut at_left, mut at_right) = (at(left), at(right));
    for _ in 0..steps {
        if at_left.is_finite() && at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - RATIO * (high - low);
            at_left = at(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + RATIO * (high - low);
            at_right = at(right);
        }
    }
    if at_left <= at_right { (left.exp(), at_left) } else { (right.exp(), at_right) }
}

#[cfg(test)]
#[path = "optimise_tests.rs"]
pub(crate) mod tests;
