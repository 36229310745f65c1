// SPDX-License-Identifier: Apache-2.0
//! The protocol at sizes that cannot be searched: one run per seed, on a clock of the LogP model.
//!
//! A message takes L from end to end, and o of both ends' time; an end handles one message per g.
//! The coordinator is one such end, which every report and all orders go through; a rank's agent is
//! another, beside its program. Messages of the application cost the ranks the same.
//! Source: Culler et al., "LogP: Towards a Realistic Model of Parallel Computation" (1993).
//!
//! The programs stand on a square grid of ranks. All ranks do the same sequence of steps, each of
//! which is computing, a message to a random partner, or a collective call on the rows, the columns
//! or the world; ranks are at different steps when the request comes. Such programs come to their
//! end, for the sequence is one order of all calls that every rank keeps.

use crate::rule::Rule;
use fermata_protocol::{
    Books, Coordinator, Door, Need, Orders, Output, Position, RankId, RankMachine, Report, Tell,
    Version,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct LogP {
    /// L: latency.
    pub latency: u64,
    /// o: what a message costs each end.
    pub overhead: u64,
    /// g: time between two messages of one end.
    pub gap: u64,
}

/// What one run was like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// From the request to the safe state.
    pub time_ns: u64,
    /// Messages of the control plane, both ways, the requests included.
    pub messages: u64,
    /// Most orders that a rank was sent: rounds.
    pub rounds: u64,
    /// Reports of needs.
    pub needs: u64,
    /// False if nobody could move before the state was safe.
    pub safe: bool,
}

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Side of the grid; its square is the number of ranks.
    pub side: u32,
    /// Steps of each rank's program.
    pub steps: u32,
    /// Length of a computing step, on average.
    pub compute_ns: u64,
    /// Of a hundred steps these are collective calls; half of the rest are messages.
    pub collectives: u64,
    /// Makes the program and the times.
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Compute(u64),
    Send(u32),
    Recv(u32),
    Collective(u64),
}

/// Small, seeded, good enough: splitmix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A rank goes on.
    Run(u32),
    /// A message of the application is there: to, from.
    Arrives(u32, u32),
    /// Number in `Sim::reports`.
    Report(usize),
    /// Number in `Sim::orders`.
    Orders(usize),
    /// Somebody has asked for a checkpoint.
    Begin,
    /// The request is at this rank.
    Request(u32),
}

#[derive(Debug, Default)]
struct Place {
    pc: usize,
    /// Inside a collective call; it ends at this time, once all members are in it.
    begun: bool,
    ends: Option<u64>,
    parked: bool,
    /// Computing that was left when the rank parked.
    left: u64,
    /// Time until which the rank, or its agent, is busy with what it does now.
    busy: u64,
    agent_busy: u64,
    sent: BTreeMap<u32, u64>,
    arrived: BTreeMap<u32, u64>,
    matched: BTreeMap<u32, u64>,
}

impl Books for Place {
    fn sent(&self, to: RankId) -> u64 {
        self.sent.get(&to).copied().unwrap_or(0)
    }
    fn arrived(&self, from: RankId) -> u64 {
        self.arrived.get(&from).copied().unwrap_or(0)
    }
    fn matched(&self, from: RankId) -> u64 {
        self.matched.get(&from).copied().unwrap_or(0)
    }
}

struct Sim {
    setting: Setting,
    logp: LogP,
    rule: Rule,
    programs: Vec<Vec<Step>>,
    places: Vec<Place>,
    machines: Vec<RankMachine<3, 16>>,
    /// How many members have begun the newest call of a group, and who waits in it.
    calls: BTreeMap<(u64, u64), Vec<u32>>,
    coordinator: Coordinator,
    coordinator_busy: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    reports: Vec<(u32, Report)>,
    orders: Vec<(u32, Orders)>,
    serial: u64,
    begun_ns: u64,
    figures: Figures,
}

const WORLD: u64 = 1;

/// Runs one program with a checkpoint in its middle.
#[must_use]
pub fn run(setting: Setting, logp: LogP, rule: Rule) -> Figures {
    let mut sim = Sim::new(setting, logp, rule);
    while let Some(Reverse((now, _, event))) = sim.queue.pop() {
        sim.on_event(event, now);
        if sim.figures.safe {
            break;
        }
    }
    sim.figures
}

