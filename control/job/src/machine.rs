// SPDX-License-Identifier: Apache-2.0
//! The machine: it takes what the world tells to the parts that know of it, and says what is to be
//! done. Who is there is the registry's affair, how a checkpoint comes about the attempt's, what is
//! said to people that of the texts; a checkpoint's beginning and end are in `checkpointing.rs`.

use crate::advice::{Advice, Effect as Advised};
use crate::app_request::AppRequests;
use crate::checkpoint::{Caller, Checkpoint};
use crate::heartbeat::Heartbeat;
use crate::interface::{Action, Config, Conn, Event, Figures, Outcome, Reply, StatusView};
use crate::reasons::{Failure, Ranks, Refusal, Stranger};
use crate::registry::{Peer, Registry};
use crate::texts::{self, Scene, with_hint};
use fermata_plan::follow::Action as Due;
use fermata_plan::pace::{Event as Paced, Pace};
use fermata_protocol::RankId;
use fermata_types::{
    Alive, Checkpoint as CheckpointRequest, Exit, Hello, JobEvent, Message, Welcome,
};
use std::ops::RangeInclusive;

/// Numbers that Linux has for signals.
const SIGNALS: RangeInclusive<u32> = 1..=64;

/// What ranks end with that are to end though nothing of them has been saved.
const GIVEN_UP: i32 = 1;

/// The coordinator.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    registry: Registry,
    checkpoint: Option<Checkpoint>,
    app_requests: AppRequests,
    heartbeat: Heartbeat,
    /// Of the newest attempt.
    epoch: u32,
    /// Newest committed epoch, 0 if none.
    committed: u32,
    /// What the newest checkpoint of this run took.
    newest_cost_ms: Option<u64>,
    /// Old snapshots, or what is left of others, are being removed.
    removing: bool,
    /// A checkpoint with `stop` has ended the job.
    stopped: bool,
    over: bool,
    /// When it saves of itself.
    pace: Pace,
    /// Who says when exactly, beside the plan.
    advice: Option<Advice>,
    /// The job can be checkpointed, as the pace was told last.
    is_able: bool,
    /// How the last checkpoint ended.
    last_outcome: String,
    out: Vec<Action>,
}

impl Machine {
    /// A coordinator nobody has connected to yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let from = (config.last_epoch != 0).then_some(config.last_epoch);
        let pace = Pace::new(config.every.clone(), from);
        let advice = config.site.map(Advice::new);
        Self {
            epoch: config.last_epoch.max(config.committed_epoch),
            committed: config.committed_epoch,
            newest_cost_ms: None,
            pace: if advice.is_some() { pace.with_leave() } else { pace },
            advice,
            config,
            registry: Registry::default(),
            checkpoint: None,
            app_requests: AppRequests::default(),
            heartbeat: Heartbeat::default(),
            removing: true,
            stopped: false,
            over: false,
            is_able: false,
            last_outcome: String::new(),
            out: Vec::new(),
        }
    }

    /// Takes one event at the time `now_ms` (monotonic) and tells what to do.
    pub fn step(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        match event {
            Event::Message(conn, message) => self.on_message(conn, message, now_ms),
            Event::Closed(conn) => self.on_closed(conn, now_ms),
            Event::HostLost { host, why, silent, conns } => {
                self.on_host_lost(host, why, silent, &conns, now_ms);
            }
            Event::Over => {
                self.over = true;
                self.give_up(&Failure::Over, now_ms);
            }
            Event::Prepared(epoch, result) => self.on_prepared(epoch, result, now_ms),
            Event::Stored(epoch, result) => self.on_stored(epoch, result, now_ms),
            Event::Pruned(old) => self.on_pruned(&old),
            Event::EndRanks => self.end_ranks(GIVEN_UP),
            Event::Promoted { level, took_ms } => {
                let place = self.place_of(level);
                self.pace(&Paced::Promoted { place, took_ms }, now_ms);
            }
            Event::PromotionFailed { level } => {
                let place = self.place_of(level);
                self.pace(&Paced::PromotionFailed { place }, now_ms);
            }
            Event::Advised(number, answer) => {
                self.advise(|advice| advice.answered(number, answer, now_ms), now_ms);
            }
            Event::Tick => {}
        }
        self.on_time(now_ms);
        std::mem::take(&mut self.out)
    }

    /// What texts tell of the job.
    fn scene(&self) -> Scene<'_> {
        Scene {
            config: &self.config,
            hosts: self.registry.hosts(),
            committed: self.committed,
            has_ended_well: self.registry.shortfall(&Ranks::new()).is_none(),
        }
    }

    fn send(&mut self, conn: Conn, message: impl Into<Message>) {
        self.out.push(Action::Send(conn, message.into()));
    }

    fn send_rank(&mut self, rank: RankId, message: Message) {
        if let Some(conn) = self.registry.conn_of(rank) {
            self.out.push(Action::Send(conn, message));
        }
    }

    fn send_ranks(&mut self, message: impl Into<Message>) {
        let message = message.into();
        for conn in self.registry.ranks().values() {
            self.out.push(Action::Send(*conn, message.clone()));
        }
    }

    fn log(&mut self, text: impl Into<String>) {
        self.out.push(Action::Log(text.into()));
    }

    fn history(&mut self, event: JobEvent) {
        self.out.push(Action::History(Box::new(event)));
    }

    fn answer(&mut self, client: Conn, reply: Reply) {
        self.out.push(Action::Answer(client, reply));
    }

    fn turn_away(&mut self, conn: Conn, stranger: &Stranger) {
        self.log(texts::turned_away(stranger));
        self.out.push(Action::Close(conn));
    }
}

