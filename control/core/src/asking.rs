// SPDX-License-Identifier: Apache-2.0
//! Checkpoints that the program asks for: soon, by one rank (fermata_request), or at once, by all
//! of them together (fermata_checkpoint). A rank that waited alone for its own checkpoint could owe
//! the others a collective call, so such a checkpoint begins when all ranks have asked.

use crate::advice::HINT_BEGINNING;
use crate::checkpoint::Caller;
use crate::machine::Machine;
use fermata_types::{Asked, Message};
use std::collections::BTreeSet;

/// What the ranks have asked for and not got yet.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Ranks that wait for the others.
    waiting: BTreeSet<u32>,
    /// When the first of them asked.
    since_ms: u64,
    /// One rank wants a checkpoint soon.
    soon: bool,
}

impl Machine {
    pub(crate) fn on_ask(&mut self, rank: u32, with_all: bool, now: u64) {
        if !with_all {
            self.asking.soon = true;
            return;
        }
        if self.asking.waiting.is_empty() {
            self.asking.since_ms = now;
        }
        self.asking.waiting.insert(rank);
    }

    /// A rank that has gone waits no longer.
    pub(crate) fn forget_ask(&mut self, rank: u32) {
        self.asking.waiting.remove(&rank);
    }

    /// Begins what has been asked for, once nothing else is under way.
    pub(crate) fn asking_on_time(&mut self, now: u64) {
        if self.run.is_some() {
            return;
        }
        let refusal = self.refusal();
        let timeout_ms = self.config.timeout_ms;
        let late = now >= self.asking.since_ms + timeout_ms;
        if let (false, Some((why, hint))) = (self.asking.waiting.is_empty(), &refusal) {
            // After a restart a rank may ask again before others are back.
            if hint != HINT_BEGINNING || late {
                self.answer_ranks(1, &format!("no checkpoint: {why}"));
            }
            return;
        }
        if self.asking.soon && refusal.is_none() {
            self.asking.soon = false;
            return self.begin(Caller::Nobody, false, timeout_ms, now);
        }
        if self.asking.waiting.is_empty() {
            return;
        }
        let missing: BTreeSet<u32> =
            self.ranks.keys().copied().filter(|rank| !self.asking.waiting.contains(rank)).collect();
        if missing.is_empty() {
            self.begin(Caller::Ranks, false, timeout_ms, now);
        } else if late {
            let who = self.name_ranks(&missing);
            self.answer_ranks(1, &format!("{who} not called fermata_checkpoint in time"));
        }
    }

    /// Tells all ranks that wait how it went.
    pub(crate) fn answer_ranks(&mut self, outcome: u32, text: &str) {
        for rank in std::mem::take(&mut self.asking.waiting) {
            let Some(conn) = self.ranks.get(&rank).copied() else { continue };
            self.send(conn, Message::from(Asked { outcome, message: text.into() }));
        }
    }
}