impl Sim {
    fn new(setting: Setting, logp: LogP, rule: Rule) -> Self {
        let ranks = setting.side * setting.side;
        let mut random = Random(setting.seed);
        let programs = programs(&setting, &mut random);
        let mut sim = Self {
            setting,
            logp,
            rule,
            programs,
            places: (0..ranks).map(|_| Place::default()).collect(),
            machines: (0..ranks).map(|_| RankMachine::default()).collect(),
            calls: BTreeMap::new(),
            coordinator: Coordinator::new(ranks as usize),
            coordinator_busy: 0,
            queue: BinaryHeap::new(),
            reports: Vec::new(),
            orders: Vec::new(),
            serial: 0,
            begun_ns: 0,
            figures: Figures::default(),
        };
        for rank in 0..ranks {
            for group in [WORLD, row(rank, setting.side), column(rank, setting.side)] {
                sim.machines[rank as usize].join(group);
            }
            sim.at(0, Event::Run(rank));
        }
        let middle = u64::from(setting.steps) * setting.compute_ns / 3;
        sim.at(middle / 2 + random.below(middle.max(1)), Event::Begin);
        sim
    }

    fn at(&mut self, time: u64, event: Event) {
        self.serial += 1;
        self.queue.push(Reverse((time, self.serial, event)));
    }

    fn on_event(&mut self, event: Event, now: u64) {
        match event {
            Event::Run(rank) => self.go_on(rank, now),
            Event::Arrives(to, from) => {
                *self.places[to as usize].arrived.entry(from).or_insert(0) += 1;
                self.go_on(to, now);
            }
            Event::Begin => {
                self.begun_ns = now;
                self.coordinator_busy = now;
                for rank in 0..self.places.len() as u32 {
                    let time = self.coordinator_sends();
                    self.at(time, Event::Request(rank));
                }
            }
            Event::Request(rank) => {
                self.machines[rank as usize].on_request();
                let clocks = self.machines[rank as usize].clocks().collect();
                self.say(rank, Report::Clocks(clocks), now);
                self.go_on(rank, now);
            }
            Event::Report(number) => self.on_report(number, now),
            Event::Orders(number) => {
                let (rank, orders) = self.orders[number].clone();
                self.machines[rank as usize].on_orders(&orders);
                self.figures.rounds = self.figures.rounds.max(orders.version.0);
                let place = &mut self.places[rank as usize];
                if std::mem::take(&mut place.parked) {
                    place.busy = now + place.left;
                    let busy = place.busy;
                    self.at(busy, Event::Run(rank));
                }
                self.go_on(rank, now);
            }
        }
    }

    /// When a message that the coordinator sends next is there.
    fn coordinator_sends(&mut self) -> u64 {
        self.figures.messages += 1;
        let sent = self.coordinator_busy + self.logp.overhead;
        self.coordinator_busy += self.logp.gap.max(self.logp.overhead);
        sent + self.logp.latency + self.logp.overhead
    }

    fn on_report(&mut self, number: usize, now: u64) {
        // It is taken up when the coordinator has time.
        self.coordinator_busy =
            self.coordinator_busy.max(now) + self.logp.gap.max(self.logp.overhead);
        let (rank, report) = self.reports[number].clone();
        let mut outputs = Vec::new();
        self.coordinator.on_report(rank, &report, &mut outputs);
        for output in outputs {
            match output {
                Output::Orders(rank, orders) => {
                    let time = self.coordinator_sends();
                    self.orders.push((rank, orders));
                    self.at(time, Event::Orders(self.orders.len() - 1));
                }
                Output::Safe => {
                    self.figures.time_ns = self.coordinator_busy - self.begun_ns;
                    self.figures.safe = true;
                }
                Output::Refused(_) | Output::Resume => {}
            }
        }
    }

    fn say(&mut self, rank: u32, report: Report, now: u64) {
        let Some(report) = self.rule.report(report) else { return };
        self.figures.messages += 1;
        self.figures.needs += u64::from(matches!(report, Report::Needs(_)));
        let agent = &mut self.places[rank as usize].agent_busy;
        let sent = (*agent).max(now) + self.logp.overhead;
        *agent = (*agent).max(now) + self.logp.gap.max(self.logp.overhead);
        self.reports.push((rank, report));
        let number = self.reports.len() - 1;
        self.at(sent + self.logp.latency + self.logp.overhead, Event::Report(number));
    }

    /// Goes on until the rank has to wait, or is busy until later, or parks.
    fn go_on(&mut self, rank: u32, now: u64) {
        loop {
            let place = &mut self.places[rank as usize];
            if place.parked {
                return;
            }
            if place.ends.is_some_and(|end| end <= now) {
                place.ends = None;
                place.begun = false;
                place.pc += 1;
            }
            let is_interrupted = self.machines[rank as usize].is_requested();
            if place.busy > now && !is_interrupted {
                return;
            }
            let step = self.programs[rank as usize].get(place.pc).copied();
            if self.park_or_tell(rank, step, now) || self.places[rank as usize].busy > now {
                return;
            }
            let Some(step) = step else { return };
            if !self.make(rank, step, now) {
                return;
            }
        }
    }

