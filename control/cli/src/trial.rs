// SPDX-License-Identifier: Apache-2.0
//! Trials for `doctor`: parts of the installation are started as jobs start them, in this
//! environment and under these limits, and each for so long at most.

use crate::wait::end_tree;
use fermata_launch::mpi::Lower;
use fermata_launch::registry::Prefix;
use fermata_sysio::{random_bytes, send_signal};
use signal_hook::consts::SIGTERM;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(20);
/// A job of one rank takes a second, and a crowded machine a multiple of that.
const LIMIT: Duration = Duration::from_secs(60);
/// So long a command has to end its own children when it is asked to.
const GRACE: Duration = Duration::from_secs(5);
/// Of what a command that failed has said so much is shown: from our own first line on, else its
/// end.
const LINES_SHOWN: usize = 6;

/// A directory for a trial, gone with it: one that nobody can have made before, or may enter.
struct Room(PathBuf);

impl Room {
    fn new(what: &str) -> Result<Self, String> {
        let random = random_bytes().map_err(|why| format!("no random numbers: {why}"))?;
        let name = format!("fermata-{what}-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|why| format!("cannot make {}: {why}\n  hint: set TMPDIR", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // Nothing to be done if it cannot be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits for the command's end, `limit` at most: then it is ended, and `None`.
fn finish(command: &mut Command, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let mut asked = false;
    while begun.elapsed() < limit + GRACE {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status).filter(|_| !asked));
        }
        if begun.elapsed() > limit && !asked {
            asked = true;
            let _ = send_signal(child.id(), SIGTERM);
        }
        thread::sleep(TICK);
    }
    end_tree(&mut child);
    child.wait()?;
    Ok(None)
}

/// Runs the command in `room`. Returns what it printed, or why it failed, with its last words.
fn run(command: &mut Command, room: &Room, limit: Duration) -> Result<String, String> {
    let (out, errors) = (room.0.join("stdout"), room.0.join("stderr"));
    let file = |path: &Path| {
        File::create(path).map_err(|why| format!("cannot write {}: {why}", path.display()))
    };
    // Files, since what a job leaves behind would hold a pipe open.
    command.stdin(Stdio::null()).stdout(file(&out)?).stderr(file(&errors)?);
    let ended = finish(command, limit).map_err(|why| {
        format!("cannot start {}: {why}", command.get_program().to_string_lossy())
    })?;
    if ended.is_some_and(|status| status.success()) {
        return fs::read_to_string(&out).map_err(|why| why.to_string());
    }
    let words = fs::read(&errors).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let lines: Vec<&str> = words.trim_end().lines().collect();
    let end = lines.len().saturating_sub(LINES_SHOWN);
    // What mpirun says of the end of a rank comes behind what the rank itself has said.
    let from = lines.iter().position(|line| line.starts_with("fermata: ")).unwrap_or(end);
    let shown: Vec<&str> = lines.into_iter().skip(from).take(LINES_SHOWN).collect();
    let how = ended.map_or_else(
        || format!("had not ended after {} s", limit.as_secs()),
        |status| format!("failed ({status})"),
    );
    Err(format!("{how}\n{}", fermata_sysio::printable(&shown.join("\n"))))
}

/// Whether the finder of FS prefixes can be started here, and reads a file.
pub fn site_finder(prefix: &Prefix) -> Result<(), String> {
    let room = Room::new("sites")?;
    let mut command = Command::new(prefix.sites_tool());
    run(command.arg("--quiet").arg(prefix.trial()), &room, LIMIT).map(|_| ())
}

/// Runs a job of one rank on that MPI, which has itself saved, and restarts it from its snapshot.
pub fn job(prefix: &Prefix, lower: &Lower) -> Result<(), String> {
    let room = Room::new(&format!("trial-{}", lower.name))?;
    let fermata = prefix.fermata().map_err(|why| format!("{why:#}"))?;
    let jobs = room.0.join("jobs");
    let phase = |what: &str, rest: &[&str], expected: &str| {
        let mut command = Command::new(&fermata);
        command.current_dir(&room.0).arg("--dir").arg(&jobs).arg(what).args(rest);
        if what == "run" {
            command.arg(prefix.trial());
        }
        let printed = run(&mut command, &room, LIMIT).map_err(|why| format!("{what} {why}"))?;
        match printed.lines().any(|line| line == expected) {
            true => Ok(()),
            false => Err(format!("{what} ended well, but the program did not say '{expected}'")),
        }
    };
    let mpi = lower.name.as_str();
    phase("run", &["-n", "1", "--mpi", mpi, "--name", "trial", "--"], "saved")?;
    phase("restart", &["--mpi", mpi, "trial"], "restarted")
}

/// The trials of all these, at the same time.
pub fn jobs(prefix: &Prefix, lowers: &[Lower]) -> Vec<Result<(), String>> {
    thread::scope(|scope| {
        let running: Vec<_> =
            lowers.iter().map(|lower| scope.spawn(move || job(prefix, lower))).collect();
        let died = || Err("the trial itself failed".to_owned());
        running.into_iter().map(|one| one.join().unwrap_or_else(|_| died())).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn shell(script: &str, limit: Duration) -> Result<String, String> {
        let room = Room::new("test").expect("a directory");
        run(Command::new("sh").arg("-c").arg(script), &room, limit)
    }

    #[test]
    fn a_trial_that_fails_has_last_words() {
        assert_eq!(shell("echo done", LIMIT), Ok("done\n".to_owned()));
        let why = shell("echo because >&2; exit 3", LIMIT).expect_err("it fails");
        assert!(why.contains("exit status: 3") && why.ends_with("because"), "{why}");
    }

    #[test]
    fn the_room_of_a_trial_is_its_own() {
        let rooms = [(); 2].map(|()| Room::new("test").expect("a directory"));
        assert_ne!(rooms[0].0, rooms[1].0);
        let mode = fs::metadata(&rooms[0].0).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
        let path = rooms[0].0.clone();
        drop(rooms);
        assert!(!path.exists());
    }

    #[test]
    fn a_trial_that_hangs_is_ended() {
        let why = shell("trap '' TERM; sleep 1000", Duration::ZERO).expect_err("it is ended");
        assert!(why.contains("had not ended"), "{why}");
    }
}
