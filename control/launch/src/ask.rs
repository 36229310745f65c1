// SPDX-License-Identifier: Apache-2.0
//! Asking a program of the system, which may hang: the controller of a batch system does.

use anyhow::{Context, Result, anyhow};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
/// Nobody has more to say that is read here.
const ANSWER_MAX: u64 = 1 << 20;

/// What a command prints, if it succeeds within `timeout`; it is ended otherwise. It reads nothing.
///
/// # Errors
/// It cannot be started, fails or takes too long; with the last line that it has said of it.
pub fn ask(command: &mut Command, timeout: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let begun = Instant::now();
    let said = child.stdout.take().map(listen);
    let complaint = child.stderr.take().map(listen);
    // What is still open when it has ended is its children's.
    let text = |said: Option<std::sync::mpsc::Receiver<String>>| {
        let left = timeout.saturating_sub(begun.elapsed()).max(POLL);
        said.and_then(|said| said.recv_timeout(left).ok()).unwrap_or_default()
    };
    loop {
        match child.try_wait().with_context(|| format!("cannot wait for {name}"))? {
            Some(status) if status.success() => return Ok(text(said)),
            Some(status) => {
                let complaint = text(complaint);
                let last = complaint.trim_end().lines().last().unwrap_or_default().to_owned();
                let why = if last.is_empty() { status.to_string() } else { last };
                return Err(anyhow!("{name} fails: {why}"));
            }
            None if begun.elapsed() >= timeout => {
                let _ = child.kill();
                let _ = child.wait();
                let seconds = timeout.as_secs();
                return Err(anyhow!("{name} does not answer within {seconds} s"));
            }
            None => thread::sleep(POLL),
        }
    }
}

fn listen(stream: impl Read + Send + 'static) -> std::sync::mpsc::Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.take(ANSWER_MAX).read_to_end(&mut bytes); // what has come counts
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shell(line: &str, timeout: Duration) -> Result<String> {
        ask(Command::new("sh").args(["-c", line]), timeout)
    }

    #[test]
    fn the_answer_is_what_is_printed_and_a_failure_its_last_line() {
        let long = Duration::from_secs(20);
        assert_eq!(shell("echo a; echo b >&2", long).unwrap(), "a\n");
        let error = shell("echo a; echo first >&2; echo second >&2; exit 1", long).unwrap_err();
        assert_eq!(error.to_string(), "sh fails: second");
        assert!(shell("exit 3", long).unwrap_err().to_string().contains("exit status: 3"));
        assert!(ask(&mut Command::new("/no/such/program"), long).is_err());
    }

    #[test]
    fn nobody_is_waited_for_longer_than_said() {
        let begun = Instant::now();
        let error = shell("exec sleep 30", Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
