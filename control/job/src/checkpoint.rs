// SPDX-License-Identifier: Apache-2.0
//! One checkpoint from REQUEST to commit or ABORT.
//!
//! How the ranks come to a safe state, and when they may continue from it, is for
//! `fermata-protocol` to say; here its words go over the wire, and what the rest of a checkpoint
//! takes is added.
//!
//! If nobody says anything for a time the attempt is given up, the job runs freely for a moment,
//! and a new one begins, with a growing timeout, until the caller's time is over. NEEDs are there
//! so that this is not seen; a program that polls, and waits in no call, can still bring it about.

use crate::machine::{Action, CommitPlan, Conn, ImageDone, Machine};
use crate::texts::{HINT_ASK, HINT_HELD, HINT_REFUSED, with_hint};
use crate::wire::{Bookmarks, received_of, report_of, targets_of};
use fermata_protocol::{Coordinator, Output, Report};
use fermata_types::{Abort, Alive, Drain, Expected, Failed, Message, Progress, Request, Resume};
use std::collections::{BTreeMap, BTreeSet};

/// EAGAIN from a rank's save: what stands in the way, say a child process, may soon be gone.
const TRANSIENT: i32 = 11;
/// So long a rank may continue saying so, and so often in any case; the pause in between.
const TRANSIENT_MS_MAX: u64 = 1000;
const TRANSIENT_TIMES: u32 = 5;
const TRANSIENT_PAUSE_MS: u64 = 20;
const FIRST_PATIENCE_MS: u64 = 2000;
const FIRST_PAUSE_MS: u64 = 100;
/// Longest free run between two attempts.
const PAUSE_MS_MAX: u64 = 2000;

#[derive(Debug)]
enum Phase {
    /// Until all ranks of a program that saves itself have asked (app_request.rs).
    Ask,
    /// REQUEST is out; the ranks are on their way to a safe state.
    Gather,
    /// DRAIN is out; the bookmarks of these are here: rank -> messages sent by receiver.
    Bookmarks(Bookmarks),
    /// EXPECTED is out, made of these bookmarks; these ranks have received everything.
    Drain(Bookmarks, BTreeSet<u32>),
    /// All ranks are where they can be saved; the shell makes the snapshot's directory.
    Prepare,
    /// SAVE is out; these ranks are saved.
    Save(BTreeMap<u32, ImageDone>),
    /// The shell makes the snapshot durable.
    Commit(Vec<ImageDone>),
    /// Between two attempts: the job runs until then.
    Pause(u64),
}

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

/// A checkpoint under way.
#[derive(Debug)]
pub(crate) struct Run {
    pub epoch: u32,
    pub caller: Caller,
    /// All ranks wait for its outcome in their programs.
    pub asked: bool,
    stop: bool,
    phase: Phase,
    protocol: Coordinator,
    kept: u64,
    /// What ranks do instead of parking, as they say.
    held: BTreeMap<u32, String>,
    attempts: u32,
    begun_ms: u64,
    /// When a rank first said that it cannot be saved just now, and how often that was said.
    transient: Option<(u64, u32)>,
    safe_ms: u64,
    /// By when the caller wants a safe state.
    safe_by_ms: u64,
    /// When the present phase has taken too long.
    deadline_ms: u64,
    progress_ms: u64,
}

