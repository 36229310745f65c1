// SPDX-License-Identifier: Apache-2.0
use super::{Allreduce, Setup};
use crate::broadcast::{Begin, Dissemination, Plan};
use crate::correction::Rule;
use crate::ftco::Timeouts;
use crate::testbed::{Bed, Death, Members, only};
use crate::tree::Tree;
use crate::{Rank, upward};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn bed(size: Rank, faults: u32, seed: u64) -> Bed<Allreduce<Members>> {
    let timeouts = Timeouts { base: 1000, step: 10 };
    let layout = upward::Layout::new(size, faults);
    let plan = Plan {
        size,
        dissemination: Dissemination::Tree(Arc::new(Tree::lame(size, 4))),
        correction: Rule::FailProof { faults },
        begin: Begin::WhenSent,
    };
    let setup = Arc::new(Setup {
        reduction: Arc::new(upward::Setup { layout, timeouts }),
        broadcast: Arc::new(plan),
        attempt: 2000,
        attempts: (faults + 1).min(size),
    });
    let core = |rank| Allreduce::new(Arc::clone(&setup), rank, only(rank), BTreeSet::new());
    Bed::new((0..size).map(core).collect(), seed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    /// Dead roots beforehand, and others that die at any step: at most f in all.
    #[test]
    fn all_living_agree(size in 2..50u32, faults in 1..5u32, before in 0..4u32, seed: u64,
            deaths in prop::collection::vec((0..300u32, 0..50u32, 0..4usize), 0..5)) {
        let mut bed = bed(size, faults, seed);
        let before = before.min(faults).min(size - 1);
        for rank in 0..before {
            bed.alive[rank as usize] = false;
        }
        // Roots die before the operation only.
        let deaths: Vec<_> = deaths.into_iter().take((faults - before) as usize)
            .map(|(step, rank, sent)| Death { step, rank: rank % size, sent })
            .filter(|death| death.rank > faults).collect();
        bed.plan_deaths(&deaths);
        bed.start(0..size);
        bed.run(200_000);
        let outputs: Vec<_> =
            bed.living().iter().map(|&rank| bed.outputs[rank as usize].clone()).collect();
        prop_assert!(outputs.iter().all(|output| output == &outputs[0]), "{outputs:?}");
        let Some(Some(Members(held))) = outputs[0] else {
            return Err(TestCaseError::fail(format!("{outputs:?}")));
        };
        for rank in bed.living() {
            prop_assert!(held & 1 << rank != 0, "{} is missing", rank);
        }
    }
}
