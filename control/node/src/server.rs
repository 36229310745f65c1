// SPDX-License-Identifier: Apache-2.0
//! The daemon's threads: one per connection that reads, one that owns everything and passes on.

use crate::endpoint::Endpoint;
use crate::fetch::Found;
use crate::images::LocalImages;
use crate::keeper::{Keeper, Say};
use crate::membership::Membership;
use crate::pace::Pace;
use fermata_storage::HostStore;
use fermata_sysio::Log;
use fermata_transport::{
    Connection, Listener, PendingPeer, Reader, UnixTransport, Writer, remove_socket,
};
use fermata_types::{
    Attached, DaemonHello, Detached, Failed, FrameBuffer, ImageLies, Message, Relayed, Save, Saved,
    StoreHere, decode_frame, encode_frame,
};
use std::collections::BTreeMap;
use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(200);
const REDIAL_EVERY: Duration = Duration::from_secs(2);
/// What a failed transfer is reported as.
const EIO: i32 = 5;

/// What a daemon needs to know.
pub struct Options {
    /// To the job's coordinator.
    pub endpoint: Endpoint,
    /// Where the host's ranks connect.
    pub socket: PathBuf,
    /// The host keeps images to itself.
    pub local: Option<LocalImages>,
    /// The host keeps snapshots.
    pub store: Option<HostStore>,
    /// Bytes a second that making levels may bring from other hosts, or to the job's directory.
    pub level_rate: Option<u64>,
    /// How long to look for a coordinator that is lost while ranks live.
    pub timeout: Duration,
    /// Where to write what happens.
    pub log: Option<Log>,
}

enum Input {
    Attached(u64, Box<dyn Writer>),
    FromAgent(u64, Message),
    Detached(u64),
    FromCoordinator(Message),
    CoordinatorLost(String),
    CoordinatorBack(Connection),
    CoordinatorGivenUp,
    /// For the coordinator.
    Said(Message),
    /// An image has been brought to the coordinator, or not.
    Shipped(u64, Saved),
}

/// Serves until the job is over: its coordinator has ended, or does not come back. Calls `ready`
/// once ranks can connect.
///
/// # Errors
/// The coordinator cannot be reached or does not let us in, or the socket cannot be made.
pub fn run(options: Options, ready: impl FnOnce()) -> io::Result<()> {
    let directory =
        options.local.as_ref().map_or_else(env::temp_dir, |local| local.root().to_owned());
    let mut membership = Membership::new(options.endpoint.secret.clone(), directory);
    let connection = greet(&options.endpoint, membership.told())?;
    membership.connected(connection.peer);
    let listener = UnixTransport::bind(&options.socket)?;
    let (inputs, receiver) = channel();
    spawn_reader(connection.reader, inputs.clone())?;
    let keeper = options.store.clone().map(|store| keep(&options, store, &inputs)).transpose()?;
    let found = Found { local: options.local.clone(), store: options.store.clone() };
    let socket = options.socket.clone();
    let accepted = inputs.clone();
    thread::Builder::new().spawn(move || accept(Box::new(listener), &accepted, &found))?;
    ready();
    let mut daemon = Daemon {
        agents: BTreeMap::new(),
        coordinator: Some(connection.writer),
        prepared: 0,
        keeper,
        membership,
        inputs,
        options,
    };
    daemon.say("daemon begins");
    daemon.tell_of_store();
    daemon.serve(&receiver);
    daemon.say("daemon ends");
    remove_socket(&socket);
    if let Some(local) = &daemon.options.local {
        local.remove_all();
    }
    Ok(())
}

/// Snapshots are kept here from now on.
fn keep(options: &Options, store: HostStore, inputs: &Sender<Input>) -> io::Result<Keeper> {
    let Endpoint { job, secret, .. } = &options.endpoint;
    let inputs = inputs.clone();
    let said: Say = Arc::new(move |message| {
        let _ = inputs.send(Input::Said(message)); // a daemon that has ended says nothing
    });
    Keeper::begin(store, job, secret, options.local.clone(), Pace::new(options.level_rate), said)
}

