// SPDX-License-Identifier: Apache-2.0
use super::{Ending, Ftco, Operation, Setup, Timeouts, Verdict};
use crate::testbed::{Bed, Death, Members, only};
use crate::tree::Tree;
use crate::{Core, Event, Rank};
use proptest::prelude::*;
use std::sync::Arc;

const TIMEOUTS: Timeouts = Timeouts { base: 1000, step: 10 };

fn bed(tree: Tree, seed: u64) -> Bed<Ftco<Members>> {
    let size = tree.size();
    let setup = Setup { tree: Arc::new(tree), timeouts: TIMEOUTS, kept: 4, damage: None };
    let setup = Arc::new(setup);
    Bed::new((0..size).map(|rank| Ftco::new(Arc::clone(&setup), rank)).collect(), seed)
}

fn call(bed: &mut Bed<Ftco<Members>>, operation: Operation) -> Vec<Option<Verdict<Members>>> {
    for (rank, core) in (0..).zip(&mut bed.cores) {
        core.prepare(operation, Some(only(rank)));
    }
    let size = Rank::try_from(bed.cores.len()).unwrap();
    bed.outputs.fill(None);
    bed.start(0..size);
    bed.run(200_000);
    bed.outputs.clone()
}

fn all(ranks: impl IntoIterator<Item = Rank>) -> u128 {
    ranks.into_iter().map(|rank| 1 << rank).sum()
}

#[test]
fn without_deaths_there_is_data_alone() {
    for (operation, messages) in
        [(Operation::Bcast, 12), (Operation::Reduce, 24), (Operation::Allreduce, 24)]
    {
        let mut bed = bed(Tree::kary(13, 3), 1);
        let outputs = call(&mut bed, operation);
        assert_eq!((bed.sent, bed.ended), (messages, 0), "{operation:?}");
        for (rank, verdict) in outputs.into_iter().map(Option::unwrap).enumerate() {
            let value = match operation {
                Operation::Bcast => Some(only(0)),
                Operation::Reduce if rank > 0 => None,
                _ => Some(Members(all(0..13))),
            };
            assert_eq!(verdict, Verdict { value, missing: vec![], ending: Ending::Complete });
        }
    }
}

fn offline(tree: Tree, dead: &[Rank]) -> (u64, Bed<Ftco<Members>>) {
    let mut bed = bed(tree, 1);
    for &rank in dead {
        bed.alive[rank as usize] = false;
    }
    let living = bed.living();
    for output in call(&mut bed, Operation::Allreduce).into_iter().flatten() {
        assert_eq!(output.missing, dead);
        assert_eq!(output.value, Some(Members(all(living.iter().copied()))));
    }
    assert!(living.iter().all(|&rank| bed.outputs[rank as usize].is_some()));
    (bed.ended, bed)
}

#[test]
fn a_fault_costs_one_timeout_and_parallel_ones_no_more() {
    let most = TIMEOUTS.base + 10 * TIMEOUTS.step;
    for dead in [&[1][..], &[0], &[5], &[1, 2], &[1, 2, 4], &[0, 11]] {
        let (time, _) = offline(Tree::binomial(64), dead);
        assert!((TIMEOUTS.base..=most).contains(&time), "{dead:?}: {time}");
    }
    // A process and its parent.
    let (time, _) = offline(Tree::binomial(64), &[1, 3]);
    assert!((2 * TIMEOUTS.base..=2 * most).contains(&time), "{time}");
}

#[test]
fn the_dead_are_remembered() {
    for dead in [&[1][..], &[0], &[0, 1, 2], &[1, 3], &[63]] {
        let (_, mut bed) = offline(Tree::binomial(64), dead);
        for _ in 0..3 {
            let begun = bed.now;
            bed.sent = 0;
            let outputs = call(&mut bed, Operation::Allreduce);
            assert_eq!(bed.ended, begun, "no timeout after the first call: {dead:?}");
            assert_eq!(outputs.iter().flatten().count(), 64 - dead.len());
            assert_eq!(bed.sent, 2 * (63 - dead.len() as u64), "{dead:?}");
        }
    }
}