impl Run {
    pub(crate) fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Ask => "waiting for fermata_checkpoint",
            Phase::Gather if self.protocol.has_clocks() => "parking",
            Phase::Gather => "reading clocks",
            Phase::Bookmarks(_) => "completing collectives",
            Phase::Drain(..) => "draining messages",
            Phase::Prepare | Phase::Save(_) => "writing images",
            Phase::Commit(_) => "committing",
            Phase::Pause(_) if self.attempts == 0 => "waiting until old snapshots are removed",
            Phase::Pause(_) => "letting the job run before a new attempt",
        }
    }

    /// Ranks whose part in this phase is done.
    fn done(&self) -> BTreeSet<u32> {
        match &self.phase {
            Phase::Gather => self.protocol.done().collect(),
            Phase::Drain(_, set) => set.clone(),
            Phase::Bookmarks(map) => map.keys().copied().collect(),
            Phase::Save(map) => map.keys().copied().collect(),
            Phase::Commit(images) => images.iter().map(|image| image.rank).collect(),
            Phase::Ask | Phase::Prepare | Phase::Pause(_) => BTreeSet::new(),
        }
    }

    /// Whether it begins once the program lets it.
    pub(crate) fn awaits_program(&self) -> bool {
        matches!(self.phase, Phase::Ask)
    }

    /// What the ranks should know of it by now.
    pub(crate) fn alive(&self) -> Alive {
        let epoch = match self.phase {
            Phase::Ask | Phase::Pause(_) => 0,
            _ => self.epoch,
        };
        let saving = matches!(self.phase, Phase::Save(_) | Phase::Commit(_));
        let resumed = self.protocol.is_over();
        Alive { epoch, saving: saving.into(), resumed: resumed.into(), ..Alive::default() }
    }

    /// A rank cannot be saved just now. Whether that is worth another attempt.
    fn may_pass(&mut self, now: u64) -> bool {
        let (since, times) = self.transient.unwrap_or((now, 0));
        self.transient = Some((since, times + 1));
        let is_new = now < since + TRANSIENT_MS_MAX || times < TRANSIENT_TIMES;
        is_new && now + TRANSIENT_PAUSE_MS < self.safe_by_ms
    }

    fn timeout_ms(&self) -> u64 {
        FIRST_PATIENCE_MS << (self.attempts - 1).min(6)
    }
}

impl Machine {
    pub(crate) fn begin(&mut self, caller: Caller, stop: bool, timeout_ms: u64, now: u64) {
        self.run = Some(Run {
            epoch: self.epoch + u32::from(self.removing), // that of its first attempt
            caller,
            asked: caller == Caller::Ranks,
            stop,
            phase: Phase::Pause(now),
            protocol: Coordinator::new(0),
            kept: 0,
            held: BTreeMap::new(),
            attempts: 0,
            begun_ms: now,
            transient: None,
            safe_ms: now,
            safe_by_ms: now.saturating_add(timeout_ms),
            deadline_ms: now.saturating_add(timeout_ms),
            progress_ms: now,
        });
        if !self.removing {
            self.attempt(now);
        }
    }

    /// Starts an attempt under a fresh epoch; numbers are cheap and confusion is not.
    fn attempt(&mut self, now: u64) {
        self.epoch += 1;
        let epoch = self.epoch;
        let Some(run) = &mut self.run else { return };
        run.epoch = epoch;
        run.attempts += 1;
        run.held.clear();
        run.protocol = Coordinator::new(self.ranks.len());
        run.progress_ms = now;
        let asked = u32::from(run.asked);
        let what = if run.attempts == 1 { "begins" } else { "tries again" };
        self.log(format!("checkpoint {epoch} {what}"));
        let Some(run) = &mut self.run else { return };
        if self.config.checkpointer.waits_for_program() {
            run.phase = Phase::Ask;
        } else {
            run.phase = Phase::Gather;
            self.send_ranks(Request { epoch, asked });
        }
        self.tell_progress();
    }

    pub(crate) fn tell_progress(&mut self) {
        let Some(run) = &self.run else { return };
        let Caller::Client(client) = run.caller else { return };
        let progress = Progress {
            phase: run.phase_name().into(),
            done: u32::try_from(run.done().len()).unwrap_or(u32::MAX),
            ranks: self.size.unwrap_or(0),
        };
        self.send(client, progress);
    }

