// SPDX-License-Identifier: Apache-2.0
//! `restart`: everything is looked at first, from the job's lock to every byte of the snapshot.
//! Then the job is launched as `run` does it.

use crate::again::{Again, again, last_run_of};
use crate::exit::{damaged, refused};
use crate::gathering;
use crate::hints::quoted_path;
use crate::jobs::{JobsDir, check_readable, no_snapshot, unix_now_s};
use crate::life::Life;
use crate::output::Output;
use crate::ownership::check_owner;
use crate::recover::{self, From};
use crate::run::{Ran, launch};
use crate::service::{hint_elsewhere, make_directory};
use crate::state::{State, refuse_living_ranks, state_of, take};
use crate::trust::verify_shown;
use anyhow::Result;
use fermata_faults::{Fault, fault};
use fermata_launch::files::{self, Rule};
use fermata_launch::key;
use fermata_launch::moved::{Images, Moves};
use fermata_launch::mpi::Family;
use fermata_launch::mpirun::{LaunchContext, Restore};
use fermata_launch::names::check_name;
use fermata_launch::parts;
use fermata_launch::programs;
use fermata_launch::registry::Prefix;
use fermata_launch::start::{KEEP_DEFAULT, Start};
use fermata_launch::versions;
use fermata_storage::{JobDir, list_snapshots, read_manifest, read_placed, verify};
use fermata_sysio::print_error;
use fermata_types::{JobRecord, MANIFEST_FILE, Manifest, ProgramRecord, each_program};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `checkpoint --stop` returns when the snapshot is committed; the ranks and mpirun end after that.
pub const STOP_WAIT: Duration = Duration::from_secs(20);

/// How the job is taken up again.
#[derive(Clone)]
pub struct How {
    /// Not on the hosts that it last ran on, but here.
    pub here: bool,
    /// What to do about files that have changed.
    pub files: Rule,
    /// Where directories are now.
    pub moves: Moves,
}

/// `fermata restart`
pub fn restart(
    start: &Start,
    place: &JobsDir,
    what: Option<&str>,
    how: How,
    life: Life,
    output: Output,
) -> Result<u8> {
    let Found { job, origin, snapshot } = find_job(place, what)?;
    snapshot.as_deref().map_or(Ok(()), refuse_placed)?;
    make_directory(&job).map_err(|why| elsewhere(why, &job, snapshot.as_deref()))?;
    let _lock = take(&job, STOP_WAIT)?; // until this process ends
    if snapshot.is_none() {
        gathering::before_restart(&job, start)?;
    }
    let snapshot = snapshot.map_or_else(|| newest(&job), Ok)?;
    let point = Point::check(&job, origin, snapshot, output)?;
    recover::until_it_ends(start, From::Point { point: Box::new(point), how }, life, output)
}

/// A snapshot of which every byte has been checked, and the job, which has been taken for a run.
#[derive(Clone)]
pub struct Point {
    /// Where what comes is kept.
    pub job: JobDir,
    /// The job that the snapshot lies with, if that is another directory.
    pub origin: Option<JobDir>,
    /// The snapshot.
    pub snapshot: PathBuf,
    /// What it consists of.
    pub manifest: Manifest,
}

impl Point {
    /// Looks at every byte.
    ///
    /// # Errors
    /// It is damaged.
    pub fn check(
        job: &JobDir,
        origin: Option<JobDir>,
        snapshot: PathBuf,
        output: Output,
    ) -> Result<Self> {
        let manifest = check_snapshot(origin.as_ref().unwrap_or(job), &snapshot, output)?;
        Ok(Self { job: job.clone(), origin, snapshot, manifest })
    }
}

