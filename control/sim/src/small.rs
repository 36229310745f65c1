// SPDX-License-Identifier: Apache-2.0
//! `./x sim job FILE`: what a job costs that saves at given intervals, as the model of plans
//! expects it and as traces of failures make it. `./x bench --overhead` holds real jobs beside it.

use crate::job::Outcome;
use crate::plan::{Contestant, Options, Policy, score};
use crate::stats::mean;
use anyhow::{Context, Result};
use fermata_plan::placement::Order;
use fermata_plan::{Plan, Planner, System};
use std::fmt::Write;

const DAY_S: f64 = 86_400.0;

/// A table, a row for each interval: the expected overhead, and the simulated one over the traces.
/// Each checkpoint is made at all levels of the system. `work_s`: of the job, in seconds.
///
/// # Errors
/// The system is wrong, or there is no plan of all its levels.
pub fn report(system: &System, every_s: &[f64], work_s: f64, seeds: u64) -> Result<String> {
    system.check()?;
    let (topology, classes) = system.failures();
    let mut table = format!(
        "{work_s} s of work, {seeds} traces\n\n| every | expected | simulated |\n|--:|--:|--:|\n"
    );
    for every_s in every_s {
        let placed = system.place(&topology, &classes, Order::Hosts);
        let planner = Planner::with(system, &topology, &classes, &placed)?;
        let levels: Vec<usize> = (0..system.level.len()).collect();
        let plan = Plan { every: vec![1; levels.len()], levels, interval_s: *every_s };
        let planned = planner.judge(&plan).context("something fails that no level survives")?;
        let expected = planned.overhead;
        let job = Contestant { policy: Policy::Planned, placed, planner, planned };
        let options = Options { seeds, first_seed: 1, days: work_s / DAY_S, sizes: Vec::new() };
        let outcomes = score(&job, system, &topology, &classes, &options);
        let overhead = |outcome: &Outcome| outcome.wall_s / work_s - 1.0;
        let simulated = mean(&outcomes.iter().map(overhead).collect::<Vec<_>>());
        writeln!(table, "| {every_s} s | {:.1} % | {} % |", 100.0 * expected, simulated.percent())?;
    }
    Ok(table)
}
