// SPDX-License-Identifier: Apache-2.0
//! When to save and stop before an allocation ends.
//!
//! The time that is kept free at the end, the *reserve*, is twice what the dearest of the last
//! checkpoints took, and a margin. Twice: another checkpoint may have begun a moment before, and
//! has to end first; and images grow. The margin is for the end of the processes and for clocks and
//! timers that do not agree: 30 s and 2 % of the run's time, at most 2 min. How often checkpoints
//! are taken by themselves does not matter, since one of them may always be under way.
//!
//! Nothing is known before the first checkpoint but, at a restart, how many bytes there were; else
//! a minute is assumed. An assumption takes no more than half of the run's time: a short allocation
//! is to compute as well.
//!
//! One machine serves all runs of a chain (`recovery`): what the first has measured holds for the
//! next, and none is begun in the reserve.
//!
//! Invariant: nobody is told to save before the reserve begins, nor to sleep beyond that.

use std::collections::VecDeque;

/// So many costs are remembered.
const COSTS_KEPT: usize = 4;

/// What is assumed, in milliseconds unless a name says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What a checkpoint takes, of which nothing is known.
    pub estimate_ms: u64,
    /// What a checkpoint takes beside the writing of its bytes, if these are known.
    pub settle_ms: u64,
    /// Bytes that are written in a second.
    pub bytes_per_s: u64,
    /// The margin of a run without time.
    pub margin_ms: u64,
    /// And of each hundred milliseconds of the run's time.
    pub margin_percent: u64,
    /// The largest margin.
    pub margin_max_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            estimate_ms: 60_000,
            settle_ms: 5_000,
            bytes_per_s: 100_000_000,
            margin_ms: 30_000,
            margin_percent: 2,
            margin_max_ms: 120_000,
        }
    }
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The allocation ends at this time; `None`: nobody knows of an end. It may be said again: a
    /// batch system's administrator gives a job more time, or less.
    End(Option<u64>),
    /// A checkpoint has been committed that took so long.
    Committed {
        /// From the request to the commit, in milliseconds.
        cost_ms: u64,
    },
    /// The snapshot that this run continues from has so many bytes.
    Bytes(u64),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: there is no end.
    NoEnd,
    /// Nothing before this time.
    Sleep {
        /// Milliseconds since 1970.
        until_ms: u64,
    },
    /// Save and stop.
    Save,
    /// The same, though it is likely to be too late: less time is left than one checkpoint takes.
    /// One that is broken off harms nothing.
    Late,
}

/// The end of the time of a run, and of those that follow it.
#[derive(Clone, Debug)]
pub struct Limit {
    settings: Settings,
    begun_ms: u64,
    end_ms: Option<u64>,
    /// Of the last checkpoints, oldest first.
    costs_ms: VecDeque<u64>,
    bytes: Option<u64>,
}

impl Limit {
    /// Of a run that begins now.
    #[must_use]
    pub fn new(settings: Settings, now_ms: u64) -> Self {
        Self { settings, begun_ms: now_ms, end_ms: None, costs_ms: VecDeque::new(), bytes: None }
    }

    /// Takes one event at the time `now_ms` and tells what to do.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Advice {
        match event {
            Event::End(end_ms) => self.end_ms = end_ms,
            Event::Committed { cost_ms } => {
                self.costs_ms.push_back(cost_ms);
                if self.costs_ms.len() > COSTS_KEPT {
                    self.costs_ms.pop_front();
                }
            }
            Event::Bytes(bytes) => self.bytes = Some(bytes),
            Event::Tick => {}
        }
        let Some(end_ms) = self.end_ms else { return Advice::NoEnd };
        let until_ms = end_ms.saturating_sub(self.reserve_ms(end_ms));
        if now_ms < until_ms {
            Advice::Sleep { until_ms }
        } else if now_ms.saturating_add(self.cost_ms()) > end_ms {
            Advice::Late
        } else {
            Advice::Save
        }
    }

    /// What a checkpoint takes, as far as is known, in milliseconds.
    #[must_use]
    pub fn cost_ms(&self) -> u64 {
        let Settings { estimate_ms, settle_ms, bytes_per_s, .. } = self.settings;
        let by_bytes =
            |bytes: u64| settle_ms.saturating_add(bytes.saturating_mul(1000) / bytes_per_s.max(1));
        let measured = self.costs_ms.iter().max().copied();
        measured.unwrap_or_else(|| self.bytes.map_or(estimate_ms, by_bytes))
    }

    /// How long before the end the run is to be saved, in milliseconds.
    #[must_use]
    pub fn reserve_ms(&self, end_ms: u64) -> u64 {
        let whole_ms = end_ms.saturating_sub(self.begun_ms);
        let Settings { margin_ms, margin_percent, margin_max_ms, .. } = self.settings;
        let share_ms = whole_ms.saturating_mul(margin_percent) / 100;
        let margin_ms = margin_ms.saturating_add(share_ms).min(margin_max_ms);
        let twice_ms = self.cost_ms().saturating_mul(2);
        let known_ms = if self.costs_ms.is_empty() { 0 } else { twice_ms };
        twice_ms.saturating_add(margin_ms).min(whole_ms / 2).max(known_ms)
    }
}

#[cfg(test)]
#[path = "limit_tests.rs"]
mod tests;
