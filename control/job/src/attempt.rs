// SPDX-License-Identifier: Apache-2.0
//! The attempt to take one checkpoint, from REQUEST to commit or ABORT, as a machine of its own: an
//! event in, effects out. It alone changes the phase.
//!
//! How the ranks come to a safe state, and when they may continue from it, is for
//! `fermata-protocol` to say; here its words go over the wire, and what the rest of a checkpoint
//! takes is added.
//!
//! If nobody says anything for a time the attempt is given up, the job runs freely for a moment,
//! and a new one begins, with a growing timeout, until the caller's time is over. The wait-for
//! graph is there so that this is not seen; a program that polls, and waits in no call, can still
//! bring it about.
//!
//! Invariant: a report that does not belong to the phase has no effect.
//! Invariant: whichever way an attempt ends, its ranks hear ABORT or the snapshot is committed.

use crate::interface::ImageDone;
use crate::reasons::Unsaved;
use crate::texts;
use crate::times::Stage;
use crate::wire::{Bookmarks, received_of, targets_of};
use fermata_protocol::{Coordinator, Output, RankId, Report};
use fermata_types::{Abort, Alive, Drain, Expected, Message, Request, Resume};
use std::collections::{BTreeMap, BTreeSet};

const FIRST_TIMEOUT_MS: u64 = 2000;
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
    Drain(Bookmarks, BTreeSet<RankId>),
    /// All ranks are where they can be saved; the shell makes the snapshot's directory.
    Prepare,
    /// SAVE is out; these ranks are saved.
    Save(BTreeMap<RankId, ImageDone>),
    /// The shell makes the snapshot durable.
    Commit(Vec<ImageDone>),
    /// Between two attempts: the job runs until then.
    Pause(u64),
}

/// What an attempt hears.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next attempt begins under this number, with so many ranks.
    Begin {
        epoch: u32,
        ranks: usize,
        /// All ranks have asked for it, and wait.
        asked: bool,
        /// Not before the program lets it.
        waits_for_program: bool,
    },
    /// All ranks of a program that saves itself have asked.
    ProgramReady,
    /// A word of the safe-state protocol.
    Report(RankId, Report),
    /// What a rank does instead of parking.
    Held(RankId, String),
    /// A rank's bookmarks.
    Sent(RankId, Vec<(u64, u64)>),
    /// A rank has received what was under way to it, and keeps so many messages.
    Drained(RankId, u64),
    /// The shell has made the directory, or cannot.
    DirectoryDone,
    /// A rank's image is written.
    Saved(ImageDone),
    /// A rank has not written its image.
    NotSaved(Unsaved),
    /// It is given up because of this; the next attempt begins then.
    TryLater { reason: String, until_ms: u64 },
    /// It is given up for good.
    Abort { reason: String },
    /// Time has passed.
    Tick,
}

/// What an attempt wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Send to one rank.
    Send(RankId, Message),
    /// Send to all ranks.
    SendAll(Message),
    /// The state is safe: make the directory for the images.
    Prepare,
    /// Tell all ranks to write their images.
    Save,
    /// Make the snapshot of these images durable.
    Commit(Vec<ImageDone>),
    /// Remove what there is of the snapshot.
    Discard,
    /// Remove it once its directory is made, which the shell has been told to do.
    DiscardPrepared,
    /// This rank could not be saved.
    NotSaved(Unsaved),
    /// This rank is inside MPI_Finalize.
    Refused(RankId),
    /// The pause is over.
    Again,
    /// Something has been achieved.
    Progress,
    /// For the log.
    Log(String),
}

/// The newest attempt of a checkpoint.
#[derive(Debug)]
pub(crate) struct Attempt {
    epoch: u32,
    /// Counts the attempts of its checkpoint; 0: none has begun.
    number: u32,
    ranks: usize,
    phase: Phase,
    protocol: Coordinator,
    /// What ranks do instead of parking, as they say.
    held: BTreeMap<RankId, String>,
    /// Messages that ranks keep, of all attempts.
    kept: u64,
    progress_ms: u64,
}

impl Attempt {
    /// One that has not begun, because old snapshots are being removed; `epoch` is to be its
    /// number.
    pub(crate) fn waiting(epoch: u32, now: u64) -> Self {
        Self {
            epoch,
            number: 0,
            ranks: 0,
            phase: Phase::Pause(now),
            protocol: Coordinator::new(0),
            held: BTreeMap::new(),
            kept: 0,
            progress_ms: now,
        }
    }

