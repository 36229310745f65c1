// SPDX-License-Identifier: Apache-2.0
//! A cluster in fake time: processes on nodes with clocks of their own, a network that loses and
//! delays, standstills, deaths, cuts.
//!
//! Common random numbers: whether the k-th datagram from a node to another one is lost, and what
//! happens to which node when, depend on the seed alone. So a datagram that is lost at a loss of 5
//! % is lost at 10 % as well, and two protocols meet the same deaths and standstills.

use super::chance::{SECOND, delay, mix, time, unit};
use super::fate::WARM_UP;
use super::outcome::Outcome;
use super::process::{Input, Output, Process};
use super::setting::Setting;
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// What a receiver's socket holds while its process stands still: 212992 bytes, of which the kernel
/// counts 2304 for each datagram of this length (`net.core.rmem_default`, skb->truesize).
const SOCKET_HOLDS: usize = 92;
/// Of UDP and IPv4, and of what authenticates a datagram.
const OVERHEAD_BYTES: u64 = 28 + 30;
/// Whoever announces a standstill waits for so long that this is confirmed.
const CONFIRMED: u64 = SECOND;
/// A node that has died comes back so long after the coordinator knew, under a new incarnation.
const AWAY: u64 = 6 * SECOND;
/// A node that has begun so recently does not die: the coordinator may not know of it.
const NEW: u64 = 4 * SECOND;
/// Who is back from an announced standstill since so short a time does not die: for the coordinator
/// it may still stand still.
const BACK: u64 = 3 * SECOND;
/// A death that nobody has noticed by then never will be.
const UNNOTICED: u64 = 60 * SECOND;

/// What happens at a time.
pub enum Happening {
    Deliver {
        to: u16,
        from: u16,
        bytes: Vec<u8>,
    },
    Timer {
        node: u16,
        serial: u64,
    },
    /// It stands still for so long, in microseconds.
    Pause {
        node: u16,
        length: u64,
    },
    /// All do.
    Stall {
        length: u64,
    },
    Resume {
        node: u16,
        serial: u64,
    },
    Freeze {
        node: u16,
    },
    /// It begins to stand still, if it has not yet.
    Freezes {
        node: u16,
        serial: u64,
    },
    Die,
    Begin {
        node: u16,
    },
    /// A part of the nodes is cut off, or no longer.
    Cut(u16),
    Sample,
}

struct Item {
    at: u64,
    serial: u64,
    happening: Happening,
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Item {}
impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Item {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// A node, and its process while it has one.
pub struct Node {
    process: Option<Box<dyn Process>>,
    /// The incarnation with which the process began.
    first: u16,
    next: u16,
    clock_base: u64,
    clock_ppm: u64,
    timer: Option<(u64, u64)>,
    /// It stands still until the resumption with this number.
    paused: Option<u64>,
    is_frozen: bool,
    /// It has announced a standstill, which needs so long and which this number stands for.
    freezes: Option<(u64, u64)>,
    waiting: VecDeque<(u16, Vec<u8>)>,
    begun: u64,
    /// When it came back from an announced standstill.
    back: u64,
    died: Option<u64>,
    /// How long the process of node 0 had stood still by then.
    still_at_death: u64,
    pub(super) random: Random,
}

impl Node {
    fn local(&self, at: u64) -> u64 {
        self.clock_base + at * (1_000_000 + self.clock_ppm) / 1_000_000 / 1000
    }

    /// When its clock shows this.
    fn real(&self, local: u64) -> u64 {
        let past = local.saturating_sub(self.clock_base);
        (past * 1000 * 1_000_000).div_ceil(1_000_000 + self.clock_ppm)
    }
}

/// A cluster.
pub struct World<'a> {
    pub(super) setting: &'a Setting,
    now: u64,
    pub(super) end: u64,
    serial: u64,
    queue: BinaryHeap<Reverse<Item>>,
    pub(super) nodes: Vec<Node>,
    links: Vec<u32>,
    /// Nodes below this number, but 0, are cut off from the others.
    cut: u16,
    pub(super) random: Random,
    /// How long the process of node 0 has stood still, and since when it does.
    still: u64,
    still_since: Option<u64>,
    alarmed: BTreeSet<(u16, u16)>,
    outcome: Outcome,
}

impl<'a> World<'a> {
    /// A cluster that runs for the setting's time.
    pub fn new(setting: &'a Setting, seed: u64) -> Self {
        let nodes = (0..setting.nodes).map(|node| {
            let mut own = Random::new(seed, 1 + u64::from(node));
            Node {
                process: None,
                first: 0,
                next: 0,
                clock_base: time(own.between(0.0, 1e9)),
                clock_ppm: time(own.between(0.0, 200.0)),
                timer: None,
                paused: None,
                is_frozen: false,
                freezes: None,
                waiting: VecDeque::new(),
                begun: 0,
                back: 0,
                died: None,
                still_at_death: 0,
                random: own,
            }
        });
        let nodes: Vec<Node> = nodes.collect();
        let links = vec![0; nodes.len() * nodes.len()];
        let mut world = Self {
            setting,
            now: 0,
            end: WARM_UP + time(setting.seconds * SECOND as f64),
            serial: 0,
            queue: BinaryHeap::new(),
            nodes,
            links,
            cut: 0,
            random: Random::new(seed, 0),
            still: 0,
            still_since: None,
            alarmed: BTreeSet::new(),
            outcome: Outcome::default(),
        };
        world.plan();
        world
    }

