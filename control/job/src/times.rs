// SPDX-License-Identifier: Apache-2.0
//! How long the parts of a checkpoint take, for the job's history.

use crate::interface::ImageDone;
use fermata_protocol::RankId;
use fermata_types::{PhasesMs, Spread};
use std::collections::BTreeMap;

/// A part of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Wait,
    Park,
    Drain,
    Save,
    Commit,
}

/// How long each took so far, over all attempts.
#[derive(Debug)]
pub(crate) struct Times {
    stage: Stage,
    since_ms: u64,
    spent: PhasesMs,
    /// Rank -> after how long it was done, of the newest attempt.
    parked: BTreeMap<RankId, u64>,
    saved: BTreeMap<RankId, u64>,
}

impl Times {
    pub(crate) fn new(now: u64) -> Self {
        Self {
            stage: Stage::Wait,
            since_ms: now,
            spent: PhasesMs::default(),
            parked: BTreeMap::new(),
            saved: BTreeMap::new(),
        }
    }

    /// The checkpoint is in this part now.
    pub(crate) fn note(&mut self, stage: Stage, now: u64) {
        if stage == self.stage {
            return;
        }
        self.spent = self.until(now);
        (self.stage, self.since_ms) = (stage, now);
        match stage {
            Stage::Park => self.parked.clear(),
            Stage::Save => self.saved.clear(),
            Stage::Wait | Stage::Drain | Stage::Commit => {}
        }
    }

    /// A rank has parked, perhaps again.
    pub(crate) fn note_parked(&mut self, rank: RankId, now: u64) {
        if self.stage == Stage::Park {
            self.parked.insert(rank, now - self.since_ms);
        }
    }

    /// A rank's image is written.
    pub(crate) fn note_saved(&mut self, rank: RankId, now: u64) {
        if self.stage == Stage::Save {
            self.saved.insert(rank, now - self.since_ms);
        }
    }

    /// How long each part took until now.
    pub(crate) fn until(&self, now: u64) -> PhasesMs {
        let mut spent = self.spent;
        let part = match self.stage {
            Stage::Wait => &mut spent.wait,
            Stage::Park => &mut spent.park,
            Stage::Drain => &mut spent.drain,
            Stage::Save => &mut spent.save,
            Stage::Commit => &mut spent.commit,
        };
        *part += now - self.since_ms;
        spent
    }

    pub(crate) fn parked(&self) -> Spread {
        Spread::of(self.parked.iter().map(|(rank, ms)| (*rank, *ms)))
    }

    pub(crate) fn saved(&self) -> Spread {
        Spread::of(self.saved.iter().map(|(rank, ms)| (*rank, *ms)))
    }
}

/// Sizes of images.
pub(crate) fn bytes(images: &[ImageDone]) -> Spread {
    Spread::of(images.iter().map(|image| (image.rank, image.bytes)))
}

/// How long ranks stood still, in us.
pub(crate) fn pause_us(images: &[ImageDone]) -> Spread {
    Spread::of(images.iter().map(|image| (image.rank, image.pause_ns / 1000)))
}

/// What a checkpoint has cost the job, ms: its ranks stood still, and then went slower while the
/// images were written, `whole_ms` after the request.
pub(crate) fn cost_ms(images: &[ImageDone], whole_ms: u64) -> u64 {
    /// The share of its speed that a job loses meanwhile: what a plan assumes of levels, 1 in 20.
    const SLOWDOWN: u64 = 20;
    let stood_ms = images.iter().map(|image| image.pause_ns).max().unwrap_or(0) / 1_000_000;
    stood_ms + whole_ms.saturating_sub(stood_ms) / SLOWDOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_all_attempts_are_added_up() {
        let mut times = Times::new(100);
        times.note(Stage::Park, 105);
        times.note_parked(0, 115);
        times.note(Stage::Wait, 125);
        times.note(Stage::Park, 225);
        times.note_parked(1, 230);
        times.note_parked(0, 235);
        times.note(Stage::Drain, 240);
        times.note_parked(0, 241); // too late to count
        times.note(Stage::Save, 250);
        times.note_saved(0, 280);
        times.note(Stage::Save, 290); // still
        times.note_saved(1, 310);
        let so_far = PhasesMs { wait: 105, park: 35, drain: 10, save: 60, commit: 0 };
        assert_eq!(times.until(310), so_far);
        times.note(Stage::Commit, 310);
        assert_eq!(times.until(317), PhasesMs { commit: 7, ..so_far });
        assert_eq!(times.parked(), Spread { min: 5, median: 5, max: 10, rank: 0 });
        assert_eq!(times.saved(), Spread { min: 30, median: 30, max: 60, rank: 1 });
    }
}
