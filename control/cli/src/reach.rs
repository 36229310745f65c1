// SPDX-License-Identifier: Apache-2.0
//! How a process on some host reaches a job's coordinator: on the same host through its UNIX
//! socket, from another one through that host's daemon (ranks) or over TCP (commands).
//!
//! The first rank on a host starts the daemon; a lock decides who is first. The daemon's socket is
//! named after the run's coordinator, so a daemon of an earlier run is never taken for this one's.

use crate::exit::refused;
use crate::lenders;
use anyhow::{Context, Result, anyhow};
use fermata_coordinator::Client;
use fermata_launch::behind::Behind;
use fermata_node::{Endpoint, LocalImages, Options};
use fermata_storage::JobDir;
use fermata_sysio::{Log, use_all_cores};
use fermata_transport::{
    Connection, Secret, agreed_runtime_dir, connect_unix, is_waiting, remove_socket,
};
use fermata_types::{Fetch, FrameBuffer, JobRecord, Message, encode_frame};
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const DAEMON_WAIT: Duration = Duration::from_secs(40);
const FETCH_SILENCE_MAX: Duration = Duration::from_secs(1800);
const POLL: Duration = Duration::from_millis(20);
/// A rank that has lost its coordinator tries as long to find it again.
pub const TIMEOUT: Duration = Duration::from_secs(60);
const READY: &str = "ready";

/// Where a run's coordinator is.
#[derive(Clone, Debug)]
pub struct CoordinatorAddr {
    /// Its host.
    pub host: String,
    /// Its socket there.
    pub socket: String,
    /// Its addresses for other hosts; empty if it has none.
    pub addresses: Vec<String>,
}

impl From<&JobRecord> for CoordinatorAddr {
    fn from(record: &JobRecord) -> Self {
        Self {
            host: record.host.clone(),
            socket: record.socket.clone(),
            addresses: record.addresses.clone(),
        }
    }
}

impl CoordinatorAddr {
    /// Whether a UNIX socket leads there. Names alone do not tell: some hosts share theirs.
    pub fn is_here(&self) -> bool {
        self.addresses.is_empty()
            || self.host == fermata_sysio::host_name()
                && connect_unix(Path::new(&self.socket)).is_ok()
    }
}

/// The job's secret: from the job's directory, or from the process manager where hosts share none.
pub fn secret(job: Option<&JobDir>) -> Result<Secret> {
    if let Ok(text) = std::env::var(Secret::VARIABLE) {
        return Secret::from_text(&text)
            .with_context(|| format!("{} holds no secret of a job", Secret::VARIABLE));
    }
    let job = job.context("the job's secret is unknown")?;
    let path = job.path().join(Secret::FILE);
    Secret::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// A command's connection to the coordinator of a job, wherever it runs.
pub fn client(job: &JobDir, record: &JobRecord) -> Result<Client> {
    let found_at = CoordinatorAddr::from(record);
    if found_at.socket.is_empty() {
        return Err(anyhow!("the job has no coordinator"));
    }
    if found_at.is_here() {
        return Ok(Client::connect(&found_at.socket, &record.job)?);
    }
    let path = job.path().join(Secret::FILE);
    let secret = Secret::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Client::dial(&found_at.addresses, &secret, &record.job)?)
}

/// The daemon that a host needs.
#[derive(Clone, Debug)]
pub struct DaemonSpec {
    /// Job name.
    pub job: String,
    /// The coordinator's.
    pub addresses: Vec<String>,
    /// Where ranks will connect.
    pub socket: PathBuf,
    /// Where the host keeps images.
    pub local_dir: Option<PathBuf>,
    /// And snapshots, in a store of this name.
    pub store: Option<String>,
    /// What it may take for making levels of them.
    pub behind: Behind,
}

/// A host's own directory.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// Where.
    pub dir: &'a Path,
    /// Snapshots stay there, in a store of this name.
    pub store: Option<&'a str>,
    /// What it may take for making levels of them.
    pub behind: &'a Behind,
}

/// The socket of this host's daemon, which is started if it does not run yet.
pub fn daemon_socket(
    job: &str,
    found_at: &CoordinatorAddr,
    secret: &Secret,
    local: Option<Local>,
) -> Result<String> {
    let here = fermata_sysio::host_name();
    let tag = tag(&format!("{here} {job} {} {}", found_at.host, found_at.addresses.join(" ")));
    let base = agreed_runtime_dir(secret)?.join(format!("daemon-{tag:08x}"));
    let spec = DaemonSpec {
        job: job.to_owned(),
        addresses: found_at.addresses.clone(),
        socket: base.with_extension("sock"),
        local_dir: local.map(|local| local.dir.to_owned()),
        store: local.and_then(|local| local.store).map(str::to_owned),
        behind: local.map(|local| local.behind.clone()).unwrap_or_default(),
    };
    let path = spec.socket.to_string_lossy().into_owned();
    let lock_path = base.with_extension("lock");
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .with_context(|| format!("cannot open {}", lock_path.display()))?;
    let begun = Instant::now();
    while fermata_sysio::try_lock(&lock).is_err() {
        if begun.elapsed() > DAEMON_WAIT {
            return Err(anyhow!("another rank has been starting this host's daemon for too long"));
        }
        thread::sleep(POLL);
    }
    if connect_unix(&spec.socket).is_err() {
        start_daemon(&spec, secret)?;
    }
    Ok(path)
}

