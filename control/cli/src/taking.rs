// SPDX-License-Identifier: Apache-2.0
//! Asking a coordinator for a checkpoint. What nobody asked for, a periodic one say, must not keep
//! a job from being saved at last: it is waited for.

use fermata_coordinator::{Client, ClientError, Outcome};
use fermata_types::Answer;
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// So often it is asked whether another checkpoint has ended.
const BUSY_POLL: Duration = Duration::from_millis(200);

/// Takes a checkpoint, which ends the job with `stop`. `timeout_ms`: to reach a safe state, and
/// before that for another checkpoint to end. Returns how it ended, with its figures.
///
/// # Errors
/// There was no answer.
pub fn checkpoint(
    client: &mut Client,
    stop: bool,
    timeout_ms: u64,
    mut say: impl FnMut(String),
) -> Result<(Outcome, Answer, Value), ClientError> {
    let begun = Instant::now();
    loop {
        let (outcome, answer) = client.checkpoint(stop, timeout_ms, |step| {
            say(format!("{}: {} of {} ranks", step.phase, step.done, step.ranks));
        })?;
        let figures: Value = serde_json::from_str(&answer.figures).unwrap_or(Value::Null);
        let is_busy = outcome == Outcome::Refused && figures["busy"] == json!(true);
        if !is_busy || begun.elapsed() >= Duration::from_millis(timeout_ms) {
            return Ok((outcome, answer, figures));
        }
        say("another checkpoint is being taken".into());
        thread::sleep(BUSY_POLL);
    }
}