    pub(super) fn at(&mut self, at: u64, happening: Happening) {
        self.serial += 1;
        self.queue.push(Reverse(Item { at, serial: self.serial, happening }));
    }

    /// Runs to the end. Returns what came of it.
    pub fn run(mut self, seed: u64) -> Outcome {
        while let Some(Reverse(item)) = self.queue.pop() {
            if item.at > self.end {
                break;
            }
            self.now = item.at;
            self.happen(item.happening, seed);
        }
        self.outcome
    }

    fn happen(&mut self, happening: Happening, seed: u64) {
        match happening {
            Happening::Deliver { to, from, bytes } => self.deliver(to, from, bytes, seed),
            Happening::Timer { node, serial } => {
                let due = self.nodes[usize::from(node)].timer;
                if due.is_some_and(|(_, wanted)| wanted == serial) {
                    self.expire(node, seed);
                }
            }
            Happening::Pause { node, length } => {
                self.pause(node, length);
                self.plan_pause(node, self.now + length);
            }
            Happening::Stall { length } => {
                for node in 0..self.setting.nodes {
                    self.pause(node, length);
                }
            }
            Happening::Resume { node, serial } => {
                if self.nodes[usize::from(node)].paused == Some(serial) {
                    self.resume(node, seed);
                }
            }
            Happening::Freeze { node } => self.freeze(node, seed),
            Happening::Freezes { node, serial } => {
                let awaited = self.nodes[usize::from(node)].freezes;
                if awaited.is_some_and(|(_, wanted)| wanted == serial) {
                    self.freezes(node);
                }
            }
            Happening::Die => {
                self.die();
                self.plan_death(self.now);
            }
            Happening::Begin { node } => self.begin(node, seed),
            Happening::Cut(count) => self.cut = count,
            Happening::Sample => self.sample(),
        }
    }

    fn begin(&mut self, node: u16, seed: u64) {
        let at = usize::from(node);
        let life = self.nodes[at].next;
        let local = self.nodes[at].local(self.now);
        let own_seed = mix([seed, 13, u64::from(node), u64::from(life)]);
        let mut process = self.setting.protocol.process(self.setting, node, life, own_seed, local);
        let outputs = process.begin(local);
        let state = &mut self.nodes[at];
        (state.first, state.died, state.paused, state.is_frozen) = (life, None, None, false);
        (state.begun, state.freezes) = (self.now, None);
        state.waiting.clear();
        state.process = Some(process);
        self.perform(node, outputs, seed);
    }

