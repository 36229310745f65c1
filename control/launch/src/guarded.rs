// SPDX-License-Identifier: Apache-2.0
//! mpirun and its helpers outlive the signals that are to save the job. A batch system sends one to
//! every process of a job, and process managers end their ranks at it.
//!
//! mpirun begins in a process group of its own and with these signals *blocked*: it installs
//! handlers of its own, so ignoring them would not do. Helpers on other hosts, which a batch system
//! signals as well, are started through `fermata guard`, which does the same there and tells the
//! coordinator of a signal: Open MPI's wherever they are, hydra's inside Slurm, where SIGUSR2 ends
//! them and with them the job. The ranks hold it: their launcher, which hears of the signals by
//! `environment::SAVE_ON`, sees to that.
//!
//! A job that has to be ended all the same is sent a signal that is not blocked.

use crate::batch::{Batch, System};
use crate::environment::{SAVE_ON, signals_to_save_on};
use crate::hosts;
use crate::mpi::Family;
use crate::start::Start;
use fermata_policy::signals::SaveOn;
use fermata_storage::JobDir;
use fermata_types::JobRecord;
use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What ends an mpirun that is deaf to others, in this order. Each mpirun ends at the first, and
/// its helpers when it has gone.
const ENDING: [i32; 4] = [1, 15, 2, 3]; // SIGHUP, SIGTERM, SIGINT, SIGQUIT

/// Keeps an mpirun from these signals.
pub fn guard(mpirun: &mut Command, save_on: &SaveOn) {
    if save_on.is_empty() {
        return;
    }
    let numbers: Vec<i32> = save_on.numbers().collect();
    fermata_sysio::signals::block_for(mpirun, &numbers);
    // In a group of its own it could not read a terminal.
    if !io::stdin().is_terminal() {
        mpirun.process_group(0);
    }
}

/// Tells the ranks of one program of the job, on other hosts as well if it spans them.
pub fn hand_over(mpirun: &mut Command, family: Family, start: &Start) {
    if start.save_on.is_empty() {
        return; // what the environment says, for tests, holds
    }
    if start.spans_hosts() {
        hosts::hand_over(mpirun, family, SAVE_ON, start.save_on.text());
    } else {
        mpirun.env(SAVE_ON, start.save_on.text());
    }
}

/// Has Open MPI start its helpers on other hosts under `fermata guard`, unless the user has them
/// started otherwise. By environment, because there every version reads its own name.
pub fn guard_helpers(
    mpirun: &mut Command,
    fermata: &Path,
    start: &Start,
    record: &JobRecord,
    job: &JobDir,
) {
    if start.save_on.is_empty() || !start.spans_hosts() {
        return;
    }
    let words = [
        &*fermata.to_string_lossy(),
        "guard",
        "--save-on",
        &start.save_on.text(),
        "--job-dir",
        &*job.path().to_string_lossy(),
        "--name",
        &record.job,
    ]
    .map(str::to_owned);
    // The line is split at blanks, and no quotes help.
    if words.iter().any(|word| word.contains(char::is_whitespace)) {
        return;
    }
    for (variable, helper) in
        [("OMPI_MCA_orte_launch_agent", "orted"), ("PRTE_MCA_prte_launch_agent", "prted")]
    {
        if std::env::var_os(variable).is_none() {
            mpirun.env(variable, format!("{} {helper}", words.join(" ")));
        }
    }
}

