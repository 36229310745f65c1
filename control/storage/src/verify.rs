// SPDX-License-Identifier: Apache-2.0
//! Decides whether a snapshot can be restarted from, before any rank runs. All problems are found
//! and named, not only the first, so that one look tells what is lost.

use crate::image::{Image, ImageProblem};
use crate::own::Whose;
use crate::program::program_problems;
use crate::snapshot::{mac_text, read_sealed_manifest};
use fermata_seal::Seal;
use fermata_types::{Checkpointer, ImageRecord, Manifest};
use std::collections::BTreeSet;
use std::path::Path;

/// The outcome: the manifest as far as it could be read, and everything that is wrong.
#[derive(Debug)]
pub struct Verified {
    /// `None` if even the manifest is unusable.
    pub manifest: Option<Manifest>,
    /// One sentence each; empty = good.
    pub problems: Vec<String>,
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
}

/// Checks the manifest and every rank's image with all its pages, or the program's own files.
/// `progress` gets bytes as they are read.
pub fn verify(snapshot: &Path, whose: Whose, mut progress: impl FnMut(u64)) -> Verified {
    let mut out = Verified { manifest: None, problems: Vec::new(), bytes: 0, seal: Seal::Absent };
    let manifest = match read_sealed_manifest(snapshot, whose) {
        Ok((manifest, seal)) => {
            out.seal = seal;
            manifest
        }
        Err(error) => {
            out.problems.push(error.to_string());
            return out;
        }
    };
    out.problems = program_problems(snapshot, &manifest);
    if let Some(number) = number_of(snapshot).filter(|number| *number != manifest.epoch) {
        out.problems.push(format!("manifest.json: is checkpoint {}, not {number}", manifest.epoch));
    }
    let listed: BTreeSet<u32> = manifest.images.iter().map(|image| image.rank).collect();
    let has_images = manifest.checkpointer == Checkpointer::Native;
    for rank in (0..manifest.size).filter(|rank| has_images && !listed.contains(rank)) {
        out.problems.push(format!("rank {rank}: not in the manifest"));
    }
    for record in &manifest.images {
        let mut count = |bytes| {
            out.bytes += bytes;
            progress(bytes);
        };
        if let Err(why) = check_image(snapshot, &manifest, record, whose, &mut count) {
            out.problems.push(format!("rank {}: {}: {why}", record.rank, record.file));
        }
    }
    out.manifest = Some(manifest);
    out
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
    progress: &mut impl FnMut(u64),
) -> Result<(), String> {
    // A file name that leads out of the directory is no name a commit ever wrote.
    if record.file.contains('/') {
        return Err("a strange file name".into());
    }
    let mut image =
        Image::open(&snapshot.join(&record.file), whose).map_err(|problem| problem.to_string())?;
    let header = &image.header;
    let job = String::from_utf8_lossy(&header.job);
    let job = job.trim_end_matches('\0');
    // The header holds the first 63 bytes of a longer name.
    let same_job = job == manifest.job || (job.len() >= 63 && manifest.job.starts_with(job));
    if !same_job {
        return Err(format!("belongs to job '{job}', not '{}'", manifest.job));
    }
    if header.epoch != manifest.epoch {
        return Err(format!("is of checkpoint {}, not {}", header.epoch, manifest.epoch));
    }
    if header.world_rank != record.rank || header.world_size != manifest.size {
        return Err(format!(
            "is of rank {} of {}, not {} of {}",
            header.world_rank, header.world_size, record.rank, manifest.size
        ));
    }
    if image.header_crc != record.header_crc
        || header.file_bytes != record.bytes
        || mac_text(header) != record.mac
    {
        return Err("is not the file the manifest describes".into());
    }
    image.check_pages(progress).map_err(|problem: ImageProblem| problem.to_string())
}

#[cfg(test)]
#[path = "verify_tests.rs"]
pub(crate) mod tests;
