// SPDX-License-Identifier: Apache-2.0
//! Snapshots that stay on hosts, for a job that is taken up again: an mpirun starts a lender on
//! each host that is left, which lets its store be read; from all of them the images of the newest
//! snapshot that they can give are written into the job's directory, and are a snapshot there. From
//! there on the restart is as any other: every byte is looked at before a rank runs.

use crate::again::{last_run, left};
use crate::exit::refused;
use crate::reach;
use anyhow::{Context, Result, anyhow};
use fermata_launch::hosts::{self, Hosts};
use fermata_launch::key;
use fermata_launch::mpirun::{self, LaunchContext};
use fermata_launch::registry::Prefix;
use fermata_launch::start::Start;
use fermata_node::{Gathered, Places, RemotePeers, StoreServer, hear};
use fermata_storage::{
    HostStore, JobDir, JobDirectory, Level, list_snapshots, partial_image, read_manifest,
};
use fermata_sysio::print_error;
use fermata_transport::{Connection, Listener, PendingPeer, Secret, SecureListener, dial_any};
use fermata_types::{DaemonHello, FrameBuffer, JobRecord, Message, StoreHere, encode_frame};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// For the store of a host to be left by the daemon of the run before.
const STORE_WAIT: Duration = Duration::from_secs(20);
/// For the lenders of all hosts to come.
const LENDERS_WAIT: Duration = Duration::from_secs(60);
/// For mpirun to end once its lenders have been let go.
const END_WAIT: Duration = Duration::from_secs(20);
/// A lender that is forgotten ends.
const LEND_MAX: Duration = Duration::from_secs(4 * 3600);
const HELLO_WAIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// What this host keeps of a job, in a directory of its own.
///
/// # Errors
/// It cannot be used, or a daemon of an earlier run does not leave it.
pub fn open_store(directory: &Path, job: &str) -> Result<HostStore> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let directory = fs::canonicalize(directory)?;
    let host = fermata_sysio::host_name();
    let begun = Instant::now();
    loop {
        match HostStore::open(&directory, job, &host, key::found().map(|user| user.key)) {
            Ok(store) => return Ok(store),
            Err(why) if begun.elapsed() > STORE_WAIT => return Err(why.into()),
            Err(_) => thread::sleep(POLL),
        }
    }
}

/// The hidden command `lend`: lets this host's store be read until whoever asked has ended.
///
/// # Errors
/// There is no store, or nobody to lend it to.
pub fn lend(job: &str, addresses: Vec<String>, directory: &Path) -> Result<()> {
    let secret = reach::secret(None)?;
    let server = StoreServer::begin(open_store(directory, job)?, job, &secret)?;
    let mut line = dial_any(&addresses, &secret).context("cannot reach who asks for the store")?;
    let host = fermata_sysio::host_name();
    let hello = DaemonHello { job: job.into(), host, pid: std::process::id(), node: 0, port: 0 };
    line.writer.send(&encode_frame(&hello.into()))?;
    line.writer.send(&encode_frame(&StoreHere { port: server.port() }.into()))?;
    line.reader.set_timeout(Some(LEND_MAX))?;
    while line.reader.receive(&mut [0; 256]).is_ok_and(|bytes| bytes > 0) {}
    Ok(())
}

/// Before a job is taken up again: what its hosts have is brought into its directory, if that is
/// newer than what is there.
///
/// # Errors
/// There is nothing in the directory, and the hosts give nothing.
pub fn before_restart(job: &JobDir, start: &Start) -> Result<()> {
    let Ok(mut record) = last_run(job) else { return Ok(()) };
    if record.levels.is_empty() {
        return Ok(());
    }
    if !start.hosts.is_empty() || start.hostfile.is_some() {
        // Lost may have been no more than its daemon; whoever names the host knows that it lives.
        record.lost_host.clear();
    }
    match bring(job, start, &record) {
        Err(why) if !list_snapshots(job).is_empty() => {
            print_error(format_args!("hosts give no newer snapshot: {why:#}"));
            Ok(())
        }
        other => other,
    }
}

