// SPDX-License-Identifier: Apache-2.0
//! `run`, and what `restart` has in common with it: a job on this host or several, with the
//! coordinator inside this process and the MPI's own mpirun as child. The job's standard streams
//! are not touched.
//!
//! Invariant: this process holds the job's lock from before it looks at the job until its own end.

use crate::again;
use crate::app::App;
use crate::ending::{End, command_to_resume};
use crate::environment;
use crate::exit::refused;
use crate::files::{self, Rule};
use crate::hints;
use crate::hosts::{self, Hosts};
use crate::jobs::{JobsDir, unix_now_s};
use crate::kept;
use crate::key;
use crate::moved::{Images, Moves};
use crate::output::Output;
use crate::parts;
use crate::registry::{Family, Lower, Prefix};
use crate::several;
use crate::state::{refuse_living_ranks, take};
use crate::stdin::give_stdin;
use crate::wait;
use anyhow::{Context, Result};
use fermata_coordinator::{Handle, Options};
use fermata_storage::{JobDir, JobLock, list_snapshots, within};
use fermata_sysio::{FileLimit, Process, host_name};
use fermata_transport::Secret;
use fermata_types::{Checkpointer, JobRecord, each_program};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// What `run` and `restart` have in common.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Name of the registered MPI to run on.
    pub mpi: Option<String>,
    /// Interval of periodic checkpoints in ms, 0 = none; `None`: as the job was started with.
    pub every_ms: Option<u64>,
    /// Snapshots to keep; `None`: as the job was started with, else 2.
    pub keep: Option<u32>,
    /// What saves the ranks; at a restart the snapshot knows.
    pub checkpointer: Checkpointer,
    /// Hosts as given, `NAME` or `NAME:RANKS`; none = this one.
    pub hosts: Vec<String>,
    /// A file of them.
    pub hostfile: Option<PathBuf>,
    /// What mpirun starts commands on other hosts with.
    pub remote_shell: Option<String>,
    /// Each host's own directory for images.
    pub local_dir: Option<PathBuf>,
    /// Arguments for mpirun itself.
    pub mpirun_args: Vec<String>,
    /// What makes collective calls whole; a restart continues with what the image has.
    pub collectives: String,
    /// Files whose contents are saved; a restart continues with what the image has.
    pub save_files: SaveFiles,
    /// Images are encrypted; a restart continues as the image is.
    pub encrypt: bool,
}

/// Which files are saved with their contents.
#[derive(Clone, Debug)]
pub struct SaveFiles {
    /// As `kept::parse_which` makes it; `None`: as the environment says.
    pub which: Option<String>,
    /// The most bytes of a rank.
    pub limit: u64,
}

impl Default for SaveFiles {
    fn default() -> Self {
        Self { which: None, limit: 1 << 30 }
    }
}

impl Start {
    /// The hosts that were given, if any, and whether they can do what is asked of them.
    pub fn hosts(&self, ranks: u32, checkpointer: Checkpointer) -> Result<Option<Hosts>> {
        let hosts = Hosts::from(&self.hosts, self.hostfile.as_deref(), ranks)?;
        hosts::check_shares(checkpointer, self.local_dir.as_deref())?;
        Ok(hosts)
    }
}

/// What a run is launched with.
pub struct LaunchContext<'a> {
    /// Where Fermata is installed.
    pub prefix: &'a Prefix,
    /// The MPI below.
    pub lower: &'a Lower,
    /// As the command says.
    pub start: &'a Start,
    /// The hosts; `None`: this one, or those that mpirun knows of.
    pub hosts: Option<Hosts>,
}

/// What a run continues from.
pub struct Restore {
    /// The snapshot.
    pub snapshot: PathBuf,
    /// Its images; none if the program saved itself.
    pub images: Images,
    /// What to do about files that have changed.
    pub files: Rule,
    /// Directories that have moved, as given.
    pub moves: Moves,
}

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

/// Snapshots kept when nobody says.
pub const KEEP_DEFAULT: u32 = 2;

/// What a job's name may consist of, beside letters and digits.
const NAME_SIGNS: &str = "._-+";
const PROGRAM_IN_NAME_MAX: usize = 40;
/// So long a new run waits for one that is just ending.
const ENDING_WAIT: Duration = Duration::from_secs(3);

