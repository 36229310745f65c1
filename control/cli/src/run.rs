// SPDX-License-Identifier: Apache-2.0
//! `run` and `restart`: a job on this host or several, with the coordinator inside this process and
//! the MPI's own mpirun as child. The job's standard streams are not touched.

use crate::app::App;
use crate::exit::{damaged, refused};
use crate::files::{self, Rule};
use crate::hosts::{self, Hosts};
use crate::jobs::{
    Place, check_readable, has_ended, is_running, no_snapshot, refuse_living_ranks, unix_now_s,
    verify_shown,
};
use crate::output::Output;
use crate::programs;
use crate::registry::{Family, Lower, Prefix};
use crate::wait;
use anyhow::{Context, Result};
use fermata_coordinator::{Handle, Options};
use fermata_storage::{JobDir, list_snapshots, read_manifest, verify};
use fermata_sysio::host_name;
use fermata_transport::Secret;
use fermata_types::{Checkpointer, JobRecord, Manifest};
use serde_json::json;
use std::fs::{self, File};
use std::io::Seek;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// What `run` and `restart` have in common.
#[derive(Clone, Debug)]
pub struct Start {
    /// Name of the registered MPI to run on.
    pub mpi: Option<String>,
    /// Interval of periodic checkpoints in ms, 0 = none.
    pub every_ms: u64,
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
    /// What makes collective calls whole; a restart goes on with what the image has.
    pub collectives: String,
}

/// What a coordinator is to do beyond serving its job's record.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// Interval of periodic checkpoints in ms, 0 = none.
    pub every_ms: u64,
    /// Ends by itself when the ranks have gone for this long.
    pub linger: Option<Duration>,
    /// A process that may still start ranks.
    pub outlives: Option<u32>,
    /// Ranks may be on other hosts.
    pub network: bool,
    /// The snapshot this run is restored from.
    pub restored: Option<PathBuf>,
}

/// Snapshots kept when nobody says.
pub const KEEP_DEFAULT: u32 = 2;

/// `checkpoint --stop` returns when the snapshot is committed; the ranks and mpirun end after that.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// `fermata run`
pub fn run(
    start: &Start,
    ranks: u32,
    place: &Place,
    name: Option<&str>,
    front: Option<&str>,
    command: &[String],
    output: Output,
) -> Result<u8> {
    let prefix = Prefix::find()?;
    let app = App::resolve(command)?;
    let native = app.front(front, None)?.family;
    let lower = prefix.choose(start.mpi.as_deref(), Some(native))?;
    let front = app.front(front, Some(lower.family))?;
    front.path(&prefix)?;
    prefix.check_ready(&lower)?;
    let (job, name) = new_job(place, name, &app)?;
    let record = JobRecord {
        job: name,
        argv: command.to_vec(),
        cwd: cwd(),
        size: ranks,
        lower: lower.name.clone(),
        front: front.name.into(),
        started_unix_s: unix_now_s(),
        keep: start.keep.unwrap_or(KEEP_DEFAULT),
        checkpointer: start.checkpointer,
        ..JobRecord::default()
    };
    launch(&prefix, &lower, start, job, record, None, output)
}

/// `fermata restart`
pub fn restart(
    start: &Start,
    place: &Place,
    what: Option<&str>,
    files: Rule,
    output: Output,
) -> Result<u8> {
    let prefix = Prefix::find()?;
    let (job, snapshot) = find_snapshot(place, what)?;
    check_owner(&snapshot)?;
    let manifest = check_snapshot(&job, &snapshot, output)?;
    let before = job.read_record().ok();
    if let Some(record) = before.as_ref().filter(|record| !has_ended(&job, record, STOP_WAIT)) {
        return Err(refused(format!(
            "job '{}' is running\n  hint: fermata checkpoint {} --stop",
            record.job, record.job
        )));
    }
    let lost_host = before.as_ref().map_or("", |record| &record.lost_host);
    refuse_living_ranks(&job, &manifest.job, manifest.size, lost_host)?;
    warn_of_another_host(before.as_ref());
    let native = if manifest.front == "ompi" { Family::OpenMpi } else { Family::Mpich };
    let lower = prefix.choose(start.mpi.as_deref(), Some(native))?;
    prefix.check_ready(&lower)?;
    let record = JobRecord {
        job: manifest.job.clone(),
        argv: argv_from_its_directory(&manifest),
        cwd: manifest.cwd.clone(),
        size: manifest.size,
        lower: lower.name.clone(),
        front: manifest.front.clone(),
        started_unix_s: unix_now_s(),
        restored_epoch: manifest.epoch,
        keep: start.keep.or(before.map(|record| record.keep)).unwrap_or(KEEP_DEFAULT),
        checkpointer: manifest.checkpointer,
        ..JobRecord::default()
    };
    let images = files::images_of(&snapshot, &manifest); // none if the program saved itself
    if !spans_hosts(start) {
        programs::check(&images)?;
    }
    files::settle(&images, None, files)?;
    launch(&prefix, &lower, start, job, record, Some((snapshot, files)), output)
}

