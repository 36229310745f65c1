// SPDX-License-Identifier: Apache-2.0
//! A job with a checkpoint in it: the ranks' programs, machines and agents, the coordinator, and
//! the lines between them. What one step of each does; `explore.rs` makes them in every order.
//!
//! Each rank has a line to the coordinator and one back, which keep order and take any time. The
//! request is on its way to every rank from the start, so it comes at any moment. A rank that may
//! park can still make point-to-point calls first, for it notices late; it cannot pass the entry of
//! a collective call. What comes after the safe state is in `cut.rs`.

use crate::program::{Mask, Mode, Op, Program, Server};
use crate::rule::Rule;
use crate::state::{Down, Machine, Outcome, Side, State};
use crate::world::{CountsOf, Phase, World, index_of};
use fermata_protocol::{
    Clock, CollectiveEntry, Coordinator, MessageCounts, Origin, Output, Position, RankId, Report,
    Tell, Version, WaitKind,
};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};

/// How much is one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Everything by itself.
    Apart,
    /// What nobody could tell apart is one, as `explore.rs` says.
    Merged,
}

/// Programs to check, and how.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) programs: Vec<(Program, Vec<Mask>)>,
    pub(crate) rule: Rule,
    pub(crate) lines: Lines,
    /// Ranks continue into MPI_Finalize; otherwise they stop before it.
    pub(crate) finalizes: bool,
    /// By program: where it comes to its end from, as far as that has been looked at.
    pub(crate) good: Arc<Mutex<Vec<HashSet<World>>>>,
}

impl Job {
    /// Each program is an initial state of its own.
    #[must_use]
    pub fn new(programs: impl IntoIterator<Item = Program>, rule: Rule) -> Self {
        let with_groups = |program: Program| {
            let groups = program.groups();
            (program, groups)
        };
        let programs: Vec<_> = programs.into_iter().map(with_groups).collect();
        let good = Arc::new(Mutex::new(vec![HashSet::new(); programs.len()]));
        Self { programs, rule, lines: Lines::Merged, finalizes: false, good }
    }