/// FNV-1a: a short tag that all ranks compute alike.
pub fn tag(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Through a child that ends at once, so that the application has no child it did not make. The
/// daemon says one line when it is ready, or why it is not.
fn start_daemon(spec: &DaemonSpec, secret: &Secret) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["daemon", "--detach"]);
    let mut child = describe(&mut command, spec)
        .env(Secret::VARIABLE, secret.to_text())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start this host's daemon")?;
    let Some(said) = child.stdout.take() else {
        return Err(anyhow!("this host's daemon has no output"));
    };
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(said).read_line(&mut line);
        let _ = sender.send(line);
    });
    let line = receiver.recv_timeout(DAEMON_WAIT).unwrap_or_default();
    let _ = child.wait();
    match line.trim() {
        READY => Ok(()),
        "" => Err(anyhow!("this host's daemon ended, or did not get ready")),
        why => Err(anyhow!("this host's daemon cannot work: {why}")),
    }
}

fn describe<'a>(command: &'a mut Command, spec: &DaemonSpec) -> &'a mut Command {
    command.arg("--socket").arg(&spec.socket);
    command.arg("--address").arg(spec.addresses.join(","));
    if let Some(dir) = &spec.local_dir {
        command.arg("--local-dir").arg(dir);
    }
    if let Some(store) = &spec.store {
        command.args(["--store", store]);
    }
    command.args(spec.behind.words());
    command.arg(&spec.job)
}

/// The hidden command `daemon`: serves the job's ranks on this host until the job is over.
pub fn daemon(spec: &DaemonSpec, detach: bool) -> Result<()> {
    fermata_sysio::close_inherited_descriptors();
    if detach {
        let mut command = Command::new(std::env::current_exe()?);
        describe(command.arg("daemon"), spec).spawn().context("cannot start the daemon")?;
        return Ok(());
    }
    let served = serve(spec);
    if let Err(error) = &served {
        let why = format!("{error:#}").replace('\n', " ");
        let _ = writeln!(io::stdout(), "{why}");
    }
    served
}

fn serve(spec: &DaemonSpec) -> Result<()> {
    // Not the leader of a group, being a child; so this cannot fail in a way that matters.
    let _ = fermata_sysio::leave_session();
    fermata_sysio::FileLimit::raise();
    // A rank has started it, which its MPI may have bound to a processor.
    match &spec.behind.service_cores {
        Some(cores) => {
            cores.use_them().with_context(|| format!("--service-cores {cores}"))?;
        }
        None => use_all_cores().context("cannot use all processors")?,
    }
    let endpoint = Endpoint {
        job: spec.job.clone(),
        addresses: spec.addresses.clone(),
        secret: secret(None)?,
    };
    let local = match &spec.local_dir {
        Some(dir) => {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            let images = LocalImages::new(&fs::canonicalize(dir)?, endpoint.clone());
            Some(images.with_context(|| format!("cannot use {}", dir.display()))?)
        }
        None => None,
    };
    let store = match (&spec.local_dir, &spec.store) {
        (Some(dir), Some(name)) => Some(lenders::open_store(dir, name)?),
        _ => None,
    };
    let mut readable = OpenOptions::new();
    readable.read(true).write(true).create(true).truncate(true);
    let log = readable.open(spec.socket.with_extension("log")).ok().map(Log::new);
    let socket = spec.socket.clone();
    let level_rate = spec.behind.level_rate;
    let options = Options { endpoint, socket, local, store, level_rate, timeout: TIMEOUT, log };
    fermata_node::run(options, || {
        // Who started it may have given it up.
        let _ = writeln!(io::stdout(), "{READY}");
    })
    .context("cannot reach the coordinator")?;
    // It has come to its end as it should: nobody will look for it, or for what it has to say.
    for rest in ["log", "lock"] {
        remove_socket(&spec.socket.with_extension(rest));
    }
    Ok(())
}

/// Has this host's daemon bring a rank's image here; returns the directory it is in.
pub fn fetch_image(socket: &str, rank: u32) -> Result<PathBuf> {
    let Connection { mut reader, mut writer, .. } = connect_unix(Path::new(socket))?;
    writer.send(&encode_frame(&Fetch { rank }.into()))?;
    reader.set_timeout(Some(FETCH_SILENCE_MAX))?;
    let mut frames = FrameBuffer::default();
    let mut buffer = [0; 4096];
    loop {
        if let Some(message) = frames.pop()? {
            return match message {
                Message::Fetched(m) if m.error.is_empty() => Ok(PathBuf::from(m.directory)),
                Message::Fetched(m) => {
                    Err(refused(format!("cannot bring the image of rank {rank} here: {}", m.error)))
                }
                other => Err(anyhow!("this host's daemon said {}", other.name())),
            };
        }
        match reader.receive(&mut buffer) {
            Ok(0) => return Err(anyhow!("this host's daemon ended")),
            Ok(bytes) => frames.push(&buffer[..bytes]),
            Err(error) if is_waiting(&error) => {
                return Err(anyhow!("this host's daemon did not bring the image in time"));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