/// The program as it is called from where the job was started, which may be elsewhere.
fn argv_from_its_directory(manifest: &Manifest) -> Vec<String> {
    let mut argv = manifest.argv.clone();
    if let Some(program) = argv.first_mut().filter(|name| name.contains('/')) {
        *program = Path::new(&manifest.cwd).join(&*program).to_string_lossy().into_owned();
    }
    argv
}

/// A job on one other host opens no port: whether it still runs there cannot be seen from here.
fn warn_of_another_host(before: Option<&JobRecord>) {
    let here = fermata_sysio::host_name();
    let unsure = |r: &&JobRecord| !r.socket.is_empty() && !r.host.is_empty() && r.host != here;
    if let Some(record) = before.filter(unsure) {
        eprintln!(
            "fermata: job '{}' was started on host {} and its end was not recorded\n  \
             hint: if that host is still up, make sure that the job no longer runs there",
            record.job, record.host
        );
    }
}

fn cwd() -> String {
    std::env::current_dir().map_or(String::new(), |dir| dir.to_string_lossy().into_owned())
}

/// The directory of a job that does not exist yet.
fn new_job(place: &Place, name: Option<&str>, app: &App) -> Result<(JobDir, String)> {
    if let Some(name) = name {
        check_name(name)?;
        let job = place.job(name);
        if let Ok(record) = job.read_record() {
            if is_running(&job, &record) {
                return Err(refused(format!("a job '{name}' is already running")));
            }
            refuse_living_ranks(&job, name, record.size, &record.lost_host)?;
        }
        if !list_snapshots(&job).is_empty() {
            return Err(refused(format!(
                "a job '{name}' with snapshots exists in {}\n  \
                 hint: fermata restart {name}, or another --name",
                place.dir().display()
            )));
        }
        return Ok((job, name.to_owned()));
    }
    let program = Path::new(&app.argv[0])
        .file_name()
        .map_or("job".into(), |name| name.to_string_lossy().into_owned());
    for number in 1..=10_000 {
        let name = format!("{program}-{number}");
        let job = place.job(&name);
        if !job.path().exists() {
            return Ok((job, name));
        }
    }
    Err(refused(format!("too many jobs in {}", place.dir().display())))
}

/// A name becomes a directory and goes into every image.
pub fn check_name(name: &str) -> Result<()> {
    let fine = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    if name.is_empty() || name.len() > 63 || name.starts_with('.') || !name.chars().all(fine) {
        return Err(crate::exit::usage(format!(
            "'{name}' is no job name: use up to 63 letters, digits and . _ - +"
        )));
    }
    Ok(())
}

/// A snapshot directory as given, or the newest of a job.
fn find_snapshot(place: &Place, what: Option<&str>) -> Result<(JobDir, PathBuf)> {
    if let Some(path) = what.map(Path::new).filter(|path| path.is_dir()) {
        if path.join("manifest.json").exists() || what.is_some_and(|text| text.contains('/')) {
            let path = fs::canonicalize(path)?;
            let snapshots = path.parent().filter(|dir| dir.ends_with("snapshots"));
            let job = match snapshots.and_then(Path::parent) {
                Some(job) => JobDir::at(job.to_owned()),
                None => {
                    let manifest = read_manifest(&path).map_err(|e| damaged(e.to_string()))?;
                    place.job(&manifest.job)
                }
            };
            return Ok((job, path));
        }
    }
    if let Some(path) = what.filter(|what| what.contains('/')) {
        check_readable(Path::new(path))?;
        let hint = "name a job, or a directory .../snapshots/NUMBER";
        return Err(refused(format!("there is no snapshot {path}\n  hint: {hint}")));
    }
    let job = place.find(what)?;
    let Some(newest) = list_snapshots(&job).pop() else {
        return Err(no_snapshot(&job));
    };
    let path = fs::canonicalize(&newest.path)?;
    Ok((job, path))
}

