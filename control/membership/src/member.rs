// SPDX-License-Identifier: Apache-2.0
//! What is known of one node, and how news of it are merged.
//!
//! A node's `beat` is its own clock. When that was here is `beat + offset`, and the offset is what
//! the quickest of many datagrams has shown: none arrives before it was sent, so each one's
//! arrival minus its beat is too much by what it took, and the least is the best (the idea of the
//! clock filter of NTP, RFC 5905, section 10). The least grows by a thousandth of the time, since
//! clocks drift and nodes hand on to each other what they take for the least. And where a clock has
//! stood still with its machine, a row of datagrams from the node itself overrules it.
//!
//! Invariant: evidence never makes a node look as if it had died later than it did by more than the
//!            time of the quickest datagram from it; slow ones, hops on the way and a hearer who
//!            has stood still change nothing.
//!
//! News are merged by incarnation, then state (down is final), then beat; their order and how often
//! they come do not matter.

use crate::wire::{Entry, Load};

/// The least grows by one part in so many: clocks drift by less.
const DRIFT_ONE_IN: u64 = 1000;
/// Who was heard itself so recently, in milliseconds, needs no others to tell its time.
const FRESH_MS: u64 = 10_000;
/// So many datagrams of a node in a row, each later than it should be by `STOPPED_MS`: its clock
/// has stood still.
const STOPPED_ROW: u8 = 12;
const STOPPED_MS: i64 = 100;

/// What is thought of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// It lives.
    #[default]
    Up = 0,
    /// Nothing is heard of it, and somebody watches it closely.
    Suspect = 1,
    /// It is taken for dead; this incarnation of it stays so.
    Down = 2,
}

/// What news have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that others need to hear at once.
    None,
    /// It has said that it stands still, or no longer.
    Frozen,
    /// What is thought of it, from this state.
    State(State),
    /// The news are older than what is known here: it is down, or has a newer incarnation.
    Outdated,
}

/// From a node's clock to the one here.
#[derive(Clone, Copy, Debug)]
struct Offset {
    least: i64,
    /// When the least was found, or has grown.
    at: u64,
    /// When the node itself was heard.
    heard_at: Option<u64>,
    /// How many of its datagrams in a row came too late, and the least that they say.
    late: u8,
    late_least: i64,
}

impl Offset {
    const fn new(sample: i64, now: u64) -> Self {
        Self { least: sample, at: now, heard_at: None, late: 0, late_least: i64::MAX }
    }

    /// Of one datagram: `is_own` if the node itself has sent it.
    fn add(&mut self, sample: i64, is_own: bool, now: u64) {
        if !is_own && self.heard_at.is_some_and(|at| now.saturating_sub(at) < FRESH_MS) {
            return;
        }
        let grown = now.saturating_sub(self.at) / DRIFT_ONE_IN;
        if grown > 0 {
            self.least = self.least.saturating_add_unsigned(grown);
            self.at = now;
        }
        if sample < self.least {
            (self.least, self.at) = (sample, now);
        }
        if is_own {
            self.heard_at = Some(now);
            self.note_late(sample, now);
        }
    }

    fn note_late(&mut self, sample: i64, now: u64) {
        if sample <= self.least.saturating_add(STOPPED_MS) {
            (self.late, self.late_least) = (0, i64::MAX);
            return;
        }
        self.late += 1;
        self.late_least = self.late_least.min(sample);
        if self.late >= STOPPED_ROW {
            *self = Self { heard_at: self.heard_at, ..Self::new(self.late_least, now) };
        }
    }

    fn here(&self, beat: u64) -> u64 {
        beat.checked_add_signed(self.least).unwrap_or(0)
    }
}

/// What is known of a node.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its incarnation.
    pub incarnation: u16,
    /// What is thought of it.
    pub state: State,
    /// How it fares, as it said last.
    pub load: Load,
    beat: u64,
    offset: Offset,
    load_age_ds: u16,
    frozen_ds: u16,
    /// It has answered something that was asked at this time.
    answered: u64,
    /// How often it was asked since the last evidence of life, or since it is suspected if that is
    /// later; and when last.
    pub(crate) asks: u8,
    pub(crate) asked_at: u64,
    /// One of its watchers suspects it.
    pub(crate) is_witnessed: bool,
    /// So many datagrams will still carry news of it first.
    pub(crate) urgent: u8,
}

