// SPDX-License-Identifier: Apache-2.0
use super::{Branch, Cast, Extent, Generator, Setup};
use crate::Rank;
use crate::broadcast::{Begin, Dissemination, Gossip, Plan, Until};
use crate::correction::Rule;
use crate::ftco::Timeouts;
use crate::testbed::{Bed, Members, only};
use proptest::prelude::*;
use std::sync::Arc;

const SETUP: Setup = Setup { timeouts: Timeouts { base: 1000, step: 10 }, give_up: 50_000 };

/// Everybody's place in a tree made under a seed; dead processes have none.
fn generate(size: Rank, seed: u64, dead: &[Rank]) -> Vec<Option<Branch>> {
    let until = Until::Steps { steps: 12, hop: 4 };
    let plan = Arc::new(Plan {
        size,
        dissemination: Dissemination::Gossip(Gossip { seed, until }),
        correction: Rule::FailProof { faults: 1 },
        begin: Begin::WhenSent,
    });
    let core = |rank| Generator::new(Arc::clone(&plan), rank, 1000, 2000);
    let mut bed = Bed::new((0..size).map(core).collect(), seed);
    for &rank in dead {
        bed.alive[rank as usize] = false;
    }
    bed.start(0..size);
    bed.run(100_000);
    bed.outputs
}

fn kept(size: Rank, count: u64, seed: u64) -> Vec<Vec<Branch>> {
    let trees: Vec<_> = (0..count).map(|number| generate(size, seed ^ number, &[])).collect();
    let places = |rank| trees.iter().map(|tree| tree[rank as usize].clone().unwrap()).collect();
    (0..size).map(places).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn a_tree_spans_the_living(size in 2..40u32, seed: u64, dead in 1..40u32) {
        let dead = [1 + dead % (size - 1)];
        let branches = generate(size, seed, &dead);
        let root = branches[0].clone().unwrap();
        prop_assert_eq!(root.extent().size, size - 1);
        for (rank, branch) in (0..).zip(&branches) {
            let Some(branch) = branch else { continue };
            for (&child, &extent) in &branch.children {
                let place = branches[child as usize].as_ref().unwrap();
                prop_assert_eq!(place.parent, Some(rank));
                prop_assert_eq!(place.extent(), extent);
            }
        }
    }

    /// One process dies between operations: everybody has the others' values, along the first tree
    /// in which it is a leaf, or all know that there is none.
    #[test]
    fn the_next_tree_is_taken(size in 4..24u32, seed: u64, dead in 1..40u32) {
        let dead = 1 + dead % (size - 1);
        let places = kept(size, 4, seed);
        let is_leaf = |attempt: usize| places[dead as usize][attempt].children.is_empty();
        let fit = (0..4).find(|&attempt| is_leaf(attempt));
        let cores = (0..).zip(&places)
            .map(|(rank, trees)| Cast::new(SETUP, rank, Arc::new(trees.clone()), only(rank)));
        let mut bed = Bed::new(cores.collect(), seed);
        bed.alive[dead as usize] = false;
        bed.start(0..size);
        bed.run(100_000);
        let others = Members(((1 << size) - 1) & !(1 << dead));
        for rank in bed.living() {
            let (attempt, value) = bed.outputs[rank as usize].clone().unwrap();
            prop_assert_eq!(&value, &fit.map(|_| others.clone()), "{}", rank);
            if let Some(fit) = fit {
                prop_assert_eq!(attempt as usize, fit);
            }
        }
    }
}

#[test]
fn without_deaths_the_first_tree_serves() {
    let places = kept(20, 2, 7);
    let cores =
        (0..).zip(places).map(|(rank, trees)| Cast::new(SETUP, rank, Arc::new(trees), only(rank)));
    let mut bed = Bed::new(cores.collect(), 3);
    bed.start(0..20);
    bed.run(10_000);
    assert_eq!((bed.sent, bed.ended), (38, 0));
    assert!(bed.outputs.iter().all(|o| o == &Some((0, Some(Members((1 << 20) - 1))))));
    assert_eq!(Branch::default().extent(), Extent { size: 1, height: 0 });
}
