// SPDX-License-Identifier: Apache-2.0
//! The store of one host.

use super::part::PartReader;
use super::record::{self, Kept};
use crate::error::{Cause, Operation, StorageError};
use crate::layout::image_name;
use crate::own::{self, Whose};
use crate::snapshot::check_header;
use fermata_faults::{Fault, failing, fault};
use fermata_levels::level::PARITIES_MAX;
use fermata_levels::{Holding, Id, Item, Level};
use fermata_parity::{Layout, Sum, Sums};
use fermata_seal::Key;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RECORD_FILE: &str = "record.json";
const RECORD_KIND: &str = "snapshot";
const SUMS_KIND: &str = "sums";
const PARTIAL: &str = "partial";
const DROPPED: &str = "dropped";

/// What a host keeps of the snapshots of a job.
#[derive(Clone, Debug)]
pub struct HostStore {
    root: PathBuf,
    host: String,
    key: Option<Key>,
    /// Held while the store is open: nobody else takes for left over what is being made.
    _lock: Arc<File>,
}

impl HostStore {
    /// The one of this name, which is the job's alone (`JobRecord::store`), under this directory,
    /// which may be anybody's. What was never finished is removed.
    ///
    /// # Errors
    /// It cannot be made, is not the user's own, or is open elsewhere.
    pub fn open(
        directory: &Path,
        name: &str,
        host: &str,
        key: Option<Key>,
    ) -> Result<Self, StorageError> {
        let users = directory.join(format!("levels-{}", fermata_sysio::effective_uid()));
        let root = users.join(format!("{name}@{host}"));
        for path in [&users, &root] {
            make_private(path).map_err(|e| StorageError::at(Operation::Make, path, e))?;
        }
        let lock = own::open_directory(&root)
            .and_then(|lock| fermata_sysio::try_lock(&lock).map(|()| lock))
            .map_err(|e| StorageError::at(Operation::Lock, &root, e))?;
        let store = Self { root, host: host.to_owned(), key, _lock: Arc::new(lock) };
        store.remove_leftovers();
        Ok(store)
    }

