// SPDX-License-Identifier: Apache-2.0
//! Whether a job runs, and taking it for a run of one's own.
//!
//! Whoever runs a job has locked it (`JobDir::hold`), and its coordinator answers on a socket. Both
//! are asked: a coordinator that is busy or suspended does not answer and is no less there, and not
//! every file system has locks.

use crate::exit::refused;
use crate::hints;
use crate::reach;
use anyhow::Result;
use fermata_coordinator::ClientError;
use fermata_storage::{JobDir, JobLock, Runner};
use fermata_sysio::print_error;
use fermata_types::JobRecord;
use serde_json::{Value, json};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(50);
/// A coordinator that is suspended, or whose disk hangs, answers later; then it counts as silent.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Between the lock and the socket lies the beginning of a run, and again its end.
const MOMENT: Duration = Duration::from_millis(500);
/// Ranks end a moment after the run that they belong to.
const ENDING_WAIT: Duration = Duration::from_secs(3);

/// What is known of a job from outside.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// Its coordinator answers, with these figures.
    Running(Value),
    /// Somebody runs it, but does not answer.
    Silent(Runner),
    /// Somebody runs it on another host, and it cannot be asked from here.
    Elsewhere(Runner),
    /// Another user runs it, and it speaks with nobody else.
    Theirs(u32),
    /// Somebody has it who is no coordinator yet, or no longer.
    Starting(Runner),
    /// Nobody runs it.
    Ended,
}

impl State {
    /// The recorded coordinator is there, but says nothing.
    pub fn silent(record: &JobRecord) -> Self {
        Self::Silent(Runner { pid: record.coordinator_pid, host: record.host.clone() })
    }

    /// One word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Running(_) | Self::Theirs(_) => "running",
            Self::Silent(_) => "silent",
            Self::Elsewhere(_) => "elsewhere",
            Self::Starting(_) => "starting",
            Self::Ended => "ended",
        }
    }

    /// Whether ranks run that nobody has told to end.
    pub fn is_at_work(&self) -> bool {
        let Self::Running(figures) = self else { return false };
        let has_ranks = figures["ranks"].as_array().is_some_and(|ranks| !ranks.is_empty());
        has_ranks && figures["stopped"] != json!(true)
    }

    /// Why a command cannot have the job now, and what to do.
    pub fn refusal(&self, job: &JobDir) -> anyhow::Error {
        let name = hints::name_of(job);
        let place = |runner: &Runner| match runner.pid {
            0 => String::new(),
            pid => format!(" on host {} as process {pid}", runner.host),
        };
        refused(match self {
            Self::Running(_) => {
                let stop = hints::for_job(job, "checkpoint", "--stop");
                format!("job '{name}' is running\n  hint: {stop}")
            }
            Self::Theirs(owner) => format!("job '{name}' is run by its owner, user {owner}"),
            Self::Silent(runner) => format!(
                "job '{name}' runs{}, but does not answer\n  \
                 hint: it may be suspended (kill -CONT), or wait for its disk: try again later",
                place(runner)
            ),
            Self::Elsewhere(runner) => format!(
                "job '{name}' runs{}, and cannot be reached from here\n  \
                 hint: save it there: {}\n  \
                 hint: if that host is gone for good, remove the file 'lock' of the job",
                place(runner),
                hints::save_on_host(&runner.host, job)
            ),
            Self::Starting(runner) => format!(
                "job '{name}' is just being started or ended{}\n  \
                 hint: try again in a moment; how it is: {}",
                place(runner),
                hints::beside(job, "jobs")
            ),
            // What has ended well is not to be done again.
            Self::Ended if job.read_record().is_ok_and(|record| record.has_finished()) => format!(
                "job '{name}' is not running: it has come to its end\n  \
                 hint: what there is of it: {}",
                hints::for_job(job, "snapshots", "")
            ),
            Self::Ended => format!(
                "job '{name}' is not running\n  hint: {}",
                hints::for_job(job, "restart", "")
            ),
        })
    }
}

