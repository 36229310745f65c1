// SPDX-License-Identifier: Apache-2.0
//! The job's own directory, which all its hosts share or into which their images are collected.

use crate::error::{Cause, Operation, StorageError};
use crate::job::JobDir;
use crate::layout::{SnapshotInfo, list_snapshots, partial_path};
use crate::level::{Durable, Level};
use crate::snapshot::commit;
use fermata_faults::{Fault, fault};
use fermata_seal::Key;
use fermata_types::Manifest;
use std::fs;
use std::path::PathBuf;

/// Snapshots in the directory of a job.
#[derive(Clone, Debug)]
pub struct JobDirectory {
    job: JobDir,
    /// What they are sealed with, if there is a key.
    key: Option<Key>,
}

impl JobDirectory {
    /// Of this job.
    #[must_use]
    pub fn new(job: JobDir, key: Option<Key>) -> Self {
        Self { job, key }
    }
}

impl Level for JobDirectory {
    fn put(&self, manifest: &Manifest) -> Result<PathBuf, StorageError> {
        commit(&self.job, manifest, self.key.as_ref())
    }

    fn get(&self, epoch: u32) -> Result<PathBuf, StorageError> {
        let found = self.list().into_iter().find(|snapshot| snapshot.epoch == epoch);
        let wanted = self.job.snapshots().join(epoch.to_string());
        let missing = || StorageError::at(Operation::Use, &wanted, Cause::NoSnapshot);
        found.map(|snapshot| snapshot.path).ok_or_else(missing)
    }

    fn list(&self) -> Vec<SnapshotInfo> {
        list_snapshots(&self.job)
    }

    fn drop(&self, epoch: u32) -> bool {
        // Renamed first, so that a half-removed snapshot is never taken for a whole one.
        let doomed = self.job.via(&partial_path(&self.job, epoch));
        let Ok(path) = self.get(epoch) else { return false };
        let renamed = fs::rename(self.job.via(&path), &doomed).is_ok();
        fault(Fault::CommitPruning);
        renamed && fs::remove_dir_all(&doomed).is_ok()
    }

    /// `put` flushes every image, the manifest and the directories before it returns.
    fn durable_after(&self) -> Durable {
        Durable::OnReturn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::levels::Kept;
    use crate::own::Whose;
    use crate::verify::tests::Scratch;
    use crate::verify::verify;
    use crate::{note_placed, read_placed};
    use fermata_levels::{Groups, Home, Id, Snapshot};

    #[test]
    fn what_is_put_is_listed_until_it_is_dropped() {
        let scratch = Scratch::new();
        let manifest = scratch.fill(3);
        let level = JobDirectory::new(scratch.job(), None);
        assert_eq!(level.list().len(), 0);
        assert!(level.get(3).is_err());
        let path = level.put(&manifest).unwrap();
        assert_eq!(level.get(3).unwrap(), path);
        assert!(verify(&path, Whose::Own(None), |_| {}).is_good());
        assert_eq!(level.durable_after(), Durable::OnReturn);
        assert!(level.drop(3));
        assert!(!level.drop(3), "it is gone");
        assert!(level.list().is_empty() && level.get(3).is_err());
    }

    #[test]
    fn what_is_whole_takes_the_place_of_what_lies_on_hosts_and_of_nothing_else() {
        let scratch = Scratch::new();
        let manifest = scratch.fill(3);
        let level = JobDirectory::new(scratch.job(), None);
        let heads = scratch.job().snapshots().join("3");
        fs::create_dir(&heads).unwrap();
        fs::write(heads.join("rank-0.img"), "a head").unwrap();
        assert!(level.put(&manifest).is_err(), "nobody knows what that is");
        let home = |name: &str, rank| Home { host: name.into(), ranks: vec![rank] };
        let homes = vec![home("n0", 0), home("n1", 1)];
        let chain = "local,shared".parse().unwrap();
        let id = Id { taken_ms: 1, epoch: 3 };
        let snapshot = Snapshot::new(id, homes, &Groups::default(), &chain).unwrap();
        note_placed(&heads, &Kept { snapshot, manifest: manifest.clone() }, None).unwrap();
        let path = level.put(&manifest).unwrap();
        assert!(matches!(read_placed(&path, Whose::Own(None)), Ok(None)));
        assert!(verify(&path, Whose::Own(None), |_| {}).is_good());
        assert!(!partial_path(&scratch.job(), 3).exists());
    }

    #[test]
    fn a_number_that_is_not_there_is_named() {
        let scratch = Scratch::new();
        let why = JobDirectory::new(scratch.job(), None).get(7).unwrap_err().to_string();
        assert!(why.ends_with("snapshots/7: there is no such snapshot"), "{why}");
    }
}
