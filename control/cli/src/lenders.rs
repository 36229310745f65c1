// SPDX-License-Identifier: Apache-2.0
//! Lenders: an mpirun starts one on each host that a job is taken up on. It lets the host's store
//! be read, and places there what it is told to, until whoever asked has ended.

use crate::reach;
use anyhow::{Context, Result, anyhow};
use fermata_launch::hosts::Hosts;
use fermata_launch::key;
use fermata_launch::mpirun::{self, LaunchContext};
use fermata_levels::Id;
use fermata_node::{Places, RemotePeers, StoreServer, survey};
use fermata_storage::{HostStore, Kept};
use fermata_transport::{
    Connection, Listener, PendingPeer, Secret, SecureListener, Writer, dial_any, next_message,
};
use fermata_types::{
    DaemonHello, FrameBuffer, Message, Place, Placed, Promotes, StoreHere, StoreThere, encode_frame,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
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
/// So often a lender that works says so,
const WORKING_EVERY: Duration = Duration::from_secs(2);
/// and one that says nothing for so long is lost.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// What this host keeps of a job, in a directory of its own.
///
/// # Errors
/// It cannot be used, or a daemon of an earlier run does not leave it.
pub fn open_store(directory: &Path, name: &str) -> Result<HostStore> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let directory = fs::canonicalize(directory)?;
    let host = fermata_sysio::host_name();
    let begun = Instant::now();
    loop {
        match HostStore::open(&directory, name, &host, key::found().map(|user| user.key)) {
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
pub fn lend(store: &str, addresses: Vec<String>, directory: &Path) -> Result<()> {
    let secret = reach::secret(None)?;
    let opened = open_store(directory, store)?;
    let server = StoreServer::begin(opened.clone(), store, &secret)?;
    let mut line = dial_any(&addresses, &secret).context("cannot reach who asks for the store")?;
    let host = fermata_sysio::host_name();
    let hello = DaemonHello { job: store.into(), host, pid: std::process::id(), node: 0, port: 0 };
    line.writer.send(&encode_frame(&hello.into()))?;
    line.writer.send(&encode_frame(&StoreHere { port: server.port() }.into()))?;
    line.reader.set_timeout(Some(LEND_MAX))?;
    let places = Places::default();
    let mut frames = FrameBuffer::default();
    while let Ok(Some(message)) = next_message(&mut *line.reader, &mut frames) {
        match message {
            Message::StoreThere(there) => places.add(&there.host, vec![there.address]),
            Message::Place(wish) => {
                let own = Some(opened.clone());
                let peers = RemotePeers::new(store, secret.clone(), places.clone(), own);
                place(wish, &opened, &places, peers, &mut *line.writer)?;
            }
            _ => break,
        }
    }
    Ok(())
}

/// Does it in a thread of its own, so that whoever waits hears that it is being done.
fn place(
    wish: Place,
    store: &HostStore,
    places: &Places,
    mut peers: RemotePeers,
    line: &mut dyn Writer,
) -> io::Result<()> {
    let (sender, done) = channel();
    let (store, hosts) = (store.clone(), places.hosts());
    thread::Builder::new().spawn(move || {
        let old = Id { taken_ms: wish.taken_ms, epoch: wish.epoch };
        let new = serde_json::from_slice(&wish.record).map_err(|why| why.to_string());
        let placed =
            new.and_then(|new| survey(&hosts, &mut peers).place(&store, old, &new, &mut peers));
        let _ = sender.send(match placed {
            Ok(notes) => Placed { notes: notes.join("\n"), error: String::new() },
            Err(error) => Placed { notes: String::new(), error },
        });
    })?;
    loop {
        match done.recv_timeout(WORKING_EVERY) {
            Ok(placed) => return line.send(&encode_frame(&placed.into())),
            Err(RecvTimeoutError::Timeout) => {
                line.send(&encode_frame(&Promotes { task: 0 }.into()))?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                let error = "it ended before it was done".to_owned();
                return line.send(&encode_frame(&Placed { notes: String::new(), error }.into()));
            }
        }
    }
}

/// Lenders on hosts, under an mpirun.
pub struct Lenders {
    child: Child,
    secret: Secret,
    places: Places,
    wanted: usize,
    come: Receiver<(String, SocketAddr, Connection)>,
    /// By their hosts' names, with the addresses of their stores.
    lines: BTreeMap<String, (SocketAddr, Connection)>,
}

impl Lenders {
    /// One on each of these hosts.
    ///
    /// # Errors
    /// mpirun cannot be started, or there is no socket.
    pub fn begin(
        context: &LaunchContext,
        store: &str,
        names: &[String],
        directory: &Path,
    ) -> Result<Self> {
        let secret = Secret::generate()?;
        let listener = SecureListener::bind(secret.clone())?;
        let addresses = listener.addresses()?.join(",");
        let (sender, come) = channel();
        let wanted = store.to_owned();
        thread::Builder::new().spawn(move || accept(listener, &wanted, &sender))?;
        let words = [
            "lend".into(),
            "--address".into(),
            addresses.into(),
            "--local-dir".into(),
            directory.as_os_str().to_owned(),
            OsString::from(store),
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
        let (places, lines, wanted) = (Places::default(), BTreeMap::new(), names.len());
        Ok(Self { child, secret, places, wanted, come, lines })
    }

    /// Until all have come; who has not in time is not waited for. Returns their hosts.
    ///
    /// # Errors
    /// None has come.
    pub fn wait(&mut self) -> Result<Vec<String>> {
        let begun = Instant::now();
        while self.lines.len() < self.wanted && begun.elapsed() < LENDERS_WAIT {
            if let Ok((host, address, line)) = self.come.recv_timeout(POLL) {
                self.places.add(&host, vec![address.to_string()]);
                self.lines.insert(host, (address, line));
            } else if self.child.try_wait()?.is_some() {
                break;
            }
        }
        match self.places.hosts() {
            none if none.is_empty() => Err(anyhow!("none of the hosts can be asked")),
            hosts => Ok(hosts),
        }
    }

    /// Whether one is on that host, as it calls itself.
    pub fn has(&self, host: &str) -> bool {
        self.lines.contains_key(host)
    }

    /// Their stores, to be read from here.
    pub fn peers(&self, store: &str) -> RemotePeers {
        RemotePeers::new(store, self.secret.clone(), self.places.clone(), None)
    }

    /// Has the homes of `new` keep it, each its part, from what all hosts have of `old`. Returns
    /// what they have to say of it, a sentence each. Blocks until all do, or one cannot.
    ///
    /// # Errors
    /// One cannot, or is not there; a sentence for each.
    pub fn place(&mut self, old: Id, new: &Kept) -> Result<BTreeSet<String>> {
        let there: Vec<StoreThere> = self
            .lines
            .iter()
            .map(|(host, (address, _))| StoreThere {
                host: host.clone(),
                address: address.to_string(),
            })
            .collect();
        let mut problems = Vec::new();
        let homes = new.snapshot.homes.iter().map(|home| &home.host);
        let Id { taken_ms, epoch } = old;
        let wish = Place { epoch, taken_ms, record: serde_json::to_vec(new)? };
        for host in homes.clone() {
            let line = self.lines.get_mut(host).map(|(_, line)| line);
            let line = line.with_context(|| format!("no lender is on {host}"))?;
            let told = there.iter().map(|one| encode_frame(&one.clone().into()));
            let mut told = told.chain([encode_frame(&wish.clone().into())]);
            if let Err(why) = told.try_for_each(|frame| line.writer.send(&frame)) {
                problems.push(format!("{host}: {why}"));
            }
        }
        if !problems.is_empty() {
            return Err(anyhow!(problems.join("; ")));
        }
        let mut said = BTreeSet::new();
        for host in homes {
            let Some((_, line)) = self.lines.get_mut(host) else { continue };
            match hear_placed(line) {
                Ok(notes) => said.extend(notes.lines().map(str::to_owned)),
                Err(why) => problems.push(format!("{host}: {why}")),
            }
        }
        if problems.is_empty() { Ok(said) } else { Err(anyhow!(problems.join("; "))) }
    }

    /// Lets them go.
    pub fn end(mut self) {
        for (_, line) in self.lines.values_mut() {
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

/// What a lender notes once it has placed what it was told to.
fn hear_placed(line: &mut Connection) -> io::Result<String> {
    line.reader.set_timeout(Some(SILENCE_MAX))?;
    let mut frames = FrameBuffer::default();
    loop {
        match next_message(&mut *line.reader, &mut frames)? {
            Some(Message::Promotes(_)) => {}
            Some(Message::Placed(placed)) if placed.error.is_empty() => return Ok(placed.notes),
            Some(Message::Placed(placed)) => return Err(io::Error::other(placed.error)),
            _ => return Err(io::Error::other("its lender has ended")),
        }
    }
}

/// Until nobody waits for lenders any more, which is noticed at the next one.
fn accept(
    mut listener: SecureListener,
    store: &str,
    come: &Sender<(String, SocketAddr, Connection)>,
) {
    loop {
        let Ok(pending) = listener.accept() else {
            thread::sleep(POLL);
            continue;
        };
        let (store, come) = (store.to_owned(), come.clone());
        let _ = thread::Builder::new().spawn(move || {
            if let Some(lender) = admit(pending, &store) {
                let _ = come.send(lender);
            }
        });
    }
}

fn admit(pending: Box<dyn PendingPeer>, store: &str) -> Option<(String, SocketAddr, Connection)> {
    let mut line = pending.admit().ok()?;
    line.reader.set_timeout(Some(HELLO_WAIT)).ok()?;
    let (mut frames, mut host) = (FrameBuffer::default(), String::new());
    loop {
        match next_message(&mut *line.reader, &mut frames).ok()?? {
            Message::DaemonHello(hello) if hello.job == store => host = hello.host,
            Message::StoreHere(here) if !host.is_empty() => {
                let port = u16::try_from(here.port).ok()?;
                return Some((host, SocketAddr::new(line.peer?, port), line));
            }
            _ => return None,
        }
    }
}
