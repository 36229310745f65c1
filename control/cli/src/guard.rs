// SPDX-License-Identifier: Apache-2.0
//! The hidden command `guard`: starts a helper of mpirun on another host and keeps from it the
//! signals that are to save the job. It gets them itself, and tells the job's coordinator; others
//! it hands on. It ends with the helper, whose exit code is its own.
//!
//! Source: of how batch systems signal a step, Slurm 22.05, `proctrack_g_signal`: every process of
//! it, or only those that the system has started, of which this is one.

use crate::reach;
use anyhow::{Context, Result};
use fermata_launch::environment::SAVE_ON;
use fermata_launch::guarded::{SRUN, with_guard};
use fermata_policy::signals::SaveOn;
use fermata_storage::JobDir;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;

/// Those that end a process, and that whoever has started the helper may send to it.
const OF_HELPERS: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Starts the helper and waits for its end.
///
/// # Errors
/// It cannot be started.
pub fn guard(save_on: &SaveOn, job_dir: &Path, name: &str, command: &[OsString]) -> Result<u8> {
    let numbers: Vec<i32> = save_on.numbers().collect();
    let watched: BTreeSet<i32> =
        numbers.iter().copied().chain(OF_HELPERS).chain([SIGCHLD]).collect();
    let mut signals = Signals::new(watched).context("cannot watch signals")?;
    let mut helper = Command::new(&command[0]);
    helper.args(&command[1..]);
    fermata_sysio::signals::block_for(&mut helper, &numbers);
    let mut child = helper
        .spawn()
        .with_context(|| format!("cannot start {}", helper.get_program().to_string_lossy()))?;
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the helper")? {
            return Ok(code_of(status));
        }
        for signal in signals.wait() {
            if save_on.has(signal) {
                let (job, name) = (JobDir::at(job_dir.to_owned()), name.to_owned());
                thread::spawn(move || tell_coordinator(&job, &name, signal));
            } else if signal != SIGCHLD {
                let _ = fermata_sysio::send_signal(child.id(), signal); // it may have just ended
            }
        }
    }
}

/// The job's directory, if this program was started by the name of the link there that hydra takes
/// for srun.
pub fn srun_of() -> Option<JobDir> {
    let called = PathBuf::from(std::env::args_os().next()?);
    let is_link = called.file_name() == Some(SRUN.as_ref());
    called.parent().filter(|_| is_link).map(|directory| JobDir::at(directory.to_owned()))
}

/// Becomes srun, with the proxies that it is to start under `guard`.
///
/// # Errors
/// There is no srun.
pub fn srun(job: &JobDir) -> Result<Infallible> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let name = job.read_record().map(|record| record.job).unwrap_or_default();
    let save_on = std::env::var_os(SAVE_ON).unwrap_or_default();
    let guard = [
        std::env::current_exe()?.into_os_string(),
        "guard".into(),
        "--save-on".into(),
        save_on,
        "--job-dir".into(),
        job.path().into(),
        "--name".into(),
        name.into(),
    ];
    let words = with_guard(&words, &guard).unwrap_or(words);
    Err(Command::new(SRUN).args(words).exec()).context("cannot start srun")
}

/// The run that the helper is of decides what comes of it. Nobody hears of a failure: the ranks
/// have the signal as well, as a rule.
fn tell_coordinator(job: &JobDir, name: &str, signal: i32) {
    let Ok(record) = job.read_record() else { return };
    if record.job != name {
        return;
    }
    if let (Ok(mut client), Ok(signal)) = (reach::client(job, &record), u32::try_from(signal)) {
        let _ = client.signalled(signal);
    }
}

/// As a shell has it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
