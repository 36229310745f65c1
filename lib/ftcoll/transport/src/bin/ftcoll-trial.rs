// SPDX-License-Identifier: Apache-2.0
//! `ftcoll-trial job`: starts the processes of a job on this host, kills some of them at drawn
//! moments, and looks whether those that live have the same results, which are right. `work` is
//! what each process does. The tests run it, and so does whoever wants figures.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use ftcoll::{CallError, Combine, Comm, Ended, Key, Kind, Op, Rank, environment};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const USAGE: &str = "usage: ftcoll-trial job [--processes N] [--calls N] [--kills N] [--seed N] \
                     [--timeout-ms N] [--only allreduce|barrier|bcast] [--limit-s N] \
                     [--only-silence 0|1]";

type Failure = Box<dyn std::error::Error>;

/// A number that looks random, of a seed and a counter (SplitMix64: Steele, Lea, Flood, 2014).
fn draw(seed: u64, counter: u64) -> u64 {
    let mut bits = seed.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Allreduce,
    Bcast(Rank),
    Reduce(Rank),
    Barrier,
}

/// What all processes do in their call of this number.
fn task(only: Option<&str>, call: u64, size: Rank) -> Task {
    let root = Rank::try_from(call / 4 % u64::from(size)).unwrap_or(0);
    match (only, call % 4) {
        (Some("allreduce"), _) | (None, 0) => Task::Allreduce,
        (Some("bcast"), _) | (None, 1) => Task::Bcast(root),
        (None, 2) => Task::Reduce(root),
        _ => Task::Barrier,
    }
}

/// A process's contribution: its bit, and a number that tells the call.
fn contribution(call: u64, rank: Rank) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(1u64 << rank).to_ne_bytes());
    bytes[8..].copy_from_slice(&call.to_ne_bytes());
    bytes
}

fn sums(buffer: &[u8; 16]) -> (u64, u64) {
    let half = |at: usize| buffer[at..].first_chunk().copied().unwrap_or_default();
    (u64::from_ne_bytes(half(0)), u64::from_ne_bytes(half(8)))
}

/// One call. Returns what is the same at all who live, and what only the root knows.
fn one(comm: &Comm, only: Option<&str>, call: u64) -> (String, Option<(u64, u64)>) {
    let combine = Combine::Predefined(Kind::U64, Op::Sum);
    let task = task(only, call, comm.size());
    let mut buffer = contribution(call, comm.rank());
    let (result, knows) = match task {
        Task::Allreduce => (comm.allreduce(&mut buffer, &combine), true),
        Task::Bcast(root) => (comm.bcast(&mut buffer, root), true),
        Task::Reduce(root) => (comm.reduce(&mut buffer, &combine, root), root == comm.rank()),
        Task::Barrier => (comm.barrier(), false),
    };
    let value = (knows && result.is_ok()).then(|| sums(&buffer));
    (describe(task, result, value), value)
}

fn describe(task: Task, result: Result<Ended, CallError>, value: Option<(u64, u64)>) -> String {
    let shown = match task {
        Task::Reduce(_) | Task::Barrier => None,
        Task::Allreduce | Task::Bcast(_) => value,
    };
    match result {
        Ok(ended) => format!("{shown:?} without {:?}", ended.missing),
        Err(error) => format!("{error:?}"),
    }
}

/// What a process of the job does: a line for each call.
fn work(calls: u64, only: Option<&str>) -> Result<(), Failure> {
    let world = environment::join()?;
    let comm = world.comm();
    let mut out = std::io::stdout().lock();
    for call in 0..calls {
        let begun = Instant::now();
        let (line, value) = one(&comm, only, call);
        let micros = begun.elapsed().as_micros();
        let (mask, sum) = value.unwrap_or_default();
        writeln!(out, "{line}\t{mask}\t{sum}\t{micros}")?;
        out.flush()?;
    }
    drop(comm);
    world.leave()?;
    Ok(())
}

#[derive(Clone)]
struct Job {
    processes: Rank,
    calls: u64,
    kills: u64,
    seed: u64,
    timeout_ms: u64,
    limit: Duration,
    only: Option<String>,
    only_silence: u8,
}

