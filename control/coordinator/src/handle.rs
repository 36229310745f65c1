// SPDX-License-Identifier: Apache-2.0
//! How a coordinator begins, and what whoever has started it may ask of it and do with it.

use crate::acceptor::Acceptor;
use crate::hosts::Hosts;
use crate::image_server::ImageServer;
use crate::input::{Inbox, Input};
use crate::levels::Levels;
use crate::local_listener::{LocalListener, SocketPlace};
use crate::losses::LostHost;
use crate::members::Members;
use crate::options::Options;
use crate::server::{Around, Server};
use crate::shared::{Committed, Ends, Shared};
use crate::storage_worker::StorageWorker;
use fermata_advisor::{Heard, Line, Me};
use fermata_job::{Config, SiteJob};
use fermata_plan::pace::Every;
use fermata_storage::{JobDir, Whose, list_snapshots, read_manifest, within};
use fermata_sysio::Log;
use fermata_transport::{Secret, SecureListener, own_socket, remove_dead_sockets, runtime_dir};
use fermata_types::Manifest;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STOP_POLL: Duration = Duration::from_millis(5);
/// How long a coordinator, and the job's directory after it, may take to end at once.
const HURRY_MAX: Duration = Duration::from_secs(5);
/// How long the job's directory may take when nobody is in a hurry.
const LEAVE_MAX: Duration = Duration::from_secs(60);

/// What a coordinator knew of its job when it ended.
pub struct JobEnd {
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

    /// The newest committed checkpoint.
    #[must_use]
    pub fn committed(&self) -> Committed {
        self.shared.committed.lock().map_or_else(|_| Committed::default(), |it| *it)
    }

    /// A host that is lost with ranks, and has not come back.
    #[must_use]
    pub fn lost_host(&self) -> Option<LostHost> {
        self.shared.losses.worst()
    }

    /// Whether a rank has left without `MPI_Finalize`, and has not come back: its mpirun ends the
    /// others, by signals too.
    #[must_use]
    pub fn has_lost_rank(&self) -> bool {
        self.shared.has_lost_rank.load(Ordering::Acquire)
    }

    /// Whether a rank is there that has not come to `MPI_Finalize`.
    #[must_use]
    pub fn has_undecided_ranks(&self) -> bool {
        self.shared.has_undecided_ranks.load(Ordering::Acquire)
    }

    /// How many hosts have ranks, while all ranks are there and none has come to `MPI_Finalize`;
    /// else 0.
    #[must_use]
    pub fn hosts_of_all(&self) -> usize {
        self.shared.hosts_of_all.load(Ordering::Acquire)
    }

    /// Has all ranks end at once, wherever they are. Does not wait for that.
    pub fn end_ranks(&self) {
        self.shared.ends_ranks.store(true, Ordering::Release);
    }

    /// The signals of `FERMATA_SAVE_ON` that have come to any rank since this was last asked. A
    /// process manager sends one to every rank: it is told once.
    #[must_use]
    pub fn take_signals(&self) -> BTreeSet<u32> {
        self.shared.signals.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default()
    }

    /// Ends the coordinator and waits for its thread, which may be storing a snapshot, as long as
    /// `bears` says. Returns how it was in the end.
    pub fn stop(mut self, mut bears: impl FnMut() -> bool) -> JobEnd {
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
        self.end(timeout)
    }

    fn end(&self, timeout: Duration) -> JobEnd {
        JobEnd {
            stopped: self.was_stopped(),
            committed_epoch: self.committed().epoch,
            lost_host: self.lost_host(),
            ends: self.shared.ends.lock().map_or_else(|_| Ends::default(), |ends| ends.clone()),
            timeout,
        }
    }

    /// Waits until the coordinator ends by itself (`Options::linger`). Returns how it was then.
    #[must_use]
    pub fn wait(mut self) -> JobEnd {
        self.join(LEAVE_MAX);
        self.end(LEAVE_MAX)
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
    let asks_site = options.site.is_some() && !matches!(options.every, Every::Never);
    let site_job = match asks_site {
        true => Some(SiteJob {
            job: u64::from_ne_bytes(fermata_sysio::random_bytes()?),
            nodes: options.nodes,
            restored_bytes: restored.as_ref().map_or(0, Manifest::bytes),
        }),
        false => None,
    };
    let log = Log::new(options.job.log().map_err(io::Error::other)?);
    let config = Config {
        job: options.name.clone(),
        restart: options.restart.clone(),
        snapshots: options.job.snapshots().to_string_lossy().into_owned(),
        last_epoch: restored_epoch,
        committed_epoch,
        every: options.every.clone(),
        site: site_job,
        timeout_ms: 60_000,
        save_timeout_ms: 1_800_000,
        quiesce_ms: 10_000,
        checkpointer: options.checkpointer,
    };
    let shared = Arc::new(Shared::default());
    let over = Arc::new(AtomicBool::new(false));
    let levels = Levels::begin(&options, inputs.clone())?;
    let mut acceptor = Acceptor {
        inbox: Inbox::new(inputs.clone()),
        image_server: Arc::new(ImageServer::new(&options, restored.as_ref())),
        members: None,
        levels: levels.clone(),
        over: Arc::clone(&over),
    };
    let job = options.job.clone();
    let (mut addresses, mut secret) = (Vec::new(), None);
    if options.network {
        let fresh = Secret::generate()?;
        let tcp = SecureListener::bind(fresh.clone())?;
        addresses = tcp.addresses()?;
        fresh.write(&job.via(&job.path().join(Secret::FILE)))?;
        // Without datagrams a silent host is noticed later.
        acceptor.members = Members::begin(fresh.clone()).ok().map(Arc::new);
        secret = Some(fresh);
        let acceptor = acceptor.clone();
        thread::Builder::new().spawn(move || acceptor.accept(Box::new(tcp)))?;
    }
    let hosts = Hosts::new(job.path(), acceptor.members.clone());
    thread::Builder::new().spawn(move || acceptor.accept(Box::new(local_listener)))?;
    let site = line_to_site(&options, site_job, &inputs)?;
    let storage_worker = StorageWorker::start(options.clone(), inputs, levels)?;
    let around = Around { hosts, site };
    let server = Server::new(config, storage_worker, options, log, Arc::clone(&shared), around);
    let thread = Some(thread::Builder::new().spawn(move || server.serve(&receiver))?);
    Ok(Handle { socket, place, addresses, secret, job, over, shared, thread })
}

/// Nobody is looked for before the job has something to ask.
fn line_to_site(
    options: &Options,
    site_job: Option<SiteJob>,
    inputs: &Sender<Input>,
) -> io::Result<Option<Line>> {
    let (Some(site), Some(SiteJob { job, .. })) = (&options.site, site_job) else {
        return Ok(None);
    };
    let me = Me { job, name: options.name.clone(), host: fermata_sysio::host_name() };
    let inputs = inputs.clone();
    let hear = move |heard| {
        // A coordinator that has ended hears nothing.
        let _ = inputs.send(match heard {
            Heard::Answer(number, answer) => Input::Advised(number, answer),
            Heard::Note(text) => Input::Note(text),
        });
    };
    Line::begin(site.clone(), me, hear).map(Some)
}

fn unix_now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos())
}