    fn step(&mut self, node: u16, input: Input, seed: u64) {
        let state = &mut self.nodes[usize::from(node)];
        let local = state.local(self.now);
        let Some(process) = &mut state.process else { return };
        let outputs = process.step(input, local);
        self.perform(node, outputs, seed);
    }

    fn perform(&mut self, node: u16, outputs: Vec<Output>, seed: u64) {
        for output in outputs {
            match output {
                Output::Send { to, bytes } => self.send(node, to, bytes, seed),
                Output::Timer(local) => {
                    let due = self.nodes[usize::from(node)].real(local).max(self.now);
                    self.nodes[usize::from(node)].timer = Some((due, self.serial + 1));
                    self.at(due, Happening::Timer { node, serial: self.serial + 1 });
                }
                Output::Down(of, incarnation) => self.down(node, of, incarnation),
                Output::Suspect => self.outcome.suspicions += 1,
                Output::Announced => self.freezes(node),
            }
        }
    }

    fn send(&mut self, from: u16, to: u16, bytes: Vec<u8>, seed: u64) {
        if usize::from(to) >= self.nodes.len() {
            return;
        }
        if self.now >= WARM_UP {
            self.outcome.bytes += bytes.len() as u64 + OVERHEAD_BYTES;
            self.outcome.datagrams += 1;
        }
        let link = usize::from(from) * self.nodes.len() + usize::from(to);
        self.links[link] += 1;
        let word = mix([seed, u64::from(from), u64::from(to), u64::from(self.links[link])]);
        let is_inside = |node: u16| node != 0 && node < self.cut;
        let is_cut = self.cut > 0 && is_inside(from) != is_inside(to);
        if unit(word) >= self.setting.loss && !is_cut {
            self.at(self.now + delay(word), Happening::Deliver { to, from, bytes });
        }
    }

    fn deliver(&mut self, to: u16, from: u16, bytes: Vec<u8>, seed: u64) {
        let state = &mut self.nodes[usize::from(to)];
        if state.paused.is_some() {
            if state.waiting.len() < SOCKET_HOLDS {
                state.waiting.push_back((from, bytes));
            }
            return;
        }
        self.step(to, Input::Datagram { from, bytes }, seed);
    }

    fn expire(&mut self, node: u16, seed: u64) {
        if self.nodes[usize::from(node)].paused.is_none() {
            self.nodes[usize::from(node)].timer = None;
            self.step(node, Input::Timer, seed);
        }
    }

    fn pause(&mut self, node: u16, length: u64) {
        let state = &mut self.nodes[usize::from(node)];
        if state.process.is_none() || state.paused.is_some() {
            return;
        }
        state.paused = Some(self.serial + 1);
        if node == 0 {
            self.still_since = Some(self.now);
        }
        self.at(self.now + length, Happening::Resume { node, serial: self.serial + 1 });
    }

    fn coordinator_still(&self) -> u64 {
        self.still + self.still_since.map_or(0, |since| self.now - since)
    }

    /// First what has come, then the timer.
    fn resume(&mut self, node: u16, seed: u64) {
        let at = usize::from(node);
        self.nodes[at].paused = None;
        if node == 0 {
            self.still = self.coordinator_still();
            self.still_since = None;
        }
        let waiting = std::mem::take(&mut self.nodes[at].waiting);
        let was_frozen = std::mem::take(&mut self.nodes[at].is_frozen);
        for (from, bytes) in waiting {
            self.deliver(node, from, bytes, seed); // one of them may let it stand still again
        }
        let is_hardly_back = self.now < self.nodes[at].back + BACK;
        if was_frozen || is_hardly_back && self.nodes[at].back > 0 {
            self.nodes[at].back = self.now;
        }
        if was_frozen {
            let local = self.nodes[at].local(self.now);
            self.step(node, Input::Frozen(local), seed);
        }
        if self.nodes[at].timer.is_some_and(|(due, _)| due <= self.now) {
            self.expire(node, seed);
        }
    }

