// SPDX-License-Identifier: Apache-2.0
//! The thread that owns the machine: what comes from the lines of daemons and from the job's own
//! machine is its events, and it performs the actions.

use super::interface::{Action, Event};
use super::promoter::Promoter;
use crate::input::Input;
use crate::options::Options;
use crate::relay::{Link, say};
use crate::storage_worker::manifest_of;
use fermata_job::{self as job, CommitPlan, DiskError};
use fermata_plan::pace::Every;
use fermata_storage::{
    JobDir, JobDirectory, Level, SnapshotInfo, Whose, discard, list_snapshots, prepare, read_placed,
};
use fermata_types::{Manifest, Message};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Without anything to wait for.
const IDLE: Duration = Duration::from_secs(3600);

enum Heard {
    Event(Event),
    Prepare(u32),
    Commit(CommitPlan),
    /// A daemon's line, before the event that its store is there.
    Link(String, Link),
    /// This line has ended, unless the host has another one meanwhile.
    Ended(String, Link, bool),
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Levels(Sender<Heard>);

impl Levels {
    /// `None`: images go to the job's directory.
    pub(crate) fn begin(options: &Options, done: Sender<Input>) -> io::Result<Option<Self>> {
        let Some(chain) = options.levels.clone() else { return Ok(None) };
        let (sender, heard) = channel();
        let mut shell = Shell {
            machine: Promoter::new(
                chain,
                options.groups.clone(),
                options.keep,
                matches!(options.every, Every::Auto(_)),
            ),
            directory: JobDirectory::new(options.job.clone(), options.key),
            job: options.job.clone(),
            options: options.clone(),
            links: BTreeMap::new(),
            done,
            begun: Instant::now(),
        };
        let is_here = |found: &SnapshotInfo| {
            matches!(read_placed(&found.path, Whose::Own(options.key)), Ok(None))
        };
        let there = list_snapshots(&options.job).into_iter().filter(is_here);
        let there = there.map(|found| found.epoch).collect();
        shell.machine.step(Event::InDirectory(there), 0);
        let restored = options.restored.as_ref();
        let restored = restored.and_then(|path| read_placed(path, Whose::Own(options.key)).ok()?);
        if let Some(kept) = restored {
            shell.machine.step(Event::Restored(Box::new(kept)), 0);
        }
        thread::Builder::new().spawn(move || shell.serve(&heard))?;
        Ok(Some(Self(sender)))
    }

    /// Answered with `Event::Prepared`. False: the thread is gone.
    pub(crate) fn prepare(&self, epoch: u32) -> bool {
        self.0.send(Heard::Prepare(epoch)).is_ok()
    }

    /// Answered with `Event::Stored`. False: the thread is gone.
    pub(crate) fn commit(&self, plan: CommitPlan) -> bool {
        self.0.send(Heard::Commit(plan)).is_ok()
    }

    /// Answered with `Event::Promoted` or `Event::PromotionFailed`. False: the thread is gone.
    pub(crate) fn promote(&self, epoch: u32, level: usize) -> bool {
        self.0.send(Heard::Event(Event::Wanted { epoch, level })).is_ok()
    }

    /// False: the thread is gone.
    pub(crate) fn discard(&self, epoch: u32) -> bool {
        self.0.send(Heard::Event(Event::Discard(epoch))).is_ok()
    }
}

/// The line of one daemon, as far as it is about stores.
pub(crate) struct Line {
    levels: Levels,
    host: String,
    from: IpAddr,
    link: Link,
}

impl Line {
    pub(crate) fn new(levels: Levels, host: String, from: IpAddr, link: Link) -> Self {
        Self { levels, host, from, link }
    }

    /// Whether it is about stores.
    pub(crate) fn hear(&mut self, message: &Message) -> bool {
        let host = self.host.clone();
        let event = match message {
            Message::StoreHere(m) => {
                let Ok(port) = u16::try_from(m.port) else { return false };
                let address = SocketAddr::new(self.from, port).to_string();
                self.put(Heard::Link(host.clone(), Arc::clone(&self.link)));
                Event::There { host, address }
            }
            Message::ImageLies(m) => {
                Event::Lies { epoch: m.epoch, rank: m.rank, mac: m.mac.clone() }
            }
            Message::StoreHolds(m) => Event::Holds(Box::new(m.clone())),
            Message::Promotes(m) => Event::Promotes(m.task),
            Message::Shared(m) => Event::Ended { host, shared: m.clone() },
            _ => return false,
        };
        self.put(Heard::Event(event));
        true
    }

