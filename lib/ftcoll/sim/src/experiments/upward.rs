// SPDX-License-Identifier: Apache-2.0
//! Reductions: the messages of up-correction beside the formula, and timeouts of FTCO and of
//! up-correction beside the paper's table.

use super::Findings;
use crate::page::Table;
use crate::world::{LogP, NEVER, World};
use fermata_ftcoll::ftco::{self, Ftco, Operation, Timeouts, Value};
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::upward::{Layout, Reduced, Reduction, Setup};
use fermata_ftcoll::{Rank, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many processes' values are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count(pub u32);

impl Value for Count {
    fn merge(&mut self, behind: &Self) {
        self.0 += behind.0;
    }
}

fn reduce(machine: LogP, setup: &Arc<Setup>, dead: &[Rank]) -> (u64, Time, Option<u32>) {
    let none = BTreeSet::new();
    let process = |rank: Rank| {
        let core = Reduction::new(Arc::clone(setup), rank, Count(1), &none);
        (core, if dead.contains(&rank) { 0 } else { NEVER })
    };
    let mut world = World::new(machine, (0..setup.layout.size()).map(process));
    let sent = world.run(NEVER).sent;
    let result = world.outputs().iter().find(|(rank, _, _)| *rank == 0);
    let (time, count) = result.map_or((0, None), |(_, time, output)| {
        (*time, if let Reduced::Value(Count(count)) = output { Some(*count) } else { None })
    });
    (sent, time, count)
}

/// The messages of up-correction.
pub fn messages() -> Findings {
    let mut findings = Findings::default();
    let mut table = Table::new(&[
        "processes, f",
        "messages",
        "by the formula",
        "root has the result",
        "with f dead beforehand (timeout 1000)",
        "values in it",
    ]);
    let mut holds = true;
    for size in [7, 4096, 65_536] {
        for faults in 1..=4 {
            let timeouts = Timeouts { base: 1000, step: 10 };
            let setup = Arc::new(Setup { layout: Layout::new(size, faults), timeouts });
            let (sent, time, count) = reduce(LogP::PAPER, &setup, &[]);
            let dead: Vec<_> =
                (1..=faults.min(size - 2)).map(|n| (n * (size / 5)).max(n)).collect();
            let (_, late, rest) = reduce(LogP::PAPER, &setup, &dead);
            let formula = setup.layout.messages();
            let living = size - u32::try_from(dead.len()).unwrap_or(0);
            holds &= sent == formula && count == Some(size) && rest == Some(living);
            table.row(&[
                format!("{size}, {faults}"),
                sent.to_string(),
                formula.to_string(),
                time.to_string(),
                late.to_string(),
                rest.map_or_else(String::new, |count| count.to_string()),
            ]);
        }
    }
    findings.promise(
        "up-correction's messages equal the formula, nobody's value is lost",
        String::new(),
        holds,
    );
    findings.text = format!("\n### Up-correction: messages of a reduce\n\n{table}");
    findings
}

const SECOND: f64 = 1e9;
pub(super) const TIMEOUT: Time = 2_000_000_000;
/// In nanoseconds: a network of today.
pub(super) const NETWORK: LogP = LogP { latency: 1_000, overhead: 500, gap: 500 };

/// FTCO along a tree with a timeout of 2 s.
pub(super) fn ftco_setup(tree: Tree) -> Arc<ftco::Setup> {
    Arc::new(ftco::Setup {
        tree: Arc::new(tree),
        timeouts: Timeouts { base: TIMEOUT, step: 1_000_000 },
        kept: 2,
        damage: None,
    })
}

/// One allreduce by FTCO: the longest time, and messages.
fn allreduce(size: Rank, dead: &[Rank]) -> (Time, u64) {
    let setup = ftco_setup(Tree::binomial(size));
    let process = |rank: Rank| {
        let mut core = Ftco::new(Arc::clone(&setup), rank);
        core.prepare(Operation::Allreduce, Some(Count(1)));
        (core, if dead.contains(&rank) { 0 } else { NEVER })
    };
    let mut world = World::new(NETWORK, (0..size).map(process));
    let outcome = world.run(NEVER);
    assert_eq!(outcome.missed, 0, "FTCO missed somebody: {dead:?} of {size}");
    (outcome.last_output, outcome.sent)
}

/// The table of the paper.
#[allow(clippy::cast_precision_loss)] // Nanoseconds of seconds.
pub fn timeouts() -> Findings {
    let paper = [
        (64, ["0.0005", "2.0095", "2.0094", "4.0194", "4.0194"]),
        (128, ["0.0006", "2.0123", "2.0123", "4.0221", "4.0222"]),
        (256, ["0.0007", "2.0121", "2.0123", "4.0220", "4.0219"]),
        (384, ["0.0017", "2.0114", "2.0323", "4.0404", "4.0217"]),
        (512, ["0.0024", "2.0343", "2.0110", "4.0421", "4.0422"]),
    ];
    // A child of the root; two of them; one and its first child; those and another.
    let faults: [&[Rank]; 5] = [&[], &[1], &[1, 2], &[1, 3], &[1, 3, 4]];
    let mut findings = Findings::default();
    let mut table = Table::new(&[
        "processes",
        "no fault",
        "1 fault",
        "2 parallel",
        "2 serial",
        "3 mixed",
        "messages, no fault",
        "more for 1 fault",
        "up-correction, f = 3, the same 3",
    ]);
    let mut holds = true;
    for (size, reference) in paper {
        let seen = faults.map(|dead| allreduce(size, dead));
        let seconds = seen.map(|(time, _)| time as f64 / SECOND);
        holds &= seconds[1] <= 2.02 && seconds[3] <= 4.04;
        holds &= (seconds[2] - seconds[1]).abs() < 0.01 && (seconds[4] - seconds[3]).abs() < 0.01;
        let layout = Layout::new(size, 3);
        let timeouts = Timeouts { base: TIMEOUT, step: 1_000_000 };
        let setup = Arc::new(Setup { layout, timeouts });
        let (_, corrected, _) = reduce(NETWORK, &setup, faults[4]);
        let cell = |index: usize| format!("{:.4} ({})", seconds[index], reference[index]);
        table.row(&[
            size.to_string(),
            format!("{:.6} ({})", seconds[0], reference[0]),
            cell(1),
            cell(2),
            cell(3),
            cell(4),
            seen[0].1.to_string(),
            (seen[1].1.saturating_sub(seen[0].1)).to_string(),
            format!("{:.4}", corrected as f64 / SECOND),
        ]);
    }
    findings.promise(
        "FTCO: one fault within a timeout and 20 ms, two serial ones within two and 40 ms, \
         parallel ones no dearer",
        String::new(),
        holds,
    );
    findings.text = format!(
        "\n### FTCO allreduce with faults: seconds of the slowest process, and the paper's\n\n\
         Timeout 2 s, binomial tree, L = 1 µs, o = g = 0.5 µs; the paper's figures, of real runs, \
         in parentheses.\n\n{table}"
    );
    findings
}