/// What a process has said of a call.
#[derive(Clone, PartialEq, Eq)]
struct Line {
    text: String,
    mask: u64,
    sum: u64,
    micros: u64,
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let mut parts = line.split('\t');
        let text = parts.next()?.to_owned();
        let mut number = || parts.next()?.parse().ok();
        Some(Self { text, mask: number()?, sum: number()?, micros: number()? })
    }
}

/// A process, and what it has said so far.
struct Process {
    child: Mutex<Child>,
    lines: Mutex<Vec<Line>>,
    said: AtomicU64,
}

impl Process {
    fn kill(&self) {
        // One that has ended already needs no kill.
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn directory(seed: u64) -> Result<PathBuf, Failure> {
    let name = format!("ftcoll-trial-{}-{seed}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

fn start(job: &Job, rank: Rank, key: &Key, directory: &Path) -> Result<Arc<Process>, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["work", &job.calls.to_string()]).args(&job.only);
    command.env("FTCOLL_KEY", key.to_text()).env("FTCOLL_RANK", rank.to_string());
    command.env("FTCOLL_SIZE", job.processes.to_string()).env("FTCOLL_DIR", directory);
    command.env("FTCOLL_TIMEOUT_MS", job.timeout_ms.to_string());
    command.env("FTCOLL_ONLY_SILENCE", job.only_silence.to_string());
    command.env("FTCOLL_DEADLINE_MS", job.limit.as_millis().to_string());
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("no pipe")?;
    let process = Arc::new(Process {
        child: Mutex::new(child),
        lines: Mutex::default(),
        said: AtomicU64::new(0),
    });
    let reader = Arc::clone(&process);
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Some(line) = Line::read(&line) else { continue };
            reader.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            reader.said.fetch_add(1, Ordering::Release);
        }
        reader.said.fetch_add(1 << 32, Ordering::Release);
    });
    Ok(process)
}

/// Kills drawn processes, each when it has made a drawn number of calls and some microseconds more
/// have gone by. Returns whom.
fn kill_some(job: &Job, processes: &[Arc<Process>], until: Instant) -> BTreeSet<Rank> {
    let mut plan: Vec<(u64, Rank, u64)> = Vec::new();
    let mut killed = BTreeSet::new();
    for index in 0..u64::MAX {
        if plan.len() as u64 >= job.kills.min(u64::from(job.processes) - 1) {
            break;
        }
        let victim = draw(job.seed, 3 * index) % u64::from(job.processes);
        let victim = Rank::try_from(victim).unwrap_or(0);
        if killed.insert(victim) {
            let call = draw(job.seed, 3 * index + 1) % job.calls;
            plan.push((call, victim, draw(job.seed, 3 * index + 2) % 400));
        }
    }
    plan.sort_unstable();
    for (call, victim, micros) in plan {
        let process = &processes[victim as usize];
        while process.said.load(Ordering::Acquire) < call && Instant::now() < until {
            std::hint::spin_loop();
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(micros));
        process.kill();
    }
    killed
}

fn wait_for_all(processes: &[Arc<Process>], until: Instant) -> bool {
    let has_ended = |process: &Arc<Process>| process.said.load(Ordering::Acquire) >> 32 > 0;
    while !processes.iter().all(has_ended) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
    let in_time = processes.iter().all(has_ended);
    for process in processes {
        process.kill();
        let _ = process.child.lock().unwrap_or_else(PoisonError::into_inner).wait();
    }
    in_time
}

/// What is wrong with a call of those who live, if something is.
fn wrong(job: &Job, call: u64, lines: &[(Rank, &Line)], killed: &BTreeSet<Rank>) -> Option<String> {
    let (_, first) = lines.first()?;
    if let Some((rank, other)) = lines.iter().find(|(_, line)| line.text != first.text) {
        return Some(format!("call {call}: {} but at {rank}: {}", first.text, other.text));
    }
    let task = task(job.only.as_deref(), call, job.processes);
    let may_fail = matches!(task, Task::Bcast(root) | Task::Reduce(root) if killed.contains(&root));
    let is_good = first.text.contains("without") || (may_fail && first.text == "RootDied");
    if !is_good {
        return Some(format!("call {call}: {}", first.text));
    }
    let list = first.text.split("without [").nth(1)?.trim_end_matches(']');
    let missing: Vec<Rank> = list.split(", ").filter_map(|rank| rank.parse().ok()).collect();
    if missing.iter().any(|rank| !killed.contains(rank)) && !matches!(task, Task::Bcast(_)) {
        return Some(format!("call {call}: somebody who lives is left out: {}", first.text));
    }
    let count = u64::from(job.processes) - missing.len() as u64;
    let all = (1u64 << job.processes) - 1 - missing.iter().map(|rank| 1u64 << rank).sum::<u64>();
    let expected = match task {
        Task::Allreduce | Task::Reduce(_) => (all, count * call),
        Task::Bcast(root) => (1 << root, call),
        Task::Barrier => return None,
    };
    let knows = |rank: Rank| !matches!(task, Task::Reduce(root) if root != rank);
    let is_wrong =
        |&&(rank, line): &&(Rank, &Line)| knows(rank) && (line.mask, line.sum) != expected;
    let (rank, line) = lines.iter().find(is_wrong)?;
    Some(format!(
        "call {call}: at {rank} {}: {:?}, not {expected:?}",
        line.text,
        (line.mask, line.sum)
    ))
}

