// SPDX-License-Identifier: Apache-2.0
//! The coordinator's half: targets, needs, when all ranks stand still and when they may continue.
//!
//! Orders go only to ranks for which something has changed, and each rank has its own version. A
//! rank counts as parked if it has said so under the newest version it was sent.
//!
//! A need counts while there is a chain from it to a rank that runs on for its own sake. Else ranks
//! that run on for each other alone would do so for ever.
//!
//! Invariant: `target` of a group is the greatest clock any member has reported.
//! Invariant: if every rank is parked under its newest orders the state is safe and stays so. A
//!            parked rank says nothing and moves only on new orders, and there are none under way;
//!            all clocks have been heard, so in every group all are equal to the target.
//! Invariant: no rank continues from a safe state before all have been cut, or one that continues would
//!            send to one that is still to be cut.

use crate::words::{Cause, Clock, GroupId, Need, NeedKind, Orders, RankId, Report, Version};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// What the coordinator wants done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Send these.
    Orders(RankId, Orders),
    /// Every rank stands still where it can be saved.
    Safe,
    /// Every rank has been cut: all continue.
    Resume,
    /// This rank is inside MPI_Finalize: no checkpoint; the job continues to its end.
    Refused(RankId),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seat {
    /// Of the orders last sent.
    version: Version,
    heard: bool,
    parked: bool,
    cut: bool,
    clocks: BTreeMap<GroupId, u64>,
    /// What this rank needs of others, and why it does not park instead.
    needs: Vec<Need>,
    cause: Cause,
    /// What others need of this rank, as far as it counts.
    needed: Vec<Need>,
    /// Orders have to be sent.
    stale: bool,
}

