// SPDX-License-Identifier: Apache-2.0
//! The directory of a job, its `job.json`, and the right to run it.

use crate::error::{Cause, Operation, StorageError};
use crate::own::{self, Whose};
use fermata_seal::{Key, Seal};
use fermata_types::JobRecord;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

const HOLD_POLL: Duration = Duration::from_millis(50);
/// A rank's byte when it has come to MPI_Finalize.
const ENDED: u8 = b'F';
const RANKS_MAX: u64 = 1 << 20;

/// The right to run a job. It ends with the last process that has the file open, however that
/// process ends.
#[derive(Debug)]
pub struct JobLock {
    /// `None`: the file system has no such locks, so nobody is kept out.
    file: Option<File>,
}

impl JobLock {
    /// Continues with a lock that another process has handed over.
    #[must_use]
    pub fn adopt(file: File) -> Self {
        let lock = Self { file: Some(file) };
        lock.sign();
        lock
    }

    /// The open file, for a process that is to continue with the job.
    #[must_use]
    pub fn into_file(self) -> Option<File> {
        self.file
    }

    /// For those who find the job taken; if it fails they know less.
    fn sign(&self) {
        let Some(mut file) = self.file.as_ref() else { return };
        let text = format!("{} {}\n", std::process::id(), fermata_sysio::host_name());
        let _ = file.set_len(0).and_then(|()| io::Seek::rewind(&mut file));
        let _ = file.write_all(text.as_bytes());
    }
}

/// Who has the right to run a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runner {
    /// Its process id; 0 if it is not known.
    pub pid: u32,
    /// The host it is on.
    pub host: String,
}

/// The directory of one job. Whoever writes in it opens it first (`open`): whoever may write to the
/// directories above can give its name to another one.
#[derive(Clone, Debug)]
pub struct JobDir {
    path: PathBuf,
    opened: Arc<OnceLock<File>>,
}

impl JobDir {
    /// The place of job `name` under `dir`; nothing need exist yet.
    #[must_use]
    pub fn new(dir: &Path, name: &str) -> Self {
        Self::at(dir.join(name))
    }

