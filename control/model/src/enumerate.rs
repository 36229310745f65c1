// SPDX-License-Identifier: Apache-2.0
//! All programs up to a number of calls that come to their end natively, whatever the schedule.
//!
//! A program that can come to its end has a run, and appending the calls of that run to the lists
//! of their ranks, one after the other, makes the program. So all such programs are made by making
//! all runs.
//! What can continue at any time is kept in `Owed`: messages to be received, calls to be joined.
//! Programs that differ only in the numbers of the ranks are made once.

use crate::native::is_deadlock_free;
use crate::program::{Kind, Mask, Mode, Op, Program};
use crate::world::members;
use std::collections::{HashSet, VecDeque};

/// What may occur.
#[derive(Clone, Debug)]
pub struct Alphabet {
    /// Number of ranks.
    pub ranks: u8,
    /// Sends that have to wait: large and synchronous.
    pub waiting_sends: bool,
    /// Receives from any source.
    pub wildcards: bool,
    /// Tags 0 and 1 instead of 0 alone.
    pub tags: bool,
    /// Broadcasts, whose root does not wait, beside barriers.
    pub broadcasts: bool,
    /// Non-blocking barriers.
    pub non_blocking: bool,
}

impl Alphabet {
    /// Everything, for so many ranks.
    #[must_use]
    pub const fn full(ranks: u8) -> Self {
        Self {
            ranks,
            waiting_sends: true,
            wildcards: true,
            tags: false,
            broadcasts: true,
            non_blocking: true,
        }
    }

    /// What the two-phase algorithm is for: eager messages and blocking barriers.
    #[must_use]
    pub const fn plain(ranks: u8) -> Self {
        Self {
            ranks,
            waiting_sends: false,
            wildcards: false,
            tags: false,
            broadcasts: false,
            non_blocking: false,
        }
    }
}

/// A run so far: the program it has made, and what is still owed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Run {
    program: Program,
    /// Tags of messages under way: from * ranks + to.
    under_way: Vec<Vec<u8>>,
    /// Collective calls that this rank has to join, by group.
    to_join: Vec<Vec<(Mask, VecDeque<Op>)>>,
    /// Groups on which a rank has a non-blocking call that it has not waited for.
    to_wait: Vec<Vec<Mask>>,
}

impl Run {
    fn owes(&self, rank: usize, group: Mask) -> bool {
        self.to_join[rank].iter().any(|(g, calls)| *g == group && !calls.is_empty())
    }

    fn is_complete(&self) -> bool {
        self.under_way.iter().all(Vec::is_empty)
            && self.to_join.iter().flatten().all(|(_, calls)| calls.is_empty())
            && self.to_wait.iter().all(Vec::is_empty)
    }

    /// Calls that have to come yet, at least.
    fn debt(&self) -> usize {
        let messages: usize = self.under_way.iter().map(Vec::len).sum();
        let joins: usize = self.to_join.iter().flatten().map(|(_, calls)| calls.len()).sum();
        let starts = self.to_join.iter().flatten().flat_map(|(_, calls)| calls);
        let waits_to_come = starts.filter(|op| matches!(op, Op::Start(_))).count();
        let waits: usize = self.to_wait.iter().map(Vec::len).sum();
        messages + joins + waits + waits_to_come
    }

    fn append(&mut self, rank: usize, op: Op) {
        self.program.ranks[rank].push(op);
    }
}

/// All programs of at most `calls` calls in all, at least one of them collective.
#[must_use]
pub fn programs(alphabet: &Alphabet, calls: usize) -> Vec<Program> {
    let ranks = usize::from(alphabet.ranks);
    let start = Run {
        program: Program::new(vec![Vec::new(); ranks]),
        under_way: vec![Vec::new(); ranks * ranks],
        to_join: vec![Vec::new(); ranks],
        to_wait: vec![Vec::new(); ranks],
    };
    let directive = permutations(ranks);
    let mut seen = HashSet::new();
    let mut found = HashSet::new();
    let mut open = vec![start];
    while let Some(run) = open.pop() {
        if run.program.calls() + run.debt() > calls || !seen.insert(run.clone()) {
            continue;
        }
        if run.is_complete() && !run.program.groups().is_empty() {
            let smallest = directive.iter().map(|to| run.program.renumbered(to)).min();
            found.extend(smallest);
        }
        extend(alphabet, &run, &mut open);
    }
    let mut all: Vec<Program> = found.into_iter().filter(is_deadlock_free).collect();
    all.sort();
    all
}

