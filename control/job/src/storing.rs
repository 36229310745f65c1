// SPDX-License-Identifier: Apache-2.0
//! What the shell does on the disk, which may take long: the directory for the images, before ranks
//! are told to write them, and the commit when all are written. That is done whatever becomes of
//! the job, and the answer is what the shell says. Then old snapshots go, and the next checkpoint
//! may begin.
//!
//! Invariant: while the shell is to make a directory or to remove old ones, no attempt begins: the
//!            ranks would stand and wait for the disk.

use super::{Caller, Phase, Run};
use crate::machine::{Action, ImageDone, Machine};
use fermata_types::{Committed, Save};
use std::collections::BTreeMap;

impl Machine {
    /// All ranks are where they can be saved. The time for that continues until they may be.
    pub(crate) fn prepare(&mut self, now: u64) {
        let Some(run) = &mut self.run else { return };
        run.phase = Phase::Prepare;
        run.safe_ms = now;
        self.out.push(Action::Prepare(run.epoch));
    }

    /// Whether ranks have been told to write their images, and not all have.
    #[must_use]
    pub fn is_writing_images(&self) -> bool {
        self.run.as_ref().is_some_and(|run| matches!(run.phase, Phase::Save(_)))
    }

    pub(crate) fn on_prepared(&mut self, epoch: u32, result: Result<(), String>, now: u64) {
        let is_awaited = |run: &&mut Run| run.epoch == epoch && matches!(run.phase, Phase::Prepare);
        let Some(run) = self.run.as_mut().filter(is_awaited) else {
            self.removing = false;
            return self.out.push(Action::Discard(epoch));
        };
        run.phase = Phase::Save(BTreeMap::new());
        run.deadline_ms = now.saturating_add(self.config.save_timeout_ms);
        let stay = u32::from(run.stop);
        if let Err(why) = result {
            return self.give_up(&why, &self.hint_for_directory(), now);
        }
        let deadline_ms = self.config.quiesce_ms;
        let checkpointer = self.config.checkpointer;
        for (rank, conn) in self.ranks.clone() {
            let root = &self.config.snapshots;
            let path = format!("{root}/{epoch}.partial/{}", checkpointer.place(rank));
            let checkpointer = checkpointer.name().into();
            self.send(conn, Save { epoch, checkpointer, path, deadline_ms, stay });
        }
        self.tell_progress();
    }

    /// Removes what there is of a checkpoint that has been given up; of a directory that is still
    /// being made, when that is done.
    pub(super) fn discard(&mut self, run: &Run) {
        if matches!(run.phase, Phase::Prepare) {
            self.removing = true;
        } else {
            self.out.push(Action::Discard(run.epoch));
        }
    }

    pub(crate) fn on_stored(&mut self, epoch: u32, result: Result<String, String>, now: u64) {
        let Some(run) = &self.run else { return };
        if run.epoch != epoch {
            return;
        }
        let directory = match result {
            Ok(directory) => directory,
            Err(why) => return self.give_up(&why, &self.hint_for_directory(), now),
        };
        let Some(run) = self.run.take() else { return };
        let Phase::Commit(images) = &run.phase else {
            return self.log(format!("checkpoint {epoch} was stored before it was complete"));
        };
        self.committed = epoch;
        let figures = figures(&run, images, now);
        let text = format!("checkpoint {epoch} is committed: {directory}");
        self.log(text.clone());
        self.last_outcome.clone_from(&text);
        self.send_ranks(Committed { epoch });
        if let Caller::Client(client) = run.caller {
            self.answer(client, 0, &text, &directory, figures);
        }
        if run.stop {
            self.stop_all();
        } else if run.asked {
            self.answer_ranks(0, &text);
        }
        self.removing = true;
        self.out.push(Action::Prune);
    }

    pub(crate) fn on_pruned(&mut self, old: &[String]) {
        self.removing = false;
        for path in old {
            self.log(format!("removed the old snapshot {path}"));
        }
    }
}

fn figures(run: &Run, images: &[ImageDone], now: u64) -> serde_json::Value {
    let pause_ns = images.iter().map(|image| image.pause_ns).max().unwrap_or(0);
    serde_json::json!({
        "epoch": run.epoch,
        "ranks": images.len(),
        "bytes": images.iter().map(|image| image.bytes).sum::<u64>(),
        "bytes_max": images.iter().map(|image| image.bytes).max().unwrap_or(0),
        "pause_ns_max": pause_ns,
        "safe_state_ms": run.safe_ms - run.begun_ms,
        "milliseconds": now - run.begun_ms,
        "messages_kept": run.kept,
        "attempts": run.attempts,
    })
}