#[test]
fn a_bcast_without_its_root_fails_everywhere() {
    let mut bed = bed(Tree::lame(20, 4), 3);
    bed.alive[0] = false;
    for _ in 0..2 {
        let outputs = call(&mut bed, Operation::Bcast);
        assert!(outputs.iter().flatten().all(|v| v.ending == Ending::RootFailed));
        assert_eq!(outputs.iter().flatten().count(), 19);
    }
}

/// The connection of a process breaks between two calls, and its children learn that before its
/// parent does, or alone.
#[test]
fn a_bcast_past_a_parent_that_is_known_dead_costs_no_timeout() {
    for dead in 1..16 {
        let mut bed = bed(Tree::binomial(32), 1);
        bed.alive[dead as usize] = false;
        let children: Vec<_> = Tree::binomial(32).children(dead).collect();
        for &child in &children {
            let mut actions = crate::Actions::default();
            bed.cores[child as usize].step(Event::Dead(dead), 0, &mut actions);
            assert!(actions.sends.is_empty() && actions.wake.is_none());
        }
        let outputs = call(&mut bed, Operation::Bcast);
        assert_eq!((outputs.iter().flatten().count(), bed.ended), (31, 0), "{dead}");
        // Who asked is known to its new parent, and asks no more.
        let begun = bed.now;
        bed.sent = 0;
        call(&mut bed, Operation::Bcast);
        assert_eq!((bed.sent, bed.ended), (30, begun), "{dead}");
    }
}

/// Its process may have slept for long.
#[test]
fn whoever_is_asked_late_has_time_to_answer() {
    let setup =
        Setup { tree: Arc::new(Tree::binomial(2)), timeouts: TIMEOUTS, kept: 4, damage: None };
    let mut root: Ftco<Members> = Ftco::new(Arc::new(setup), 0);
    let mut actions = crate::Actions::default();
    root.prepare(Operation::Allreduce, Some(only(0)));
    root.step(Event::Start, 0, &mut actions);
    let late = 10 * TIMEOUTS.base;
    for now in [late, late + 1, late + TIMEOUTS.base / 2] {
        root.step(Event::Timer, now, &mut actions);
        assert_eq!((actions.sends.len(), root.dead().count()), (1, 0), "{now}");
    }
    root.step(Event::Timer, late + TIMEOUTS.base, &mut actions);
    assert_eq!(root.dead().collect::<Vec<_>>(), [1]);
}

#[test]
fn operands_stay_in_order() {
    #[derive(Clone, Debug, PartialEq)]
    struct Text(String);
    impl super::Value for Text {
        fn merge(&mut self, behind: &Self) {
            self.0.push_str(&behind.0);
        }
    }
    let tree = Arc::new(Tree::binomial(26).in_order());
    let setup = Arc::new(Setup { tree, timeouts: TIMEOUTS, kept: 1, damage: None });
    for dead in [None, Some(0u8), Some(1), Some(12)] {
        let cores = (0..26).map(|rank| {
            let mut core = Ftco::new(Arc::clone(&setup), u32::from(rank));
            core.prepare(Operation::Allreduce, Some(Text(char::from(b'a' + rank).into())));
            core
        });
        let mut bed = Bed::new(cores.collect(), 9);
        if let Some(dead) = dead {
            bed.alive[usize::from(dead)] = false;
        }
        bed.start(0..26);
        bed.run(10_000);
        let text: String = (0..26)
            .filter(|&rank| Some(rank) != dead)
            .map(|rank| char::from(b'a' + rank))
            .collect();
        let value = bed.outputs[25].clone().unwrap().value;
        assert_eq!(value, Some(Text(text)));
    }
}

