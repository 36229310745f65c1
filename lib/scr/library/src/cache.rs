// SPDX-License-Identifier: Apache-2.0
//! What a host keeps of datasets, in one store.
//!
//! ```text
//!     <store>/<user>/scr.<job>-<prefix>/scr.dataset.<id>/
//!         dataset-<made>.json        what it is, and its arrangement
//!         rank_<r>/<file>            as the program has written it
//!         meta_<r>/record-<made>.json, parities-<made>, copy-<made>
//! ```
//!
//! Invariant: a dataset exists on a host from the rename of `dataset-<made>.json` on, which is done
//!            when all ranks have written what belongs to it.
//! Invariant: the directory is the user's and closed to others, so names in it are believed.

use crate::image;
use crate::problem::Problem;
use fermata_parity::Layout;
use fermata_scr::dataset::Record;
use fermata_scr::{Files, Kept};
use fermata_storage::{Whose, create_own, make_own, open_file};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// No record is larger.
const BYTES_MAX: u64 = 1 << 28;
const DATASET: &str = "scr.dataset.";

/// What of a dataset a host has of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    pub rank: u32,
    /// All files of it, by name and size.
    pub images: bool,
    /// The copy that it keeps of another rank's.
    pub copy: bool,
    /// Its parities.
    pub parities: bool,
}

/// The datasets of a job in one store of this host.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

/// Reads JSON that only the user can have written.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let mut bytes = Vec::new();
    open_file(path, Whose::Own(None))?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(io::Error::from)
}

/// Writes a file under another name and gives it its own.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], is_durable: bool) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = create_own(&new)?;
    file.write_all(bytes)?;
    if is_durable {
        file.sync_all()?;
    }
    fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) if is_durable => fermata_sysio::sync_directory(directory),
        _ => Ok(()),
    }
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T, is_durable: bool) -> io::Result<()> {
    write_whole(path, &serde_json::to_vec(value)?, is_durable)
}

/// A name beside another one.
pub(crate) fn beside(path: &Path, what: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.scr-{what}"))
}

