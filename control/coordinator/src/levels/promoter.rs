// SPDX-License-Identifier: Apache-2.0
//! What the coordinator does about snapshots that stay on hosts: a machine around that of
//! `fermata-levels`, which knows neither names nor messages.
//!
//! ```text
//!     prepare: TAKING to all ──> images lie ──> commit: KEEP to all ──> all kept: it exists
//!                                                   └── one cannot: DISCARD to all
//!     then, level by level: MAKE to all ──> NOTE to all ──> done; GIVE_UP where one cannot
//! ```
//!
//! Invariant: no I/O, no clock.
//! Invariant: a snapshot is answered as stored when every host with ranks has kept its images.
//! Invariant: every task that hosts are given has a deadline.

use super::earlier::Earlier;
use super::interface::{Action, Event};
use fermata_levels::promotion::{self, Config, Promotion, Status};
use fermata_levels::{Chain, Groups, Home, Id, Level, Snapshot};
use fermata_parity::Sum;
use fermata_storage::Kept;
use fermata_types::{
    Discard, Forget, GiveUp, Keep, Make, Manifest, Message, Note, Shared, StoreThere, Taking,
};
use std::collections::{BTreeMap, BTreeSet};

/// A level of which nothing is heard for so long has failed.
const LEVEL_SILENCE_MS: u64 = 120_000;
/// For hosts to flush their images.
const KEEP_MS: u64 = 600_000;

/// A task, whose end is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Task {
    Keep,
    Make { attempt: u64, host: u32 },
    Note { attempt: u64 },
}

/// A snapshot that hosts are keeping.
struct Keeping {
    kept: Kept,
    missing: BTreeSet<String>,
    begun_ms: u64,
}

/// A level that is being made.
struct Making {
    attempt: u64,
    id: Id,
    level: Level,
    begun_ms: u64,
    sums: BTreeMap<u32, Vec<Sum>>,
    /// Who has not noted it.
    missing: BTreeSet<String>,
}

/// The machine.
pub(crate) struct Promoter {
    chain: Chain,
    groups: Groups,
    keep: u32,
    /// Levels are made when a plan wants them.
    on_demand: bool,
    wanted: Vec<(Id, Level)>,
    /// Where stores are read, of the hosts that are there.
    there: BTreeMap<String, String>,
    earlier: Earlier,
    /// What the run was restarted from, until its hosts are there.
    restored: Option<Kept>,
    taking: Option<Id>,
    macs: BTreeMap<u32, String>,
    keeping: Option<Keeping>,
    /// From the first snapshot on, and its hosts: those of the run.
    run: Option<(Promotion, Vec<String>)>,
    kept: BTreeMap<Id, Kept>,
    making: Option<Making>,
    tasks: BTreeMap<u64, Task>,
    last_task: u64,
}

impl Promoter {
    pub(crate) fn new(chain: Chain, groups: Groups, keep: u32, on_demand: bool) -> Self {
        Self {
            chain,
            groups,
            keep,
            on_demand,
            wanted: Vec::new(),
            there: BTreeMap::new(),
            earlier: Earlier::default(),
            restored: None,
            taking: None,
            macs: BTreeMap::new(),
            keeping: None,
            run: None,
            kept: BTreeMap::new(),
            making: None,
            tasks: BTreeMap::new(),
            last_task: 0,
        }
    }

    /// When a tick is needed at the latest.
    pub(crate) fn wake_ms(&self) -> Option<u64> {
        let keeping = self.keeping.as_ref().map(|keeping| keeping.begun_ms + KEEP_MS);
        let level = self.run.as_ref().and_then(|(promotion, _)| promotion.wake_ms());
        keeping.into_iter().chain(level).min()
    }