/// `fermata run`
pub fn run(
    start: &Start,
    ranks: u32,
    place: &JobsDir,
    name: Option<&str>,
    front: Option<&str>,
    command: &[OsString],
    output: Output,
) -> Result<u8> {
    let prefix = Prefix::find()?;
    let mut programs = several::split(command, ranks)?;
    let apps = programs.iter().map(|program| App::resolve(&program.argv));
    let app = apps.collect::<Result<Vec<_>>>()?.swap_remove(0);
    let native = if front.is_some() { Some(app.front(front, None)?.family) } else { app.family()? };
    let lower = prefix.choose(start.mpi.as_deref(), native)?;
    let front = app.front(front, Some(lower.family))?;
    front.path(&prefix)?;
    prefix.check_ready(&lower)?;
    let ranks = several::ranks(&programs)?;
    let hosts = start.hosts(ranks, start.checkpointer)?;
    if start.encrypt {
        key::check_encryption(start.checkpointer)?;
    }
    let (job, name, _lock) = new_job(place, name, &app)?; // the lock: until this process ends
    let record = JobRecord {
        job: name,
        argv: programs[0].argv.clone(),
        programs: if programs.len() > 1 { std::mem::take(&mut programs) } else { vec![] },
        cwd: cwd(),
        size: ranks,
        lower: lower.name.clone(),
        front: front.name.into(),
        started_unix_s: unix_now_s(),
        keep: start.keep.unwrap_or(KEEP_DEFAULT),
        checkpointer: start.checkpointer,
        ..JobRecord::default()
    };
    parts::keep(&prefix, &job, &record.front);
    launch(
        &LaunchContext { prefix: &prefix, lower: &lower, start, hosts },
        &job,
        record,
        None,
        output,
    )
}

