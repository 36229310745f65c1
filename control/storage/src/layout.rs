// SPDX-License-Identifier: Apache-2.0
//! Where what is in a job's directory.

use crate::job::JobDir;
use fermata_types::Checkpointer;
use std::fs;
use std::path::PathBuf;

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
