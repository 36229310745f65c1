// SPDX-License-Identifier: Apache-2.0
//! The images of the newest snapshot that hosts can still give, in one directory.
//!
//! What hosts say that they have may be damaged, or go away while it is read. Then it counts as
//! lost, and the choice is made again without it. Every image is checked as a restart checks it.

use super::make::{Peers, cause, copy, name};
use super::part::PartWriter;
use super::record::Kept;
use super::store::{HostStore, set_of};
use crate::error::{Cause, Operation, StorageError};
use crate::image::Image;
use crate::own::Whose;
use crate::snapshot::check_header;
use fermata_levels::restart::Impossible;
use fermata_levels::{Holdings, Id, Item, Restart, Snapshot, Source, choose};
use fermata_parity::{Members, Part, WorkError, rebuild};
use fermata_types::ImageRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A snapshot whose images are there again.
#[derive(Debug)]
pub struct Restored {
    /// Which, and where each image came from.
    pub restart: Restart,
    /// Its record.
    pub kept: Kept,
    /// What turned out not to be usable on the way, a sentence each.
    pub notes: Vec<String>,
}

/// Which images are to be had, and where.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Those of these ranks; `None`: all.
    pub ranks: Option<&'a BTreeSet<u32>>,
    /// Goes to this directory, which exists.
    pub directory: &'a Path,
    /// The images of this store's own host are not copied there, but get another name.
    pub own: Option<&'a HostStore>,
    /// With whose key.
    pub whose: Whose,
}

impl Wanted<'_> {
    fn has(&self, rank: u32) -> bool {
        self.ranks.is_none_or(|ranks| ranks.contains(&rank))
    }
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The hosts cannot give any; and what turned out not to be usable.
    #[error("{why}{}", .notes.iter().map(|note| format!("\n  {note}")).collect::<String>())]
    Impossible {
        /// Why each cannot be had.
        why: Impossible,
        /// A sentence each.
        notes: Vec<String>,
    },
    /// Images cannot be written here.
    #[error(transparent)]
    Here(#[from] StorageError),
}

/// Why one attempt has failed.
enum Failure {
    /// This is lost, or as good as lost.
    Lost(Lost, Cause),
    /// Not the hosts' fault.
    Here(StorageError),
}

enum Lost {
    Item(String, Item),
    Shared,
    /// The parities of these hosts.
    Parities(Vec<String>, u32),
}

/// Writes the wanted images of the newest snapshot that can be had, and checks every byte of them.
/// `shared`: the directories of snapshots that do not lie on hosts.
///
/// # Errors
/// There is none, or it cannot be written. What is in the directory then is not to be used.
pub fn restore_newest(
    known: &[Kept],
    mut holdings: Holdings,
    mut shared: BTreeMap<Id, PathBuf>,
    wanted: Wanted,
    peers: &mut impl Peers,
) -> Result<Restored, RestoreError> {
    let believed = known.iter().filter(|kept| kept.check().is_ok());
    let kept: BTreeMap<Id, &Kept> = believed.map(|kept| (kept.snapshot.id, kept)).collect();
    let snapshots: Vec<Snapshot> = kept.values().map(|kept| kept.snapshot.clone()).collect();
    let mut notes = Vec::new();
    loop {
        let ids: BTreeSet<Id> = shared.keys().copied().collect();
        let restart = match choose(&snapshots, &holdings, &ids) {
            Ok(restart) => restart,
            Err(why) => return Err(RestoreError::Impossible { why, notes }),
        };
        let id = restart.snapshot.id;
        let Some(chosen) = kept.get(&id) else {
            let why = Impossible(restart.lost);
            return Err(RestoreError::Impossible { why, notes });
        };
        let from = shared.get(&id).cloned();
        let shared_at = from.as_deref();
        let mut work = Work { kept: chosen, wanted, shared: shared_at, peers: &mut *peers };
        match work.restore(&restart) {
            Ok(()) => return Ok(Restored { restart, kept: (*chosen).clone(), notes }),
            Err(Failure::Here(error)) => return Err(error.into()),
            Err(Failure::Lost(lost, why)) => {
                notes.push(forget(id, &lost, &why, &mut holdings, &mut shared));
            }
        }
    }
}