    /// The same with every step by itself.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { lines: Lines::Apart, ..self }
    }

    /// The same with MPI_Finalize at the end of each program.
    #[must_use]
    pub fn finalizing(self) -> Self {
        Self { finalizes: true, ..self }
    }

    /// Each program as a job of its own.
    pub(crate) fn split(&self) -> impl Iterator<Item = Self> + '_ {
        self.programs.iter().map(|(program, _)| Self {
            lines: self.lines,
            finalizes: self.finalizes,
            ..Self::new([program.clone()], self.rule)
        })
    }

    /// The program of a state.
    #[must_use]
    pub fn program(&self, state: &State) -> &Program {
        &self.programs[state.program].0
    }

    pub(crate) fn begin(&self, program: usize) -> State {
        let (text, groups) = &self.programs[program];
        let side = |rank: usize| {
            let mut machine = Machine::default();
            for group in groups.iter().filter(|group| **group & (1 << rank) != 0) {
                assert!(machine.join((*group).into()), "more groups than clocks");
            }
            Arc::new(Side {
                machine,
                parked: false,
                has_read: false,
                resumes: false,
                up: VecDeque::new(),
                down: VecDeque::from([Down::Request]),
            })
        };
        State {
            program,
            world: World::new(text),
            sides: (0..text.size()).map(side).collect(),
            coordinator: Arc::new(Coordinator::new(text.size())),
            snapshot: None,
            is_exact: self.lines == Lines::Apart,
            outcome: None,
        }
    }

    /// Asks with where the rank's threads are; the sources of receives need a place to live.
    pub(crate) fn at<T>(
        &self,
        state: &State,
        rank: usize,
        ask: impl FnOnce(&[Position<'_>]) -> T,
    ) -> T {
        let (program, _) = &self.programs[state.program];
        let phase = state.world.ranks[rank].phase;
        let sources = |from: Option<u8>| -> Vec<RankId> {
            let all = (0..program.size()).filter(|r| *r != rank).map(|r| r as RankId);
            from.map_or_else(|| all.collect(), |from| vec![from.into()])
        };
        let server = state.world.server(program, rank);
        let served = server.map(|Server(from)| sources(Some(from)));
        let awaited;
        let main = match state.world.op(program, rank) {
            None => Position::Ending,
            Some(Op::Recv(from, _)) => {
                awaited = sources(from);
                Position::Receiving(&awaited)
            }
            Some(Op::Send(to, mode, _)) if phase == Phase::Inside => match mode {
                Mode::Synchronous => Position::Synchronous(to.into()),
                Mode::Eager | Mode::Rendezvous => Position::Sending(to.into()),
            },
            Some(Op::Send(..)) => Position::Computing,
            Some(Op::Coll(..)) if phase == Phase::Inside => Position::Collective,
            Some(Op::Coll(..)) if phase == Phase::Trivial => Position::Completing,
            Some(Op::Coll(..) | Op::Start(_)) => Position::CollectiveEntry,
            Some(Op::Wait(_)) => Position::Completing,
        };
        match &served {
            None => ask(&[main]),
            Some(sources) => ask(&[main, Position::Receiving(sources)]),
        }
    }

    pub(crate) fn may_park(&self, state: &State, rank: usize) -> bool {
        let side = &state.sides[rank];
        let counted = state.world.ranks[rank].phase == Phase::Counted;
        let counts = CountsOf(&state.world, rank);
        !counted && self.at(state, rank, |at| side.machine.may_park(at, &counts))
    }

    /// Everything that can come of the rank's next step in its program.
    pub(crate) fn steps(&self, state: &State, rank: usize) -> Vec<State> {
        if state.sides[rank].resumes {
            return self.free_steps(state, rank);
        }
        let (program, groups) = &self.programs[state.program];
        let group = match state.world.op(program, rank) {
            None => return self.finalize(state, rank).into_iter().collect(),
            Some(Op::Coll(group, _) | Op::Start(group)) => group,
            Some(_) => return self.plain_steps(state, rank),
        };
        let index = index_of(groups, group);
        let side = &state.sides[rank];
        let mut next = state.clone();
        match state.world.ranks[rank].phase {
            Phase::Inside => return self.plain_steps(state, rank),
            Phase::Outside if self.rule == Rule::TwoPhase => {
                if side.machine.is_requested() && self.may_park(state, rank) {
                    return Vec::new();
                }
                next.world.ranks[rank].trivial[index] += 1;
                next.world.ranks[rank].phase = Phase::Trivial;
            }
            Phase::Trivial if !state.world.trivial_done(groups, rank, group) => return Vec::new(),
            Phase::Outside | Phase::Trivial if side.machine.is_requested() => {
                if !self.pass_entry(&mut next, rank, group) {
                    return Vec::new();
                }
            }
            Phase::Outside | Phase::Trivial => {
                next.side(rank).machine.count(group.into());
                next.world.ranks[rank].phase = Phase::Counted;
            }
            Phase::Counted if side.machine.is_requested() => {
                next.side(rank).machine.uncount(group.into());
                if !self.pass_entry(&mut next, rank, group) {
                    next.world.ranks[rank].phase = match self.rule {
                        Rule::TwoPhase => Phase::Trivial,
                        _ => Phase::Outside,
                    };
                }
            }
            Phase::Counted => self.enter(&mut next, rank, group),
        }
        vec![next]
    }

    fn plain_steps(&self, state: &State, rank: usize) -> Vec<State> {
        let (program, groups) = &self.programs[state.program];
        let with = |world| State { world, ..state.clone() };
        state.world.steps(program, groups, rank).into_iter().map(with).collect()
    }

    /// A rank at its end continues into MPI_Finalize, unless it has seen the request.
    fn finalize(&self, state: &State, rank: usize) -> Option<State> {
        let at_entry = state.world.ranks[rank].phase == Phase::Outside;
        if !self.finalizes || !at_entry || state.sides[rank].machine.is_requested() {
            return None;
        }
        let mut next = state.clone();
        next.world.ranks[rank].phase = Phase::Inside;
        Some(next)
    }

    fn pass_entry(&self, next: &mut State, rank: usize, group: Mask) -> bool {
        let counts = CountsOf(&next.world, rank);
        match Arc::make_mut(&mut next.sides[rank]).machine.enter_collective(group.into(), &counts) {
            CollectiveEntry::Hold => return false,
            CollectiveEntry::Enter => {}
            CollectiveEntry::Raise(clock) => self.say(next, rank, Report::Raise(clock)),
        }
        self.enter(next, rank, group);
        true
    }

    fn enter(&self, next: &mut State, rank: usize, group: Mask) {
        let (program, groups) = &self.programs[next.program];
        let ends = matches!(next.world.op(program, rank), Some(Op::Start(_)));
        next.world.begin_collective(rank, index_of(groups, group), ends);
    }

    pub(crate) fn say(&self, next: &mut State, rank: usize, report: Report) {
        if let Some(report) = self.rule.report(report) {
            next.side(rank).up.push_back(report);
        }
    }

    fn say_parked(&self, next: &mut State, rank: usize) {
        let machine = &mut next.side(rank).machine;
        machine.park();
        let report = Report::Parked(machine.version(), machine.clocks().collect());
        self.say(next, rank, report);
    }

    pub(crate) fn park(&self, next: &mut State, rank: usize) {
        next.side(rank).parked = true;
        if next.sides[rank].machine.version() > Version(0) {
            self.say_parked(next, rank);
        }
    }

    pub(crate) fn tell(&self, next: &mut State, rank: usize) {
        let counts = CountsOf(&next.world, rank);
        let mut machine = next.sides[rank].machine.clone();
        let report = self.at(next, rank, |at| {
            machine.tell(at, &counts).map(|tell| match tell {
                Tell::Waits => {
                    Report::Waits(machine.origin(at), machine.edges(at, &counts).collect())
                }
                Tell::Runs => Report::Runs,
            })
        });
        next.side(rank).machine = machine;
        if let Some(report) = report {
            self.say(next, rank, report);
        }
    }

    pub(crate) fn to_rank(&self, next: &mut State, rank: usize) {
        match next.side(rank).down.pop_front() {
            None => {}
            Some(Down::Request) => {
                let program = &self.programs[next.program].0;
                let at = &next.world.ranks[rank];
                if next.world.op(program, rank).is_none() && at.phase == Phase::Inside {
                    return self.say(next, rank, Report::Ending);
                }
                if self.rule == Rule::ReadsFirst {
                    return self.read(next, rank);
                }
                next.side(rank).machine.on_request();
                if self.lines == Lines::Merged && next.world.ranks[rank].phase != Phase::Counted {
                    self.read(next, rank);
                }
            }
            Some(Down::Save) => self.cut(next, rank),
            Some(Down::Directive(mut directive)) => {
                self.rule.directive(&mut directive);
                next.side(rank).machine.on_directive(&directive);
                if !next.sides[rank].parked {
                    return;
                }
                if self.may_park(next, rank) {
                    self.say_parked(next, rank);
                } else {
                    next.side(rank).parked = false;
                }
            }
        }
    }

    fn read(&self, next: &mut State, rank: usize) {
        let side = next.side(rank);
        side.has_read = true;
        let clocks: Vec<Clock> = side.machine.clocks().collect();
        self.say(next, rank, Report::Clocks(clocks));
        if self.lines == Lines::Merged {
            self.to_coordinator(next, rank);
        }
    }

    /// The second half of what an agent does about the request.
    pub(crate) fn agent(&self, next: &mut State, rank: usize) {
        match self.rule {
            Rule::ReadsFirst => next.side(rank).machine.on_request(),
            _ => self.read(next, rank),
        }
    }

    pub(crate) fn to_coordinator(&self, next: &mut State, rank: usize) {
        let Some(mut report) = next.side(rank).up.pop_front() else { return };
        if let (Rule::OldWordCounts, Report::Parked(version, _)) = (self.rule, &mut report) {
            *version = next.sides[rank].newest();
        }
        let mut outputs = Vec::new();
        let coordinator = Arc::make_mut(&mut next.coordinator);
        coordinator.on_report(rank as RankId, &report, &mut outputs);
        for output in outputs {
            match output {
                Output::Directive(rank, directive) => {
                    next.side(rank as usize).down.push_back(Down::Directive(directive));
                }
                Output::Refused(_) => next.outcome = Some(Outcome::Refused),
                Output::Safe => self.begin_cut(next),
                Output::Resume => next.outcome = Some(self.judge_images(next)),
            }
        }
    }

    pub(crate) fn awaits_only_the_request(&self, state: &State) -> Option<usize> {
        if self.lines == Lines::Apart || self.finalizes || self.rule == Rule::ReadsFirst {
            return None;
        }
        let program = self.program(state);
        (0..program.size()).find(|&rank| {
            state.sides[rank].down.front() == Some(&Down::Request)
                && state.world.op(program, rank).is_none()
        })
    }

    /// Standing still, the rank receives what others need room for.
    pub(crate) fn may_take_in(&self, state: &State, rank: usize, from: usize) -> bool {
        let counts = CountsOf(&state.world, rank);
        let is_there =
            !state.world.lane(from, rank).net.is_empty() || counts.held(from as RankId) > 0;
        is_there && state.sides[rank].machine.gives_room(from as RankId, &counts)
    }

    /// True if nothing is under way, nobody has anything to say, nobody has a cause of its own to
    /// run on, and yet somebody runs on.
    pub(crate) fn runs_for_nothing(&self, state: &State) -> bool {
        let ranks = 0..state.sides.len();
        let is_quiet = |rank: usize| {
            let side = &state.sides[rank];
            let counts = CountsOf(&state.world, rank);
            let counted = state.world.ranks[rank].phase == Phase::Counted;
            let silent = side.up.is_empty() && side.down.is_empty() && side.has_read;
            silent
                && !counted
                && self.at(state, rank, |at| {
                    side.machine.origin(at) == Origin::Derived
                        && !side.machine.has_to_tell(at, &counts)
                })
        };
        let has_obligation = |rank: usize| {
            let counts = CountsOf(&state.world, rank);
            self.at(state, rank, |at| state.sides[rank].machine.has_obligation(at, &counts))
        };
        state.snapshot.is_none() && ranks.clone().all(is_quiet) && ranks.clone().any(has_obligation)
    }

    /// A message without a receive, and the rank has told that it waits for one of this sender.
    pub(crate) fn may_hold(&self, state: &State, rank: usize, from: usize) -> bool {
        let machine = &state.sides[rank].machine;
        let counts = CountsOf(&state.world, rank);
        !state.world.lane(from, rank).net.is_empty()
            && machine.is_waiting()
            && self.at(state, rank, |at| {
                let mut edges = machine.edges(at, &counts);
                edges.any(|n| n.kind == WaitKind::Message && n.peer as usize == from)
            })
    }
}
