// SPDX-License-Identifier: Apache-2.0
//! Checkpoints that the program asks for: soon, by one rank (fermata_request), or at once, by all
//! of them together (fermata_checkpoint). A rank that waited alone for its own checkpoint could owe
//! the others a collective call, so such a checkpoint begins when all ranks have asked.

use crate::checkpoint::Caller;
use crate::machine::Machine;
use crate::texts::HINT_BEGINNING;
use fermata_types::{Ask, Asked, Message};
use std::collections::{BTreeMap, BTreeSet};

/// What the ranks have asked for and not got yet.
#[derive(Debug, Default)]
pub(crate) struct Asking {
    /// Ranks that wait for the others, and whether their program can save itself.
    waiting: BTreeMap<u32, bool>,
    /// When the first of them asked.
    since_ms: u64,
    /// One rank wants a checkpoint soon.
    soon: bool,
}

impl Machine {
    pub(crate) fn on_ask(&mut self, rank: u32, ask: &Ask, now: u64) {
        if ask.with_all == 0 {
            self.asking.soon = true;
            return;
        }
        if self.asking.waiting.is_empty() {
            self.asking.since_ms = now;
        }
        self.asking.waiting.insert(rank, ask.saves_itself != 0);
    }

    pub(crate) fn is_anyone_asking(&self) -> bool {
        !self.asking.waiting.is_empty()
    }

    /// Ranks that have not called fermata_checkpoint.
    pub(crate) fn not_asking(&self) -> BTreeSet<u32> {
        let is_asking = |rank: &u32| self.asking.waiting.contains_key(rank);
        self.ranks.keys().copied().filter(|rank| !is_asking(rank)).collect()
    }

    /// All ranks have asked: what the program saves itself can be saved now.
    fn let_program_save(&mut self, now: u64) {
        let waiting = &self.asking.waiting;
        let unable: BTreeSet<u32> =
            waiting.iter().filter(|(_, able)| !**able).map(|(rank, _)| *rank).collect();
        let Some(run) = &mut self.run else { return };
        run.asked = true;
        if unable.is_empty() {
            return self.prepare(now);
        }
        let why = format!("{} not called fermata_self_save", self.name_ranks(&unable));
        self.fail(&why, "run the job without --checkpointer self", now);
    }

    /// A rank that has gone, or has given up, waits no longer.
    pub(crate) fn forget_ask(&mut self, rank: u32) {
        self.asking.waiting.remove(&rank);
    }

    /// Begins what has been asked for, once nothing else is under way.
    pub(crate) fn asking_on_time(&mut self, now: u64) {
        let all_ask = self.asking.waiting.len() == self.ranks.len();
        if let Some(run) = &self.run {
            if run.awaits_program() && all_ask {
                self.let_program_save(now);
            }
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
        if all_ask {
            self.begin(Caller::Ranks, false, timeout_ms, now);
            self.asking_on_time(now);
        } else if late {
            let who = self.name_ranks(&self.not_asking());
            self.answer_ranks(1, &format!("{who} not called fermata_checkpoint in time"));
        }
    }

    /// Tells all ranks that wait how it went.
    pub(crate) fn answer_ranks(&mut self, outcome: u32, text: &str) {
        for rank in std::mem::take(&mut self.asking.waiting).into_keys() {
            let Some(conn) = self.ranks.get(&rank).copied() else { continue };
            self.send(conn, Message::from(Asked { outcome, message: text.into() }));
        }
    }
}
