// SPDX-License-Identifier: Apache-2.0
//! The thread that owns the machine and performs its actions, and how it all begins and ends.

use crate::image_server::ImageServer;
use crate::lines::{Acceptor, Input};
use crate::local_listener::{LocalListener, SocketPlace};
use crate::losses::{Losses, LostHost};
use crate::storage_worker::StorageWorker;
use crate::strangers::Strangers;
use fermata_faults::{Action as FaultAction, Effect, Fault, fault};
use fermata_job::{Action, Config, Event, Machine};
use fermata_seal::Key;
use fermata_storage::{JobDir, Whose, discard, list_snapshots, read_manifest, within};
use fermata_sysio::{Log, Process};
use fermata_transport::{
    Secret, SecureListener, Writer, own_socket, remove_dead_sockets, runtime_dir,
};
use fermata_types::{Checkpointer, ProgramRecord, encode_frame};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TICK: Duration = Duration::from_millis(50);
const STOP_POLL: Duration = Duration::from_millis(5);
/// How long a coordinator, and the job's directory after it, may take to end at once.
const HURRY_MAX: Duration = Duration::from_secs(5);
/// How long the job's directory may take when nobody is in a hurry.
const LEAVE_MAX: Duration = Duration::from_secs(60);
/// A snapshot that is being stored when the job ends is waited for, but no longer than this.
const STORE_WAIT: Duration = Duration::from_secs(1800);
/// How long the lines of a job that has ended are read on, if a snapshot depends on it.
const READ_WAIT: Duration = Duration::from_secs(2);
const NOBODY_STORES: &str = "nobody is there to store it";

/// What a coordinator needs to know of its job.
#[derive(Clone, Debug)]
pub struct Options {
    /// The job's directory; made if it does not exist.
    pub job: JobDir,
    /// Job name.
    pub name: String,
    /// Goes into manifests.
    pub argv: Vec<OsString>,
    /// Goes into manifests.
    pub programs: Vec<ProgramRecord>,
    /// Goes into manifests.
    pub front: String,
    /// Goes into manifests.
    pub cwd: String,
    /// The command that continues from the job's newest snapshot, for whoever is told of it.
    pub restart: String,
    /// What saves the ranks.
    pub checkpointer: Checkpointer,
    /// Snapshots to keep.
    pub keep: u32,
    /// Interval of periodic checkpoints in ms; 0 = none.
    pub every_ms: u64,
    /// End by itself: this long without any agent after one was there, or (six times as long)
    /// without any ever coming. `None`: only when told.
    pub linger: Option<Duration>,
    /// Not before this process has ended: it may be a script that is still to start MPI programs.
    pub outlives: Option<Process>,
    /// The job may have ranks on other hosts: be reachable over the network, for daemons that know
    /// the secret. Without it nothing but a UNIX socket is opened.
    pub network: bool,
    /// The snapshot this run is restored from, for hosts that cannot read it themselves.
    pub restored: Option<PathBuf>,
    /// What snapshots are sealed with, and this run's own was.
    pub key: Option<Key>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    stop_at_once: AtomicBool,
    stopped_by_checkpoint: AtomicBool,
    losses: Losses,
    committed: Mutex<u32>,
    ends: Mutex<Ends>,
}

/// How the ranks of a job have ended.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// A rank has come up.
    pub have_begun: bool,
    /// Why not all that were there have come to MPI_Finalize; `None`: they have.
    pub shortfall: Option<String>,
}

/// What a coordinator knew of its job when it ended.
pub struct Ending {
    /// A checkpoint with `stop` ended the job.
    pub stopped: bool,
    /// Newest committed epoch, 0 if none.
    pub committed_epoch: u32,
    /// A host that is lost with ranks.
    pub lost_host: Option<LostHost>,
    /// How its ranks have ended.
    pub ends: Ends,
    /// How long the job's directory may be waited for: it may hang.
    pub timeout: Duration,
}

