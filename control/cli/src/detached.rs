// SPDX-License-Identifier: Apache-2.0
//! The coordinator that rank 0 starts under a foreign process manager, where there is no `run`.
//!
//! It is started through a child that ends at once, so that the application has no child that it
//! did not make. The job's lock goes with it as its standard input: a lock of flock(2) belongs to
//! the open file, so from the moment rank 0 has taken it until the coordinator has ended nobody
//! else gets it.

use crate::again;
use crate::ended;
use crate::jobs::unix_now_s;
use crate::service::{Service, leave, make_directory, no_record, start_coordinator};
use crate::state::{refuse_living_ranks, take};
use anyhow::{Context, Result};
use fermata_storage::{JobDir, JobLock};
use fermata_types::JobRecord;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A detached coordinator stays this long after its last rank, once the process has ended that may
/// start others; six times as long if no rank ever came.
const LINGER: Duration = Duration::from_secs(1);
/// So long a new run waits for the coordinator of one that has just ended.
const ENDING_WAIT: Duration = Duration::from_secs(8);

/// Takes the job, records this run of it, and starts its coordinator.
///
/// # Errors
/// The job is refused: somebody runs it, or ranks of it still live.
pub fn begin(job: &JobDir, record: &JobRecord, service: &Service) -> Result<()> {
    make_directory(job)?;
    let lock = take(job, ENDING_WAIT)?;
    let before = job.read_record().unwrap_or_default();
    refuse_living_ranks(job, &record.job, before.size.max(record.size), &before.lost_hosts())?;
    let mut record = record.clone();
    again::follow(&mut record, &before, job)?;
    again::write(job, &record)
        .map_err(|why| no_record(&why.to_string(), service.restored.as_deref()))?;
    let input = lock.into_file().map_or_else(Stdio::null, Stdio::from);
    let status = command(job.path(), service, true)?
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("cannot start the coordinator")?;
    if status.success() {
        Ok(())
    } else {
        Err(anyhow::anyhow!("the coordinator did not start: {status}"))
    }
}

fn command(job_dir: &Path, service: &Service, detach: bool) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    let every = service.every.write(|ms| format!("{ms}ms"));
    command.args(["coordinator", "--every", &every, "--nodes", &service.nodes.to_string()]);
    if let Some(machine) = &service.machine {
        command.arg("--machine").arg(machine);
    }
    if let Some(site) = &service.site {
        command.arg("--site").arg(site);
    }
    if detach {
        command.arg("--detach");
    }
    if service.network {
        command.arg("--network");
    }
    if let Some(snapshot) = &service.restored {
        command.arg("--restored").arg(snapshot);
    }
    if let Some(process) = service.outlives {
        command.args(["--outlives", &process.to_string()]);
    }
    command.arg(job_dir);
    Ok(command)
}

/// The hidden command `coordinator`: serves a job until its ranks are gone.
pub fn coordinator(job_dir: &Path, detach: bool, mut service: Service) -> Result<()> {
    fermata_sysio::close_inherited_descriptors();
    if detach {
        // It inherits the lock. The other streams are /dev/null: mpirun must not wait for ours.
        command(job_dir, &service, false)?.spawn().context("cannot start the coordinator")?;
        return Ok(());
    }
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("there is no lock")?;
    let _lock = JobLock::adopt(File::from(input));
    // Not the leader of a group, being a child; so this cannot fail in a way that matters.
    let _ = fermata_sysio::leave_session();
    let job = JobDir::at(std::fs::canonicalize(job_dir)?);
    job.open()?;
    let mut record = again::last_run(&job)?;
    service.linger = Some(LINGER);
    let ending = start_coordinator(&job, &mut record, service)?.wait();
    record.end(ended::of_ranks(&ending), unix_now_s());
    leave(&job, &mut record, ending.timeout); // nobody hears more of it than the record says
    Ok(())
}
