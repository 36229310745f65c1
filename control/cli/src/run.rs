// SPDX-License-Identifier: Apache-2.0
//! `run`, and what `restart` has in common with it: a job on this host or several, with the
//! coordinator inside this process and the MPI's own mpirun as child. The job's standard streams
//! are not touched.
//!
//! Invariant: this process holds the job's lock from before it looks at the job until its own end.

use crate::again;
use crate::ended;
use crate::ending::{End, command_to_resume};
use crate::exit::refused;
use crate::hints;
use crate::jobs::{JobsDir, unix_now_s};
use crate::life::Life;
use crate::output::Output;
use crate::recover::{self, From};
use crate::service::{self, Service, make_directory, no_directory, start_coordinator};
use crate::several;
use crate::state::{refuse_living_ranks, take};
use crate::wait;
use anyhow::{Context, Result};
use fermata_launch::allocation;
use fermata_launch::app::App;
use fermata_launch::batch::Batch;
use fermata_launch::hosts::Hosts;
use fermata_launch::mpi::{Family, Lower};
use fermata_launch::mpirun::{self, LaunchContext, Restore};
use fermata_launch::names::{check_name, name_after};
use fermata_launch::registry::Prefix;
use fermata_launch::start::{KEEP_DEFAULT, Start};
use fermata_launch::{files, kept, key, parts};
use fermata_levels::Groups;
use fermata_storage::{JobDir, JobLock, list_snapshots, read_manifest};
use fermata_sysio::signals::ignore_for;
use fermata_sysio::{FileLimit, print_error};
use fermata_transport::Secret;
use fermata_types::{Checkpointer, JobRecord, ProgramRecord};
use std::ffi::OsString;
use std::time::Duration;

/// So long a new run waits for one that is just ending.
const ENDING_WAIT: Duration = Duration::from_secs(3);

/// What is to be run.
pub struct Wanted {
    /// How many ranks, of the first of several programs; `None`: nobody says.
    pub ranks: Option<u32>,
    /// The job's name, if it is to have a certain one.
    pub name: Option<String>,
    /// The program's MPI, if it is told.
    pub front: Option<String>,
    /// The program, or several, as `several::split` takes them.
    pub command: Vec<OsString>,
}

impl Wanted {
    /// The programs, each with its ranks: those of the only one are the batch system's if nobody
    /// says.
    fn programs(&self) -> Result<Vec<ProgramRecord>> {
        let is_open = self.ranks.is_none() && !self.command.iter().any(|word| word == ":");
        let allocated = if is_open { allocation::ranks()? } else { None };
        if let Some((ranks, variable)) = allocated {
            print_error(format_args!("-n {ranks}, as {variable} says"));
        }
        let ranks = self.ranks.or(allocated.map(|(ranks, _)| ranks)).unwrap_or(1);
        several::split(&self.command, ranks)
    }
}

/// A job that can be run: all that could be refused has been looked at.
pub struct Plan {
    prefix: Prefix,
    lower: Lower,
    front: &'static str,
    app: App,
    programs: Vec<ProgramRecord>,
    ranks: u32,
}

impl Plan {
    /// # Errors
    /// It cannot be run.
    pub fn of(start: &Start, wanted: &Wanted) -> Result<Self> {
        let prefix = Prefix::find()?;
        let programs = wanted.programs()?;
        let apps = programs.iter().map(|program| App::resolve(&program.argv));
        let app = apps.collect::<Result<Vec<_>>>()?.swap_remove(0);
        let front = wanted.front.as_deref();
        let told = front.map(|_| app.front(front, None)).transpose()?;
        let native = told.map_or_else(|| app.family(), |front| Ok(Some(front.family)))?;
        let lower = prefix.choose(start.mpi.as_deref(), native)?;
        let front = app.front(front, Some(lower.family))?;
        front.path(&prefix)?;
        prefix.check_ready(&lower)?;
        let ranks = several::ranks(&programs)?;
        start.hosts(ranks, start.checkpointer)?;
        if start.encrypt {
            key::check_encryption(start.checkpointer)?;
        }
        Ok(Self { prefix, lower, front: front.name, app, programs, ranks })
    }

