// SPDX-License-Identifier: Apache-2.0
//! A job's coordinator in this process, and the directory that it keeps snapshots in.

use crate::again;
use crate::exit::refused;
use crate::hints;
use anyhow::{Context, Result};
use fermata_coordinator::{Handle, Options};
use fermata_launch::key;
use fermata_storage::{JobDir, list_snapshots};
use fermata_sysio::{FileLimit, Process};
use fermata_types::JobRecord;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a coordinator is to do beyond serving its job's record.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Interval of periodic checkpoints in ms, 0 = none.
    pub every_ms: u64,
    /// Ends by itself when the ranks have gone for this long.
    pub linger: Option<Duration>,
    /// A process that may still start ranks.
    pub outlives: Option<Process>,
    /// Ranks may be on other hosts.
    pub network: bool,
    /// The snapshot this run is restored from.
    pub restored: Option<PathBuf>,
}

/// Makes the job's directory and sees to it that snapshots can be kept there.
pub fn make_directory(job: &JobDir) -> Result<()> {
    job.create().map_err(|error| no_directory(&error.to_string()))?;
    if fermata_sysio::is_writable(&job.snapshots()) {
        return Ok(());
    }
    Err(no_directory(&format!("{} is not writable", job.snapshots().display())))
}

/// What to do where a directory is read-only or full, and a snapshot is in it.
pub fn hint_elsewhere(snapshot: &Path) -> String {
    let snapshot = fs::canonicalize(snapshot).unwrap_or_else(|_| snapshot.to_owned());
    format!("hint: continue elsewhere: fermata restart {} --dir DIR", hints::quoted_path(&snapshot))
}

/// The job's record cannot be written: most often the disk is full.
pub fn no_record(why: &str, restored: Option<&Path>) -> anyhow::Error {
    let new = || "hint: make room there, or give another directory with --dir".to_owned();
    refused(format!("{why}\n  {}", restored.map_or_else(new, hint_elsewhere)))
}

/// Snapshots cannot be kept in the job's directory.
pub fn no_directory(why: &str) -> anyhow::Error {
    let hint = "give a directory of yours with --dir or FERMATA_DIR";
    refused(format!("snapshots cannot be kept: {why}\n  hint: {hint}"))
}

/// Starts the job's coordinator inside this process and records where it is to be found.
/// It may have as many files open as the system allows: each rank is a line.
pub fn start_coordinator(job: &JobDir, record: &mut JobRecord, service: Service) -> Result<Handle> {
    FileLimit::raise();
    let newest_before = list_snapshots(job).last().map_or(0, |snapshot| snapshot.epoch);
    let restored = service.restored.clone();
    let handle = fermata_coordinator::start(Options {
        job: job.clone(),
        name: record.job.clone(),
        argv: record.argv.clone(),
        programs: record.programs.clone(),
        front: record.front.clone(),
        cwd: record.cwd.clone(),
        restart: hints::restart_from_anywhere(job),
        checkpointer: record.checkpointer,
        keep: record.keep,
        every_ms: service.every_ms,
        linger: service.linger,
        outlives: service.outlives,
        network: service.network,
        restored: service.restored,
        key: key::found().map(|user| user.key),
    })
    .context("cannot start the coordinator")?;
    record.begun_after_epoch = newest_before;
    record.host = fermata_sysio::host_name();
    record.socket = handle.socket().into();
    record.addresses = handle.addresses().to_vec();
    record.coordinator_pid = std::process::id();
    match again::write(job, record) {
        Ok(()) => Ok(handle),
        Err(error) => {
            handle.stop(|| true); // nobody would find it
            Err(no_record(&error.to_string(), restored.as_deref()))
        }
    }
}
