// SPDX-License-Identifier: Apache-2.0
//! Checkpoints that the program asks for: soon, by one rank (fermata_request), or at once, by all
//! of them together (fermata_checkpoint). A rank that waited alone for its own checkpoint could owe
//! the others a collective call, so such a checkpoint begins when all ranks have asked.

use crate::reasons::Ranks;
use fermata_protocol::RankId;
use fermata_types::Ask;
use std::collections::BTreeMap;

/// What the ranks have asked for and not got yet.
#[derive(Debug, Default)]
pub(crate) struct AppRequests {
    /// Ranks that wait for the others, and whether their program can save itself.
    waiting: BTreeMap<RankId, bool>,
    /// When the first of them asked.
    since_ms: u64,
    /// One rank wants a checkpoint soon.
    soon: bool,
}

impl AppRequests {
    pub(crate) fn add(&mut self, rank: RankId, ask: &Ask, now: u64) {
        if ask.with_all == 0 {
            self.soon = true;
            return;
        }
        if self.waiting.is_empty() {
            self.since_ms = now;
        }
        self.waiting.insert(rank, ask.saves_itself != 0);
    }

    /// A rank that has gone, or has given up, waits no longer.
    pub(crate) fn forget(&mut self, rank: RankId) {
        self.waiting.remove(&rank);
    }

    /// Ranks wait for the others.
    pub(crate) fn is_anyone_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// So many ranks wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_waiting(&self, rank: RankId) -> bool {
        self.waiting.contains_key(&rank)
    }

    /// Whether the first of them has waited for so long.
    pub(crate) fn is_late(&self, timeout_ms: u64, now: u64) -> bool {
        now >= self.since_ms + timeout_ms
    }

    /// Those whose program cannot save itself.
    pub(crate) fn unable(&self) -> Ranks {
        self.waiting.iter().filter(|(_, able)| !**able).map(|(rank, _)| *rank).collect()
    }

    /// Whether one rank wants a checkpoint soon.
    pub(crate) fn is_wanted_soon(&self) -> bool {
        self.soon
    }

    /// The checkpoint that one rank wanted begins.
    pub(crate) fn take_soon(&mut self) {
        self.soon = false;
    }

    /// All that wait are answered now: who they are.
    pub(crate) fn take_waiting(&mut self) -> Vec<RankId> {
        std::mem::take(&mut self.waiting).into_keys().collect()
    }
}