    pub(crate) fn step(&mut self, event: Event, now_ms: u64) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Holds(holds) => self.earlier.holds(&holds),
            Event::InDirectory(epochs) => self.earlier.in_directory(epochs),
            Event::Restored(kept) => self.restored = Some(*kept),
            Event::There { host, address } => {
                self.there(host, address, &mut out);
                self.take_up(now_ms, &mut out);
            }
            Event::Gone { host, is_silent } => self.gone(&host, is_silent, now_ms, &mut out),
            Event::Prepare { epoch, taken_ms } => {
                self.taking = Some(Id { taken_ms, epoch });
                self.macs.clear();
                self.tell_all(&Taking { epoch, taken_ms }.into(), &mut out);
            }
            Event::Lies { epoch, rank, mac } => {
                if self.taking.is_some_and(|id| id.epoch == epoch) {
                    self.macs.insert(rank, mac);
                }
            }
            Event::Commit(manifest) => self.commit(*manifest, now_ms, &mut out),
            Event::Discard(epoch) => {
                if let Some(Id { taken_ms, .. }) = self.taking.take_if(|id| id.epoch == epoch) {
                    self.tell_all(&Discard { epoch, taken_ms }.into(), &mut out);
                }
            }
            Event::Wanted { epoch, level } => self.want(epoch, level, now_ms, &mut out),
            Event::Promotes(task) => {
                if let Some(Task::Make { attempt, .. } | Task::Note { attempt }) =
                    self.tasks.get(&task)
                {
                    let attempt = *attempt;
                    self.promote(promotion::Event::Advanced { attempt }, now_ms, &mut out);
                }
            }
            Event::Ended { host, shared } => self.ended(&host, &shared, now_ms, &mut out),
            Event::Directory(attempt, result) => {
                self.directory(attempt, result, now_ms, &mut out);
            }
            Event::Tick => self.tick(now_ms, &mut out),
        }
        out
    }

    fn there(&mut self, host: String, address: String, out: &mut Vec<Action>) {
        for (other, its) in self.there.iter().filter(|(other, _)| **other != host) {
            let told = StoreThere { host: host.clone(), address: address.clone() };
            out.push(Action::Tell(other.clone(), told.into()));
            let told = StoreThere { host: other.clone(), address: its.clone() };
            out.push(Action::Tell(host.clone(), told.into()));
        }
        self.there.insert(host, address);
    }

    fn gone(&mut self, host: &str, is_silent: bool, now_ms: u64, out: &mut Vec<Action>) {
        self.there.remove(host);
        let why = format!("the line to {host} has ended");
        if self.keeping.as_ref().is_some_and(|keeping| keeping.missing.contains(host)) {
            self.give_up_keeping(&why, out);
        }
        let number = self.run.as_ref().and_then(|(_, hosts)| number_of(hosts, host));
        let event = match (number, self.making.as_ref()) {
            (Some(number), _) if is_silent => promotion::Event::Died(number),
            (Some(_), Some(making)) => promotion::Event::Failed { attempt: making.attempt, why },
            _ => return,
        };
        self.promote(event, now_ms, out);
    }

    fn tick(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        if self.keeping.as_ref().is_some_and(|keeping| keeping.begun_ms + KEEP_MS <= now_ms) {
            self.give_up_keeping("a host has not said that it keeps its images", out);
        }
        self.promote(promotion::Event::Tick, now_ms, out);
    }

    fn tell_all(&self, message: &Message, out: &mut Vec<Action>) {
        let told = |host: &String| Action::Tell(host.clone(), message.clone());
        out.extend(self.there.keys().map(told));
    }

    fn task(&mut self, task: Task) -> u64 {
        self.last_task += 1;
        self.tasks.insert(self.last_task, task);
        self.last_task
    }
}

/// A snapshot comes about.
impl Promoter {
    fn commit(&mut self, mut manifest: Manifest, now_ms: u64, out: &mut Vec<Action>) {
        let epoch = manifest.epoch;
        for image in &mut manifest.images {
            image.mac = self.macs.remove(&image.rank).unwrap_or_default();
        }
        let kept = match self.describe(manifest) {
            Ok(kept) => kept,
            Err(why) => return out.push(Action::Answer(epoch, Err(why))),
        };
        let record = match serde_json::to_vec(&kept) {
            Ok(record) => record,
            Err(why) => return out.push(Action::Answer(epoch, Err(why.to_string()))),
        };
        let missing: BTreeSet<String> =
            kept.snapshot.homes.iter().map(|home| home.host.clone()).collect();
        for host in &missing {
            let keep = Keep { task: self.task(Task::Keep), record: record.clone() };
            out.push(Action::Tell(host.clone(), keep.into()));
        }
        self.keeping = Some(Keeping { kept, missing, begun_ms: now_ms });
    }

    /// Where its images are, and how its hosts are arranged.
    fn describe(&self, manifest: Manifest) -> Result<Kept, String> {
        let epoch = manifest.epoch;
        let id = self.taking.filter(|id| id.epoch == epoch);
        let id = id.ok_or_else(|| "hosts were not told of it".to_owned())?;
        let mut ranks: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for image in &manifest.images {
            ranks.entry(image.host.clone()).or_default().push(image.rank);
        }
        if let Some(host) = ranks.keys().find(|host| !self.there.contains_key(*host)) {
            return Err(format!("host {host} keeps no snapshots: its daemon is not there"));
        }
        if let Some((_, hosts)) = &self.run {
            if !ranks.keys().eq(hosts) {
                return Err("the job has other hosts than it began with".into());
            }
        }
        let homes = ranks.into_iter().map(|(host, ranks)| Home { host, ranks }).collect();
        let snapshot = Snapshot::new(id, homes, &self.groups, &self.chain);
        let snapshot = snapshot.map_err(|why| why.to_string())?;
        Ok(Kept { snapshot, manifest })
    }

