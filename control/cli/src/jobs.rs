// SPDX-License-Identifier: Apache-2.0
//! The commands about jobs and snapshots that exist: checkpoint, snapshots, inspect, prune.
//! Listing needs no coordinator.

use crate::exit::{FAILURE, REFUSED, damaged, refused};
use crate::hints;
use crate::output::{Output, Progress};
use crate::reach;
use crate::several;
use crate::state::{State, check_own, look, state_of};
use crate::taking;
use anyhow::Result;
use fermata_coordinator::{ClientError, Outcome};
use fermata_launch::key;
use fermata_launch::units::human_bytes;
use fermata_storage::{
    Image, JobDir, Whose, is_whole, list_jobs, list_snapshots, prune as prune_job, read_manifest,
    remove_leftovers,
};
use fermata_sysio::print_error;
use fermata_types::{Checkpointer, JobRecord, MANIFEST_FILE, file_kind, object_kind, sealing};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A coordinator is given this much time to answer at all, or that of --timeout.
const ANSWER_WAIT_MIN: Duration = Duration::from_secs(10);

/// Seconds since 1970.
pub fn unix_now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The directory jobs live in.
#[derive(Clone, Debug)]
pub struct JobsDir {
    dir: PathBuf,
    /// By `--dir`, not by the environment or nobody.
    given: bool,
}

impl JobsDir {
    /// `--dir`, else `$FERMATA_DIR`, else that of the configuration, else `./fermata`.
    pub fn new(dir: Option<PathBuf>) -> Self {
        let given = dir.is_some();
        let dir = dir
            .or_else(|| std::env::var_os(hints::VARIABLE).map(PathBuf::from))
            .unwrap_or_else(|| hints::default_directory().to_owned());
        Self { dir, given }
    }

