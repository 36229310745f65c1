// SPDX-License-Identifier: Apache-2.0
//! States of a group as numbers, and steps between them that are worked out once.

use crate::tables::{Map, Table};
use crate::world::{Group, State, Subject};
use fermata_ftcoll::{Actions, Event, Rank};

/// So many processes a group may have.
pub const LARGEST: usize = 6;
/// In the place of a process's number.
pub const DEAD: u32 = u32::MAX;
/// The line without messages.
const EMPTY: u32 = 0;

/// Where a group is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    /// Each process's number, or [`DEAD`].
    pub locals: [u32; LARGEST],
    /// The number of what is under way, from * LARGEST + to.
    lines: [u16; LARGEST * LARGEST],
}

/// What happens to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occurrence {
    /// It enters its next call.
    Enter,
    /// This message of this process arrives.
    Arrive(Rank, u32),
    /// It learns that this process is dead.
    Learn(Rank),
    /// It is asked for a message.
    Ask,
    /// Nothing; it just dies.
    Nothing,
}

/// A step: what happens to whom, and after how many messages that matter it dies of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// To whom.
    pub at: Rank,
    /// What.
    pub occurrence: Occurrence,
    /// Whether it dies.
    pub dies_after: Option<usize>,
}

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Local<C: Subject> {
    core: C,
    entered: usize,
    outputs: Vec<C::Output>,
}

/// What is known of a living process by its number.
#[derive(Clone, Debug)]
struct Facts {
    can_enter: bool,
    asks: bool,
    is_closed: bool,
    watched: Vec<Rank>,
    /// The number of what it has got.
    outputs: u32,
}

/// What a step does.
#[derive(Clone, Debug)]
struct Effect {
    local: u32,
    sends: Vec<(Rank, u32)>,
    has_output: bool,
}

/// The numbers of one search, in which all processes of the set `mortal` die.
pub struct Tables<'a, C: Subject> {
    group: &'a Group<C>,
    mortal: u32,
    locals: Table<Local<C>>,
    facts: Vec<Facts>,
    messages: Table<C::Message>,
    lines: Table<Vec<u32>>,
    outputs: Table<Vec<C::Output>>,
    effects: Map<(u32, Occurrence), Effect>,
    settled: Map<(u32, u32), u32>,
    ignored: Map<(u32, Rank, u32), u32>,
    /// Whether a message from somebody matters to a living process.
    heeded: Map<(u32, Rank, u32), bool>,
    longer: Map<(u32, u32), u32>,
}

impl<'a, C: Subject> Tables<'a, C> {
    /// Of a group of at most [`LARGEST`].
    ///
    /// # Panics
    /// If it is larger.
    pub fn new(group: &'a Group<C>, mortal: u32) -> Self {
        assert!(group.cores.len() <= LARGEST, "at most {LARGEST} processes");
        let mut lines = Table::new();
        lines.number(&vec![]);
        Self {
            group,
            mortal,
            locals: Table::new(),
            facts: Vec::new(),
            messages: Table::new(),
            lines,
            outputs: Table::new(),
            effects: Map::default(),
            settled: Map::default(),
            ignored: Map::default(),
            heeded: Map::default(),
            longer: Map::default(),
        }
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.group.cores.len()
    }

    /// The state in which the search begins.
    pub fn first(&mut self) -> Packed {
        let mut state = Packed { locals: [DEAD; LARGEST], lines: [0; LARGEST * LARGEST] };
        for (index, core) in self.group.cores.iter().enumerate() {
            let local = Local { core: core.clone(), entered: 0, outputs: vec![] };
            state.locals[index] = self.number(index, local);
        }
        if !self.group.enters_apart {
            for at in 0..Rank::try_from(self.size()).unwrap_or(0) {
                if self.facts[state.locals[at as usize] as usize].can_enter {
                    let step = Move { at, occurrence: Occurrence::Enter, dies_after: None };
                    state = self.make(&state, step).0;
                }
            }
        }
        state
    }

    fn number(&mut self, index: usize, local: Local<C>) -> u32 {
        let (number, is_new) = self.locals.number(&local);
        if is_new {
            let at = Rank::try_from(index).unwrap_or(Rank::MAX);
            let is_idle = local.outputs.len() == local.entered;
            let can_enter = is_idle && local.core.clone().prepare(self.group, at, local.entered);
            let mut actions = Actions::default();
            if C::sends_when_asked() && local.entered > 0 {
                local.core.clone().step(Event::PortFree, 0, &mut actions);
            }
            self.facts.push(Facts {
                can_enter,
                asks: !actions.sends.is_empty(),
                is_closed: local.core.is_closed(self.group),
                watched: if is_idle { vec![] } else { local.core.watched() },
                outputs: self.outputs.number(&local.outputs).0,
            });
        }
        number
    }

