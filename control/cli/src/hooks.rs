// SPDX-License-Identifier: Apache-2.0
//! Who else hears of what happens to a job: commands of its user's, and a file of figures
//! (`metrics.rs`). They have a thread of their own: neither job, checkpoint nor retry waits for
//! them.
//!
//! Invariant: a command is ended after `HOOK_MAX`, and `run` ends no later than that after its job.

use crate::ended;
use crate::hints;
use crate::metrics::Metrics;
use crate::wait::end_tree;
use clap::{Args, ValueHint};
use fermata_storage::{JobDir, list_snapshots};
use fermata_sysio::{Log, print_error};
use fermata_types::{Ended, JobEvent};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// So long a command may take.
const HOOK_MAX: Duration = Duration::from_secs(60);
/// One under way, and the last.
const END_MAX: Duration = Duration::from_secs(2 * HOOK_MAX.as_secs());
/// The same where the batch system may end everything at any moment.
const END_MAX_PRESSED: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// What a command prints is kept up to this.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// What is still under way when it has ended: something it left behind may hold the pipe.
const OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// Who hears of a job, as on the command line.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Telling others")]
pub struct Hooks {
    /// Run this by sh -c after each committed checkpoint, with FERMATA_JOB and FERMATA_SNAPSHOT set
    #[arg(long, value_name = "COMMAND-LINE", value_hint = ValueHint::CommandString)]
    pub on_commit: Option<String>,
    /// Run this by sh -c if the job ends otherwise than finished or saved
    #[arg(long, value_name = "COMMAND-LINE", value_hint = ValueHint::CommandString)]
    pub on_failure: Option<String>,
    /// Keep figures of the job in this file, or in fermata-JOB.prom in this directory, as
    /// OpenMetrics text
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub metrics: Option<PathBuf>,
}

/// The thread that hears of a job.
pub struct Listening {
    events: Sender<JobEvent>,
    ended: Receiver<()>,
}

impl Listening {
    /// Begins; `None`: there is nobody to tell. `job`: by its full path; `runs_before`: how many
    /// runs it has had.
    pub fn begin(hooks: &Hooks, job: &JobDir, runs_before: u32) -> Option<Self> {
        if hooks.on_commit.is_none() && hooks.on_failure.is_none() && hooks.metrics.is_none() {
            return None;
        }
        let (events, heard) = channel();
        let (over, ended) = channel();
        let mut listener = Listener::new(hooks.clone(), job.clone(), runs_before);
        let begun = thread::Builder::new().spawn(move || {
            listener.listen(&heard);
            let _ = over.send(());
        });
        if let Err(error) = begun {
            print_error(format_args!("nobody hears of this job: {error}"));
            return None;
        }
        Some(Self { events, ended })
    }

    /// For those who know of the beginnings of runs and of checkpoints.
    pub fn events(&self) -> Sender<JobEvent> {
        self.events.clone()
    }

    /// The last run has ended, so. Waits until all is told, or a signal comes; a command that is
    /// under way then is left to itself. `is_pressed`: not for long.
    pub fn end(self, ended: &Ended, is_pressed: bool) {
        let _ = self.events.send(JobEvent::Ended(ended.clone()));
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).ok();
        let begun = Instant::now();
        let limit = if is_pressed { END_MAX_PRESSED } else { END_MAX };
        while self.ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
            let is_told = signals.as_mut().is_some_and(|it| it.pending().next().is_some());
            if is_told || begun.elapsed() > limit {
                return;
            }
        }
    }
}

struct Listener {
    hooks: Hooks,
    job: JobDir,
    metrics: Metrics,
    log: Option<Log>,
    /// What has failed is told once.
    told: BTreeSet<&'static str>,
}