impl Known {
    /// From the first news of it.
    pub(crate) fn new(entry: &Entry, now: u64) -> Self {
        Self {
            incarnation: entry.incarnation,
            state: entry.state,
            load: entry.load,
            beat: entry.beat,
            offset: Offset::new(sample(entry, now), now),
            load_age_ds: entry.load_age_ds,
            frozen_ds: entry.frozen_ds,
            answered: 0,
            asks: 0,
            asked_at: 0,
            is_witnessed: false,
            urgent: 0,
        }
    }

    /// The latest time here at which it is known to have lived.
    #[must_use]
    pub fn alive_at(&self) -> u64 {
        self.offset.here(self.beat).max(self.answered)
    }

    /// Whether it can be relied upon to watch others: it is up, and has not said that it stands
    /// still.
    pub(crate) fn is_awake(&self) -> bool {
        self.state == State::Up && self.frozen_ds == 0
    }

    /// Until when it has said that it stands still; 0 or in the past: it does not.
    #[must_use]
    pub fn frozen_until(&self) -> u64 {
        match self.frozen_ds {
            0 => 0,
            tenths => self.offset.here(self.beat) + 100 * u64::from(tenths),
        }
    }

    /// How long nothing is known of it, while it should be heard of, in milliseconds.
    #[must_use]
    pub fn silence(&self, now: u64) -> u64 {
        now.saturating_sub(self.alive_at().max(self.frozen_until()))
    }

    /// How old `load` is, in milliseconds.
    #[must_use]
    pub fn load_age(&self, now: u64) -> u64 {
        now.saturating_sub(self.offset.here(self.beat)) + 100 * u64::from(self.load_age_ds)
    }

    /// What is handed on about it.
    pub(crate) fn entry(&self, node: crate::NodeId, now: u64) -> Entry {
        let age = now.saturating_sub(self.offset.here(self.beat));
        Entry {
            node,
            incarnation: self.incarnation,
            beat: self.beat,
            age_ms: u16::try_from(age).unwrap_or(u16::MAX),
            state: self.state,
            frozen_ds: self.frozen_ds,
            load_age_ds: self.load_age_ds,
            load: self.load,
        }
    }

    /// It has answered what was asked at `asked`, a time here.
    pub(crate) fn has_answered(&mut self, asked: u64) {
        self.answered = self.answered.max(asked);
    }

    /// Takes news in that have come at `now`; `is_own` if the node itself has sent them.
    pub(crate) fn merge(&mut self, entry: &Entry, is_own: bool, now: u64) -> Change {
        if entry.incarnation > self.incarnation {
            let before = self.state;
            *self = Self { urgent: self.urgent, ..Self::new(entry, now) };
            return if before == self.state { Change::None } else { Change::State(before) };
        }
        if entry.incarnation < self.incarnation {
            return Change::Outdated;
        }
        match (self.state, entry.state) {
            (State::Down, State::Down) => Change::None,
            (State::Down, _) => Change::Outdated,
            (before, State::Down) => {
                self.state = State::Down;
                Change::State(before)
            }
            _ => self.merge_living(entry, is_own, now),
        }
    }

    fn merge_living(&mut self, entry: &Entry, is_own: bool, now: u64) -> Change {
        self.offset.add(sample(entry, now), is_own, now);
        let before = self.state;
        let is_newer = entry.beat > self.beat;
        let was_frozen = self.frozen_ds;
        if is_newer {
            (self.asks, self.is_witnessed) = (0, false);
            self.beat = entry.beat;
            self.load = entry.load;
            self.load_age_ds = entry.load_age_ds;
            self.frozen_ds = entry.frozen_ds;
            self.state = entry.state;
        } else if entry.beat == self.beat && entry.state == State::Suspect {
            self.state = State::Suspect;
        }
        if self.state != before {
            self.asks = 0;
            return Change::State(before);
        }
        if is_newer && (was_frozen == 0) != (self.frozen_ds == 0) {
            return Change::Frozen;
        }
        Change::None
    }
}

/// When the beat was, here, if the entry took no time to come; minus the beat.
fn sample(entry: &Entry, now: u64) -> i64 {
    let at = now.saturating_sub(u64::from(entry.age_ms));
    let signed = |time| i64::try_from(time).unwrap_or(i64::MAX);
    signed(at).saturating_sub(signed(entry.beat))
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