    /// What can happen to a living process.
    pub fn occurrences(&self, state: &Packed, at: Rank) -> Vec<Occurrence> {
        let (index, mut all) = (at as usize, Vec::new());
        for from in 0..self.size() {
            let line = self.lines.thing(u32::from(state.lines[from * LARGEST + index]));
            if let Some(&message) = line.first() {
                all.push(Occurrence::Arrive(Rank::try_from(from).unwrap_or(Rank::MAX), message));
            }
        }
        let facts = &self.facts[state.locals[index] as usize];
        let dead = facts.watched.iter().filter(|&&rank| state.locals[rank as usize] == DEAD);
        all.extend(dead.map(|&rank| Occurrence::Learn(rank)));
        if facts.can_enter {
            all.push(Occurrence::Enter);
        }
        if facts.asks {
            all.push(Occurrence::Ask);
        }
        all
    }

    /// Whether all who live have ended their last call.
    pub fn all_closed(&self, state: &Packed) -> bool {
        let living = state.locals.iter().filter(|&&local| local != DEAD);
        living.into_iter().all(|&local| self.facts[local as usize].is_closed)
    }

    fn effect(&mut self, number: u32, at: Rank, occurrence: Occurrence) -> Effect {
        if let Some(effect) = self.effects.get(&(number, occurrence)) {
            return effect.clone();
        }
        let mut local = self.locals.thing(number).clone();
        let event = match occurrence {
            Occurrence::Enter => {
                local.core.prepare(self.group, at, local.entered);
                local.entered += 1;
                Event::Start
            }
            Occurrence::Arrive(from, message) => {
                Event::Message { from, message: self.messages.thing(message).clone() }
            }
            Occurrence::Learn(rank) => Event::Dead(rank),
            Occurrence::Ask | Occurrence::Nothing => Event::PortFree,
        };
        let mut actions = Actions::default();
        local.core.step(event, 0, &mut actions);
        let has_output = actions.output.is_some();
        local.outputs.extend(actions.output);
        let mut sends = Vec::new();
        for (to, message) in actions.sends {
            sends.push((to, self.messages.number(&message).0));
        }
        let effect = Effect { local: self.number(at as usize, local), sends, has_output };
        self.effects.insert((number, occurrence), effect.clone());
        effect
    }

    /// How many messages a step sends to somebody whom they can matter to.
    pub fn sends(&mut self, state: &Packed, at: Rank, occurrence: Occurrence) -> usize {
        let mut effect = self.effect(state.locals[at as usize], at, occurrence);
        effect.sends.retain(|&(to, message)| self.matters(state, at, to, message));
        effect.sends.len()
    }

    fn matters(&mut self, state: &Packed, from: Rank, to: Rank, message: u32) -> bool {
        let local = state.locals[to as usize];
        if local == DEAD {
            return false;
        }
        let (group, locals, messages) = (self.group, &self.locals, &self.messages);
        *self.heeded.entry((local, from, message)).or_insert_with(|| {
            !locals.thing(local).core.ignores(group, from, messages.thing(message))
        })
    }

    /// Makes a step that is possible; whether somebody has got something of it.
    pub fn make(&mut self, state: &Packed, step: Move) -> (Packed, bool) {
        let (at, index, mut state) = (step.at, step.at as usize, state.clone());
        let mut has_output = false;
        if let Occurrence::Arrive(from, _) = step.occurrence {
            self.shorten(&mut state, from as usize * LARGEST + index);
        }
        if step.occurrence != Occurrence::Nothing {
            let effect = self.effect(state.locals[index], at, step.occurrence);
            let mut left = step.dies_after.unwrap_or(usize::MAX);
            for (to, message) in effect.sends {
                if left > 0 && self.matters(&state, at, to, message) {
                    self.lengthen(&mut state, index * LARGEST + to as usize, message);
                    left -= 1;
                }
            }
            state.locals[index] = effect.local;
            has_output = effect.has_output;
        }
        if step.dies_after.is_some() {
            state.locals[index] = DEAD;
            for from in 0..LARGEST {
                state.lines[from * LARGEST + index] = 0;
            }
            has_output = false;
            for other in 0..self.size() {
                self.tidy(&mut state, other);
            }
        } else {
            self.tidy(&mut state, index);
        }
        self.answer(&mut state);
        (state, has_output)
    }

    /// Lets those who only answer, and do not die, do so.
    fn answer(&mut self, state: &mut Packed) {
        let mut at = 0;
        while at < self.size() {
            let local = state.locals[at];
            let answers =
                local != DEAD && self.mortal & 1 << at == 0 && self.facts[local as usize].is_closed;
            let came = (0..self.size()).find(|from| state.lines[from * LARGEST + at] != 0);
            let Some(from) = came.filter(|_| answers) else {
                at += 1;
                continue;
            };
            let line = from * LARGEST + at;
            let message = self.lines.thing(u32::from(state.lines[line]))[0];
            self.shorten(state, line);
            let rank = |index| Rank::try_from(index).unwrap_or(Rank::MAX);
            let occurrence = Occurrence::Arrive(rank(from), message);
            let effect = self.effect(local, rank(at), occurrence);
            for (to, message) in effect.sends {
                if self.matters(state, rank(at), to, message) {
                    self.lengthen(state, at * LARGEST + to as usize, message);
                }
            }
            state.locals[at] = effect.local;
            self.tidy(state, at);
            at = 0;
        }
    }