    /// A report of the safe-state protocol, from an agent.
    pub(crate) fn on_report(&mut self, conn: Conn, message: Message, now: u64) {
        let Some(rank) = self.agents.get(&conn).and_then(|agent| agent.rank) else {
            return self.log(format!("{} from a process without a rank", message.name()));
        };
        if let Message::Ask(ask) = message {
            return self.on_ask(rank, &ask, now);
        }
        if let Message::Failed(failed) = message {
            return self.on_failed(rank, &failed, now);
        }
        let Some(run) = &mut self.run else { return };
        if let Some(report) = report_of(&message, run.epoch) {
            return self.on_word(rank, &report, now);
        }
        let all = self.ranks.len();
        let complete = match (&mut run.phase, message) {
            (_, Message::Held(m)) if m.epoch == run.epoch => {
                run.held.insert(rank, m.message);
                return;
            }
            (Phase::Bookmarks(sent), Message::Sent(m)) if m.epoch == run.epoch => {
                sent.insert(rank, m.list);
                sent.len() == all
            }
            (Phase::Drain(_, drained), Message::Drained(m)) if m.epoch == run.epoch => {
                run.kept += m.kept;
                drained.insert(rank);
                drained.len() == all
            }
            (Phase::Save(done), Message::Saved(m)) if m.epoch == run.epoch => {
                if m.error != 0 {
                    let may_pass = m.error == TRANSIENT && run.may_pass(now);
                    let who = self.name_rank(rank);
                    let why = match m.message.as_str() {
                        "" => format!("{who}: errno {}", m.error),
                        text => format!("{who}: {text}"),
                    };
                    if may_pass {
                        return self.try_later(why, now);
                    }
                    let hint = self.hint_for_image(m.error);
                    return self.fail(&why, &hint, now);
                }
                let host = self
                    .agents
                    .get(&conn)
                    .map(|agent| agent.hello.host.clone())
                    .unwrap_or_default();
                done.insert(
                    rank,
                    ImageDone { rank, bytes: m.bytes, crc: m.crc, pause_ns: m.pause_ns, host },
                );
                done.len() == all
            }
            // Late or early words of another phase or epoch.
            _ => return,
        };
        run.progress_ms = now;
        if complete {
            self.advance(now);
        }
        self.tell_progress();
    }

    /// A rank takes no part in this checkpoint, or waits no longer for one that all have asked for.
    fn on_failed(&mut self, rank: u32, failed: &Failed, now: u64) {
        let waits_no_longer = failed.epoch == 0;
        if waits_no_longer {
            self.forget_ask(rank);
        }
        let Some(run) = &self.run else { return };
        if failed.epoch == run.epoch || waits_no_longer && run.asked {
            let who = self.name_rank(rank);
            self.fail(&format!("{who}: {}", failed.message), HINT_REFUSED, now);
        }
    }

    /// A word of the safe-state protocol, of this attempt.
    fn on_word(&mut self, rank: u32, report: &Report, now: u64) {
        let Some(run) = &mut self.run else { return };
        if matches!(run.phase, Phase::Pause(_)) {
            return;
        }
        if matches!(report, Report::Parked(..)) {
            run.held.remove(&rank);
        }
        let mut outputs = Vec::new();
        run.protocol.on_report(rank, report, &mut outputs);
        run.progress_ms = now;
        let epoch = run.epoch;
        for output in outputs {
            match output {
                Output::Directive(rank, directive) => {
                    let Some(conn) = self.ranks.get(&rank).copied() else { continue };
                    self.send(conn, targets_of(epoch, &directive));
                }
                Output::Safe => self.advance(now),
                Output::Resume => self.send_ranks(Resume { epoch }),
                Output::Refused(rank) => self.rank_finalizes(rank, now),
            }
        }
        self.tell_progress();
    }

    /// Every rank has done its part of the phase.
    fn advance(&mut self, now: u64) {
        let Some(run) = &mut self.run else { return };
        let epoch = run.epoch;
        match std::mem::replace(&mut run.phase, Phase::Pause(now)) {
            Phase::Gather => {
                run.phase = Phase::Bookmarks(BTreeMap::new());
                self.send_ranks(Drain { epoch });
            }
            Phase::Bookmarks(sent) => {
                self.send_expected(epoch, &sent);
                if let Some(run) = &mut self.run {
                    run.phase = Phase::Drain(sent, BTreeSet::new());
                }
            }
            Phase::Drain(..) => self.prepare(now),
            Phase::Save(done) => {
                let images: Vec<ImageDone> = done.into_values().collect();
                run.phase = Phase::Commit(images.clone());
                let size = self.size.unwrap_or(0);
                let lower = self
                    .agents
                    .values()
                    .map(|agent| agent.hello.lower.clone())
                    .next()
                    .unwrap_or_default();
                self.out.push(Action::Commit(CommitPlan { epoch, size, lower, images }));
            }
            other @ (Phase::Ask | Phase::Prepare | Phase::Commit(_) | Phase::Pause(_)) => {
                run.phase = other;
            }
        }
    }

    fn send_expected(&mut self, epoch: u32, sent: &Bookmarks) {
        let mut by_receiver = received_of(sent);
        for (rank, conn) in self.ranks.clone() {
            let list = by_receiver.remove(&u64::from(rank)).unwrap_or_default();
            self.send(conn, Expected { epoch, list });
        }
    }

