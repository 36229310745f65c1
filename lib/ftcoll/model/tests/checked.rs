// SPDX-License-Identifier: Apache-2.0
//! Small groups in all orders. Larger ones: `cargo test --release -- --ignored`.
#![allow(clippy::print_stdout)] // Numbers of states, for whoever runs it with --nocapture.

use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::ftco::{Damage, Operation};
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll_model::cases::{gossip_plan, tree_plan};
use fermata_ftcoll_model::subjects::{broadcast, ftco, reduction};
use fermata_ftcoll_model::world::{Group, Subject};
use stateright::{Checker, Model};

use Operation::{Allreduce, Bcast, Reduce};

/// Searches all; returns how many states there are, and the path to a breach if there is one.
fn search<C>(group: Group<C>) -> (usize, Option<String>)
where
    C: Subject + Send + Sync + 'static,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    let copy = group.clone();
    let checker = group.checker().threads(2).spawn_bfs().join();
    let breach = checker.discovery("sound").map(|path| {
        let last = path.last_state().clone();
        format!("{:?}: {:?}\n{last:#?}", C::breach(&copy, &last), path.into_actions())
    });
    (checker.unique_state_count(), breach)
}

fn holds<C>(name: &str, group: Group<C>)
where
    C: Subject + Send + Sync + 'static,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    let (states, breach) = search(group);
    println!("{name}: {states} states");
    assert!(breach.is_none(), "{name}: {}", breach.unwrap_or_default());
}

fn trees(size: u32) -> [(&'static str, Tree); 3] {
    [
        ("2-ary", Tree::kary(size, 2)),
        ("binomial in order", Tree::binomial(size).in_order()),
        ("Lamé 4", Tree::lame(size, 4)),
    ]
}

#[test]
fn ftco_of_four_with_two_deaths() {
    for operation in [Allreduce, Bcast, Reduce] {
        for (name, tree) in trees(4) {
            holds(&format!("{operation:?}, {name}"), ftco(tree, &[operation], 2, None));
        }
    }
}

#[test]
fn ftco_of_three_in_two_calls() {
    for operations in [[Allreduce, Allreduce], [Bcast, Allreduce], [Reduce, Bcast]] {
        for (name, tree) in [("2-ary", Tree::kary(3, 2)), ("chain", Tree::binomial(3).in_order())] {
            let mut group = ftco(tree, &operations, 2, None);
            group.enters_apart = true;
            holds(&format!("{operations:?}, {name}"), group);
        }
    }
}

#[test]
fn a_damaged_ftco_is_caught() {
    let cases = [
        (Damage::RootDoesNotAsk, Bcast),
        (Damage::NoPromise, Bcast),
        (Damage::NoBypass, Allreduce),
        (Damage::NoNewParent, Allreduce),
    ];
    for (damage, operation) in cases {
        let caught = trees(4)
            .into_iter()
            .any(|(_, tree)| search(ftco(tree, &[operation], 2, Some(damage))).1.is_some());
        assert!(caught, "{damage:?} is not seen");
    }
}

#[test]
fn fail_proof_misses_nobody() {
    for (size, faults) in [(3, 1), (4, 1)] {
        let rule = Rule::FailProof { faults };
        holds(
            &format!("tree, {size}, {faults}"),
            broadcast(tree_plan(size, rule), faults as usize),
        );
    }
    let rule = Rule::FailProof { faults: 1 };
    holds("gossip, 4, 1", broadcast(gossip_plan(4, rule), 1));
}

#[test]
fn checked_misses_nobody_while_nobody_dies() {
    holds("checked, tree", broadcast(tree_plan(4, Rule::Checked), 0));
    holds("checked, gossip", broadcast(gossip_plan(4, Rule::Checked), 0));
}

/// The search sees who is missed where nothing corrects.
#[test]
fn a_tree_alone_misses_some() {
    assert!(search(broadcast(tree_plan(5, Rule::None), 1)).1.is_some());
}

#[test]
fn up_correction_has_all_that_live() {
    for (size, faults) in [(3, 1), (4, 1), (5, 1), (4, 2)] {
        holds(&format!("reduce, {size}, {faults}"), reduction(size, faults, faults as usize));
    }
    assert!(search(reduction(5, 1, 2)).1.is_some(), "one death too many");
}
