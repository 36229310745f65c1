// SPDX-License-Identifier: Apache-2.0
//! What the setting says shall happen to a world.

use super::chance::{SECOND, time};
use super::world::{Happening, World};

/// When things begin to happen, and to count.
pub const WARM_UP: u64 = 12 * SECOND;

impl World<'_> {
    /// Puts into the queue what the setting says shall happen.
    pub(super) fn plan(&mut self) {
        for node in 0..self.setting.nodes {
            let at = time(self.random.between(0.0, SECOND as f64));
            self.at(at, Happening::Begin { node });
            self.plan_pause(node, WARM_UP);
            self.plan_freeze(node, WARM_UP);
        }
        self.plan_death(WARM_UP);
        self.at(WARM_UP, Happening::Sample);
        if let Some(cut) = self.setting.cut {
            let count = time(f64::from(self.setting.nodes) * cut.share);
            let count = u16::try_from(count).unwrap_or(u16::MAX);
            let mut at = WARM_UP + 5 * SECOND;
            while at + time(cut.seconds * 1e6) + 30 * SECOND < self.end {
                self.at(at, Happening::Cut(count + 1));
                self.at(at + time(cut.seconds * 1e6), Happening::Cut(0));
                at += time(cut.seconds * 1e6) + 30 * SECOND;
            }
        }
        if let Some(seconds) = self.setting.stall {
            let mut at = WARM_UP + 5 * SECOND;
            while at + 20 * SECOND < self.end {
                self.at(at, Happening::Stall { length: time(seconds * 1e6) });
                at += 20 * SECOND;
            }
        }
    }

    pub(super) fn plan_pause(&mut self, node: u16, from: u64) {
        let Some(every) = self.setting.pause_every else { return };
        let random = &mut self.nodes[usize::from(node)].random;
        let wait = random.exponential(1.0 / every);
        // Log-uniform between 0.1 and 2 s.
        let length = 0.1 * 20f64.powf(random.unit());
        let length = time(length * 1e6);
        self.at(from + time(wait * 1e6), Happening::Pause { node, length });
    }

    pub(super) fn plan_freeze(&mut self, node: u16, from: u64) {
        let Some(every) = self.setting.freeze_every else { return };
        if node == 0 {
            return; // the coordinator does not stand still for a checkpoint
        }
        let random = &mut self.nodes[usize::from(node)].random;
        let wait = random.exponential(1.0 / every);
        self.at(from + time(wait * 1e6), Happening::Freeze { node });
    }

    pub(super) fn plan_death(&mut self, from: u64) {
        let Some(every) = self.setting.death_every else { return };
        let wait = self.random.exponential(1.0 / every);
        self.at(from + time(wait * 1e6), Happening::Die);
    }
}