/// After a run that may be followed by another one. What cannot be had is said.
pub fn after_run(job: &JobDir, start: &Start, record: &JobRecord) {
    if record.levels.is_empty() {
        return;
    }
    if let Err(why) = bring(job, start, record) {
        print_error(format_args!("hosts give no snapshot: {why:#}"));
    }
}

/// The hosts that are left: those that are given, or those of the last run.
fn hosts_of(start: &Start, record: &JobRecord) -> Result<Vec<String>> {
    let given = Hosts::from(&start.hosts, start.hostfile.as_deref(), u32::MAX)?;
    let words: Vec<String> = match given {
        Some(given) => given.all().iter().map(hosts::word).collect(),
        None => record.hosts.clone(),
    };
    let names = left(&words, &record.lost_host).into_iter();
    Ok(names.map(|word| word.split(':').next().unwrap_or_default().to_owned()).collect())
}

fn bring(job: &JobDir, start: &Start, record: &JobRecord) -> Result<()> {
    let names = hosts_of(start, record)?;
    if names.is_empty() {
        return Err(refused(
            "the job's snapshots lie on its hosts, and its record names none\n  \
             hint: --host a,b,c",
        ));
    }
    let prefix = Prefix::find()?;
    let lower = prefix.choose(start.mpi.as_deref().or(Some(&record.lower)), None)?;
    let remote_shell = start.remote_shell.clone().or_else(|| Some(record.remote_shell.clone()));
    let start = Start {
        remote_shell: remote_shell.filter(|shell| !shell.is_empty()),
        mpirun_args: record.mpirun_args.clone(),
        ..start.clone()
    };
    let context = LaunchContext { prefix: &prefix, lower: &lower, start: &start, hosts: None };
    let directory = match &start.local_dir {
        Some(directory) => directory.clone(),
        None => PathBuf::from(&record.local_dir),
    };
    let mut lenders = Lenders::begin(&context, &record.job, &names, &directory)?;
    let done = gather(job, &record.job, &mut lenders);
    lenders.end();
    done
}

/// Writes what lenders give into the job's directory.
fn gather(job: &JobDir, name: &str, lenders: &mut Lenders) -> Result<()> {
    let hosts = lenders.wait()?;
    let (secret, places) = (lenders.secret.clone(), lenders.places.clone());
    let mut peers = RemotePeers::new(name, secret, places, None);
    let to = job.snapshots().join("gathered.partial");
    let _ = fs::remove_dir_all(job.via(&to));
    DirBuilder::new().mode(0o700).create(job.via(&to))?;
    let found =
        fermata_node::gather(&hosts, &mut peers, BTreeMap::new(), key::own(), &job.via(&to));
    let kept = found.map_err(anyhow::Error::from).and_then(|found| settle(job, &to, &found));
    let _ = fs::remove_dir_all(job.via(&to));
    kept
}

/// The gathered images are a snapshot of the job's directory from here on.
fn settle(job: &JobDir, from: &Path, found: &Gathered) -> Result<()> {
    let Gathered { restored, silent } = found;
    let epoch = restored.kept.manifest.epoch;
    let lost = restored.restart.lost.iter().map(ToString::to_string);
    for text in silent.iter().cloned().chain(restored.notes.iter().cloned()).chain(lost) {
        print_error(format_args!("{text}"));
    }
    if let Some(newest) = list_snapshots(job).last().filter(|newest| newest.epoch >= epoch) {
        let is_same = read_manifest(&newest.path, key::own())
            .is_ok_and(|manifest| manifest.images == restored.kept.manifest.images);
        if newest.epoch > epoch || is_same {
            return Ok(()); // it is there already, or what is there is newer
        }
        return Err(refused(format!(
            "{} is another snapshot than checkpoint {epoch} of the hosts\n  \
             hint: remove the one that is not wanted, or restart the directory by its path",
            newest.path.display()
        )));
    }
    print_error(format_args!("checkpoint {epoch} is taken from the hosts"));
    for text in restored.restart.sentences() {
        print_error(format_args!("  {text}"));
    }
    let partial = partial_image(job, epoch, 0);
    let partial = partial.parent().context("a snapshot lies in a directory")?;
    let _ = fs::remove_dir_all(job.via(partial));
    fs::rename(job.via(from), job.via(partial))?;
    let level = JobDirectory::new(job.clone(), key::found().map(|user| user.key));
    level.put(&restored.kept.manifest)?;
    Ok(())
}

