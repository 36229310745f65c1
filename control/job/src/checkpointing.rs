// SPDX-License-Identifier: Apache-2.0
//! The machine's part in a checkpoint: it begins one, hands the attempt what concerns it, performs
//! its effects, and tells everybody how it has ended.
//!
//! What the shell does on the disk may take long: the directory for the images, before ranks are
//! told to write them, and the commit when all are written. That is done whatever becomes of the
//! job, and the answer is what the shell says. Then old snapshots go, and the next checkpoint may
//! begin.
//!
//! Invariant: while the shell is to make a directory or to remove old ones, no attempt begins: the
//!            ranks would stand and wait for the disk.

use super::Machine;
use crate::attempt::{Effect, Event};
use crate::checkpoint::{Caller, Checkpoint, TRANSIENT, TRANSIENT_PAUSE_MS};
use crate::interface::{Action, CommitPlan, Conn, DiskError, Figures, ImageDone, Outcome, Reply};
use crate::reasons::{Failure, Ranks, Unsaved};
use crate::texts::{self, with_hint};
use crate::times::cost_ms;
use crate::wire::report_of;
use fermata_plan::pace::Event as Paced;
use fermata_protocol::RankId;
use fermata_types::{Asked, AskedBy, Committed, Failed, JobEvent, Message, Progress, Save};

/// How it comes to the images.
impl Machine {
    pub(super) fn begin(&mut self, caller: Caller, stop: bool, timeout_ms: u64, now: u64) {
        self.pace(&Paced::Began, now);
        let epoch = self.epoch + u32::from(self.removing);
        self.checkpoint = Some(Checkpoint::new(caller, stop, epoch, timeout_ms, now));
        if !self.removing {
            self.attempt(now);
        }
    }

    /// Starts an attempt under a fresh epoch; numbers are cheap and confusion is not.
    fn attempt(&mut self, now: u64) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let asked = checkpoint.asked;
        self.epoch += 1;
        let begin = Event::Begin {
            epoch: self.epoch,
            ranks: self.registry.ranks().len(),
            asked,
            waits_for_program: self.config.checkpointer.waits_for_program(),
        };
        self.step_attempt(begin, now);
    }

    /// Something that concerns the attempt.
    fn step_attempt(&mut self, event: Event, now: u64) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        let effects = checkpoint.step(event, now);
        self.perform(effects, now);
    }

    fn perform(&mut self, effects: Vec<Effect>, now: u64) {
        for effect in effects {
            match effect {
                Effect::Send(rank, message) => self.send_rank(rank, message),
                Effect::SendAll(message) => self.send_ranks(message),
                Effect::Prepare => self.prepare(now),
                Effect::Save => self.send_save(),
                Effect::Commit(images) => self.commit(images),
                Effect::Discard => self.discard(),
                Effect::DiscardPrepared => self.removing = true,
                Effect::NotSaved(unsaved) => self.on_not_saved(unsaved, now),
                Effect::Refused(rank) => self.rank_finalizes(rank, now),
                Effect::Again if !self.removing => self.attempt(now),
                Effect::Again => {}
                Effect::Progress => self.send_progress(),
                Effect::Log(text) => self.log(text),
            }
        }
    }

    pub(super) fn send_progress(&mut self) {
        let Some(Checkpoint { caller: Caller::Client(client), attempt, .. }) = &self.checkpoint
        else {
            return;
        };
        let progress = Progress {
            phase: attempt.phase_name().into(),
            done: u32::try_from(attempt.done().len()).unwrap_or(u32::MAX),
            ranks: self.registry.size().unwrap_or(0),
        };
        self.send(*client, progress);
    }

    /// What an agent says of a checkpoint. Late or early words of another one are ignored.
    pub(super) fn on_report(&mut self, conn: Conn, message: Message, now: u64) {
        let Some(rank) = self.registry.rank_of(conn) else {
            return self.log(texts::no_rank(message.name()));
        };
        match message {
            Message::Ask(ask) => self.app_requests.add(rank, &ask, now),
            Message::Failed(failed) => self.on_failed(rank, failed, now),
            message => {
                let Some(checkpoint) = &self.checkpoint else { return };
                let host = self.registry.host_of(conn);
                if let Some(event) = event_of(rank, host, message, checkpoint.attempt.epoch()) {
                    self.step_attempt(event, now);
                }
            }
        }
    }

    /// A rank takes no part in this checkpoint, or waits no longer for one that all have asked for.
    fn on_failed(&mut self, rank: RankId, failed: Failed, now: u64) {
        let waits_no_longer = failed.epoch == 0;
        if waits_no_longer {
            self.app_requests.forget(rank);
        }
        let Some(checkpoint) = &self.checkpoint else { return };
        if failed.epoch == checkpoint.attempt.epoch() || waits_no_longer && checkpoint.asked {
            self.fail(&Failure::RankRefuses(rank, failed.message), now);
        }
    }

    fn on_not_saved(&mut self, unsaved: Unsaved, now: u64) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        if unsaved.errno != TRANSIENT || !checkpoint.may_pass(now) {
            return self.fail(&Failure::NotSaved(unsaved), now);
        }
        checkpoint.note_later();
        let reason = self.scene().not_saved(&unsaved);
        self.step_attempt(Event::TryLater { reason, until_ms: now + TRANSIENT_PAUSE_MS }, now);
    }

    pub(super) fn checkpoint_on_time(&mut self, now: u64) {
        let Some(checkpoint) = &self.checkpoint else { return };
        if checkpoint.is_late(now) {
            let ranks = self.registry.ranks().keys().copied().collect();
            let failure = checkpoint.lateness(&ranks, self.not_asking());
            return self.fail(&failure, now);
        }
        self.step_attempt(Event::Tick, now);
    }
}

