// SPDX-License-Identifier: Apache-2.0
//! The log of a process that serves a job: it lies in the job's directory or in memory, and may be
//! written for weeks.

use crate::printable;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// No log becomes larger.
const BYTES_MAX: u64 = 8 << 20;
/// Nor does a line: others may have had it written.
const LINE_CHARS_MAX: usize = 64 << 10;
const DROPPED: &str = "(earlier lines were dropped: the log had come to its limit)\n";

/// Lines with the seconds since it was opened. When it is full its older half is dropped.
pub struct Log {
    file: File,
    begun: Instant,
    bytes_max: u64,
}

impl Log {
    /// Continues behind what the file has, which must be open for reading as well.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self { file, begun: Instant::now(), bytes_max: BYTES_MAX }
    }

    /// A log that cannot be written must not hurt the job.
    pub fn say(&mut self, text: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let text: String = printable(text).chars().take(LINE_CHARS_MAX).collect();
        let line = format!("{seconds:10.3} {text}\n");
        let _ = self.append(line.as_bytes());
    }

    /// The length is asked for anew each time: somebody else may have cut the file back.
    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut bytes = self.file.metadata()?.len();
        if bytes + line.len() as u64 > self.bytes_max {
            bytes = self.drop_older_half(bytes)?;
        }
        self.file.write_all_at(line, bytes)
    }

    /// Of so many bytes. Returns how many are left.
    fn drop_older_half(&self, bytes: u64) -> io::Result<u64> {
        let half = bytes.min(self.bytes_max / 2);
        let mut newer = vec![0; usize::try_from(half).unwrap_or(0)];
        self.file.read_exact_at(&mut newer, bytes - half)?;
        let whole_lines =
            newer.iter().position(|byte| *byte == b'\n').map_or(&[][..], |end| &newer[end + 1..]);
        let left = [DROPPED.as_bytes(), whole_lines].concat();
        self.file.set_len(0)?;
        self.file.write_all_at(&left, 0)?;
        Ok(left.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::path::Path;

    /// A fresh small log at `path`.
    fn small_log(path: &Path, append: bool) -> Log {
        let _ = fs::remove_file(path);
        let mut how = OpenOptions::new();
        let file = how.read(true).write(true).append(append).create(true).open(path).unwrap();
        Log { bytes_max: 2000, ..Log::new(file) }
    }

    #[test]
    fn a_log_that_was_cut_back_from_outside_continues() {
        let path = std::env::temp_dir().join(format!("fermata-log-cut-{}", std::process::id()));
        for append in [false, true] {
            let mut log = small_log(&path, append);
            for number in 0..1000 {
                if number % 70 == 50 {
                    fs::write(&path, "").unwrap();
                }
                log.say(&format!("line {number}"));
                let text = fs::read_to_string(&path).unwrap();
                assert!(text.ends_with(&format!("line {number}\n")), "{number}: {text}");
                assert!(!text.contains('\0'), "{text:?}");
            }
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_log_keeps_its_newest_lines() {
        let path = std::env::temp_dir().join(format!("fermata-log-{}", std::process::id()));
        for append in [false, true] {
            let mut log = small_log(&path, append);
            for number in 0..1000 {
                log.say(&format!("line {number} of a stranger\x1b[2J"));
                let bytes = fs::metadata(&path).unwrap().len();
                assert!(bytes <= 2000, "{bytes} bytes after line {number}");
            }
            let text = fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines[0], DROPPED.trim_end());
            assert!(lines.len() > 20, "{text}");
            assert!(lines[1].contains(" line ") && !text.contains('\x1b'), "{text}");
            assert!(lines[lines.len() - 1].contains("line 999 "), "{text}");
        }
        fs::remove_file(&path).unwrap();
    }
}
