// SPDX-License-Identifier: Apache-2.0
//! The life of a snapshot directory: prepared, committed by one rename or discarded.

use crate::image::read_header;
use crate::job::JobDir;
use crate::own::{self, Whose};
use crate::program::program_problems;
use crate::reseal::Reseal;
use fermata_faults::{Fault, Writing, failing, fault};
use fermata_seal::{Key, Seal};
use fermata_types::{
    Checkpointer, ImageHeader, ImageRecord, MANIFEST_FILE, Manifest, hex, sealing,
};
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

/// Makes the snapshot durable and gives it its name, sealed with the key, if there is one. Returns
/// its directory.
///
/// # Errors
/// An image that is missing or not the one its rank reported, or what the file system says. The
/// previous snapshot is untouched then.
pub fn commit(
    job: &JobDir,
    manifest: &Manifest,
    key: Option<&Key>,
) -> Result<PathBuf, StorageError> {
    let partial = partial_path(job, manifest.epoch);
    let mut sealed = manifest.clone();
    for image in &mut sealed.images {
        let path = partial.join(&image.file);
        let via = job.via(&path);
        let bad = |why: &str| StorageError::new("use the image", &path, why);
        let header = failing(Fault::CommitCheck)
            .map_err(|error| bad(&error.to_string()))
            .and_then(|()| check_header(&via, manifest, image).map_err(|why| bad(&why)))?;
        note_seal(image, &via, header, key)
            .map_err(|why| StorageError::new("seal the image", &path, &why))?;
        failing(Fault::CommitFlush)
            .and_then(|()| own::open(&via, Whose::Own(None))?.sync_all())
            .map_err(|e| StorageError::at("flush", &path, &e))?;
    }
    let text =
        sealed.seal(key).map_err(|e| StorageError::new("write", &partial, &e.to_string()))?;
    let manifest_path = partial.join(MANIFEST_FILE);
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

/// Of a snapshot that nobody could restart: the manifest would have no seal, and its images one.
const NO_KEY_TO_COMMIT: &str = "\
the rank's host has a key, and where the job was started there is none
  hint: start it where your key is in $XDG_CONFIG_HOME or ~/.config, as on that host";

/// A rank whose host has another key than ours, or none, has just sealed its image with that one or
/// not at all. It is sealed with ours instead: what the manifest lists is of one key.
fn note_seal(
    image: &mut ImageRecord,
    path: &Path,
    mut header: ImageHeader,
    key: Option<&Key>,
) -> Result<(), String> {
    let is_sealed = header.sealing != sealing::UNSEALED;
    match key {
        Some(key) if !is_sealed || header.key_id != key.id() => {
            let reseal = Reseal::open(path, key, |sealed| sealed == &header)?;
            reseal.put().map_err(|why| why.to_string())?;
            header = reseal.header;
        }
        None if is_sealed => return Err(NO_KEY_TO_COMMIT.into()),
        _ => {}
    }
    describe(image, &header);
    Ok(())
}

/// What the manifest lists of an image with that header.
pub(crate) fn describe(image: &mut ImageRecord, header: &ImageHeader) {
    image.bytes = header.file_bytes;
    image.header_crc = header.header_crc;
    image.mac = mac_text(header);
}

/// As in `ImageRecord`.
pub(crate) fn mac_text(header: &ImageHeader) -> String {
    if header.sealing == sealing::UNSEALED { String::new() } else { hex(&header.mac) }
}

/// The header of an image, which is, by that, the one that the manifest lists.
fn check_header(
    path: &Path,
    manifest: &Manifest,
    image: &ImageRecord,
) -> Result<ImageHeader, String> {
    let header = read_header(path, Whose::Anybodys(None)).map_err(|why| why.to_string())?;
    if header.header_crc != image.header_crc
        || header.file_bytes != image.bytes
        || header.epoch != manifest.epoch
        || header.world_rank != image.rank
        || header.world_size != manifest.size
    {
        return Err("it is not the image that rank reported".into());
    }
    Ok(header)
}

/// Whether a snapshot is whole, as far as its manifest and the headers of its images tell: far less
/// to read than `verify` does.
#[must_use]
pub fn is_whole(snapshot: &Path) -> bool {
    let Ok(manifest) = read_manifest(snapshot, Whose::Anybodys(None)) else { return false };
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
    read_sealed_manifest(snapshot, whose).map(|(manifest, _)| manifest)
}

/// As `read_manifest`, and what its seal says.
pub(crate) fn read_sealed_manifest(
    snapshot: &Path,
    whose: Whose,
) -> Result<(Manifest, Seal), StorageError> {
    let path = snapshot.join(MANIFEST_FILE);
    let text =
        own::read_to_string(&path, whose).map_err(|e| StorageError::at("read", &path, &e))?;
    unseal(&text, whose).map_err(|why| StorageError::new("use", &path, &why))
}

pub(crate) fn unseal(text: &str, whose: Whose) -> Result<(Manifest, Seal), String> {
    let (manifest, seal) = Manifest::unseal(text, whose.key()).map_err(|why| why.to_string())?;
    whose.accept(seal).map_err(|why| why.to_string())?;
    Ok((manifest, seal))
}
