// SPDX-License-Identifier: Apache-2.0
//! Removing old snapshots, and what is left of some that never became one.
//!
//! Invariant: as many whole snapshots stay as are to be kept; what is damaged counts for nothing.

use crate::job::JobDir;
use crate::layout::SnapshotInfo;
use crate::level::Level;
use crate::levels::JobDirectory;
use crate::snapshot::is_whole;
use fermata_faults::{Fault, fault};
use std::fs;

/// Removes the snapshots that are older than the newest `keep` whole ones, but not `spared`, and
/// returns the removed ones. `keep` is at least one.
pub fn prune(job: &JobDir, keep: u32, spared: Option<u32>) -> Vec<SnapshotInfo> {
    let level = JobDirectory::new(job.clone(), None); // nothing is sealed here
    let mut list = level.list();
    fault(Fault::CommitPrune);
    if let Some(newest) = list.last() {
        remove_leftovers(job, newest.epoch);
    }
    let nth = keep.max(1) as usize - 1;
    let is_whole = |snapshot: &&SnapshotInfo| is_whole(&job.via(&snapshot.path));
    let whole = list.iter().rev().filter(is_whole).nth(nth);
    let Some(last) = whole.map(|snapshot| snapshot.epoch) else { return Vec::new() };
    list.retain(|snapshot| {
        let stays = snapshot.epoch >= last || spared == Some(snapshot.epoch);
        !stays && level.drop(snapshot.epoch)
    });
    list
}

/// Removes what coordinators that died in a checkpoint, or while they pruned, have left: parts of
/// snapshots before this one. A checkpoint under way is newer than every whole snapshot.
pub fn remove_leftovers(job: &JobDir, before: u32) {
    let Ok(entries) = fs::read_dir(job.via(&job.snapshots())) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let part = name.to_str().and_then(|name| name.split_once('.'));
        let Some((epoch, "partial" | "discarded")) = part else { continue };
        if epoch.parse::<u32>().is_ok_and(|epoch| epoch < before) {
            // If this fails, the next time may do better.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