    fn give_up_keeping(&mut self, why: &str, out: &mut Vec<Action>) {
        let Some(keeping) = self.keeping.take() else { return };
        let Id { taken_ms, epoch } = keeping.kept.snapshot.id;
        self.tasks.retain(|_, task| *task != Task::Keep);
        self.taking = None;
        self.tell_all(&Discard { epoch, taken_ms }.into(), out);
        out.push(Action::Answer(epoch, Err(why.to_owned())));
    }

    fn is_kept(&mut self, host: &str, error: &str, now_ms: u64, out: &mut Vec<Action>) {
        let Some(keeping) = &mut self.keeping else { return };
        if !error.is_empty() {
            return self.give_up_keeping(&format!("host {host}: {error}"), out);
        }
        keeping.missing.remove(host);
        if !keeping.missing.is_empty() {
            return;
        }
        let Some(Keeping { kept, .. }) = self.keeping.take() else { return };
        let id = kept.snapshot.id;
        self.taking = None;
        let hosts: Vec<&str> = kept.snapshot.homes.iter().map(|h| h.host.as_str()).collect();
        let said = format!("level local, on {}", hosts.join(", "));
        out.push(Action::Answer(id.epoch, Ok(said)));
        self.is_whole(kept, now_ms, out);
    }

    /// A snapshot has come about. The first one tells which hosts the run is on.
    fn is_whole(&mut self, kept: Kept, now_ms: u64, out: &mut Vec<Action>) {
        let id = kept.snapshot.id;
        if self.run.is_none() {
            for (set, group) in kept.snapshot.weak_sets(&self.groups) {
                let said = format!("set {set} has two hosts of {group}, whose loss may break it");
                out.push(Action::Say(said));
            }
            let earlier = self.earlier.before(id, &self.chain);
            let hosts: Vec<String> = kept.snapshot.homes.iter().map(|h| h.host.clone()).collect();
            let config = Config {
                chain: self.chain.clone(),
                hosts: u32::try_from(hosts.len()).unwrap_or(u32::MAX),
                keep: self.keep,
                deadline_ms: LEVEL_SILENCE_MS,
                on_demand: self.on_demand,
            };
            self.run = Some((Promotion::new(config, &earlier), hosts));
        }
        self.kept.insert(id, kept);
        self.promote(promotion::Event::Saved(id), now_ms, out);
    }
}