/// An image is a program that will run as us: it must be our own.
fn check_owner(snapshot: &Path) -> Result<()> {
    let ours = fermata_sysio::effective_uid();
    let entries = fs::read_dir(snapshot)
        .map_err(|e| refused(format!("cannot read the snapshot {}: {e}", snapshot.display())))?;
    for path in [snapshot.to_owned()].into_iter().chain(entries.flatten().map(|e| e.path())) {
        let owner = fs::symlink_metadata(&path).map_or(ours, |meta| meta.uid());
        if owner != ours {
            return Err(refused(format!(
                "{} belongs to user {owner}, not to you (user {ours})\n  \
                 hint: what is restored runs as you; if you trust it: chown -R {ours} {}",
                path.display(),
                snapshot.display()
            )));
        }
    }
    Ok(())
}

/// Everything is looked at before any rank runs.
fn check_snapshot(job: &JobDir, snapshot: &Path, output: Output) -> Result<Manifest> {
    let verified = verify_shown(snapshot, output);
    if let (true, Some(manifest)) = (verified.is_good(), verified.manifest) {
        return Ok(manifest);
    }
    let mut text = format!("the snapshot {} cannot be used:", snapshot.display());
    for problem in &verified.problems {
        text += &format!("\n  {problem}");
    }
    let real = |path: &Path| fs::canonicalize(path).ok();
    let intact = list_snapshots(job)
        .into_iter()
        .rev()
        .filter(|other| real(&other.path).as_deref() != Some(snapshot))
        .find(|other| verify(&other.path, |_| {}).is_good());
    text += &match intact {
        Some(other) => format!(
            "\n  hint: the newest intact one is checkpoint {}: fermata restart {}",
            other.epoch,
            other.path.display()
        ),
        None => "\n  hint: no other intact snapshot of this job exists".into(),
    };
    Err(damaged(text))
}

fn launch(
    prefix: &Prefix,
    lower: &Lower,
    start: &Start,
    job: JobDir,
    mut record: JobRecord,
    restore: Option<(PathBuf, Rule)>,
    output: Output,
) -> Result<u8> {
    let hosts = Hosts::from(&start.hosts, start.hostfile.as_deref(), record.size)?;
    hosts::check_shares(record.checkpointer, start.local_dir.as_deref())?;
    make_directory(&job)?;
    let job = JobDir::at(fs::canonicalize(job.path())?);
    let network = spans_hosts(start);
    let restored = restore.as_ref().map(|(snapshot, _)| snapshot.clone());
    let service = Service { every_ms: start.every_ms, network, restored, ..Service::default() };
    let coordinator = start_coordinator(&job, &mut record, service)?;
    let mut command = mpirun_command(lower, start, hosts.as_ref(), &record)?;
    if let Some(secret) = coordinator.secret() {
        hosts::hand_over(&mut command, lower.family, Secret::VARIABLE, &secret.to_text());
    }
    let restore = restore.as_ref().map(|(snapshot, files)| (snapshot.as_path(), *files));
    rank_command(&mut command, prefix, start, &record, &job, restore)?;
    if record.checkpointer == Checkpointer::Itself {
        command.current_dir(&record.cwd); // as an image has it, where there is one
    }
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()));
    let status = child.and_then(|child| wait::for_mpirun(child, &coordinator, &record.job));
    let (stopped, epoch) = (coordinator.was_stopped(), coordinator.committed_epoch());
    record.lost_host = coordinator.lost_host().unwrap_or_default();
    coordinator.stop();
    // Other hosts cannot see that this process is gone. If this fails, they are only less sure.
    record.socket.clear();
    record.addresses.clear();
    let _ = job.write_record(&record);
    report(&record, status?, stopped, epoch, output)
}

fn make_directory(job: &JobDir) -> Result<()> {
    let made = job.create().map_err(|error| error.to_string());
    let why = match made {
        Ok(()) if fermata_sysio::is_writable(&job.snapshots()) => return Ok(()),
        Ok(()) => format!("{} is not writable", job.snapshots().display()),
        Err(why) => why,
    };
    let hint = "give a directory of yours with --dir or FERMATA_DIR";
    Err(refused(format!("snapshots cannot be kept: {why}\n  hint: {hint}")))
}

/// Whether ranks may be on other hosts, also on those that only mpirun knows of.
fn spans_hosts(start: &Start) -> bool {
    let several = |name| std::env::var(name).is_ok_and(|count| count != "1");
    !start.hosts.is_empty()
        || start.hostfile.is_some()
        || start.local_dir.is_some()
        || !start.mpirun_args.is_empty()
        || several("SLURM_JOB_NUM_NODES")
        || ["PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE"]
            .iter()
            .any(|name| std::env::var_os(name).is_some())
}