    /// Ranks that drain hear first what they are to receive, which may have been lost on the way.
    /// In the end all know it or none does; synchronous sends count on that (decision 0045).
    fn send_abort(&mut self, epoch: u32, phase: &Phase, reason: String) {
        if let Phase::Drain(sent, _) = phase {
            self.send_expected(epoch, sent);
        }
        self.send_ranks(Abort { epoch, reason });
    }

    /// Gives this attempt up; the next one begins in a moment.
    fn try_later(&mut self, reason: String, now: u64) {
        let Some(run) = &mut self.run else { return };
        let phase = std::mem::replace(&mut run.phase, Phase::Pause(now + TRANSIENT_PAUSE_MS));
        run.deadline_ms = run.safe_by_ms;
        let epoch = run.epoch;
        self.log(format!("checkpoint {epoch}: {reason}; trying again"));
        self.send_abort(epoch, &phase, reason);
        self.out.push(Action::Discard(epoch));
    }

    /// Ends the checkpoint because of something in the job, unless its images are all there: then
    /// nothing that becomes of the job keeps the shell from storing them.
    pub(crate) fn fail(&mut self, why: &str, hint: &str, now: u64) {
        if !self.run.as_ref().is_some_and(|run| matches!(run.phase, Phase::Commit(_))) {
            self.give_up(why, hint, now);
        }
    }

    /// Ends the checkpoint; the job continues.
    pub(crate) fn give_up(&mut self, why: &str, hint: &str, now: u64) {
        let Some(run) = self.run.take() else { return };
        let (epoch, phase) = (run.epoch, run.phase_name());
        self.epoch = epoch;
        let runs_on = self.gone.is_empty() && !self.over;
        let rest = if runs_on { "; the job continues" } else { "" };
        let text = format!("checkpoint {epoch} failed while {phase}: {why}{rest}");
        self.log(text.clone());
        self.last_outcome.clone_from(&text);
        self.send_abort(epoch, &run.phase, why.into());
        self.discard(&run);
        if run.asked {
            self.answer_ranks(1, &text);
        }
        if let Caller::Client(client) = run.caller {
            let figures = serde_json::json!({
                "epoch": epoch, "phase": phase, "attempts": run.attempts,
                "milliseconds": now - run.begun_ms,
            });
            self.answer(client, 1, &with_hint(&text, hint), "", figures);
        }
    }

    /// While images are being written the job runs, and may well come to its end.
    pub(crate) fn needs_ranks(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !matches!(run.phase, Phase::Save(_) | Phase::Commit(_)))
    }

    pub(crate) fn run_on_time(&mut self, now: u64) {
        let Some(run) = &mut self.run else { return };
        if now >= run.deadline_ms && !matches!(run.phase, Phase::Commit(_)) {
            if run.attempts == 0 || matches!(run.phase, Phase::Prepare) {
                let hint = self.hint_for_directory();
                return self.fail("that has taken too long", &hint, now);
            }
            let (done, is_writing) = (run.done(), matches!(run.phase, Phase::Save(_)));
            let late: BTreeSet<u32> =
                self.ranks.keys().copied().filter(|rank| !done.contains(rank)).collect();
            let held = run.held.first_key_value().map(|(who, what)| (*who, what.clone()));
            if let (false, Some((who, what))) = (is_writing, held) {
                let why = format!("{} {what}", self.name_rank(who));
                return self.fail(&why, HINT_HELD, now);
            }
            if run.awaits_program() {
                let who = self.name_ranks(&self.not_asking());
                return self.fail(&format!("{who} not called it in time"), HINT_ASK, now);
            }
            let why = format!("{} not done so in time", self.name_ranks(&late));
            let hint = self.hint_for_lateness(is_writing);
            return self.fail(&why, &hint, now);
        }
        match run.phase {
            Phase::Pause(until) if now >= until && !self.removing => self.attempt(now),
            Phase::Gather
                if run.protocol.has_clocks() && now >= run.progress_ms + run.timeout_ms() =>
            {
                let pause = (FIRST_PAUSE_MS << run.attempts.min(8)).min(PAUSE_MS_MAX);
                run.phase = Phase::Pause(now + pause);
                let epoch = run.epoch;
                let reason = "no rank makes progress; trying again".to_owned();
                self.log(format!("checkpoint {epoch}: {reason}"));
                self.send_ranks(Abort { epoch, reason });
            }
            _ => {}
        }
    }
}

#[path = "storing.rs"]
mod storing;
#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
