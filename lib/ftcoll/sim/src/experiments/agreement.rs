// SPDX-License-Identifier: Apache-2.0
//! Allreduces by FTCO in which processes, the root among them, die at drawn moments.

use super::upward::{Count, NETWORK, TIMEOUT, ftco_setup};
use super::{Effort, Findings};
use crate::failures::generator;
use crate::page::Table;
use crate::world::{NEVER, World};
use fermata_ftcoll::ftco::{Ftco, Operation, Verdict};
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::{Rank, Time};
use rand::Rng;

/// Longer than an allreduce of 64 processes without failures takes.
const CALL: Time = 40_000;

#[derive(Default)]
struct Tally {
    runs: u32,
    hung: u32,
    differing: u32,
    left_out: u32,
    within_one: u32,
    within_two: u32,
    slowest: Time,
}

fn one(seed: u64, tally: &mut Tally) {
    let mut random = generator(seed);
    let size: Rank = random.random_range(4..=64);
    let tree = match random.random_range(0..4) {
        0 => Tree::kary(size, 3),
        1 => Tree::binomial(size),
        2 => Tree::lame(size, 4),
        _ => Tree::binomial(size).in_order(),
    };
    let mut dead = vec![NEVER; size as usize];
    for _ in 0..random.random_range(1..=3) {
        dead[random.random_range(0..size) as usize] = random.random_range(0..CALL);
    }
    let setup = ftco_setup(tree);
    let process = |rank: Rank| {
        let mut core = Ftco::new(setup.clone(), rank);
        core.prepare(Operation::Allreduce, Some(Count(1)));
        (core, dead[rank as usize])
    };
    let mut world = World::new(NETWORK, (0..size).map(process));
    let outcome = world.run(NEVER);
    let living: Vec<&Verdict<Count>> = world
        .outputs()
        .iter()
        .filter(|(rank, _, _)| dead[*rank as usize] == NEVER)
        .map(|(_, _, verdict)| verdict)
        .collect();
    let leaves_out = |verdict: &&&Verdict<Count>| {
        let count = u32::try_from(verdict.missing.len()).unwrap_or(0);
        let is_whole = verdict.value == Some(Count(size - count));
        !is_whole || verdict.missing.iter().any(|&rank| dead[rank as usize] == NEVER)
    };
    tally.runs += 1;
    tally.hung += u32::from(outcome.missed > 0);
    tally.differing += u32::from(living.windows(2).any(|pair| pair[0] != pair[1]));
    tally.left_out += u32::from(living.iter().filter(leaves_out).count() > 0);
    tally.within_one += u32::from(outcome.last_output < TIMEOUT + 20_000_000);
    tally.within_two += u32::from(outcome.last_output < 2 * TIMEOUT + 40_000_000);
    tally.slowest = tally.slowest.max(outcome.last_output);
}

/// Whether all living processes have the same value, and after how long.
#[allow(clippy::cast_precision_loss)] // Nanoseconds of seconds.
pub fn kills(effort: &Effort) -> Findings {
    let mut tally = Tally::default();
    for run in 0..effort.survivals / 10 {
        one(effort.seed.wrapping_add(u64::from(run)), &mut tally);
    }
    let mut table = Table::new(&[
        "allreduces",
        "somebody waits forever",
        "two verdicts",
        "a living process left out",
        "within a timeout and 20 ms",
        "within two and 40 ms",
        "slowest, s",
    ]);
    table.row(&[
        tally.runs.to_string(),
        tally.hung.to_string(),
        tally.differing.to_string(),
        tally.left_out.to_string(),
        tally.within_one.to_string(),
        tally.within_two.to_string(),
        format!("{:.3}", tally.slowest as f64 / 1e9),
    ]);
    let mut findings = Findings::default();
    findings.promise(
        &format!("FTCO: the same value everywhere in {} allreduces with deaths", tally.runs),
        format!("{} hung, {} differ", tally.hung, tally.differing),
        tally.hung + tally.differing + tally.left_out == 0,
    );
    findings.text = format!(
        "\n### FTCO allreduces in which one to three processes die at any moment\n\n4 to 64 \
         processes on four kinds of trees, timeout 2 s.\n\n{table}"
    );
    findings
}
