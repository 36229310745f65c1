// SPDX-License-Identifier: Apache-2.0
//! A group of processes as a model for stateright.

use fermata_ftcoll::{Actions, Core, Event, Rank};
use stateright::{Model, Property};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

/// A machine to check.
pub trait Subject: Core<Message: Part, Output: Part> + Part {
    /// Whom it waits for, so that it learns of their deaths.
    fn watched(&self) -> Vec<Rank>;

    /// Gets ready for its next call; false if there is none.
    fn prepare(&mut self, group: &Group<Self>, me: Rank, call: usize) -> bool;

    /// Whether it sends when asked rather than by itself.
    fn sends_when_asked() -> bool {
        false
    }

    /// Forgets what cannot matter any more; `dead`: those who are, a bit each.
    fn settle(&mut self, _group: &Group<Self>, _dead: u32) {}

    /// Whether a message changes nothing here from now on but what [`Subject::settle`] forgets.
    fn ignores(&self, _group: &Group<Self>, _from: Rank, _message: &Self::Message) -> bool {
        false
    }

    /// Whether all that it still does is to answer: each message by itself, whatever came before,
    /// to its sender alone.
    fn is_closed(&self, _group: &Group<Self>) -> bool {
        false
    }

    /// What is wrong with what the living processes have got so far.
    fn breach(group: &Group<Self>, state: &State<Self>) -> Option<&'static str>;
}

/// What is part of a state.
pub trait Part: Clone + Debug + Eq + Hash {}

impl<T: Clone + Debug + Eq + Hash> Part for T {}

/// What is searched.
#[derive(Clone, Debug)]
pub struct Group<C: Subject> {
    /// The processes before their first call.
    pub cores: Vec<C>,
    /// How many may die.
    pub deaths: usize,
    /// Whether processes enter calls at any time; else all enter the first before anything happens.
    pub enters_apart: bool,
    /// Calls, for machines that have several; what each does is known to the subject.
    pub operations: Vec<fermata_ftcoll::ftco::Operation>,
}

/// Where a group is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<C: Subject> {
    /// The processes. A dead one is as before its first call.
    pub cores: Vec<C>,
    /// Who lives.
    pub alive: Vec<bool>,
    /// What each has got, call by call.
    pub outputs: Vec<Vec<C::Output>>,
    /// Calls that each has begun.
    pub entered: Vec<usize>,
    lines: BTreeMap<(Rank, Rank), VecDeque<C::Message>>,
    deaths: usize,
    /// Known to be no end, or else whoever asks looks what can happen.
    is_midway: bool,
}

/// What happens to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Happening {
    /// It enters its next call.
    Enter,
    /// The next message from this process arrives.
    Arrive(Rank),
    /// It learns that this process is dead.
    Learn(Rank),
    /// It is asked for a message.
    Ask,
    /// Nothing; it just dies.
    Nothing,
}

/// A step: what happens to whom, and after how many of its messages it dies of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    at: Rank,
    happening: Happening,
    dies_after: Option<usize>,
}

impl<C: Subject> State<C> {
    /// Without processes, and nothing under way: at an end, or known to be none.
    pub(crate) fn bare(is_end: bool) -> Self {
        Self {
            cores: vec![],
            alive: vec![],
            outputs: vec![],
            entered: vec![],
            lines: BTreeMap::new(),
            deaths: 0,
            is_midway: !is_end,
        }
    }

    fn rank(index: usize) -> Rank {
        Rank::try_from(index).unwrap_or(Rank::MAX)
    }

    /// Who lives.
    pub fn living(&self) -> impl Iterator<Item = Rank> + '_ {
        let living = self.alive.iter().enumerate().filter(|(_, alive)| **alive);
        living.map(|(index, _)| Self::rank(index))
    }
}