/// Counts it as lost; what is said of it.
fn forget(
    id: Id,
    lost: &Lost,
    why: &Cause,
    holdings: &mut Holdings,
    shared: &mut BTreeMap<Id, PathBuf>,
) -> String {
    let epoch = id.epoch;
    let mut remove = |host: &str, item| {
        if let Some(items) = holdings.get_mut(host) {
            items.remove(&(id, item));
        }
    };
    match lost {
        Lost::Shared => {
            shared.remove(&id);
            format!("checkpoint {epoch} in the job's directory: {why}")
        }
        Lost::Parities(hosts, parities) => {
            hosts.iter().for_each(|host| remove(host, Item::Parities(*parities)));
            format!("checkpoint {epoch}, parities on {}: {why}", hosts.join(", "))
        }
        Lost::Item(host, item) => {
            remove(host, *item);
            let what = match item {
                Item::Images => "images",
                Item::Copy(_) => "the copy",
                Item::Parities(_) => "parities",
            };
            format!("checkpoint {epoch}, {what} on {host}: {why}")
        }
    }
}

struct Work<'a, P> {
    kept: &'a Kept,
    wanted: Wanted<'a>,
    shared: Option<&'a Path>,
    peers: &'a mut P,
}

impl<P: Peers> Work<'_, P> {
    fn restore(&mut self, restart: &Restart) -> Result<(), Failure> {
        let mut rebuilt = BTreeSet::new();
        for (home, source) in (0u32..).zip(&restart.sources) {
            if self.records_of(home).next().is_none() {
                continue;
            }
            let lost = match source {
                Source::Home => {
                    let host = name(self.kept, home).to_owned();
                    match self.wanted.own.filter(|store| store.host() == host) {
                        Some(store) => self.link(home, store)?,
                        None => self.copy(home, host, Item::Images)?,
                    }
                }
                Source::Copy(host) => self.copy(home, host.clone(), Item::Copy(home))?,
                Source::Shared => self.copy_shared(home)?,
                Source::Rebuilt { set, parities, from } => {
                    if rebuilt.insert(*set) {
                        self.rebuild(restart, *parities, home, from)?;
                    }
                    let hosts = from.iter().map(|home| name(self.kept, *home).to_owned());
                    Lost::Parities(hosts.collect(), *parities)
                }
            };
            self.check(home).map_err(|why| Failure::Lost(lost, why))?;
        }
        let directory = self.wanted.directory;
        fermata_sysio::sync_directory(directory)
            .map_err(|e| Failure::Here(StorageError::at(Operation::Flush, directory, e)))
    }

    /// The wanted images of a home.
    fn records_of(&self, home: u32) -> impl Iterator<Item = &ImageRecord> {
        let all = self.kept.images_of(home).into_iter().map(|(rank, _)| rank);
        let ranks: BTreeSet<u32> = all.filter(|rank| self.wanted.has(*rank)).collect();
        self.kept.manifest.images.iter().filter(move |image| ranks.contains(&image.rank))
    }

    /// Each image is the one that the manifest lists, and whole.
    fn check(&self, home: u32) -> Result<(), Cause> {
        for image in self.records_of(home) {
            let path = self.wanted.directory.join(&image.file);
            let header = check_header(&path, &self.kept.manifest, image)?;
            if crate::snapshot::mac_text(&header) != image.mac {
                return Err(Cause::NotDescribed);
            }
            Image::open(&path, self.wanted.whose)?.check_pages(|_| {})?;
        }
        Ok(())
    }

    fn make(&self, home: u32) -> Result<PartWriter, Failure> {
        let is_wanted = |rank| self.wanted.has(rank);
        PartWriter::images(self.wanted.directory, self.kept, home, is_wanted)
            .map_err(|e| self.here(e))
    }

    fn here(&self, error: io::Error) -> Failure {
        Failure::Here(StorageError::at(Operation::Write, self.wanted.directory, error))
    }

    /// What it counts as lost with, if the images are not whole.
    fn copy(&mut self, home: u32, host: String, item: Item) -> Result<Lost, Failure> {
        let to = self.make(home)?;
        if let Err(error) = copy(self.kept, (&host, item), self.peers, &to) {
            return Err(Failure::Lost(Lost::Item(host, item), error.into()));
        }
        to.flush().map_err(|e| self.here(e))?;
        Ok(Lost::Item(host, item))
    }

    /// What a store keeps is never written to again.
    fn link(&self, home: u32, store: &HostStore) -> Result<Lost, Failure> {
        let lost = || Lost::Item(store.host().to_owned(), Item::Images);
        let from = store.images_path(self.kept.snapshot.id, Item::Images);
        for image in self.records_of(home) {
            let to = self.wanted.directory.join(&image.file);
            let _ = fs::remove_file(&to); // of an attempt before
            fs::hard_link(from.join(&image.file), to)
                .map_err(|error| Failure::Lost(lost(), error.into()))?;
        }
        Ok(lost())
    }

    fn copy_shared(&mut self, home: u32) -> Result<Lost, Failure> {
        let files: Vec<String> = self.records_of(home).map(|image| image.file.clone()).collect();
        for file in files {
            let from = self.shared.unwrap_or(self.wanted.directory).join(&file);
            let lost = |error: io::Error| Failure::Lost(Lost::Shared, error.into());
            let mut source = crate::own::open(&from, Whose::Own(None)).map_err(lost)?;
            let path = self.wanted.directory.join(&file);
            let mut to = crate::own::create(&path).map_err(|e| self.here(e))?;
            io::copy(&mut source, &mut to).map_err(lost)?;
            to.sync_all().map_err(|e| self.here(e))?;
        }
        Ok(Lost::Shared)
    }

    /// All images of a set that are to be rebuilt.
    fn rebuild(
        &mut self,
        restart: &Restart,
        parities: u32,
        home: u32,
        from: &[u32],
    ) -> Result<(), Failure> {
        let all = |kept: &Kept| -> Vec<String> {
            from.iter().map(|home| name(kept, *home).to_owned()).collect()
        };
        let unusable = |kept: &Kept, why| Failure::Lost(Lost::Parities(all(kept), parities), why);
        let (members, layout, _) =
            set_of(self.kept, home, parities).map_err(|why| unusable(self.kept, why))?;
        let host = from.first().map_or("", |home| name(self.kept, *home)).to_owned();
        let sums = self.peers.sums(&host, self.kept, parities);
        let sums = sums.map_err(|e| {
            Failure::Lost(Lost::Item(host.clone(), Item::Parities(parities)), e.into())
        })?;
        if !sums.fits(&layout) {
            let why = Cause::RecordStrange("its checksums are of another set");
            return Err(Failure::Lost(Lost::Item(host, Item::Parities(parities)), why));
        }
        let mut lost = BTreeSet::new();
        let mut to = BTreeMap::new();
        for (at, member) in members.iter().enumerate() {
            if from.contains(member) {
                continue;
            }
            lost.insert(at);
            let source = restart.sources.get(*member as usize);
            if matches!(source, Some(Source::Rebuilt { .. })) {
                to.insert(at, self.make(*member)?);
            }
        }
        let mut work = Rebuilding {
            kept: self.kept,
            members: &members,
            parities,
            to: &to,
            failed: None,
            peers: &mut *self.peers,
        };
        let done = rebuild(&layout, &sums, &lost, &mut work);
        let failed = work.failed.take();
        match (done, failed) {
            (Ok(()), _) => {}
            (Err(WorkError::Members(error)), None) => return Err(self.here(error)),
            (Err(WorkError::Members(error)), Some((host, item))) => {
                return Err(Failure::Lost(Lost::Item(host, item), error.into()));
            }
            (Err(WorkError::Changed(shard)), _) => {
                let host = members.get(shard.member).map_or("", |home| name(self.kept, *home));
                let item = item_of(shard.part, parities);
                let lost = Lost::Item(host.to_owned(), item);
                let why = cause(WorkError::Changed(shard), self.kept, &members);
                return Err(Failure::Lost(lost, why));
            }
            (Err(other), _) => {
                return Err(unusable(self.kept, cause(other, self.kept, &members)));
            }
        }
        to.values().try_for_each(PartWriter::flush).map_err(|e| self.here(e))
    }
}

fn item_of(part: Part, parities: u32) -> Item {
    match part {
        Part::Image => Item::Images,
        Part::Parity => Item::Parities(parities),
    }
}

/// Members are read from their hosts, and written here.
struct Rebuilding<'a, P> {
    kept: &'a Kept,
    members: &'a [u32],
    parities: u32,
    to: &'a BTreeMap<usize, PartWriter>,
    /// What could not be read.
    failed: Option<(String, Item)>,
    peers: &'a mut P,
}

impl<P: Peers> Members for Rebuilding<'_, P> {
    type Error = io::Error;

    fn read(&mut self, member: usize, part: Part, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let host = name(self.kept, self.members[member]);
        let item = item_of(part, self.parities);
        let read = self.peers.read(host, self.kept, item, offset, bytes);
        if read.is_err() {
            self.failed = Some((host.to_owned(), item));
        }
        read
    }

    fn write(&mut self, member: usize, _: Part, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.to.get(&member).map_or(Ok(()), |file| file.write_at(bytes, offset))
    }
}
