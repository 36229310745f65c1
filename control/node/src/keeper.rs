// SPDX-License-Identifier: Apache-2.0
//! The snapshots that this host keeps (`run --levels`), as the coordinator orders it. What takes as
//! long as disks and lines do has threads: one keeps images, so that a checkpoint does not wait for
//! a level that is being made, and one makes levels, notes them, and removes what is old.

use crate::images::LocalImages;
use crate::pace::Pace;
use crate::stores::{Places, RemotePeers, StoreServer, all_of};
use fermata_levels::{Id, Item, Level};
use fermata_parity::{Sum, Sums};
use fermata_storage::{HostStore, Kept, Peers, Whose, mac_text, read_header};
use fermata_transport::Secret;
use fermata_types::{
    ImageLies, Keep, Make, Message, Note, Promotes, Save, Saved, Shared, StoreHolds,
};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// So often the coordinator hears that a level advances.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// Says something to the coordinator.
pub(crate) type Say = Arc<dyn Fn(Message) + Send + Sync>;

enum Task {
    Make(Make),
    Note(Note),
    GiveUp(Id, String),
    Forget(Id, String),
}

/// What the daemon's own thread has of it.
pub(crate) struct Keeper {
    store: HostStore,
    server: StoreServer,
    places: Places,
    taking: Option<Id>,
    keeps: Sender<Keep>,
    tasks: Sender<Task>,
}

impl Keeper {
    /// Serves the store from now on.
    ///
    /// # Errors
    /// There is no socket, or no thread.
    pub(crate) fn begin(
        store: HostStore,
        job: &str,
        secret: &Secret,
        images: Option<LocalImages>,
        pace: Pace,
        said: Say,
    ) -> io::Result<Self> {
        let server = StoreServer::begin(store.clone(), job, secret)?;
        let places = Places::default();
        let peers = RemotePeers::new(job, secret.clone(), places.clone(), Some(store.clone()));
        let (keeps, to_keep) = channel();
        let (tasks, to_do) = channel();
        let (keeping, answer) = (store.clone(), Arc::clone(&said));
        thread::Builder::new().spawn(move || keep_all(&keeping, &to_keep, &answer))?;
        let mut worker = Worker { store: store.clone(), peers, images, pace, said };
        thread::Builder::new().spawn(move || worker.work(&to_do))?;
        Ok(Self { store, server, places, taking: None, keeps, tasks })
    }

    /// What earlier runs have left here. What cannot be read is not told of, and stays.
    pub(crate) fn holds(&self) -> Vec<StoreHolds> {
        all_of(&self.store).unwrap_or_default()
    }

    /// Where its store is read.
    pub(crate) fn port(&self) -> u32 {
        self.server.port()
    }

    /// What the coordinator says; false: it is about something else.
    pub(crate) fn hear(&mut self, message: Message) -> bool {
        let task = match message {
            Message::StoreThere(m) => {
                self.places.add(&m.host, vec![m.address]);
                return true;
            }
            Message::Taking(m) => {
                self.taking = Some(Id { taken_ms: m.taken_ms, epoch: m.epoch });
                return true;
            }
            Message::Discard(m) => {
                self.store.discard(Id { taken_ms: m.taken_ms, epoch: m.epoch });
                return true;
            }
            Message::Keep(keep) => {
                let _ = self.keeps.send(keep); // a thread that is gone misses its deadline
                return true;
            }
            Message::Make(m) => Task::Make(m),
            Message::Note(m) => Task::Note(m),
            Message::GiveUp(m) => {
                Task::GiveUp(Id { taken_ms: m.taken_ms, epoch: m.epoch }, m.level)
            }
            Message::Forget(m) => {
                Task::Forget(Id { taken_ms: m.taken_ms, epoch: m.epoch }, m.level)
            }
            _ => return false,
        };
        let _ = self.tasks.send(task);
        true
    }

    /// Makes room for the images of the checkpoint under way.
    pub(crate) fn prepare(&self, epoch: u32) -> Result<(), String> {
        let id = self.id(epoch)?;
        self.store.prepare(id).map_err(|why| why.to_string())
    }

    /// Points a rank there.
    pub(crate) fn point(&self, save: &mut Save, rank: u32) -> Result<(), String> {
        let path = self.store.image_path(self.id(save.epoch)?, rank);
        save.path = path.to_string_lossy().into_owned();
        Ok(())
    }

    /// A rank has written its image: what the coordinator has to know of it.
    pub(crate) fn lies(&self, saved: &Saved, rank: u32) -> Result<ImageLies, String> {
        let path = self.store.image_path(self.id(saved.epoch)?, rank);
        let header = read_header(&path, Whose::Own(None)).map_err(|why| why.to_string())?;
        Ok(ImageLies { epoch: saved.epoch, rank, mac: mac_text(&header) })
    }

    fn id(&self, epoch: u32) -> Result<Id, String> {
        let id = self.taking.filter(|id| id.epoch == epoch);
        id.ok_or_else(|| "its host was not told of the checkpoint".into())
    }
}

