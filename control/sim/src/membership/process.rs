// SPDX-License-Identifier: Apache-2.0
//! What is simulated: the product's machine, or another protocol, as one process of a node.

use fermata_membership::{Action, Config, Event, Machine};

/// What happens to a process.
pub enum Input {
    /// A datagram has come.
    Datagram {
        /// From this node.
        from: u16,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// A timer has expired.
    Timer,
    /// It will stand still until then, on its own clock, in milliseconds.
    Frozen(u64),
}

/// What a process does.
pub enum Output {
    /// It sends a datagram.
    Send {
        /// To this node.
        to: u16,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// It wants a timer at this time of its own clock; the last one counts.
    Timer(u64),
    /// It takes a node in this incarnation for dead.
    Down(u16, u16),
    /// It suspects a node.
    Suspect,
    /// Others know that it will stand still.
    Announced,
}

/// A node's process, on its own clock in milliseconds.
pub trait Process {
    /// Begins as `me` in this incarnation. Node 0 is there; the others know only of it.
    fn begin(&mut self, now: u64) -> Vec<Output>;
    /// Takes an input in.
    fn step(&mut self, input: Input, now: u64) -> Vec<Output>;
    /// The incarnation it has by now.
    fn incarnation(&self) -> u16;
    /// How long ago each other node is known to have lived, in milliseconds; none for protocols
    /// that do not know.
    fn ages(&self, now: u64) -> Vec<u64>;
}

/// The product's.
pub struct Ours {
    me: u16,
    machine: Machine,
}

impl Ours {
    pub fn new(config: Config, me: u16, incarnation: u16, seed: u64, now: u64) -> Self {
        Self { me, machine: Machine::new(config, me, incarnation, seed, now) }
    }

    fn outputs(&self, actions: Vec<Action>) -> Vec<Output> {
        let of = |action| match action {
            Action::Send { to, bytes } => Some(Output::Send { to, bytes }),
            Action::Timer { at } => Some(Output::Timer(at)),
            Action::Down { node } => {
                let known = self.machine.members().find(|(other, _)| *other == node);
                Some(Output::Down(node, known.map_or(0, |(_, known)| known.incarnation)))
            }
            Action::Suspect { .. } => Some(Output::Suspect),
            Action::Announced => Some(Output::Announced),
            Action::Up { .. } => None,
        };
        actions.into_iter().filter_map(of).collect()
    }
}

impl Process for Ours {
    fn begin(&mut self, now: u64) -> Vec<Output> {
        let event = if self.me == 0 { Event::Timer } else { Event::Join { node: 0 } };
        let actions = self.machine.step(event, now);
        self.outputs(actions)
    }

    fn step(&mut self, input: Input, now: u64) -> Vec<Output> {
        let event = match input {
            Input::Datagram { from, bytes } => Event::Datagram { from, bytes },
            Input::Timer => Event::Timer,
            Input::Frozen(until) => Event::Frozen { until },
        };
        let actions = self.machine.step(event, now);
        self.outputs(actions)
    }

    fn incarnation(&self) -> u16 {
        self.machine.incarnation()
    }

    fn ages(&self, now: u64) -> Vec<u64> {
        self.machine.members().map(|(_, known)| now.saturating_sub(known.alive_at())).collect()
    }
}
