// SPDX-License-Identifier: Apache-2.0
//! Groups of five by the quick search, and whether it hides anything that the slow one sees.
#![allow(clippy::print_stdout)] // Numbers of states, for whoever runs it with --nocapture.

use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::ftco::{Damage, Ftco, Operation};
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll_model::cases::{
    DAMAGES, Effort, FEW_CORRECT, damaged, gossip_plan, sound, tree_plan, trees,
};
use fermata_ftcoll_model::search::{Ended, Findings, search};
use fermata_ftcoll_model::subjects::{Members, broadcast, ftco, reduction};
use fermata_ftcoll_model::world::{Group, Subject};
use stateright::{Checker, Model, StateRecorder};
use std::collections::HashSet;

use Operation::{Allreduce, Bcast, Reduce};

const EFFORT: Effort = Effort { states: 4_000_000, threads: 2 };

fn found<C>(group: &Group<C>) -> Findings<C>
where
    C: Subject + Send + Sync,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    search(group, EFFORT.threads, EFFORT.states)
}

/// How runs end in the search that leaves out nothing, and how many states it has.
fn whole<C>(group: &Group<C>) -> (usize, HashSet<Ended<C>>)
where
    C: Subject + Send + Sync + 'static,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    let (recorder, states) = StateRecorder::new_with_accessor();
    let checker = group.clone().checker().visitor(recorder).spawn_bfs().join();
    checker.assert_properties();
    let states = states();
    let ends = states.iter().filter(|state| group.is_over(state)).map(|state| {
        let each = state.outputs.iter().zip(&state.alive);
        each.map(|(outputs, is_alive)| is_alive.then(|| outputs.clone())).collect()
    });
    (states.len(), ends.collect())
}

fn same<C>(name: &str, group: &Group<C>)
where
    C: Subject + Send + Sync + 'static,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    let (states, endings) = whole(group);
    let quick = found(group);
    println!("{name}: {} of {states} states, {} endings", quick.states, endings.len());
    assert!(quick.is_whole && endings == quick.endings, "{name}");
}

/// The endings of all runs, those who are dead and what the others have got, are the same.
#[test]
fn what_is_left_out_hides_no_ending() {
    for operation in [Allreduce, Bcast, Reduce] {
        for (name, tree) in trees(3) {
            same(&format!("3, {operation:?}, {name}"), &ftco(tree, &[operation], 2, None));
        }
        for (name, tree) in trees(4) {
            let group = |deaths| ftco(tree.clone(), &[operation], deaths, None);
            let deaths = if name == "Lamé 4" { 1 } else { 2 };
            same(&format!("4, {operation:?}, {name}"), &group(deaths));
        }
    }
    let tree = || Tree::kary(5, 2);
    same("5, two die", &ftco(tree(), &[Bcast], 2, None));
    let mut apart = ftco(Tree::kary(3, 2), &[Allreduce], 1, None);
    apart.enters_apart = true;
    same("3, entering apart", &apart);
    same("up-correction", &reduction(4, 1, 1));
    for faults in [1, 2] {
        let (rule, deaths) = (Rule::FailProof { faults }, faults as usize);
        same(&format!("fail-proof {faults}, tree"), &broadcast(tree_plan(3, rule), deaths));
        same(&format!("fail-proof {faults}, gossip"), &broadcast(gossip_plan(3, rule), deaths));
    }
    same("checked", &broadcast(tree_plan(4, Rule::Checked), 0));
}

#[test]
fn ftco_of_five_with_two_deaths() {
    for line in sound(5, 2, EFFORT, "ftco") {
        println!("{}: {} states, {} endings", line.name, line.states, line.endings);
        assert!(line.breach.is_none(), "{}: {}", line.name, line.breach.unwrap_or_default());
        assert!(line.is_whole, "{} has more states than are searched", line.name);
    }
}

#[test]
fn fail_proof_of_five_with_two_deaths() {
    for deaths in [1, 2] {
        for line in sound(5, deaths, EFFORT, "fail-proof") {
            println!("{}: {} states, {} endings", line.name, line.states, line.endings);
            assert!(line.breach.is_none(), "{}: {}", line.name, line.breach.unwrap_or_default());
            assert!(line.is_whole, "{} has more states than are searched", line.name);
        }
    }
}

/// Whom only a correction has reached has to correct as well: who sent it may die.
#[test]
fn a_correction_of_five_that_few_make_is_caught() {
    for (deaths, is_caught) in [(1, false), (2, true)] {
        let lines = || damaged(5, deaths, EFFORT, FEW_CORRECT).map(|(_, line)| line);
        assert!(is_caught || lines().all(|line| line.is_whole));
        let breaches: Vec<_> = lines().filter_map(|line| line.breach).collect();
        assert_eq!(breaches.is_empty(), !is_caught, "{deaths} deaths: {breaches:?}");
        assert!(breaches.iter().all(|what| what.starts_with("somebody is missed")));
    }
}

#[test]
fn a_damaged_ftco_of_five_is_caught() {
    for (damage, operation) in DAMAGES {
        let word = format!("{operation:?}, binomial in order, {damage:?}");
        let lines: Vec<_> = damaged(5, 2, EFFORT, &word).collect();
        assert_eq!(lines.len(), 1, "{word}");
        assert!(lines[0].1.breach.is_some(), "{damage:?} is not seen");
    }
}

/// What two damaged machines do wrong is told apart, and the way there is told.
#[test]
fn a_breach_names_what_is_wrong_and_the_way_there() {
    let told = |damage, operation| {
        let group: Group<Ftco<Members>> = ftco(Tree::kary(4, 2), &[operation], 2, Some(damage));
        found(&group).breach.unwrap_or_default()
    };
    let waits = told(Damage::NoNewParent, Allreduce);
    assert!(waits.starts_with("somebody waits forever"), "{waits}");
    assert!(waits.contains("dies after"), "{waits}");
    assert!(told(Damage::RootDoesNotAsk, Bcast).starts_with("two verdicts"));
}

#[test]
fn a_limit_is_kept_and_told() {
    let group = ftco(Tree::lame(4, 4), &[Allreduce], 2, None);
    let findings = search(&group, 1, 100);
    assert!(!findings.is_whole && findings.breach.is_none());
    assert_eq!(findings.states, 101);
}
