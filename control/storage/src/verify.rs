// SPDX-License-Identifier: Apache-2.0
//! Decides whether a snapshot can be restarted from, before any rank runs. All problems are found
//! and named, not only the first, so that one look tells what is lost.

use crate::error::Cause;
use crate::image::{Image, ImageProblem};
use crate::levels::read_placed;
use crate::own::{SealProblem, Whose};
use crate::program::program_problems;
use crate::snapshot::{mac_text, read_sealed_manifest};
use fermata_seal::Seal;
use fermata_types::{Checkpointer, ImageHeader, ImageRecord, Manifest, ManifestError};
use std::collections::BTreeSet;
use std::path::Path;

/// The outcome: the manifest as far as it could be read, and everything that is wrong.
#[derive(Debug)]
pub struct Verified {
    /// `None` if even the manifest is unusable.
    pub manifest: Option<Manifest>,
    /// One sentence each; empty = good.
    pub problems: Vec<String>,
    /// Of the problems one does not show that anything is damaged: something could not be read, is
    /// of another version of Fermata, or has another key's seal. It may be whole elsewhere, or for
    /// somebody else.
    pub is_out_of_reach: bool,
    /// Bytes of pages that were read.
    pub bytes: u64,
    /// What the manifest's seal says; it covers the images.
    pub seal: Seal,
}

impl Verified {
    /// Whether a restart may use it.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.problems.is_empty()
    }

    fn note(&mut self, text: String, cause: &Cause) {
        self.problems.push(text);
        self.is_out_of_reach |= !shows_damage(cause);
    }
}

/// Whether what is wrong is in the bytes that are there, or in that there are none.
fn shows_damage(cause: &Cause) -> bool {
    use std::io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    match cause {
        Cause::Io(error) => matches!(error.kind(), NotFound | UnexpectedEof | InvalidData),
        Cause::Manifest(problem) => !matches!(problem, ManifestError::Format(_)),
        Cause::Image(ImageProblem::Sealed(seal)) | Cause::Seal(seal) => {
            *seal == SealProblem::Broken
        }
        Cause::Image(problem) => !matches!(
            problem,
            ImageProblem::Io(_) | ImageProblem::Version(_) | ImageProblem::Encrypted
        ),
        _ => true,
    }
}

/// Checks the manifest and every rank's image with all its pages, or the program's own files. Of a
/// snapshot that lies on hosts (`read_placed`) headers and tables are here: the pages were checked
/// where they are.
/// `progress` gets bytes as they are read.
pub fn verify(snapshot: &Path, whose: Whose, mut progress: impl FnMut(u64)) -> Verified {
    let mut out = Verified {
        manifest: None,
        problems: Vec::new(),
        is_out_of_reach: false,
        bytes: 0,
        seal: Seal::Absent,
    };
    let manifest = match read_sealed_manifest(snapshot, whose) {
        Ok((manifest, seal)) => {
            out.seal = seal;
            manifest
        }
        Err(error) => {
            out.note(error.to_string(), &error.cause);
            return out;
        }
    };
    out.problems = manifest_problems(snapshot, &manifest);
    let is_here = match read_placed(snapshot, whose) {
        Ok(placed) => placed.is_none(),
        Err(error) => {
            out.note(error.to_string(), &error.cause);
            true
        }
    };
    for record in &manifest.images {
        let mut count = |bytes| {
            out.bytes += bytes;
            progress(bytes);
        };
        let pages: Option<&mut dyn FnMut(u64)> = if is_here { Some(&mut count) } else { None };
        if let Err(why) = check_image(snapshot, &manifest, record, whose, pages) {
            out.note(format!("rank {}: {}: {why}", record.rank, record.file), &why);
        }
    }
    out.manifest = Some(manifest);
    out
}

/// What is wrong with the list of what a snapshot has.
pub(crate) fn manifest_problems(snapshot: &Path, manifest: &Manifest) -> Vec<String> {
    let mut problems = program_problems(snapshot, manifest);
    if let Some(number) = number_of(snapshot).filter(|number| *number != manifest.epoch) {
        problems.push(format!("manifest.json: is checkpoint {}, not {number}", manifest.epoch));
    }
    let listed: BTreeSet<u32> = manifest.images.iter().map(|image| image.rank).collect();
    let has_images = manifest.checkpointer == Checkpointer::Native;
    for rank in (0..manifest.size).filter(|rank| has_images && !listed.contains(rank)) {
        problems.push(format!("rank {rank}: not in the manifest"));
    }
    if listed.len() != manifest.images.len() {
        problems.push("manifest.json: has a rank twice".into());
    }
    problems
}

/// The number by which a job has a snapshot; a copy elsewhere may have any name.
fn number_of(snapshot: &Path) -> Option<u32> {
    let snapshot = snapshot.canonicalize().ok()?;
    let above = snapshot.parent()?;
    snapshot.file_name()?.to_str()?.parse().ok().filter(|_| above.ends_with("snapshots"))
}

fn check_image(
    snapshot: &Path,
    manifest: &Manifest,
    record: &ImageRecord,
    whose: Whose,
    progress: Option<&mut dyn FnMut(u64)>,
) -> Result<(), Cause> {
    check_name(record)?;
    let mut image = Image::open(&snapshot.join(&record.file), whose)?;
    check_listed(&image.header, manifest, record)?;
    match progress {
        Some(progress) => Ok(image.check_pages(progress)?),
        None => Ok(()),
    }
}

/// A file name that leads out of the directory is no name a commit ever wrote.
pub(crate) fn check_name(record: &ImageRecord) -> Result<(), Cause> {
    if record.file.contains('/') { Err(Cause::StrangeName) } else { Ok(()) }
}

/// Whether an image is the one that the manifest lists.
pub(crate) fn check_listed(
    header: &ImageHeader,
    manifest: &Manifest,
    record: &ImageRecord,
) -> Result<(), Cause> {
    let job = String::from_utf8_lossy(&header.job);
    let job = job.trim_end_matches('\0');
    // The header holds the first 63 bytes of a longer name.
    let same_job = job == manifest.job || (job.len() >= 63 && manifest.job.starts_with(job));
    if !same_job {
        return Err(Cause::OtherJob { is: job.to_owned(), wanted: manifest.job.clone() });
    }
    if header.epoch != manifest.epoch {
        return Err(Cause::OtherEpoch { is: header.epoch, wanted: manifest.epoch });
    }
    if header.world_rank != record.rank || header.world_size != manifest.size {
        return Err(Cause::OtherRank {
            is: (header.world_rank, header.world_size),
            wanted: (record.rank, manifest.size),
        });
    }
    if header.header_crc != record.header_crc
        || header.file_bytes != record.bytes
        || mac_text(header) != record.mac
    {
        return Err(Cause::NotDescribed);
    }
    Ok(())
}

#[cfg(test)]
#[path = "verify_tests.rs"]
pub(crate) mod tests;
