// SPDX-License-Identifier: Apache-2.0
//! `run --resume`: the same line, given again and again, runs a job to its end. What is done is
//! decided under the job's lock, so two who give it at once do not both begin.
//!
//! Invariant: a job begins from its beginning only if it has no snapshot. One that is damaged is
//!            told of, and the one before it is used; one that cannot be read, or not by us, ends
//!            this command: it may well be intact.

use crate::again;
use crate::ended;
use crate::exit::{damaged, refused};
use crate::gathering;
use crate::hints;
use crate::jobs::{JobsDir, unix_now_s};
use crate::life::Life;
use crate::output::{Output, human_age};
use crate::ownership::check_owner;
use crate::recover::{self, From};
use crate::restart::{How, Point, STOP_WAIT, from_its_directory};
use crate::run::{Plan, Wanted, cwd};
use crate::service::make_directory;
use crate::several;
use crate::state::{refuse_living_ranks, take};
use crate::trust::verify_shown;
use anyhow::Result;
use fermata_launch::files::Rule;
use fermata_launch::key;
use fermata_launch::moved::Moves;
use fermata_launch::names::check_name;
use fermata_launch::start::{KEEP_DEFAULT, Start};
use fermata_storage::{Cause, JobDir, SnapshotInfo, read_snapshots};
use fermata_sysio::print_error;
use fermata_types::{Every, JobRecord, Manifest, ProgramRecord, each_program, words};
use serde_json::json;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// `fermata run --resume`
pub fn resume(
    mut start: Start,
    wanted: &Wanted,
    place: &JobsDir,
    again: bool,
    life: Life,
    output: Output,
) -> Result<u8> {
    let name = wanted.name.clone().unwrap_or_default(); // the table of flags wants one
    check_name(&name)?;
    // The line is the whole of it: what it does not say is not as it was before.
    start.every.get_or_insert(Every::Never);
    start.keep.get_or_insert(KEEP_DEFAULT);
    let job = place.job(&name);
    // Nothing is made for a job that cannot be run.
    let plan = (!job.path().exists()).then(|| Plan::of(&start, wanted)).transpose()?;
    make_directory(&job)?;
    let _lock = take(&job, STOP_WAIT)?; // until this process ends
    let record = last_record(&job)?;
    if let Some(record) = record.as_ref().filter(|record| record.has_finished() && !again) {
        check_same(wanted, &job, &record.programs, &record.argv, record.size, &record.cwd)?;
        return Ok(say_finished(&job, record, output));
    }
    gathering::before_restart(&job, &start)?;
    let Some((snapshot, manifest)) = newest_intact(&job, output)? else {
        if let Some(record) = &record {
            refuse_living_ranks(&job, &name, record.size, &record.lost_hosts())?;
        }
        print_error(format_args!("job '{name}' has no snapshot: it begins"));
        return plan
            .map_or_else(|| Plan::of(&start, wanted), Ok)?
            .run(&start, &job, name, life, output);
    };
    check_same(wanted, &job, &manifest.programs, &manifest.argv, manifest.size, &manifest.cwd)?;
    tell_of_start(&name, record.as_ref(), &manifest);
    let how = How { here: true, files: Rule::default(), moves: Moves::default() };
    let point = Box::new(Point { job, origin: None, snapshot, manifest });
    recover::until_it_ends(&start, From::Point { point, how }, life, output)
}

/// The record of the last run, if there was one.
///
/// # Errors
/// It cannot be read: it may say that the job has finished.
fn last_record(job: &JobDir) -> Result<Option<JobRecord>> {
    match again::last_run(job) {
        Ok(record) => Ok(Some(record)),
        Err(error) => match &error.cause {
            Cause::Io(why) if why.kind() == ErrorKind::NotFound => Ok(None),
            Cause::Record(_) => {
                print_error(format_args!("{error}: nobody knows how the job last ended"));
                Ok(None)
            }
            _ => Err(refused(format!(
                "{error}\n  hint: mend that; whether the job has finished is \
                                      written there"
            ))),
        },
    }
}

fn say_finished(job: &JobDir, record: &JobRecord, output: Output) -> u8 {
    let name = hints::name_of(job);
    let since = match record.ended_unix_s {
        0 => String::new(),
        ended => format!(", {} ago", human_age(unix_now_s().saturating_sub(ended))),
    };
    print_error(format_args!(
        "job '{name}' has finished{since}: it is not run again\n  \
         hint: --again continues from its newest snapshot all the same; to run it from its \
         beginning, give another --name"
    ));
    if output.json {
        let value = json!({"job": name, "finished": true, "ran": false, "code": 0});
        output.result("", &value);
    }
    0
}

