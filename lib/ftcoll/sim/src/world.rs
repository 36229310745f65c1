// SPDX-License-Identifier: Apache-2.0
//! Processes on the `LogP` machine, event by event.
//!
//! A message occupies its sender for o, is on its way for L, and occupies its receiver for o; two
//! sends of a process are at least g apart. A process does one thing at a time and receives before
//! it sends. A process that is dead from time t on does nothing at t or later: it completes no send
//! and handles no message; what it had sent arrives.
//!
//! Source: Culler et al., "`LogP`: Towards a Realistic Model of Parallel Computation" (1993).

use fermata_ftcoll::{Actions, Core, Event, Rank, Time};
use std::collections::{BTreeMap, VecDeque};

/// Never dead.
pub const NEVER: Time = Time::MAX;

/// Times in one unit: steps, or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogP {
    /// L: from one process's port to the other's.
    pub latency: Time,
    /// o: what a message costs each end; at least 1.
    pub overhead: Time,
    /// g: between two sends of a process.
    pub gap: Time,
}

impl LogP {
    /// The setting of the papers: L = 2, o = 1, g = 1.
    pub const PAPER: Self = Self { latency: 2, overhead: 1, gap: 1 };

    /// From the beginning of a send to the end of the receipt: L + 2o.
    #[must_use]
    pub fn hop(self) -> Time {
        self.latency + 2 * self.overhead
    }
}

/// What a run was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When the last process that has an output got it.
    pub last_output: Time,
    /// When the last message was handled or lost, and nothing more was sent.
    pub quiet: Time,
    /// Messages sent, those to dead processes included.
    pub sent: u64,
    /// Processes that live at the end and have no output.
    pub missed: u32,
}

enum Happening<M> {
    Arrive { to: Rank, from: Rank, message: M },
    Handle { at: Rank, from: Rank, message: M },
    Free(Rank),
    Timer(Rank),
}

struct Process<C: Core> {
    core: C,
    inbox: VecDeque<(Rank, C::Message)>,
    outbox: VecDeque<(Rank, C::Message)>,
    /// Occupied until then.
    busy: Time,
    /// The earliest next send.
    next_send: Time,
    /// When to wake the core.
    wake: Time,
    dead_from: Time,
    has_output: bool,
}

/// A run in progress.
pub struct World<C: Core> {
    machine: LogP,
    processes: Vec<Process<C>>,
    outputs: Vec<(Rank, Time, C::Output)>,
    agenda: BTreeMap<Time, Vec<Happening<C::Message>>>,
    spare: Vec<Vec<Happening<C::Message>>>,
    actions: Actions<C::Message, C::Output>,
    outcome: Outcome,
}

impl<C: Core> World<C> {
    /// Processes 0, 1, .. with the time each is dead from (0: before the operation).
    pub fn new(machine: LogP, cores: impl Iterator<Item = (C, Time)>) -> Self {
        let process = |(core, dead_from)| Process {
            core,
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
            busy: 0,
            next_send: 0,
            wake: NEVER,
            dead_from,
            has_output: false,
        };
        Self {
            machine,
            processes: cores.map(process).collect(),
            outputs: Vec::new(),
            agenda: BTreeMap::new(),
            spare: Vec::new(),
            actions: Actions::default(),
            outcome: Outcome::default(),
        }
    }

    /// Runs until nothing happens any more, or until `deadline`.
    pub fn run(&mut self, deadline: Time) -> Outcome {
        for at in 0..Rank::try_from(self.processes.len()).unwrap_or(Rank::MAX) {
            if self.is_alive(at, 0) {
                self.step(at, Event::Start, 0);
                self.serve(at, 0);
            }
        }
        while let Some((now, mut happenings)) = self.agenda.pop_first() {
            if now > deadline {
                break;
            }
            self.arrive(&mut happenings);
            for happening in happenings.drain(..) {
                self.happen(happening, now);
            }
            self.spare.push(happenings);
        }
        let is_missed = |process: &&Process<C>| process.dead_from == NEVER && !process.has_output;
        let missed = self.processes.iter().filter(is_missed).count();
        self.outcome.missed = u32::try_from(missed).unwrap_or(u32::MAX);
        self.outcome
    }

