// SPDX-License-Identifier: Apache-2.0
//! The life of a snapshot directory: prepared, committed by one rename or discarded.

use crate::image::read_header;
use crate::job::JobDir;
use crate::own::{self, Whose};
use crate::program::program_problems;
use fermata_faults::{Fault, Writing, failing, fault};
use fermata_types::{Checkpointer, ImageRecord, Manifest};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Something could not be done: what, where, why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageError {
    text: String,
}

impl StorageError {
    pub(crate) fn new(what: &str, path: &Path, why: &str) -> Self {
        Self { text: format!("cannot {what} {}: {why}", path.display()) }
    }

    pub(crate) fn at(what: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(what, path, &error.to_string())
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for StorageError {}

/// A committed snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotInfo {
    /// Its number.
    pub epoch: u32,
    /// Its directory.
    pub path: PathBuf,
}

pub(crate) fn partial_path(job: &JobDir, epoch: u32) -> PathBuf {
    job.snapshots().join(format!("{epoch}.partial"))
}

/// Where a rank's image of a snapshot that is being taken belongs, as others find it.
#[must_use]
pub fn partial_image(job: &JobDir, epoch: u32, rank: u32) -> PathBuf {
    partial_path(job, epoch).join(image_name(rank))
}

/// The file name of a rank's image.
#[must_use]
pub fn image_name(rank: u32) -> String {
    Checkpointer::Native.place(rank)
}

/// Makes an empty `<epoch>.partial`.
///
/// # Errors
/// What the file system says.
pub fn prepare(job: &JobDir, epoch: u32) -> Result<PathBuf, StorageError> {
    let path = partial_path(job, epoch);
    discard(job, epoch);
    failing(Fault::CoordinatorPrepare)
        .and_then(|()| fs::DirBuilder::new().recursive(true).mode(0o700).create(job.via(&path)))
        .map_err(|e| StorageError::at("make", &path, &e))?;
    Ok(path)
}

/// Removes `<epoch>.partial`, as far as it exists.
pub fn discard(job: &JobDir, epoch: u32) {
    // Renamed first: a rank that is still writing can then create nothing more in it by its path.
    // What cannot be removed is no snapshot all the same; the next prune tries again.
    let partial = job.via(&partial_path(job, epoch));
    let discarded = job.via(&job.snapshots().join(format!("{epoch}.discarded")));
    let _ = fs::remove_dir_all(&discarded);
    let doomed = if fs::rename(&partial, &discarded).is_ok() {
        fault(Fault::DiscardRenamed);
        discarded
    } else {
        partial
    };
    let _ = fs::remove_dir_all(doomed);
}

/// Makes the snapshot durable and gives it its name. Returns its directory.
///
/// # Errors
/// An image that is missing or not the one its rank reported, or what the file system says. The
/// previous snapshot is untouched then.
pub fn commit(job: &JobDir, manifest: &Manifest) -> Result<PathBuf, StorageError> {
    let partial = partial_path(job, manifest.epoch);
    for image in &manifest.images {
        let path = partial.join(&image.file);
        let bad = |why: &str| StorageError::new("use the image", &path, why);
        failing(Fault::CommitCheck).map_err(|error| bad(&error.to_string())).and_then(|()| {
            check_header(&job.via(&path), manifest, image).map_err(|why| bad(&why))
        })?;
        failing(Fault::CommitFlush)
            .and_then(|()| own::open(&job.via(&path), Whose::Own)?.sync_all())
            .map_err(|e| StorageError::at("flush", &path, &e))?;
    }
    let text = manifest.seal().map_err(|e| StorageError::new("write", &partial, &e.to_string()))?;
    let manifest_path = partial.join("manifest.json");
    write_durably(&job.via(&manifest_path), text.as_bytes())
        .and_then(|()| fermata_sysio::sync_directory(&job.via(&partial)))
        .map_err(|e| StorageError::at("write", &manifest_path, &e))?;
    let committed = job.snapshots().join(manifest.epoch.to_string());
    failing(Fault::CommitRename)
        .and_then(|()| fs::rename(job.via(&partial), job.via(&committed)))
        .and_then(|()| failing(Fault::CommitRenamed))
        .and_then(|()| fermata_sysio::sync_directory(&job.via(&job.snapshots())))
        .map_err(|e| StorageError::at("commit", &committed, &e))?;
    // From here on the snapshot exists. `latest` is a convenience, found again by counting.
    let _ = failing(Fault::CommitLatest).and_then(|()| point_latest(job, manifest.epoch));
    Ok(committed)
}

/// Whether an image is, by its header, the one that the manifest lists.
fn check_header(path: &Path, manifest: &Manifest, image: &ImageRecord) -> Result<(), String> {
    let header = read_header(path, Whose::Anybodys).map_err(|why| why.to_string())?;
    if header.header_crc != image.header_crc
        || header.file_bytes != image.bytes
        || header.epoch != manifest.epoch
        || header.world_rank != image.rank
        || header.world_size != manifest.size
    {
        return Err("it is not the image that rank reported".into());
    }
    Ok(())
}

/// Whether a snapshot is whole, as far as its manifest and the headers of its images tell: far less
/// to read than `verify` does.
#[must_use]
pub fn is_whole(snapshot: &Path) -> bool {
    let Ok(manifest) = read_manifest(snapshot, Whose::Anybodys) else { return false };
    let is_good =
        |image: &ImageRecord| check_header(&snapshot.join(&image.file), &manifest, image).is_ok();
    manifest.images.iter().all(is_good) && program_problems(snapshot, &manifest).is_empty()
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = own::create(path)?;
    Writing::new(Fault::CommitManifest, &mut file).write_all(bytes)?;
    failing(Fault::CommitManifestFlush)?;
    file.sync_all()
}

fn point_latest(job: &JobDir, epoch: u32) -> io::Result<()> {
    let snapshots = job.via(&job.snapshots());
    let partial = snapshots.join("latest.partial");
    let _ = fs::remove_file(&partial);
    symlink(epoch.to_string(), &partial)?;
    fs::rename(&partial, snapshots.join("latest"))?;
    fermata_sysio::sync_directory(&snapshots)
}

/// The committed snapshots of a job, oldest first.
#[must_use]
pub fn list_snapshots(job: &JobDir) -> Vec<SnapshotInfo> {
    let Ok(entries) = fs::read_dir(job.via(&job.snapshots())) else {
        return Vec::new();
    };
    let mut list: Vec<SnapshotInfo> = entries
        .flatten()
        .filter_map(|entry| {
            let epoch = entry.file_name().to_str()?.parse().ok()?;
            let path = job.snapshots().join(entry.file_name());
            Some(SnapshotInfo { epoch, path })
        })
        .collect();
    list.sort_by_key(|snapshot| snapshot.epoch);
    list
}

/// Reads and checks `manifest.json` of a snapshot directory.
///
/// # Errors
/// It is missing, damaged, of another version, or not the user's own.
pub fn read_manifest(snapshot: &Path, whose: Whose) -> Result<Manifest, StorageError> {
    let path = snapshot.join("manifest.json");
    let text =
        own::read_to_string(&path, whose).map_err(|e| StorageError::at("read", &path, &e))?;
    Manifest::unseal(&text).map_err(|e| StorageError::new("use", &path, &e.to_string()))
}