    /// Runs it from its beginning, as this job, which has been taken for that.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(
        self,
        start: &Start,
        job: &JobDir,
        name: String,
        life: Life,
        output: Output,
    ) -> Result<u8> {
        let Self { prefix, lower, front, mut programs, ranks, .. } = self;
        let record = JobRecord {
            job: name,
            argv: programs[0].argv.clone(),
            programs: if programs.len() > 1 { std::mem::take(&mut programs) } else { vec![] },
            cwd: cwd(),
            size: ranks,
            lower: lower.name.clone(),
            front: front.into(),
            keep: start.keep.unwrap_or(KEEP_DEFAULT),
            checkpointer: start.checkpointer,
            ..JobRecord::default()
        };
        parts::keep(&prefix, job, &record.front);
        recover::until_it_ends(start, From::Beginning(job.clone(), Box::new(record)), life, output)
    }
}

/// Runs a job from its beginning, as this record says.
///
/// # Errors
/// Nobody can start it.
pub fn begin(job: &JobDir, start: &Start, record: JobRecord, life: &mut Life) -> Result<Ran> {
    let prefix = Prefix::find()?;
    let lower = prefix.choose(Some(&record.lower), None)?;
    let hosts = start.hosts(record.size, record.checkpointer)?;
    let context = LaunchContext { prefix: &prefix, lower: &lower, start, hosts };
    let record = JobRecord { started_unix_s: unix_now_s(), ..record };
    launch(&context, job, record, None, life)
}

/// `fermata run`
pub fn run(
    start: &Start,
    wanted: &Wanted,
    place: &JobsDir,
    life: Life,
    output: Output,
) -> Result<u8> {
    let plan = Plan::of(start, wanted)?;
    // The lock: until this process ends.
    let (job, name, _lock) = new_job(place, wanted.name.as_deref(), &plan.app)?;
    plan.run(start, &job, name, life, output)
}

pub fn cwd() -> String {
    std::env::current_dir().map_or(String::new(), |dir| dir.to_string_lossy().into_owned())
}

/// The directory of a new job, taken for this run.
fn new_job(place: &JobsDir, name: Option<&str>, app: &App) -> Result<(JobDir, String, JobLock)> {
    if let Some(name) = name {
        check_name(name)?;
        let job = place.job(name);
        make_directory(&job)?;
        let lock = take(&job, ENDING_WAIT)?;
        if let Ok(record) = job.read_record() {
            refuse_living_ranks(&job, name, record.size, &record.lost_hosts())?;
        }
        if !list_snapshots(&job).is_empty() {
            // What has ended well is not to be done again.
            let has_finished = job.read_record().is_ok_and(|record| record.has_finished());
            let restart = format!("{}, or ", hints::for_job(&job, "restart", ""));
            return Err(refused(format!(
                "a job '{name}' with snapshots exists in {}\n  hint: {}another --name",
                place.dir().display(),
                if has_finished { "" } else { &restart }
            )));
        }
        return Ok((job, name.to_owned(), lock));
    }
    let program = name_after(&app.argv[0]);
    for number in 1..=10_000 {
        let name = format!("{program}-{number}");
        let job = place.job(&name);
        if job.create_new().map_err(|error| no_directory(&error.to_string()))? {
            make_directory(&job)?;
            let lock = take(&job, ENDING_WAIT)?;
            return Ok((job, name, lock));
        }
    }
    Err(refused(format!("too many jobs in {}", place.dir().display())))
}

/// A run that is over.
pub struct Ran {
    /// How.
    pub end: End,
    /// What there is to say of it, for the next one.
    pub record: JobRecord,
    /// That is on disk.
    pub is_recorded: bool,
    /// How long the job's directory may be waited for.
    pub timeout: Duration,
}