    pub(crate) fn ended(&self, is_silent: bool) {
        self.put(Heard::Ended(self.host.clone(), Arc::clone(&self.link), is_silent));
    }

    /// A coordinator that has ended hears nothing.
    fn put(&self, heard: Heard) {
        let _ = self.levels.0.send(heard);
    }
}

struct Shell {
    machine: Promoter,
    directory: JobDirectory,
    job: JobDir,
    options: Options,
    links: BTreeMap<String, Link>,
    done: Sender<Input>,
    begun: Instant,
}

impl Shell {
    fn serve(&mut self, heard: &Receiver<Heard>) {
        loop {
            let now_ms = self.now_ms();
            let wake = self.machine.wake_ms().map(|wake| wake.saturating_sub(now_ms));
            let event = match heard.recv_timeout(wake.map_or(IDLE, Duration::from_millis)) {
                Ok(heard) => self.event_of(heard),
                Err(RecvTimeoutError::Timeout) => Some(Event::Tick),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if event.is_some_and(|event| !self.handle(event)) {
                return;
            }
        }
    }

    fn event_of(&mut self, heard: Heard) -> Option<Event> {
        match heard {
            Heard::Event(event) => Some(event),
            Heard::Prepare(epoch) => Some(Event::Prepare { epoch, taken_ms: unix_now_ms() }),
            Heard::Commit(plan) => Some(Event::Commit(Box::new(self.manifest(plan)))),
            Heard::Link(host, link) => {
                self.links.insert(host, link);
                None
            }
            Heard::Ended(host, link, is_silent) => {
                let is_its_own = |known: &Link| Arc::ptr_eq(known, &link);
                self.links.get(&host).filter(|known| is_its_own(known))?;
                self.links.remove(&host);
                Some(Event::Gone { host, is_silent })
            }
        }
    }

    fn manifest(&self, plan: CommitPlan) -> Manifest {
        let CommitPlan { epoch, size, lower, images } = plan;
        manifest_of(&self.options, epoch, size, lower, images, Vec::new())
    }

    /// False: the coordinator has ended.
    fn handle(&mut self, event: Event) -> bool {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let prepared = match &event {
                Event::Prepare { epoch, .. } => Some(*epoch),
                _ => None,
            };
            for action in self.machine.step(event, self.now_ms()) {
                match self.perform(action) {
                    Ok(follows) => events.extend(follows),
                    Err(Over) => return false,
                }
            }
            // After all hosts have been told: the ranks are told over the same lines.
            let answer = prepared.map(|epoch| Input::Done(job::Event::Prepared(epoch, Ok(()))));
            if answer.is_some_and(|answer| self.done.send(answer).is_err()) {
                return false;
            }
        }
        true
    }

    fn perform(&mut self, action: Action) -> Result<Option<Event>, Over> {
        match action {
            Action::Tell(host, message) => {
                // Who does not take it has gone, and the thread that reads its line sees that.
                let link = self.links.get(&host);
                let _ = link.map(|link| say(link, &message));
            }
            Action::Answer(epoch, result) => {
                let result = result.map_err(|why| DiskError::Storage(why.into()));
                let answer = Input::Done(job::Event::Stored(epoch, result));
                self.done.send(answer).map_err(|_| Over)?;
            }
            Action::MakeRoom(attempt, epoch) => {
                let made = prepare(&self.job, epoch);
                return Ok(made.err().map(|why| Event::Directory(attempt, Err(why.to_string()))));
            }
            Action::Put(attempt, manifest) => {
                let put = self.directory.put(&manifest);
                let put = put.map(|_| ()).map_err(|why| why.to_string());
                return Ok(Some(Event::Directory(attempt, put)));
            }
            Action::Clear(epoch) => discard(&self.job, epoch),
            Action::Remove(epoch) => {
                self.directory.drop(epoch);
            }
            Action::Made { level, took_ms } => {
                let made = Input::Done(job::Event::Promoted { level, took_ms });
                self.done.send(made).map_err(|_| Over)?;
            }
            Action::NotMade { level } => {
                let failed = Input::Done(job::Event::PromotionFailed { level });
                self.done.send(failed).map_err(|_| Over)?;
            }
            Action::Say(text) => self.done.send(Input::Note(text)).map_err(|_| Over)?,
        }
        Ok(None)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The coordinator has ended.
struct Over;

fn unix_now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
