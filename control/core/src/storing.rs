// SPDX-License-Identifier: Apache-2.0
//! A checkpoint whose images are all written: the shell stores it, whatever becomes of the job, and
//! the answer is what the shell says. Then old snapshots go, and the next checkpoint may begin.

use super::{Caller, Phase, Run};
use crate::machine::{Action, ImageDone, Machine};
use fermata_types::Committed;

impl Machine {
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
        self.pruning = true;
        self.out.push(Action::Prune);
    }

    pub(crate) fn on_pruned(&mut self, old: &[String]) {
        self.pruning = false;
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