    /// Forgets what cannot matter to one process any more, and what is under way to it in vain.
    fn tidy(&mut self, state: &mut Packed, index: usize) {
        if state.locals[index] == DEAD {
            return;
        }
        let dead: u32 = (0..self.size()).map(|at| u32::from(state.locals[at] == DEAD) << at).sum();
        let key = (state.locals[index], dead);
        let number = if let Some(&number) = self.settled.get(&key) {
            number
        } else {
            let mut local = self.locals.thing(key.0).clone();
            local.core.settle(self.group, dead);
            let number = self.number(index, local);
            self.settled.insert(key, number);
            number
        };
        state.locals[index] = number;
        for from in 0..self.size() {
            let line = &mut state.lines[from * LARGEST + index];
            if u32::from(*line) != EMPTY {
                let from = Rank::try_from(from).unwrap_or(Rank::MAX);
                *line = self.without_ignored(number, from, u32::from(*line));
            }
        }
    }

    fn without_ignored(&mut self, number: u32, from: Rank, line: u32) -> u16 {
        let group = self.group;
        let found = self.ignored.get(&(number, from, line)).copied();
        let left = found.unwrap_or_else(|| {
            let core = &self.locals.thing(number).core;
            let mut messages = self.lines.thing(line).clone();
            messages.retain(|&message| !core.ignores(group, from, self.messages.thing(message)));
            self.lines.number(&messages).0
        });
        self.ignored.insert((number, from, line), left);
        short(left)
    }

    fn shorten(&mut self, state: &mut Packed, line: usize) {
        let rest = self.lines.thing(u32::from(state.lines[line]))[1..].to_vec();
        state.lines[line] = short(self.lines.number(&rest).0);
    }

    fn lengthen(&mut self, state: &mut Packed, line: usize, message: u32) {
        let before = u32::from(state.lines[line]);
        let lines = &mut self.lines;
        let after = *self.longer.entry((before, message)).or_insert_with(|| {
            let mut messages = lines.thing(before).clone();
            messages.push(message);
            lines.number(&messages).0
        });
        state.lines[line] = short(after);
    }

    /// What decides whether a state is sound: of one that is no end, what those who live have got.
    pub fn outputs(&self, state: &Packed, is_end: bool) -> Packed {
        let mut outputs = Packed { lines: [0; LARGEST * LARGEST], ..state.clone() };
        for local in outputs.locals.iter_mut().filter(|local| !is_end && **local != DEAD) {
            *local = self.facts[*local as usize].outputs;
        }
        outputs
    }

    /// What is wrong with a state that has nothing under way, or is not looked at as an end.
    pub fn breach(&self, state: &Packed, is_end: bool) -> Option<&'static str> {
        let locals = state.locals[..self.size()].iter();
        let pick = |(index, &local): (usize, &u32)| match local {
            DEAD => {
                let core = self.group.cores[index].clone();
                (Local { core, entered: 0, outputs: vec![] }, false)
            }
            number => (self.locals.thing(number).clone(), true),
        };
        let mut whole = State::bare(is_end);
        for (local, is_alive) in locals.enumerate().map(pick) {
            whole.cores.push(local.core);
            whole.entered.push(local.entered);
            whole.outputs.push(local.outputs);
            whole.alive.push(is_alive);
        }
        C::breach(self.group, &whole)
    }

    /// What each process has got.
    pub fn ended(&self, state: &Packed) -> Vec<Option<Vec<C::Output>>> {
        let got = |&local: &u32| (local != DEAD).then(|| self.locals.thing(local).outputs.clone());
        state.locals[..self.size()].iter().map(got).collect()
    }

    /// The move before the next one of a state, in words.
    pub fn describe(&self, moves: &[Move], next: usize) -> String {
        let Some(step) = next.checked_sub(1).and_then(|last| moves.get(last)) else {
            return "nothing".to_owned();
        };
        let what = match step.occurrence {
            Occurrence::Arrive(from, message) => {
                format!("takes from {from} {:?}", self.messages.thing(message))
            }
            other => format!("{other:?}"),
        };
        let dies = step.dies_after.map_or(String::new(), |left| format!(", dies after {left}"));
        format!("{}: {what}{dies}", step.at)
    }
}

/// A line's number.
///
/// # Panics
/// If there are more different lines than a search of a small group has.
fn short(line: u32) -> u16 {
    u16::try_from(line).expect("fewer than 2^16 different lines")
}
