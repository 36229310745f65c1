// SPDX-License-Identifier: Apache-2.0
//! A search through all states of a group that is quicker than a general checker's, and needs less
//! memory: a state is a few numbers, a step a look-up, and a visited state 64 bits.
//!
//! Two states that have the same 64 bits are taken for one. Of n states some two do so with a
//! probability of about n^2 / 2^65: 10^-5 for 10^7 states.
//!
//! # What is left out, and why nothing is missed
//!
//! - *Who dies is chosen first.* Of a group in which up to d may die each set of up to d processes
//!   is searched by itself, and all of the set die. Whatever happens in the whole group happens in
//!   the search of those who died in it. What is gained: who is not in the set does not die, so
//!   its steps need not be tried before and after a death of its own.
//! - *What cannot matter is forgotten* ([`Subject::settle`], [`Subject::ignores`]): a machine says
//!   which parts of its state and which messages change nothing from now on. Such a message can
//!   be taken away wherever it stands in its line, for to deliver it is always possible and has
//!   no effect; so those behind it come no sooner than they could. A process that dies has sent
//!   the first few of its messages: the first few of those that matter, however many others are
//!   between.
//! - *Who only answers does so at once* ([`Subject::is_closed`]). A process that has ended its last
//!   call and will not die takes the next message of a line as soon as it is there: whatever else
//!   could happen before has the same effect afterwards. Another message to it is answered by
//!   itself, on another line or later on the same; another process's step takes from the front
//!   of a line and adds at its end; and a death loses the answer, sent or not.
//! - *When all have ended* nothing more is looked at: there will be no other verdict.
//!
//! No breach goes away but by a death, and no run is endless: a state that is reached from itself
//! would be reported. So it is enough to look at the end of each run, and at each new verdict.
//!
//! There is no use of symmetry: a group's ranks decide who becomes the root, and no two processes
//! can be exchanged. A general reduction by partial order (persistent sets) gives nothing beyond
//! the third point: as long as a process is in its call any other may still send to it, and which
//! of two messages comes first matters.

use crate::packed::{DEAD, Move, Occurrence, Packed, Tables};
use crate::tables::{Map, Mix, Set};
use crate::world::{Group, Subject};
use fermata_ftcoll::Rank;
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What each process had got at the end of a run; none if it is dead.
pub type Ended<C> = Vec<Option<Vec<<C as fermata_ftcoll::Core>::Output>>>;

/// What a search has found.
#[derive(Debug)]
pub struct Findings<C: Subject> {
    /// Different states, of all sets of dead together; one more than the limit if that is reached.
    pub states: u64,
    /// How runs end.
    pub endings: HashSet<Ended<C>>,
    /// What was wrong first, and the way there.
    pub breach: Option<String>,
    /// Whether all was searched: no breach, and the limit not reached.
    pub is_whole: bool,
}

/// Searches every order of messages and deaths, with so many threads, up to a number of states.
/// It blocks until it is done, which may take hours. Memory: some 20 bytes a state.
pub fn search<C>(group: &Group<C>, threads: usize, limit: u64) -> Findings<C>
where
    C: Subject + Send + Sync,
    C::Message: Send + Sync,
    C::Output: Send + Sync,
{
    let sets = sets_of_dead(group.cores.len(), group.deaths);
    let shared = Shared {
        next: AtomicUsize::new(0),
        states: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
        limit,
        found: Mutex::new((HashSet::new(), None)),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&mortal) = sets.get(shared.next.fetch_add(1, Ordering::Relaxed)) {
                    if shared.is_stopped.load(Ordering::Relaxed) {
                        break;
                    }
                    Search::new(group, mortal, &shared).run();
                }
            });
        }
    });
    let (endings, breach) = shared.found.into_inner().unwrap_or_else(|e| e.into_inner());
    let is_whole = !shared.is_stopped.into_inner();
    Findings { states: shared.states.into_inner(), endings, breach, is_whole }
}

/// All sets of up to so many of the processes, a bit each, the larger ones first.
fn sets_of_dead(size: usize, deaths: usize) -> Vec<u32> {
    let mut sets: Vec<u32> =
        (0..1u32 << size).filter(|set| set.count_ones() as usize <= deaths).collect();
    sets.sort_by_key(|set| std::cmp::Reverse(set.count_ones()));
    sets
}

/// What the threads have in common.
struct Shared<C: Subject> {
    next: AtomicUsize,
    states: AtomicU64,
    is_stopped: AtomicBool,
    limit: u64,
    found: Mutex<(HashSet<Ended<C>>, Option<String>)>,
}