    /// A directory that is known to be a job's.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, opened: Arc::default() }
    }

    /// The job that a snapshot lies with, by its real path; `None` if it has been copied out.
    #[must_use]
    pub fn with_snapshot(snapshot: &Path) -> Option<Self> {
        let snapshots = snapshot.parent().filter(|above| above.ends_with("snapshots"))?;
        Some(Self::at(snapshots.parent()?.to_owned()))
    }

    /// `<dir>/<job>`
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same directory under its real name.
    ///
    /// # Errors
    /// What the file system says.
    pub fn canonical(&self) -> io::Result<Self> {
        let path = fs::canonicalize(self.via(&self.path))?;
        Ok(Self { path, opened: Arc::clone(&self.opened) })
    }

    /// Opens the directory, which must be the user's own and no link. From then on this object and
    /// its copies reach what is in it by the descriptor.
    ///
    /// # Errors
    /// What open(2) says, or the directory is somebody else's.
    pub fn open(&self) -> Result<(), StorageError> {
        if self.opened.get().is_none() {
            let opened = own::open_directory(&self.path)
                .map_err(|error| StorageError::at(Operation::Use, &self.path, error))?;
            self.opened.get_or_init(|| opened);
        }
        Ok(())
    }

    /// The way to a path in this directory: through the descriptor, once it is open. For this
    /// process alone, and not to be shown.
    #[must_use]
    pub fn via(&self, path: &Path) -> PathBuf {
        match (self.opened.get(), path.strip_prefix(&self.path)) {
            (Some(opened), Ok(rest)) => {
                Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(rest)
            }
            _ => path.to_owned(),
        }
    }

    /// `<dir>/<job>/coordinator.log`, opened for more lines.
    ///
    /// # Errors
    /// What open(2) says; it is no regular file of the user's.
    pub fn log(&self) -> Result<File, StorageError> {
        let path = self.path.join("coordinator.log");
        own::open_to_append(&self.via(&path))
            .map_err(|e| StorageError::at(Operation::Write, &path, e))
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

    /// `<dir>/<job>/events.jsonl`
    #[must_use]
    pub fn history_path(&self) -> PathBuf {
        self.path.join("events.jsonl")
    }

    /// `<dir>/<job>/ranks`: each living rank has locked the byte with its number. The byte says
    /// whether the rank has come to MPI_Finalize.
    #[must_use]
    pub fn ranks_path(&self) -> PathBuf {
        self.path.join("ranks")
    }

    /// `<dir>/<job>/lock`: whoever runs the job has locked it.
    #[must_use]
    pub fn lock_path(&self) -> PathBuf {
        self.path.join("lock")
    }

    /// Takes the right to run this job, whose directory exists. `None`: somebody else has had it
    /// for as long as `timeout`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn hold(&self, timeout: Duration) -> Result<Option<JobLock>, StorageError> {
        let path = self.lock_path();
        let at = |error: io::Error| StorageError::at(Operation::Lock, &path, error);
        let mut file = own::open_to_append(&self.via(&path)).map_err(at)?;
        if !is_signature(&read_all(&mut file)) {
            return Err(StorageError::at(Operation::Use, &path, Cause::NoLock));
        }
        let begun = Instant::now();
        loop {
            match fermata_sysio::try_lock(&file) {
                Ok(()) => {
                    let lock = JobLock { file: Some(file) };
                    lock.sign();
                    return Ok(Some(lock));
                }
                Err(error) if fermata_sysio::has_no_locks(&error) => {
                    return Ok(Some(JobLock { file: None }));
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(at(error)),
                Err(_) if begun.elapsed() >= timeout => return Ok(None),
                Err(_) => thread::sleep(HOLD_POLL),
            }
        }
    }

    /// The user whose job it is, if that is somebody else.
    #[must_use]
    pub fn other_owner(&self) -> Option<u32> {
        let owner = fs::metadata(self.via(&self.path)).ok()?.uid();
        Some(owner).filter(|owner| *owner != fermata_sysio::effective_uid())
    }

    /// Who runs this job, if the file system tells.
    #[must_use]
    pub fn runner(&self) -> Option<Runner> {
        let mut file = own::open(&self.via(&self.lock_path()), Whose::Anybodys(None)).ok()?;
        // Shared, so that two who ask at a time do not take each other for a run.
        match fermata_sysio::try_lock_shared(&file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
        let text = read_all(&mut file);
        let words = text.trim().split_once(' ');
        let known = words.and_then(|(pid, host)| Some((pid.parse().ok()?, host.to_owned())));
        Some(known.map_or_else(Runner::default, |(pid, host)| Runner { pid, host }))
    }

    /// The ranks that still live, with the process ids of those on this host.
    #[must_use]
    pub fn living_ranks(&self, size: u32) -> Vec<(u32, Option<u32>)> {
        let Ok(file) = own::open(&self.via(&self.ranks_path()), Whose::Anybodys(None)) else {
            return Vec::new();
        };
        let holder = |rank| fermata_sysio::lock_holder(&file, u64::from(rank)).ok().flatten();
        (0..size).filter_map(|rank| Some((rank, holder(rank)?.pid))).collect()
    }

    /// The ranks that have left word that they came to MPI_Finalize (`runtime/agent/leftovers`).
    #[must_use]
    pub fn ended_ranks(&self) -> BTreeSet<u32> {
        let Ok(file) = own::open(&self.via(&self.ranks_path()), Whose::Own(None)) else {
            return BTreeSet::new();
        };
        let mut words = Vec::new();
        let _ = file.take(RANKS_MAX).read_to_end(&mut words); // what could be read counts
        (0..).zip(words).filter(|(_, word)| *word == ENDED).map(|(rank, _)| rank).collect()
    }

    /// Leaves word that a rank has ended well, for `ended_ranks`.
    ///
    /// # Errors
    /// The rank had not begun, or the byte cannot be written.
    pub fn leave_word(&self, rank: u32) -> io::Result<()> {
        let file = fs::OpenOptions::new().write(true).open(self.ranks_path())?;
        file.write_all_at(&[ENDED], u64::from(rank))
    }

    /// Makes the directories, for the owner alone: images hold the whole memory of a job. One that
    /// is there must be the user's own: nobody else has put links into it.
    ///
    /// # Errors
    /// What mkdir(2) says, or the directory is somebody else's.
    pub fn create(&self) -> Result<(), StorageError> {
        let snapshots = self.snapshots();
        let made = |made: io::Result<()>| {
            made.map_err(|error| StorageError::at(Operation::Make, &snapshots, error))
        };
        if self.opened.get().is_none() {
            made(make_all(&self.path))?;
        }
        self.open()?;
        made(make_all(&self.via(&snapshots)))
    }

    /// As `create`, for a job that must not exist yet. False: there is a directory of that name.
    ///
    /// # Errors
    /// What mkdir(2) says.
    pub fn create_new(&self) -> Result<bool, StorageError> {
        let make = || {
            if let Some(parent) = self.path.parent() {
                make_all(parent)?;
            }
            make_one(&self.path)
        };
        match make() {
            Ok(()) => self.create().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(StorageError::at(Operation::Make, &self.path, error)),
        }
    }

    /// Writes `job.json` by rename, readable by the owner alone; sealed with the key, if there is
    /// one.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_record(&self, record: &JobRecord, key: Option<&Key>) -> Result<(), StorageError> {
        let partial = self.path.join("job.json.partial");
        let text = record.seal(key).map_err(|e| StorageError::at(Operation::Write, &partial, e))?;
        let write = || {
            let mut file = own::create(&self.via(&partial))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(self.via(&partial), self.via(&self.record_path()))
        };
        write().map_err(|e: io::Error| StorageError::at(Operation::Write, &self.record_path(), e))
    }

    /// Reads `job.json`, to show or to find the job. Once the directory is open, which is for those
    /// who continue with it, it must be the user's own.
    ///
    /// # Errors
    /// There is none, or it makes no sense.
    pub fn read_record(&self) -> Result<JobRecord, StorageError> {
        self.read_sealed_record(None).map(|(record, _)| record)
    }

    /// As `read_record`, with what the seal says to whoever has this key.
    ///
    /// # Errors
    /// Likewise.
    pub fn read_sealed_record(&self, key: Option<&Key>) -> Result<(JobRecord, Seal), StorageError> {
        let path = self.record_path();
        let whose =
            if self.opened.get().is_some() { Whose::Own(None) } else { Whose::Anybodys(None) };
        let text = own::read_to_string(&self.via(&path), whose)
            .map_err(|e| StorageError::at(Operation::Read, &path, e))?;
        JobRecord::unseal(&text, key).map_err(|e| StorageError::at(Operation::Read, &path, e))
    }
}

fn read_all(file: &mut File) -> String {
    let mut text = String::new();
    let _ = io::Read::read_to_string(file, &mut text);
    text
}

/// Whether this is what `JobLock::sign` writes, or nothing: it will be overwritten.
fn is_signature(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_pid = |word: &str| word.parse::<u32>().is_ok();
    words.is_empty() || words.len() <= 2 && is_pid(words[0]) && text.lines().count() == 1
}

/// Makes a directory and those above it that are missing.
fn make_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_all(parent)?;
    }
    match make_one(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// A snapshot lasts no longer than the names that lead to it.
fn make_one(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // A directory that we may write to but not read cannot be flushed; that alone hinders nothing.
    let _ = fermata_sysio::sync_directory(parent.unwrap_or(Path::new(".")));
    Ok(())
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

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
