// SPDX-License-Identifier: Apache-2.0
//! From the safe state on: what is under way is drained, then each rank is cut in its own time, and
//! all continue when the last one has been. What the images hold together has to be one moment.
//!
//! A rank that stands still takes in whatever arrives, as it does in the drain. Nothing does, if
//! nobody continues before all have been cut.

use crate::explore::Action;
use crate::job::{Job, Lines};
use crate::native::{comes_to_its_end, steps};
use crate::program::Mask;
use crate::rule::Rule;
use crate::state::{Down, Outcome, State};
use crate::world::{Lane, Phase, World, index_of, members};
use fermata_protocol::{Position, Report};
use std::sync::PoisonError;

impl Job {
    /// The coordinator has said that the state is safe. If it is: the drain, and SAVE to everybody.
    pub(crate) fn begin_cut(&self, next: &mut State) {
        if !self.is_safe(next) {
            next.outcome = Some(Outcome::Unsafe);
            return;
        }
        next.world.drain();
        next.snapshot = Some(next.world.clone());
        for rank in 0..next.sides.len() {
            next.side(rank).down.push_back(Down::Save);
        }
    }

    fn is_safe(&self, state: &State) -> bool {
        let (_, groups) = &self.programs[state.program];
        let stands = |rank: usize| {
            let side = &state.sides[rank];
            let parkable = self.at(state, rank, |at| at.iter().all(Position::is_parkable));
            side.parked && side.up.is_empty() && side.down.is_empty() && parkable
        };
        let whole = |group: &Mask| {
            let index = index_of(groups, *group);
            let mut begun = members(*group).map(|rank| state.world.ranks[rank].begun[index]);
            let first = begun.next();
            begun.all(|count| Some(count) == first)
        };
        (0..state.sides.len()).all(stands) && groups.iter().all(whole)
    }

    /// SAVE has come: the image holds the rank as it is now.
    pub(crate) fn cut(&self, next: &mut State, rank: usize) {
        if let Some(snapshot) = &mut next.snapshot {
            snapshot.copy_rank(&next.world, rank);
        }
        next.side(rank).resumes = self.rule == Rule::ResumesAlone;
        self.say(next, rank, Report::Cut);
        if self.lines == Lines::Merged {
            self.to_coordinator(next, rank);
        }
    }

    pub(crate) fn actions_while_cutting(&self, state: &State, actions: &mut Vec<Action>) {
        for (rank, side) in state.sides.iter().enumerate() {
            if !side.down.is_empty() {
                actions.push(Action::ToRank(rank));
            }
            if !side.up.is_empty() {
                actions.push(Action::ToCoordinator(rank));
            }
            if side.resumes {
                let choices = self.steps(state, rank).len();
                actions.extend((0..choices).map(|choice| Action::Step(rank, choice)));
            } else {
                let arrives = |from: &usize| !state.world.lane(*from, rank).net.is_empty();
                let sources = (0..state.sides.len()).filter(arrives);
                actions.extend(sources.map(|from| Action::TakeIn(rank, from)));
            }
        }
    }

    /// Steps of a rank that knows of no checkpoint any more.
    pub(crate) fn free_steps(&self, state: &State, rank: usize) -> Vec<State> {
        let (program, groups) = &self.programs[state.program];
        let with = |world| State { world, ..state.clone() };
        steps(&state.world, program, groups, rank).into_iter().map(with).collect()
    }

    /// All have been cut. Do the images show one moment, and does the program come to its end from
    /// it in every schedule?
    pub(crate) fn judge_images(&self, state: &State) -> Outcome {
        let (program, _) = &self.programs[state.program];
        let Some(snapshot) = state.snapshot.clone() else { return Outcome::Unsafe };
        let adds_up = |lane: &Lane| {
            usize::from(lane.matched) + lane.unexpected.len() == usize::from(lane.sent)
        };
        if !snapshot.lanes.iter().all(adds_up) {
            return Outcome::Unsafe;
        }
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = comes_to_its_end(snapshot, program, &mut good[state.program]);
        if ends { Outcome::Safe } else { Outcome::Lost }
    }
}

impl World {
    /// What a rank's image holds: its place in the program, what it has sent, what has arrived. The
    /// two-phase algorithm's barrier before a call is not saved.
    fn copy_rank(&mut self, from: &Self, rank: usize) {
        self.ranks[rank].clone_from(&from.ranks[rank]);
        if self.ranks[rank].phase == Phase::Trivial {
            self.ranks[rank].phase = Phase::Outside;
        }
        for peer in 0..self.ranks.len() {
            self.lane_mut(rank, peer).sent = from.lane(rank, peer).sent;
            let arrived = from.lane(peer, rank);
            let lane = self.lane_mut(peer, rank);
            lane.matched = arrived.matched;
            lane.unexpected.clone_from(&arrived.unexpected);
        }
    }
}