/// A snapshot gets from level to level.
impl Promoter {
    /// Steps the machine of the levels, and all that follows at once.
    fn promote(&mut self, event: promotion::Event, now_ms: u64, out: &mut Vec<Action>) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let Some((promotion, _)) = &mut self.run else { return };
            for action in promotion.step(event, now_ms) {
                events.extend(self.perform(action, now_ms, out));
            }
        }
        self.tell_the_plan(now_ms, out);
        self.forget_records();
    }

    fn perform(
        &mut self,
        action: promotion::Action,
        now_ms: u64,
        out: &mut Vec<Action>,
    ) -> Option<promotion::Event> {
        match action {
            promotion::Action::Make { attempt, id, level, host } => {
                if self.making.as_ref().is_none_or(|making| making.attempt != attempt) {
                    self.begin(attempt, id, level, now_ms, out);
                }
                self.make(attempt, id, level, host, out)
            }
            promotion::Action::Note { attempt, id, level } => self.note(attempt, id, level, out),
            promotion::Action::Abort { attempt, id, level } => {
                self.tasks.retain(|_, task| match task {
                    Task::Keep => true,
                    Task::Make { attempt: of, .. } | Task::Note { attempt: of } => *of != attempt,
                });
                self.making = None;
                let why = self.why(id, level);
                out.push(Action::Say(format!("checkpoint {}: no {level}: {why}", id.epoch)));
                if level == Level::Shared {
                    out.push(Action::Clear(id.epoch));
                }
                let Id { taken_ms, epoch } = id;
                self.tell_all(&GiveUp { epoch, taken_ms, level: level.to_string() }.into(), out);
                None
            }
            promotion::Action::Drop { id, level } => {
                if level == Level::Shared {
                    out.push(Action::Remove(id.epoch));
                } else {
                    let Id { taken_ms, epoch } = id;
                    let level = level.to_string();
                    self.tell_all(&Forget { epoch, taken_ms, level }.into(), out);
                }
                None
            }
        }
    }

    fn why(&self, id: Id, level: Level) -> String {
        let run = self.run.as_ref();
        let mut all = run.into_iter().flat_map(|(promotion, _)| promotion.statuses());
        match all.find(|(of, what, _)| (*of, *what) == (id, level)) {
            Some((_, _, Status::Failed(why))) => why.clone(),
            _ => "given up".into(),
        }
    }

    fn begin(&mut self, attempt: u64, id: Id, level: Level, now_ms: u64, out: &mut Vec<Action>) {
        let (sums, missing, begun_ms) = (BTreeMap::new(), BTreeSet::new(), now_ms);
        self.making = Some(Making { attempt, id, level, begun_ms, sums, missing });
        if level == Level::Shared {
            out.push(Action::MakeRoom(attempt, id.epoch));
        }
    }

    fn make(
        &mut self,
        attempt: u64,
        id: Id,
        level: Level,
        host: u32,
        out: &mut Vec<Action>,
    ) -> Option<promotion::Event> {
        let name = self.run.as_ref().and_then(|(_, hosts)| hosts.get(host as usize).cloned())?;
        if !self.there.contains_key(&name) {
            let why = format!("the daemon of {name} is not there");
            return Some(promotion::Event::Failed { attempt, why });
        }
        let task = self.task(Task::Make { attempt, host });
        let Id { taken_ms, epoch } = id;
        let make = Make { task, epoch, taken_ms, level: level.to_string() };
        out.push(Action::Tell(name, make.into()));
        None
    }

    fn note(
        &mut self,
        attempt: u64,
        id: Id,
        level: Level,
        out: &mut Vec<Action>,
    ) -> Option<promotion::Event> {
        let kept = self.kept.get(&id)?.clone();
        if level == Level::Shared {
            out.push(Action::Put(attempt, Box::new(kept.manifest)));
            return None;
        }
        if level.parities() == 0 {
            self.say_done(out);
            return Some(promotion::Event::Noted { attempt });
        }
        let mut notes = Vec::new();
        let making = self.making.as_mut()?;
        for members in &kept.snapshot.sets {
            let sums = members.iter().filter_map(|member| making.sums.get(member));
            let sums: Vec<Sum> = sums.flatten().copied().collect();
            let sums = serde_json::to_vec(&sums).unwrap_or_default();
            for member in members {
                let name = kept.snapshot.homes.get(*member as usize)?.host.clone();
                making.missing.insert(name.clone());
                notes.push((name, sums.clone()));
            }
        }
        let Id { taken_ms, epoch } = id;
        for (name, sums) in notes {
            let task = self.task(Task::Note { attempt });
            let note = Note { task, epoch, taken_ms, level: level.to_string(), sums };
            out.push(Action::Tell(name, note.into()));
        }
        None
    }

    fn ended(&mut self, host: &str, shared: &Shared, now_ms: u64, out: &mut Vec<Action>) {
        let failed = |attempt| {
            let why = format!("host {host}: {}", shared.error);
            promotion::Event::Failed { attempt, why }
        };
        let event = match self.tasks.remove(&shared.task) {
            None => return, // of what has been given up
            Some(Task::Keep) => return self.is_kept(host, &shared.error, now_ms, out),
            Some(Task::Make { attempt, .. } | Task::Note { attempt })
                if !shared.error.is_empty() =>
            {
                failed(attempt)
            }
            Some(Task::Make { attempt, host: number }) => {
                let sums: Vec<Sum> = serde_json::from_slice(&shared.sums).unwrap_or_default();
                if let Some(making) = &mut self.making {
                    making.sums.insert(number, sums);
                }
                promotion::Event::Made { attempt, host: number }
            }
            Some(Task::Note { attempt }) => {
                let Some(making) = &mut self.making else { return };
                making.missing.remove(host);
                if !making.missing.is_empty() {
                    return;
                }
                self.say_done(out);
                promotion::Event::Noted { attempt }
            }
        };
        self.promote(event, now_ms, out);
    }

    fn directory(
        &mut self,
        attempt: u64,
        result: Result<(), String>,
        now_ms: u64,
        out: &mut Vec<Action>,
    ) {
        let event = match result {
            Err(why) => promotion::Event::Failed { attempt, why },
            Ok(()) => {
                self.say_done(out);
                promotion::Event::Noted { attempt }
            }
        };
        self.promote(event, now_ms, out);
    }

    fn say_done(&self, out: &mut Vec<Action>) {
        if let Some(Making { id, level, .. }) = &self.making {
            out.push(Action::Say(format!("checkpoint {}: {level} is done", id.epoch)));
        }
    }

    fn forget_records(&mut self) {
        let Some((promotion, _)) = &self.run else { return };
        let known: BTreeSet<Id> = promotion.statuses().map(|(id, _, _)| id).collect();
        self.kept.retain(|id, _| known.contains(id));
    }
}

fn number_of(hosts: &[String], host: &str) -> Option<u32> {
    hosts.iter().position(|name| name == host).and_then(|at| u32::try_from(at).ok())
}

#[path = "wanted.rs"]
mod wanted;

#[cfg(test)]
#[path = "promoter_tests.rs"]
mod tests;