fn extend(alphabet: &Alphabet, run: &Run, open: &mut Vec<Run>) {
    let ranks = usize::from(alphabet.ranks);
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            extend_messages(alphabet, run, from, to, open);
        }
    }
    for group in (3..1 << ranks).filter(|g: &Mask| g.count_ones() > 1) {
        extend_collectives(alphabet, run, group, open);
    }
    for rank in 0..ranks {
        for (index, (_, calls)) in run.to_join[rank].iter().enumerate() {
            let Some(op) = calls.front() else { continue };
            let mut next = run.clone();
            next.to_join[rank][index].1.pop_front();
            if let Op::Start(group) = *op {
                next.to_wait[rank].push(group);
            }
            next.append(rank, *op);
            open.push(next);
        }
        for (index, group) in run.to_wait[rank].iter().enumerate() {
            if members(*group).any(|r| run.owes(r, *group)) {
                continue;
            }
            let mut next = run.clone();
            next.to_wait[rank].remove(index);
            next.append(rank, Op::Wait(*group));
            open.push(next);
        }
    }
}

fn extend_messages(alphabet: &Alphabet, run: &Run, from: usize, to: usize, open: &mut Vec<Run>) {
    let lane = from * usize::from(alphabet.ranks) + to;
    let sources: &[Option<u8>] =
        if alphabet.wildcards { &[Some(from as u8), None] } else { &[Some(from as u8)] };
    for tag in 0..=u8::from(alphabet.tags) {
        let mut next = run.clone();
        next.under_way[lane].push(tag);
        next.append(from, Op::Send(to as u8, Mode::Eager, tag));
        open.push(next);
    }
    for &source in sources {
        for (index, tag) in run.under_way[lane].iter().enumerate() {
            let mut next = run.clone();
            next.under_way[lane].remove(index);
            next.append(to, Op::Recv(source, *tag));
            open.push(next);
        }
        let modes = [Mode::Rendezvous, Mode::Synchronous];
        for mode in modes.into_iter().filter(|_| alphabet.waiting_sends) {
            let mut next = run.clone();
            next.append(from, Op::Send(to as u8, mode, 0));
            next.append(to, Op::Recv(source, 0));
            open.push(next);
        }
    }
}

fn extend_collectives(alphabet: &Alphabet, run: &Run, group: Mask, open: &mut Vec<Run>) {
    if members(group).any(|rank| run.owes(rank, group)) {
        return;
    }
    let mut next = run.clone();
    for rank in members(group) {
        next.append(rank, Op::Coll(group, Kind::Barrier));
    }
    open.push(next);
    for first in members(group) {
        if alphabet.broadcasts {
            open.push(led(run, group, first, Op::Coll(group, Kind::Bcast(first as u8))));
        }
        let is_free = members(group).all(|rank| !run.to_wait[rank].contains(&group));
        if alphabet.non_blocking && is_free {
            let mut next = led(run, group, first, Op::Start(group));
            next.to_wait[first].push(group);
            open.push(next);
        }
    }
}

/// One member makes the call, the others will join it some time.
fn led(run: &Run, group: Mask, first: usize, op: Op) -> Run {
    let mut next = run.clone();
    next.append(first, op);
    for rank in members(group).filter(|rank| *rank != first) {
        let calls = &mut next.to_join[rank];
        match calls.iter_mut().find(|(g, _)| *g == group) {
            Some((_, calls)) => calls.push_back(op),
            None => calls.push((group, VecDeque::from([op]))),
        }
    }
    next
}

fn permutations(size: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    for _ in 0..size {
        let longer = |order: &Vec<u8>| {
            let free: Vec<u8> = (0..size as u8).filter(|r| !order.contains(r)).collect();
            let order = order.clone();
            free.into_iter().map(move |r| [order.as_slice(), &[r]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}
