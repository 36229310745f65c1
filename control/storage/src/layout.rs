// SPDX-License-Identifier: Apache-2.0
//! Where what is in a job's directory.

use crate::error::{Operation, StorageError};
use crate::job::JobDir;
use fermata_types::Checkpointer;
use std::fs;
use std::io;
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

/// The committed snapshots of a job, oldest first; none if they cannot be listed.
#[must_use]
pub fn list_snapshots(job: &JobDir) -> Vec<SnapshotInfo> {
    read_snapshots(job).unwrap_or_default()
}

/// The committed snapshots of a job, oldest first. A directory that does not exist holds none.
///
/// # Errors
/// They cannot be listed: what the file system says.
pub fn read_snapshots(job: &JobDir) -> Result<Vec<SnapshotInfo>, StorageError> {
    let snapshots = job.snapshots();
    let failed = |error| StorageError::at(Operation::Read, &snapshots, error);
    let entries = match fs::read_dir(job.via(&snapshots)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut list = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if let Some(epoch) = name.to_str().and_then(|name| name.parse().ok()) {
            list.push(SnapshotInfo { epoch, path: snapshots.join(name) });
        }
    }
    list.sort_by_key(|snapshot| snapshot.epoch);
    Ok(list)
}