fn answer(task: u64, done: Result<Vec<u8>, String>) -> Message {
    match done {
        Ok(sums) => Shared { task, sums, error: String::new() },
        Err(error) => Shared { task, sums: Vec::new(), error },
    }
    .into()
}

fn keep_all(store: &HostStore, keeps: &Receiver<Keep>, said: &Say) {
    for keep in keeps {
        let kept = serde_json::from_slice::<Kept>(&keep.record).map_err(|why| why.to_string());
        let done = kept.and_then(|kept| store.keep(&kept).map_err(|why| why.to_string()));
        said(answer(keep.task, done.map(|()| Vec::new())));
    }
}

struct Worker {
    store: HostStore,
    peers: RemotePeers,
    /// The way of images to the job's directory.
    images: Option<LocalImages>,
    pace: Pace,
    said: Say,
}

impl Worker {
    fn work(&mut self, tasks: &Receiver<Task>) {
        for task in tasks {
            match task {
                Task::Make(make) => {
                    let done = self.make(&make);
                    (self.said)(answer(make.task, done));
                }
                Task::Note(note) => {
                    let done = self.note(&note);
                    (self.said)(answer(note.task, done.map(|()| Vec::new())));
                }
                Task::GiveUp(id, level) => {
                    if let Ok(level) = level.parse() {
                        self.store.abort(id, level);
                    }
                }
                Task::Forget(id, level) => {
                    // What cannot be removed is removed with what is older, or by hand.
                    let _ = level.parse().map(|level| self.store.drop_level(id, level));
                }
            }
        }
    }

    fn kept(&self, epoch: u32, taken_ms: u64) -> Result<Kept, String> {
        self.store.read_kept(Id { taken_ms, epoch }).map_err(|why| why.to_string())
    }

    /// This host's share.
    fn make(&mut self, make: &Make) -> Result<Vec<u8>, String> {
        let level: Level = make.level.parse().map_err(|why| format!("{why}"))?;
        let kept = self.kept(make.epoch, make.taken_ms)?;
        let (task, said) = (make.task, Arc::clone(&self.said));
        let (pace, told) = (&mut self.pace, Instant::now());
        let mut peers = Advancing { peers: &mut self.peers, pace, task, said, told };
        match level {
            Level::Local => Ok(Vec::new()),
            Level::Partner => {
                let me = kept.snapshot.home_of(self.store.host());
                let homes = (0..).zip(&kept.snapshot.partners);
                for (home, _) in homes.filter(|(_, keeper)| Some(**keeper) == me) {
                    let made = self.store.make_copy(&kept, home, &mut peers);
                    made.map_err(|why| why.to_string())?;
                }
                Ok(Vec::new())
            }
            Level::Xor | Level::Rs(_) => {
                let made = self.store.make_parities(&kept, level.parities(), &mut peers);
                let sums: Vec<Sum> = made.map_err(|why| why.to_string())?;
                serde_json::to_vec(&sums).map_err(|why| why.to_string())
            }
            Level::Shared => self.bring(&kept, task),
        }
    }

    /// Brings the host's images to the job's directory.
    fn bring(&mut self, kept: &Kept, task: u64) -> Result<Vec<u8>, String> {
        let home = kept.snapshot.home_of(self.store.host());
        let home = home.and_then(|home| kept.snapshot.homes.get(home as usize));
        let images = self.images.as_ref().ok_or("the host has no directory of its own")?;
        for rank in home.into_iter().flat_map(|home| &home.ranks) {
            let path: PathBuf = self.store.kept_image(kept.snapshot.id, *rank);
            let say = || (self.said)(Promotes { task }.into());
            let pace = &mut self.pace;
            let brought =
                images.bring(&path, kept.snapshot.id.epoch, *rank, |bytes| pace.pass(bytes, say));
            brought.map_err(|why| why.to_string())?;
            say();
        }
        Ok(Vec::new())
    }

    fn note(&self, note: &Note) -> Result<(), String> {
        let level: Level = note.level.parse().map_err(|why| format!("{why}"))?;
        let kept = self.kept(note.epoch, note.taken_ms)?;
        let sums: Vec<Sum> = serde_json::from_slice(&note.sums).map_err(|why| why.to_string())?;
        let noted = self.store.note_made(&kept, level.parities(), &sums);
        noted.map_err(|why| why.to_string())
    }
}

/// Peers, of which the coordinator hears now and then that there is something to read.
struct Advancing<'a> {
    peers: &'a mut RemotePeers,
    pace: &'a mut Pace,
    task: u64,
    said: Say,
    told: Instant,
}

impl Peers for Advancing<'_> {
    fn read(
        &mut self,
        host: &str,
        kept: &Kept,
        item: Item,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        self.peers.read(host, kept, item, offset, bytes)?;
        let say = || (self.said)(Promotes { task: self.task }.into());
        self.pace.pass(bytes.len() as u64, say);
        if self.told.elapsed() > SAY_EVERY {
            self.told = Instant::now();
            say();
        }
        Ok(())
    }

    fn sums(&mut self, host: &str, kept: &Kept, parities: u32) -> io::Result<Sums> {
        self.peers.sums(host, kept, parities)
    }
}
