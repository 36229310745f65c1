// SPDX-License-Identifier: Apache-2.0
//! Levels that a plan wants of some snapshots, where not each gets all: what becomes of them, and
//! how long it takes, is told to whoever follows the plan. And those of the snapshot that the run
//! was restarted from.

use super::{Action, Id, Level, Promoter, Status, promotion};
use fermata_levels::Home;
use std::collections::BTreeMap;

impl Promoter {
    /// The snapshot that the run was restarted from was made anew on its hosts: as soon as all are
    /// there it gets from level to level as well, if no other has done so before, whatever a plan
    /// wants: what the run had of it is on hosts that may be lost.
    pub(super) fn take_up(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        let is_there = |home: &Home| self.there.contains_key(&home.host);
        if self.restored.as_ref().is_some_and(|kept| kept.snapshot.homes.iter().all(is_there)) {
            let restored = self.restored.take().filter(|_| self.run.is_none());
            if let Some(kept) = restored {
                let id = kept.snapshot.id;
                self.is_whole(kept, now_ms, out);
                for level in self.chain.levels().to_vec() {
                    self.promote(promotion::Event::Wanted { id, level }, now_ms, out);
                }
            }
        }
    }

    pub(super) fn want(&mut self, epoch: u32, level: usize, now_ms: u64, out: &mut Vec<Action>) {
        let id = self.kept.keys().find(|id| id.epoch == epoch).copied();
        let (Some(id), Some(&wanted)) = (id, self.chain.levels().get(level)) else {
            return out.push(Action::NotMade { level });
        };
        self.wanted.push((id, wanted));
        self.promote(promotion::Event::Wanted { id, level: wanted }, now_ms, out);
    }

    /// What has become of the levels that it wants.
    pub(super) fn tell_the_plan(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        let Some((promotion, _)) = &self.run else { return };
        let statuses: BTreeMap<(Id, Level), &Status> =
            promotion.statuses().map(|(id, level, status)| ((id, level), status)).collect();
        let begun_ms = |wanted: &(Id, Level)| {
            let making = self.making.as_ref().filter(|m| (m.id, m.level) == *wanted);
            making.map_or(now_ms, |making| making.begun_ms)
        };
        let place = |level| self.chain.levels().iter().position(|one| *one == level).unwrap_or(0);
        self.wanted.retain(|wanted| {
            let level = place(wanted.1);
            match statuses.get(wanted) {
                Some(Status::Queued | Status::Active) => return true,
                Some(Status::Done) => {
                    let took_ms = now_ms.saturating_sub(begun_ms(wanted));
                    out.push(Action::Made { level, took_ms });
                }
                Some(Status::Failed(_)) | None => out.push(Action::NotMade { level }),
            }
            false
        });
    }
}
