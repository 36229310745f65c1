// SPDX-License-Identifier: Apache-2.0
//! Programs without a checkpoint: can this one get stuck by itself, does that one come to its end?

use crate::program::{Kind, Mask, Op, Program};
use crate::world::{Lane, Phase, World, index_of};
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
    every_run_ends(World::new(program), program, &mut HashSet::new(), World::is_over)
}

/// True if the program comes to its end from here, whatever the schedule, and every message has
/// then been received exactly once. `good`: states from which that has been found; more come to it.
#[must_use]
pub fn comes_to_its_end(world: World, program: &Program, good: &mut HashSet<World>) -> bool {
    every_run_ends(world, program, good, |world, program| {
        let all_received = |lane: &Lane| {
            lane.net.is_empty() && lane.unexpected.is_empty() && lane.matched == lane.sent
        };
        world.is_over(program) && world.lanes.iter().all(all_received)
    })
}

/// Makes every run from here. True if each ends where `is_end` says.
fn every_run_ends(
    world: World,
    program: &Program,
    good: &mut HashSet<World>,
    is_end: impl Fn(&World, &Program) -> bool,
) -> bool {
    let groups = program.groups();
    let mut seen = HashSet::new();
    let mut open = vec![world];
    while let Some(world) = open.pop() {
        if good.contains(&world) || seen.contains(&world) {
            continue;
        }
        let before = open.len();
        for rank in 0..program.size() {
            open.extend(steps(&world, program, &groups, rank));
        }
        if open.len() == before && !is_end(&world, program) {
            return false;
        }
        seen.insert(world);
    }
    good.extend(seen);
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
    Program { ranks: ranks.collect(), servers: program.servers.clone() }
}

#[cfg(test)]
mod tests {
    use super::comes_to_its_end;
    use crate::program::{Mode, Op, Program};
    use crate::world::World;
    use std::collections::HashSet;

    fn ends(first: Option<u8>) -> bool {
        let send = vec![Op::Send(0, Mode::Eager, 0)];
        let receives = vec![Op::Recv(first, 0), Op::Recv(Some(2), 0)];
        let program = Program::new(vec![receives, send.clone(), send]);
        comes_to_its_end(World::new(&program), &program, &mut HashSet::new())
    }

    /// If the wildcard takes the lowest source all is well. It need not.
    #[test]
    fn one_schedule_that_ends_is_not_enough() {
        assert!(ends(Some(1)));
        assert!(!ends(None));
    }

    #[test]
    fn a_message_that_nobody_receives_is_lost() {
        let ranks = vec![Vec::new(), vec![Op::Send(0, Mode::Eager, 0)]];
        let program = Program::new(ranks);
        assert!(super::is_deadlock_free(&program));
        assert!(!comes_to_its_end(World::new(&program), &program, &mut HashSet::new()));
    }
}
