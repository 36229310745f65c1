// SPDX-License-Identifier: Apache-2.0
//! `fermata jobs`: the jobs of a directory, one a row.

use crate::ended;
use crate::hints;
use crate::jobs::{JobsDir, unix_now_s};
use crate::output::{Output, human_age};
use crate::state::{State, state_of};
use crate::table::{number, table, words as column};
use anyhow::Result;
use fermata_launch::key;
use fermata_launch::units::human_bytes;
use fermata_storage::{JobDir, list_jobs, list_snapshots, read_manifest};
use fermata_types::{Ended, JobRecord, words};
use serde_json::{Value, json};

/// `fermata jobs`
pub fn jobs(place: &JobsDir, output: Output) -> Result<u8> {
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    for (job, record) in list_jobs(place.dir()) {
        let (row, value) = describe(&job, &record);
        rows.push(row);
        values.push(value);
    }
    let columns = [
        column("JOB"),
        column("STATE"),
        number("RANKS"),
        column("MPI"),
        number("SAVED"),
        number("SIZE"),
        number("AGE"),
    ];
    let text = if rows.is_empty() {
        format!("no jobs in {}", place.dir().display())
    } else {
        table(columns, &rows)
    };
    output.answer(text, &Value::Array(values))?;
    Ok(0)
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
        "path": job.path(), "socket": record.socket});
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
