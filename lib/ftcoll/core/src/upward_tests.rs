// SPDX-License-Identifier: Apache-2.0
use super::{Layout, Reduced, Reduction, Setup};
use crate::Rank;
use crate::ftco::{Timeouts, Value};
use crate::testbed::{Bed, Death, Members, only};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn setup(size: Rank, faults: u32) -> Arc<Setup> {
    let timeouts = Timeouts { base: 1000, step: 10 };
    Arc::new(Setup { layout: Layout::new(size, faults), timeouts })
}

fn bed(size: Rank, faults: u32, seed: u64) -> Bed<Reduction<Members>> {
    let setup = setup(size, faults);
    let none = BTreeSet::new();
    let core = |rank| Reduction::new(Arc::clone(&setup), rank, only(rank), &none);
    Bed::new((0..size).map(core).collect(), seed)
}

#[test]
fn the_example_of_the_paper() {
    #[derive(Clone, Debug, PartialEq)]
    struct Sum(u32);
    impl Value for Sum {
        fn merge(&mut self, behind: &Self) {
            self.0 += behind.0;
        }
    }
    let setup = setup(7, 1);
    let core = |rank| Reduction::new(Arc::clone(&setup), rank, Sum(rank), &BTreeSet::new());
    let mut bed = Bed::new((0..7).map(core).collect(), 5);
    bed.alive[1] = false;
    bed.start(0..7);
    bed.run(1000);
    assert_eq!(bed.outputs[0], Some(Reduced::Value(Sum(20))));
}

#[test]
fn messages_are_those_of_the_formula() {
    assert_eq!(Layout::new(7, 1).messages(), 12);
    for faults in 0..6 {
        for size in 1..80 {
            let mut bed = bed(size, faults, 1);
            bed.start(0..size);
            bed.run(100_000);
            assert_eq!(bed.sent, bed.cores[0].setup.layout.messages(), "n={size}, f={faults}");
            assert_eq!(bed.outputs[0], Some(Reduced::Value(Members((1 << size) - 1))));
            assert_eq!(bed.ended, 0);
        }
    }
}

#[test]
fn parents_and_children_agree() {
    for faults in 0..5 {
        for size in 2..60 {
            let layout = Layout::new(size, faults);
            let mut seen = 0;
            for rank in 0..size {
                for child in layout.children(rank) {
                    assert_eq!(layout.parent(child), Some(rank), "n={size}, f={faults}");
                    seen += 1;
                }
                for member in layout.group(rank) {
                    assert!(layout.group(member).any(|other| other == rank));
                }
            }
            assert_eq!(seen, size - 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    /// Up to f deaths at any step, before or during: the root has all living processes' values.
    #[test]
    fn the_living_are_all_in(size in 2..60u32, faults in 1..5u32, seed: u64,
            deaths in prop::collection::vec((0..120u32, 1..60u32, 0..4usize), 0..5)) {
        let mut bed = bed(size, faults, seed);
        let (before, during): (Vec<_>, Vec<_>) = deaths
            .into_iter()
            .take(faults as usize)
            .map(|(step, rank, sent)| Death { step, rank: 1 + rank % (size - 1), sent })
            .partition(|death| death.step < 30);
        for death in before {
            bed.alive[death.rank as usize] = false;
        }
        bed.plan_deaths(&during);
        bed.start(0..size);
        bed.run(100_000);
        let Some(Reduced::Value(Members(held))) = bed.outputs[0].clone() else {
            return Err(TestCaseError::fail(format!("{:?}", bed.outputs[0])));
        };
        for rank in bed.living() {
            prop_assert!(held & 1 << rank != 0, "{} is missing", rank);
        }
        prop_assert!(bed.ended <= 1000 + 10 * u64::from(bed.cores[0].setup.layout.height(0)));
    }
}
