// SPDX-License-Identifier: Apache-2.0
//! `fermata jobs`: the jobs of a directory, one a row.

use crate::ended;
use crate::hints;
use crate::jobs::{JobsDir, unix_now_s};
use crate::output::{Output, human_age};
use crate::places;
use crate::state::{State, state_of};
use crate::table::{Column, in_a_line, number, table, words as column};
use anyhow::Result;
use fermata_launch::key;
use fermata_launch::units::human_bytes;
use fermata_storage::{JobDir, list_jobs, list_snapshots, read_manifest};
use fermata_types::{Ended, JobRecord, words};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::thread;

/// So many jobs are asked at a time: one that does not answer takes seconds.
const ASKED_AT_ONCE: usize = 32;

/// `fermata jobs`. `all`: of all directories that are known, each below its name.
pub fn jobs(place: &JobsDir, all: bool, output: Output) -> Result<u8> {
    let here = place.dir().to_owned();
    let dirs = if all { with(places::all(), here.clone()) } else { vec![here.clone()] };
    let (mut text, mut values) = (String::new(), Vec::new());
    for dir in dirs {
        let (rows, of_dir): (Vec<_>, Vec<_>) = described(&list_jobs(&dir)).into_iter().unzip();
        values.extend(of_dir);
        if rows.is_empty() {
            continue;
        }
        if all {
            let gap = if text.is_empty() { "" } else { "\n" };
            text += &format!("{gap}{}\n", in_a_line(&dir.to_string_lossy()));
        }
        text += &table(COLUMNS, &rows);
    }
    if text.is_empty() {
        let also = if all { ", nor where jobs were run before" } else { "" };
        text = format!("no jobs in {}{also}", here.display());
    }
    output.answer(text, &Value::Array(values))?;
    Ok(0)
}

/// These directories and this one, if it exists and is none of them.
fn with(mut dirs: Vec<PathBuf>, here: PathBuf) -> Vec<PathBuf> {
    if let Ok(real) = here.canonicalize() {
        if !dirs.contains(&real) {
            dirs.push(real);
        }
    }
    dirs
}

const COLUMNS: [Column; 7] = [
    column("JOB"),
    column("STATE"),
    number("RANKS"),
    column("MPI"),
    number("SAVED"),
    number("SIZE"),
    number("AGE"),
];

/// Each, in the same order.
fn described(jobs: &[(JobDir, JobRecord)]) -> Vec<([String; 7], Value)> {
    let mut rows = Vec::new();
    for some in jobs.chunks(ASKED_AT_ONCE) {
        thread::scope(|scope| {
            let asked: Vec<_> =
                some.iter().map(|(job, record)| scope.spawn(|| describe(job, record))).collect();
            rows.extend(asked.into_iter().filter_map(|row| row.join().ok()));
        });
    }
    rows
}

fn describe(job: &JobDir, record: &JobRecord) -> ([String; 7], Value) {
    let snapshots = list_snapshots(job);
    let newest = snapshots.last();
    let manifest = newest.map(|newest| read_manifest(&newest.path, key::anybodys()));
    let (state, owner) = (state_of(job, record), job.other_owner());
    let none = || "-".to_owned();
    let (size, age) = match &manifest {
        None => (none(), none()),
        Some(Err(_)) => ("damaged".into(), none()),
        Some(Ok(manifest)) => {
            let age = unix_now_s().saturating_sub(manifest.created_unix_s);
            (human_bytes(manifest.bytes()), human_age(age))
        }
    };
    let mut how = state_text(&state, record, unix_now_s());
    if let Some(owner) = owner {
        how += &format!(", of user {owner}");
    }
    let row = [
        hints::name_of(job),
        how,
        record.size.to_string(),
        record.lower.clone(),
        newest.map_or_else(none, |newest| format!("#{}", newest.epoch)),
        size,
        age,
    ];
    let newest_value = manifest.and_then(Result::ok).map(|manifest| {
        json!({"epoch": manifest.epoch, "bytes": manifest.bytes(),
               "created_unix_s": manifest.created_unix_s, "mpi": manifest.lower})
    });
    let known = |time: u64| Some(time).filter(|time| *time != 0);
    let value = json!({"job": record.job, "state": state.name(), "ended": record.ended,
        "started_unix_s": known(record.started_unix_s), "ended_unix_s": known(record.ended_unix_s),
        "run": record.run_number, "ranks": record.size, "mpi": record.lower, "front": record.front,
        "argv": words::value(&record.argv), "snapshots": snapshots.len(),
        "newest_epoch": newest.map(|newest| newest.epoch), "newest": newest_value, "owner": owner,
        "host": record.host, "path": job.path(), "socket": record.socket});
    (row, value)
}

/// How a job is, in a few words.
fn state_text(state: &State, record: &JobRecord, now_s: u64) -> String {
    match state {
        State::Running(_) | State::Theirs(_) if record.started_unix_s != 0 => {
            format!("running {}", human_age(now_s.saturating_sub(record.started_unix_s)))
        }
        State::Ended if record.ended == Ended::Unknown && record.ended_well => {
            ended::shown(&Ended::Finished) // as older versions say it
        }
        State::Ended => ended::shown(&record.ended),
        State::Elsewhere(runner) => format!("elsewhere: {}", runner.host),
        state => state.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_does_not_run_says_how_it_ended() {
        let at = |state: State, ended: Ended| {
            let record = JobRecord { ended, started_unix_s: 1000, ..JobRecord::default() };
            state_text(&state, &record, 1240)
        };
        assert_eq!(at(State::Running(Value::Null), Ended::Running), "running 4 min");
        assert_eq!(at(State::Ended, Ended::Saved { epoch: 3 }), "saved");
        assert_eq!(at(State::Ended, Ended::Running), "broken off", "it was killed");
        assert_eq!(at(State::Ended, Ended::Unknown), "ended");
        let before = JobRecord { ended_well: true, ..JobRecord::default() };
        assert_eq!(state_text(&State::Ended, &before, 0), "finished");
    }
}