/// What the disk is needed for.
impl Machine {
    fn prepare(&mut self, now: u64) {
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.note_safe(now);
        self.out.push(Action::Prepare(checkpoint.attempt.epoch()));
    }

    pub(super) fn on_prepared(&mut self, epoch: u32, result: Result<(), DiskError>, now: u64) {
        let is_awaited =
            |c: &&mut Checkpoint| c.attempt.epoch() == epoch && c.attempt.is_preparing();
        let Some(checkpoint) = self.checkpoint.as_mut().filter(is_awaited) else {
            self.removing = false;
            return self.out.push(Action::Discard(epoch));
        };
        checkpoint.note_writing(self.config.save_timeout_ms, now);
        let effects = checkpoint.step(Event::DirectoryDone, now);
        match result {
            Ok(()) => self.perform(effects, now),
            Err(error) => self.give_up(&Failure::Disk(error.to_string()), now),
        }
    }

    fn send_save(&mut self) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let (epoch, stay) = (checkpoint.attempt.epoch(), u32::from(checkpoint.stop));
        let deadline_ms = self.config.quiesce_ms;
        let checkpointer = self.config.checkpointer;
        for (rank, conn) in self.registry.ranks() {
            let root = &self.config.snapshots;
            let path = format!("{root}/{epoch}.partial/{}", checkpointer.place(*rank));
            let checkpointer = checkpointer.name().into();
            let save = Save { epoch, checkpointer, path, deadline_ms, stay };
            self.out.push(Action::Send(*conn, save.into()));
        }
    }

    fn commit(&mut self, images: Vec<ImageDone>) {
        let Some(checkpoint) = &self.checkpoint else { return };
        let plan = CommitPlan {
            epoch: checkpoint.attempt.epoch(),
            size: self.registry.size().unwrap_or(0),
            lower: self.registry.lower(),
            images,
        };
        self.out.push(Action::Commit(plan));
    }

    /// Removes what there is of the newest attempt's snapshot.
    fn discard(&mut self) {
        self.out.push(Action::Discard(self.epoch));
    }

    pub(super) fn on_stored(&mut self, epoch: u32, result: Result<String, DiskError>, now: u64) {
        let Some(checkpoint) = &self.checkpoint else { return };
        if checkpoint.attempt.epoch() != epoch {
            return;
        }
        let directory = match result {
            Ok(directory) => directory,
            Err(error) => return self.give_up(&Failure::Disk(error.to_string()), now),
        };
        let Some(checkpoint) = self.checkpoint.take() else { return };
        let Some(images) = checkpoint.attempt.committing() else {
            return self.log(texts::stored_too_early(epoch));
        };
        let figures = checkpoint.figures(images, now);
        self.newest_cost_ms = Some(figures.milliseconds);
        let pause_ms = cost_ms(images, figures.milliseconds);
        let (bytes, write_ms) = (figures.bytes, figures.milliseconds - figures.safe_state_ms);
        let figures = Figures::Committed(figures);
        let taken = JobEvent::Checkpoint(checkpoint.taken(images, now));
        self.committed = epoch;
        self.advise(|advice| advice.measured(bytes, write_ms), now);
        self.advise(|advice| advice.ended(now), now);
        self.pace(&Paced::Saved { epoch, pause_ms }, now);
        let text = texts::committed(epoch, &directory);
        self.log(text.clone());
        self.last_outcome.clone_from(&text);
        self.history(taken);
        self.send_ranks(Committed { epoch });
        if let Caller::Client(client) = checkpoint.caller {
            let message = text.clone();
            let reply = Reply { outcome: Outcome::Ok, message, snapshot: directory, figures };
            self.answer(client, reply);
        }
        if checkpoint.stop {
            self.stop_all();
        } else if checkpoint.asked {
            self.answer_ranks(Outcome::Ok, &text);
        }
        self.removing = true;
        self.out.push(Action::Prune);
    }

    pub(super) fn on_pruned(&mut self, old: &[String]) {
        self.removing = false;
        for path in old {
            self.log(texts::removed(path));
        }
    }
}

/// How it fails.
impl Machine {
    /// Ends the checkpoint because of something in the job, unless its images are all there: then
    /// nothing that becomes of the job keeps the shell from storing them.
    pub(super) fn fail(&mut self, failure: &Failure, now: u64) {
        let Some(checkpoint) = &self.checkpoint else { return };
        if checkpoint.attempt.committing().is_none() {
            self.give_up(failure, now);
        }
    }