    /// True if the rank parks.
    fn park_or_tell(&mut self, rank: u32, step: Option<Step>, now: u64) -> bool {
        let place = &self.places[rank as usize];
        let machine = &mut self.machines[rank as usize];
        let source: [RankId; 1];
        let position = match step {
            None => Position::Ending,
            Some(_) if place.busy > now => Position::Computing,
            Some(Step::Compute(_) | Step::Send(_)) => Position::Computing,
            Some(Step::Recv(from)) => {
                source = [from];
                Position::Receiving(&source)
            }
            Some(Step::Collective(_)) if place.begun => Position::Collective,
            Some(Step::Collective(_)) => Position::Door,
        };
        if machine.version() > Version(0) && machine.may_park(&position, place) {
            machine.park();
            let report = Report::Parked(machine.version(), machine.clocks().collect());
            let place = &mut self.places[rank as usize];
            place.parked = true;
            place.left = place.busy.saturating_sub(now);
            self.say(rank, report, now);
            return true;
        }
        if matches!(step, Some(Step::Recv(from)) if place.arrived(from) > place.matched(from)) {
            return false;
        }
        let needs: Vec<Need> = machine.needs(&position, place).collect();
        match machine.tell(&position, place) {
            Some(Tell::Needs) => self.say(rank, Report::Needs(needs), now),
            Some(Tell::Runs) => self.say(rank, Report::Runs, now),
            None => {}
        }
        false
    }

    /// Makes one step of the program. False if it has to wait.
    fn make(&mut self, rank: u32, step: Step, now: u64) -> bool {
        let wire = self.logp.latency + self.logp.overhead;
        let place = &mut self.places[rank as usize];
        match step {
            Step::Compute(time) => {
                place.busy = now + time;
                place.pc += 1;
                self.at(now + time, Event::Run(rank));
            }
            Step::Send(to) => {
                *place.sent.entry(to).or_insert(0) += 1;
                place.busy = now + self.logp.overhead;
                place.pc += 1;
                let sent = place.busy;
                self.at(sent, Event::Run(rank));
                self.at(sent + wire, Event::Arrives(to, rank));
            }
            Step::Recv(from) => {
                if place.arrived(from) <= place.matched(from) {
                    return false;
                }
                *place.matched.entry(from).or_insert(0) += 1;
                place.pc += 1;
            }
            Step::Collective(group) => return self.collective(rank, group, now),
        }
        true
    }

    /// All members wait for the last one; then it takes a tree of messages.
    fn collective(&mut self, rank: u32, group: u64, now: u64) -> bool {
        if self.places[rank as usize].begun {
            return false;
        }
        let machine = &mut self.machines[rank as usize];
        if machine.is_requested() {
            match machine.door(group, &self.places[rank as usize]) {
                Door::Hold => return false,
                Door::Enter => {}
                Door::Raise(clock) => self.say(rank, Report::Raise(clock), now),
            }
        } else {
            machine.count(group);
        }
        self.places[rank as usize].begun = true;
        let seq = self.machines[rank as usize].clocks().find(|c| c.group == group);
        let seq = seq.map_or(0, |clock| clock.seq);
        let side = self.setting.side;
        let size = if group == WORLD { side * side } else { side };
        let inside = self.calls.entry((group, seq)).or_default();
        inside.push(rank);
        if inside.len() < size as usize {
            return false;
        }
        let depth = u64::from(u32::BITS - (size - 1).leading_zeros());
        let end = now + depth * (self.logp.latency + 2 * self.logp.overhead);
        for member in self.calls.remove(&(group, seq)).unwrap_or_default() {
            self.places[member as usize].ends = Some(end);
            self.at(end, Event::Run(member));
        }
        false
    }
}

fn row(rank: u32, side: u32) -> u64 {
    2 + u64::from(rank / side)
}

fn column(rank: u32, side: u32) -> u64 {
    2 + u64::from(side) + u64::from(rank % side)
}

fn programs(setting: &Setting, random: &mut Random) -> Vec<Vec<Step>> {
    let ranks = setting.side * setting.side;
    let mut all = vec![Vec::new(); ranks as usize];
    for _ in 0..setting.steps {
        for rank in 0..ranks {
            let time = random.below(2 * setting.compute_ns);
            all[rank as usize].push(Step::Compute(time));
        }
        let kind = random.below(100);
        if kind < setting.collectives {
            // One in eight over the world, the others over rows or columns.
            let which = random.below(8);
            for rank in 0..ranks {
                let group = match which {
                    0 => WORLD,
                    1..=4 => row(rank, setting.side),
                    _ => column(rank, setting.side),
                };
                all[rank as usize].push(Step::Collective(group));
            }
        } else if kind < setting.collectives + (100 - setting.collectives) / 2 {
            for from in 0..ranks {
                let to = (u64::from(from) + 1 + random.below(u64::from(ranks) - 1)) as u32 % ranks;
                all[from as usize].push(Step::Send(to));
                all[to as usize].push(Step::Recv(from));
            }
        }
    }
    all
}
