// SPDX-License-Identifier: Apache-2.0
//! `--metrics FILE`: figures of a run as OpenMetrics text, for the textfile collector of a
//! Prometheus node exporter and its like.
//!
//! Source: OpenMetrics 1.0 (prometheus.io/docs/specs/om/open_metrics_spec), section "Text format".

use fermata_types::{CheckpointTaken, Ended, JobEvent, JobRecord};
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// What is known of a run.
pub struct Metrics {
    job: String,
    mpi: String,
    ranks: u32,
    run: u32,
    started_unix_s: u64,
    taken: u64,
    failed: u64,
    /// The newest checkpoint, and when it was heard of, in seconds since 1970.
    newest: Option<(CheckpointTaken, f64)>,
    ended: Option<Ended>,
}

impl Metrics {
    /// Of a run that begins.
    pub fn of(record: &JobRecord) -> Self {
        Self {
            job: record.job.clone(),
            mpi: record.lower.clone(),
            ranks: record.size,
            run: record.run_number,
            started_unix_s: record.started_unix_s,
            taken: 0,
            failed: 0,
            newest: None,
            ended: None,
        }
    }

    /// Something has happened just now.
    pub fn note(&mut self, event: &JobEvent) {
        match event {
            JobEvent::Checkpoint(taken) => {
                self.taken += 1;
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                self.newest = Some((taken.clone(), now.map_or(0.0, |now| now.as_secs_f64())));
            }
            JobEvent::FailedCheckpoint(_) => self.failed += 1,
            JobEvent::Ended(ended) => self.ended = Some(ended.clone()),
            _ => {}
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
        let info = format!("_info{{{job},mpi=\"{}\"}}", escaped(&self.mpi));
        family("job", "info", "The job and the MPI below it.", &[(info, 1.0)]);
        let is_up = self.ended.is_none();
        family("job_up", "gauge", "Whether the run has not ended.", &own(is_up.into()));
        if let Some(ended) = &self.ended {
            let how = format!("{{{job},how=\"{}\"}}", how(ended));
            family("job_ended", "gauge", "How the run ended.", &[(how, 1.0)]);
        }
        family("job_ranks", "gauge", "Ranks.", &own(self.ranks.into()));
        family("job_run", "gauge", "Which run of the job this is.", &own(self.run.into()));
        let begun = own(self.started_unix_s as f64);
        family("job_start_timestamp_seconds", "gauge", "When this run began.", &begun);
        family("checkpoints", "counter", "Committed in this run.", &total(self.taken));
        family("failed_checkpoints", "counter", "Failed in this run.", &total(self.failed));
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
        let record = JobRecord {
            job: "a\"b\\".into(),
            lower: "mpich".into(),
            size: 4,
            run_number: 2,
            ..JobRecord::default()
        };
        let mut metrics = Metrics::of(&record);
        metrics.note(&sample(4));
        metrics.note(&sample(5));
        let text = metrics.text();
        for line in [
            "# TYPE fermata_job info",
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
        metrics.note(&JobEvent::Ended(Ended::Finished));
        assert!(metrics.text().contains("fermata_job_up{job=\"a\\\"b\\\\\"} 0\n"));
        assert!(metrics.text().contains("how=\"finished\"} 1\n"));
    }

    #[test]
    fn nobody_reads_half_of_them() {
        let dir = std::env::temp_dir().join(format!("fermata-metrics-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("job.prom");
        let metrics = Metrics::of(&JobRecord::default());
        for _ in 0..2 {
            metrics.write(&path).unwrap();
        }
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["job.prom"], "nothing is left");
        assert!(metrics.write(&dir.join("none/job.prom")).is_err());
        fs::remove_dir_all(&dir).unwrap();
    }
}