fn cwd() -> String {
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
            refuse_living_ranks(&job, name, record.size, &record.lost_host)?;
        }
        if !list_snapshots(&job).is_empty() {
            // What has ended well is not to be done again.
            let ended_well = job.read_record().is_ok_and(|record| record.ended_well);
            let restart = format!("{}, or ", hints::for_job(&job, "restart", ""));
            return Err(refused(format!(
                "a job '{name}' with snapshots exists in {}\n  hint: {}another --name",
                place.dir().display(),
                if ended_well { "" } else { &restart }
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

/// The name of a program as a part of a job's name.
pub fn name_after(program: &OsStr) -> String {
    let name = Path::new(program).file_name().unwrap_or("job".as_ref()).to_string_lossy();
    let name = name.trim_start_matches('.');
    let fine = |c: char| if NAME_SIGNS.contains(c) || c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(fine).take(PROGRAM_IN_NAME_MAX).collect()
}

/// A name becomes a directory and goes into every image.
pub fn check_name(name: &str) -> Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || NAME_SIGNS.contains(c);
    if name.is_empty() || name.len() > 63 || name.starts_with('.') || !name.chars().all(fine) {
        return Err(crate::exit::usage(format!(
            "'{name}' is no job name: use up to 63 letters, digits and . _ - +"
        )));
    }
    Ok(())
}

/// Starts the job and waits for its end. Everything that could be refused has been looked at;
/// files are cut back when all that comes before the ranks has worked.
pub fn launch(
    means: &LaunchContext,
    job: &JobDir,
    mut record: JobRecord,
    restore: Option<Restore>,
    output: Output,
) -> Result<u8> {
    let start = means.start;
    let job = job.canonical()?;
    let network = spans_hosts(start);
    let restored = restore.as_ref().map(|restore| restore.snapshot.clone());
    let every_ms = start.every_ms.unwrap_or(0);
    let service = Service { every_ms, network, restored, ..Service::default() };
    again::note(&mut record, start, means.hosts.as_ref().map_or(&[], Hosts::all));
    key::tell_if_missing();
    let file_limit = FileLimit::of_this_process();
    let coordinator = start_coordinator(&job, &mut record, service)?;
    let spawn = || {
        // Where hosts share the job's directory they read it there: what mpirun hands over crosses
        // the network in clear.
        let secret = coordinator.secret().filter(|_| start.local_dir.is_some());
        let secret = secret.map(Secret::to_text);
        let mut command =
            mpirun_command(means, &record, secret.as_deref(), &job, restore.as_ref())?;
        if record.checkpointer == Checkpointer::Itself {
            command.current_dir(&record.cwd); // as an image has it, where there is one
        }
        file_limit.give_to(&mut command);
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
    let waited = spawn().and_then(|child| wait::for_mpirun(child, &coordinator, &resume));
    let ending = wait::for_coordinator(coordinator)?;
    let end = waited.map(|waited| End::of(&waited, &ending));
    record.ended_well = end.as_ref().is_ok_and(End::is_well);
    record.lost_host = ending.lost_host.filter(|_| !record.ended_well).unwrap_or_default().name;
    // Other hosts cannot see that this process is gone. If this fails, they are only less sure.
    record.socket.clear();
    record.addresses.clear();
    let (last, directory) = (record.clone(), job.clone());
    within(ending.timeout, move || again::write(&directory, &last));
    let end = end?;
    end.tell(&job, start, ending.timeout);
    end.answer(&record, output);
    Ok(end.code)
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

fn no_directory(why: &str) -> anyhow::Error {
    let hint = "give a directory of yours with --dir or FERMATA_DIR";
    refused(format!("snapshots cannot be kept: {why}\n  hint: {hint}"))
}

/// Whether ranks may be on other hosts, also on those that only mpirun knows of.
pub fn spans_hosts(start: &Start) -> bool {
    !start.hosts.is_empty()
        || start.hostfile.is_some()
        || start.local_dir.is_some()
        || !start.mpirun_args.is_empty()
        || hosts::batch_system_has_several()
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

/// mpirun with all that it is told: once for each program of the job.
fn mpirun_command(
    means: &LaunchContext,
    record: &JobRecord,
    secret: Option<&str>,
    job: &JobDir,
    restore: Option<&Restore>,
) -> Result<Command> {
    let LaunchContext { lower, start, hosts, .. } = means;
    let (mpirun, template) = lower
        .mpirun
        .split_first()
        .with_context(|| format!("MPI '{}' has no mpirun; add it again", lower.name))?;
    let mut command = Command::new(mpirun);
    command.env_remove(Secret::VARIABLE);
    environment::for_mpi(&mut command, lower);
    let family = lower.family;
    if let Some(shell) = &start.remote_shell {
        hosts::use_remote_shell(&mut command, shell);
    }
    let stdin = give_stdin(&mut command, record, family, restore.is_some());
    let rank = rank_words(means, record, job, restore, stdin)?;
    let programs = each_program(&record.programs, &record.argv, record.size);
    for (i, program) in programs.iter().enumerate() {
        if i > 0 {
            command.arg(":");
        }
        command.args(template.iter().map(|arg| arg.replace("{n}", &program.ranks.to_string())));
        // Open MPI's wants the hosts for each program, MPICH's once.
        if let Some(hosts) = hosts.as_ref().filter(|_| i == 0 || family == Family::OpenMpi) {
            hosts.tell(&mut command, family);
        }
        if i == 0 {
            command.args(&start.mpirun_args);
            let here = hosts.as_ref().map_or(record.size, Hosts::most_ranks);
            settle_open_mpi(&mut command, family, here);
        }
        environment::hand_over(&mut command, family, spans_hosts(start));
        if let Some(secret) = secret {
            hosts::hand_over(&mut command, family, Secret::VARIABLE, secret);
        }
        command.args(&rank).arg("--").args(&program.argv);
    }
    Ok(command)
}

/// What Open MPI's mpirun is told in any case. `here`: the most ranks of a host.
fn settle_open_mpi(command: &mut Command, family: Family, here: u32) {
    if family != Family::OpenMpi {
        return;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let crowded = here as usize > cores;
    command.arg("--oversubscribe");
    command.env("OMPI_MCA_mpi_yield_when_idle", if crowded { "1" } else { "0" });
    if fermata_sysio::effective_uid() == 0 {
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
}

/// What mpirun starts as each rank, up to the program.
fn rank_words(
    means: &LaunchContext,
    record: &JobRecord,
    job: &JobDir,
    restore: Option<&Restore>,
    stdin: Option<String>,
) -> Result<Vec<OsString>> {
    let start = means.start;
    let mut words = vec![means.prefix.fermata()?.into_os_string()];
    let mut add = |option: &[&str]| words.extend(option.iter().map(OsString::from));
    add(&["exec", "--mpi", &record.lower, "--front", &record.front]);
    add(&["--name", &record.job, "--socket", &record.socket]);
    add(&["--collectives", &start.collectives]);
    if let Some(which) = kept::chosen(start.save_files.which.as_deref())? {
        add(&["--save-files", &kept::text_of(&which)]);
        add(&["--files-limit", &start.save_files.limit.to_string()]);
    }
    if start.encrypt {
        add(&["--encrypt"]);
    }
    if !record.addresses.is_empty() {
        let found_at = format!("{},{}", record.host, record.addresses.join(","));
        add(&["--coordinator", &found_at]);
    }
    if let Some(restore) = restore {
        add(&["--files", restore.files.name(), "--settled", &host_name()]);
        restore.moves.arguments().for_each(|[option, text]| add(&[&option, &text]));
    }
    if let Some(stdin) = stdin {
        add(&["--stdin", &stdin]);
    }
    let paths = [
        ("--job-dir", Some(job.path())),
        ("--local-dir", start.local_dir.as_deref()),
        ("--restore", restore.map(|restore| restore.snapshot.as_path())),
    ];
    for (option, path) in paths.iter().filter_map(|(option, path)| Some((option, (*path)?))) {
        words.extend([OsString::from(option), path.as_os_str().to_owned()]);
    }
    Ok(words)
}
