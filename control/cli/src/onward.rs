// SPDX-License-Identifier: Apache-2.0
//! What comes after a job that was saved and is not done: the batch system queues it again
//! (`--requeue`), or a command line sees to that (`--chain`).

use crate::life::Life;
use fermata_launch::ask::ask;
use fermata_sysio::print_error;
use std::process::Command;
use std::time::Duration;

/// How long the line of `--chain` may take.
const CHAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Sees to it. What does not work is told, and changes nothing: the job is saved all the same.
/// Blocks for a minute at most.
pub fn go_onward(life: &Life) {
    if life.options.requeues() {
        requeue(life);
    } else if let Some(line) = &life.options.chain {
        match ask(Command::new("sh").args(["-c", line]), CHAIN_TIMEOUT) {
            Ok(answer) => print_error(format_args!("--chain: {}", last_line(&answer))),
            Err(error) => print_error(format_args!(
                "--chain: {error:#}\n  hint: the job is saved; give the line by hand: {line}"
            )),
        }
    }
}

fn requeue(life: &Life) {
    let Some(batch) = &life.batch else { return };
    match batch.requeue() {
        Ok(done) => print_error(done),
        Err(error) => print_error(format_args!("--requeue: {error:#}")),
    }
}

fn last_line(answer: &str) -> &str {
    answer.trim_end().lines().last().filter(|line| !line.is_empty()).unwrap_or("done")
}