/// A running coordinator.
pub struct Handle {
    socket: String,
    place: SocketPlace,
    addresses: Vec<String>,
    secret: Option<Secret>,
    job: JobDir,
    over: Arc<AtomicBool>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Where agents and commands of this host connect, at first (`local_listener.rs`).
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Where daemons and commands of other hosts connect; empty without `Options::network`.
    #[must_use]
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// What they have to know; it also lies in the job's directory while the coordinator runs.
    #[must_use]
    pub fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Whether a checkpoint with `stop` ended the job.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.shared.stopped_by_checkpoint.load(Ordering::Acquire)
    }

    /// A host that is lost with ranks, and has not come back.
    #[must_use]
    pub fn lost_host(&self) -> Option<LostHost> {
        self.shared.losses.worst()
    }

    /// Ends the coordinator and waits for its thread, which may be storing a snapshot, as long as
    /// `bears` says. Returns how it was in the end.
    pub fn stop(mut self, mut bears: impl FnMut() -> bool) -> Ending {
        self.shared.stop.store(true, Ordering::Release);
        while self.is_running() && bears() {
            thread::sleep(STOP_POLL);
        }
        let timeout = if self.is_running() { HURRY_MAX } else { LEAVE_MAX };
        self.shared.stop_at_once.store(true, Ordering::Release);
        let since = Instant::now();
        while self.is_running() && since.elapsed() < HURRY_MAX {
            thread::sleep(STOP_POLL);
        }
        if self.is_running() {
            self.thread = None; // it hangs in a call on the disk
        }
        self.join(timeout);
        Ending {
            stopped: self.was_stopped(),
            committed_epoch: self.shared.committed.lock().map_or(0, |epoch| *epoch),
            lost_host: self.lost_host(),
            ends: self.shared.ends.lock().map_or_else(|_| Ends::default(), |ends| ends.clone()),
            timeout,
        }
    }

    /// Waits until the coordinator ends by itself (`Options::linger`).
    pub fn wait(mut self) {
        self.join(LEAVE_MAX);
    }

    fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn join(&mut self, timeout: Duration) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.over.store(true, Ordering::Release);
        self.place.leave();
        if self.secret.is_some() {
            let job = self.job.clone();
            let path = job.path().join(Secret::FILE);
            within(timeout, move || std::fs::remove_file(job.via(&path)));
        }
    }
}

/// Starts the coordinator of a job on a fresh socket.
///
/// # Errors
/// The socket or the job's directory cannot be made.
pub fn start(options: Options) -> io::Result<Handle> {
    options.job.create().map_err(io::Error::other)?;
    let sockets = runtime_dir()?;
    remove_dead_sockets(&sockets);
    let (inputs, receiver) = channel();
    let path = own_socket(&sockets, unix_now_ns() & 0xff_ffff);
    let local_listener =
        LocalListener::open(&path, options.job.clone(), options.key, inputs.clone())?;
    let (socket, place) = (path.to_string_lossy().into_owned(), local_listener.place());
    let committed_epoch = list_snapshots(&options.job).last().map_or(0, |s| s.epoch);
    // The images know of the checkpoint they were cut in: no other may have its number.
    let restored = options
        .restored
        .as_deref()
        .and_then(|snapshot| read_manifest(snapshot, Whose::Own(options.key)).ok());
    let restored_epoch = restored.as_ref().map_or(0, |manifest| manifest.epoch);
    let log = Log::new(options.job.log().map_err(io::Error::other)?);
    let config = Config {
        job: options.name.clone(),
        restart: options.restart.clone(),
        snapshots: options.job.snapshots().to_string_lossy().into_owned(),
        last_epoch: restored_epoch,
        committed_epoch,
        every_ms: options.every_ms,
        timeout_ms: 60_000,
        save_timeout_ms: 1_800_000,
        quiesce_ms: 10_000,
        checkpointer: options.checkpointer,
    };
    let shared = Arc::new(Shared::default());
    let over = Arc::new(AtomicBool::new(false));
    let acceptor = Acceptor {
        inputs: inputs.clone(),
        image_server: Arc::new(ImageServer::new(&options, restored.as_ref())),
        next: Arc::new(AtomicU64::new(1)),
        over: Arc::clone(&over),
    };
    let job = options.job.clone();
    let (mut addresses, mut secret) = (Vec::new(), None);
    if options.network {
        let fresh = Secret::generate()?;
        let tcp = SecureListener::bind(fresh.clone())?;
        addresses = tcp.addresses()?;
        fresh.write(&job.via(&job.path().join(Secret::FILE)))?;
        secret = Some(fresh);
        let acceptor = acceptor.clone();
        thread::Builder::new().spawn(move || acceptor.accept(Box::new(tcp)))?;
    }
    thread::Builder::new().spawn(move || acceptor.accept(Box::new(local_listener)))?;
    let server = Server {
        machine: Machine::new(config),
        storage_worker: StorageWorker::start(options.clone(), inputs)?,
        options,
        peers: BTreeMap::new(),
        log,
        strangers: Strangers::default(),
        begun: Instant::now(),
        shared: Arc::clone(&shared),
    };
    let thread = Some(thread::Builder::new().spawn(move || server.serve(&receiver))?);
    Ok(Handle { socket, place, addresses, secret, job, over, shared, thread })
}

fn unix_now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos())
}

struct Server {
    machine: Machine,
    storage_worker: StorageWorker,
    options: Options,
    peers: BTreeMap<u64, Box<dyn Writer>>,
    log: Log,
    strangers: Strangers,
    begun: Instant,
    shared: Arc<Shared>,
}