    /// Ends the checkpoint; the job continues.
    pub(super) fn give_up(&mut self, failure: &Failure, now: u64) {
        let Some(mut checkpoint) = self.checkpoint.take() else { return };
        let text = self.scene().failure(failure);
        let (epoch, phase) = (checkpoint.attempt.epoch(), checkpoint.attempt.phase_name());
        self.epoch = epoch;
        self.advise(|advice| advice.ended(now), now);
        self.pace(&Paced::Failed, now);
        let job_continues = !self.registry.is_anyone_gone() && !self.over;
        let what = texts::failed(epoch, phase, &text.what, job_continues);
        self.log(what.clone());
        self.last_outcome.clone_from(&what);
        self.history(JobEvent::FailedCheckpoint(checkpoint.failed(&text.what, now)));
        let effects = checkpoint.step(Event::Abort { reason: text.what }, now);
        self.perform(effects, now);
        if checkpoint.asked {
            self.answer_ranks(Outcome::Failed, &what);
        }
        if let Caller::Client(client) = checkpoint.caller {
            let figures = Figures::Failed {
                epoch,
                phase,
                attempts: checkpoint.attempt.number(),
                milliseconds: checkpoint.milliseconds(now),
            };
            let message = with_hint(&what, &text.hint);
            let reply =
                Reply { outcome: Outcome::Failed, message, snapshot: String::new(), figures };
            self.answer(client, reply);
        }
    }
}

/// Checkpoints that the program asks for.
impl Machine {
    /// Ranks that have not called fermata_checkpoint.
    fn not_asking(&self) -> Ranks {
        let ranks = self.registry.ranks().keys().copied();
        ranks.filter(|rank| !self.app_requests.is_waiting(*rank)).collect()
    }

    /// Begins what has been asked for, once nothing else is under way.
    pub(super) fn app_requests_on_time(&mut self, now: u64) {
        let all_ask = self.app_requests.count() == self.registry.ranks().len();
        if let Some(checkpoint) = &self.checkpoint {
            if checkpoint.attempt.awaits_program() && all_ask {
                self.let_program_save(now);
            }
            return;
        }
        let refusal = self.refusal();
        let timeout_ms = self.config.timeout_ms;
        let is_late = self.app_requests.is_late(timeout_ms, now);
        if let (true, Some(refusal)) = (self.app_requests.is_anyone_waiting(), &refusal) {
            // After a restart a rank may ask again before others are back.
            if !refusal.is_beginning() || is_late {
                let text = self.scene().refusal(refusal);
                self.answer_ranks(Outcome::Failed, &texts::no_checkpoint(&text.what));
            }
            return;
        }
        if self.app_requests.is_wanted_soon() && refusal.is_none() {
            self.app_requests.take_soon();
            self.begin(Caller::Nobody, false, timeout_ms, now);
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.asked_by = AskedBy::Program;
            }
            return;
        }
        if !self.app_requests.is_anyone_waiting() {
            return;
        }
        if all_ask {
            self.begin(Caller::Ranks, false, timeout_ms, now);
            self.app_requests_on_time(now);
        } else if is_late {
            let text = self.scene().not_called(&self.not_asking());
            self.answer_ranks(Outcome::Failed, &text);
        }
    }

    /// All ranks have asked: what the program saves itself can be saved now.
    fn let_program_save(&mut self, now: u64) {
        let unable = self.app_requests.unable();
        let Some(checkpoint) = &mut self.checkpoint else { return };
        checkpoint.asked = true;
        if unable.is_empty() {
            self.step_attempt(Event::ProgramReady, now);
        } else {
            self.fail(&Failure::NotAble(unable), now);
        }
    }

    /// Tells all ranks that wait how it went.
    fn answer_ranks(&mut self, outcome: Outcome, text: &str) {
        for rank in self.app_requests.take_waiting() {
            let asked = Asked { outcome: outcome.number(), message: text.into() };
            self.send_rank(rank, asked.into());
        }
    }
}

/// What a rank's message means to the attempt of this epoch; none if it is of another one.
fn event_of(rank: RankId, host: &str, message: Message, epoch: u32) -> Option<Event> {
    let (of, event) = match message {
        Message::Held(m) => (m.epoch, Event::Held(rank, m.message)),
        Message::Sent(m) => (m.epoch, Event::Sent(rank, m.list)),
        Message::Drained(m) => (m.epoch, Event::Drained(rank, m.kept)),
        Message::Saved(m) if m.error != 0 => {
            let unsaved = Unsaved { rank, errno: m.error, message: m.message };
            (m.epoch, Event::NotSaved(unsaved))
        }
        Message::Saved(m) => {
            let (bytes, crc, pause_ns, host) = (m.bytes, m.crc, m.pause_ns, host.to_owned());
            (m.epoch, Event::Saved(ImageDone { rank, bytes, crc, pause_ns, host }))
        }
        message => return Some(Event::Report(rank, report_of(&message, epoch)?)),
    };
    (of == epoch).then_some(event)
}
