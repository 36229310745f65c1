// SPDX-License-Identifier: Apache-2.0
//! A restart continues as the job last ran: under that MPI, on those hosts, with as many
//! checkpoints. What the command line says comes first, and one line tells what has been taken
//! over.
//!
//! Invariant: commands, and hosts to run them on, are taken from a record that is sealed with the
//! user's key, or the user's own where there is no key. The other words of a record choose among
//! what is registered here.

use crate::auto;
use crate::ending::hosts_left;
use crate::output::duration;
use anyhow::Result;
use fermata_launch::hosts::{batch_system_names_hosts, word};
use fermata_launch::key;
use fermata_launch::mpi::{Family, Lower};
use fermata_launch::registry::Prefix;
use fermata_launch::start::{KEEP_DEFAULT, Start};
use fermata_storage::{JobDir, StorageError};
use fermata_sysio::print_error;
use fermata_types::{Every, JobRecord, hex};
use std::io;
use std::path::PathBuf;

/// How a job is to continue.
pub struct Again {
    /// With what was taken over.
    pub start: Start,
    /// The MPI below.
    pub lower: Lower,
}

/// Options, as they are written on a command line.
type Taken = Vec<String>;

/// Writes a job's record, sealed.
///
/// # Errors
/// What the file system says.
pub fn write(job: &JobDir, record: &JobRecord) -> Result<(), StorageError> {
    job.write_record(record, key::found().map(|user| &user.key))
}

/// The record of the run that follows another one of the same job, if there was one.
///
/// # Errors
/// The system has no randomness.
pub fn follow(record: &mut JobRecord, before: &JobRecord, job: &JobDir) -> io::Result<()> {
    let is_elsewhere = |(_, pid): &(u32, Option<u32>)| pid.is_none();
    if job.living_ranks(record.size).iter().any(is_elsewhere) {
        record.outlived = before.lost_hosts(); // or they would not have been let be
    }
    record.run_number = before.run_number + 1;
    record.identity = match before.identity() {
        Some(identity) => hex(&identity),
        None => hex(&fermata_sysio::random_bytes::<8>()?),
    };
    Ok(())
}

/// The record of a job that is about to be run, as far as it is to be believed. It is the user's
/// own.
///
/// # Errors
/// There is none.
pub fn last_run(job: &JobDir) -> Result<JobRecord, StorageError> {
    let (record, is_believed) = own_record(job)?;
    Ok(if is_believed { record } else { record.without_commands() })
}

/// The user's own record of a job as it stands there, and whether it is sealed as it should be.
fn own_record(job: &JobDir) -> Result<(JobRecord, bool), StorageError> {
    job.open()?;
    let whose = key::own();
    let (record, seal) = job.read_sealed_record(whose.key())?;
    Ok((record, whose.accept(seal).is_ok()))
}

/// How the job of a snapshot last ran, if there is a record of that. `here`: nobody asks for hosts.
pub fn last_run_of(directory: &JobDir, job: &str, here: bool) -> Option<JobRecord> {
    let (mut record, is_believed) = own_record(directory).ok()?;
    let has_commands = record.has_commands();
    if !is_believed || record.job != job {
        record = record.without_commands();
    }
    if has_commands && !record.has_commands() && !here {
        print_error(format_args!(
            "{} is not sealed with your key for this job: hosts, --remote-shell, --local-dir and \
             --mpirun-arg are not taken from it\n  \
             hint: made by an older Fermata, where there was another key, or by somebody else; \
             give them again if the job needs them",
            directory.record_path().display()
        ));
    }
    Some(record)
}

/// How a job is to continue that last ran as `before` says. `native`: the family that its program
/// was built for; `here`: not on the hosts of before.
///
/// # Errors
/// The MPI that was asked for, or any at all, is not registered.
pub fn again(
    prefix: &Prefix,
    start: &Start,
    here: bool,
    before: &JobRecord,
    native: Family,
) -> Result<Again> {
    let (mut start, mut taken) = (start.clone(), Taken::new());
    let lowers = prefix.lowers();
    let last = lowers.iter().find(|lower| lower.name == before.lower);
    let is_gone = start.mpi.is_none() && last.is_none() && !before.lower.is_empty();
    if let (None, Some(last)) = (&start.mpi, last) {
        taken.push(format!("--mpi {}", last.name));
        start.mpi = Some(last.name.clone());
    }
    let lower = prefix.choose(start.mpi.as_deref(), Some(native))?;
    if is_gone {
        print_error(format_args!(
            "MPI '{}', which the job last ran on, is not registered here; it continues under {}\n  \
             hint: fermata mpi list, and choose with --mpi",
            before.lower, lower.name
        ));
    }
    if !here {
        take_hosts(&mut start, before, batch_system_names_hosts(), &mut taken);
        let same_family = last.is_some_and(|last| last.family == lower.family);
        if start.mpirun_args.is_empty() && same_family {
            taken.extend(before.mpirun_args.iter().map(|arg| format!("--mpirun-arg={arg}")));
            start.mpirun_args.clone_from(&before.mpirun_args);
        }
    }
    take_checkpoints(&mut start, before, &mut taken);
    if !taken.is_empty() {
        print_error(format_args!("continues as the job last ran: {}", taken.join(" ")));
    }
    Ok(Again { start, lower })
}