fn tell_of_start(name: &str, record: Option<&JobRecord>, manifest: &Manifest) {
    let before = record.map_or(String::new(), |record| {
        format!(" (its last run: {})", ended::shown(&record.ended))
    });
    print_error(format_args!(
        "job '{name}' continues from checkpoint {}, {} old{before}",
        manifest.epoch,
        human_age(unix_now_s().saturating_sub(manifest.created_unix_s))
    ));
}

/// What a look at a snapshot has shown.
enum Look {
    Intact(Box<Manifest>),
    /// It is damaged: problems, a sentence each.
    Damaged(Vec<String>),
    /// It may be intact, but cannot be used here.
    OutOfReach(Vec<String>),
}

/// What there is to continue from.
enum Newest {
    /// No snapshot at all.
    Nothing,
    /// The first intact one.
    Intact(SnapshotInfo, Box<Manifest>),
    /// All are damaged.
    AllDamaged,
    /// Before any intact one this was met.
    OutOfReach(SnapshotInfo, Vec<String>),
}

/// Looks at them, newest first, until it is clear. `tell`: of one that is damaged.
fn newest_of(
    snapshots: Vec<SnapshotInfo>,
    mut look: impl FnMut(&SnapshotInfo) -> Result<Look>,
    tell: impl Fn(&SnapshotInfo, &[String]),
) -> Result<Newest> {
    if snapshots.is_empty() {
        return Ok(Newest::Nothing);
    }
    for snapshot in snapshots.into_iter().rev() {
        match look(&snapshot)? {
            Look::Intact(manifest) => return Ok(Newest::Intact(snapshot, manifest)),
            Look::Damaged(problems) => tell(&snapshot, &problems),
            Look::OutOfReach(problems) => return Ok(Newest::OutOfReach(snapshot, problems)),
        }
    }
    Ok(Newest::AllDamaged)
}

fn newest_intact(job: &JobDir, output: Output) -> Result<Option<(PathBuf, Manifest)>> {
    let snapshots = read_snapshots(job)
        .map_err(|error| refused(format!("{error}\n  hint: mend that; snapshots may be there")))?;
    if !snapshots.is_empty() {
        key::check_in_reach()?;
    }
    let look = |snapshot: &SnapshotInfo| {
        let path = fs::canonicalize(&snapshot.path)?;
        check_owner(&path)?;
        let verified = verify_shown(&path, key::own(), output);
        Ok(match verified.manifest {
            Some(manifest) if verified.problems.is_empty() => Look::Intact(Box::new(manifest)),
            _ if verified.is_out_of_reach => Look::OutOfReach(verified.problems),
            _ => Look::Damaged(verified.problems),
        })
    };
    let tell = |snapshot: &SnapshotInfo, problems: &[String]| {
        print_error(format_args!(
            "checkpoint {} is damaged, and not used:\n  {}",
            snapshot.epoch,
            problems.join("\n  ")
        ));
    };
    match newest_of(snapshots, look, tell)? {
        Newest::Nothing => Ok(None),
        Newest::Intact(snapshot, manifest) => {
            Ok(Some((fs::canonicalize(snapshot.path)?, *manifest)))
        }
        Newest::AllDamaged => Err(damaged(format!(
            "no snapshot of job '{}' is intact, so it is not continued\n  \
             hint: to run it from its beginning, give another --name, or remove what is in {}",
            hints::name_of(job),
            hints::quoted_path(&job.snapshots())
        ))),
        Newest::OutOfReach(snapshot, problems) => Err(refused(format!(
            "checkpoint {} cannot be used here, and no older one is taken for it:\n  {}\n  \
             hint: mend that; to continue from another one: fermata restart SNAPSHOT; what there \
             is: {}",
            snapshot.epoch,
            problems.join("\n  "),
            hints::for_job(job, "snapshots", "")
        ))),
    }
}

/// The command line has to be the one that the job was begun with: it continues with that.
fn check_same(
    wanted: &Wanted,
    job: &JobDir,
    programs: &[ProgramRecord],
    argv: &[std::ffi::OsString],
    size: u32,
    directory: &str,
) -> Result<()> {
    let then = each_program(programs, argv, size);
    let now = several::split(&wanted.command, wanted.ranks.unwrap_or(then[0].ranks))?;
    if is_same(&then, directory, &now, &cwd()) {
        return Ok(());
    }
    let name = hints::name_of(job);
    Err(refused(format!(
        "job '{name}' was begun with another command line: {}, not {}\n  \
         hint: give that one, or another --name; to continue it as it was: {}",
        line(&then),
        line(&now),
        hints::for_job(job, "restart", "")
    )))
}

