// SPDX-License-Identifier: Apache-2.0
//! The commands that hints tell. They work where they are read: whoever reads this terminal is
//! where the command was given, and needs no `--dir` if none was; a log is read from anywhere.

use fermata_storage::{JobDir, read_history};
use fermata_sysio::is_in_foreground;
use serde_json::Value;
use std::borrow::Cow;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where jobs are if nobody says anything.
pub const DEFAULT_DIRECTORY: &str = "fermata";
static CONFIGURED: OnceLock<PathBuf> = OnceLock::new();

/// The configuration says where they are.
pub fn configure_directory(dir: PathBuf) {
    let _ = CONFIGURED.set(dir); // once, at the beginning
}

/// Where jobs are if neither a flag nor the environment says so.
pub fn default_directory() -> &'static Path {
    CONFIGURED.get().map_or(Path::new(DEFAULT_DIRECTORY), PathBuf::as_path)
}

/// Says where they are.
pub const VARIABLE: &str = "FERMATA_DIR";

/// One word of a command line.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%#".contains(c);
    if !word.is_empty() && !word.starts_with('#') && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// A path, from wherever it is read.
pub fn quoted_path(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    quoted(&path.to_string_lossy()).into_owned()
}

/// A job's directory bears the name that commands know it by.
pub fn name_of(job: &JobDir) -> String {
    job.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn parent_of(job: &JobDir) -> &Path {
    job.path().parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `fermata WORDS`, for the jobs in this directory.
pub fn in_directory(dir: &Path, words: &str) -> String {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let is_default = std::env::var_os(VARIABLE).is_none() && real(dir) == real(default_directory());
    if is_default && io::stderr().is_terminal() {
        return format!("fermata {words}");
    }
    format!("fermata {words} --dir {}", quoted_path(dir))
}

/// `fermata WORDS`, for the jobs beside this one.
pub fn beside(job: &JobDir, words: &str) -> String {
    in_directory(parent_of(job), words)
}

/// `fermata VERB JOB WORDS`
pub fn for_job(job: &JobDir, verb: &str, words: &str) -> String {
    let line = format!("{verb} {} {words}", quoted(&name_of(job)));
    in_directory(parent_of(job), line.trim_end())
}

/// The command that continues from a job's newest snapshot, for those who ask the job's coordinator
/// from anywhere.
pub fn restart_from_anywhere(job: &JobDir) -> String {
    let dir = quoted_path(parent_of(job));
    format!("fermata restart {} --dir {dir}", quoted(&name_of(job)))
}

/// The command that saves a job, on the host that runs it: by the batch system's own means where
/// that may let in nobody else.
pub fn save_on_host(host: &str, job: &JobDir) -> String {
    let (name, dir) = (name_of(job), quoted_path(parent_of(job)));
    let save = format!("fermata checkpoint {} --dir {dir}", quoted(&name));
    match slurm_job(job) {
        Some(id) => format!("srun --overlap --jobid={id} -n1 -w {} {save}", quoted(host)),
        None => format!("ssh {} {save}", quoted(host)),
    }
}

/// Slurm's job that the newest run of a job belongs to.
fn slurm_job(job: &JobDir) -> Option<String> {
    let of_run = |line: Value| match line.get("event")?.as_str()? {
        "started" | "resumed" => {
            Some(line.get("batch_job").and_then(Value::as_str).unwrap_or_default().to_owned())
        }
        _ => None,
    };
    let newest = read_history(job).ok()?.filter_map(of_run).last()?;
    newest.strip_prefix("slurm ").map(str::to_owned)
}

/// How the reader ends this process. Keys do not reach a batch job.
pub fn how_to_end() -> String {
    if is_in_foreground() { "Ctrl-C".into() } else { format!("kill {}", std::process::id()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_by_a_shell_as_they_are_meant() {
        assert_eq!(quoted("/a/b-1.c"), "/a/b-1.c");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$HOME"), "'$HOME'");
    }

    #[test]
    fn a_job_on_another_host_is_saved_there() {
        let dir = std::env::temp_dir().join(format!("fermata-hints-{}", std::process::id()));
        let job = JobDir::new(&dir, "work");
        job.create().unwrap();
        let ask = format!("fermata checkpoint work --dir {}", dir.display());
        assert_eq!(save_on_host("b", &job), format!("ssh b {ask}"));
        let begins = |batch: &str| fermata_types::RunBegins {
            batch_job: batch.into(),
            ..fermata_types::RunBegins::default()
        };
        let now = std::time::SystemTime::UNIX_EPOCH;
        for (run, batch) in [(1, "slurm 7"), (2, "slurm 8")] {
            let event = fermata_types::JobEvent::Started(begins(batch));
            fermata_storage::note_event(&job, run, now, &event).unwrap();
        }
        assert_eq!(save_on_host("b", &job), format!("srun --overlap --jobid=8 -n1 -w b {ask}"));
        let event = fermata_types::JobEvent::Resumed { snapshot: 1, run: begins("") };
        fermata_storage::note_event(&job, 3, now, &event).unwrap();
        assert_eq!(save_on_host("b", &job), format!("ssh b {ask}"));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_job_is_found_from_anywhere() {
        let job = JobDir::new(Path::new("/some where/jobs"), "work");
        let line = restart_from_anywhere(&job);
        assert_eq!(line, "fermata restart work --dir '/some where/jobs'");
    }
}
