// SPDX-License-Identifier: Apache-2.0
//! The application and the MPI library below it: where each rank is, what is under way.
//!
//! This is what runs natively, without a checkpoint; `native.rs` explores it alone, `job.rs` puts
//! the protocol on top. A call is begun and ended in separate steps wherever it can be caught
//! between.

use crate::program::{Kind, Mask, Mode, Op, Program, Server};
use fermata_protocol::{MessageCounts, RankId};

/// How far a rank has come in its current call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before it; receives and waits have no other phase.
    Outside,
    /// In the barrier that the two-phase algorithm puts before a collective call.
    Trivial,
    /// A collective call has been counted, and the wrapper has not looked for a request yet.
    Counted,
    /// Inside the MPI library.
    Inside,
}

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    serial: u8,
    mode: Mode,
    tag: u8,
    /// The receiver has it out of the network, its sender does not see that.
    held: bool,
}

/// Between two ranks, in this direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lane {
    /// Sent and not taken by the receiver.
    pub net: Vec<Message>,
    /// Taken in, or held, by the receiver before its receive.
    pub unexpected: Vec<Message>,
    /// Messages ever sent.
    pub sent: u8,
    /// Messages ever matched by a receive.
    pub matched: u8,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// Calls done.
    pub pc: u8,
    /// Within the next one.
    pub phase: Phase,
    /// Collective calls begun in the lower half, by index of the group.
    pub begun: Vec<u8>,
    /// Barriers of the two-phase algorithm begun.
    pub trivial: Vec<u8>,
}

/// All ranks and all that is between them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// By rank.
    pub ranks: Vec<At>,
    /// From rank a to rank b: `a * size + b`.
    pub lanes: Vec<Lane>,
}

impl World {
    /// Before the first call.
    #[must_use]
    pub fn new(program: &Program) -> Self {
        let groups = program.groups().len();
        let at =
            At { pc: 0, phase: Phase::Outside, begun: vec![0; groups], trivial: vec![0; groups] };
        let size = program.size();
        Self { ranks: vec![at; size], lanes: vec![Lane::default(); size * size] }
    }

    /// The call that a rank is in or before; none at its end.
    #[must_use]
    pub fn op(&self, program: &Program, rank: usize) -> Option<Op> {
        program.ranks[rank].get(usize::from(self.ranks[rank].pc)).copied()
    }

    /// The rank's server; none at its end.
    #[must_use]
    pub fn server(&self, program: &Program, rank: usize) -> Option<Server> {
        self.op(program, rank)?;
        program.servers.get(rank).copied().flatten()
    }

    /// True if every rank has done all its calls.
    #[must_use]
    pub fn is_over(&self, program: &Program) -> bool {
        (0..self.ranks.len()).all(|rank| self.op(program, rank).is_none())
    }

    /// From a to b.
    #[must_use]
    pub fn lane(&self, from: usize, to: usize) -> &Lane {
        &self.lanes[from * self.ranks.len() + to]
    }

    /// From a to b.
    pub fn lane_mut(&mut self, from: usize, to: usize) -> &mut Lane {
        let size = self.ranks.len();
        &mut self.lanes[from * size + to]
    }

    /// A collective call begins in the lower half.
    pub fn begin_collective(&mut self, rank: usize, group: usize, ends: bool) {
        let at = &mut self.ranks[rank];
        at.begun[group] += 1;
        at.phase = Phase::Inside;
        if ends {
            self.next(rank);
        }
    }

    fn next(&mut self, rank: usize) {
        self.ranks[rank].pc += 1;
        self.ranks[rank].phase = Phase::Outside;
    }

    /// True if the rank's collective call may end, or its wait for a non-blocking one.
    fn is_released(&self, groups: &[Mask], rank: usize, group: Mask, kind: Kind) -> bool {
        let index = index_of(groups, group);
        let own = self.ranks[rank].begun[index];
        let me: Mask = 1 << rank;
        let awaited = match kind {
            Kind::Barrier => group,
            Kind::Bcast(root) if usize::from(root) != rank => 1 << root,
            Kind::Reduce(root) if usize::from(root) == rank => group,
            Kind::Bcast(_) | Kind::Reduce(_) => me,
            Kind::Inter(side) if side & me != 0 => group & !side,
            Kind::Inter(side) => side,
        };
        members(awaited).all(|r| self.ranks[r].begun[index] >= own)
    }

    /// True if all members have entered the two-phase algorithm's barrier that this rank is in.
    #[must_use]
    pub fn trivial_done(&self, groups: &[Mask], rank: usize, group: Mask) -> bool {
        let index = index_of(groups, group);
        let own = self.ranks[rank].trivial[index];
        members(group).all(|r| self.ranks[r].trivial[index] >= own)
    }

    /// Sources whose next message with this tag a receive could match.
    #[must_use]
    pub fn matches(&self, rank: usize, from: Option<u8>, tag: u8) -> Vec<usize> {
        let fits = |source: &usize| {
            let lane = self.lane(*source, rank);
            from.is_none_or(|f| usize::from(f) == *source)
                && lane.unexpected.iter().chain(&lane.net).any(|m| m.tag == tag)
        };
        (0..self.ranks.len()).filter(fits).collect()
    }