/// What peers say, and how they leave.
impl Machine {
    fn on_message(&mut self, conn: Conn, message: Message, now_ms: u64) {
        match (self.registry.peer(conn), message) {
            (Peer::Unknown, Message::Hello(hello)) => self.on_hello(conn, hello),
            (Peer::Unknown, Message::ClientHello(hello)) => {
                if hello.job != self.config.job {
                    return self.turn_away(conn, &Stranger::Command(hello.job));
                }
                self.registry.add_client(conn);
            }
            (Peer::Client, Message::Checkpoint(request)) => {
                self.on_checkpoint(conn, &request, now_ms);
            }
            (Peer::Client, Message::Status(_)) => self.on_status(conn),
            (Peer::Client, Message::Signalled(heard)) => self.on_signalled(conn, heard.signal),
            (Peer::Agent, message) => self.on_agent(conn, message, now_ms),
            (_, other) => self.turn_away(conn, &Stranger::Says(other.name())),
        }
    }

    fn on_agent(&mut self, conn: Conn, message: Message, now_ms: u64) {
        match message {
            Message::Ready(ready) => self.on_ready(conn, ready.rank, ready.size),
            Message::Rebuilt(ready) => self.on_ready(conn, ready.rank, ready.size),
            Message::Finalizing(_) => {
                if let Some(rank) = self.registry.on_finalizing(conn) {
                    self.rank_finalizes(rank, now_ms);
                }
            }
            Message::Aborting(aborting) => self.registry.on_aborting(aborting.code),
            Message::Bye(_) => {}
            Message::Signalled(signalled) => self.on_signalled(conn, signalled.signal),
            other => self.on_report(conn, other, now_ms),
        }
    }

    /// Whatever the ranks do just now: who has started the job decides what comes of it.
    fn on_signalled(&mut self, conn: Conn, signal: u32) {
        if !SIGNALS.contains(&signal) {
            return;
        }
        let rank = self.registry.rank_of(conn);
        self.log(texts::signalled(rank, signal));
        self.out.push(Action::Signalled { rank, signal });
    }

    fn on_hello(&mut self, conn: Conn, hello: Hello) {
        if hello.job != self.config.job {
            return self.turn_away(conn, &Stranger::Agent(hello.job));
        }
        self.registry.add_agent(conn, hello);
        let epoch = self.committed;
        self.send(conn, Welcome { epoch });
    }