    /// It says that it will stand still for 2 to 20 s, does so as soon as this is confirmed, and
    /// needs half of it or more; it is back before the end.
    fn freeze(&mut self, node: u16, seed: u64) {
        let at = usize::from(node);
        let length = self.nodes[at].random.between(2.0, 20.0);
        let needs = (length - 1.0) * self.nodes[at].random.between(0.5, 1.0);
        if self.nodes[at].process.is_some() && self.nodes[at].paused.is_none() {
            let until = self.nodes[at].local(self.now) + time(length * 1e3);
            let serial = self.serial + 1;
            self.nodes[at].freezes = Some((time(needs * 1e6), serial));
            self.at(self.now + CONFIRMED, Happening::Freezes { node, serial });
            self.step(node, Input::Frozen(until), seed);
        }
        self.plan_freeze(node, self.now + time(length * 1e6) + 2 * SECOND);
    }

    fn freezes(&mut self, node: u16) {
        let state = &mut self.nodes[usize::from(node)];
        let Some((needs, _)) = state.freezes.take() else { return };
        if state.process.is_some() && state.paused.is_none() {
            state.is_frozen = true;
            self.pause(node, needs);
        }
    }

    /// So many nodes of those that live and have not said that they stand still.
    fn die(&mut self) {
        for _ in 0..self.setting.deaths_at_once {
            let living = |node: &u16| {
                let state = &self.nodes[usize::from(*node)];
                let is_known = self.now > state.begun + NEW;
                let is_back = self.now > state.back + BACK;
                let is_awake = is_back && !state.is_frozen && state.freezes.is_none();
                state.process.is_some() && is_known && is_awake
            };
            let living: Vec<u16> = (1..self.setting.nodes).filter(living).collect();
            let Some(&node) = self.random.choice(&living) else { return };
            let still = self.coordinator_still();
            let state = &mut self.nodes[usize::from(node)];
            state.still_at_death = still;
            state.next = state.process.as_ref().map_or(0, |process| process.incarnation()) + 1;
            state.process = None;
            (state.died, state.timer, state.paused) = (Some(self.now), None, None);
        }
    }

    fn down(&mut self, by: u16, of: u16, incarnation: u16) {
        let Some(state) = self.nodes.get_mut(usize::from(of)) else { return };
        if state.process.is_some() {
            let is_cut = self.setting.cut.is_some_and(|cut| cut.seconds > 3.0);
            let is_false = incarnation >= state.first && self.now >= WARM_UP && !is_cut;
            if is_false && self.alarmed.insert((of, incarnation)) {
                self.outcome.alarms += 1;
            }
            return;
        }
        if by == 0 {
            if let Some(died) = state.died.take() {
                let asleep = self.still.saturating_sub(state.still_at_death);
                self.outcome.known_ms.push((self.now - died) / 1000);
                self.outcome.awake_ms.push((self.now - died).saturating_sub(asleep) / 1000);
                self.at(self.now + AWAY, Happening::Begin { node: of });
            }
        }
    }

    fn sample(&mut self) {
        let mut unnoticed = Vec::new();
        for (number, state) in (0..).zip(&mut self.nodes) {
            if state.process.is_some() {
                self.outcome.node_seconds += 1.0;
            }
            if state.died.is_some_and(|died| self.now > died + UNNOTICED) {
                state.died = None;
                unnoticed.push(number);
            }
        }
        for node in unnoticed {
            self.outcome.unnoticed += 1;
            self.at(self.now + AWAY, Happening::Begin { node });
        }
        if self.outcome.ages_ms.len() < 200_000 {
            // One node at a time.
            let node = self.random.below(u32::from(self.setting.nodes)) as usize;
            let local = self.nodes[node].local(self.now);
            if let Some(process) = &self.nodes[node].process {
                if self.nodes[node].paused.is_none() {
                    self.outcome.ages_ms.extend(process.ages(local));
                }
            }
        }
        self.at(self.now + SECOND, Happening::Sample);
    }
}