    /// Whether `--dir` says that what becomes of a job is not to lie where the job does.
    pub fn is_elsewhere(&self, job: &JobDir) -> bool {
        let real = |path: &Path| path.canonicalize().ok();
        let above = job.path().parent().and_then(real);
        self.given && (above.is_none() || above != real(&self.dir))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The place of a job, existing or not.
    pub fn job(&self, name: &str) -> JobDir {
        JobDir::new(&self.dir, name)
    }

    /// An existing job; without a name the one that runs, else the one begun last.
    pub fn find(&self, name: Option<&str>) -> Result<JobDir> {
        if let Some(name) = name {
            let job = self.job(name);
            check_readable(job.path())?;
            return match job.read_record() {
                Ok(_) => Ok(job),
                Err(_) if !list_snapshots(&job).is_empty() => Ok(job),
                Err(_) => Err(refused(format!(
                    "there is no job '{name}' in {}\n  hint: {}, or another --dir",
                    self.dir.display(),
                    hints::in_directory(&self.dir, "jobs")
                ))),
            };
        }
        let mut jobs: Vec<_> = list_jobs(&self.dir)
            .into_iter()
            .map(|(job, record)| (state_of(&job, &record) != State::Ended, record, job))
            .collect();
        let running: Vec<&str> = jobs
            .iter()
            .filter(|(runs, _, _)| *runs)
            .map(|(_, record, _)| record.job.as_str())
            .collect();
        if running.len() > 1 {
            return Err(refused(format!(
                "several jobs run: {}\n  hint: name one of them",
                running.join(", ")
            )));
        }
        jobs.sort_by_key(|(runs, record, _)| (*runs, record.started_unix_s));
        let (_, _, job) = jobs.pop().ok_or_else(|| {
            refused(format!(
                "there is no job in {}\n  hint: --dir DIR or FERMATA_DIR",
                self.dir.display()
            ))
        })?;
        Ok(job)
    }
}

/// Says so if a job or snapshot is there but is somebody else's.
pub fn check_readable(path: &Path) -> Result<()> {
    match std::fs::metadata(path.join(".")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(refused(format!(
                "cannot read {}: permission denied\n  hint: jobs and snapshots are their owner's; \
                 ask them, or give your own --dir",
                path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// `fermata checkpoint`
pub fn checkpoint(
    place: &JobsDir,
    name: Option<&str>,
    stop: bool,
    timeout_ms: u64,
    output: Output,
) -> Result<u8> {
    let job = place.find(name)?;
    check_own(&job, "checkpoint")?;
    let record = job.read_record()?;
    let mut client = match reach::client(&job, &record) {
        Ok(client) => client,
        Err(_) => match state_of(&job, &record) {
            // It has come up since the record was read.
            State::Running(_) => reach::client(&job, &job.read_record()?)?,
            state => return Err(state.refusal(&job)),
        },
    };
    // One that is suspended must not take a checkpoint when it wakes up and nobody wants it.
    match client.status(Duration::from_millis(timeout_ms).max(ANSWER_WAIT_MIN)) {
        Err(ClientError::Silent) => return Err(State::silent(&record).refusal(&job)),
        Err(error) => return Err(lost(&job, &error)),
        Ok(_) => {}
    }
    let mut progress = Progress::new(output, "asking the ranks", 0);
    let taken = taking::checkpoint(&mut client, stop, timeout_ms, |text| progress.say(text));
    let (outcome, answer, figures) = taken.map_err(|error| lost(&job, &error))?;
    drop(progress);
    let ok = outcome == Outcome::Ok;
    let value = json!({"ok": ok, "job": record.job, "message": answer.message,
                       "snapshot": answer.snapshot, "figures": figures});
    let text = if ok {
        let number = |key: &str| figures[key].as_u64().unwrap_or(0);
        // Ranks know what their images hold, but not what a program wrote by itself.
        let own = || {
            read_manifest(Path::new(&answer.snapshot), Whose::Anybodys(None))
                .map_or(0, |m| m.bytes())
        };
        let bytes = Some(number("bytes")).filter(|bytes| *bytes != 0).unwrap_or_else(own);
        format!(
            "{}\n  {} ranks, {}, pause {:.1} ms, {:.2} s in all",
            answer.message,
            number("ranks"),
            human_bytes(bytes),
            number("pause_ns_max") as f64 / 1e6,
            number("milliseconds") as f64 / 1e3
        )
    } else {
        print_error(&answer.message);
        String::new()
    };
    output.result(text, &value);
    Ok(match outcome {
        Outcome::Ok => 0,
        Outcome::Failed => FAILURE,
        Outcome::Refused => REFUSED,
    })
}

/// The coordinator's end is most often the job's.
fn lost(job: &JobDir, error: &ClientError) -> anyhow::Error {
    anyhow::anyhow!(
        "{error}: job '{}' has ended, or whoever ran it was killed\n  \
         hint: what there is of it: {}",
        hints::name_of(job),
        hints::for_job(job, "snapshots", "")
    )
}

/// `fermata snapshots`
pub fn snapshots(place: &JobsDir, name: Option<&str>, output: Output) -> Result<u8> {
    let job = place.find(name)?;
    let mut rows = Vec::new();
    let mut text = String::new();
    for snapshot in list_snapshots(&job) {
        match read_manifest(&snapshot.path, key::anybodys()) {
            Ok(manifest) => {
                let bytes = manifest.bytes();
                let age = unix_now_s().saturating_sub(manifest.created_unix_s);
                text += &format!(
                    "{:>6}  {} ranks  {:>10}  {age} s ago  from {}  {}\n",
                    snapshot.epoch,
                    manifest.size,
                    human_bytes(bytes),
                    manifest.lower,
                    snapshot.path.display()
                );
                rows.push(json!({"epoch": snapshot.epoch, "path": snapshot.path, "bytes": bytes,
                    "ranks": manifest.size, "created_unix_s": manifest.created_unix_s,
                    "lower": manifest.lower}));
            }
            Err(error) => {
                text += &format!("{:>6}  damaged: {error}\n", snapshot.epoch);
                rows.push(json!({"epoch": snapshot.epoch, "path": snapshot.path,
                    "problem": error.to_string()}));
            }
        }
    }
    if text.is_empty() {
        text = format!("no snapshots in {}", job.snapshots().display());
    }
    output.answer(text, &Value::Array(rows))?;
    Ok(0)
}

/// A snapshot directory, or the newest snapshot of a job.
pub fn snapshot_path(place: &JobsDir, what: &str) -> Result<PathBuf> {
    let path = PathBuf::from(what);
    if path.join(MANIFEST_FILE).exists() || (what.contains('/') && path.is_dir()) {
        return Ok(path);
    }
    let job = place.find(Some(what))?;
    let newest = list_snapshots(&job).pop();
    newest.map(|snapshot| snapshot.path).ok_or_else(|| no_snapshot(&job))
}

/// There is a job, but nothing to continue from.
pub fn no_snapshot(job: &JobDir) -> anyhow::Error {
    refused(format!(
        "there is no snapshot in {}\n  hint: {}, while it runs",
        job.snapshots().display(),
        hints::for_job(job, "checkpoint", "")
    ))
}

/// What a job with --keep does to its old snapshots, or somebody else, while they are read.
pub fn removed(snapshot: &Path) -> anyhow::Error {
    let what_there_is = JobDir::with_snapshot(snapshot).map_or_else(
        || "it was a copy".into(),
        |job| format!("what there is: {}", hints::for_job(&job, "snapshots", "")),
    );
    anyhow::anyhow!(
        "the snapshot {} has been removed meanwhile\n  hint: {what_there_is}",
        snapshot.display()
    )
}

/// `fermata inspect`
pub fn inspect(place: &JobsDir, what: &str, rank: Option<u32>, output: Output) -> Result<u8> {
    let path = snapshot_path(place, what)?;
    let unusable = |why: String| if path.exists() { damaged(why) } else { removed(&path) };
    let manifest =
        read_manifest(&path, key::anybodys()).map_err(|error| unusable(error.to_string()))?;
    let mut text = format!(
        "job {}, checkpoint {}, {} ranks, front end {}, saved on {}{}\n{}",
        manifest.job,
        manifest.epoch,
        manifest.size,
        manifest.front,
        manifest.lower,
        if manifest.checkpointer == Checkpointer::Itself { " by the program itself" } else { "" },
        several::shown(&manifest.programs, &manifest.argv)
    );
    let mut rows = Vec::new();
    for record in &manifest.images {
        if rank.is_some_and(|rank| rank != record.rank) {
            continue;
        }
        let image = Image::open(&path.join(&record.file), key::anybodys())
            .map_err(|why| unusable(format!("rank {}: {why}", record.rank)))?;
        let (rank_text, value) = describe(&image, rank.is_some());
        text += &format!("rank {}: {rank_text}", record.rank);
        rows.push(value);
    }
    for file in &manifest.files {
        text += &format!("{}: {}\n", file.path, human_bytes(file.bytes));
    }
    let value = json!({"manifest": manifest, "images": rows});
    output.answer(text, &value)?;
    Ok(0)
}

fn describe(image: &Image, in_full: bool) -> (String, Value) {
    let header = &image.header;
    let mapped: u64 = image.regions.iter().map(|r| r.end - r.start).sum();
    let mut text = format!(
        "{}, {}, {} regions ({} mapped, {} saved), {} threads, {} files, pid {}, {}\n",
        human_bytes(header.file_bytes),
        sealing::name(header.sealing),
        image.regions.len(),
        human_bytes(mapped),
        human_bytes(header.payload_bytes),
        image.threads.len(),
        image.files.len(),
        header.saved_pid,
        image.string(header.executable_string)
    );
    if in_full {
        for region in &image.regions {
            let letter = |bit: u32, yes: char| if region.prot & bit != 0 { yes } else { '-' };
            text += &format!(
                "  {:012x}-{:012x} {}{}{}{} {:>4} extents {}\n",
                region.start,
                region.end,
                letter(1, 'r'),
                letter(2, 'w'),
                letter(4, 'x'),
                if region.flags & 1 != 0 { 's' } else { 'p' },
                region.extent_count,
                image.string(region.path_string)
            );
        }
        for thread in &image.threads {
            let main = if thread.flags & 1 != 0 { " (main)" } else { "" };
            text += &format!("  thread {} fs {:#x}{main}\n", thread.tid, thread.fs_base);
        }
        for file in &image.files {
            text += &format!(
                "  fd {} {} at {} of {} {}\n",
                file.fd,
                file_kind::name(file.kind),
                file.offset,
                file.size,
                image.string(file.path_string)
            );
        }
    }
    let files: Vec<Value> = image
        .files
        .iter()
        .map(|file| {
            json!({"fd": file.fd, "kind": file_kind::name(file.kind), "offset": file.offset,
                   "size": file.size, "path": image.string(file.path_string)})
        })
        .collect();
    let regions: Vec<Value> = image
        .regions
        .iter()
        .map(|region| {
            json!({"start": region.start, "end": region.end, "prot": region.prot,
                   "flags": region.flags, "extents": region.extent_count,
                   "path": image.string(region.path_string)})
        })
        .collect();
    let objects: Vec<Value> = image
        .objects
        .iter()
        .map(|object| {
            json!({"kind": object_kind::name(object.kind), "size": object.size,
                   "flags": object.flags, "extents": object.extent_count,
                   "path": image.string(object.path_string)})
        })
        .collect();
    let threads: Vec<Value> = image
        .threads
        .iter()
        .map(|thread| json!({"tid": thread.tid, "fs_base": thread.fs_base, "flags": thread.flags}))
        .collect();
    let value = json!({"rank": header.world_rank, "size": header.world_size,
        "epoch": header.epoch, "bytes": header.file_bytes, "payload_bytes": header.payload_bytes,
        "restarts": header.restarts, "pid": header.saved_pid,
        "sealing": sealing::name(header.sealing),
        "executable": image.string(header.executable_string),
        "cwd": image.string(header.cwd_string),
        "regions": regions, "objects": objects, "threads": threads, "files": files,
        "actions": image.actions.len(), "signals": image.signals.len(),
        "timers": image.timers.len()});
    (text, value)
}

/// `fermata prune`
pub fn prune(place: &JobsDir, name: Option<&str>, keep: u32, output: Output) -> Result<u8> {
    let job = place.find(name)?;
    check_own(&job, "prune")?;
    job.open()?;
    // With it no restart begins meanwhile, which might need what is removed here.
    let lock = job.hold(Duration::ZERO).ok().flatten();
    if lock.is_none() {
        state_of(&job, &job.read_record().unwrap_or_default()); // who has it is given a moment
    }
    let record = job.read_record().unwrap_or_default();
    let state = look(&job, &record, lock.is_some());
    if let State::Starting(_) = state {
        // A restart may be checking a snapshot that the record does not name yet.
        return Err(state.refusal(&job));
    }
    let spared = (!has_new_snapshot(&job, &record)).then_some(record.restored_epoch);
    let removed: Vec<u32> = prune_job(&job, keep, spared).iter().map(|s| s.epoch).collect();
    // Parts of snapshots after the newest are a checkpoint's that is under way, if anybody runs it.
    // Not every network file system shows one host the other's locks.
    let is_known = record.socket.is_empty() || record.host == fermata_sysio::host_name();
    if is_known && lock.is_some() && state == State::Ended {
        remove_leftovers(&job, u32::MAX);
    }
    let text = match removed.len() {
        0 => "nothing to remove".into(),
        count => format!("removed {count} snapshots: {removed:?}"),
    };
    output.result(text, &json!({"removed": removed}));
    Ok(0)
}

/// Whether the newest run of a job has committed a snapshot that is whole. Until then it needs the
/// one that it was restored from.
fn has_new_snapshot(job: &JobDir, record: &JobRecord) -> bool {
    let is_new = |epoch| epoch > record.begun_after_epoch;
    list_snapshots(job).iter().any(|s| is_new(s.epoch) && is_whole(&s.path))
}
