// SPDX-License-Identifier: Apache-2.0
//! The thread that owns the machine and performs its actions. When it ends is for
//! `fermata_job::ending` to say.

use crate::figures::answer_of;
use crate::hosts::Hosts;
use crate::input::Input;
use crate::options::Options;
use crate::shared::{Committed, Ends, Shared};
use crate::storage_worker::StorageWorker;
use crate::strangers::Strangers;
use fermata_advisor::Line;
use fermata_faults::{Action as FaultAction, Effect, Fault, fault};
use fermata_job::ending::{self, Ending};
use fermata_job::{Action, Config, Conn, DiskError, Event, Machine};
use fermata_storage::{discard, note_event};
use fermata_sysio::Log;
use fermata_transport::Writer;
use fermata_types::{JobEvent, Message, encode_frame};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

/// The thread's own.
pub(crate) struct Server {
    machine: Machine,
    ending: Ending,
    storage_worker: StorageWorker,
    options: Options,
    peers: BTreeMap<Conn, Box<dyn Writer>>,
    log: Log,
    /// That it cannot be written.
    has_told_of_history: bool,
    strangers: Strangers,
    around: Around,
    begun: Instant,
    shared: Arc<Shared>,
}

/// What there is beside the job.
pub(crate) struct Around {
    pub hosts: Hosts,
    /// The line to the site's service.
    pub site: Option<Line>,
}

impl Server {
    pub(crate) fn new(
        config: Config,
        storage_worker: StorageWorker,
        options: Options,
        log: Log,
        shared: Arc<Shared>,
        around: Around,
    ) -> Self {
        let linger = options.linger.map(milliseconds);
        Self {
            machine: Machine::new(config),
            ending: Ending::new(linger, 0),
            storage_worker,
            options,
            peers: BTreeMap::new(),
            log,
            has_told_of_history: false,
            strangers: Strangers::default(),
            around,
            begun: Instant::now(),
            shared,
        }
    }

