// SPDX-License-Identifier: Apache-2.0
//! What is searched for the table of `docs/evidence/ftcoll.md`, and by the tests.

use crate::search::{Findings, search};
use crate::subjects::{broadcast, ftco, reduction};
use crate::world::{Group, Subject};
use fermata_ftcoll::broadcast::{Begin, Dissemination, Gossip, Plan, Until};
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::ftco::{Damage, Operation};
use fermata_ftcoll::tree::Tree;
use std::sync::Arc;
use std::time::Instant;

/// How much is searched at most, and by how many threads.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// States of one case; some 20 bytes of memory each.
    pub states: u64,
    /// At once.
    pub threads: usize,
}

/// A line of the table.
#[derive(Debug)]
pub struct Line {
    /// The machine, and its tree.
    pub name: String,
    /// How many states were seen.
    pub states: u64,
    /// How long it took.
    pub seconds: f64,
    /// How many different endings runs have.
    pub endings: usize,
    /// What was wrong, and the way there.
    pub breach: Option<String>,
    /// Whether all was searched.
    pub is_whole: bool,
}

fn line<C>(name: String, group: &Group<C>, effort: Effort) -> Line
where
    C: Subject + Send + Sync,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    let begin = Instant::now();
    let Findings { states, endings, breach, is_whole } =
        search(group, effort.threads, effort.states);
    let seconds = begin.elapsed().as_secs_f64();
    Line { name, states, seconds, endings: endings.len(), breach, is_whole }
}

/// The trees along which FTCO is searched.
#[must_use]
pub fn trees(size: u32) -> [(&'static str, Tree); 4] {
    [
        ("2-ary", Tree::kary(size, 2)),
        ("binomial", Tree::binomial(size)),
        ("binomial in order", Tree::binomial(size).in_order()),
        ("Lamé 4", Tree::lame(size, 4)),
    ]
}

/// A corrected broadcast along a tree.
#[must_use]
pub fn tree_plan(size: u32, rule: Rule) -> Plan {
    let dissemination = Dissemination::Tree(Arc::new(Tree::kary(size, 2)));
    Plan { size, dissemination, correction: rule, begin: Begin::WhenSent }
}

/// A corrected broadcast by gossip.
#[must_use]
pub fn gossip_plan(size: u32, rule: Rule) -> Plan {
    let until = Until::Steps { steps: 2, hop: 1 };
    let dissemination = Dissemination::Gossip(Gossip { seed: 3, until });
    Plan { size, dissemination, correction: rule, begin: Begin::WhenSent }
}

/// A line of the table that is yet to be made: its name, and what makes it.
type Case = (String, Box<dyn Fn(String) -> Line>);

fn case<C>(name: String, group: Group<C>, effort: Effort) -> Case
where
    C: Subject + Send + Sync + 'static,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    (name, Box::new(move |name| line(name, &group, effort)))
}

/// The corrected broadcasts that are searched.
fn plans(size: u32, rule: Rule) -> [(&'static str, Plan); 2] {
    [("tree", tree_plan(size, rule)), ("gossip", gossip_plan(size, rule))]
}

/// All machines whose name has `only`, in groups of `size` of which up to `deaths` die. Each is
/// searched when the iterator comes to it.
pub fn sound(
    size: u32,
    deaths: usize,
    effort: Effort,
    only: &str,
) -> impl Iterator<Item = Line> + '_ {
    let faults = u32::try_from(deaths).unwrap_or(u32::MAX);
    let rule = Rule::FailProof { faults };
    let mut cases: Vec<Case> = Vec::new();
    for operation in [Operation::Bcast, Operation::Allreduce, Operation::Reduce] {
        for (tree_name, tree) in trees(size) {
            let group = ftco(tree, &[operation], deaths, None);
            cases.push(case(format!("ftco, {operation:?}, {tree_name}"), group, effort));
        }
    }
    for (kind, plan) in plans(size, rule) {
        let name = format!("{kind}, fail-proof {faults}");
        cases.push(case(name, broadcast(plan, deaths), effort));
    }
    let name = format!("up-correction, f = {faults}");
    cases.push(case(name, reduction(size, faults, deaths), effort));
    let chosen = cases.into_iter().filter(move |(name, _)| name.contains(only));
    chosen.map(|(name, search)| search(name))
}

/// Each part of the protocol that can be left out, with an operation that misses it.
pub const DAMAGES: [(Damage, Operation); 4] = [
    (Damage::RootDoesNotAsk, Operation::Bcast),
    (Damage::NoPromise, Operation::Bcast),
    (Damage::NoBypass, Operation::Allreduce),
    (Damage::NoNewParent, Operation::Allreduce),
];

/// Machines that lack a part of the protocol, where the name has `only`: FTCO with each part left
/// out, along every tree, and a correction that only those make whom the dissemination has
/// reached. What is left out comes with each; a breach is what is hoped for in one line at least.
pub fn damaged(
    size: u32,
    deaths: usize,
    effort: Effort,
    only: &str,
) -> impl Iterator<Item = (String, Line)> + '_ {
    let mut cases: Vec<(String, Case)> = Vec::new();
    for (damage, operation) in DAMAGES {
        for (tree_name, tree) in trees(size) {
            let group = ftco(tree, &[operation], deaths, Some(damage));
            let name = format!("ftco, {operation:?}, {tree_name}, {damage:?}");
            cases.push((format!("{damage:?}"), case(name, group, effort)));
        }
    }
    let rule = Rule::Opportunistic { distance: size - 1 };
    for (kind, plan) in plans(size, rule) {
        let name = format!("{kind}, to all, {FEW_CORRECT}");
        cases.push((FEW_CORRECT.to_owned(), case(name, broadcast(plan, deaths), effort)));
    }
    let chosen = cases.into_iter().filter(move |(_, (name, _))| name.contains(only));
    chosen.map(|(damage, (name, search))| (damage, search(name)))
}

/// Of [`damaged`].
pub const FEW_CORRECT: &str = "FewCorrect";