/// What hydra takes for srun: a link to `fermata` in the job's directory, which by this name starts
/// srun with proxies under `fermata guard` (hydra has no option for what they are started by).
pub const SRUN: &str = "srun";
/// What hydra's own variables say, where its user says how proxies are started.
const OF_HYDRA: [&str; 4] =
    ["HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "HYDRA_BOOTSTRAP", "HYDRA_BOOTSTRAP_EXEC"];

/// Has hydra start its proxies under `fermata guard` inside Slurm, unless the user has them started
/// otherwise. Without a link, which a directory may not allow, they are started as ever.
pub fn guard_proxies(mpirun: &mut Command, fermata: &Path, start: &Start, job: &JobDir) {
    let is_users = |name: &&str| std::env::var_os(name).is_some();
    if start.save_on.is_empty()
        || start.remote_shell.is_some()
        || !Batch::detect().is_some_and(|batch| batch.system == System::Slurm)
        || OF_HYDRA.iter().any(is_users)
    {
        return;
    }
    let link = job.path().join(SRUN);
    let _ = fs::remove_file(&link);
    if symlink(fermata, &link).is_ok() {
        mpirun.env("HYDRA_LAUNCHER_EXEC", link);
    }
}

/// The words of srun with those of `guard` before the proxy's; `None`: there is no proxy among
/// them.
#[must_use]
pub fn with_guard(words: &[OsString], guard: &[OsString]) -> Option<Vec<OsString>> {
    let is_proxy =
        |word: &OsString| Path::new(word).file_name() == Some("hydra_pmi_proxy".as_ref());
    let at = words.iter().position(is_proxy)?;
    Some([&words[..at], guard, &words[at..]].concat())
}

/// A rank begins without what keeps mpirun from the signals: hydra's ranks inherit that, and what a
/// program blocks is not held.
pub fn begin_rank() {
    let numbers: Vec<i32> = signals_to_save_on().into_iter().map(i32::from).collect();
    let _ = fermata_sysio::signals::unblock(&numbers); // else the rank is not saved by them
}

/// The signal that brings about at a guarded mpirun what `signal` would at another: itself, unless
/// it is blocked. `None`: nothing less than SIGKILL reaches it.
#[must_use]
pub fn reaching(signal: i32, save_on: &SaveOn) -> Option<i32> {
    [signal].into_iter().chain(ENDING).find(|signal| !save_on.has(*signal))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn variable(command: &Command, name: &str) -> Option<String> {
        let (_, value) = command.get_envs().find(|(key, _)| *key == name)?;
        Some(value?.to_string_lossy().into_owned())
    }

    fn agent(start: &Start, job: &str) -> Option<String> {
        let mut command = Command::new("mpirun");
        let record = JobRecord { job: "melt".into(), ..JobRecord::default() };
        let job = JobDir::new(Path::new(job), "melt");
        guard_helpers(&mut command, Path::new("/opt/bin/fermata"), start, &record, &job);
        variable(&command, "OMPI_MCA_orte_launch_agent")
    }

    #[test]
    fn a_signal_that_is_blocked_is_replaced_by_one_that_is_not() {
        let save_on = SaveOn::parse("TERM,INT,USR1").unwrap();
        assert_eq!(reaching(1, &save_on), Some(1));
        assert_eq!(reaching(12, &save_on), Some(12));
        assert_eq!(reaching(15, &save_on), Some(1));
        assert_eq!(reaching(15, &SaveOn::default()), Some(15));
        let all = SaveOn::parse("TERM,INT,HUP,QUIT").unwrap();
        assert_eq!(reaching(15, &all), None);
    }

    #[test]
    fn helpers_on_other_hosts_are_started_under_the_guard() {
        let save_on = SaveOn::parse("TERM").unwrap();
        let here = Start { save_on: save_on.clone(), ..Start::default() };
        assert_eq!(agent(&here, "/jobs"), None);
        let spread = Start { save_on, hosts: vec!["a".into()], ..Start::default() };
        let line = "/opt/bin/fermata guard --save-on 15 --job-dir /jobs/melt --name melt orted";
        assert_eq!(agent(&spread, "/jobs").as_deref(), Some(line));
        assert_eq!(agent(&spread, "/my jobs"), None, "blanks cannot be said");
        let unguarded = Start { hosts: vec!["a".into()], ..Start::default() };
        assert_eq!(agent(&unguarded, "/jobs"), None);
    }

    #[test]
    fn ranks_hear_of_the_signals_that_they_hold() {
        let start = Start { save_on: SaveOn::parse("TERM,USR1").unwrap(), ..Start::default() };
        let mut command = Command::new("mpirun");
        hand_over(&mut command, Family::OpenMpi, &start);
        assert_eq!(variable(&command, SAVE_ON).as_deref(), Some("10,15"));
        assert_eq!(command.get_args().count(), 0);
        let start = Start { hosts: vec!["a".into()], ..start };
        hand_over(&mut command, Family::OpenMpi, &start);
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["-x", SAVE_ON]);
    }

    #[test]
    fn the_guard_stands_before_the_proxy() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let srun = words("--nodelist a,b -N 2 -n 2 --input none /usr/bin/hydra_pmi_proxy --x y");
        let guarded = with_guard(&srun, &words("fermata guard --")).unwrap();
        let wanted = "--nodelist a,b -N 2 -n 2 --input none fermata guard -- \
                      /usr/bin/hydra_pmi_proxy --x y";
        assert_eq!(guarded, words(wanted));
        assert_eq!(with_guard(&words("-N 2 hostname"), &words("guard")), None);
    }
}