    /// The outputs: who, when, what; in the order of time.
    pub fn outputs(&self) -> &[(Rank, Time, C::Output)] {
        &self.outputs
    }

    /// A process's core.
    pub fn core(&self, at: Rank) -> &C {
        &self.processes[at as usize].core
    }

    fn is_alive(&self, at: Rank, now: Time) -> bool {
        now < self.processes[at as usize].dead_from
    }

    fn plan(&mut self, time: Time, happening: Happening<C::Message>) {
        let spare = &mut self.spare;
        self.agenda.entry(time).or_insert_with(|| spare.pop().unwrap_or_default()).push(happening);
    }

    /// What arrives now is in the inboxes before anybody decides what to do now.
    fn arrive(&mut self, happenings: &mut [Happening<C::Message>]) {
        for happening in happenings {
            if let Happening::Arrive { to, .. } = happening {
                let wakes = Happening::Free(*to);
                let arrival = std::mem::replace(happening, wakes);
                if let Happening::Arrive { to, from, message } = arrival {
                    self.processes[to as usize].inbox.push_back((from, message));
                }
            }
        }
    }

    fn happen(&mut self, happening: Happening<C::Message>, now: Time) {
        let at = match happening {
            Happening::Handle { at, from, message } => {
                if self.is_alive(at, now) {
                    self.outcome.quiet = now;
                    self.step(at, Event::Message { from, message }, now);
                }
                self.outcome.quiet = self.outcome.quiet.max(now);
                at
            }
            Happening::Timer(at) => {
                if self.processes[at as usize].wake == now && self.is_alive(at, now) {
                    self.processes[at as usize].wake = NEVER;
                    self.step(at, Event::Timer, now);
                }
                at
            }
            Happening::Free(at) => at,
            Happening::Arrive { .. } => return,
        };
        if self.is_alive(at, now) {
            self.serve(at, now);
        }
    }

    fn step(&mut self, at: Rank, event: Event<C::Message>, now: Time) {
        let process = &mut self.processes[at as usize];
        process.core.step(event, now, &mut self.actions);
        process.outbox.extend(self.actions.sends.drain(..));
        if let Some(output) = self.actions.output.take() {
            process.has_output = true;
            if process.dead_from == NEVER {
                self.outcome.last_output = now;
            }
            self.outputs.push((at, now, output));
        }
        let wake = self.actions.wake.take();
        self.actions.clear();
        if let Some(time) = wake {
            self.processes[at as usize].wake = time;
            self.plan(time.max(now + 1), Happening::Timer(at));
            self.processes[at as usize].wake = time.max(now + 1);
        }
    }

    /// Lets a process do its next thing, if it is not occupied.
    fn serve(&mut self, at: Rank, now: Time) {
        let index = at as usize;
        if self.processes[index].busy > now {
            return;
        }
        if let Some((from, message)) = self.processes[index].inbox.pop_front() {
            let done = now + self.machine.overhead;
            self.processes[index].busy = done;
            self.plan(done, Happening::Handle { at, from, message });
            return;
        }
        if self.processes[index].next_send > now {
            let next = self.processes[index].next_send;
            self.plan(next, Happening::Free(at));
            return;
        }
        if self.processes[index].outbox.is_empty() {
            self.step(at, Event::PortFree, now);
        }
        let Some((to, message)) = self.processes[index].outbox.pop_front() else {
            return;
        };
        let sent = now + self.machine.overhead;
        let process = &mut self.processes[index];
        process.busy = sent;
        process.next_send = now + self.machine.gap;
        if sent <= process.dead_from {
            self.outcome.sent += 1;
            let arrival = sent + self.machine.latency;
            self.outcome.quiet = self.outcome.quiet.max(sent);
            self.plan(arrival, Happening::Arrive { to, from: at, message });
            self.plan(sent, Happening::Free(at));
        }
    }
}