/// `told`: the number and the port of the membership.
fn greet(endpoint: &Endpoint, told: (u32, u32)) -> io::Result<Connection> {
    let mut connection = endpoint.dial()?;
    let job = endpoint.job.clone();
    let host = fermata_sysio::host_name();
    let (node, port) = told;
    let hello = DaemonHello { job, host, pid: std::process::id(), node, port };
    connection.writer.send(&encode_frame(&hello.into()))?;
    Ok(connection)
}

/// Reads until the connection ends; `each` returns false to stop.
fn read(
    reader: &mut dyn Reader,
    frames: &mut FrameBuffer,
    mut each: impl FnMut(Message) -> bool,
) -> String {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        loop {
            match frames.pop() {
                Ok(Some(message)) => {
                    if !each(message) {
                        return String::new();
                    }
                }
                Ok(None) => break,
                Err(error) => return error.to_string(),
            }
        }
        match reader.receive(&mut buffer) {
            Ok(0) => return "the other side has closed".into(),
            Ok(bytes) => frames.push(&buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.to_string(),
        }
    }
}

fn spawn_reader(mut reader: Box<dyn Reader>, inputs: Sender<Input>) -> io::Result<()> {
    let work = move || {
        let mut frames = FrameBuffer::default();
        let why = read(&mut *reader, &mut frames, |message| {
            inputs.send(Input::FromCoordinator(message)).is_ok()
        });
        let _ = inputs.send(Input::CoordinatorLost(why));
    };
    thread::Builder::new().spawn(work).map(|_| ())
}

fn accept(mut listener: Box<dyn Listener>, inputs: &Sender<Input>, found: &Found) {
    let next = Arc::new(AtomicU64::new(1));
    loop {
        match listener.accept() {
            Ok(pending) => {
                let (inputs, found) = (inputs.clone(), found.clone());
                let channel = next.fetch_add(1, Ordering::AcqRel);
                let work = move || receive(pending, channel, &inputs, &found);
                // Without a thread there is nobody to hear this peer, who is sent away.
                if thread::Builder::new().spawn(work).is_err() {
                    thread::sleep(TICK);
                }
            }
            // Out of descriptors, most likely.
            Err(_) => thread::sleep(TICK),
        }
    }
}

/// A rank's agent, or a rank that is about to be restored and asks for its image.
fn receive(pending: Box<dyn PendingPeer>, channel: u64, inputs: &Sender<Input>, found: &Found) {
    let Ok(Connection { mut reader, writer, .. }) = pending.admit() else { return };
    let mut waiting = Some(writer);
    let _ = read(&mut *reader, &mut FrameBuffer::default(), |message| {
        if let Some(mut writer) = waiting.take() {
            if let Message::Fetch(wish) = &message {
                let fetched = found.fetch(wish.rank);
                let _ = writer.send(&encode_frame(&fetched.into()));
                return false;
            }
            if inputs.send(Input::Attached(channel, writer)).is_err() {
                return false;
            }
        }
        inputs.send(Input::FromAgent(channel, message)).is_ok()
    });
    reader.end();
    if waiting.is_none() {
        let _ = inputs.send(Input::Detached(channel));
    }
}

struct Agent {
    writer: Box<dyn Writer>,
    rank: u32,
    /// Epoch of the last image that was taken over from it.
    shipped: u32,
}

struct Daemon {
    agents: BTreeMap<u64, Agent>,
    coordinator: Option<Box<dyn Writer>>,
    /// The checkpoint that a local directory has been made for.
    prepared: u32,
    keeper: Option<Keeper>,
    membership: Membership,
    inputs: Sender<Input>,
    options: Options,
}

