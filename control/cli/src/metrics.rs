// SPDX-License-Identifier: Apache-2.0
//! `--metrics FILE`: figures of a job as OpenMetrics text, for the textfile collector of a
//! Prometheus node exporter and its like. That reads Prometheus's older format, which has no type
//! `info`; so what is written here is both.
//!
//! Source: OpenMetrics 1.0 (prometheus.io/docs/specs/om/open_metrics_spec), section "Text format".

use fermata_types::{CheckpointTaken, Ended, JobEvent, RunBegins};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// What is known of a job, since a command has begun to run it.
pub struct Metrics {
    job: String,
    runs_before: u32,
    runs: u32,
    /// The run that is under way, or was the last, and when it began, in seconds since 1970.
    run: RunBegins,
    begun_s: f64,
    taken: u64,
    failed: u64,
    /// The newest checkpoint, and when it was heard of.
    newest: Option<(CheckpointTaken, f64)>,
    ended: Option<Ended>,
}

impl Metrics {
    /// Of a job that is about to be run.
    pub fn new(job: String, runs_before: u32) -> Self {
        Self {
            job,
            runs_before,
            runs: 0,
            run: RunBegins::default(),
            begun_s: 0.0,
            taken: 0,
            failed: 0,
            newest: None,
            ended: None,
        }
    }

    /// Something has happened just now, in seconds since 1970.
    pub fn note(&mut self, event: &JobEvent, now_s: f64) {
        match event {
            JobEvent::Started(run) | JobEvent::Resumed { run, .. } => {
                self.runs += 1;
                (self.run, self.begun_s) = (run.clone(), now_s);
            }
            JobEvent::Checkpoint(taken) => {
                self.taken += 1;
                self.newest = Some((taken.clone(), now_s));
            }
            JobEvent::FailedCheckpoint(_) => self.failed += 1,
            JobEvent::Ended(ended) => self.ended = Some(ended.clone()),
            JobEvent::Unknown => {}
        }
    }

    /// Writes them by a rename, so that nobody reads half of them.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let partial = partial_of(path);
        let _ = fs::remove_file(&partial);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
        let written = file.write_all(self.text().as_bytes());
        let written = written.and_then(|()| fs::rename(&partial, path));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written
    }

    fn text(&self) -> String {
        let job = format!("job=\"{}\"", escaped(&self.job));
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
            let _ = writeln!(text, "# TYPE fermata_{name} {kind}");
            let _ = writeln!(text, "# HELP fermata_{name} {help}");
            for (rest, value) in samples {
                let _ = writeln!(text, "fermata_{name}{rest} {value}");
            }
        };
        let own = |value: f64| vec![(format!("{{{job}}}"), value)];
        let total = |value: u64| vec![(format!("_total{{{job}}}"), value as f64)];
        let info = format!("{{{job},mpi=\"{}\"}}", escaped(&self.run.mpi));
        family("job_info", "gauge", "The job and the MPI below it.", &[(info, 1.0)]);
        let is_up = self.ended.is_none();
        family("job_up", "gauge", "Whether the job has not ended.", &own(is_up.into()));
        if let Some(ended) = &self.ended {
            let how = format!("{{{job},how=\"{}\"}}", how(ended));
            family("job_ended", "gauge", "How the job ended.", &[(how, 1.0)]);
        }
        family("job_ranks", "gauge", "Ranks.", &own(self.run.ranks.into()));
        let number = own((self.runs_before + self.runs).into());
        family("job_run", "gauge", "The number of the newest run.", &number);
        let begun = own(self.begun_s);
        family("job_start_timestamp_seconds", "gauge", "When that run began.", &begun);
        family("runs", "counter", "Begun by this command.", &total(self.runs.into()));
        family("checkpoints", "counter", "Committed.", &total(self.taken));
        family("failed_checkpoints", "counter", "Failed.", &total(self.failed));
        if let Some((taken, at)) = &self.newest {
            family("checkpoint_timestamp_seconds", "gauge", "The newest's commit.", &own(*at));
            let bytes = own(taken.bytes as f64);
            family("checkpoint_size_bytes", "gauge", "All images of the newest.", &bytes);
            let pause = own(taken.rank_pause_us.max as f64 / 1e6);
            family("checkpoint_pause_seconds", "gauge", "The longest pause of a rank.", &pause);
            let phases = taken.phases_ms;
            let parts = [
                ("wait", phases.wait),
                ("park", phases.park),
                ("drain", phases.drain),
                ("save", phases.save),
                ("commit", phases.commit),
            ];
            let parts =
                parts.map(|(phase, ms)| (format!("{{{job},phase=\"{phase}\"}}"), ms as f64 / 1e3));
            family("checkpoint_phase_seconds", "gauge", "The newest's phases.", &parts);
        }
        text + "# EOF\n"
    }
}