/// A state on the way, and which of its moves comes next.
struct Frame {
    state: Packed,
    hash: u64,
    moves: Vec<Move>,
    next: usize,
}

/// The search of one set of those who die.
struct Search<'a, C: Subject> {
    tables: Tables<'a, C>,
    mortal: u32,
    shared: &'a Shared<C>,
    visited: Set<u64>,
    way: Vec<Frame>,
    on_way: Set<u64>,
    /// What is wrong with the outputs of those who live, over both.
    judged: Map<(Packed, bool), Option<&'static str>>,
    endings: HashSet<Ended<C>>,
}

impl<'a, C: Subject> Search<'a, C> {
    fn new(group: &'a Group<C>, mortal: u32, shared: &'a Shared<C>) -> Self {
        Self {
            tables: Tables::new(group, mortal),
            mortal,
            shared,
            visited: Set::default(),
            way: Vec::new(),
            on_way: Set::default(),
            judged: Map::default(),
            endings: HashSet::new(),
        }
    }

    fn run(mut self) {
        let first = self.tables.first();
        let breach = self.enter(first, true).or_else(|| self.descend());
        let (endings, first_breach) =
            &mut *self.shared.found.lock().unwrap_or_else(|e| e.into_inner());
        endings.extend(self.endings);
        if let Some(breach) = breach {
            self.shared.is_stopped.store(true, Ordering::Relaxed);
            first_breach.get_or_insert(breach);
        }
    }

    /// From the top of the way on, depth first; what is wrong, if something is.
    fn descend(&mut self) -> Option<String> {
        while let Some(frame) = self.way.last_mut() {
            let Some(&step) = frame.moves.get(frame.next) else {
                let left = frame.hash;
                self.way.pop();
                self.on_way.remove(&left);
                continue;
            };
            frame.next += 1;
            let state = frame.state.clone();
            let (next, has_output) = self.tables.make(&state, step);
            if let Some(breach) = self.enter(next, has_output) {
                return Some(breach);
            }
            if self.shared.is_stopped.load(Ordering::Relaxed) {
                return None;
            }
        }
        None
    }

    /// Comes to a state, and searches on from there if it is new; what is wrong, if something.
    fn enter(&mut self, state: Packed, has_output: bool) -> Option<String> {
        let hash = Mix::of(&state);
        if !self.visited.insert(hash) {
            return self.on_way.contains(&hash).then(|| self.tell("a run without end", &state));
        }
        if self.shared.states.fetch_add(1, Ordering::Relaxed) >= self.shared.limit {
            self.shared.is_stopped.store(true, Ordering::Relaxed);
            return None;
        }
        let moves = self.moves(&state);
        let is_end = moves.is_empty();
        if is_end {
            self.endings.insert(self.tables.ended(&state));
        }
        if is_end || has_output {
            let (tables, key) = (&self.tables, self.tables.outputs(&state, is_end));
            let judge = || tables.breach(&state, is_end);
            if let Some(breach) = *self.judged.entry((key, is_end)).or_insert_with(judge) {
                return Some(self.tell(breach, &state));
            }
        }
        if !is_end {
            self.on_way.insert(hash);
            self.way.push(Frame { state, hash, moves, next: 0 });
        }
        None
    }

    fn tell(&self, breach: &str, state: &Packed) -> String {
        let way: Vec<_> =
            self.way.iter().map(|frame| self.tables.describe(&frame.moves, frame.next)).collect();
        format!("{breach}: {:#?}\n{}", self.tables.ended(state), way.join("\n"))
    }

    /// All that can happen next; nothing if it is over.
    fn moves(&mut self, state: &Packed) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.tables.all_closed(state) {
            return moves;
        }
        for at in 0..self.tables.size() {
            if state.locals[at] == DEAD {
                continue;
            }
            let is_mortal = self.mortal & 1 << at != 0;
            let at = Rank::try_from(at).unwrap_or(Rank::MAX);
            for occurrence in self.tables.occurrences(state, at) {
                moves.push(Move { at, occurrence, dies_after: None });
                let sends = if is_mortal { self.tables.sends(state, at, occurrence) } else { 0 };
                let after = |left| Move { at, occurrence, dies_after: Some(left) };
                moves.extend((1..sends).map(after));
            }
            if is_mortal {
                moves.push(Move { at, occurrence: Occurrence::Nothing, dies_after: Some(0) });
            }
        }
        moves
    }
}
