// SPDX-License-Identifier: Apache-2.0
//! What a process knows of its communicators: which machine a message is for, when a machine wants
//! to be woken, who is dead. It does one round at a time and never waits. While nothing can be
//! concluded from the silence of a member (`Net::is_unsettled_with`) a communicator's clock stands.

use crate::calls::{Calls, Number, Task};
use crate::clock::Clock;
use crate::error::CallError;
use crate::lane::{Doing, Lane, LaneKey};
use crate::net::{Arrival, Net};
use crate::value::{Data, Slot};
use crate::wire::{self, Address};
use fermata_ftcoll::ftco::{self, Operation, Timeouts};
use fermata_ftcoll::{Actions, Event, Rank, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Frames of one process for communicators that are not made here yet. One who sends more is
/// broken: it could not be so many calls ahead.
const EARLY_MAX: usize = 4096;

/// Between two looks while connections are held, which end without an event.
const HELD_STEP: Duration = Duration::from_millis(5);

/// How the processes of a job deal with failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// In nanoseconds.
    pub timeouts: Timeouts,
    /// Whether a connection that breaks is a death; else only silence is.
    pub heeds_closing: bool,
}

/// A communicator.
struct Group {
    /// World ranks, by rank in the communicator.
    members: Vec<Rank>,
    me: Rank,
    clock: Clock,
    lanes: BTreeMap<LaneKey, Lane>,
    /// Its calls survive nothing: to measure what it costs that others do.
    is_plain: bool,
    calls: Calls,
    is_freed: bool,
}

impl Group {
    fn size(&self) -> Rank {
        Rank::try_from(self.members.len()).unwrap_or(Rank::MAX)
    }

    /// As its machines have it.
    fn time(&self, now: Instant) -> Time {
        Time::try_from(self.clock.at(now).as_nanos()).unwrap_or(Time::MAX)
    }

    fn is_far_ahead(&self, lane: LaneKey) -> bool {
        self.lanes.get(&lane).is_some_and(Lane::is_far_ahead)
    }

    fn rank_of(&self, world: Rank) -> Option<Rank> {
        let at = self.members.iter().position(|&member| member == world)?;
        Rank::try_from(at).ok()
    }
}

/// The machines and the connections of a process.
pub(crate) struct Engine {
    net: Net,
    rules: Rules,
    /// A clock may stand.
    is_unsettled: bool,
    /// How often all connections were gone, and since when they were last.
    partings: u32,
    parted: Instant,
    groups: BTreeMap<u64, Group>,
    /// Bodies for communicators that are not made yet: by whom, what.
    early: BTreeMap<u64, Vec<(Rank, Vec<u8>)>>,
    /// Taken for dead by some machine, and not heard of since.
    suspected: BTreeSet<Rank>,
    arrivals: Vec<Arrival>,
    actions: Doing,
    frame: Vec<u8>,
    /// Communicators whose call in progress has a result.
    ended: Vec<u64>,
}

