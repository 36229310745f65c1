// SPDX-License-Identifier: Apache-2.0
//! ALIVE: what the coordinator believes, said to the ranks while it has business with them, and
//! once more when that has ended. They know by it a coordinator that hangs, which must not keep
//! them, and what has got lost on its way. A command that waits hears by PROGRESS as often.

/// The agents give a coordinator up that is silent for fifteen times as long.
const ALIVE_MS: u64 = 2000;

/// When ALIVE is to be said.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// The next time, if there has been business with the ranks.
    due_ms: Option<u64>,
}

impl Heartbeat {
    /// Whether it is to be said now. `is_busy`: there is business with the ranks.
    pub(crate) fn step(&mut self, is_busy: bool, now: u64) -> bool {
        let next = is_busy.then_some(now + ALIVE_MS);
        let is_due = self.due_ms.is_some_and(|due| now >= due);
        if self.due_ms.is_none() || is_due {
            self.due_ms = next;
        }
        is_due
    }
}
