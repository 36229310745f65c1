// SPDX-License-Identifier: Apache-2.0
//! The coordinator's half: targets, the wait-for graph, when all ranks stand still and when they
//! may continue.
//!
//! Directives go only to ranks for which something has changed, and each rank has its own version.
//! A rank counts as parked if it has said so under the newest version it was sent.
//!
//! A wait-for edge counts, and is its peer's obligation, while there is a chain to it from a root:
//! a rank that runs on for its own sake. Else ranks that run on for each other alone would do so
//! for ever.
//!
//! Invariant: `target` of a group is the greatest clock any member has reported.
//! Invariant: if every rank is parked under its newest directive the state is safe and stays so. A
//!            parked rank says nothing and moves only on a new directive, and there is none under
//!            way; all clocks have been heard, so in every group all are equal to the target.
//! Invariant: no rank continues from a safe state before all have been cut, or one that continues
//!            would send to one that is still to be cut.

use crate::words::{
    Clock, Directive, GroupId, Origin, RankId, Report, Version, WaitEdge, WaitKind,
};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// What the coordinator wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send these.
    Directive(RankId, Directive),
    /// Every rank stands still where it can be saved.
    Safe,
    /// Every rank has been cut: all continue.
    Resume,
    /// This rank is inside MPI_Finalize: no checkpoint; the job continues to its end.
    Refused(RankId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RankState {
    /// Of the directive last sent.
    version: Version,
    heard: bool,
    parked: bool,
    cut: bool,
    clocks: BTreeMap<GroupId, u64>,
    /// What this rank waits for, and why it does not park instead.
    edges: Vec<WaitEdge>,
    origin: Origin,
    /// What others wait for this rank to do, as far as it counts.
    obligations: Vec<WaitEdge>,
    /// A directive has to be sent.
    stale: bool,
}

impl RankState {
    fn new() -> Self {
        Self {
            version: Version(0),
            heard: false,
            parked: false,
            cut: false,
            clocks: BTreeMap::new(),
            edges: Vec::new(),
            origin: Origin::Derived,
            obligations: Vec::new(),
            stale: false,
        }
    }
}

/// How far the attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Ranks are on their way to a safe state.
    Gathering,
    /// The state is safe, and so many ranks have not been cut yet.
    Cutting(usize),
    /// All continue.
    Over,
}

/// One attempt to reach a safe state and to cut all ranks in it. The shell has sent the request to
/// all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    ranks: Vec<RankState>,
    targets: BTreeMap<GroupId, u64>,
    members: BTreeMap<GroupId, Vec<RankId>>,
    /// Ranks that wait for others.
    waiting: BTreeSet<RankId>,
    /// Those whose edges count.
    counted: BTreeSet<RankId>,
    unheard: usize,
    unparked: usize,
    stage: Stage,
}

