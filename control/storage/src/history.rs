// SPDX-License-Identifier: Apache-2.0
//! `<dir>/<job>/events.jsonl`: what has happened to a job, a line each, over all its runs.
//!
//! Invariant: what is there is never changed; a line is one write(2) at the end of the file.
//! A full disk may leave a part of a line. The next line begins on one of its own, and readers pass
//! over what is none.

use crate::error::{Operation, StorageError};
use crate::job::JobDir;
use crate::own::{self, Whose};
use fermata_types::{HistoryLine, JobEvent};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// No line that is written is longer, and none is read.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Adds an event of this run. Blocks as long as the disk does.
///
/// # Errors
/// What the file system says: the event is lost then, and nothing else.
pub fn note_event(
    job: &JobDir,
    run: u32,
    now: SystemTime,
    event: &JobEvent,
) -> Result<(), StorageError> {
    let path = job.history_path();
    let line = HistoryLine {
        time: humantime::format_rfc3339_millis(now).to_string(),
        unix_ms: now
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
        run,
        event: event.clone(),
    };
    let failed = |error: io::Error| StorageError::at(Operation::Write, &path, error);
    let text = serde_json::to_string(&line).map_err(|error| failed(error.into()))?;
    let append = || {
        let mut file = own::open_to_append(&job.via(&path))?;
        let torn = if ends_in_a_line(&file)? { "" } else { "\n" };
        let line = format!("{torn}{text}\n");
        match file.write(line.as_bytes())? {
            written if written == line.len() => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::StorageFull)),
        }
    };
    append().map_err(failed)
}

fn ends_in_a_line(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(true) };
    let mut byte = [0];
    file.read_exact_at(&mut byte, last)?;
    Ok(byte == *b"\n")
}

/// The lines of a job's history, oldest first, as they stand there; those that are no objects are
/// passed over. A job without one has none.
///
/// # Errors
/// It cannot be opened.
pub fn read_history(job: &JobDir) -> Result<History, StorageError> {
    let path = job.history_path();
    match own::open(&job.via(&path), Whose::Anybodys(None)) {
        Ok(file) => Ok(History(Some(BufReader::new(file)))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(History(None)),
        Err(error) => Err(StorageError::at(Operation::Read, &path, error)),
    }
}

/// The lines of a history.
pub struct History(Option<BufReader<File>>);

impl Iterator for History {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let file = self.0.as_mut()?;
        loop {
            let mut line = Vec::new();
            let read = file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.unwrap_or(0) == 0 {
                return None;
            }
            if let Ok(value @ Value::Object(_)) = serde_json::from_slice(&line) {
                return Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::Scratch;
    use fermata_types::Ended;
    use std::fs::{self, OpenOptions};

    fn runs(job: &JobDir) -> Vec<u64> {
        read_history(job).unwrap().map(|line| line["run"].as_u64().unwrap()).collect()
    }

    fn note(job: &JobDir, run: u32) {
        note_event(job, run, UNIX_EPOCH, &JobEvent::Ended(Ended::Finished)).unwrap();
    }

    #[test]
    fn lines_come_back_in_their_order() {
        let scratch = Scratch::new();
        let job = scratch.job();
        assert_eq!(runs(&job), [0; 0], "there is none yet");
        job.create().unwrap();
        (1..4).for_each(|run| note(&job, run));
        assert_eq!(runs(&job), [1, 2, 3]);
        let text = fs::read_to_string(job.history_path()).unwrap();
        let first = r#"{"time":"1970-01-01T00:00:00.000Z","unix_ms":0,"run":1,"event":"ended""#;
        assert!(text.starts_with(first), "{text}");
    }

    #[test]
    fn a_torn_line_costs_no_other() {
        let scratch = Scratch::new();
        let job = scratch.job();
        job.create().unwrap();
        note(&job, 1);
        let whole = fs::metadata(job.history_path()).unwrap().len();
        note(&job, 2);
        for cut in 1..30 {
            let file = OpenOptions::new().write(true).open(job.history_path()).unwrap();
            file.set_len(whole + cut).unwrap();
            assert_eq!(runs(&job), [1], "cut after {cut} bytes");
        }
        note(&job, 3);
        assert_eq!(runs(&job), [1, 3]);
    }

    #[test]
    fn what_is_no_object_is_passed_over() {
        let scratch = Scratch::new();
        let job = scratch.job();
        job.create().unwrap();
        let long = "x".repeat(3 << 20);
        fs::write(job.history_path(), format!("7\n\n\u{7}\n{long}\n{{\"run\":1}}\n\u{0}")).unwrap();
        assert_eq!(runs(&job), [1]);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let scratch = Scratch::new();
        let job = scratch.job();
        job.create().unwrap();
        let thesis = scratch.0.join("thesis");
        fs::write(&thesis, "text").unwrap();
        std::os::unix::fs::symlink(&thesis, job.history_path()).unwrap();
        let ended = JobEvent::Ended(Ended::Finished);
        assert!(note_event(&job, 1, UNIX_EPOCH, &ended).is_err());
        assert_eq!(fs::read_to_string(&thesis).unwrap(), "text");
    }

    #[test]
    fn a_full_disk_is_an_error_and_no_more() {
        let scratch = Scratch::new();
        let job = scratch.job();
        job.create().unwrap();
        fs::create_dir(job.history_path()).unwrap(); // as good as any
        let ended = JobEvent::Ended(Ended::Finished);
        let error = note_event(&job, 1, UNIX_EPOCH, &ended).unwrap_err();
        assert!(error.to_string().contains("events.jsonl"), "{error}");
    }
}