impl Engine {
    pub fn new(net: Net, rules: Rules) -> Self {
        Self {
            net,
            rules,
            is_unsettled: false,
            partings: 0,
            parted: Instant::now(),
            groups: BTreeMap::new(),
            early: BTreeMap::new(),
            suspected: BTreeSet::new(),
            arrivals: Vec::new(),
            actions: Actions::default(),
            frame: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// The time that has passed for a communicator, as far as it counts.
    pub fn clock(&self, group: u64) -> Duration {
        self.groups.get(&group).map_or(Duration::ZERO, |group| group.clock.at(Instant::now()))
    }

    fn mind_clocks(&mut self) {
        let is_unsettled = self.net.is_unsettled();
        if is_unsettled || self.is_unsettled {
            self.is_unsettled = is_unsettled;
            let now = Instant::now();
            for group in self.groups.values_mut() {
                let is_unsettled = |&member: &Rank| self.net.is_unsettled_with(member);
                group.clock.stand_if(group.members.iter().any(is_unsettled), now);
            }
        }
    }

    /// Before the process stands still for a checkpoint.
    pub fn hold(&mut self) {
        self.net.hold();
        self.mind_clocks();
    }

    /// After it, where the process just continues.
    pub fn release(&mut self) {
        let mut arrivals = Vec::new();
        self.net.release(&mut arrivals);
        self.mind_clocks();
        self.take_in(arrivals);
    }

    /// After it, in a process that was made again: all connections are gone.
    pub fn part(&mut self) {
        self.partings = self.partings.wrapping_add(1);
        self.parted = Instant::now();
        self.net.part();
        self.mind_clocks();
    }

    /// Asks the others whether they have what was sent to them.
    pub fn ask(&mut self) {
        self.net.ask();
    }

    /// Whether somebody has not said so.
    pub fn is_owing(&self) -> bool {
        self.net.is_owing()
    }

    /// Whether a member of the communicator may never have what was sent to it unless it finds
    /// this process again.
    pub fn owes(&self, group: u64) -> bool {
        let group = self.groups.get(&group).filter(|_| self.net.is_unsettled());
        group.is_some_and(|group| group.members.iter().any(|&member| self.net.owes(member)))
    }

    /// How often that was.
    pub fn partings(&self) -> u32 {
        self.partings
    }

    /// Since when all connections are gone that were there; before that, since the beginning.
    pub fn parted(&self) -> Instant {
        self.parted
    }

    /// Since when all connections are gone, if nobody has said yet where a member of the
    /// communicator is.
    pub fn apart_since(&self, group: u64) -> Option<Instant> {
        let group = self.groups.get(&group).filter(|_| self.is_unsettled)?;
        group.members.iter().any(|&member| self.net.is_apart(member)).then_some(self.parted)
    }

    /// Listens for the others once more, there too. Returns where.
    pub fn open_door(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.net.open_door(address)
    }

    /// Begins to connect again to a process, at one of these addresses.
    pub fn meet_again(&mut self, rank: Rank, addresses: &[SocketAddr], until: Instant) {
        let mut arrivals = Vec::new();
        self.net.meet_again(rank, addresses, until, &mut arrivals);
        self.take_in(arrivals);
    }

    /// How many processes are reached beside their sockets.
    pub fn carried(&self) -> usize {
        self.net.carried()
    }

    /// The descriptors of all sockets.
    pub fn sockets(&self) -> Vec<RawFd> {
        self.net.sockets()
    }

    /// Makes a communicator of these world ranks, of which this process is number `me`.
    pub fn make_group(&mut self, id: u64, members: Vec<Rank>, me: Rank) {
        let (clock, lanes) = (Clock::default(), BTreeMap::new());
        let calls = Calls::default();
        let (is_plain, is_freed) = (false, false);
        let group = Group { members, me, clock, lanes, is_plain, calls, is_freed };
        self.groups.insert(id, group);
        self.mind_clocks();
        for (from, body) in self.early.remove(&id).unwrap_or_default() {
            self.deliver(from, &body);
        }
    }

    /// Has the calls of a communicator survive nothing, before its first one anywhere.
    pub fn make_plain(&mut self, id: u64) {
        if let Some(group) = self.groups.get_mut(&id) {
            group.is_plain = true;
        }
    }

    /// Forgets a communicator, once its calls have been made: others need them.
    pub fn free_group(&mut self, id: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.is_freed = true;
        if group.calls.are_over() {
            self.groups.remove(&id);
        }
    }

    /// A call of the communicator is given up: it is of no more use. Nobody needs what the
    /// program's operation is called with any more, so it is not called.
    pub fn give_up(&mut self, id: u64) {
        let Some(group) = self.groups.get_mut(&id) else { return };
        group.calls.give_up();
        group.lanes.values().for_each(|lane| lane.slot.set(None));
    }

    /// The calls of a communicator.
    pub fn calls(&mut self, id: u64) -> Result<&mut Calls, CallError> {
        self.groups.get_mut(&id).map(|group| &mut group.calls).ok_or(CallError::Argument)
    }

    /// Whether a call has ended whose result nobody has taken.
    pub fn has_result(&self, id: u64, number: Number) -> bool {
        self.groups.get(&id).is_some_and(|group| group.calls.has_result(number))
    }

    /// Begins a call, or has it wait until those before it have ended.
    pub fn begin(&mut self, id: u64, task: Task) -> Result<Number, CallError> {
        let number = self.calls(id)?.push(task)?;
        self.advance(id);
        Ok(number)
    }

    /// Takes the result of the call in progress, if it has one, and starts the next one. The root
    /// of broadcasts waits for nobody: so many of them, and a barrier comes first.
    fn advance(&mut self, id: u64) {
        while let Some(group) = self.groups.get_mut(&id) {
            if let Some(lane) = group.calls.current() {
                let lane = group.lanes.get_mut(&lane);
                let Some(verdict) = lane.and_then(Lane::take_result) else { return };
                group.calls.end(verdict);
                continue;
            }
            let bcast = group.calls.first().filter(|task| task.operation == Operation::Bcast);
            let lane = bcast.map(|task| task.lane);
            if let Some(lane) = lane.filter(|lane| group.is_far_ahead(*lane)) {
                group.calls.hold_up(lane);
            }
            let Some(task) = group.calls.next() else {
                if group.is_freed {
                    self.groups.remove(&id);
                }
                return;
            };
            self.start(id, task);
        }
    }

    fn start(&mut self, group: u64, task: Task) {
        let to = Address { group, lane: task.lane };
        let suspected: Vec<_> = self.suspected.iter().copied().collect();
        for world in suspected {
            self.tell_death(to, world);
        }
        self.with_lane(to, |lane| {
            lane.slot.set(task.op);
            lane.prepare(task.operation, task.value);
            Event::Start
        });
    }

    /// Where values for the lane find the program's operation.
    pub fn slot(&mut self, to: Address) -> Slot {
        self.lane_of(to).map(|lane| lane.slot.clone()).unwrap_or_default()
    }

    /// Does all that can be done without waiting.
    pub fn progress(&mut self) -> io::Result<()> {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.net.turn(&mut arrivals)?;
        self.arrivals = self.take_in(arrivals);
        self.mind_clocks();
        let now = Instant::now();
        let due =
            |group: &Group, lane: &Lane| !group.clock.stands() && lane.is_due(group.time(now));
        for to in self.lanes_where(due) {
            self.with_lane(to, |_| Event::Timer);
        }
        self.advance_ended();
        Ok(())
    }

    /// Lets the machines have what has come; returns the emptied list.
    pub fn take_in(&mut self, mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
        for arrival in arrivals.drain(..) {
            match arrival {
                Arrival::Body(from, body) => self.deliver(from, &body),
                Arrival::Lost(rank) => self.lose(rank),
            }
        }
        self.advance_ended();
        arrivals
    }

    fn advance_ended(&mut self) {
        while let Some(id) = self.ended.pop() {
            self.advance(id);
        }
    }

    /// Ends all connections.
    pub fn close(&mut self) {
        self.net.close();
    }

    /// How long to wait if nothing comes; `None` if nothing is due.
    pub fn next_due(&self) -> Option<Duration> {
        let now = Instant::now();
        let due_in = |group: &Group| {
            let wake = group.lanes.values().filter_map(Lane::wake).min()?;
            let due = Duration::from_nanos(wake.saturating_sub(group.time(now)));
            (!group.clock.stands()).then_some(due)
        };
        let step = self.net.is_held().then_some(HELD_STEP);
        self.groups.values().filter_map(due_in).chain(step).chain(self.net.next_due()).min()
    }

    /// Has who waits look again when something is due.
    pub fn nudge(&self) {
        self.net.nudge();
    }

    /// Whether there is something to do without being asked: a call is in progress, or something
    /// waits to be sent.
    pub fn is_busy(&self) -> bool {
        let is_busy = |group: &Group| !group.calls.are_over();
        self.net.next_due().is_some() || self.groups.values().any(is_busy)
    }

    /// Whether something waits to be sent.
    pub fn is_sending(&self) -> bool {
        self.net.is_sending()
    }

    fn lanes_where(&self, is_meant: impl Fn(&Group, &Lane) -> bool) -> Vec<Address> {
        let mut found = Vec::new();
        for (&group, room) in &self.groups {
            let lanes = room.lanes.iter().filter(|(_, lane)| is_meant(room, lane));
            found.extend(lanes.map(|(&lane, _)| Address { group, lane }));
        }
        found
    }

    /// A body that has come. One that no process of this job writes ends the connection.
    fn deliver(&mut self, from: Rank, body: &[u8]) {
        self.suspected.remove(&from);
        if self.try_deliver(from, body).is_err() {
            let mut arrivals = Vec::new();
            self.net.dismiss(from, &mut arrivals);
            self.lose(from);
        }
    }

    fn try_deliver(&mut self, from: Rank, body: &[u8]) -> Result<(), wire::Malformed> {
        let to = wire::address(body)?;
        let Some(group) = self.groups.get(&to.group) else {
            return self.keep(to.group, from, body);
        };
        let (size, rank) = (group.size(), group.rank_of(from).ok_or(wire::Malformed)?);
        if to.lane.root >= size {
            return Err(wire::Malformed);
        }
        let slot = self.lane_of(to).ok_or(wire::Malformed)?.slot.clone();
        let message = wire::read(body, size, &slot)?;
        self.with_lane(to, |lane| lane.message(rank, message));
        Ok(())
    }

    /// Keeps a body for a communicator that is not made here yet, and says that this process
    /// lives.
    fn keep(&mut self, group: u64, from: Rank, body: &[u8]) -> Result<(), wire::Malformed> {
        if let Some(ack) = wire::ack_of(body) {
            self.net.send(from, &ack);
        }
        let kept = self.early.entry(group).or_default();
        if kept.iter().filter(|(rank, _)| *rank == from).count() >= EARLY_MAX {
            return Err(wire::Malformed);
        }
        kept.push((from, body.to_vec()));
        Ok(())
    }

    /// Nothing will come from this process any more.
    fn lose(&mut self, world: Rank) {
        self.early.values_mut().for_each(|kept| kept.retain(|(rank, _)| *rank != world));
        if self.rules.heeds_closing {
            for to in self.lanes_where(|_, _| true) {
                self.tell_death(to, world);
            }
        }
    }

    fn tell_death(&mut self, to: Address, world: Rank) {
        let rank = self.groups.get(&to.group).and_then(|group| group.rank_of(world));
        if let Some(rank) = rank {
            self.with_lane(to, |lane| lane.death(rank));
        }
    }

    /// The lane, made if it is not there. One that is made knows who is dead.
    fn lane_of(&mut self, to: Address) -> Option<&mut Lane> {
        let group = self.groups.get_mut(&to.group)?;
        if !group.lanes.contains_key(&to.lane) {
            let timeouts = (!group.is_plain).then_some(self.rules.timeouts);
            let mut lane = Lane::new(to.lane, group.me, group.size(), timeouts);
            if self.rules.heeds_closing {
                for rank in self.net.lost().filter_map(|world| group.rank_of(world)) {
                    // Between calls nothing follows from a death but that it is remembered.
                    lane.step(lane.death(rank), 0, &mut self.actions);
                    self.actions.clear();
                }
            }
            group.lanes.insert(to.lane, lane);
        }
        group.lanes.get_mut(&to.lane)
    }

    /// Lets the lane's machine do a step, and sends what it says.
    fn with_lane(
        &mut self,
        to: Address,
        event: impl FnOnce(&mut Lane) -> Event<ftco::Message<Data>>,
    ) {
        let Some(now) = self.groups.get(&to.group).map(|group| group.time(Instant::now())) else {
            return;
        };
        let mut actions = std::mem::take(&mut self.actions);
        let Some(lane) = self.lane_of(to) else { return };
        let event = event(lane);
        let had_result = lane.has_result();
        lane.step(event, now, &mut actions);
        let has_ended = lane.has_result() && !had_result;
        let sends: Vec<_> =
            actions.sends.drain(..).map(|(rank, m)| (lane.to_real(rank), m)).collect();
        self.actions = actions;
        let Some(group) = self.groups.get(&to.group) else { return };
        for (rank, message) in sends {
            let Some(&world) = group.members.get(rank as usize) else { continue };
            self.frame.clear();
            wire::write(to, &message, &mut self.frame);
            self.net.send(world, &self.frame);
        }
        if has_ended {
            let dead = group.lanes.get(&to.lane).into_iter().flat_map(Lane::dead);
            let worlds = dead.filter_map(|rank| group.members.get(rank as usize));
            self.suspected.extend(worlds);
            self.ended.push(to.group);
        }
    }
}