/// Found by `all_living_agree`.
#[test]
fn a_verdict_at_one_child_reaches_the_others() {
    let death = |step, rank, sent| Death { step, rank, sent };
    let mut bed = bed(Tree::kary(25, 3), 6_026_027_618_323_851_118);
    bed.plan_deaths(&[death(141, 1, 0), death(137, 0, 2), death(30, 6, 1)]);
    let outputs = call(&mut bed, Operation::Reduce);
    assert!(bed.living().iter().all(|&rank| outputs[rank as usize].is_some()));
}

fn tree() -> impl Strategy<Value = Tree> {
    (2..40u32, 0..4u32).prop_map(|(size, shape)| match shape {
        0 => Tree::kary(size, 3),
        1 => Tree::binomial(size).in_order(),
        2 => Tree::lame(size, 4),
        _ => Tree::binomial(size),
    })
}

fn deaths() -> impl Strategy<Value = Vec<Death>> {
    let death = (0..400u32, 0..40u32, 0..4usize);
    prop::collection::vec(death.prop_map(|(step, rank, sent)| Death { step, rank, sent }), 0..6)
}

const OPERATIONS: [Operation; 3] = [Operation::Allreduce, Operation::Bcast, Operation::Reduce];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    /// Calls of all kinds in a row, with deaths at any step of any of them.
    #[test]
    fn all_living_agree(tree in tree(), calls in prop::collection::vec((0..3usize, deaths()), 1..4),
            tells: bool, seed: u64) {
        let mut bed = bed(tree, seed);
        bed.tells = tells;
        for (operation, mut deaths) in calls {
            let operation = OPERATIONS[operation];
            deaths.retain(|death| (death.rank as usize) < bed.cores.len());
            bed.plan_deaths(&deaths);
            let outputs = call(&mut bed, operation);
            let living = bed.living();
            let verdicts: Vec<_> = living.iter().map(|&r| outputs[r as usize].clone()).collect();
            prop_assert!(verdicts.iter().all(Option::is_some), "{living:?} {verdicts:?}");
            let verdicts: Vec<_> = verdicts.into_iter().flatten().collect();
            for pair in verdicts.windows(2) {
                prop_assert_eq!(pair[0].ending, pair[1].ending);
                prop_assert_eq!(&pair[0].missing, &pair[1].missing);
                if operation != Operation::Reduce {
                    prop_assert_eq!(&pair[0].value, &pair[1].value);
                }
            }
            let Some(first) = verdicts.first() else { return Ok(()) };
            if operation != Operation::Bcast {
                prop_assert!(first.missing.iter().all(|&rank| !bed.alive[rank as usize]));
            }
            if let (Operation::Allreduce, Some(Members(held))) = (operation, &first.value) {
                let size = u32::try_from(bed.cores.len()).unwrap();
                let missing = all(first.missing.iter().copied());
                prop_assert_eq!(held + missing, all(0..size));
            }
        }
    }

    /// Timeouts that are too short: verdicts may differ, but every call ends, nothing is counted
    /// twice, and with time enough the next calls are whole again.
    #[test]
    fn hasty_calls_end(tree in tree(), calls in 1..4u32, seed: u64) {
        let mut bed = bed(tree, seed);
        bed.is_hasty = true;
        for _ in 0..calls {
            let outputs = call(&mut bed, Operation::Allreduce);
            prop_assert!(outputs.iter().all(Option::is_some));
        }
        bed.is_hasty = false;
        for _ in 0..3 {
            let outputs = call(&mut bed, Operation::Allreduce);
            prop_assert!(outputs.iter().all(Option::is_some));
        }
        let last = call(&mut bed, Operation::Allreduce);
        let everybody = Members(all(0..u32::try_from(last.len()).unwrap()));
        for verdict in last.into_iter().flatten() {
            prop_assert_eq!(verdict.value.as_ref(), Some(&everybody));
        }
    }
}
