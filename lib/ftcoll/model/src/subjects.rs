// SPDX-License-Identifier: Apache-2.0
//! The machines that are checked, and what must hold of them.

use crate::world::{Group, State, Subject};
use fermata_ftcoll::Rank;
use fermata_ftcoll::broadcast::{Broadcast, Plan};
use fermata_ftcoll::ftco::{Damage, Ending, Ftco, Operation, Setup, Timeouts, Value, Verdict};
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::upward::{self, Layout, Reduced, Reduction};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Who contributed, a bit each, and whether somebody did twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Members {
    bits: u32,
    is_double: bool,
}

impl Members {
    fn only(rank: Rank) -> Self {
        Self { bits: 1 << rank, is_double: false }
    }
}

impl Value for Members {
    fn merge(&mut self, behind: &Self) {
        self.is_double |= self.bits & behind.bits != 0 || behind.is_double;
        self.bits |= behind.bits;
    }
}

/// FTCO calls of these kinds in a row.
pub fn ftco(
    tree: Tree,
    operations: &[Operation],
    deaths: usize,
    damage: Option<Damage>,
) -> Group<Ftco<Members>> {
    let size = tree.size();
    let timeouts = Timeouts { base: 1 << 40, step: 0 };
    let setup = Arc::new(Setup { tree: Arc::new(tree), timeouts, kept: 4, damage });
    let cores = (0..size).map(|rank| Ftco::new(Arc::clone(&setup), rank)).collect();
    Group { cores, deaths, enters_apart: false, operations: operations.to_vec() }
}

impl Subject for Ftco<Members> {
    fn watched(&self) -> Vec<Rank> {
        Ftco::watched(self)
    }

    fn prepare(&mut self, group: &Group<Self>, me: Rank, call: usize) -> bool {
        let Some(&operation) = group.operations.get(call) else {
            return false;
        };
        Ftco::prepare(self, operation, Some(Members::only(me)));
        true
    }

    fn settle(&mut self, group: &Group<Self>, dead: u32) {
        if group.operations.len() == 1 {
            Ftco::settle(self, |rank| dead & 1 << rank != 0);
        }
    }

    fn ignores(&self, group: &Group<Self>, _: Rank, message: &Self::Message) -> bool {
        group.operations.len() == 1 && self.is_settled(message)
    }

    fn is_closed(&self, group: &Group<Self>) -> bool {
        group.operations.len() == 1 && self.has_ended()
    }

    fn breach(group: &Group<Self>, state: &State<Self>) -> Option<&'static str> {
        for (call, &operation) in group.operations.iter().enumerate() {
            let verdicts = state
                .living()
                .filter_map(|rank| Some((rank, state.outputs[rank as usize].get(call)?)));
            let verdicts: Vec<_> = verdicts.collect();
            if let Some(breach) = verdicts
                .iter()
                .find_map(|&(rank, verdict)| unsound(operation, rank, verdict, state))
            {
                return Some(breach);
            }
            let same = |pair: &[(Rank, &Verdict<Members>)]| {
                let [(_, one), (_, other)] = pair else {
                    return true;
                };
                let is_same = one.value == other.value || operation == Operation::Reduce;
                is_same && one.missing == other.missing && one.ending == other.ending
            };
            if !verdicts.windows(2).all(same) {
                return Some("two verdicts");
            }
        }
        let all_over = state.living().all(|rank| {
            let index = rank as usize;
            state.outputs[index].len() == group.operations.len()
        });
        (!all_over && group.is_over(state)).then_some("somebody waits forever")
    }
}

/// What is wrong with one verdict, given who lives.
fn unsound(
    operation: Operation,
    rank: Rank,
    verdict: &Verdict<Members>,
    state: &State<Ftco<Members>>,
) -> Option<&'static str> {
    let missing: u32 = verdict.missing.iter().map(|&rank| 1 << rank).sum();
    let all = (1 << state.cores.len()) - 1;
    if operation != Operation::Bcast && state.living().any(|rank| missing & 1 << rank != 0) {
        return Some("a living process is left out");
    }
    let Some(value) = verdict.value else {
        let is_due = operation == Operation::Allreduce
            || (verdict.ending == Ending::Complete && (operation == Operation::Bcast || rank == 0));
        return is_due.then_some("no value");
    };
    if value.is_double {
        return Some("a contribution twice");
    }
    let wanted = if operation == Operation::Bcast { 1 } else { all & !missing };
    (value.bits != wanted).then_some("not what is said to be in it")
}

/// A corrected broadcast.
pub fn broadcast(plan: Plan, deaths: usize) -> Group<Broadcast> {
    let (size, plan) = (plan.size, Arc::new(plan));
    let cores = (0..size).map(|rank| Broadcast::new(Arc::clone(&plan), rank)).collect();
    Group { cores, deaths, enters_apart: false, operations: vec![] }
}

impl Subject for Broadcast {
    fn watched(&self) -> Vec<Rank> {
        Vec::new()
    }

    fn prepare(&mut self, _: &Group<Self>, _: Rank, call: usize) -> bool {
        call == 0
    }

    fn sends_when_asked() -> bool {
        true
    }

    fn settle(&mut self, _: &Group<Self>, _: u32) {
        Broadcast::settle(self);
    }

    fn ignores(&self, _: &Group<Self>, from: Rank, message: &Self::Message) -> bool {
        self.is_settled(from, message)
    }

    fn is_closed(&self, _: &Group<Self>) -> bool {
        self.has_ended()
    }

    /// All living processes have the value at the end, or none.
    fn breach(group: &Group<Self>, state: &State<Self>) -> Option<&'static str> {
        let (living, reached) = state.living().fold((0, 0), |(living, reached), rank| {
            (living + 1, reached + usize::from(state.cores[rank as usize].has_value()))
        });
        let is_partial = reached < living && (reached > 0 || state.alive[0]);
        (is_partial && group.is_over(state)).then_some("somebody is missed")
    }
}

/// A reduction by up-correction that bears `faults`, and so many deaths but of the root.
pub fn reduction(size: Rank, faults: u32, deaths: usize) -> Group<Reduction<Members>> {
    let timeouts = Timeouts { base: 1 << 40, step: 0 };
    let setup = Arc::new(upward::Setup { layout: Layout::new(size, faults), timeouts });
    let none = BTreeSet::new();
    let core = |rank| Reduction::new(Arc::clone(&setup), rank, Members::only(rank), &none);
    let cores = (0..size).map(core).collect();
    Group { cores, deaths, enters_apart: false, operations: vec![] }
}

impl Subject for Reduction<Members> {
    fn watched(&self) -> Vec<Rank> {
        self.silent().collect()
    }

    fn prepare(&mut self, _: &Group<Self>, _: Rank, call: usize) -> bool {
        call == 0
    }

    /// The root, while it lives, gets the values of all that live, each once.
    fn breach(group: &Group<Self>, state: &State<Self>) -> Option<&'static str> {
        let living: u32 = state.living().map(|rank| 1 << rank).sum();
        match state.outputs[0].first() {
            _ if !state.alive[0] => None,
            None => group.is_over(state).then_some("the root waits forever"),
            Some(Reduced::Value(value)) if value.is_double => Some("a contribution twice"),
            Some(Reduced::Value(value)) => {
                (value.bits & living != living).then_some("a living process is left out")
            }
            Some(_) => Some("the root has no value"),
        }
    }
}