    fn on_ready(&mut self, conn: Conn, rank: RankId, size: u32) {
        match self.registry.on_ready(conn, rank, size) {
            Ok(true) => self.log(texts::all_ready(size)),
            Ok(false) => {}
            Err(stranger) => self.turn_away(conn, &stranger),
        }
    }

    fn on_closed(&mut self, conn: Conn, now_ms: u64) {
        if self.registry.remove_client(conn) {
            // The checkpoint continues without its audience: what is half done helps nobody.
            if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.forget(conn);
            }
        }
        let Some(rank) = self.registry.remove_agent(conn) else { return };
        self.app_requests.forget(rank);
        let has_ended = self.registry.has_ended(rank);
        let failure = if has_ended { Failure::Ended(rank) } else { Failure::Left(rank) };
        self.fail(&failure, now_ms);
    }

    fn on_host_lost(
        &mut self,
        host: String,
        why: String,
        is_silent: bool,
        conns: &[Conn],
        now_ms: u64,
    ) {
        let loss = self.registry.lose_host(host, why, conns);
        self.log(texts::host_lost(&loss));
        self.fail(&Failure::HostLost { loss, is_silent }, now_ms);
        for conn in conns {
            self.on_closed(*conn, now_ms);
        }
    }

    fn rank_finalizes(&mut self, rank: RankId, now: u64) {
        if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.attempt.needs_ranks()) {
            self.fail(&Failure::Finalizing(rank), now);
        }
    }
}

/// What commands and time ask for.
impl Machine {
    /// Why no checkpoint can be taken now, if so.
    fn refusal(&self) -> Option<Refusal> {
        if self.stopped {
            return Some(Refusal::Stopped);
        }
        if let Some(Checkpoint { attempt, .. }) = &self.checkpoint {
            return Some(Refusal::Busy { epoch: attempt.epoch(), phase: attempt.phase_name() });
        }
        self.registry.refusal()
    }

    fn on_checkpoint(&mut self, client: Conn, request: &CheckpointRequest, now_ms: u64) {
        if let Some(refusal) = self.refusal() {
            let text = self.scene().refusal(&refusal);
            let reply = Reply {
                outcome: Outcome::Refused,
                message: with_hint(&texts::no_checkpoint(&text.what), &text.hint),
                snapshot: String::new(),
                figures: Figures::Refused { busy: self.checkpoint.is_some() },
            };
            return self.answer(client, reply);
        }
        let timeout_ms =
            if request.timeout_ms == 0 { self.config.timeout_ms } else { request.timeout_ms };
        self.begin(Caller::Client(client), request.stop != 0, timeout_ms, now_ms);
    }

    fn on_status(&mut self, client: Conn) {
        let attempt = self.checkpoint.as_ref().map(|checkpoint| &checkpoint.attempt);
        let ready = self.registry.ranks().len();
        let message = texts::status(
            attempt.map(|attempt| (attempt.epoch(), attempt.phase_name())),
            self.registry.size(),
            ready,
            self.agent_count(),
        );
        let view = StatusView {
            job: self.config.job.clone(),
            size: self.registry.size(),
            ready,
            committed_epoch: self.committed,
            stopped: self.stopped,
            phase: attempt.map_or("none", |attempt| attempt.phase_name()),
            refusal: self.refusal().map(|refusal| self.scene().refusal(&refusal).what),
            last: self.last_outcome.clone(),
            ranks: self.rank_views(),
        };
        let figures = Figures::Status(view);
        let reply = Reply { outcome: Outcome::Ok, message, snapshot: String::new(), figures };
        self.answer(client, reply);
    }

    fn on_time(&mut self, now_ms: u64) {
        self.checkpoint_on_time(now_ms);
        self.app_requests_on_time(now_ms);
        self.alive_on_time(now_ms);
        self.pace_on_time(now_ms);
    }