    /// The next message from this rank that has not been received is: one that is held, or else one
    /// that leaves the network. It is kept for a later receive.
    pub fn take_in(&mut self, rank: usize, from: usize) {
        let lane = self.lane_mut(from, rank);
        if let Some(message) = lane.unexpected.iter_mut().find(|message| message.held) {
            message.held = false;
        } else {
            let message = lane.net.remove(0);
            lane.unexpected.push(message);
        }
    }

    /// The next message from this rank leaves the network, and its send continues.
    pub fn hold(&mut self, rank: usize, from: usize) {
        let lane = self.lane_mut(from, rank);
        let message = lane.net.remove(0);
        lane.unexpected.push(Message { held: true, ..message });
    }

    /// True if no synchronous message has been received before its receive.
    #[must_use]
    pub fn keeps_promises(&self) -> bool {
        let mut early = self.lanes.iter().flat_map(|lane| &lane.unexpected);
        early.all(|message| message.held || message.mode != Mode::Synchronous)
    }

    /// All that is under way is received and kept.
    pub fn drain(&mut self) {
        for lane in &mut self.lanes {
            lane.unexpected.append(&mut lane.net);
            lane.unexpected.iter_mut().for_each(|message| message.held = false);
        }
    }

    /// Everything that can come of the rank's next step, other than the beginning of a collective
    /// call. Empty if it has to wait, or stands before one.
    #[must_use]
    pub fn steps(&self, program: &Program, groups: &[Mask], rank: usize) -> Vec<Self> {
        let Some(op) = self.op(program, rank) else { return Vec::new() };
        let mut world = self.clone();
        match op {
            Op::Send(to, mode, tag) => {
                if !world.step_send(rank, usize::from(to), mode, tag) {
                    return Vec::new();
                }
            }
            Op::Recv(from, tag) => {
                let receive = |source: usize| {
                    let mut world = self.clone();
                    world.receive(rank, source, tag);
                    world
                };
                return self.matches(rank, from, tag).into_iter().map(receive).collect();
            }
            Op::Coll(group, kind) => {
                let inside = self.ranks[rank].phase == Phase::Inside;
                if !inside || !self.is_released(groups, rank, group, kind) {
                    return Vec::new();
                }
                world.next(rank);
            }
            Op::Start(_) => return Vec::new(),
            Op::Wait(group) => {
                if !self.is_released(groups, rank, group, Kind::Barrier) {
                    return Vec::new();
                }
                world.next(rank);
            }
        }
        vec![world]
    }

    fn step_send(&mut self, rank: usize, to: usize, mode: Mode, tag: u8) -> bool {
        let inside = self.ranks[rank].phase == Phase::Inside;
        let lane = self.lane_mut(rank, to);
        if inside {
            // The last one sent is this one.
            let held = lane.unexpected.iter().filter(|message| message.held);
            if lane.net.iter().chain(held).any(|message| message.serial == lane.sent) {
                return false;
            }
            self.next(rank);
            return true;
        }
        lane.sent += 1;
        let serial = lane.sent;
        lane.net.push(Message { serial, mode, tag, held: false });
        if mode == Mode::Eager {
            self.next(rank);
        } else {
            self.ranks[rank].phase = Phase::Inside;
        }
        true
    }

    fn receive(&mut self, rank: usize, from: usize, tag: u8) {
        let lane = self.lane_mut(from, rank);
        lane.matched += 1;
        if let Some(index) = lane.unexpected.iter().position(|m| m.tag == tag) {
            lane.unexpected.remove(index);
        } else if let Some(index) = lane.net.iter().position(|m| m.tag == tag) {
            lane.net.remove(index);
        }
        self.next(rank);
    }
}

/// The bookmarks of one rank, as its wrappers keep them.
#[derive(Clone, Copy, Debug)]
pub struct CountsOf<'a>(pub &'a World, pub usize);

impl MessageCounts for CountsOf<'_> {
    fn sent(&self, to: RankId) -> u64 {
        self.0.lane(self.1, to as usize).sent.into()
    }
    fn arrived(&self, from: RankId) -> u64 {
        let lane = self.0.lane(from as usize, self.1);
        u64::from(lane.sent) - lane.net.len() as u64
    }
    fn held(&self, from: RankId) -> u64 {
        let lane = self.0.lane(from as usize, self.1);
        lane.unexpected.iter().filter(|message| message.held).count() as u64
    }
    fn matched(&self, from: RankId) -> u64 {
        self.0.lane(from as usize, self.1).matched.into()
    }
}

/// Ranks of a mask, ascending.
pub fn members(mask: Mask) -> impl Iterator<Item = usize> {
    (0..8).filter(move |r| mask & (1 << r) != 0)
}

/// Where a group stands in `Program::groups`.
///
/// # Panics
/// If it is not there.
#[must_use]
pub fn index_of(groups: &[Mask], group: Mask) -> usize {
    match groups.iter().position(|g| *g == group) {
        Some(index) => index,
        None => panic!("group {group:#b} has no clock"),
    }
}