fn how(ended: &Ended) -> &'static str {
    match ended {
        Ended::Finished => "finished",
        Ended::Saved { .. } => "saved",
        Ended::Failed(_) => "failed",
        Ended::Lost { .. } => "lost",
        Ended::Running | Ended::Unknown => "unknown",
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

/// Beside the file, under a name that no collector takes for one of its own.
fn partial_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

/// A committed checkpoint, for tests.
#[cfg(test)]
pub fn sample(epoch: u32) -> JobEvent {
    let text = format!(
        r#"{{"event": "checkpoint", "epoch": {epoch}, "asked_by": "time", "stop": false,
            "attempts": 1, "ranks": 2, "bytes": 2048, "messages_kept": 0, "total_ms": 1500,
            "phases_ms": {{"park": 12}}, "rank_bytes": {{}}, "rank_pause_us": {{"max": 12300}},
            "rank_park_ms": {{}}, "rank_save_ms": {{}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_is_told_of_once_and_the_text_has_an_end() {
        let mut metrics = Metrics::new("a\"b\\".into(), 1);
        let run = RunBegins { mpi: "mpich".into(), ranks: 4, ..RunBegins::default() };
        metrics.note(&JobEvent::Started(run), 1000.5);
        metrics.note(&sample(4), 1001.0);
        metrics.note(&sample(5), 1002.0);
        let text = metrics.text();
        for line in [
            "# TYPE fermata_checkpoints counter",
            r#"fermata_job_run{job="a\"b\\"} 2"#,
            r#"fermata_job_start_timestamp_seconds{job="a\"b\\"} 1000.5"#,
            r#"fermata_checkpoint_timestamp_seconds{job="a\"b\\"} 1002"#,
            r#"fermata_job_info{job="a\"b\\",mpi="mpich"} 1"#,
            r#"fermata_job_up{job="a\"b\\"} 1"#,
            r#"fermata_checkpoints_total{job="a\"b\\"} 2"#,
            r#"fermata_failed_checkpoints_total{job="a\"b\\"} 0"#,
            r#"fermata_checkpoint_size_bytes{job="a\"b\\"} 2048"#,
            r#"fermata_checkpoint_pause_seconds{job="a\"b\\"} 0.0123"#,
            r#"fermata_checkpoint_phase_seconds{job="a\"b\\",phase="park"} 0.012"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n"), "{text}");
        let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let mut once = types.clone();
        once.dedup();
        assert_eq!(types, once);
        metrics.note(&JobEvent::Ended(Ended::Finished), 1003.0);
        assert!(metrics.text().contains("fermata_job_up{job=\"a\\\"b\\\\\"} 0\n"));
        assert!(metrics.text().contains("how=\"finished\"} 1\n"));
    }

    #[test]
    fn nobody_reads_half_of_them() {
        let dir = std::env::temp_dir().join(format!("fermata-metrics-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("job.prom");
        let metrics = Metrics::new("j".into(), 0);
        for _ in 0..2 {
            metrics.write(&path).unwrap();
        }
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["job.prom"], "nothing is left");
        assert!(metrics.write(&dir.join("none/job.prom")).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