/// Removes a directory; one that is not there is no error.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Cache {
    /// In this directory, which nobody else's datasets are in.
    pub fn new(store: &Path, user: &str, job: &str) -> Self {
        Self { root: store.join(user).join(job) }
    }

    /// Makes it, closed to others.
    pub fn make(&self) -> Result<(), Problem> {
        let close = || {
            make_own(&self.root)?;
            let user = self.root.parent().unwrap_or(&self.root);
            fermata_storage::open_own_directory(user)?;
            fs::set_permissions(&self.root, Permissions::from_mode(0o700))
        };
        close().map_err(Problem::file("make", &self.root))
    }

    pub fn dataset(&self, id: u32) -> PathBuf {
        self.root.join(format!("{DATASET}{id}"))
    }

    /// Where a rank's files are.
    pub fn files(&self, id: u32, rank: u32) -> PathBuf {
        self.dataset(id).join(format!("rank_{rank}"))
    }

    fn meta(&self, id: u32, rank: u32) -> PathBuf {
        self.dataset(id).join(format!("meta_{rank}"))
    }

    fn record(&self, kept: &Kept, rank: u32) -> PathBuf {
        self.meta(kept.dataset.id, rank).join(format!("record-{}.json", kept.made_ms()))
    }

    pub fn parities(&self, kept: &Kept, rank: u32) -> PathBuf {
        self.meta(kept.dataset.id, rank).join(format!("parities-{}", kept.made_ms()))
    }

    pub fn copy(&self, kept: &Kept, rank: u32) -> PathBuf {
        self.meta(kept.dataset.id, rank).join(format!("copy-{}", kept.made_ms()))
    }

    fn kept(&self, kept: &Kept) -> PathBuf {
        self.dataset(kept.dataset.id).join(format!("dataset-{}.json", kept.made_ms()))
    }

    /// Makes the directories of a rank.
    pub fn make_rank(&self, id: u32, rank: u32) -> Result<(), Problem> {
        for path in [self.files(id, rank), self.meta(id, rank)] {
            fs::create_dir_all(&path).map_err(Problem::file("make", &path))?;
        }
        Ok(())
    }

    pub fn write_record(&self, kept: &Kept, rank: u32, record: &Record) -> Result<(), Problem> {
        let path = self.record(kept, rank);
        write_json(&path, record, false).map_err(Problem::file("write", &path))
    }

    pub fn read_record(&self, kept: &Kept, rank: u32) -> io::Result<Record> {
        let record: Record = read_json(&self.record(kept, rank))?;
        if record.is_sound(rank) { Ok(record) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    pub fn write_kept(&self, kept: &Kept) -> Result<(), Problem> {
        let path = self.kept(kept);
        let made = fs::create_dir_all(self.dataset(kept.dataset.id));
        made.and_then(|()| write_json(&path, kept, false)).map_err(Problem::file("write", &path))
    }

    /// What this host has: datasets in each of their arrangements. What makes no sense is not.
    pub fn all(&self) -> Vec<Kept> {
        let mut found = Vec::new();
        for directory in entries(&self.root).filter(|path| name(path).starts_with(DATASET)) {
            let kept = entries(&directory).filter(|path| name(path).starts_with("dataset-"));
            found.extend(
                kept.filter_map(|path| read_json::<Kept>(&path).ok())
                    .filter(|kept| kept.is_sound() && self.dataset(kept.dataset.id) == directory),
            );
        }
        found
    }

    /// What of a dataset this host has, by names and sizes.
    pub fn parts(&self, kept: &Kept) -> Vec<Part> {
        let ranks = entries(&self.dataset(kept.dataset.id))
            .filter_map(|path| name(&path).strip_prefix("meta_")?.parse().ok())
            .filter(|rank| *rank < kept.dataset.ranks);
        let mut parts: Vec<Part> = ranks.filter_map(|rank| self.part(kept, rank)).collect();
        parts.sort_by_key(|part| part.rank);
        parts
    }

    fn part(&self, kept: &Kept, rank: u32) -> Option<Part> {
        let record = self.read_record(kept, rank).ok()?;
        let has = |path: &Path, bytes: u64| {
            fs::symlink_metadata(path).is_ok_and(|info| info.is_file() && info.len() == bytes)
        };
        let directory = self.files(kept.dataset.id, rank);
        let mut files = record.own.files.iter();
        let images = files.all(|file| has(&directory.join(file.name()), file.bytes));
        let copied = kept.copy_on(rank).and_then(|of| record.files_of(of)).map(Files::bytes);
        let copy = copied.is_some_and(|bytes| has(&self.copy(kept, rank), bytes));
        let layout = layout(kept, rank, record.longest);
        let parities =
            layout.is_some_and(|layout| has(&self.parities(kept, rank), layout.parity_bytes()));
        Some(Part { rank, images, copy, parities })
    }

    /// Whether a rank's files are what was written.
    pub fn check(&self, kept: &Kept, rank: u32) -> io::Result<()> {
        let record = self.read_record(kept, rank)?;
        image::check(&self.files(kept.dataset.id, rank), &record.own)
    }

    /// Removes a dataset from this host.
    pub fn remove(&self, id: u32) -> Result<(), Problem> {
        let path = self.dataset(id);
        // What says that it exists goes first.
        for kept in entries(&path).filter(|path| name(path).starts_with("dataset-")) {
            let _ = fs::remove_file(kept);
        }
        remove_all(&path).map_err(Problem::file("remove", &path))
    }

    /// Removes what is of other arrangements than this one, and of ranks that are elsewhere now.
    pub fn keep_only(&self, kept: &Kept, is_here: impl Fn(u32) -> bool) {
        let made = |path: &Path| {
            let stem = name(path).trim_end_matches(".json").rsplit('-').next()?.parse::<u64>();
            stem.ok()
        };
        let is_old = |path: &PathBuf| made(path).is_some_and(|made| made != kept.made_ms());
        for path in entries(&self.dataset(kept.dataset.id)) {
            let name = name(&path);
            let rank = name.strip_prefix("rank_").or_else(|| name.strip_prefix("meta_"));
            match rank.and_then(|rank| rank.parse().ok()) {
                Some(rank) if !is_here(rank) => drop(remove_all(&path)),
                Some(_) if name.starts_with("meta_") => {
                    entries(&path).filter(is_old).for_each(|path| drop(fs::remove_file(path)))
                }
                None if name.starts_with("dataset-") && is_old(&path) => {
                    drop(fs::remove_file(&path));
                }
                _ => {}
            }
        }
    }

    /// Removes all datasets from this host.
    pub fn purge(&self) -> Result<(), Problem> {
        for path in entries(&self.root).filter(|path| name(path).starts_with(DATASET)) {
            remove_all(&path).map_err(Problem::file("remove", &path))?;
        }
        Ok(())
    }
}

/// How the set of a rank is laid out, with all members as long as the longest.
pub(crate) fn layout(kept: &Kept, rank: u32, longest: u64) -> Option<Layout> {
    let (_, members) = kept.snapshot.set_of(rank)?;
    Layout::new(vec![longest; members.len()], kept.parities as usize).ok()
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    found.map(|entry| entry.path())
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or("")
}
