// SPDX-License-Identifier: Apache-2.0
//! A job as a model for stateright: every order in which ranks step, agents read and lines deliver.
//!
//! Fewer orders of steps are looked at where nobody could tell the difference (`Lines::Merged`;
//! `merged.rs` compares with `Lines::Apart`):
//! - the agent reads the clocks as soon as the request is visible, unless a wrapper has counted a
//!   call and not looked yet: only that can change a clock;
//! - what it reads is at the coordinator at once: before all clocks are there it only takes maxima,
//!   and the directives that the last of them makes are as slow as they like;
//! - a rank's word that it has been cut is there at once: only the last one makes a difference;
//! - nobody parks before the first directive: not to move is the same;
//! - the request reaches a rank that has made all its calls at once, before any other step: its
//!   clocks are final (not with MPI_Finalize);
//! - states that differ only in how many directives there have been are one.
//!
//! Checked, in every state that can be reached:
//! - safety: when the coordinator says that the state is safe, nothing is on any line, all ranks
//!   stand where they can be saved, and in each group all have begun the same number of calls; and
//!   what the images hold, each cut in its own time, is one moment: every message that one has sent
//!   has arrived in another, and no other has;
//! - termination: no state is without a next step before the end (`Outcome::Stuck`), and no run
//!   continues for ever (`endless`);
//! - rest: when all has been said and heard, and nobody has a cause of its own to run on, nobody
//!   runs on;
//! - promise: before that, no synchronous message is received without its receive;
//! - resumption: from the images the program comes to its end in every schedule, and every message
//!   is received once;
//! - and each program has a run that comes to a safe state, or all that would hold of nothing.

use crate::job::{Job, Lines};
use crate::program::Program;
use crate::rule::Rule;
use crate::state::{Outcome, State};
use crate::world::CountsOf;
use fermata_protocol::Version;
use stateright::{Checker, Expectation, Model, Property};
use std::collections::BTreeSet;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The coordinator's line to this rank delivers.
    ToRank(usize),
    /// This rank's line to the coordinator delivers.
    ToCoordinator(usize),
    /// The agent, which has made the request visible, reads the clocks.
    Agent(usize),
    /// The rank continues in its program; the second number chooses among possible matches.
    Step(usize, usize),
    /// The rank stands still.
    Park(usize),
    /// The rank says what it waits for.
    Tell(usize),
    /// The rank takes in a message from the second one.
    TakeIn(usize, usize),
    /// It holds one.
    Hold(usize, usize),
    /// There is no other step.
    GiveUp,
}

impl Model for Job {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        (0..self.programs.len()).map(|program| self.begin(program)).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.outcome.is_some() {
            return;
        }
        if state.snapshot.is_some() {
            self.actions_while_cutting(state, actions);
        } else {
            self.actions_on_the_way(state, actions);
        }
        if actions.is_empty() {
            actions.push(Action::GiveUp);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::ToRank(rank) => self.to_rank(&mut next, rank),
            Action::ToCoordinator(rank) => self.to_coordinator(&mut next, rank),
            Action::Agent(rank) => self.agent(&mut next, rank),
            Action::Step(rank, choice) => return self.steps(state, rank).into_iter().nth(choice),
            Action::Park(rank) => self.park(&mut next, rank),
            Action::Tell(rank) => self.tell(&mut next, rank),
            Action::TakeIn(rank, from) => next.world.take_in(rank, from),
            Action::Hold(rank, from) if self.rule == Rule::Receives => {
                next.world.take_in(rank, from);
            }
            Action::Hold(rank, from) => next.world.hold(rank, from),
            Action::GiveUp => next.outcome = Some(Outcome::Stuck),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("safety", |_, s: &State| s.outcome != Some(Outcome::Unsafe)),
            Property::always("termination", |_, s: &State| s.outcome != Some(Outcome::Stuck)),
            Property::always("resumption", |_, s: &State| s.outcome != Some(Outcome::Lost)),
            Property::always("promise", |_, s: &State| {
                s.snapshot.is_some() || s.world.keeps_promises()
            }),
            Property::always("rest", |job: &Self, s: &State| {
                s.outcome.is_some() || !job.runs_for_nothing(s)
            }),
            Property::sometimes(SAFE, |_, s: &State| s.outcome == Some(Outcome::Safe)),
        ];
        if self.finalizes {
            properties.push(Property::sometimes(REFUSED, |_, s: &State| {
                s.outcome == Some(Outcome::Refused)
            }));
        }
        properties
    }
}

