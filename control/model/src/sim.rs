// SPDX-License-Identifier: Apache-2.0
//! The protocol at sizes that cannot be searched: one run per seed, on a clock of the LogP model.
//!
//! A message takes L from end to end, and o of both ends' time; an end handles one message per g.
//! The coordinator is one such end, which every report and all directives go through; a rank's
//! agent is another, beside its program. Messages of the application cost the ranks the same.
//! Source: Culler et al., "LogP: Towards a Realistic Model of Parallel Computation" (1993).
//!
//! The programs are those of `grid.rs`.

use crate::grid::{Random, Step, WORLD, column, programs, row};
use crate::rule::Rule;
use fermata_protocol::{
    CollectiveEntry, Coordinator, Directive, MessageCounts, Output, Position, RankId, RankMachine,
    Report, Tell, Version, WaitEdge,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

pub use crate::grid::Setting;

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
    /// Most directives that a rank was sent: rounds.
    pub rounds: u64,
    /// Reports of what ranks wait for.
    pub waits: u64,
    /// Targets that were raised.
    pub raises: u64,
    /// The coordinator said that the state was safe, and it was. Otherwise nobody could move before
    /// that, or there is a fault.
    pub safe: bool,
    /// Why the state was not safe when the coordinator said so.
    pub fault: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A rank continues.
    Run(u32),
    /// A message of the application is there: to, from.
    Arrives(u32, u32),
    /// Number in `Sim::reports`.
    Report(usize),
    /// Number in `Sim::directive`.
    Directive(usize),
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

impl MessageCounts for Place {
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
    directive: Vec<(u32, Directive)>,
    serial: u64,
    begun_ns: u64,
    figures: Figures,
}

/// Runs one program with a checkpoint in its middle.
#[must_use]
pub fn run(setting: Setting, logp: LogP, rule: Rule) -> Figures {
    finished(setting, logp, rule).figures
}

fn finished(setting: Setting, logp: LogP, rule: Rule) -> Sim {
    let mut sim = Sim::new(setting, logp, rule);
    while let Some(Reverse((now, _, event))) = sim.queue.pop() {
        sim.on_event(event, now);
        if sim.figures.safe || sim.figures.fault.is_some() {
            break;
        }
    }
    sim
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
            directive: Vec::new(),
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
            Event::Run(rank) => self.resume(rank, now),
            Event::Arrives(to, from) => {
                *self.places[to as usize].arrived.entry(from).or_insert(0) += 1;
                self.resume(to, now);
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
                self.resume(rank, now);
            }
            Event::Report(number) => self.on_report(number, now),
            Event::Directive(number) => {
                let (rank, directive) = self.directive[number].clone();
                self.machines[rank as usize].on_directive(&directive);
                self.figures.rounds = self.figures.rounds.max(directive.version.0);
                let place = &mut self.places[rank as usize];
                if std::mem::take(&mut place.parked) {
                    place.busy = now + place.left;
                    let busy = place.busy;
                    self.at(busy, Event::Run(rank));
                }
                self.resume(rank, now);
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
        let (rank, mut report) = self.reports[number].clone();
        if let (Rule::OldWordCounts, Report::Parked(version, _)) = (self.rule, &mut report) {
            *version = self.newest(rank);
        }
        let mut outputs = Vec::new();
        self.coordinator.on_report(rank, &report, &mut outputs);
        for output in outputs {
            match output {
                Output::Directive(rank, directive) => {
                    let time = self.coordinator_sends();
                    self.directive.push((rank, directive));
                    self.at(time, Event::Directive(self.directive.len() - 1));
                }
                Output::Safe => {
                    self.figures.time_ns = self.coordinator_busy - self.begun_ns;
                    self.figures.fault = self.fault();
                    self.figures.safe = self.figures.fault.is_none();
                }
                Output::Refused(_) | Output::Resume => {}
            }
        }
    }

    /// Of the directive last sent to this rank.
    fn newest(&self, rank: u32) -> Version {
        let sent = self.directive.iter().rev().find(|(to, _)| *to == rank);
        sent.map_or(Version(0), |(_, directive)| directive.version)
    }

    /// The coordinator says that the state is safe. If it is not: why. What has been begun is seen
    /// from the programs, not from the machines' clocks.
    fn fault(&self) -> Option<&'static str> {
        let is_word = |event: &Event| !matches!(event, Event::Run(_) | Event::Arrives(..));
        let mut begun: BTreeMap<u64, u64> = BTreeMap::new();
        for (rank, place) in self.places.iter().enumerate() {
            if !place.parked {
                return Some("a rank runs");
            }
            if place.begun {
                return Some("a rank is inside a collective call");
            }
            for clock in self.machines[rank].clocks() {
                let done = &self.programs[rank][..place.pc];
                let calls = done.iter().filter(|step| **step == Step::Collective(clock.group));
                let calls = calls.count() as u64;
                if *begun.entry(clock.group).or_insert(calls) != calls || clock.seq != calls {
                    return Some("the members of a group have begun different calls");
                }
            }
        }
        let words = self.queue.iter().filter(|Reverse((.., event))| is_word(event));
        (words.count() > 0).then_some("a word is on a line")
    }

    fn say(&mut self, rank: u32, report: Report, now: u64) {
        let Some(report) = self.rule.report(report) else { return };
        self.figures.messages += 1;
        self.figures.waits += u64::from(matches!(report, Report::Waits(..)));
        self.figures.raises += u64::from(matches!(report, Report::Raise(_)));
        let agent = &mut self.places[rank as usize].agent_busy;
        let sent = (*agent).max(now) + self.logp.overhead;
        *agent = (*agent).max(now) + self.logp.gap.max(self.logp.overhead);
        self.reports.push((rank, report));
        let number = self.reports.len() - 1;
        self.at(sent + self.logp.latency + self.logp.overhead, Event::Report(number));
    }

    /// Continues until the rank has to wait, or is busy until later, or parks.
    fn resume(&mut self, rank: u32, now: u64) {
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
        let position = [match step {
            None => Position::Ending,
            Some(_) if place.busy > now => Position::Computing,
            Some(Step::Compute(_) | Step::Send(_)) => Position::Computing,
            Some(Step::Recv(from)) => {
                source = [from];
                Position::Receiving(&source)
            }
            Some(Step::Collective(_)) if place.begun => Position::Collective,
            Some(Step::Collective(_)) => Position::CollectiveEntry,
        }];
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
        let origin = machine.origin(&position);
        let edges: Vec<WaitEdge> = machine.edges(&position, place).collect();
        match machine.tell(&position, place) {
            Some(Tell::Waits) => self.say(rank, Report::Waits(origin, edges), now),
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
            match machine.enter_collective(group, &self.places[rank as usize]) {
                CollectiveEntry::Hold => return false,
                CollectiveEntry::Enter => {}
                CollectiveEntry::Raise(clock) => self.say(rank, Report::Raise(clock), now),
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

#[cfg(test)]
mod tests {
    use super::{Event, LogP, Report, Reverse, Rule, Setting, Sim, Step, finished};

    fn fault_of(harm: impl Fn(&mut Sim)) -> Option<&'static str> {
        let setting = Setting {
            side: 3,
            steps: 40,
            compute_ns: 100_000,
            collectives: 30,
            uneven: true,
            seed: 1,
        };
        let mut sim =
            finished(setting, LogP { latency: 5_000, overhead: 500, gap: 500 }, Rule::Ours);
        assert!(sim.figures.safe);
        harm(&mut sim);
        sim.fault()
    }

    /// Each way in which a state can fail to be safe is seen by itself.
    #[test]
    fn every_fault_has_its_name() {
        assert_eq!(fault_of(|_| ()), None);
        assert_eq!(fault_of(|sim| sim.places[4].parked = false), Some("a rank runs"));
        assert_eq!(
            fault_of(|sim| sim.places[4].begun = true),
            Some("a rank is inside a collective call")
        );
        let different = Some("the members of a group have begun different calls");
        assert_eq!(fault_of(|sim| sim.machines[4].count(super::WORLD)), different);
        let one_more = |sim: &mut Sim| {
            let program = &sim.programs[4];
            let is_next = |at: &usize| matches!(program[*at], Step::Collective(_));
            let next = (sim.places[4].pc..program.len()).find(is_next);
            sim.places[4].pc = next.map_or(0, |at| at + 1);
        };
        assert_eq!(fault_of(one_more), different);
        assert_eq!(
            fault_of(|sim| {
                sim.reports.push((4, Report::Runs));
                sim.queue.push(Reverse((0, 0, Event::Report(sim.reports.len() - 1))));
            }),
            Some("a word is on a line")
        );
    }
}