    fn pace_on_time(&mut self, now_ms: u64) {
        // While a checkpoint is taken another is refused; that the pace knows.
        let is_able = self.refusal().is_none();
        if self.checkpoint.is_none() && is_able != self.is_able {
            self.is_able = is_able;
            self.pace(&Paced::Able(is_able), now_ms);
            if is_able {
                self.advise(Advice::running, now_ms);
            }
        }
        self.pace(&Paced::Wake, now_ms);
        self.advise(|advice| advice.on_time(now_ms), now_ms);
    }

    /// The levels of the run that the plan has, in its order; none without a plan.
    fn planned_levels(&self) -> &[usize] {
        self.pace.follower().map_or(&[], |follower| &follower.planned().plan.levels)
    }

    /// Where a level of the run is in the plan.
    fn place_of(&self, level: usize) -> usize {
        self.planned_levels().iter().position(|one| *one == level).unwrap_or_default()
    }

    /// Tells the pace, and does what it says. Time passes by itself. One level at a time is made
    /// anyway, so none has to pause for another.
    fn pace(&mut self, event: &Paced, now_ms: u64) {
        for action in self.pace.step(event, now_ms) {
            match action {
                Due::Save => self.begin(Caller::Nobody, false, self.config.timeout_ms, now_ms),
                Due::Replanned => {
                    let planned =
                        self.pace.follower().map(|follower| follower.planned().plan.interval_s);
                    self.log(texts::replanned(planned.unwrap_or_default()));
                }
                Due::WakeAt(due_ms) => {
                    let every_ms = self.pace.interval_ms().unwrap_or_default();
                    self.advise(|advice| advice.due(due_ms, every_ms, now_ms), now_ms);
                }
                Due::Promote { epoch, place } => {
                    if let Some(&level) = self.planned_levels().get(place) {
                        self.out.push(Action::Promote { epoch, level });
                    }
                }
                Due::Pause { .. } => {}
            }
        }
    }

    /// Lets the site's advice hear something, if the job is advised, and does what it says.
    fn advise(&mut self, hear: impl FnOnce(&mut Advice) -> Vec<Advised>, now_ms: u64) {
        let effects = self.advice.as_mut().map(hear).unwrap_or_default();
        self.heed(effects, now_ms);
    }

    fn heed(&mut self, effects: Vec<Advised>, now_ms: u64) {
        for effect in effects {
            match effect {
                Advised::Offer(number, offer) => self.out.push(Action::Offer(number, offer)),
                Advised::Done(lease) => self.out.push(Action::LeaseDone(lease)),
                Advised::Save { lease, late_ms } => {
                    self.pace(&Paced::Leave, now_ms);
                    if self.checkpoint.is_some() {
                        self.log(texts::advised(lease, late_ms));
                    } else {
                        let ended = self.advice.as_mut().map(|advice| advice.ended(now_ms));
                        self.heed(ended.unwrap_or_default(), now_ms);
                    }
                }
            }
        }
    }

    fn alive_on_time(&mut self, now: u64) {
        let is_ending = self.stopped && self.agent_count() > 0;
        let is_busy = self.checkpoint.is_some()
            || self.app_requests.is_anyone_waiting()
            || self.registry.is_anyone_starting()
            || is_ending;
        if !self.heartbeat.step(is_busy, now) {
            return;
        }
        if is_ending {
            self.stop_all();
        } else {
            self.send_alive();
            self.send_progress();
        }
    }

    fn send_alive(&mut self) {
        let alive = self.checkpoint.as_ref().map_or_else(Alive::default, |c| c.attempt.alive());
        for conn in self.registry.agents() {
            let known = u32::from(self.registry.rank_of(conn).is_some());
            self.out.push(Action::Send(conn, Alive { known, ..alive }.into()));
        }
    }

    /// The job is to end.
    fn stop_all(&mut self) {
        self.stopped = true;
        self.end_ranks(0);
    }

    fn end_ranks(&mut self, code: i32) {
        for conn in self.registry.agents() {
            self.out.push(Action::Send(conn, Exit { code }.into()));
        }
    }
}

#[path = "checkpointing.rs"]
mod checkpointing;
#[path = "looks.rs"]
mod looks;
#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