/// Continues from there and waits for the end of the run.
///
/// # Errors
/// It cannot be continued here, or nobody can start it.
pub fn continue_from(start: &Start, point: Point, how: How, life: &mut Life) -> Result<Ran> {
    let prefix = Prefix::find()?;
    let Point { job, origin, snapshot, manifest } = point;
    let last_run = origin.as_ref().unwrap_or(&job);
    fault(Fault::RestartChecked);
    let before = last_run_of(last_run, &manifest.job, how.here);
    refuse_those_who_run(&job, origin.as_ref(), &manifest, before.as_ref())?;
    warn_of_another_host(before.as_ref());
    let before = before.unwrap_or_else(|| record_of(&manifest));
    let native = if manifest.front == "ompi" { Family::OpenMpi } else { Family::Mpich };
    let Again { start, lower } = again(&prefix, start, how.here, &before, native)?;
    let start = &start;
    prefix.check_ready(&lower)?;
    let record = JobRecord {
        job: manifest.job.clone(),
        argv: from_its_directory(&manifest.argv, &manifest.cwd, &how.moves),
        programs: programs_from_their_directory(&manifest, &how.moves),
        cwd: how.moves.path(&manifest.cwd),
        size: manifest.size,
        lower: lower.name.clone(),
        front: manifest.front.clone(),
        started_unix_s: unix_now_s(),
        restored_epoch: manifest.epoch,
        keep: start.keep.unwrap_or(KEEP_DEFAULT),
        checkpointer: manifest.checkpointer,
        ..JobRecord::default()
    };
    let hosts = start.hosts(record.size, record.checkpointer)?;
    let images = Images::of(&snapshot, &manifest, how.moves);
    versions::check(&images, &manifest.fermata)?;
    tell_what_moves(&snapshot, &images, &manifest)?;
    let moves = images.moves.clone();
    let images = parts::found(&prefix, [&job].into_iter().chain(&origin), images);
    if !start.spans_hosts() {
        files::check_there(&images, &record.cwd)?;
        programs::check(&images)?;
    }
    files::check(&images, how.files)?;
    parts::adopt(&job, &images);
    let restore = Some(Restore { snapshot, images, files: how.files, moves });
    launch(
        &LaunchContext { prefix: &prefix, lower: &lower, start, hosts },
        &job,
        record,
        restore,
        life,
    )
}

/// The program as it is called from where the job was started, which may be elsewhere.
pub fn from_its_directory(argv: &[OsString], cwd: &str, moves: &Moves) -> Vec<OsString> {
    let mut argv = argv.to_vec();
    if let Some(program) = argv.first_mut().filter(|name| name.as_bytes().contains(&b'/')) {
        let path = Path::new(cwd).join(&*program);
        // A path that is no text is not moved.
        *program =
            path.to_str().map_or_else(|| path.clone().into(), |path| moves.path(path).into());
    }
    argv
}

fn programs_from_their_directory(manifest: &Manifest, moves: &Moves) -> Vec<ProgramRecord> {
    let moved = |program: &ProgramRecord| ProgramRecord {
        ranks: program.ranks,
        argv: from_its_directory(&program.argv, &manifest.cwd, moves),
    };
    manifest.programs.iter().map(moved).collect()
}

/// Every path of these images, as it was saved.
fn paths(images: &Images) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (_, image) in images.open() {
        let offsets = [image.header.executable_string, image.header.cwd_string]
            .into_iter()
            .chain(image.regions.iter().map(|region| region.path_string))
            .chain(image.objects.iter().map(|object| object.path_string))
            .chain(image.files.iter().map(|file| file.path_string))
            .chain(image.members.iter().map(|member| member.path_string));
        paths.extend(offsets.map(|offset| image.string(offset)));
    }
    paths.retain(|path| path.starts_with('/'));
    paths
}

/// Tells what is looked for elsewhere.
///
/// # Errors
/// A directory is said to have moved that nothing of the snapshot is in.
fn tell_what_moves(snapshot: &Path, images: &Images, manifest: &Manifest) -> Result<()> {
    if images.moves.is_empty() {
        return Ok(());
    }
    let mut paths = paths(images);
    paths.insert(manifest.cwd.clone());
    for program in each_program(&manifest.programs, &manifest.argv, manifest.size) {
        let argv = from_its_directory(&program.argv, &manifest.cwd, &Moves::default());
        paths.extend(argv.first().and_then(|name| name.to_str()).map(str::to_owned));
    }
    for (one, count) in images.moves.uses(&paths) {
        if count == 0 {
            return Err(refused(format!(
                "--map {}: the snapshot has nothing there\n  \
                 hint: the job's working directory was {}; its files: fermata inspect {} --rank 0",
                one.text(),
                manifest.cwd,
                quoted_path(snapshot)
            )));
        }
        let paths = if count == 1 { "path" } else { "paths" };
        print_error(format_args!("{}: {count} {paths} of the snapshot", one.text()));
    }
    Ok(())
}

/// A job on one other host opens no port: whether it still runs there cannot be seen from here.
fn warn_of_another_host(before: Option<&JobRecord>) {
    let here = fermata_sysio::host_name();
    let unsure = |r: &&JobRecord| !r.socket.is_empty() && !r.host.is_empty() && r.host != here;
    if let Some(record) = before.filter(unsure) {
        print_error(format_args!(
            "job '{}' was started on host {} and its end was not recorded\n  \
             hint: if that host is still up, make sure that the job no longer runs there",
            record.job, record.host
        ));
    }
}

