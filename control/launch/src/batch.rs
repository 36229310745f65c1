// SPDX-License-Identifier: Apache-2.0
//! What a batch system tells of the job that this process runs in: when its time ends, and whether
//! it can be queued again. One table says how each is recognised and asked; what it answers is read
//! by pure functions.
//!
//! Slurm's end is asked for anew, because it moves: an administrator gives a job more time, and a
//! job that is preempted ends when its grace does.

use crate::ask::ask;
use crate::problem::usage;
use anyhow::{Result, anyhow};
use fermata_levels::Groups;
use fermata_levels::groups::Tables;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::process::Command;
use std::time::Duration;

/// The signals that are meant for a whole job: who sends one may send it to all its processes.
pub const OF_THE_JOB: [i32; 5] = [SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2];

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A batch system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// slurm.schedmd.com
    Slurm,
    /// OpenPBS, PBS Pro, Torque
    Pbs,
    /// IBM Spectrum LSF
    Lsf,
    /// flux-framework.org
    Flux,
}

/// How a batch system is recognised and asked for the end of the job `{job}`.
struct Row {
    system: System,
    name: &'static str,
    /// The variable that names the job.
    variable: &'static str,
    question: &'static [&'static str],
}

/// An allocation of another system may be inside one of Slurm's: the inner one ends first.
const SYSTEMS: [Row; 4] = [
    Row {
        system: System::Flux,
        name: "Flux",
        variable: "FLUX_JOB_ID",
        question: &["flux", "job", "timeleft", "{job}"],
    },
    Row {
        system: System::Slurm,
        name: "Slurm",
        variable: "SLURM_JOB_ID",
        question: &["scontrol", "show", "job", "-o", "{job}"],
    },
    Row {
        system: System::Pbs,
        name: "PBS",
        variable: "PBS_JOBID",
        question: &["qstat", "-f", "{job}"],
    },
    Row {
        system: System::Lsf,
        name: "LSF",
        variable: "LSB_JOBID",
        question: &["bjobs", "-noheader", "-o", "time_left", "{job}"],
    },
];

/// When a job's time ends, as a batch system tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Seconds since 1970.
    At(u64),
    /// So many seconds from when it is asked.
    In(u64),
    /// There is none.
    Never,
}

/// The job that this process runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whose.
    pub system: System,
    /// As the system's commands know it.
    pub job: String,
    /// As commands about one task of an array know it.
    pub task: String,
    /// How often the system has begun it again.
    pub restarts: u32,
    /// The end that the environment tells; it may have been moved since.
    pub told_end: Option<u64>,
}

impl Batch {
    /// Looks into this process's environment.
    #[must_use]
    pub fn detect() -> Option<Self> {
        Self::of(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    /// Looks into this environment.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let (row, job) = SYSTEMS.iter().find_map(|row| Some((row, variable(row.variable)?)))?;
        let number = |name: &str| variable(name).and_then(|text| text.parse().ok());
        let is_slurm = row.system == System::Slurm;
        let array = |name| variable(name).filter(|_| is_slurm);
        let task = array("SLURM_ARRAY_JOB_ID").zip(array("SLURM_ARRAY_TASK_ID"));
        Some(Self {
            system: row.system,
            task: task.map_or_else(|| job.clone(), |(array, task)| format!("{array}_{task}")),
            restarts: number("SLURM_RESTART_COUNT")
                .filter(|_| is_slurm)
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(0),
            told_end: number("SLURM_JOB_END_TIME").filter(|_| is_slurm),
            job,
        })
    }

    /// For people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.row().name
    }