    /// Serves the job until it, or whoever has started the coordinator, has ended.
    pub(crate) fn serve(mut self, inputs: &Receiver<Input>) {
        self.say("coordinator begins");
        while let Some(timeout) = self.next_timeout() {
            if self.shared.ends_ranks.swap(false, Ordering::AcqRel) {
                self.say("all ranks are to end: mpirun cannot end those of some host any more");
                self.handle(Event::EndRanks);
            }
            match inputs.recv_timeout(timeout) {
                Ok(input) => {
                    let Some(event) = self.event_of(input) else { continue };
                    self.handle(event);
                }
                Err(RecvTimeoutError::Timeout) if self.ends(ending::Event::Silence) => break,
                Err(RecvTimeoutError::Timeout) => self.handle(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.ends(self.how_it_is()) {
                break;
            }
        }
        self.end(inputs);
    }

    /// How long the next input may be waited for; `None`: not at all, it is time to end.
    fn next_timeout(&mut self) -> Option<Duration> {
        let is_told = self.shared.stop.load(Ordering::Acquire);
        let event = if is_told {
            ending::Event::Stop {
                at_once: self.shared.stop_at_once.load(Ordering::Acquire),
                is_storing: self.storage_worker.is_busy(),
                may_report: self.may_hear_more(),
            }
        } else {
            ending::Event::Next
        };
        match self.ending.step(event, self.now_ms()) {
            ending::Action::Wait { ms } => Some(Duration::from_millis(ms)),
            _ => None,
        }
    }

    /// Whether it is time to end now that this has happened.
    fn ends(&mut self, event: ending::Event) -> bool {
        let mut action = self.ending.step(event, self.now_ms());
        if action == ending::Action::LookAtOutlived {
            let lives = self.options.outlives.is_some_and(|process| process.is_alive());
            let found =
                if lives { ending::Event::OutlivedLives } else { ending::Event::OutlivedEnded };
            action = self.ending.step(found, self.now_ms());
        }
        action == ending::Action::End
    }

    fn how_it_is(&self) -> ending::Event {
        ending::Event::Handled {
            has_agents: self.machine.agent_count() > 0,
            is_storing: self.storage_worker.is_busy(),
            was_stopped: self.machine.was_stopped(),
        }
    }

    /// What an input means to the machine; none: it is the shell's own affair.
    fn event_of(&mut self, input: Input) -> Option<Event> {
        match input {
            Input::Connected(conn, peer) => {
                self.peers.insert(conn, peer);
                None
            }
            Input::Message(conn, message) => Some(Event::Message(conn, message)),
            Input::Closed(conn) => {
                self.peers.remove(&conn);
                Some(Event::Closed(conn))
            }
            Input::HostLost(host, end, conns) => {
                for conn in &conns {
                    self.peers.remove(conn);
                }
                self.shared.losses.add(&host, end.is_silent);
                Some(Event::HostLost { host, why: end.why, silent: end.is_silent, conns })
            }
            Input::HostThere(host) => {
                self.shared.losses.remove(&host);
                None
            }
            Input::Done(event) => {
                self.storage_worker.note_done();
                Some(event)
            }
            Input::Advised(number, answer) => Some(Event::Advised(number, answer)),
            Input::Note(text) => {
                self.say(&text);
                None
            }
            Input::TurnedAway(why) => {
                for text in self.strangers.turned_away(why, self.now_ms()) {
                    self.say(&text);
                }
                None
            }
        }
    }

    fn end(mut self, inputs: &Receiver<Input>) {
        // What has been stored meanwhile is a snapshot, also of a job that has ended.
        while let Ok(input) = inputs.try_recv() {
            if let Input::Done(event) = input {
                self.handle(event);
            }
        }
        self.handle(Event::Over);
        self.publish_ends();
        for peer in self.peers.values_mut() {
            peer.end();
        }
        if let Some(text) = self.strangers.rest() {
            self.say(&text);
        }
        self.say("coordinator ends");
    }

    /// Whether lines are still being read, and a snapshot depends on it, or whether the job has
    /// ended well.
    fn may_hear_more(&self) -> bool {
        let is_reading = self.machine.agent_count() > 0;
        is_reading && (self.machine.is_writing_images() || self.machine.has_undecided_ranks())
    }

    /// Whoever holds the handle may ask how the ranks have ended. Those that could not say so have
    /// left a word in the job's directory.
    fn publish_ends(&self) {
        let mut known = BTreeSet::new();
        let mut shortfall = self.machine.shortfall(&known);
        if shortfall.is_some() && !self.shared.stop_at_once.load(Ordering::Acquire) {
            known = self.options.job.ended_ranks();
            shortfall = self.machine.shortfall(&known);
        }
        let first_to_leave = self.machine.first_to_leave(&known).filter(|_| shortfall.is_some());
        if let Ok(mut ends) = self.shared.ends.lock() {
            let (have_begun, some_ended) = (self.machine.has_begun(), !known.is_empty());
            let abort_after_loss =
                self.machine.abort_after_loss().filter(|_| first_to_leave.is_some());
            *ends = Ends { have_begun, shortfall, some_ended, first_to_leave, abort_after_loss };
        }
    }

    fn handle(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let actions = self.machine.step(event, self.now_ms());
            // Before the ranks are told: whoever sees one end must find out why.
            self.publish();
            for action in actions {
                events.extend(self.perform(action));
            }
        }
    }

    /// What the embedding program may ask of its handle.
    fn publish(&self) {
        let stopped = self.machine.was_stopped();
        self.shared.stopped_by_checkpoint.store(stopped, Ordering::Release);
        self.shared.has_lost_rank.store(self.machine.has_lost_rank(), Ordering::Release);
        let are_undecided = self.machine.has_undecided_ranks();
        self.shared.has_undecided_ranks.store(are_undecided, Ordering::Release);
        // Counted once: this is done at each event.
        if self.machine.is_whole() != (self.shared.hosts_of_all.load(Ordering::Acquire) > 0) {
            self.shared.hosts_of_all.store(self.machine.hosts_of_all(), Ordering::Release);
        }
        if let Ok(mut committed) = self.shared.committed.lock() {
            let (epoch, cost_ms) = (self.machine.committed_epoch(), self.machine.newest_cost_ms());
            *committed = Committed { epoch, cost_ms };
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Send(conn, message) => {
                self.send(conn, &message);
                None
            }
            Action::Answer(conn, reply) => {
                let answer = answer_of(reply, |ranks| self.around.hosts.figures(ranks));
                self.send(conn, &answer.into());
                None
            }
            Action::Close(conn) => {
                self.peers.get_mut(&conn)?.end();
                None
            }
            Action::Prepare(epoch) => {
                let given = self.storage_worker.prepare(epoch);
                (!given).then(|| Event::Prepared(epoch, Err(DiskError::NobodyStores)))
            }
            Action::Commit(plan) => {
                let epoch = plan.epoch;
                let given = self.storage_worker.commit(plan);
                (!given).then(|| Event::Stored(epoch, Err(DiskError::NobodyStores)))
            }
            Action::Discard(epoch) => {
                // Whoever is in a hurry may have a disk that hangs; prune removes it one day.
                if !self.storage_worker.discard(epoch)
                    && !self.shared.stop_at_once.load(Ordering::Acquire)
                {
                    discard(&self.options.job, epoch);
                }
                None
            }
            Action::Promote { epoch, level } => {
                let given = self.storage_worker.promote(epoch, level);
                (!given).then_some(Event::PromotionFailed { level })
            }
            Action::Prune => (!self.storage_worker.prune()).then(|| Event::Pruned(Vec::new())),
            Action::Signalled { signal, .. } => {
                if let Ok(mut signals) = self.shared.signals.lock() {
                    signals.insert(signal);
                }
                None
            }
            Action::Offer(number, offer) => {
                let site = self.around.site.as_ref();
                let _ = site.map(|line| line.offer(number, offer));
                None
            }
            Action::LeaseDone(lease) => {
                let _ = self.around.site.as_ref().map(|line| line.done(lease));
                None
            }
            Action::Log(text) => {
                self.say(&text);
                None
            }
            Action::History(event) => {
                self.note(&event);
                if let Some(told) = &self.options.told {
                    let _ = told.send(*event); // who listens no longer has heard enough
                }
                None
            }
        }
    }

    /// Blocks as the log does, which lies in the same directory.
    fn note(&mut self, event: &JobEvent) {
        let Options { job, run, .. } = &self.options;
        let noted = note_event(job, *run, SystemTime::now(), event);
        if let Some(error) = noted.err().filter(|_| !self.has_told_of_history) {
            self.log.say(&format!("events are missing in the job's history: {error}"));
            self.has_told_of_history = true;
        }
    }

    fn send(&mut self, conn: Conn, message: &Message) {
        let Some(peer) = self.peers.get_mut(&conn) else { return };
        let frame = encode_frame(message);
        let sent = match Fault::sending(message.type_number()).map(fault) {
            Some(Effect::Act(FaultAction::Drop)) => Ok(()),
            Some(Effect::Act(FaultAction::Twice)) => {
                peer.send(&frame).and_then(|()| peer.send(&frame))
            }
            _ => peer.send(&frame),
        };
        if let Err(error) = sent {
            // The reading thread sees the end too and reports the connection closed.
            peer.end();
            self.say(&format!("connection {conn}: {}: {error}", message.name()));
        }
    }

    fn now_ms(&self) -> u64 {
        milliseconds(self.begun.elapsed())
    }

    fn say(&mut self, text: &str) {
        self.log.say(text);
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