impl Job {
    fn actions_on_the_way(&self, state: &State, actions: &mut Vec<Action>) {
        if let Some(rank) = self.awaits_only_the_request(state) {
            return actions.push(Action::ToRank(rank));
        }
        for (rank, side) in state.sides.iter().enumerate() {
            if !side.down.is_empty() {
                actions.push(Action::ToRank(rank));
            }
            if !side.up.is_empty() {
                actions.push(Action::ToCoordinator(rank));
            }
            if side.machine.is_requested() != side.has_read {
                actions.push(Action::Agent(rank));
            }
            let others = 0..state.sides.len();
            if side.parked {
                let sources = others.filter(|from| self.may_take_in(state, rank, *from));
                actions.extend(sources.map(|from| Action::TakeIn(rank, from)));
                continue;
            }
            let sources = others.filter(|from| self.may_hold(state, rank, *from));
            actions.extend(sources.map(|from| Action::Hold(rank, from)));
            let choices = self.steps(state, rank).len();
            actions.extend((0..choices).map(|choice| Action::Step(rank, choice)));
            let is_early = side.machine.version() == Version(0) && self.lines == Lines::Merged;
            if !is_early && self.may_park(state, rank) {
                actions.push(Action::Park(rank));
            }
            let counts = CountsOf(&state.world, rank);
            if self.at(state, rank, |at| side.machine.has_to_tell(at, &counts)) {
                actions.push(Action::Tell(rank));
            }
        }
    }
}

/// What has to occur in some run of each program, or all that was found of it may be empty.
const SAFE: &str = "a safe state";
/// Likewise, if ranks continue into MPI_Finalize.
const REFUSED: &str = "a refusal";

/// What the checker has found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Different states.
    pub states: usize,
    /// Steps of the deepest run looked at.
    pub depth: usize,
    /// Property, program and run of what was violated.
    pub violations: Vec<(&'static str, Program, Vec<Action>)>,
    /// What has to occur in some run and occurs in none, and the program.
    pub missing: Vec<(&'static str, Program)>,
}

impl Verdict {
    /// What is wrong, each once.
    #[must_use]
    pub fn faults(&self) -> BTreeSet<String> {
        let violated = self.violations.iter().map(|violation| violation.0.to_owned());
        violated.chain(self.missing.iter().map(|missing| format!("never {}", missing.0))).collect()
    }
}

/// Looks at every state that can be reached, each program by itself; stops with a program early
/// once each property has been decided.
#[must_use]
pub fn check(job: &Job) -> Verdict {
    let mut verdict = Verdict::default();
    for single in job.split() {
        verdict.add(&single.checker().spawn_dfs().join());
    }
    verdict
}

/// True if the job has no more states than that; looks at not many more to find out.
#[must_use]
pub fn is_small(job: Job, most: usize) -> bool {
    let steps = 8 * most;
    let checker = job.checker().target_state_count(steps).spawn_dfs().join();
    checker.unique_state_count() <= most && checker.state_count() < steps
}

impl Verdict {
    fn add(&mut self, checker: &impl Checker<Job>) {
        self.states += checker.unique_state_count();
        self.depth = self.depth.max(checker.max_depth());
        let program = &checker.model().programs[0].0;
        let mut found = checker.discoveries();
        for property in checker.model().properties() {
            let is_wanted = property.expectation == Expectation::Sometimes;
            match found.remove(property.name) {
                None if is_wanted => self.missing.push((property.name, program.clone())),
                Some(path) if !is_wanted => {
                    let run = path.into_actions();
                    self.violations.push((property.name, program.clone(), run));
                }
                _ => {}
            }
        }
    }
}