    /// Takes one event and tells what to do.
    pub(crate) fn step(&mut self, event: Event, now: u64) -> Vec<Effect> {
        let effects = match event {
            Event::Begin { epoch, ranks, asked, waits_for_program } => {
                self.begin(epoch, ranks);
                self.request(asked, waits_for_program)
            }
            Event::ProgramReady => self.on_program_ready(),
            Event::Report(rank, report) => self.on_report(rank, &report),
            Event::Held(rank, what) => {
                self.held.insert(rank, what);
                Vec::new()
            }
            Event::Sent(rank, list) => self.on_sent(rank, list),
            Event::Drained(rank, kept) => self.on_drained(rank, kept),
            Event::DirectoryDone => self.on_directory_done(),
            Event::Saved(image) => self.on_saved(image),
            Event::NotSaved(unsaved) if self.is_writing() => vec![Effect::NotSaved(unsaved)],
            Event::NotSaved(_) => Vec::new(),
            Event::TryLater { reason, until_ms } => self.try_later(reason, until_ms),
            Event::Abort { reason } => self.abort(reason),
            Event::Tick => self.on_tick(now),
        };
        if effects.contains(&Effect::Progress) {
            self.progress_ms = now;
        }
        effects
    }

    fn begin(&mut self, epoch: u32, ranks: usize) {
        self.epoch = epoch;
        self.number += 1;
        self.ranks = ranks;
        self.protocol = Coordinator::new(ranks);
        self.held.clear();
    }

    fn request(&mut self, asked: bool, waits_for_program: bool) -> Vec<Effect> {
        let begins = Effect::Log(texts::attempt_begins(self.epoch, self.number));
        if waits_for_program {
            self.phase = Phase::Ask;
            return vec![begins, Effect::Progress];
        }
        self.phase = Phase::Gather;
        let request = Request { epoch: self.epoch, asked: asked.into() };
        vec![begins, Effect::SendAll(request.into()), Effect::Progress]
    }

    fn on_program_ready(&mut self) -> Vec<Effect> {
        if !self.awaits_program() {
            return Vec::new();
        }
        self.phase = Phase::Prepare;
        vec![Effect::Prepare]
    }

    fn on_report(&mut self, rank: RankId, report: &Report) -> Vec<Effect> {
        if matches!(self.phase, Phase::Pause(_)) {
            return Vec::new();
        }
        if matches!(report, Report::Parked(..)) {
            self.held.remove(&rank);
        }
        let (mut outputs, mut effects) = (Vec::new(), Vec::new());
        self.protocol.on_report(rank, report, &mut outputs);
        for output in outputs {
            effects.extend(match output {
                Output::Directive(rank, directive) => {
                    Some(Effect::Send(rank, targets_of(self.epoch, &directive).into()))
                }
                Output::Safe => self.on_safe(),
                Output::Resume => Some(Effect::SendAll(Resume { epoch: self.epoch }.into())),
                Output::Refused(rank) => Some(Effect::Refused(rank)),
            });
        }
        effects.push(Effect::Progress);
        effects
    }

    /// All ranks stand where no collective call is half begun.
    fn on_safe(&mut self) -> Option<Effect> {
        let Phase::Gather = self.phase else { return None };
        self.phase = Phase::Bookmarks(BTreeMap::new());
        Some(Effect::SendAll(Drain { epoch: self.epoch }.into()))
    }

    fn on_sent(&mut self, rank: RankId, list: Vec<(u64, u64)>) -> Vec<Effect> {
        let Phase::Bookmarks(sent) = &mut self.phase else { return Vec::new() };
        sent.insert(rank, list);
        if sent.len() < self.ranks {
            return vec![Effect::Progress];
        }
        let sent = std::mem::take(sent);
        let mut effects = self.expected(&sent);
        self.phase = Phase::Drain(sent, BTreeSet::new());
        effects.push(Effect::Progress);
        effects
    }

    fn on_drained(&mut self, rank: RankId, kept: u64) -> Vec<Effect> {
        let Phase::Drain(_, drained) = &mut self.phase else { return Vec::new() };
        self.kept += kept;
        drained.insert(rank);
        if drained.len() < self.ranks {
            return vec![Effect::Progress];
        }
        self.phase = Phase::Prepare;
        vec![Effect::Prepare, Effect::Progress]
    }

    fn on_directory_done(&mut self) -> Vec<Effect> {
        if !self.is_preparing() {
            return Vec::new();
        }
        self.phase = Phase::Save(BTreeMap::new());
        vec![Effect::Save, Effect::Progress]
    }

    fn on_saved(&mut self, image: ImageDone) -> Vec<Effect> {
        let Phase::Save(done) = &mut self.phase else { return Vec::new() };
        done.insert(image.rank, image);
        if done.len() < self.ranks {
            return vec![Effect::Progress];
        }
        let images: Vec<ImageDone> = std::mem::take(done).into_values().collect();
        self.phase = Phase::Commit(images.clone());
        vec![Effect::Commit(images), Effect::Progress]
    }

    fn try_later(&mut self, reason: String, until_ms: u64) -> Vec<Effect> {
        let log = Effect::Log(texts::attempt_tries_again(self.epoch, &reason));
        let mut effects = vec![log];
        effects.extend(self.aborted(reason));
        self.phase = Phase::Pause(until_ms);
        effects.push(Effect::Discard);
        effects
    }