/// How a job is. `ours`: the lock is this process's own, so it says nothing.
pub fn look(job: &JobDir, record: &JobRecord, ours: bool) -> State {
    let runner = || job.runner().filter(|_| !ours);
    if let Some(owner) = job.other_owner() {
        return runner().map_or(State::Ended, |_| State::Theirs(owner));
    }
    let asked = reach::client(job, record).map(|mut client| client.status(ANSWER_WAIT));
    let recorded = Runner { pid: record.coordinator_pid, host: record.host.clone() };
    match asked {
        Ok(Ok(answer)) => {
            State::Running(serde_json::from_str(&answer.figures).unwrap_or(Value::Null))
        }
        Ok(Err(ClientError::Silent)) => State::silent(record),
        _ => match runner() {
            None => State::Ended,
            Some(runner) if runner == recorded && !record.socket.is_empty() => {
                let is_here = runner.host == fermata_sysio::host_name();
                if is_here { State::Silent(runner) } else { State::Elsewhere(runner) }
            }
            Some(runner) => State::Starting(runner),
        },
    }
}

/// Refuses to do something to another user's job, which only root could come to: the coordinator
/// obeys its owner alone, and what is written there has to stay the owner's.
pub fn check_own(job: &JobDir, command: &str) -> Result<()> {
    let Some(owner) = job.other_owner() else { return Ok(()) };
    let name = job.path().file_name().unwrap_or_default().to_string_lossy();
    let dir = job.path().parent().filter(|dir| !dir.as_os_str().is_empty());
    Err(refused(format!(
        "job '{name}' belongs to user {owner}, not to you (user {})\n  \
         hint: a job obeys its owner: sudo -u '#{owner}' fermata --dir {} {command} {name}",
        fermata_sysio::effective_uid(),
        dir.unwrap_or(Path::new(".")).display()
    )))
}

/// How a job is. One that begins or ends just now is given a moment.
pub fn state_of(job: &JobDir, record: &JobRecord) -> State {
    let begun = Instant::now();
    let mut record = record.clone();
    loop {
        let state = look(job, &record, false);
        let settled = matches!(state, State::Running(_) | State::Theirs(_) | State::Ended);
        if settled || begun.elapsed() >= MOMENT {
            return state;
        }
        thread::sleep(POLL);
        record = job.read_record().unwrap_or(record);
    }
}

/// Takes a job, whose directory exists, for a new run. One that is ending is waited for.
pub fn take(job: &JobDir, timeout: Duration) -> Result<JobLock> {
    let begun = Instant::now();
    loop {
        let lock = job.hold(POLL).map_err(|error| {
            refused(format!("{error}\n  hint: give a directory of yours with --dir or FERMATA_DIR"))
        })?;
        let record = job.read_record().unwrap_or_default();
        // Also with the lock: where there are none, the coordinator's answer is all there is.
        let state = look(job, &record, lock.is_some());
        match (lock, state) {
            (Some(lock), State::Ended) => return Ok(lock),
            (lock, state) if state.is_at_work() || begun.elapsed() >= timeout => {
                // Somebody else has just had it, again and again.
                let is_taken = lock.is_none() && state == State::Ended;
                let state = if is_taken { State::Starting(Runner::default()) } else { state };
                return Err(state.refusal(job));
            }
            _ => thread::sleep(POLL),
        }
    }
}

/// Ranks outlive a `fermata run` that is killed. Two runs of a job would write to the same files.
/// Of ranks on hosts that runs have lost the user is only warned: nobody can end them, and they
/// cannot reach what the others do.
pub fn refuse_living_ranks(job: &JobDir, name: &str, size: u32, lost: &[String]) -> Result<()> {
    let begun = Instant::now();
    let mut living = job.living_ranks(size);
    while !living.is_empty() && begun.elapsed() < ENDING_WAIT {
        thread::sleep(Duration::from_millis(50));
        living = job.living_ranks(size);
    }
    if !lost.is_empty() && living.iter().any(|(_, pid)| pid.is_none()) {
        living.retain(|(_, pid)| pid.is_some());
        print_error(format_args!(
            "host {} was lost, and ranks of job '{name}' still run there\n  \
             hint: end them before it has its network back; they would write to the same files",
            lost.join(", ")
        ));
    }
    let Some((last, others)) = living.split_last() else { return Ok(()) };
    let here = fermata_sysio::host_name();
    let place = |(rank, pid): &(u32, Option<u32>)| match pid {
        Some(pid) => format!("rank {rank} is process {pid} on host {here}"),
        None => format!("rank {rank} is on another host"),
    };
    let mut text: String = others.iter().take(7).map(|rank| place(rank) + ", ").collect();
    if others.len() > 7 {
        text += &format!("{} more, ", others.len() - 7);
    }
    Err(refused(format!(
        "ranks of job '{name}' still run, though whoever ran it is gone: {text}{}\n  \
         hint: wait until they have ended, or end them (kill); restart the job then",
        place(last)
    )))
}