impl<C: Subject> Group<C> {
    /// What can happen, deaths left out.
    fn happenings(&self, state: &State<C>) -> Vec<(Rank, Happening)> {
        let mut all = Vec::new();
        for &(from, to) in state.lines.keys() {
            all.push((to, Happening::Arrive(from)));
        }
        for at in state.living() {
            let index = at as usize;
            let is_idle = state.outputs[index].len() == state.entered[index];
            if is_idle && state.cores[index].clone().prepare(self, at, state.entered[index]) {
                all.push((at, Happening::Enter));
            }
            if !is_idle {
                for rank in state.cores[index].watched() {
                    if !state.alive[rank as usize] {
                        all.push((at, Happening::Learn(rank)));
                    }
                }
            }
            if C::sends_when_asked() && state.entered[index] > 0 {
                let mut actions = Actions::default();
                state.cores[index].clone().step(Event::PortFree, 0, &mut actions);
                if !actions.sends.is_empty() {
                    all.push((at, Happening::Ask));
                }
            }
        }
        all
    }

    /// Whether nothing can happen but deaths.
    pub fn is_over(&self, state: &State<C>) -> bool {
        !state.is_midway && self.happenings(state).is_empty()
    }

    fn kill(&self, state: &mut State<C>, at: Rank) {
        let index = at as usize;
        state.alive[index] = false;
        state.deaths += 1;
        state.cores[index] = self.cores[index].clone();
        state.outputs[index].clear();
        state.entered[index] = 0;
        state.lines.retain(|&(_, to), _| to != at);
    }

    /// Makes a step; none if it is not possible.
    fn make(&self, state: &State<C>, step: Move) -> Option<State<C>> {
        let mut state = state.clone();
        let (at, index) = (step.at, step.at as usize);
        let event = match step.happening {
            Happening::Enter => {
                let call = state.entered[index];
                state.cores[index].prepare(self, at, call);
                state.entered[index] += 1;
                Event::Start
            }
            Happening::Arrive(from) => {
                let line = state.lines.get_mut(&(from, at))?;
                let message = line.pop_front()?;
                if line.is_empty() {
                    state.lines.remove(&(from, at));
                }
                Event::Message { from, message }
            }
            Happening::Learn(rank) => Event::Dead(rank),
            Happening::Ask => Event::PortFree,
            Happening::Nothing => {
                self.kill(&mut state, at);
                return Some(state);
            }
        };
        let mut actions = Actions::default();
        state.cores[index].step(event, 0, &mut actions);
        let sends = actions.sends.len();
        if step.dies_after.is_some_and(|left| left >= sends) {
            return None;
        }
        for (to, message) in actions.sends.into_iter().take(step.dies_after.unwrap_or(sends)) {
            if state.alive[to as usize] {
                state.lines.entry((at, to)).or_default().push_back(message);
            }
        }
        if step.dies_after.is_some() {
            self.kill(&mut state, at);
        } else {
            state.outputs[index].extend(actions.output);
        }
        Some(state)
    }
}

impl<C: Subject> Model for Group<C> {
    type State = State<C>;
    type Action = Move;

    fn init_states(&self) -> Vec<State<C>> {
        let size = self.cores.len();
        let mut state = State {
            cores: self.cores.clone(),
            alive: vec![true; size],
            outputs: vec![vec![]; size],
            entered: vec![0; size],
            lines: BTreeMap::new(),
            deaths: 0,
            is_midway: false,
        };
        if self.enters_apart {
            return vec![state];
        }
        for at in 0..State::<C>::rank(size) {
            let step = Move { at, happening: Happening::Enter, dies_after: None };
            if let Some(next) = self.make(&state, step) {
                state = next;
            }
        }
        vec![state]
    }

    fn actions(&self, state: &State<C>, moves: &mut Vec<Move>) {
        let may_die = state.deaths < self.deaths;
        for (at, happening) in self.happenings(state) {
            moves.push(Move { at, happening, dies_after: None });
            if may_die {
                // After at least one message; to die before the first is `Nothing`.
                let after = |left| Move { at, happening, dies_after: Some(left) };
                moves.extend((1..self.cores.len()).map(after));
            }
        }
        if may_die {
            let dies = |at| Move { at, happening: Happening::Nothing, dies_after: None };
            moves.extend(state.living().map(dies));
        }
    }

    fn next_state(&self, state: &State<C>, step: Move) -> Option<State<C>> {
        self.make(state, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("sound", |group, state| C::breach(group, state).is_none())]
    }
}
