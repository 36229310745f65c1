// SPDX-License-Identifier: Apache-2.0
//! `restart`: everything is looked at first, from the job's lock to every byte of the snapshot.
//! Then the job is launched as `run` does it.

use crate::exit::{damaged, refused};
use crate::files::{self, Rule};
use crate::hints::quoted_path;
use crate::jobs::{Place, check_readable, no_snapshot, unix_now_s};
use crate::key;
use crate::moved::{Images, Moves};
use crate::output::Output;
use crate::parts;
use crate::programs;
use crate::registry::{Family, Prefix};
use crate::run::{
    KEEP_DEFAULT, Means, Restore, Start, check_name, launch, make_directory, spans_hosts,
};
use crate::state::{refuse_living_ranks, take};
use crate::trust::verify_shown;
use anyhow::Result;
use fermata_faults::{Fault, fault};
use fermata_storage::{JobDir, list_snapshots, read_manifest, verify};
use fermata_sysio::tell;
use fermata_types::{JobRecord, Manifest, ProgramRecord, each_program};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `checkpoint --stop` returns when the snapshot is committed; the ranks and mpirun end after that.
const STOP_WAIT: Duration = Duration::from_secs(20);

/// How the job's files are found again.
pub struct How {
    /// What to do about those that have changed.
    pub files: Rule,
    /// Where directories are now.
    pub moves: Moves,
}

/// `fermata restart`
pub fn restart(
    start: &Start,
    place: &Place,
    what: Option<&str>,
    how: How,
    output: Output,
) -> Result<u8> {
    let prefix = Prefix::find()?;
    let (job, given) = find_job(place, what)?;
    make_directory(&job)?;
    let _lock = take(&job, STOP_WAIT)?; // until this process ends
    let snapshot = given.map_or_else(|| newest(&job), Ok)?;
    let manifest = check_snapshot(&job, &snapshot, output)?;
    fault(Fault::RestartChecked);
    let before = job.read_record().ok();
    let lost_host = before.as_ref().map_or("", |record| &record.lost_host);
    refuse_living_ranks(&job, &manifest.job, manifest.size, lost_host)?;
    warn_of_another_host(before.as_ref());
    let native = if manifest.front == "ompi" { Family::OpenMpi } else { Family::Mpich };
    let lower = prefix.choose(start.mpi.as_deref(), Some(native))?;
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
        keep: start.keep.or(before.map(|record| record.keep)).unwrap_or(KEEP_DEFAULT),
        checkpointer: manifest.checkpointer,
        ..JobRecord::default()
    };
    let hosts = start.hosts(record.size, record.checkpointer)?;
    let images = Images::of(&snapshot, &manifest, how.moves);
    tell_what_moves(&snapshot, &images, &manifest)?;
    let moves = images.moves.clone();
    let images = parts::found(&prefix, &job, images);
    if !spans_hosts(start) {
        files::check_there(&images, &record.cwd)?;
        programs::check(&images)?;
    }
    files::check(&images, how.files)?;
    let restore = Some(Restore { snapshot, images, files: how.files, moves });
    launch(&Means { prefix: &prefix, lower: &lower, start, hosts }, &job, record, restore, output)
}

/// The program as it is called from where the job was started, which may be elsewhere.
fn from_its_directory(argv: &[OsString], cwd: &str, moves: &Moves) -> Vec<OsString> {
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
        tell(format_args!("{}: {count} {paths} of the snapshot", one.text()));
    }
    Ok(())
}

/// A job on one other host opens no port: whether it still runs there cannot be seen from here.
fn warn_of_another_host(before: Option<&JobRecord>) {
    let here = fermata_sysio::host_name();
    let unsure = |r: &&JobRecord| !r.socket.is_empty() && !r.host.is_empty() && r.host != here;
    if let Some(record) = before.filter(unsure) {
        tell(format_args!(
            "job '{}' was started on host {} and its end was not recorded\n  \
             hint: if that host is still up, make sure that the job no longer runs there",
            record.job, record.host
        ));
    }
}

/// A job, and the directory of a snapshot if one was given.
fn find_job(place: &Place, what: Option<&str>) -> Result<(JobDir, Option<PathBuf>)> {
    if let Some(path) = what.map(Path::new).filter(|path| path.is_dir()) {
        if path.join("manifest.json").exists() || what.is_some_and(|text| text.contains('/')) {
            let path = fs::canonicalize(path)?;
            check_owner(&path)?; // before anything is written beside it, or believed
            let job = match JobDir::with_snapshot(&path) {
                Some(job) => job,
                None => {
                    let manifest =
                        read_manifest(&path, key::own()).map_err(|e| damaged(e.to_string()))?;
                    check_name(&manifest.job)?;
                    place.job(&manifest.job)
                }
            };
            return Ok((job, Some(path)));
        }
    }
    if let Some(path) = what.filter(|what| what.contains('/')) {
        check_readable(Path::new(path))?;
        let hint = "name a job, or a directory .../snapshots/NUMBER";
        return Err(refused(format!("there is no snapshot {path}\n  hint: {hint}")));
    }
    Ok((place.find(what)?, None))
}

/// The newest snapshot of a job.
fn newest(job: &JobDir) -> Result<PathBuf> {
    let newest = list_snapshots(job).pop().ok_or_else(|| no_snapshot(job))?;
    let snapshot = fs::canonicalize(newest.path)?;
    check_owner(&snapshot)?;
    Ok(snapshot)
}

/// An image is a program that will run as us: it must be our own. This look is for the message;
/// whoever opens a file of the snapshot asks again (`Whose::Own`), the launcher too.
pub fn check_owner(snapshot: &Path) -> Result<()> {
    let ours = fermata_sysio::effective_uid();
    let entries = fs::read_dir(snapshot)
        .map_err(|e| refused(format!("cannot read the snapshot {}: {e}", snapshot.display())))?;
    for path in [snapshot.to_owned()].into_iter().chain(entries.flatten().map(|e| e.path())) {
        let owner = fs::symlink_metadata(&path).map_or(ours, |meta| meta.uid());
        if owner != ours {
            return Err(refused(format!(
                "{} belongs to user {owner}, not to you (user {ours})\n  \
                 hint: what is restored runs as whoever restores it; as its owner: \
                 sudo -u '#{owner}' fermata restart {}",
                path.display(),
                quoted_path(snapshot)
            )));
        }
    }
    Ok(())
}

/// Everything is looked at before any rank runs.
fn check_snapshot(job: &JobDir, snapshot: &Path, output: Output) -> Result<Manifest> {
    let verified = verify_shown(snapshot, key::own(), output);
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
