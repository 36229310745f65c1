// SPDX-License-Identifier: Apache-2.0
//! The directory of a job and its `job.json`.

use crate::snapshot::StorageError;
use fermata_types::JobRecord;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory of one job.
#[derive(Clone, Debug)]
pub struct JobDir {
    path: PathBuf,
}

impl JobDir {
    /// The place of job `name` under `dir`; nothing need exist yet.
    #[must_use]
    pub fn new(dir: &Path, name: &str) -> Self {
        Self { path: dir.join(name) }
    }

    /// A directory that is known to be a job's.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// `<dir>/<job>`
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `<dir>/<job>/snapshots`
    #[must_use]
    pub fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    /// `<dir>/<job>/job.json`
    #[must_use]
    pub fn record_path(&self) -> PathBuf {
        self.path.join("job.json")
    }

    /// `<dir>/<job>/ranks`: each living rank has locked the byte with its number.
    #[must_use]
    pub fn ranks_path(&self) -> PathBuf {
        self.path.join("ranks")
    }

    /// The ranks that still live, with the process ids of those on this host.
    #[must_use]
    pub fn living_ranks(&self, size: u32) -> Vec<(u32, Option<u32>)> {
        let Ok(file) = fs::OpenOptions::new().write(true).open(self.ranks_path()) else {
            return Vec::new();
        };
        let holder = |rank| fermata_sysio::lock_holder(&file, u64::from(rank)).ok().flatten();
        (0..size).filter_map(|rank| Some((rank, holder(rank)?.pid))).collect()
    }

    /// Makes the directories, for the owner alone: images hold the whole memory of a job.
    ///
    /// # Errors
    /// What mkdir(2) says.
    pub fn create(&self) -> Result<(), StorageError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(self.snapshots())
            .map_err(|e| StorageError::at("make", &self.snapshots(), &e))
    }

    /// Writes `job.json` by rename, readable by the owner alone.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_record(&self, record: &JobRecord) -> Result<(), StorageError> {
        let partial = self.path.join("job.json.partial");
        let text = serde_json::to_string_pretty(record)
            .map_err(|e| StorageError::new("write", &partial, &e.to_string()))?;
        let write = || {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&partial)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, self.record_path())
        };
        write().map_err(|e| StorageError::at("write", &self.record_path(), &e))
    }

    /// Reads `job.json`.
    ///
    /// # Errors
    /// There is none, or it makes no sense.
    pub fn read_record(&self) -> Result<JobRecord, StorageError> {
        let path = self.record_path();
        let text = fs::read_to_string(&path).map_err(|e| StorageError::at("read", &path, &e))?;
        serde_json::from_str(&text).map_err(|e| StorageError::new("read", &path, &e.to_string()))
    }
}

/// Every job under `dir`, by name. A directory that does not exist holds none.
#[must_use]
pub fn list_jobs(dir: &Path) -> Vec<(JobDir, JobRecord)> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut jobs: Vec<_> = entries
        .flatten()
        .map(|entry| JobDir::at(entry.path()))
        .filter_map(|job| job.read_record().ok().map(|record| (job, record)))
        .collect();
    jobs.sort_by(|a, b| a.1.job.cmp(&b.1.job));
    jobs
}
