// SPDX-License-Identifier: Apache-2.0
//! Programs without a checkpoint: can this one get stuck by itself, does that one come to its end?

use crate::program::{Kind, Mask, Op, Program};
use crate::world::{Phase, World, index_of};
use std::collections::HashSet;

/// What can come of a rank's next step, with collective calls that begin at once.
pub(crate) fn steps(world: &World, program: &Program, groups: &[Mask], rank: usize) -> Vec<World> {
    let begins = match world.op(program, rank) {
        Some(Op::Coll(group, _)) if world.ranks[rank].phase != Phase::Inside => {
            Some((group, false))
        }
        Some(Op::Start(group)) => Some((group, true)),
        _ => None,
    };
    let Some((group, ends)) = begins else { return world.steps(program, groups, rank) };
    let mut next = world.clone();
    next.begin_collective(rank, index_of(groups, group), ends);
    vec![next]
}

/// True if every native run of the program comes to its end.
#[must_use]
pub fn is_deadlock_free(program: &Program) -> bool {
    let groups = program.groups();
    let mut seen = HashSet::new();
    let mut open = vec![World::new(program)];
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let before = open.len();
        for rank in 0..program.size() {
            open.extend(steps(&world, program, &groups, rank));
        }
        if open.len() == before && !world.is_over(program) {
            return false;
        }
    }
    true
}

/// What the two-phase algorithm makes of a program, while nobody asks for a checkpoint.
#[must_use]
pub fn with_barriers(program: &Program) -> Program {
    let with_barrier = |op: &Op| match *op {
        Op::Coll(group, _) => vec![Op::Coll(group, Kind::Barrier), *op],
        op => vec![op],
    };
    let ranks = program.ranks.iter().map(|ops| ops.iter().flat_map(with_barrier).collect());
    Program { ranks: ranks.collect() }
}

/// Runs on from here, every wildcard taking the lowest source. True if all ranks come to their end
/// and every message has been received exactly once.
#[must_use]
pub fn comes_to_its_end(mut world: World, program: &Program) -> bool {
    let groups = program.groups();
    loop {
        let next = (0..program.size())
            .find_map(|rank| steps(&world, program, &groups, rank).into_iter().next());
        match next {
            Some(next) => world = next,
            None => break,
        }
    }
    let all_received = |lane: &crate::world::Lane| {
        lane.net.is_empty() && lane.early.is_empty() && lane.matched == lane.sent
    };
    world.is_over(program) && world.lanes.iter().all(all_received)
}