/// Two runs of a job would write to the same files. `origin`: where it was before, if that is
/// another directory, whose lock is not taken: it may be one that nobody can write to.
fn refuse_those_who_run(
    job: &JobDir,
    origin: Option<&JobDir>,
    manifest: &Manifest,
    before: Option<&JobRecord>,
) -> Result<()> {
    let lost = before.map_or_else(Vec::new, JobRecord::lost_hosts);
    refuse_living_ranks(job, &manifest.job, manifest.size, &lost)?;
    let Some((origin, record)) = origin.zip(before) else { return Ok(()) };
    match state_of(origin, record) {
        State::Ended => refuse_living_ranks(origin, &manifest.job, manifest.size, &lost),
        state => Err(state.refusal(origin)),
    }
}

/// What a snapshot that has been copied away from its job tells of the job's last run.
fn record_of(manifest: &Manifest) -> JobRecord {
    JobRecord { lower: manifest.lower.clone(), ..JobRecord::default() }
}

/// An error about a job's directory, with the way out: another one.
fn elsewhere(why: anyhow::Error, job: &JobDir, snapshot: Option<&Path>) -> anyhow::Error {
    let newest = || list_snapshots(job).pop().map(|newest| newest.path);
    let Some(snapshot) = snapshot.map(Path::to_owned).or_else(newest) else { return why };
    let text = format!("{why:#}");
    let what = text.split("\n  hint:").next().unwrap_or_default();
    refused(format!("{what}\n  {}", hint_elsewhere(&snapshot)))
}

/// What a restart finds.
struct Found {
    /// Where what comes is kept.
    job: JobDir,
    /// The job that the snapshot lies with, if that is another directory.
    origin: Option<JobDir>,
    /// The snapshot, if one was given.
    snapshot: Option<PathBuf>,
}

/// A job, and the directory of a snapshot if one was given.
fn find_job(place: &JobsDir, what: Option<&str>) -> Result<Found> {
    if let Some(path) = what.map(Path::new).filter(|path| path.is_dir()) {
        if path.join(MANIFEST_FILE).exists() || what.is_some_and(|text| text.contains('/')) {
            let path = fs::canonicalize(path)?;
            check_owner(&path)?; // before anything is written beside it, or believed
            let origin = JobDir::with_snapshot(&path);
            if let Some(job) = origin.clone().filter(|job| !place.is_elsewhere(job)) {
                return Ok(Found { job, origin: None, snapshot: Some(path) });
            }
            let manifest = read_manifest(&path, key::own()).map_err(|e| damaged(e.to_string()))?;
            check_name(&manifest.job)?;
            let job = place.job(&manifest.job);
            return Ok(Found { job, origin, snapshot: Some(path) });
        }
    }
    if let Some(path) = what.filter(|what| what.contains('/')) {
        check_readable(Path::new(path))?;
        let hint = "name a job, or a directory .../snapshots/NUMBER";
        return Err(refused(format!("there is no snapshot {path}\n  hint: {hint}")));
    }
    Ok(Found { job: place.find(what)?, origin: None, snapshot: None })
}

/// Of a snapshot that lies on hosts the directory has no more than the heads of images.
///
/// # Errors
/// This is one.
pub fn refuse_placed(snapshot: &Path) -> Result<()> {
    let Some(kept) = read_placed(snapshot, key::own()).map_err(|e| damaged(e.to_string()))? else {
        return Ok(());
    };
    let hosts: Vec<&str> = kept.snapshot.homes.iter().map(|home| home.host.as_str()).collect();
    Err(refused(format!(
        "the images of {} lie on {}\n  hint: name the job, not the directory: fermata restart {}",
        snapshot.display(),
        hosts.join(", "),
        kept.manifest.job
    )))
}

/// The newest snapshot of a job.
fn newest(job: &JobDir) -> Result<PathBuf> {
    let newest = list_snapshots(job).pop().ok_or_else(|| no_snapshot(job))?;
    let snapshot = fs::canonicalize(newest.path)?;
    check_owner(&snapshot)?;
    Ok(snapshot)
}

/// Everything is looked at before any rank runs.
fn check_snapshot(job: &JobDir, snapshot: &Path, output: Output) -> Result<Manifest> {
    key::check_in_reach()?;
    let verified = verify_shown(snapshot, key::own(), output);
    match verified.manifest {
        Some(manifest) if verified.problems.is_empty() => return Ok(manifest),
        Some(_) => {}
        None => versions::check_unbelieved(snapshot)?, // else it would be taken over for nothing
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
        .find(|other| verify(&other.path, key::own(), |_| {}).is_good());
    text += &match intact {
        Some(other) => format!(
            "\n  hint: the newest intact one is checkpoint {}: fermata restart {}",
            other.epoch,
            quoted_path(&other.path)
        ),
        None => "\n  hint: no other intact snapshot of this job exists".into(),
    };
    Err(damaged(text))
}
