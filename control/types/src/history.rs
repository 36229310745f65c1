// SPDX-License-Identifier: Apache-2.0
//! The history of a job, `events.jsonl`: an object a line, one for each thing that has happened to
//! it, over all its runs. docs/reference/history.md describes it for those who read it.
//!
//! Invariant: a reader passes over events and fields that it does not know.

use crate::{Ended, Every, words};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryLine {
    /// When it was written: RFC 3339, UTC, with milliseconds.
    pub time: String,
    /// The same, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The run of the job, from 1 on.
    pub run: u32,
    /// What has happened.
    #[serde(flatten)]
    pub event: JobEvent,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JobEvent {
    /// A run has begun from the beginning.
    Started(RunBegins),
    /// A run has begun from a snapshot.
    Resumed {
        /// Its number.
        snapshot: u32,
        /// The run.
        #[serde(flatten)]
        run: RunBegins,
    },
    /// A checkpoint is committed.
    Checkpoint(CheckpointTaken),
    /// A checkpoint has failed.
    FailedCheckpoint(CheckpointFailed),
    /// The run has ended.
    Ended(Ended),
    /// What only a newer version knows.
    #[serde(other)]
    Unknown,
}

/// What a run begins with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunBegins {
    /// Name of the registered MPI below.
    pub mpi: String,
    /// How many ranks; 0: a foreign mpirun decides.
    pub ranks: u32,
    /// The coordinator's host.
    pub host: String,
    /// The hosts that were given, `NAME:RANKS`.
    pub hosts: Vec<String>,
    /// How often it is saved of itself.
    #[serde(rename = "every_ms")]
    pub every: Every,
    /// The program and its arguments; of several programs the first one's.
    #[serde(with = "words")]
    pub argv: Vec<OsString>,
    /// The batch system's job, if this is one: `slurm 123`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub batch_job: String,
}

/// Who has asked for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskedBy {
    /// `fermata checkpoint`.
    Command,
    /// The interval.
    Time,
    /// The program itself.
    Program,
}

/// How long the parts of a checkpoint took, in ms, over all its attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhasesMs {
    /// For old snapshots to be removed, for the program to let it happen, and between attempts.
    pub wait: u64,
    /// Until all ranks had parked.
    pub park: u64,
    /// Until all messages in flight were received.
    pub drain: u64,
    /// Until all images were written.
    pub save: u64,
    /// Until the snapshot was on disk under its name.
    pub commit: u64,
}

/// A figure that every rank has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// The smallest.
    pub min: u64,
    /// The one in the middle, of two the smaller.
    pub median: u64,
    /// The largest.
    pub max: u64,
    /// The rank with the largest, of several the first.
    pub rank: u32,
}

impl Spread {
    /// Of the figures of these ranks. All 0 if there is none.
    pub fn of(figures: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let mut figures: Vec<(u32, u64)> = figures.into_iter().collect();
        figures.sort_unstable_by_key(|(rank, figure)| (*figure, std::cmp::Reverse(*rank)));
        let (Some(first), Some(last)) = (figures.first(), figures.last()) else {
            return Self::default();
        };
        let median = figures[(figures.len() - 1) / 2].1;
        Self { min: first.1, median, max: last.1, rank: last.0 }
    }
}

/// What a committed checkpoint took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointTaken {
    /// Its number.
    pub epoch: u32,
    /// Who has asked for it.
    pub asked_by: AskedBy,
    /// It ends the run.
    pub stop: bool,
    /// Attempts made.
    pub attempts: u32,
    /// Ranks saved.
    pub ranks: u32,
    /// Size of all images.
    pub bytes: u64,
    /// Messages that ranks have received early and keep.
    pub messages_kept: u64,
    /// From the request to the commit.
    pub total_ms: u64,
    /// The parts of that.
    pub phases_ms: PhasesMs,
    /// Size of a rank's image.
    pub rank_bytes: Spread,
    /// How long a rank stood still.
    pub rank_pause_us: Spread,
    /// From the beginning of the last attempt until a rank had parked.
    pub rank_park_ms: Spread,
    /// From the order to write images until a rank's was written.
    pub rank_save_ms: Spread,
}

