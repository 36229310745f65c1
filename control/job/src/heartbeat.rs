// SPDX-License-Identifier: Apache-2.0
//! ALIVE: what the coordinator believes, said to the ranks while it has business with them, and
//! once more when that has ended. They know by it a coordinator that hangs, which must not keep
//! them, and what has got lost on its way. A command that waits hears by PROGRESS as often.

use crate::checkpoint::Run;
use crate::machine::{Action, Machine};
use fermata_types::{Alive, Exit};

/// The agents give a coordinator up that is silent for fifteen times as long.
const ALIVE_MS: u64 = 2000;

impl Machine {
    pub(crate) fn alive_on_time(&mut self, now: u64) {
        let is_ending = self.stopped && !self.agents.is_empty();
        let is_starting = self.agents.values().any(|agent| agent.rank.is_none());
        let is_busy = self.run.is_some() || self.is_anyone_asking() || is_starting || is_ending;
        match self.alive_ms {
            None if is_busy => self.alive_ms = Some(now + ALIVE_MS),
            Some(due) if now >= due => {
                self.alive_ms = is_busy.then_some(now + ALIVE_MS);
                if is_ending {
                    self.stop_all();
                } else {
                    self.say_alive();
                    self.tell_progress();
                }
            }
            _ => {}
        }
    }

    /// The job is to end.
    pub(crate) fn stop_all(&mut self) {
        self.stopped = true;
        for conn in self.agents.keys() {
            self.out.push(Action::Send(*conn, Exit { code: 0 }.into()));
        }
    }

    fn say_alive(&mut self) {
        let word = self.run.as_ref().map_or_else(Alive::default, Run::alive);
        for (conn, agent) in &self.agents {
            let known = u32::from(agent.rank.is_some());
            self.out.push(Action::Send(*conn, Alive { known, ..word }.into()));
        }
    }
}