impl Server {
    fn serve(mut self, inputs: &Receiver<Input>) {
        self.say("coordinator begins");
        let mut alone_since = Instant::now();
        let mut met_anyone = false;
        let mut stop_since = None;
        loop {
            let mut timeout = TICK;
            if self.shared.stop.load(Ordering::Acquire) {
                let since = *stop_since.get_or_insert_with(Instant::now);
                let is_late = since.elapsed() >= STORE_WAIT
                    || self.shared.stop_at_once.load(Ordering::Acquire);
                if is_late {
                    break;
                }
                // What ranks said before they ended may complete a snapshot.
                if !self.storage_worker.is_busy() && !self.may_hear_more(since) {
                    timeout = Duration::ZERO;
                }
            }
            let event = match inputs.recv_timeout(timeout) {
                Ok(Input::Connected(conn, peer)) => {
                    self.peers.insert(conn, peer);
                    continue;
                }
                Ok(Input::Message(conn, message)) => Event::Message(conn, message),
                Ok(Input::Closed(conn)) => {
                    self.peers.remove(&conn);
                    Event::Closed(conn)
                }
                Ok(Input::HostLost(host, end, conns)) => {
                    for conn in &conns {
                        self.peers.remove(conn);
                    }
                    self.shared.losses.add(&host, end.is_silent);
                    Event::HostLost { host, why: end.why, silent: end.is_silent, conns }
                }
                Ok(Input::HostThere(host)) => {
                    self.shared.losses.remove(&host);
                    continue;
                }
                Ok(Input::Done(event)) => {
                    self.storage_worker.note_done();
                    event
                }
                Ok(Input::Note(text)) => {
                    self.say(&text);
                    continue;
                }
                Ok(Input::TurnedAway(why)) => {
                    for text in self.strangers.turned_away(why, self.now_ms()) {
                        self.say(&text);
                    }
                    continue;
                }
                Err(RecvTimeoutError::Timeout) if timeout.is_zero() => break,
                Err(RecvTimeoutError::Timeout) => Event::Tick,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.handle(event);
            if self.machine.agent_count() > 0 || self.storage_worker.is_busy() {
                met_anyone = true;
                alone_since = Instant::now();
            }
            // Whoever stopped the job on request may want to restart it at once.
            let stopped = self.machine.was_stopped() && self.machine.agent_count() == 0;
            if stopped && self.options.linger.is_some() && !self.storage_worker.is_busy() {
                break;
            }
            let limit = self.options.linger.map(|l| if met_anyone { l } else { l * 6 });
            let awaited = || self.options.outlives.is_some_and(|process| process.is_alive());
            if limit.is_some_and(|limit| alone_since.elapsed() >= limit) && !awaited() {
                break;
            }
        }
        // What has been stored meanwhile is a snapshot, also of a job that has ended.
        while let Ok(input) = inputs.try_recv() {
            if let Input::Done(event) = input {
                self.handle(event);
            }
        }
        self.handle(Event::Over);
        self.tell_ends();
        for peer in self.peers.values_mut() {
            peer.end();
        }
        if let Some(text) = self.strangers.rest() {
            self.say(&text);
        }
        self.say("coordinator ends");
    }

    /// Whether lines of a job that has ended are still being read, and a snapshot depends on it, or
    /// whether the job has ended well.
    fn may_hear_more(&self, since: Instant) -> bool {
        let is_reading = self.machine.agent_count() > 0 && since.elapsed() < READ_WAIT;
        is_reading && (self.machine.is_writing_images() || self.machine.has_undecided_ranks())
    }

    /// Whoever holds the handle may ask how the ranks have ended. Those that could not say so have
    /// left a word in the job's directory.
    fn tell_ends(&self) {
        let mut shortfall = self.machine.shortfall(&BTreeSet::new());
        if shortfall.is_some() && !self.shared.stop_at_once.load(Ordering::Acquire) {
            shortfall = self.machine.shortfall(&self.options.job.ended_ranks());
        }
        if let Ok(mut ends) = self.shared.ends.lock() {
            *ends = Ends { have_begun: self.machine.has_begun(), shortfall };
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
        if let Ok(mut epoch) = self.shared.committed.lock() {
            *epoch = self.machine.committed_epoch();
        }
    }

    fn perform(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Send(conn, message) => {
                let peer = self.peers.get_mut(&conn)?;
                let frame = encode_frame(&message);
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
                None
            }
            Action::Close(conn) => {
                self.peers.get_mut(&conn)?.end();
                None
            }
            Action::Prepare(epoch) => {
                let given = self.storage_worker.prepare(epoch);
                (!given).then(|| Event::Prepared(epoch, Err(NOBODY_STORES.into())))
            }
            Action::Commit(plan) => {
                let epoch = plan.epoch;
                let given = self.storage_worker.commit(plan);
                (!given).then(|| Event::Stored(epoch, Err(NOBODY_STORES.into())))
            }
            Action::Discard(epoch) => {
                // Whoever is in a hurry may have a disk that hangs; prune removes it one day.
                if !self.shared.stop_at_once.load(Ordering::Acquire) {
                    discard(&self.options.job, epoch);
                }
                None
            }
            Action::Prune => (!self.storage_worker.prune()).then(|| Event::Pruned(Vec::new())),
            Action::Log(text) => {
                self.say(&text);
                None
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn say(&mut self, text: &str) {
        self.log.say(text);
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