/// The hosts, and what it takes to run on them. `in_batch`: a batch system has named others, which
/// mpirun reaches by that system's own means.
fn take_hosts(start: &mut Start, before: &JobRecord, in_batch: bool, taken: &mut Taken) {
    let given = !start.hosts.is_empty() || start.hostfile.is_some();
    if !given && !in_batch {
        start.hosts = left(&before.hosts, &before.lost_host);
        if start.hosts.len() < before.hosts.len() {
            print_error(format_args!(
                "host {} was lost; the job continues without it",
                before.lost_host
            ));
        }
        if !start.hosts.is_empty() {
            taken.push(format!("--host {}", start.hosts.join(",")));
        }
    }
    if start.remote_shell.is_none() && !before.remote_shell.is_empty() && !in_batch {
        taken.push(format!("--remote-shell {}", before.remote_shell));
        start.remote_shell = Some(before.remote_shell.clone());
    }
    if start.local_dir.is_none() && !before.local_dir.is_empty() {
        taken.push(format!("--local-dir {}", before.local_dir));
        start.local_dir = Some(PathBuf::from(&before.local_dir));
    }
    if start.levels.is_none() && !before.levels.is_empty() {
        start.levels = before.levels.parse().ok();
        fit_levels(start);
        taken.extend(start.levels.iter().map(|levels| format!("--levels {levels}")));
    }
}

/// Levels that the job had on more hosts become those that these can have.
pub fn fit_levels(start: &mut Start) {
    if start.hosts.is_empty() {
        return; // whoever starts the ranks knows on how many
    }
    let Some(chain) = start.levels.take() else { return };
    start.levels = chain.on(u32::try_from(start.hosts.len()).unwrap_or(u32::MAX));
    if start.levels.as_ref() != Some(&chain) {
        let left = start.levels.as_ref().map_or("no levels".into(), |it| format!("--levels {it}"));
        print_error(format_args!(
            "--levels {chain} needs more hosts than are left; the job continues with {left}"
        ));
    }
}

/// The hosts without the one that was lost; those that are left share all ranks then.
pub fn left(hosts: &[String], lost: &str) -> Vec<String> {
    let names = hosts_left(hosts, lost);
    if names.len() == hosts.len() { hosts.to_vec() } else { names }
}

fn take_checkpoints(start: &mut Start, before: &JobRecord, taken: &mut Taken) {
    if start.every.is_none() && before.every != Every::Never {
        taken.push(format!("--every {}", before.every.write(duration)));
        start.every = Some(before.every);
    }
    if start.machine.is_none() && start.every == Some(Every::Auto) && !before.machine.is_empty() {
        taken.push(format!("--machine {}", before.machine));
        start.machine = Some(PathBuf::from(&before.machine));
    }
    if start.site.is_none() && start.levels.is_none() && !before.site.is_empty() {
        taken.push(format!("--site {}", before.site));
        start.site = Some(PathBuf::from(&before.site));
    }
    if start.keep.is_none() && before.keep != 0 {
        if before.keep != KEEP_DEFAULT {
            taken.push(format!("--keep {}", before.keep));
        }
        start.keep = Some(before.keep);
    }
}

/// Notes how a job runs, for the next restart. `hosts`: with their numbers of ranks.
pub fn note(record: &mut JobRecord, start: &Start, hosts: &[(String, u32)]) {
    record.every = start.every.unwrap_or_default();
    record.machine = auto::recorded(start.machine.as_deref());
    record.site = auto::recorded(start.site.as_deref());
    record.hosts = hosts.iter().map(word).collect();
    record.remote_shell = start.remote_shell.clone().unwrap_or_default();
    record.local_dir = auto::recorded(start.local_dir.as_deref());
    record.levels = start.levels.as_ref().map_or_else(String::new, ToString::to_string);
    record.mpirun_args.clone_from(&start.mpirun_args);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_remote_shell_are_not_taken_into_a_batch_system() {
        let before = JobRecord {
            hosts: vec!["a:2".into()],
            remote_shell: "rsh".into(),
            local_dir: "/scratch".into(),
            ..JobRecord::default()
        };
        let all = ["--host a:2", "--remote-shell rsh", "--local-dir /scratch"];
        for (in_batch, expected) in [(false, &all[..]), (true, &all[2..])] {
            let (mut start, mut taken) = (Start::default(), Taken::new());
            take_hosts(&mut start, &before, in_batch, &mut taken);
            assert_eq!(taken, expected, "in a batch system: {in_batch}");
            assert_eq!(start.remote_shell.is_some(), !in_batch);
        }
    }

    #[test]
    fn a_lost_host_is_left_out_and_the_others_share() {
        let hosts = ["a:2".to_owned(), "b:2".to_owned()];
        assert_eq!(left(&hosts, ""), ["a:2", "b:2"]);
        assert_eq!(left(&hosts, "b"), ["a"]);
        assert_eq!(left(&hosts, "c"), ["a:2", "b:2"]);
    }
}
