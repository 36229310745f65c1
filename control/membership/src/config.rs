// SPDX-License-Identifier: Apache-2.0
//! What the membership is set to.

use crate::NodeId;
use crate::wire::ENTRIES_MAX;

/// Times in milliseconds, and counts. `Config::default()` is what docs/evidence/membership.md has
/// figures for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How often a node tells that it lives.
    pub tick_ms: u64,
    /// How many nodes watch each one.
    pub watchers: usize,
    /// A node that is silent for so long is asked.
    pub ask_after_ms: u64,
    /// How often.
    pub ask_every_ms: u64,
    /// A node that is silent for so long is suspected.
    pub suspect_after_ms: u64,
    /// And was asked so often since.
    pub asks_before_suspect: u8,
    /// A node that is silent for so long is down. The longest standstill of a living node that has
    /// not announced it, and almost a second in which it can be heard; and two seconds less than
    /// the limit, for whoever decides may stand still as long.
    pub down_after_ms: u64,
    /// And only after it was asked so often since it is suspected; twice as often, if it is only
    /// whoever decides that hears nothing of it, and is no watcher of it.
    pub asks_before_down: u8,
    /// Whoever decides watches all nodes that are silent for so long: their watchers may be dead.
    pub far_after_ms: u64,
    /// Entries in what watchers are told.
    pub entries_near: usize,
    /// Entries in what a node at random is told.
    pub entries_far: usize,
    /// Its verdict counts even if it hears less than half of the nodes: who it cannot reach is
    /// lost.
    pub coordinator: Option<NodeId>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tick_ms: 300,
            watchers: 3,
            ask_after_ms: 700,
            ask_every_ms: 200,
            suspect_after_ms: 1200,
            asks_before_suspect: 2,
            down_after_ms: 2900,
            asks_before_down: 5,
            far_after_ms: 2000,
            entries_near: 12,
            entries_far: ENTRIES_MAX - 1,
            coordinator: Some(0),
        }
    }
}
