// SPDX-License-Identifier: Apache-2.0
//! `fermata history`: what has happened to a job, over all its runs.

use crate::ended;
use crate::jobs::JobsDir;
use crate::output::{Output, human_ms};
use crate::table::{number, table, words};
use anyhow::Result;
use fermata_launch::units::human_bytes;
use fermata_storage::read_history;
use fermata_types::{
    CheckpointFailed, CheckpointTaken, Ended, Every, HistoryLine, JobEvent, RunBegins,
};
use serde_json::Value;

/// `fermata history`
pub fn history(place: &JobsDir, name: Option<&str>, output: Output) -> Result<u8> {
    let job = place.find(name)?;
    let lines: Vec<Value> = read_history(&job)?.collect();
    let rows: Vec<[String; 4]> = lines.iter().map(row).collect();
    let text = if rows.is_empty() {
        format!("nothing is recorded in {}", job.history_path().display())
    } else {
        table([words("TIME (UTC)"), number("RUN"), words("EVENT"), words("")], &rows)
    };
    output.answer(text, &Value::Array(lines))?;
    Ok(0)
}

fn row(line: &Value) -> [String; 4] {
    let time = line["time"].as_str().unwrap_or("-");
    // 2026-01-02T03:04:05.006Z
    let time = time.split('.').next().unwrap_or_default().replace('T', " ");
    let run = line["run"].to_string();
    match serde_json::from_value::<HistoryLine>(line.clone()) {
        Ok(HistoryLine { event, .. }) if event != JobEvent::Unknown => {
            let (event, what) = describe(&event);
            [time, run, event, what]
        }
        _ => [time, run, line["event"].as_str().unwrap_or("-").to_owned(), "-".into()],
    }
}

fn describe(event: &JobEvent) -> (String, String) {
    match event {
        JobEvent::Started(run) => ("started".into(), begins(run)),
        JobEvent::Resumed { snapshot, run } => {
            ("resumed".into(), format!("from #{snapshot}, {}", begins(run)))
        }
        JobEvent::Checkpoint(taken) => ("checkpoint".into(), checkpoint(taken)),
        JobEvent::FailedCheckpoint(CheckpointFailed { epoch, phase, reason, .. }) => {
            ("no checkpoint".into(), format!("#{epoch} failed while {phase}: {reason}"))
        }
        JobEvent::Ended(ended) => (ended::shown(ended), why(ended)),
        JobEvent::Unknown => ("-".into(), "-".into()),
    }
}

fn begins(run: &RunBegins) -> String {
    let ranks = match run.ranks {
        0 => String::new(),
        1 => "1 rank ".into(),
        ranks => format!("{ranks} ranks "),
    };
    let hosts = if run.hosts.is_empty() { run.host.clone() } else { run.hosts.join(",") };
    let every = match run.every {
        Every::Never => String::new(),
        Every::Ms(ms) => format!(", saved every {}", human_ms(ms)),
        Every::Auto => ", saved as planned".into(),
    };
    let batch =
        if run.batch_job.is_empty() { String::new() } else { format!(", {}", run.batch_job) };
    format!("{ranks}on {}, host {hosts}{every}{batch}", run.mpi)
}

fn checkpoint(taken: &CheckpointTaken) -> String {
    let last = taken.rank_park_ms;
    let late = if taken.ranks > 1 && last.max > 2 * last.median.max(10) {
        format!(", rank {} was late by {}", last.rank, human_ms(last.max - last.median))
    } else {
        String::new()
    };
    format!(
        "#{}: {} in {}, stood {}{late}",
        taken.epoch,
        human_bytes(taken.bytes),
        human_ms(taken.total_ms),
        human_ms(taken.rank_pause_us.max.div_ceil(1000))
    )
}

fn why(ended: &Ended) -> String {
    match ended {
        Ended::Saved { epoch } => format!("at #{epoch}"),
        Ended::Failed(failed) => failed.why.clone(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(line: &Value) -> String {
        row(line).join("|")
    }

    #[test]
    fn each_event_is_a_row() {
        let line = |event: Value| {
            let mut line = json!({"time": "2026-01-02T03:04:05.006Z", "unix_ms": 1, "run": 2});
            line.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
            line
        };
        let resumed = json!({"event": "resumed", "snapshot": 3, "mpi": "mpich", "ranks": 2,
                             "host": "a", "every_ms": 60_000});
        assert_eq!(
            shown(&line(resumed)),
            "2026-01-02 03:04:05|2|resumed|from #3, 2 ranks on mpich, host a, saved every 60.0 s"
        );
        let failed = json!({"event": "ended", "how": "failed", "code": 3, "why": "rank 1 left"});
        assert_eq!(shown(&line(failed)), "2026-01-02 03:04:05|2|failed (code 3)|rank 1 left");
        let later = json!({"event": "migrated", "to": "b"});
        assert_eq!(shown(&line(later)), "2026-01-02 03:04:05|2|migrated|-");
        assert_eq!(shown(&json!({})), "-|null|-|-");
    }

    #[test]
    fn who_was_late_is_named() {
        let text = r#"{"event": "checkpoint", "epoch": 4, "asked_by": "time", "stop": false,
            "attempts": 1, "ranks": 2, "bytes": 2048, "messages_kept": 0, "total_ms": 1500,
            "phases_ms": {}, "rank_bytes": {}, "rank_pause_us": {"max": 12300},
            "rank_park_ms": {"median": 1, "max": 901, "rank": 1}, "rank_save_ms": {}}"#;
        let event: JobEvent = serde_json::from_str(text).unwrap();
        let (_, what) = describe(&event);
        assert_eq!(what, "#4: 2.0 KiB in 1.5 s, stood 13 ms, rank 1 was late by 900 ms");
    }
}