impl Listener {
    fn new(mut hooks: Hooks, job: JobDir, runs_before: u32) -> Self {
        let log = job.log().ok().map(Log::new);
        let name = hints::name_of(&job);
        for directory in hooks.metrics.iter_mut().filter(|path| path.is_dir()) {
            directory.push(format!("fermata-{name}.prom"));
        }
        let metrics = Metrics::new(name, runs_before);
        Self { hooks, job, metrics, log, told: BTreeSet::new() }
    }

    /// Until the last run has ended. What has piled up while a command ran is told at once: of
    /// several snapshots the newest.
    fn listen(&mut self, events: &Receiver<JobEvent>) {
        while let Ok(first) = events.recv() {
            let batch: Vec<JobEvent> = std::iter::once(first).chain(events.try_iter()).collect();
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_s = now.map_or(0.0, |now| now.as_secs_f64());
            batch.iter().for_each(|event| self.metrics.note(event, now_s));
            self.write_metrics();
            let taken = batch.iter().rev().find_map(|event| match event {
                JobEvent::Checkpoint(taken) => Some(taken.epoch),
                _ => None,
            });
            if let Some(epoch) = taken {
                self.on_commit(epoch);
            }
            let last = batch.iter().find_map(|event| match event {
                JobEvent::Ended(ended) => Some(ended),
                _ => None,
            });
            if let Some(ended) = last {
                return self.on_end(ended);
            }
        }
    }

    fn write_metrics(&mut self) {
        let Some(path) = &self.hooks.metrics else { return };
        if let Err(error) = self.metrics.write(path) {
            let path = path.display();
            let text = format!("cannot write {path}: {error}");
            self.tell("metrics", text);
        }
    }

    fn tell(&mut self, what: &'static str, text: impl Display) {
        if self.told.insert(what) {
            print_error(format_args!("--{what}: {text}"));
        }
    }

    fn on_commit(&mut self, epoch: u32) {
        let Some(command) = self.hooks.on_commit.clone() else { return };
        let snapshot = self.job.snapshots().join(epoch.to_string());
        self.call("on-commit", &command, Some((epoch, snapshot)), &[]);
    }

    fn on_end(&mut self, ended: &Ended) {
        let has_failed = !matches!(ended, Ended::Finished | Ended::Saved { .. });
        let Some(command) = self.hooks.on_failure.clone().filter(|_| has_failed) else { return };
        let newest = list_snapshots(&self.job).pop().map(|newest| (newest.epoch, newest.path));
        let why = match ended {
            Ended::Failed(failed) => failed.why.clone(),
            ended => ended::shown(ended),
        };
        let words = [("FERMATA_HOW", ended::shown(ended)), ("FERMATA_WHY", why)];
        self.call("on-failure", &command, newest, &words);
    }

    /// Runs a command of the user's to its end.
    fn call(
        &mut self,
        what: &'static str,
        command: &str,
        snapshot: Option<(u32, PathBuf)>,
        words: &[(&str, String)],
    ) {
        let (epoch, path) = snapshot
            .map_or((String::new(), PathBuf::new()), |(epoch, path)| (epoch.to_string(), path));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("exec 2>&1\n{command}"));
        shell.env("FERMATA_EVENT", what).env("FERMATA_JOB", hints::name_of(&self.job));
        shell.env("FERMATA_EPOCH", epoch).env("FERMATA_SNAPSHOT", path);
        if let Some(dir) = self.job.path().parent() {
            shell.env(hints::VARIABLE, dir); // so that commands in it find the job
        }
        shell.envs(words.iter().map(|(name, value)| (*name, value)));
        let (output, status) = match finish(&mut shell, HOOK_MAX) {
            Ok(found) => found,
            Err(error) => (String::new(), Err(format!("cannot be started: {error}"))),
        };
        let status = status.and_then(|status| match status.success() {
            true => Ok(()),
            false => Err(format!("has failed ({status})")),
        });
        if let Some(log) = &mut self.log {
            output.lines().for_each(|line| log.say(&format!("{what}: {line}")));
            if let Err(why) = &status {
                log.say(&format!("{what}: {why}"));
            }
        }
        if let Err(why) = status {
            let log = hints::quoted_path(&self.job.path().join("coordinator.log"));
            let hint = "hint: it is not told again; what it printed is in";
            self.tell(what, format_args!("the command {why}\n  {hint} {log}"));
        }
    }
}

