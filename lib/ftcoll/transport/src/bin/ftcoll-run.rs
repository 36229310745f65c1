// SPDX-License-Identifier: Apache-2.0
//! `ftcoll-run`: starts the processes of a job on this host and lets the others live when one dies.
//! It hands the key and the ranks over in the environment (`ftcoll::environment`).
#![allow(clippy::print_stderr)]

use ftcoll::Key;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: ftcoll-run -n PROCESSES [--kill RANK@SECONDS].. -- PROGRAM [ARGUMENT..]";
const STEP: Duration = Duration::from_millis(2);

type Failure = Box<dyn std::error::Error>;

struct Arguments {
    processes: u32,
    /// To try what happens: whom to kill, and when.
    kills: Vec<(u32, Duration)>,
    program: Vec<String>,
}

fn kill_at(text: &str) -> Option<(u32, Duration)> {
    let (rank, seconds) = text.split_once('@')?;
    Some((rank.parse().ok()?, Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?))
}

fn arguments() -> Option<Arguments> {
    let (mut processes, mut kills) = (0, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-n" => processes = words.next()?.parse().ok()?,
            "--kill" => kills.push(kill_at(&words.next()?)?),
            "--" => break,
            _ => return None,
        }
    }
    let program: Vec<_> = words.collect();
    let is_good = processes > 0 && !program.is_empty();
    is_good.then_some(Arguments { processes, kills, program })
}

/// The directory of the addresses, removed at the end.
struct Meeting(PathBuf);

impl Meeting {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("ftcoll-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // Of files that nobody needs any more.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(arguments: &Arguments, rank: u32, key: &Key, directory: &Path) -> Result<Child, Failure> {
    let mut command = Command::new(&arguments.program[0]);
    command.args(&arguments.program[1..]);
    command.env("FTCOLL_KEY", key.to_text()).env("FTCOLL_RANK", rank.to_string());
    command.env("FTCOLL_SIZE", arguments.processes.to_string()).env("FTCOLL_DIR", directory);
    let child = command.spawn();
    child.map_err(|why| format!("{}: {why}", arguments.program[0]).into())
}

fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let (key, meeting) = (Key::generate()?, Meeting::new()?);
    let mut living = Vec::new();
    for rank in 0..arguments.processes {
        living.push((rank, start(arguments, rank, &key, &meeting.0)?));
    }
    let begun = Instant::now();
    let mut kills = arguments.kills.clone();
    let mut ended_well = 0;
    while !living.is_empty() {
        for (rank, child) in &mut living {
            if kills.iter().any(|(victim, at)| victim == rank && begun.elapsed() >= *at) {
                kills.retain(|(victim, _)| victim != rank);
                child.kill()?;
            }
        }
        let mut left = Vec::new();
        for (rank, mut child) in living {
            match child.try_wait()? {
                None => left.push((rank, child)),
                Some(status) if status.success() => ended_well += 1,
                Some(status) => match status.signal() {
                    Some(signal) => eprintln!("ftcoll-run: {rank} died of signal {signal}"),
                    None => eprintln!("ftcoll-run: {rank} ended with {:?}", status.code()),
                },
            }
        }
        living = left;
        std::thread::sleep(STEP);
    }
    eprintln!("ftcoll-run: {ended_well} of {} processes came to their end", arguments.processes);
    Ok(if ended_well > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("ftcoll-run: {error}");
        ExitCode::FAILURE
    })
}