/// How a checkpoint failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointFailed {
    /// The number of its last attempt.
    pub epoch: u32,
    /// Who has asked for it.
    pub asked_by: AskedBy,
    /// It was to end the run.
    pub stop: bool,
    /// Attempts made.
    pub attempts: u32,
    /// Where it was.
    pub phase: String,
    /// Why it was given up.
    pub reason: String,
    /// From the request on.
    pub total_ms: u64,
    /// The parts of that.
    pub phases_ms: PhasesMs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HowFailed;

    fn line(event: JobEvent) -> HistoryLine {
        HistoryLine { time: "2026-01-02T03:04:05.006Z".into(), unix_ms: 7, run: 2, event }
    }

    fn text(event: JobEvent) -> String {
        serde_json::to_string(&line(event)).unwrap()
    }

    #[test]
    fn every_event_comes_back() {
        let run = RunBegins { mpi: "mpich".into(), ranks: 2, ..RunBegins::default() };
        let taken = CheckpointTaken {
            epoch: 4,
            asked_by: AskedBy::Time,
            stop: false,
            attempts: 1,
            ranks: 2,
            bytes: 9,
            messages_kept: 0,
            total_ms: 5,
            phases_ms: PhasesMs { park: 1, ..PhasesMs::default() },
            rank_bytes: Spread::of([(0, 4), (1, 5)]),
            rank_pause_us: Spread::default(),
            rank_park_ms: Spread::default(),
            rank_save_ms: Spread::default(),
        };
        let failed = CheckpointFailed {
            epoch: 5,
            asked_by: AskedBy::Command,
            stop: true,
            attempts: 2,
            phase: "parking".into(),
            reason: "rank 1 has left the job".into(),
            total_ms: 6,
            phases_ms: PhasesMs::default(),
        };
        for event in [
            JobEvent::Started(run.clone()),
            JobEvent::Resumed { snapshot: 3, run },
            JobEvent::Checkpoint(taken),
            JobEvent::FailedCheckpoint(failed),
            JobEvent::Ended(Ended::Finished),
            JobEvent::Ended(Ended::Failed(HowFailed { code: Some(3), ..HowFailed::default() })),
        ] {
            let read: HistoryLine = serde_json::from_str(&text(event.clone())).unwrap();
            assert_eq!(read, line(event));
        }
    }

    #[test]
    fn a_line_is_flat() {
        assert_eq!(
            text(JobEvent::Ended(Ended::Saved { epoch: 3 })),
            concat!(
                r#"{"time":"2026-01-02T03:04:05.006Z","unix_ms":7,"run":2,"#,
                r#""event":"ended","how":"saved","epoch":3}"#
            )
        );
    }

    #[test]
    fn events_and_fields_of_newer_versions_are_passed_over() {
        let text = r#"{"time":"t","unix_ms":7,"run":2,"event":"migrated","to":"b"}"#;
        assert_eq!(serde_json::from_str::<HistoryLine>(text).unwrap().event, JobEvent::Unknown);
        let text = r#"{"time":"t","unix_ms":7,"run":2,"event":"started","mpi":"m","later":1}"#;
        let JobEvent::Started(run) = serde_json::from_str::<HistoryLine>(text).unwrap().event
        else {
            panic!("another event")
        };
        assert_eq!(run.mpi, "m");
    }

    #[test]
    fn a_spread_names_the_rank_with_the_largest() {
        let spread = Spread::of([(0, 7), (1, 3), (2, 7), (3, 5)]);
        assert_eq!(spread, Spread { min: 3, median: 5, max: 7, rank: 0 });
        assert_eq!(Spread::of([]), Spread::default());
    }
}