fn is_same(then: &[ProgramRecord], from: &str, now: &[ProgramRecord], here: &str) -> bool {
    let real = |program: &ProgramRecord, directory: &str| {
        let mut argv = from_its_directory(&program.argv, directory, &Moves::default());
        if let Some(path) = argv.first().and_then(|path| fs::canonicalize(path).ok()) {
            argv[0] = path.into();
        }
        (program.ranks, argv)
    };
    let then = then.iter().map(|program| real(program, from));
    then.eq(now.iter().map(|program| real(program, here)))
}

fn line(programs: &[ProgramRecord]) -> String {
    let one =
        |program: &ProgramRecord| format!("-n {} {}", program.ranks, words::line(&program.argv));
    programs.iter().map(one).collect::<Vec<_>>().join(" : ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn snapshots(epochs: &[u32]) -> Vec<SnapshotInfo> {
        epochs.iter().map(|epoch| SnapshotInfo { epoch: *epoch, path: PathBuf::new() }).collect()
    }

    fn manifest(epoch: u32) -> Box<Manifest> {
        let text = format!(
            r#"{{"format":3,"job":"j","epoch":{epoch},"size":2,"created_unix_s":1,"lower":"x",
                 "front":"ompi","argv":["a"],"cwd":"/","images":[]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Which one is taken, and which were told of. `bad`: damaged; `closed`: out of reach.
    fn taken(epochs: &[u32], bad: &[u32], closed: &[u32]) -> (String, Vec<u32>) {
        let told = RefCell::new(Vec::new());
        let look = |snapshot: &SnapshotInfo| {
            let problems = || vec!["it is not well".to_owned()];
            Ok(match snapshot.epoch {
                epoch if bad.contains(&epoch) => Look::Damaged(problems()),
                epoch if closed.contains(&epoch) => Look::OutOfReach(problems()),
                epoch => Look::Intact(manifest(epoch)),
            })
        };
        let tell = |snapshot: &SnapshotInfo, _: &[String]| told.borrow_mut().push(snapshot.epoch);
        let what = match newest_of(snapshots(epochs), look, tell).unwrap() {
            Newest::Nothing => "nothing".to_owned(),
            Newest::Intact(snapshot, _) => snapshot.epoch.to_string(),
            Newest::AllDamaged => "all damaged".to_owned(),
            Newest::OutOfReach(snapshot, _) => format!("stops at {}", snapshot.epoch),
        };
        (what, told.into_inner())
    }

    #[test]
    fn the_newest_intact_one_is_taken() {
        assert_eq!(taken(&[], &[], &[]), ("nothing".into(), vec![]));
        assert_eq!(taken(&[1, 4], &[], &[]), ("4".into(), vec![]));
        assert_eq!(taken(&[1, 4, 5], &[4, 5], &[]), ("1".into(), vec![5, 4]));
        assert_eq!(taken(&[1, 4], &[1, 4], &[]), ("all damaged".into(), vec![4, 1]));
    }

    #[test]
    fn one_that_may_be_intact_is_not_passed_over() {
        assert_eq!(taken(&[1, 4], &[], &[4]), ("stops at 4".into(), vec![]));
        assert_eq!(taken(&[1, 4], &[4], &[1]), ("stops at 1".into(), vec![4]));
        assert_eq!(taken(&[1, 4], &[], &[1]), ("4".into(), vec![]), "that far nobody looks");
    }

    #[test]
    fn the_same_command_line_may_be_given_in_another_form() {
        let program = |ranks, words: &[&str]| ProgramRecord {
            ranks,
            argv: words.iter().map(Into::into).collect(),
        };
        let then = [program(2, &["./sh", "x"])];
        let is_same = |now: &[ProgramRecord], here| is_same(&then, "/bin", now, here);
        assert!(is_same(&[program(2, &["./sh", "x"])], "/bin"));
        assert!(is_same(&[program(2, &["/bin/../bin/sh", "x"])], "/"));
        assert!(!is_same(&[program(2, &["./sh", "x"])], "/nowhere"), "another program");
        assert!(!is_same(&[program(2, &["./sh", "y"])], "/bin"), "other arguments");
        assert!(!is_same(&[program(3, &["./sh", "x"])], "/bin"), "other ranks");
        assert!(!is_same(&[program(2, &["sh", "x"])], "/bin"), "whichever PATH finds");
        let two = [program(2, &["./sh", "x"]), program(1, &["./sh"])];
        assert!(!is_same(&two, "/bin"), "one more");
    }
}
