// SPDX-License-Identifier: Apache-2.0
//! The life of a snapshot directory: prepared, committed by one rename or discarded.

use crate::error::{Cause, Operation, StorageError};
use crate::image::read_header;
use crate::job::JobDir;
use crate::layout::partial_path;
use crate::levels::read_placed;
use crate::own::{self, Whose};
use crate::program::program_problems;
use crate::reseal::Reseal;
use fermata_faults::{Fault, Writing, failing, fault};
use fermata_seal::{Key, Seal};
use fermata_types::{ImageHeader, ImageRecord, MANIFEST_FILE, Manifest, hex, sealing};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Makes an empty `<epoch>.partial`.
///
/// # Errors
/// What the file system says.
pub fn prepare(job: &JobDir, epoch: u32) -> Result<PathBuf, StorageError> {
    let path = partial_path(job, epoch);
    discard(job, epoch);
    failing(Fault::CoordinatorPrepare)
        .and_then(|()| fs::DirBuilder::new().recursive(true).mode(0o700).create(job.via(&path)))
        .map_err(|e| StorageError::at(Operation::Make, &path, e))?;
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
        let header = failing(Fault::CommitCheck)
            .map_err(Cause::from)
            .and_then(|()| check_header(&via, manifest, image))
            .map_err(|why| StorageError::at(Operation::UseImage, &path, why))?;
        note_seal(image, &via, header, key)
            .map_err(|why| StorageError::at(Operation::SealImage, &path, why))?;
        failing(Fault::CommitFlush)
            .and_then(|()| own::open(&via, Whose::Own(None))?.sync_all())
            .map_err(|e| StorageError::at(Operation::Flush, &path, e))?;
    }
    let text = sealed.seal(key).map_err(|e| StorageError::at(Operation::Write, &partial, e))?;
    let manifest_path = partial.join(MANIFEST_FILE);
    write_durably(&job.via(&manifest_path), text.as_bytes())
        .and_then(|()| fermata_sysio::sync_directory(&job.via(&partial)))
        .map_err(|e| StorageError::at(Operation::Write, &manifest_path, e))?;
    let committed = job.snapshots().join(manifest.epoch.to_string());
    failing(Fault::CommitRename)
        .and_then(|()| give_name(job, manifest.epoch, key))
        .and_then(|()| failing(Fault::CommitRenamed))
        .and_then(|()| fermata_sysio::sync_directory(&job.via(&job.snapshots())))
        .map_err(|e| StorageError::at(Operation::Commit, &committed, e))?;
    // From here on the snapshot exists. `latest` is a convenience, found again by counting.
    let _ = failing(Fault::CommitLatest).and_then(|()| point_latest(job, manifest.epoch));
    Ok(committed)
}

/// Where the job was restarted from a snapshot on its hosts, the heads of its images stand under
/// the name that it gets in the directory: what is whole takes their place.
fn give_name(job: &JobDir, epoch: u32, key: Option<&Key>) -> io::Result<()> {
    let partial = job.via(&partial_path(job, epoch));
    let committed = job.via(&job.snapshots().join(epoch.to_string()));
    let why = match fs::rename(&partial, &committed) {
        Err(why) if why.kind() == io::ErrorKind::DirectoryNotEmpty => why,
        renamed => return renamed,
    };
    if !matches!(read_placed(&committed, Whose::Own(key.copied())), Ok(Some(_))) {
        return Err(why);
    }
    if fermata_sysio::exchange(&partial, &committed).is_ok() {
        discard(job, epoch);
        return Ok(());
    }
    // Without a name for a moment: its hosts have it until then.
    let aside = partial.with_extension("discarded");
    let _ = fs::remove_dir_all(&aside);
    fs::rename(&committed, &aside)?;
    fs::rename(&partial, &committed)?;
    let _ = fs::remove_dir_all(aside);
    Ok(())
}

/// A rank whose host has another key than ours, or none, has just sealed its image with that one or
/// not at all. It is sealed with ours instead: what the manifest lists is of one key.
fn note_seal(
    image: &mut ImageRecord,
    path: &Path,
    mut header: ImageHeader,
    key: Option<&Key>,
) -> Result<(), Cause> {
    let is_sealed = header.sealing != sealing::UNSEALED;
    match key {
        Some(key) if !is_sealed || header.key_id != key.id() => {
            let reseal = Reseal::open(path, key, |sealed| sealed == &header)?;
            reseal.put()?;
            header = reseal.header;
        }
        None if is_sealed => return Err(Cause::NoKeyToCommit),
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
#[must_use]
pub fn mac_text(header: &ImageHeader) -> String {
    if header.sealing == sealing::UNSEALED { String::new() } else { hex(&header.mac) }
}

/// The header of an image, which is, by that, the one that the manifest lists.
pub(crate) fn check_header(
    path: &Path,
    manifest: &Manifest,
    image: &ImageRecord,
) -> Result<ImageHeader, Cause> {
    let header = read_header(path, Whose::Anybodys(None))?;
    if header.header_crc != image.header_crc
        || header.file_bytes != image.bytes
        || header.epoch != manifest.epoch
        || header.world_rank != image.rank
        || header.world_size != manifest.size
    {
        return Err(Cause::NotReported);
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
    let text = own::read_to_string(&path, whose)
        .map_err(|e| StorageError::at(Operation::Read, &path, e))?;
    unseal(&text, whose).map_err(|why| StorageError::at(Operation::Use, &path, why))
}

pub(crate) fn unseal(text: &str, whose: Whose) -> Result<(Manifest, Seal), Cause> {
    let (manifest, seal) = Manifest::unseal(text, whose.key())?;
    whose.accept(seal)?;
    Ok((manifest, seal))
}