/// What a command has printed, and how it ended, or why it was ended.
type Finished = (String, Result<ExitStatus, String>);

/// # Errors
/// It cannot be started.
fn finish(command: &mut Command, limit: Duration) -> std::io::Result<Finished> {
    // In a group of its own: the keys of the terminal are for the job.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn()?;
    let printed = read_behind(&mut child);
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Ok(status),
            None if begun.elapsed() >= limit => {
                end_tree(&mut child);
                let _ = child.wait();
                break Err(format!("was ended after {} s", limit.as_secs()));
            }
            None => thread::sleep(POLL),
        }
    };
    Ok((printed.recv_timeout(OUTPUT_WAIT).unwrap_or_default(), status))
}

/// Takes what a child prints, so that it does not wait for that.
fn read_behind(child: &mut Child) -> Receiver<String> {
    let (done, printed) = channel();
    if let Some(mut pipe) = child.stdout.take() {
        let read = move || {
            let mut bytes = Vec::new();
            let _ = pipe.by_ref().take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            let _ = done.send(String::from_utf8_lossy(&bytes).into_owned());
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        };
        let _ = thread::Builder::new().spawn(read);
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Finished {
        finish(Command::new("sh").arg("-c").arg(script), limit).unwrap()
    }

    #[test]
    fn what_a_command_prints_is_kept_and_no_more_than_that() {
        let (output, status) = shell("exec 2>&1; echo out; echo err >&2", HOOK_MAX);
        assert_eq!((output.as_str(), status.unwrap().success()), ("out\nerr\n", true));
        let (output, status) = shell("yes | head -c 1000000; exit 3", HOOK_MAX);
        assert_eq!(output.len() as u64, OUTPUT_BYTES_MAX);
        assert_eq!(status.unwrap().code(), Some(3));
    }

    #[test]
    fn a_command_that_hangs_is_ended_and_one_it_left_behind_is_not_waited_for() {
        let begun = Instant::now();
        let (_, status) = shell("trap '' TERM; sleep 1000", Duration::ZERO);
        assert!(status.unwrap_err().contains("was ended"));
        let (_, status) = shell("sleep 5 & exit 0", HOOK_MAX);
        assert!(status.unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn commands_hear_of_the_newest_snapshot_and_of_a_failure() {
        let dir = std::env::temp_dir().join(format!("fermata-hooks-{}", std::process::id()));
        let job = JobDir::new(&dir, "j");
        job.create().unwrap();
        let told = dir.join("told");
        let words = "$FERMATA_EVENT $FERMATA_JOB $FERMATA_EPOCH $FERMATA_SNAPSHOT";
        let hooks = Hooks {
            on_commit: Some(format!("echo {words} >> {}", told.display())),
            on_failure: Some(format!("echo {words} $FERMATA_WHY >> {}; false", told.display())),
            metrics: Some(dir.clone()),
        };
        let listening = Listening::begin(&hooks, &job, 0).unwrap();
        listening.events().send(crate::metrics::sample(4)).unwrap();
        listening.end(&Ended::Lost { host: "b".into() }, false);
        let text = std::fs::read_to_string(&told).unwrap();
        let snapshot = job.snapshots().join("4");
        let commit = format!("on-commit j 4 {}\n", snapshot.display());
        assert_eq!(text, commit + "on-failure j lost host b\n");
        let log = std::fs::read_to_string(dir.join("j/coordinator.log")).unwrap();
        assert!(log.contains("on-failure: has failed (exit status: 1)"), "{log}");
        assert!(std::fs::read_to_string(dir.join("fermata-j.prom")).unwrap().ends_with("# EOF\n"));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
