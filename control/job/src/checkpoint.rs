// SPDX-License-Identifier: Apache-2.0
//! A checkpoint that has been asked for: by whom, until when, and the newest attempt to take it.

use crate::attempt::{Attempt, Effect, Event};
use crate::interface::{CommitFigures, Conn, ImageDone};
use crate::reasons::{Failure, Ranks};
use crate::times::{self, Times};
use fermata_protocol::Report;
use fermata_types::{AskedBy, CheckpointFailed, CheckpointTaken};

/// EAGAIN from a rank's save: what stands in the way, say a child process, may soon be gone.
pub(crate) const TRANSIENT: i32 = 11;
/// So long a rank may continue saying so, and so often in any case; the pause in between.
const TRANSIENT_MS_MAX: u64 = 1000;
const TRANSIENT_TIMES: u32 = 5;
pub(crate) const TRANSIENT_PAUSE_MS: u64 = 20;

/// Who has asked for a checkpoint, and waits for its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Somebody who does not wait.
    Nobody,
    /// A command.
    Client(Conn),
    /// All ranks, in their programs.
    Ranks,
}

impl Caller {
    /// Whom the history names.
    fn name(self) -> AskedBy {
        match self {
            Self::Nobody => AskedBy::Time,
            Self::Client(_) => AskedBy::Command,
            Self::Ranks => AskedBy::Program,
        }
    }
}

/// A checkpoint under way.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub caller: Caller,
    /// Also when nobody waits for the outcome any more.
    pub asked_by: AskedBy,
    /// All ranks wait for its outcome in their programs.
    pub asked: bool,
    /// It ends the job.
    pub stop: bool,
    pub attempt: Attempt,
    times: Times,
    begun_ms: u64,
    /// When a rank first said that it cannot be saved just now, and how often that was said.
    transient: Option<(u64, u32)>,
    safe_ms: u64,
    /// By when the caller wants a safe state.
    safe_by_ms: u64,
    /// When the present phase has taken too long.
    deadline_ms: u64,
}

impl Checkpoint {
    /// `epoch`: to be the number of its first attempt.
    pub(crate) fn new(caller: Caller, stop: bool, epoch: u32, timeout_ms: u64, now: u64) -> Self {
        Self {
            caller,
            asked_by: caller.name(),
            asked: caller == Caller::Ranks,
            stop,
            attempt: Attempt::waiting(epoch, now),
            times: Times::new(now),
            begun_ms: now,
            transient: None,
            safe_ms: now,
            safe_by_ms: now.saturating_add(timeout_ms),
            deadline_ms: now.saturating_add(timeout_ms),
        }
    }

    /// Something that concerns the attempt.
    pub(crate) fn step(&mut self, event: Event, now: u64) -> Vec<Effect> {
        match &event {
            Event::Report(rank, Report::Parked(..)) => self.times.note_parked(*rank, now),
            Event::Saved(image) => self.times.note_saved(image.rank, now),
            _ => {}
        }
        let effects = self.attempt.step(event, now);
        self.times.note(self.attempt.stage(), now);
        effects
    }

    /// A command that has gone waits no longer.
    pub(crate) fn forget(&mut self, client: Conn) {
        if self.caller == Caller::Client(client) {
            self.caller = Caller::Nobody;
        }
    }

    /// All ranks are where they can be saved. The time for that continues until they may be.
    pub(crate) fn note_safe(&mut self, now: u64) {
        self.safe_ms = now;
    }

    /// The ranks write their images, and have so long.
    pub(crate) fn note_writing(&mut self, timeout_ms: u64, now: u64) {
        self.deadline_ms = now.saturating_add(timeout_ms);
    }

    /// There is to be another attempt: the time for a safe state is what it was.
    pub(crate) fn note_later(&mut self) {
        self.deadline_ms = self.safe_by_ms;
    }

    /// A rank cannot be saved just now. Whether that is worth another attempt.
    pub(crate) fn may_pass(&mut self, now: u64) -> bool {
        let (since, times) = self.transient.unwrap_or((now, 0));
        self.transient = Some((since, times + 1));
        let is_new = now < since + TRANSIENT_MS_MAX || times < TRANSIENT_TIMES;
        is_new && now + TRANSIENT_PAUSE_MS < self.safe_by_ms
    }

    /// Whether the present phase has taken too long. Nothing takes back what is being stored.
    pub(crate) fn is_late(&self, now: u64) -> bool {
        now >= self.deadline_ms && self.attempt.committing().is_none()
    }

    /// What has taken too long. `ranks`: all; `not_asking`: those that have not called
    /// fermata_checkpoint.
    pub(crate) fn lateness(&self, ranks: &Ranks, not_asking: Ranks) -> Failure {
        let attempt = &self.attempt;
        if attempt.number() == 0 || attempt.is_preparing() {
            return Failure::DirectoryLate;
        }
        let late: Ranks = ranks.difference(&attempt.done()).copied().collect();
        if attempt.is_writing() {
            return Failure::WritingLate(late);
        }
        if let Some((rank, what)) = attempt.held() {
            return Failure::Held(rank, what.to_owned());
        }
        if attempt.awaits_program() {
            return Failure::NotCalled(not_asking);
        }
        Failure::Late(late)
    }

    /// Time since it was asked for.
    pub(crate) fn milliseconds(&self, now: u64) -> u64 {
        now - self.begun_ms
    }

    /// What it took, once these images are committed.
    pub(crate) fn figures(&self, images: &[ImageDone], now: u64) -> CommitFigures {
        CommitFigures {
            epoch: self.attempt.epoch(),
            ranks: images.len(),
            bytes: images.iter().map(|image| image.bytes).sum(),
            bytes_max: images.iter().map(|image| image.bytes).max().unwrap_or(0),
            pause_ns_max: images.iter().map(|image| image.pause_ns).max().unwrap_or(0),
            safe_state_ms: self.safe_ms - self.begun_ms,
            milliseconds: self.milliseconds(now),
            messages_kept: self.attempt.messages_kept(),
            attempts: self.attempt.number(),
        }
    }

    /// For the history, once these images are committed.
    pub(crate) fn taken(&self, images: &[ImageDone], now: u64) -> CheckpointTaken {
        CheckpointTaken {
            epoch: self.attempt.epoch(),
            asked_by: self.asked_by,
            stop: self.stop,
            attempts: self.attempt.number(),
            ranks: u32::try_from(images.len()).unwrap_or(u32::MAX),
            bytes: images.iter().map(|image| image.bytes).sum(),
            messages_kept: self.attempt.messages_kept(),
            total_ms: self.milliseconds(now),
            phases_ms: self.times.until(now),
            rank_bytes: times::bytes(images),
            rank_pause_us: times::pause_us(images),
            rank_park_ms: self.times.parked(),
            rank_save_ms: self.times.saved(),
        }
    }

    /// For the history, as it is before it is given up.
    pub(crate) fn failed(&self, reason: &str, now: u64) -> CheckpointFailed {
        CheckpointFailed {
            epoch: self.attempt.epoch(),
            asked_by: self.asked_by,
            stop: self.stop,
            attempts: self.attempt.number(),
            phase: self.attempt.phase_name().to_owned(),
            reason: reason.to_owned(),
            total_ms: self.milliseconds(now),
            phases_ms: self.times.until(now),
        }
    }
}