    fn abort(&mut self, reason: String) -> Vec<Effect> {
        let mut effects = self.aborted(reason);
        effects.push(match self.phase {
            Phase::Prepare => Effect::DiscardPrepared,
            _ => Effect::Discard,
        });
        effects
    }

    fn on_tick(&mut self, now: u64) -> Vec<Effect> {
        match self.phase {
            Phase::Pause(until) if now >= until => vec![Effect::Again],
            Phase::Gather if self.is_stuck(now) => {
                let pause = (FIRST_PAUSE_MS << self.number.min(8)).min(PAUSE_MS_MAX);
                self.phase = Phase::Pause(now + pause);
                let reason = texts::NO_PROGRESS.to_owned();
                let log = texts::attempt_fails(self.epoch, &reason);
                let abort = Abort { epoch: self.epoch, reason };
                vec![Effect::Log(log), Effect::SendAll(abort.into())]
            }
            _ => Vec::new(),
        }
    }

    /// Whether nobody has said anything for too long.
    fn is_stuck(&self, now: u64) -> bool {
        let timeout_ms = FIRST_TIMEOUT_MS << (self.number - 1).min(6);
        self.protocol.has_clocks() && now >= self.progress_ms + timeout_ms
    }

    /// What each rank is to receive.
    fn expected(&self, sent: &Bookmarks) -> Vec<Effect> {
        let mut by_receiver = received_of(sent);
        let ranks = 0..RankId::try_from(self.ranks).unwrap_or(RankId::MAX);
        let expected = ranks.map(|rank| {
            let list = by_receiver.remove(&u64::from(rank)).unwrap_or_default();
            Effect::Send(rank, Expected { epoch: self.epoch, list }.into())
        });
        expected.collect()
    }

    /// Ranks that drain hear first what they are to receive, which may have been lost on the way.
    /// In the end all know it or none does; synchronous sends count on that (decision 0045).
    fn aborted(&self, reason: String) -> Vec<Effect> {
        let mut effects = match &self.phase {
            Phase::Drain(sent, _) => self.expected(sent),
            _ => Vec::new(),
        };
        effects.push(Effect::SendAll(Abort { epoch: self.epoch, reason }.into()));
        effects
    }
}

/// What others ask of it.
impl Attempt {
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Attempts made so far.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn messages_kept(&self) -> u64 {
        self.kept
    }

    /// What a rank does instead of parking, of the first that does.
    pub(crate) fn held(&self) -> Option<(RankId, &str)> {
        self.held.first_key_value().map(|(rank, what)| (*rank, what.as_str()))
    }

    pub(crate) fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Ask => "waiting for fermata_checkpoint",
            Phase::Gather if self.protocol.has_clocks() => "parking",
            Phase::Gather => "reading clocks",
            Phase::Bookmarks(_) => "completing collectives",
            Phase::Drain(..) => "draining messages",
            Phase::Prepare | Phase::Save(_) => "writing images",
            Phase::Commit(_) => "committing",
            Phase::Pause(_) if self.number == 0 => "waiting until old snapshots are removed",
            Phase::Pause(_) => "letting the job run before a new attempt",
        }
    }

    /// The part of a checkpoint that this phase belongs to.
    pub(crate) fn stage(&self) -> Stage {
        match self.phase {
            Phase::Ask | Phase::Pause(_) => Stage::Wait,
            Phase::Gather => Stage::Park,
            Phase::Bookmarks(_) | Phase::Drain(..) => Stage::Drain,
            Phase::Prepare | Phase::Save(_) => Stage::Save,
            Phase::Commit(_) => Stage::Commit,
        }
    }

    /// Ranks whose part in this phase is done.
    pub(crate) fn done(&self) -> BTreeSet<RankId> {
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

    /// Whether the shell is making the directory.
    pub(crate) fn is_preparing(&self) -> bool {
        matches!(self.phase, Phase::Prepare)
    }

    /// Whether ranks have been told to write their images, and not all have.
    pub(crate) fn is_writing(&self) -> bool {
        matches!(self.phase, Phase::Save(_))
    }

    /// The images of a snapshot that the shell is making durable.
    pub(crate) fn committing(&self) -> Option<&[ImageDone]> {
        match &self.phase {
            Phase::Commit(images) => Some(images),
            _ => None,
        }
    }

    /// While images are being written the job runs, and may well come to its end.
    pub(crate) fn needs_ranks(&self) -> bool {
        !matches!(self.phase, Phase::Save(_) | Phase::Commit(_))
    }

    /// What the ranks should know of it by now.
    pub(crate) fn alive(&self) -> Alive {
        let epoch = match self.phase {
            Phase::Ask | Phase::Pause(_) => 0,
            _ => self.epoch,
        };
        let saving = u32::from(!self.needs_ranks());
        Alive { epoch, saving, resumed: self.protocol.is_over().into(), ..Alive::default() }
    }
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;