impl Seat {
    fn new() -> Self {
        Self {
            version: Version(0),
            heard: false,
            parked: false,
            cut: false,
            clocks: BTreeMap::new(),
            needs: Vec::new(),
            cause: Cause::Others,
            needed: Vec::new(),
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
    seats: Vec<Seat>,
    targets: BTreeMap<GroupId, u64>,
    members: BTreeMap<GroupId, Vec<RankId>>,
    /// Ranks that need something.
    needy: BTreeSet<RankId>,
    /// Those whose needs count.
    counted: BTreeSet<RankId>,
    unheard: usize,
    unparked: usize,
    stage: Stage,
}

impl Coordinator {
    /// For ranks `0..ranks`.
    #[must_use]
    pub fn new(ranks: usize) -> Self {
        let mut seats = Vec::new();
        seats.resize_with(ranks, Seat::new);
        Self {
            seats,
            targets: BTreeMap::new(),
            members: BTreeMap::new(),
            needy: BTreeSet::new(),
            counted: BTreeSet::new(),
            unheard: ranks,
            unparked: ranks,
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
        let is_done = |seat: &Seat| if self.has_clocks() { seat.parked } else { seat.heard };
        (0..).zip(&self.seats).filter(move |(_, seat)| is_done(seat)).map(|(rank, _)| rank)
    }

    /// Takes a rank's report; appends what is to be done.
    pub fn on_report(&mut self, rank: RankId, report: &Report, out: &mut Vec<Output>) {
        if self.seat(rank).is_none() {
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
            Report::Needs(cause, needs) => self.replace_needs(rank, *cause, needs, &mut touched),
            Report::Runs => self.replace_needs(rank, Cause::Others, &[], &mut touched),
            Report::Parked(version, clocks) => {
                self.replace_needs(rank, Cause::Others, &[], &mut touched);
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
            self.stage = Stage::Cutting(self.seats.len());
            out.push(Output::Safe);
        }
    }

    fn on_cut(&mut self, rank: RankId, left: usize, out: &mut Vec<Output>) {
        let Some(seat) = self.seat(rank) else { return };
        if core::mem::replace(&mut seat.cut, true) {
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
        let Some(seat) = self.seat(rank) else { return };
        if seat.heard {
            return;
        }
        seat.heard = true;
        self.unheard -= 1;
        if self.unheard == 0 {
            // The first orders go to everybody.
            for (rank, seat) in (0..).zip(&mut self.seats) {
                seat.stale = true;
                touched.push(rank);
            }
        }
    }

    /// A rank's clock. Whoever is now known to be behind its group's target gets orders.
    fn merge(&mut self, rank: RankId, clock: Clock, touched: &mut Vec<RankId>) {
        let Some(seat) = self.seat(rank) else { return };
        let known = seat.clocks.insert(clock.group, clock.seq).is_some();
        let members = self.members.entry(clock.group).or_default();
        if !known {
            members.push(rank);
        }
        let target = self.targets.entry(clock.group).or_insert(0);
        if clock.seq > *target {
            *target = clock.seq;
            for &member in members.iter() {
                let Some(seat) = self.seats.get_mut(member as usize) else { continue };
                if seat.clocks.get(&clock.group).is_some_and(|seq| *seq < clock.seq) {
                    seat.stale = true;
                    touched.push(member);
                }
            }
        } else if clock.seq < *target && !known {
            // A member of a group that it had not been known to be in.
            if let Some(seat) = self.seat(rank) {
                seat.stale = true;
                touched.push(rank);
            }
        }
    }

    fn replace_needs(
        &mut self,
        needy: RankId,
        cause: Cause,
        needs: &[Need],
        touched: &mut Vec<RankId>,
    ) {
        let Some(seat) = self.seat(needy) else { return };
        seat.cause = cause;
        let old = core::mem::replace(&mut seat.needs, needs.to_vec());
        if old.is_empty() && needs.is_empty() {
            return;
        }
        if needs.is_empty() {
            self.needy.remove(&needy);
        } else {
            self.needy.insert(needy);
        }
        if self.counted.contains(&needy) {
            self.pass_on(needy, &old, needs, touched);
        }
        let now = self.count();
        let before = core::mem::replace(&mut self.counted, now.clone());
        for rank in before.symmetric_difference(&now) {
            let Some(seat) = self.seat(*rank) else { continue };
            let needs = seat.needs.clone();
            let none: &[Need] = &[];
            let (old, new) = if now.contains(rank) { (none, &*needs) } else { (&*needs, none) };
            self.pass_on(*rank, old, new, touched);
        }
    }

    /// The ranks whose needs count: those that run on for their own sake, and those of which such
    /// a one needs a step, over any number of links. Room is given standing still.
    fn count(&self) -> BTreeSet<RankId> {
        let seat_of = |rank: &RankId| self.seats.get(*rank as usize);
        let runs_for_itself =
            |rank: &&RankId| seat_of(rank).is_some_and(|seat| seat.cause == Cause::Own);
        let mut open: Vec<RankId> = self.needy.iter().filter(runs_for_itself).copied().collect();
        let mut found: BTreeSet<RankId> = open.iter().copied().collect();
        while let Some(seat) = open.pop().as_ref().and_then(seat_of) {
            for need in seat.needs.iter().filter(|need| need.kind != NeedKind::Room) {
                if self.needy.contains(&need.peer) && found.insert(need.peer) {
                    open.push(need.peer);
                }
            }
        }
        found
    }

    /// What this rank needs is told to those that it needs, where it is not what it was.
    fn pass_on(&mut self, needy: RankId, old: &[Need], needs: &[Need], touched: &mut Vec<RankId>) {
        for need in old {
            if needs.contains(need) {
                continue;
            }
            let Some(seat) = self.seat(need.peer) else { continue };
            seat.needed.retain(|n| !(n.peer == needy && n.kind == need.kind));
            // A parked rank has met the need, or could not; it stays as it is. One that runs on for
            // somebody who needs it no more has to be told, or it would run for nothing.
            if !seat.parked {
                seat.stale = true;
                touched.push(need.peer);
            }
        }
        for need in needs {
            if old.contains(need) {
                continue;
            }
            let Some(seat) = self.seat(need.peer) else { continue };
            seat.needed.push(Need { peer: needy, ..*need });
            seat.stale = true;
            touched.push(need.peer);
        }
    }

    fn on_parked(&mut self, rank: RankId, version: Version) {
        let Some(seat) = self.seat(rank) else { return };
        if version == seat.version && !seat.stale && !seat.parked {
            seat.parked = true;
            self.unparked -= 1;
        }
    }

    /// Sends orders to the ranks for which something has changed.
    fn publish(&mut self, touched: &[RankId], out: &mut Vec<Output>) {
        if self.unheard > 0 {
            return;
        }
        for &rank in touched {
            let Some(seat) = self.seats.get_mut(rank as usize) else { continue };
            if !core::mem::take(&mut seat.stale) {
                continue;
            }
            if core::mem::take(&mut seat.parked) {
                self.unparked += 1;
            }
            seat.version.0 += 1;
            let targets = seat.clocks.keys().filter_map(|group| {
                let seq = *self.targets.get(group)?;
                Some(Clock { group: *group, seq })
            });
            let orders = Orders {
                version: seat.version,
                targets: targets.collect(),
                needs: seat.needed.clone(),
            };
            out.push(Output::Orders(rank, orders));
        }
    }

    fn seat(&mut self, rank: RankId) -> Option<&mut Seat> {
        self.seats.get_mut(rank as usize)
    }
}
