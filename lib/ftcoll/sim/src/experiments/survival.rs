// SPDX-License-Identifier: Apache-2.0
//! Whether checked and fail-proof correction ever miss somebody: many runs of all kinds.

use super::{Effort, Findings};
use crate::failures::{Placement, before, during, generator};
use crate::page::Table;
use crate::scheme::{Scheme, Spread};
use crate::stats::interval;
use crate::world::{LogP, NEVER};
use fermata_ftcoll::broadcast::Begin;
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;
use rand::Rng;
use std::sync::Arc;

/// One drawn setting: a machine, a dissemination, and who is dead.
struct Draw {
    machine: LogP,
    scheme: Scheme,
    dead: Vec<u64>,
    faults: u32,
}

fn draw(seed: u64) -> Draw {
    let mut random = generator(seed);
    let size = random.random_range(2..=256);
    let overhead = random.random_range(1..=3);
    let gap = random.random_range(overhead..=overhead + 2);
    let machine = LogP { latency: random.random_range(1..=8), overhead, gap };
    let tree = match random.random_range(0..4) {
        0 => Tree::kary(size, random.random_range(2..=6)),
        1 => Tree::binomial(size),
        2 => Tree::lame(size, random.random_range(2..=6)),
        _ => Tree::binomial(size).in_order(),
    };
    let steps = u64::from(size.ilog2() + 1);
    let until = random.random_range(steps..=4 * steps) * overhead;
    let begin = if random.random() { Begin::WhenSent } else { Begin::At(until + machine.hop()) };
    let tree = Arc::new(tree);
    let spread =
        if random.random() { Spread::Gossip(until) } else { Spread::Tree(Arc::clone(&tree)) };
    let count = random.random_range(0..=size / 5);
    let placement = [Placement::Random, Placement::Top][random.random_range(0..2)];
    let dead = before(placement, &tree, count, seed);
    let faults = random.random_range(1..=3);
    let scheme = Scheme { name: String::new(), size, spread, rule: Rule::Checked, begin };
    Draw { machine, scheme, dead, faults }
}

/// Runs of each kind, and how many of them miss somebody.
pub fn survival(effort: &Effort) -> Findings {
    let runs = effort.survivals;
    let (mut checked, mut proof, mut exposed) = (0, 0, 0);
    for run in 0..runs {
        let seed = effort.seed.wrapping_add(u64::from(run));
        let mut drawn = draw(seed);
        let calm = drawn.scheme.run(drawn.machine, seed, &drawn.dead);
        checked += u32::from(calm.missed > 0);
        during(&mut drawn.dead, drawn.faults, calm.quiet, seed);
        exposed += u32::from(drawn.scheme.run(drawn.machine, seed, &drawn.dead).missed > 0);
        drawn.scheme.rule = Rule::FailProof { faults: drawn.faults };
        proof += u32::from(drawn.scheme.run(drawn.machine, seed, &drawn.dead).missed > 0);
    }
    let mut table =
        Table::new(&["correction", "deaths", "runs", "runs with a miss", "at most (95 %)"]);
    let rows = [
        ("checked", "up to 20 % before", checked),
        ("fail-proof f = 1 to 3", "the same and up to f during", proof),
        ("checked", "the same and up to f during", exposed),
    ];
    for (name, deaths, hits) in rows {
        let most = format!("{:.2e}", interval(hits, runs).1);
        table.row(&[name.into(), deaths.into(), runs.to_string(), hits.to_string(), most]);
    }
    let mut findings = Findings::default();
    findings.promise(
        &format!("checked never misses in {runs} runs"),
        checked.to_string(),
        checked == 0,
    );
    findings.promise(
        &format!("fail-proof never misses in {runs} runs"),
        proof.to_string(),
        proof == 0,
    );
    let (all_or_none, halves) = without_root(effort);
    findings.promise(
        &format!("fail-proof reaches all or none when the root dies, in {all_or_none} runs"),
        halves.to_string(),
        halves == 0,
    );
    findings.text = format!(
        "\n### Misses over {runs} drawn settings\n\n2 to 256 processes, L 1 to 8, o 1 to 3, g to 2 \
         more than o, trees of all kinds and gossip of all lengths, correction synchronised or \
         not.\n\n{table}\nThe last row is what checked correction does not promise: for a \
         miss, two processes around one gap have to die at the right moments. With the root dying \
         at a drawn time as one of the f, fail-proof correction reached some but not all of the \
         living in {halves} of {all_or_none} runs.\n"
    );
    findings
}

/// Runs in which the root dies, and how many of them reached some of the living only.
fn without_root(effort: &Effort) -> (u32, u32) {
    let runs = effort.survivals / 4;
    let mut halves = 0;
    for run in 0..runs {
        let seed = effort.seed.wrapping_add(1 << 32).wrapping_add(u64::from(run));
        let mut drawn = draw(seed);
        drawn.scheme.rule = Rule::FailProof { faults: drawn.faults };
        let calm = drawn.scheme.run(drawn.machine, seed, &drawn.dead);
        drawn.dead[0] = generator(seed).random_range(0..=calm.quiet / 2) + 1;
        during(&mut drawn.dead, drawn.faults - 1, calm.quiet, seed);
        let living = drawn.dead.iter().filter(|&&from| from == NEVER).count();
        let missed = drawn.scheme.run(drawn.machine, seed, &drawn.dead).missed as usize;
        halves += u32::from(missed > 0 && missed < living);
    }
    (runs, halves)
}