fn run(job: &Job) -> Result<String, Failure> {
    let until = Instant::now() + job.limit;
    let (key, directory) = (Key::generate()?, directory(job.seed)?);
    let begin = |rank| start(job, rank, &key, &directory);
    let processes: Result<Vec<_>, _> = (0..job.processes).map(begin).collect();
    let processes = processes?;
    let killed = kill_some(job, &processes, until);
    let in_time = wait_for_all(&processes, until);
    std::fs::remove_dir_all(&directory)?;
    if !in_time {
        return Err(format!("still busy after {} s", job.limit.as_secs()).into());
    }
    let all: Vec<_> = processes.iter().map(|process| process.lines()).collect();
    let living: Vec<_> = (0..).zip(&all).filter(|(rank, _)| !killed.contains(rank)).collect();
    for (rank, lines) in &living {
        if lines.len() as u64 != job.calls {
            return Err(format!("{rank} lives and ended after {} calls", lines.len()).into());
        }
    }
    let mut micros = Vec::new();
    for call in 0..job.calls {
        let at = usize::try_from(call)?;
        let lines: Vec<_> = living.iter().map(|(rank, lines)| (*rank, &lines[at])).collect();
        if let Some(problem) = wrong(job, call, &lines, &killed) {
            return Err(problem.into());
        }
        micros.push(lines.iter().map(|(_, line)| line.micros).max().unwrap_or(0));
    }
    micros.sort_unstable();
    let part = |share: usize| micros.get(micros.len() * share / 100).copied().unwrap_or(0);
    Ok(format!(
        "{} processes, {} calls, killed {killed:?}: the same at all who live; slowest process, µs: \
         median {}, 99 % {}, longest {}",
        job.processes,
        job.calls,
        part(50),
        part(99),
        micros.last().unwrap_or(&0)
    ))
}

fn arguments(words: &[String]) -> Option<Job> {
    let mut job = Job {
        processes: 4,
        calls: 200,
        kills: 0,
        seed: 1,
        timeout_ms: 2000,
        limit: Duration::from_secs(120),
        only: None,
        only_silence: 0,
    };
    for pair in words.chunks(2) {
        let [name, value] = pair else { return None };
        match name.as_str() {
            "--processes" => job.processes = value.parse().ok().filter(|n| (1..=60).contains(n))?,
            "--calls" => job.calls = value.parse().ok().filter(|&n| n > 0)?,
            "--kills" => job.kills = value.parse().ok()?,
            "--seed" => job.seed = value.parse().ok()?,
            "--timeout-ms" => job.timeout_ms = value.parse().ok()?,
            "--limit-s" => job.limit = Duration::from_secs(value.parse().ok()?),
            "--only-silence" => job.only_silence = value.parse().ok()?,
            "--only" => job.only = Some(value.clone()),
            _ => return None,
        }
    }
    Some(job)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let result = match words.split_first() {
        Some((mode, rest)) if mode == "work" => {
            let calls = rest.first().and_then(|text| text.parse().ok()).unwrap_or(0);
            work(calls, rest.get(1).map(String::as_str)).map(|()| None)
        }
        Some((mode, rest)) if mode == "job" => match arguments(rest) {
            Some(job) => run(&job).map(Some),
            None => Err(USAGE.into()),
        },
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(report) => {
            report.into_iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ftcoll-trial: {error}");
            ExitCode::FAILURE
        }
    }
}