/// Lenders on hosts, under an mpirun.
struct Lenders {
    child: Child,
    secret: Secret,
    places: Places,
    wanted: usize,
    come: Receiver<(String, SocketAddr, Connection)>,
    lines: Vec<Connection>,
}

impl Lenders {
    fn begin(
        context: &LaunchContext,
        job: &str,
        names: &[String],
        directory: &Path,
    ) -> Result<Self> {
        let secret = Secret::generate()?;
        let listener = SecureListener::bind(secret.clone())?;
        let addresses = listener.addresses()?.join(",");
        let (sender, come) = channel();
        let wanted_job = job.to_owned();
        thread::Builder::new().spawn(move || accept(listener, &wanted_job, &sender))?;
        let words = [
            "lend".into(),
            "--address".into(),
            addresses.into(),
            "--local-dir".into(),
            directory.as_os_str().to_owned(),
            OsString::from(job),
        ];
        let one_each: Vec<String> = names.iter().map(|name| format!("{name}:1")).collect();
        let ranks = u32::try_from(names.len())?;
        let hosts = Hosts::from(&one_each, None, ranks)?.context("there are hosts")?;
        let mut command = mpirun::helpers(context, &hosts, &secret.to_text(), &words)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start mpirun to ask the hosts")?;
        let (places, lines, wanted) = (Places::default(), Vec::new(), names.len());
        Ok(Self { child, secret, places, wanted, come, lines })
    }

    /// Until all have come; who has not in time is not waited for.
    fn wait(&mut self) -> Result<Vec<String>> {
        let begun = Instant::now();
        while self.lines.len() < self.wanted && begun.elapsed() < LENDERS_WAIT {
            if let Ok((host, address, line)) = self.come.recv_timeout(POLL) {
                self.places.add(&host, vec![address.to_string()]);
                self.lines.push(line);
            } else if self.child.try_wait()?.is_some() {
                break;
            }
        }
        match self.places.hosts() {
            none if none.is_empty() => Err(anyhow!("none of the hosts can be asked")),
            hosts => Ok(hosts),
        }
    }

    /// Lets them go.
    fn end(mut self) {
        for line in &mut self.lines {
            line.writer.end();
        }
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > END_WAIT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            thread::sleep(POLL);
        }
    }
}

/// Until nobody waits for lenders any more, which is noticed at the next one.
fn accept(
    mut listener: SecureListener,
    job: &str,
    come: &Sender<(String, SocketAddr, Connection)>,
) {
    loop {
        let Ok(pending) = listener.accept() else {
            thread::sleep(POLL);
            continue;
        };
        let (job, come) = (job.to_owned(), come.clone());
        let _ = thread::Builder::new().spawn(move || {
            if let Some(lender) = admit(pending, &job) {
                let _ = come.send(lender);
            }
        });
    }
}

fn admit(pending: Box<dyn PendingPeer>, job: &str) -> Option<(String, SocketAddr, Connection)> {
    let mut line = pending.admit().ok()?;
    line.reader.set_timeout(Some(HELLO_WAIT)).ok()?;
    let (mut frames, mut host) = (FrameBuffer::default(), String::new());
    loop {
        match hear(&mut line, &mut frames).ok()?? {
            Message::DaemonHello(hello) if hello.job == job => host = hello.host,
            Message::StoreHere(here) if !host.is_empty() => {
                let port = u16::try_from(here.port).ok()?;
                return Some((host, SocketAddr::new(line.peer?, port), line));
            }
            _ => return None,
        }
    }
}