/// Starts the job's coordinator inside this process and records where it is to be found.
pub fn start_coordinator(job: &JobDir, record: &mut JobRecord, service: Service) -> Result<Handle> {
    let handle = fermata_coordinator::start(Options {
        job: job.clone(),
        name: record.job.clone(),
        argv: record.argv.clone(),
        front: record.front.clone(),
        cwd: record.cwd.clone(),
        checkpointer: record.checkpointer,
        keep: record.keep,
        every_ms: service.every_ms,
        linger: service.linger,
        outlives: service.outlives,
        network: service.network,
        restored: service.restored,
    })
    .context("cannot start the coordinator")?;
    record.host = fermata_sysio::host_name();
    record.socket = handle.socket().into();
    record.addresses = handle.addresses().to_vec();
    record.coordinator_pid = std::process::id();
    job.write_record(record)?;
    Ok(handle)
}

fn report(
    record: &JobRecord,
    status: ExitStatus,
    stopped: bool,
    epoch: u32,
    output: Output,
) -> Result<u8> {
    let native = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    // mpirun calls ranks that end without MPI_Finalize a failure; here it was asked for.
    let code = if stopped { 0 } else { u8::try_from(native).unwrap_or(1) };
    if stopped {
        eprintln!(
            "fermata: job {} stopped at checkpoint {epoch}; go on with: fermata restart {}",
            record.job, record.job
        );
    }
    if output.json {
        let value = json!({"job": record.job, "stopped": stopped, "epoch": epoch, "code": code,
                           "ranks": record.size, "mpi": record.lower});
        output.result("", &value);
    }
    Ok(code)
}

fn mpirun_command(
    lower: &Lower,
    start: &Start,
    hosts: Option<&Hosts>,
    record: &JobRecord,
) -> Result<Command> {
    let (program, template) = lower
        .mpirun
        .split_first()
        .with_context(|| format!("MPI '{}' has no mpirun; add it again", lower.name))?;
    let mut command = Command::new(program);
    command.args(template.iter().map(|arg| arg.replace("{n}", &record.size.to_string())));
    let mut here = record.size;
    if let Some(hosts) = hosts {
        hosts.tell(&mut command, lower.family);
        here = hosts.most_ranks();
    }
    if let Some(shell) = &start.remote_shell {
        hosts::use_remote_shell(&mut command, shell);
    }
    command.args(&start.mpirun_args);
    if lower.family == Family::OpenMpi {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let crowded = here as usize > cores;
        command.arg("--oversubscribe");
        command.env("OMPI_MCA_mpi_yield_when_idle", if crowded { "1" } else { "0" });
        if fermata_sysio::effective_uid() == 0 {
            command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
            command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        }
    }
    Ok(command)
}

/// What mpirun starts as each rank.
fn rank_command(
    command: &mut Command,
    prefix: &Prefix,
    start: &Start,
    record: &JobRecord,
    job: &JobDir,
    restore: Option<(&Path, Rule)>,
) -> Result<()> {
    command.arg(prefix.fermata()?);
    command.args(["exec", "--mpi", &record.lower, "--front", &record.front]);
    command.args(["--name", &record.job, "--socket", &record.socket]);
    command.arg("--job-dir").arg(job.path());
    command.args(["--collectives", &start.collectives]);
    if !record.addresses.is_empty() {
        let found_at = format!("{},{}", record.host, record.addresses.join(","));
        command.args(["--coordinator", &found_at]);
    }
    if let Some(dir) = &start.local_dir {
        command.arg("--local-dir").arg(dir);
    }
    if let Some((snapshot, files)) = restore {
        command.arg("--restore").arg(snapshot);
        command.args(["--files", files.name(), "--settled", &host_name()]);
    }
    // An image has its own standard input.
    let begins = restore.is_none() || record.checkpointer == Checkpointer::Itself;
    if let Some(stdin) = stdin_file().filter(|_| begins) {
        command.args(["--stdin", &stdin]).stdin(Stdio::null());
    }
    command.arg("--").args(&record.argv);
    Ok(())
}

/// `OFFSET:PATH` of the file that standard input is. mpirun would forward its bytes through a pipe,
/// in which no restart finds its place again; so rank 0 reads the file itself.
fn stdin_file() -> Option<String> {
    let path = fs::read_link("/proc/self/fd/0").ok()?;
    let mut file = File::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    let (here, there) = (file.metadata().ok()?, fs::metadata(&path).ok()?);
    let same = here.is_file() && (here.dev(), here.ino()) == (there.dev(), there.ino());
    let offset = file.stream_position().ok().filter(|_| same)?;
    Some(format!("{offset}:{}", path.to_str()?))
}