impl Daemon {
    fn serve(&mut self, inputs: &Receiver<Input>) {
        while let Ok(input) = inputs.recv() {
            match input {
                Input::CoordinatorLost(why) => {
                    self.say(&format!("the line to the coordinator is lost: {why}"));
                    self.coordinator = None;
                    if self.agents.is_empty() {
                        return; // the job has ended
                    }
                    self.drop_agents();
                    self.redial();
                }
                Input::CoordinatorGivenUp => return,
                input => self.handle(input),
            }
        }
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Attached(channel, mut writer) => {
                if self.coordinator.is_none() {
                    return writer.end(); // it tries again in a while
                }
                self.agents.insert(channel, Agent { writer, rank: u32::MAX, shipped: 0 });
                self.send(&Attached { channel }.into());
            }
            Input::FromAgent(channel, message) => self.pass_up(channel, message),
            Input::Detached(channel) => {
                if self.agents.remove(&channel).is_some() {
                    self.send(&Detached { channel }.into());
                }
            }
            Input::FromCoordinator(Message::Relayed(m)) => self.pass_down(m.channel, m.frame),
            Input::FromCoordinator(Message::Detached(m)) => {
                if let Some(agent) = self.agents.get_mut(&m.channel) {
                    agent.writer.end();
                }
            }
            Input::FromCoordinator(Message::Joined(joined)) => self.membership.joined(&joined),
            Input::FromCoordinator(Message::Peer(peer)) => self.membership.add(&peer),
            Input::FromCoordinator(message) => {
                let name = message.name();
                if self.keeper.as_mut().is_some_and(|keeper| keeper.hear(message)) {
                    return;
                }
                self.say(&format!("the coordinator said {name}"));
            }
            Input::Said(message) => self.send(&message),
            Input::Shipped(channel, saved) => self.relay(channel, &saved.into()),
            Input::CoordinatorBack(connection) => {
                self.membership.connected(connection.peer);
                if let Err(error) = spawn_reader(connection.reader, self.inputs.clone()) {
                    self.say(&format!("the coordinator is back, but not to be heard: {error}"));
                    return self.redial();
                }
                self.say("the coordinator is back");
                self.coordinator = Some(connection.writer);
                self.tell_of_store();
            }
            Input::CoordinatorLost(_) | Input::CoordinatorGivenUp => {}
        }
    }

    fn pass_up(&mut self, channel: u64, message: Message) {
        let Some(agent) = self.agents.get_mut(&channel) else { return };
        match &message {
            Message::Ready(m) => agent.rank = m.rank,
            Message::Rebuilt(m) => agent.rank = m.rank,
            _ => {}
        }
        let rank = agent.rank;
        if let (Message::Saved(saved), Some(keeper)) = (&message, &self.keeper) {
            if saved.error == 0 {
                let saved = saved.clone();
                let lies = keeper.lies(&saved, rank);
                return self.pass_saved(channel, saved, lies);
            }
        }
        match (message, &self.options.local) {
            (Message::Saved(saved), Some(local)) if saved.error == 0 => {
                if std::mem::replace(&mut agent.shipped, saved.epoch) == saved.epoch {
                    return; // said again
                }
                let (local, inputs) = (local.clone(), self.inputs.clone());
                let image = saved.clone();
                let work = move || ship(&local, channel, rank, image, &inputs);
                if let Err(error) = thread::Builder::new().spawn(work) {
                    let message = format!("cannot collect the image: {error}");
                    self.relay(channel, &Saved { error: EIO, message, ..saved }.into());
                }
            }
            (message, _) => self.relay(channel, &message),
        }
    }

    /// A rank's image stays here: where it lies is said before that it is saved.
    fn pass_saved(&mut self, channel: u64, saved: Saved, lies: Result<ImageLies, String>) {
        match lies {
            Ok(lies) => {
                self.send(&lies.into());
                self.relay(channel, &saved.into());
            }
            Err(message) => {
                self.relay(channel, &Saved { error: EIO, message, ..saved }.into());
            }
        }
    }

    fn tell_of_store(&mut self) {
        let Some(keeper) = &self.keeper else { return };
        let (port, holds) = (keeper.port(), keeper.holds());
        for one in holds {
            self.send(&one.into());
        }
        self.send(&StoreHere { port }.into());
    }

    fn pass_down(&mut self, channel: u64, frame: Vec<u8>) {
        let frame = match (&self.options.local, decode_frame(&frame)) {
            (Some(_), Ok(Message::Save(save))) => match self.save_locally(channel, save) {
                Some(save) => encode_frame(&save.into()),
                None => return,
            },
            (Some(local), Ok(Message::Abort(abort))) => {
                local.discard(abort.epoch);
                frame
            }
            _ => frame,
        };
        let Some(agent) = self.agents.get_mut(&channel) else { return };
        if agent.writer.send(&frame).is_err() {
            agent.writer.end(); // the reading thread sees the end and reports it
        }
    }

    /// Points a rank at this host's directory. `None`: there is none, and the coordinator knows.
    fn save_locally(&mut self, channel: u64, mut save: Save) -> Option<Save> {
        let local = self.options.local.as_ref()?;
        let rank = self.agents.get(&channel)?.rank;
        if self.prepared != save.epoch {
            let made = match &self.keeper {
                Some(keeper) => keeper.prepare(save.epoch),
                None => local.prepare(save.epoch).map_err(|error| error.to_string()),
            };
            if let Err(message) = made {
                let failed = Failed { epoch: save.epoch, message };
                self.relay(channel, &failed.into());
                return None;
            }
            self.prepared = save.epoch;
        }
        match &self.keeper {
            Some(keeper) => keeper.point(&mut save, rank).ok()?,
            None => save.path = local.path(save.epoch, rank).to_string_lossy().into_owned(),
        }
        Some(save)
    }

    fn relay(&mut self, channel: u64, message: &Message) {
        let frame = encode_frame(message);
        self.send(&Relayed { channel, frame }.into());
    }

    fn send(&mut self, message: &Message) {
        let Some(coordinator) = &mut self.coordinator else { return };
        if let Err(error) = coordinator.send(&encode_frame(message)) {
            coordinator.end(); // the reading thread sees the end and reports it
            self.say(&format!("{}: {error}", message.name()));
        }
    }

    fn drop_agents(&mut self) {
        for agent in self.agents.values_mut() {
            agent.writer.end();
        }
        self.agents.clear();
    }

    fn redial(&self) {
        let inputs = self.inputs.clone();
        let endpoint = self.options.endpoint.clone();
        let timeout = self.options.timeout;
        let (told, given_up) = (self.membership.told(), self.inputs.clone());
        let work = move || {
            let begun = Instant::now();
            while begun.elapsed() < timeout {
                thread::sleep(REDIAL_EVERY.min(timeout));
                if let Ok(connection) = greet(&endpoint, told) {
                    let _ = inputs.send(Input::CoordinatorBack(connection));
                    return;
                }
            }
            let _ = inputs.send(Input::CoordinatorGivenUp);
        };
        if thread::Builder::new().spawn(work).is_err() {
            let _ = given_up.send(Input::CoordinatorGivenUp);
        }
    }

    fn say(&mut self, text: &str) {
        if let Some(log) = &mut self.options.log {
            log.say(text);
        }
    }
}

/// Brings a rank's image to the coordinator, then says that it is saved.
fn ship(local: &LocalImages, channel: u64, rank: u32, mut saved: Saved, inputs: &Sender<Input>) {
    if let Err(error) = local.put(saved.epoch, rank) {
        let host = fermata_sysio::host_name();
        let path = local.path(saved.epoch, rank);
        saved.error = EIO;
        saved.message = format!("cannot collect {host}:{}: {error}", path.display());
    }
    let _ = inputs.send(Input::Shipped(channel, saved));
}