/// Which hosts fail together: what the site says, else what Slurm knows.
pub fn failure_groups(start: &Start) -> Groups {
    let is_asked = start.groups.is_empty() && start.levels.is_some();
    match Batch::detect().filter(|_| is_asked) {
        Some(batch) => batch.switches(),
        None => start.groups.clone(),
    }
}

/// Starts the job and waits for its end. Everything that could be refused has been looked at;
/// files are cut back when all that comes before the ranks has worked.
pub fn launch(
    context: &LaunchContext,
    job: &JobDir,
    mut record: JobRecord,
    restore: Option<Restore>,
    life: &mut Life,
) -> Result<Ran> {
    let start = context.start;
    let job = job.canonical()?;
    let network = start.spans_hosts();
    let restored = restore.as_ref().map(|restore| restore.snapshot.clone());
    let every = start.every.unwrap_or_default();
    let nodes = u32::try_from(context.hosts.as_ref().map_or(1, |hosts| hosts.all().len()))?;
    let bytes = restored.as_ref().and_then(|path| read_manifest(path, key::own()).ok());
    life.begin_run(bytes.map(|manifest| manifest.bytes()))?;
    again::note(&mut record, start, context.hosts.as_ref().map_or(&[], Hosts::all));
    again::follow(&mut record, &job.read_record().unwrap_or_default(), &job)?;
    key::tell_if_missing();
    let file_limit = FileLimit::of_this_process();
    let told = life.listener();
    // Of a batch job always: its users are on other hosts.
    let has_port = network || allocation::is_in_batch_job();
    let service = Service {
        every,
        machine: start.machine.clone(),
        site: start.site.clone(),
        nodes,
        network: has_port,
        restored,
        levels: start.levels.clone(),
        groups: failure_groups(start),
        told,
        ..Service::default()
    };
    let coordinator = start_coordinator(&job, &mut record, service)?;
    let ignored = life.ignored();
    let spawn = || {
        // Where hosts share the job's directory they read it there: what mpirun hands over crosses
        // the network in clear.
        let secret = coordinator.secret().filter(|_| start.local_dir.is_some());
        let secret = secret.map(Secret::to_text);
        let mut command =
            mpirun::command(context, &record, secret.as_deref(), &job, restore.as_ref())?;
        if record.checkpointer == Checkpointer::Itself {
            command.current_dir(&record.cwd); // as an image has it, where there is one
        }
        file_limit.give_to(&mut command);
        ignore_for(&mut command, ignored.clone());
        if let Some(restore) = &restore {
            files::settle(&restore.images, None, restore.files)?;
            if !network {
                kept::make_missing(&restore.images)?; // else each rank looks after its own
            }
        }
        command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))
    };
    let resume = |host: &str| command_to_resume(&job, start, Some(host));
    let losses = wait::Losses {
        resume: &resume,
        are_outlived: start.survive,
        // Under Slurm they are srun, and another for what ranks start.
        are_children_daemons: context.lower.family == Family::Mpich
            && !start.survive
            && !allocation::is_in_batch_job(),
    };
    let waited =
        spawn().and_then(|child| wait::for_mpirun(child, &record.job, &coordinator, life, &losses));
    let ending = wait::for_coordinator(coordinator)?;
    let end = waited.map(|waited| {
        let end = End::of(context.lower.family, &waited, &ending, life.why(), start.survive);
        (ended::of(&waited, &ending, &end), end)
    });
    let ended = end.as_ref().map_or_else(ended::before_ranks, |(ended, _)| ended.clone());
    record.end(ended, unix_now_s());
    record.lost_host = ending.lost_host.filter(|_| !record.ended_well).unwrap_or_default().name;
    let is_recorded = service::leave(&job, &mut record, ending.timeout);
    let (_, end) = end?;
    Ok(Ran { end, record, is_recorded, timeout: ending.timeout })
}
