// SPDX-License-Identifier: Apache-2.0
//! A job's coordinator in this process, and the directory that it keeps snapshots in.

use crate::again;
use crate::auto;
use crate::ended;
use crate::exit::refused;
use crate::hints;
use crate::places;
use anyhow::{Context, Result};
use fermata_coordinator::{Handle, Options};
use fermata_launch::{allocation, key};
use fermata_levels::{Chain, Groups};
use fermata_storage::{JobDir, StorageError, list_snapshots, note_event, within};
use fermata_sysio::{FileLimit, Process, print_error};
use fermata_types::{Ended, Every, JobEvent, JobRecord, RunBegins};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime};

/// What a coordinator is to do beyond serving its job's record.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// When the job saves of itself.
    pub every: Every,
    /// What fails how often, for `Every::Auto`.
    pub machine: Option<PathBuf>,
    /// Where the site's service is found, if it is asked.
    pub site: Option<PathBuf>,
    /// Hosts that the job is on, for both; 0 is taken for 1.
    pub nodes: u32,
    /// Ends by itself when the ranks have gone for this long.
    pub linger: Option<Duration>,
    /// A process that may still start ranks.
    pub outlives: Option<Process>,
    /// Ranks, or those who ask for a checkpoint, may be on other hosts.
    pub network: bool,
    /// The snapshot this run is restored from.
    pub restored: Option<PathBuf>,
    /// Snapshots stay on the hosts.
    pub levels: Option<Chain>,
    /// Which hosts fail together.
    pub groups: Groups,
    /// Who else hears of the job's events.
    pub told: Option<Sender<JobEvent>>,
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
    let (restored, told) = (service.restored.clone(), service.told.clone());
    let handle = fermata_coordinator::start(Options {
        job: job.clone(),
        name: record.job.clone(),
        run: record.run_number,
        argv: record.argv.clone(),
        programs: record.programs.clone(),
        front: record.front.clone(),
        cwd: record.cwd.clone(),
        restart: hints::restart_from_anywhere(job),
        checkpointer: record.checkpointer,
        keep: record.keep,
        every: auto::pace(
            service.every,
            service.machine.as_deref(),
            service.nodes as usize,
            service.levels.as_ref(),
        )?,
        // What stays on the hosts does not meet others' there.
        site: service.site.filter(|_| service.levels.is_none()),
        nodes: service.nodes.max(1),
        linger: service.linger,
        outlives: service.outlives,
        network: service.network,
        restored: service.restored,
        told: service.told,
        levels: service.levels,
        groups: service.groups,
        key: key::found().map(|user| user.key),
    })
    .context("cannot start the coordinator")?;
    record.begun_after_epoch = newest_before;
    record.host = fermata_sysio::host_name();
    record.socket = handle.socket().into();
    record.addresses = handle.addresses().to_vec();
    record.coordinator_pid = std::process::id();
    record.ended = Ended::Running;
    match again::write(job, record) {
        Ok(()) => {
            job.path().parent().into_iter().for_each(places::note);
            let event = beginning(record);
            tell_of_history(note_event(job, record.run_number, SystemTime::now(), &event));
            if let Some(told) = told {
                let _ = told.send(event); // who listens no longer has heard enough
            }
            Ok(handle)
        }
        Err(error) => {
            handle.stop(|| true); // nobody would find it
            Err(no_record(&error.to_string(), restored.as_deref()))
        }
    }
}

/// For the history.
fn beginning(record: &JobRecord) -> JobEvent {
    let run = RunBegins {
        mpi: record.lower.clone(),
        ranks: record.size,
        host: record.host.clone(),
        hosts: record.hosts.clone(),
        every: record.every,
        argv: record.argv.clone(),
        batch_job: allocation::batch_job(),
    };
    match record.restored_epoch {
        0 => JobEvent::Started(run),
        snapshot => JobEvent::Resumed { snapshot, run },
    }
}

fn tell_of_history(noted: Result<(), StorageError>) {
    if let Err(error) = noted {
        print_error(format_args!("events are missing in the job's history: {error}"));
    }
}

/// Leaves word of how a run has ended: nobody is to be looked for any more. Waits no longer than
/// `timeout`. Returns whether that could be written, and tells if not.
pub fn leave(job: &JobDir, record: &mut JobRecord, timeout: Duration) -> bool {
    // Other hosts cannot see that this process is gone.
    record.socket.clear();
    record.addresses.clear();
    let (directory, last) = (job.clone(), record.clone());
    let written = within(timeout, move || {
        let event = JobEvent::Ended(last.ended.clone());
        tell_of_history(note_event(&directory, last.run_number, SystemTime::now(), &event));
        again::write(&directory, &last)
    });
    let why = match written {
        Some(Ok(())) => return true,
        Some(Err(error)) => error.to_string(),
        None => format!("{} does not answer", job.record_path().display()),
    };
    print_error(format_args!(
        "how the run of job '{}' has ended ({}) is not recorded: {why}\n  \
         hint: make room there; nothing else of it is lost, but --resume does not know",
        record.job,
        ended::shown(&record.ended)
    ));
    false
}