impl Coordinator {
    /// For ranks `0..size`.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let mut ranks = Vec::new();
        ranks.resize_with(size, RankState::new);
        Self {
            ranks,
            targets: BTreeMap::new(),
            members: BTreeMap::new(),
            waiting: BTreeSet::new(),
            counted: BTreeSet::new(),
            unheard: size,
            unparked: size,
            stage: Stage::Gathering,
        }
    }

    /// True if every rank has told its clocks.
    #[must_use]
    pub fn has_clocks(&self) -> bool {
        self.unheard == 0
    }

    /// True if all ranks continue: each has been cut, or one has refused.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Ranks that are where they are wanted for now: that have told their clocks or, once all have,
    /// that are parked.
    pub fn done(&self) -> impl Iterator<Item = RankId> + '_ {
        let is_done =
            |state: &RankState| if self.has_clocks() { state.parked } else { state.heard };
        (0..).zip(&self.ranks).filter(move |(_, state)| is_done(state)).map(|(rank, _)| rank)
    }

    /// Takes a rank's report; appends what is to be done.
    pub fn on_report(&mut self, rank: RankId, report: &Report, out: &mut Vec<Output>) {
        if self.rank(rank).is_none() {
            return;
        }
        match self.stage {
            Stage::Gathering => self.on_gathering(rank, report, out),
            Stage::Cutting(left) if *report == Report::Cut => self.on_cut(rank, left, out),
            Stage::Cutting(_) | Stage::Over => {}
        }
    }

    fn on_gathering(&mut self, rank: RankId, report: &Report, out: &mut Vec<Output>) {
        let mut touched = Vec::new();
        match report {
            Report::Clocks(clocks) => self.on_clocks(rank, clocks, &mut touched),
            Report::Raise(clock) => self.merge(rank, *clock, &mut touched),
            Report::Waits(origin, edges) => self.replace_edges(rank, *origin, edges, &mut touched),
            Report::Runs => self.replace_edges(rank, Origin::Derived, &[], &mut touched),
            Report::Parked(version, clocks) => {
                self.replace_edges(rank, Origin::Derived, &[], &mut touched);
                for clock in clocks {
                    self.merge(rank, *clock, &mut touched);
                }
                self.on_parked(rank, *version);
            }
            Report::Ending => {
                self.stage = Stage::Over;
                return out.push(Output::Refused(rank));
            }
            Report::Cut => {}
        }
        self.publish(&touched, out);
        if self.unparked == 0 {
            self.stage = Stage::Cutting(self.ranks.len());
            out.push(Output::Safe);
        }
    }

    fn on_cut(&mut self, rank: RankId, left: usize, out: &mut Vec<Output>) {
        let Some(state) = self.rank(rank) else { return };
        if core::mem::replace(&mut state.cut, true) {
            return;
        }
        self.stage = Stage::Cutting(left - 1);
        if left == 1 {
            self.stage = Stage::Over;
            out.push(Output::Resume);
        }
    }

    fn on_clocks(&mut self, rank: RankId, clocks: &[Clock], touched: &mut Vec<RankId>) {
        for clock in clocks {
            self.merge(rank, *clock, touched);
        }
        let Some(state) = self.rank(rank) else { return };
        if state.heard {
            return;
        }
        state.heard = true;
        self.unheard -= 1;
        if self.unheard == 0 {
            // The first directive goes to everybody.
            for (rank, state) in (0..).zip(&mut self.ranks) {
                state.stale = true;
                touched.push(rank);
            }
        }
    }

    /// A rank's clock. Whoever is now known to be behind its group's target gets a directive.
    fn merge(&mut self, rank: RankId, clock: Clock, touched: &mut Vec<RankId>) {
        let Some(state) = self.rank(rank) else { return };
        let known = state.clocks.insert(clock.group, clock.seq).is_some();
        let members = self.members.entry(clock.group).or_default();
        if !known {
            members.push(rank);
        }
        let target = self.targets.entry(clock.group).or_insert(0);
        if clock.seq > *target {
            *target = clock.seq;
            for &member in members.iter() {
                let Some(state) = self.ranks.get_mut(member as usize) else { continue };
                if state.clocks.get(&clock.group).is_some_and(|seq| *seq < clock.seq) {
                    state.stale = true;
                    touched.push(member);
                }
            }
        } else if clock.seq < *target && !known {
            // A member of a group that it had not been known to be in.
            if let Some(state) = self.rank(rank) {
                state.stale = true;
                touched.push(rank);
            }
        }
    }

    fn replace_edges(
        &mut self,
        rank: RankId,
        origin: Origin,
        edges: &[WaitEdge],
        touched: &mut Vec<RankId>,
    ) {
        let Some(state) = self.rank(rank) else { return };
        state.origin = origin;
        let old = core::mem::replace(&mut state.edges, edges.to_vec());
        if old.is_empty() && edges.is_empty() {
            return;
        }
        if edges.is_empty() {
            self.waiting.remove(&rank);
        } else {
            self.waiting.insert(rank);
        }
        if self.counted.contains(&rank) {
            self.oblige(rank, &old, edges, touched);
        }
        let now = self.count();
        let before = core::mem::replace(&mut self.counted, now.clone());
        for rank in before.symmetric_difference(&now) {
            let Some(state) = self.rank(*rank) else { continue };
            let edges = state.edges.clone();
            let none: &[WaitEdge] = &[];
            let (old, new) = if now.contains(rank) { (none, &*edges) } else { (&*edges, none) };
            self.oblige(*rank, old, new, touched);
        }
    }

    /// The ranks whose edges count: roots, and those of which such a one awaits a step, over any
    /// number of edges. Room is given standing still.
    fn count(&self) -> BTreeSet<RankId> {
        let state_of = |rank: &RankId| self.ranks.get(*rank as usize);
        let is_root =
            |rank: &&RankId| state_of(rank).is_some_and(|state| state.origin == Origin::Root);
        let mut open: Vec<RankId> = self.waiting.iter().filter(is_root).copied().collect();
        let mut found: BTreeSet<RankId> = open.iter().copied().collect();
        while let Some(state) = open.pop().as_ref().and_then(state_of) {
            for edge in state.edges.iter().filter(|edge| edge.kind != WaitKind::Room) {
                if self.waiting.contains(&edge.peer) && found.insert(edge.peer) {
                    open.push(edge.peer);
                }
            }
        }
        found
    }

    /// What this rank waits for becomes the others' obligation, where it is not what it was.
    fn oblige(
        &mut self,
        waiting: RankId,
        old: &[WaitEdge],
        edges: &[WaitEdge],
        touched: &mut Vec<RankId>,
    ) {
        for edge in old {
            if edges.contains(edge) {
                continue;
            }
            let Some(state) = self.rank(edge.peer) else { continue };
            state.obligations.retain(|n| !(n.peer == waiting && n.kind == edge.kind));
            // A parked rank has met the obligation, or could not; it stays as it is. One that runs
            // on for somebody who awaits it no more has to be told, or it would run for nothing.
            if !state.parked {
                state.stale = true;
                touched.push(edge.peer);
            }
        }
        for edge in edges {
            if old.contains(edge) {
                continue;
            }
            let Some(state) = self.rank(edge.peer) else { continue };
            state.obligations.push(WaitEdge { peer: waiting, ..*edge });
            state.stale = true;
            touched.push(edge.peer);
        }
    }

    fn on_parked(&mut self, rank: RankId, version: Version) {
        let Some(state) = self.rank(rank) else { return };
        if version == state.version && !state.stale && !state.parked {
            state.parked = true;
            self.unparked -= 1;
        }
    }

    /// Sends a directive to the ranks for which something has changed.
    fn publish(&mut self, touched: &[RankId], out: &mut Vec<Output>) {
        if self.unheard > 0 {
            return;
        }
        for &rank in touched {
            let Some(state) = self.ranks.get_mut(rank as usize) else { continue };
            if !core::mem::take(&mut state.stale) {
                continue;
            }
            if core::mem::take(&mut state.parked) {
                self.unparked += 1;
            }
            state.version.0 += 1;
            let targets = state.clocks.keys().filter_map(|group| {
                let seq = *self.targets.get(group)?;
                Some(Clock { group: *group, seq })
            });
            let directive = Directive {
                version: state.version,
                targets: targets.collect(),
                obligations: state.obligations.clone(),
            };
            out.push(Output::Directive(rank, directive));
        }
    }

    fn rank(&mut self, rank: RankId) -> Option<&mut RankState> {
        self.ranks.get_mut(rank as usize)
    }
}