    /// Whose it is.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    pub(super) fn whose(&self) -> Whose {
        Whose::Own(self.key)
    }

    /// Makes a directory for the images of a snapshot that is being taken.
    ///
    /// # Errors
    /// What the file system says.
    pub fn prepare(&self, id: Id) -> Result<(), StorageError> {
        let partial = self.partial(id);
        let _ = fs::remove_dir_all(&partial);
        make_private(&partial).map_err(|e| StorageError::at(Operation::Make, &partial, e))
    }

    /// Where a rank's image goes.
    #[must_use]
    pub fn image_path(&self, id: Id, rank: u32) -> PathBuf {
        self.partial(id).join(image_name(rank))
    }

    /// Where the image of one of the host's own ranks is, once it is kept.
    #[must_use]
    pub fn kept_image(&self, id: Id, rank: u32) -> PathBuf {
        self.path(id).join(image_name(rank))
    }

    /// Throws the images of a snapshot away that has not come about.
    pub fn discard(&self, id: Id) {
        let _ = fs::remove_dir_all(self.partial(id));
    }

    /// The images that the host's ranks have written are kept: level `local`.
    ///
    /// # Errors
    /// An image is missing, or not the one that the manifest lists; what the file system says.
    pub fn keep(&self, kept: &Kept) -> Result<(), StorageError> {
        let id = kept.snapshot.id;
        let (partial, path) = (self.partial(id), self.path(id));
        kept.check().map_err(|why| StorageError::at(Operation::Use, &partial, why))?;
        if let Some(home) = kept.snapshot.home_of(&self.host) {
            self.check_images(kept, home, &partial)?;
            let images = PartReader::images(&partial, kept, home);
            failing(Fault::KeepBegun)
                .and(images)
                .and_then(|images| images.flush())
                .map_err(|e| StorageError::at(Operation::Flush, &partial, e))?;
        }
        self.write_record(&partial.join(RECORD_FILE), RECORD_KIND, kept)?;
        fermata_sysio::sync_directory(&partial)
            .and_then(|()| failing(Fault::KeepRename))
            .and_then(|()| fs::rename(&partial, &path))
            .and_then(|()| fermata_sysio::sync_directory(&self.root))
            .map_err(|e| StorageError::at(Operation::Commit, &path, e))?;
        fault(Fault::KeepRenamed);
        Ok(())
    }

    /// The snapshots that it has something of, oldest first; and what is not believed.
    #[must_use]
    pub fn kept(&self) -> (Vec<Kept>, Vec<StorageError>) {
        let (mut kept, mut problems) = (Vec::new(), Vec::new());
        for id in self.ids() {
            match self.read_kept(id) {
                Ok(one) => kept.push(one),
                Err(why) => problems.push(why),
            }
        }
        kept.sort_by_key(|one| one.snapshot.id);
        (kept, problems)
    }

    /// The record of one.
    ///
    /// # Errors
    /// It has none that can be believed.
    pub fn read_kept(&self, id: Id) -> Result<Kept, StorageError> {
        let path = self.path(id).join(RECORD_FILE);
        let kept: Kept = self.read_record(&path, RECORD_KIND)?;
        kept.check()
            .and_then(|()| match kept.snapshot.id == id {
                true => Ok(kept),
                false => Err(Cause::RecordStrange("it is of another snapshot")),
            })
            .map_err(|why| StorageError::at(Operation::Use, &path, why))
    }

    /// What it has of a snapshot, as far as sizes and headers tell.
    #[must_use]
    pub fn holdings(&self, kept: &Kept) -> BTreeSet<Holding> {
        let id = kept.snapshot.id;
        let mut items = BTreeSet::new();
        let own = kept.snapshot.home_of(&self.host);
        for (home, _) in (0u32..).zip(&kept.snapshot.homes) {
            let item = if own == Some(home) { Item::Images } else { Item::Copy(home) };
            if self.check_images(kept, home, &self.images_path(id, item)).is_ok() {
                items.insert((id, item));
            }
        }
        for parities in 1..=PARITIES_MAX {
            let item = Item::Parities(parities);
            if self.reader(kept, item).is_ok() && self.sums(kept, parities).is_ok() {
                items.insert((id, item));
            }
        }
        items
    }

    /// To read something that it has.
    ///
    /// # Errors
    /// It does not have it.
    pub fn reader(&self, kept: &Kept, item: Item) -> io::Result<PartReader> {
        let id = kept.snapshot.id;
        let mine = || kept.snapshot.home_of(&self.host).ok_or(ErrorKind::NotFound);
        match item {
            Item::Images => PartReader::images(&self.path(id), kept, mine()?),
            Item::Copy(home) => PartReader::images(&self.images_path(id, item), kept, home),
            Item::Parities(parities) => {
                let (_, layout, _) = set_of(kept, mine()?, parities).map_err(io::Error::other)?;
                PartReader::file(&self.parities_path(id, parities), layout.parity_bytes())
            }
        }
    }

    /// The checksums of the host's set.
    ///
    /// # Errors
    /// It has none that can be believed.
    pub fn sums(&self, kept: &Kept, parities: u32) -> Result<Sums, StorageError> {
        let path = self.sums_path(kept.snapshot.id, parities);
        let (id, sums): (Id, Sums) = self.read_record(&path, SUMS_KIND)?;
        let fits = kept
            .snapshot
            .home_of(&self.host)
            .and_then(|home| set_of(kept, home, parities).ok())
            .is_some_and(|(_, layout, _)| id == kept.snapshot.id && sums.fits(&layout));
        match fits {
            true => Ok(sums),
            false => {
                let why = Cause::RecordStrange("it is of another set");
                Err(StorageError::at(Operation::Use, &path, why))
            }
        }
    }

    /// The host's set has its parities: they are kept, with the checksums of all its members.
    ///
    /// # Errors
    /// What the file system says.
    pub fn note_parities(
        &self,
        kept: &Kept,
        parities: u32,
        sums: &Sums,
    ) -> Result<(), StorageError> {
        let id = kept.snapshot.id;
        let (sums_path, path) = (self.sums_path(id, parities), self.parities_path(id, parities));
        failing(Fault::NoteBegun).map_err(|e| StorageError::at(Operation::Write, &sums_path, e))?;
        self.write_record(&sums_path, SUMS_KIND, &(id, sums))?;
        failing(Fault::NoteRename).map_err(|e| StorageError::at(Operation::Commit, &path, e))?;
        self.give_name(&path)?;
        fault(Fault::NoteNoted);
        Ok(())
    }

    /// The same with the checksums that the members of the host's set have returned.
    ///
    /// # Errors
    /// They are not those of its set; what the file system says.
    pub fn note_made(&self, kept: &Kept, parities: u32, made: &[Sum]) -> Result<(), StorageError> {
        let path = self.sums_path(kept.snapshot.id, parities);
        let strange = || Cause::RecordStrange("its checksums are of another set");
        let home = kept.snapshot.home_of(&self.host).ok_or_else(strange);
        let (_, layout, _) = home
            .and_then(|home| set_of(kept, home, parities))
            .map_err(|why| StorageError::at(Operation::Use, &path, why))?;
        self.note_parities(kept, parities, &Sums::of(&layout, made))
    }

    /// What has been made under a name of its own, and flushed, gets its name.
    pub(super) fn give_name(&self, path: &Path) -> Result<(), StorageError> {
        let directory = path.parent().unwrap_or(&self.root);
        fs::rename(partial_of(path), path)
            .and_then(|()| fermata_sysio::sync_directory(directory))
            .map_err(|e| StorageError::at(Operation::Commit, path, e))
    }

    /// Throws away what has been made of a level that was given up.
    pub fn abort(&self, id: Id, level: Level) {
        match level {
            Level::Partner => self.remove_copies(id, true),
            Level::Xor | Level::Rs(_) => {
                let path = self.parities_path(id, level.parities());
                let _ = fs::remove_file(partial_of(&path));
            }
            Level::Local | Level::Shared => {}
        }
    }

    /// Removes what a level has of a snapshot; `Local`: all that is left of it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn drop_level(&self, id: Id, level: Level) -> Result<(), StorageError> {
        match level {
            Level::Partner => self.remove_copies(id, false),
            Level::Xor | Level::Rs(_) => {
                for path in
                    [self.parities_path(id, level.parities()), self.sums_path(id, level.parities())]
                {
                    let _ = fs::remove_file(path);
                }
            }
            Level::Local => {
                // Renamed first: half of it is never taken for the whole.
                let (path, dropped) = (self.path(id), self.path(id).with_extension(DROPPED));
                let gone = fs::rename(&path, &dropped).and_then(|()| fs::remove_dir_all(&dropped));
                match gone {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(StorageError::at(Operation::Use, &path, error));
                    }
                    _ => {}
                }
            }
            Level::Shared => {}
        }
        Ok(())
    }

    /// Images of a home that lie there: each the one that the manifest lists, as far as its header
    /// tells.
    pub(super) fn check_images(
        &self,
        kept: &Kept,
        home: u32,
        directory: &Path,
    ) -> Result<(), StorageError> {
        let ranks: Vec<u32> = kept.images_of(home).iter().map(|(rank, _)| *rank).collect();
        let listed = kept.manifest.images.iter().filter(|image| ranks.contains(&image.rank));
        own::open_directory(directory)
            .map_err(|e| StorageError::at(Operation::Read, directory, e))?;
        for image in listed {
            let path = directory.join(&image.file);
            own::open(&path, Whose::Own(None))
                .map_err(Cause::from)
                .and_then(|_| check_header(&path, &kept.manifest, image))
                .map_err(|why| StorageError::at(Operation::UseImage, &path, why))?;
        }
        Ok(())
    }

    fn read_record<T>(&self, path: &Path, kind: &str) -> Result<T, StorageError>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let text = own::read_to_string(path, self.whose())
            .map_err(|e| StorageError::at(Operation::Read, path, e))?;
        record::unseal(kind, &text, self.whose())
            .map_err(|why| StorageError::at(Operation::Use, path, why))
    }

    fn write_record(
        &self,
        path: &Path,
        kind: &str,
        record: &impl serde::Serialize,
    ) -> Result<(), StorageError> {
        let text = record::seal(kind, record, self.key())
            .map_err(|e| StorageError::at(Operation::Write, path, e))?;
        write_new(path, text.as_bytes()).map_err(|e| StorageError::at(Operation::Write, path, e))
    }

    fn ids(&self) -> Vec<Id> {
        let Ok(entries) = fs::read_dir(&self.root) else { return Vec::new() };
        entries.flatten().filter_map(|entry| id_of(entry.file_name().to_str()?)).collect()
    }

    fn path(&self, id: Id) -> PathBuf {
        self.root.join(format!("{}-{}", id.epoch, id.taken_ms))
    }

    fn partial(&self, id: Id) -> PathBuf {
        self.path(id).with_extension(PARTIAL)
    }

    /// Where images or a copy lie.
    pub(super) fn images_path(&self, id: Id, item: Item) -> PathBuf {
        match item {
            Item::Copy(home) => self.path(id).join(format!("copy-{home}")),
            Item::Images | Item::Parities(_) => self.path(id),
        }
    }

    pub(super) fn parities_path(&self, id: Id, parities: u32) -> PathBuf {
        self.path(id).join(format!("parities-{parities}"))
    }

    fn sums_path(&self, id: Id, parities: u32) -> PathBuf {
        self.parities_path(id, parities).with_extension("json")
    }

    fn remove_copies(&self, id: Id, only_partial: bool) {
        let Ok(entries) = fs::read_dir(self.path(id)) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_copy = name.to_str().is_some_and(|name| name.starts_with("copy-"));
            let is_partial = path.extension().is_some_and(|end| end == PARTIAL);
            if !is_copy || (only_partial && !is_partial) {
                continue;
            }
            let doomed = path.with_extension(PARTIAL);
            if is_partial || fs::rename(&path, &doomed).is_ok() {
                let _ = fs::remove_dir_all(doomed);
            }
        }
    }

    fn remove_leftovers(&self) {
        let is_left = |path: &Path| path.extension().is_some_and(|e| e == PARTIAL || e == DROPPED);
        let list = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
        for entry in list(&self.root) {
            if is_left(&entry.path()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let inside = self.ids().into_iter().flat_map(|id| list(&self.path(id)));
        for entry in inside.filter(|entry| is_left(&entry.path())) {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = own::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// What has not got its name yet.
pub(super) fn partial_of(path: &Path) -> PathBuf {
    path.with_extension(PARTIAL)
}

/// `<epoch>-<taken_ms>`, as it is written and no other way.
fn id_of(name: &str) -> Option<Id> {
    let (epoch, taken_ms) = name.split_once('-')?;
    let id = Id { taken_ms: taken_ms.parse().ok()?, epoch: epoch.parse().ok()? };
    (name == format!("{}-{}", id.epoch, id.taken_ms)).then_some(id)
}

/// A directory of the user's that is closed to others; made if it is not there.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mode = own::open_directory(path)?.metadata()?.mode();
    if mode & 0o077 != 0 {
        let why = format!("it is open to others (mode {:o})", mode & 0o7777);
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// A home's set, as parities are computed over it: its members, and which of them the home is.
pub(super) fn set_of(
    kept: &Kept,
    home: u32,
    parities: u32,
) -> Result<(Vec<u32>, Layout, usize), Cause> {
    let none = || Cause::Parity(format!("home {home} is in no set"));
    let (_, members) = kept.snapshot.set_of(home).ok_or_else(none)?;
    let lengths = members.iter().map(|member| kept.bytes_of(*member)).collect();
    let layout =
        Layout::new(lengths, parities as usize).map_err(|why| Cause::Parity(why.to_string()))?;
    let at = members.iter().position(|member| *member == home).ok_or_else(none)?;
    Ok((members.to_vec(), layout, at))
}