    fn row(&self) -> &'static Row {
        let is_it = |row: &&Row| row.system == self.system;
        SYSTEMS.iter().find(is_it).unwrap_or(&SYSTEMS[0])
    }

    /// Asks for the end of the job's time, `now_s` seconds after 1970. Blocks for 20 s at most.
    /// Returns seconds since 1970; `None`: there is no end.
    ///
    /// # Errors
    /// The system does not answer, or not what is expected.
    pub fn ask_end(&self, now_s: u64) -> Result<Option<u64>> {
        let words = self.row().question;
        let answer = ask(self.command(words).env("SLURM_TIME_FORMAT", "%s"), TIMEOUT)?;
        let end = self.read_end(&answer);
        let end = end.ok_or_else(|| anyhow!("{} tells no end of the job's time", words[0]))?;
        Ok(match end {
            End::At(at_s) => Some(at_s),
            End::In(seconds) => Some(now_s.saturating_add(seconds)),
            End::Never => None,
        })
    }

    fn read_end(&self, answer: &str) -> Option<End> {
        match self.system {
            System::Slurm => slurm_end(answer),
            System::Pbs => pbs_end(answer),
            System::Lsf => lsf_end(answer),
            System::Flux => flux_end(answer),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(words[1..].iter().map(|word| word.replace("{job}", &self.job)));
        command
    }

    /// Whether the system can queue the job again from within.
    ///
    /// # Errors
    /// It cannot; with what to do instead.
    pub fn check_requeue(&self) -> Result<()> {
        if self.system == System::Slurm {
            return Ok(());
        }
        Err(usage(format!(
            "--requeue: {} cannot queue a job again from within it\n  \
             hint: --chain 'COMMAND-LINE' instead, with what submits the job",
            self.name()
        )))
    }

    /// Queues the job again, unless the system has done so by itself. Slurm may end this process
    /// at once. Blocks for 40 s at most. Returns what has been done, for people.
    ///
    /// # Errors
    /// The system cannot, or does not; with what to do instead.
    pub fn requeue(&self) -> Result<String> {
        self.check_requeue()?;
        let mut squeue = Command::new("squeue");
        let state = ask(squeue.args(["-h", "-o", "%T", "-j", &self.task]), TIMEOUT);
        if state.is_ok_and(|state| is_queued(&state)) {
            return Ok(format!("Slurm has queued job {} again", self.task));
        }
        let mut scontrol = Command::new("scontrol");
        ask(scontrol.args(["requeue", &self.task]), TIMEOUT).map_err(|error| {
            anyhow!(
                "{error:#}\n  hint: submit the job with --requeue, or use --chain 'sbatch SCRIPT'"
            )
        })?;
        Ok(format!("job {} is queued again (restart {})", self.task, self.restarts + 1))
    }

    /// The hosts of the allocation, if the system lists them.
    ///
    /// # Errors
    /// It does not answer.
    pub fn hosts(&self) -> Result<Vec<String>> {
        if self.system != System::Slurm {
            return Err(anyhow!("the hosts of a job of {} are not known here", self.name()));
        }
        let answer = ask(Command::new("scontrol").args(["show", "hostnames"]), TIMEOUT)?;
        Ok(answer.split_whitespace().map(str::to_owned).collect())
    }

    /// Which hosts hang on one switch, or are of one block, as `topology.conf` says. None: the
    /// system has nothing of that, or does not answer.
    #[must_use]
    pub fn switches(&self) -> Groups {
        if self.system != System::Slurm {
            return Groups::default();
        }
        let answer = ask(Command::new("scontrol").args(["show", "topology"]), TIMEOUT);
        answer.ok().and_then(|text| leaves(&text).try_into().ok()).unwrap_or_default()
    }
}

/// `scontrol show topology`: a line for each switch, of which those of level 0 have the hosts.
fn leaves(answer: &str) -> Tables {
    let mut tables = Tables::new();
    for line in answer.lines() {
        let value = |key: &str| {
            let words = line.split_whitespace();
            words.filter_map(|word| word.split_once('=')).find(|(word, _)| *word == key)
        };
        if value("Level").is_some_and(|(_, level)| level != "0") {
            continue;
        }
        let group = value("SwitchName").or_else(|| value("BlockName"));
        let (Some((kind, name)), Some((_, hosts))) = (group, value("Nodes")) else { continue };
        let grouping = if kind == "SwitchName" { "switch" } else { "block" };
        tables.entry(grouping.into()).or_default().insert(name.into(), hosts.into());
    }
    tables
}

/// `scontrol show job -o`, with times as seconds since 1970.
fn slurm_end(answer: &str) -> Option<End> {
    let mut words = answer.split_whitespace();
    let word = words.find_map(|word| word.strip_prefix("EndTime="))?;
    match word {
        "Unknown" | "None" | "N/A" | "NONE" => Some(End::Never),
        // A job without a limit ends in a year, as Slurm says it.
        _ if answer.contains("TimeLimit=UNLIMITED") => Some(End::Never),
        seconds => seconds.parse().ok().map(End::At),
    }
}

/// `qstat -f`: Torque tells what remains, PBS what was asked for and what is used.
fn pbs_end(answer: &str) -> Option<End> {
    let value = |name: &str| {
        let line = answer.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split_once('=').map(|(_, value)| value.trim().to_owned())
    };
    if let Some(remaining) = value("Walltime.Remaining") {
        return remaining.parse().ok().map(End::In);
    }
    let Some(limit) = value("Resource_List.walltime") else {
        return answer.contains("job_state").then_some(End::Never);
    };
    let used = value("resources_used.walltime").and_then(|text| clock_s(&text)).unwrap_or(0);
    Some(End::In(clock_s(&limit)?.saturating_sub(used)))
}

/// `bjobs -o time_left`: hours and minutes, with a letter that says where the limit is from.
fn lsf_end(answer: &str) -> Option<End> {
    match answer.split_whitespace().next()? {
        "-" => Some(End::Never),
        // The minute has begun.
        time => clock_s(&format!("{time}:00")).map(|left| End::In(left.saturating_sub(60))),
    }
}

/// `flux job timeleft`: seconds.
fn flux_end(answer: &str) -> Option<End> {
    match answer.trim() {
        "infinity" | "inf" => Some(End::Never),
        seconds => seconds.split('.').next()?.parse().ok().map(End::In),
    }
}

/// `100:00:00`, `10:00`, `90`
fn clock_s(text: &str) -> Option<u64> {
    text.split(':')
        .try_fold(0u64, |sum, part| sum.checked_mul(60)?.checked_add(part.trim().parse().ok()?))
}

/// What `squeue -o %T` says of a job that waits to run.
fn is_queued(state: &str) -> bool {
    let is_waiting = |word: &str| matches!(word, "PENDING" | "REQUEUED" | "REQUEUE_HOLD");
    state.split_whitespace().any(is_waiting)
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
