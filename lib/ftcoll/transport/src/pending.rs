// SPDX-License-Identifier: Apache-2.0
//! Waiting for calls. A thread that waits drives the connections itself, or waits for the one that
//! does; what was begun and nobody waits for the library's own thread brings to its end.

use crate::calls::{Number, Task};
use crate::comm::{Comm, Ended, conclude};
use crate::error::CallError;
use crate::net;
use crate::value::Data;
use crate::world::{PAUSE, Shared, State};
use fermata_ftcoll::ftco::Verdict;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks where the others are.
const SEEK_STEP: Duration = Duration::from_millis(1);

/// A call that was begun, until its result is taken. If it is dropped before, the call is made
/// nevertheless, since others need it.
#[must_use]
pub struct Pending {
    comm: Comm,
    wait: Wait,
    receives: bool,
    is_over: bool,
}

/// What is waited for, and how long.
pub(crate) struct Wait {
    group: u64,
    number: Number,
    /// When somebody waited for it, or looked for its result, first, and when that is too long: of
    /// the communicator's clock.
    begun: Option<(Instant, Duration)>,
    /// When its result was seen first.
    done: Option<Instant>,
}

impl Pending {
    pub(crate) fn begin(comm: &Comm, task: Task, receives: bool) -> Result<Self, CallError> {
        let shared = comm.shared();
        let mut state = shared.lock();
        let wait = shared.begin(&mut state, comm.id(), task)?;
        shared.wake(&state);
        drop(state);
        Ok(Self { comm: comm.clone(), wait, receives, is_over: false })
    }

    /// Puts the result into the buffer, if it is there and is for this process: `None` if not.
    /// Does not block.
    ///
    /// # Errors
    /// As of the call, which is over then.
    pub fn test(&mut self, buffer: &mut [u8]) -> Result<Option<Ended>, CallError> {
        let shared = self.comm.shared();
        let mut state = shared.lock();
        if !state.is_driven {
            // If the descriptor to wait at fails, the timeouts end the call.
            let _ = state.engine.progress();
        }
        let over = shared.look(&mut state, &mut self.wait);
        let is_apart = over.is_none() && state.engine.apart_since(self.wait.group).is_some();
        shared.wake_if_busy(&state);
        drop(state);
        if is_apart {
            shared.seek();
        }
        let Some(verdict) = over else { return Ok(None) };
        self.is_over = true;
        conclude(verdict.ok_or(CallError::Deadline)?, self.receives, buffer).map(Some)
    }

    /// Blocks until the result is there, and puts it into the buffer, if it is for this process.
    ///
    /// # Errors
    /// As of the call.
    pub fn wait(mut self, buffer: &mut [u8]) -> Result<Ended, CallError> {
        self.is_over = true;
        let shared = self.comm.shared();
        let verdict = shared.wait(shared.lock(), &mut self.wait);
        conclude(verdict.ok_or(CallError::Deadline)?, self.receives, buffer)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.comm.shared().lock();
            if let Ok(calls) = state.engine.calls(self.wait.group) {
                calls.forget(self.wait.number);
            }
        }
    }
}

impl Shared {
    fn begin(&self, state: &mut State, group: u64, task: Task) -> Result<Wait, CallError> {
        let number = state.engine.begin(group, task)?;
        Ok(Wait { group, number, begun: None, done: None })
    }

    /// Since when it is waited for, and until when.
    fn times(&self, state: &State, wait: &mut Wait) -> (Instant, Duration) {
        let until = || state.engine.clock(wait.group) + self.deadline;
        *wait.begun.get_or_insert_with(|| (Instant::now(), until()))
    }

    /// One call from beginning to end. Blocks.
    pub fn call(&self, group: u64, task: Task) -> Result<Verdict<Data>, CallError> {
        let mut state = self.lock();
        state.engine.calls(group)?.enter()?;
        let begun = self.begin(&mut state, group, task);
        let verdict = begun.map(|mut wait| self.wait(state, &mut wait));
        self.lock().engine.calls(group)?.leave();
        verdict?.ok_or(CallError::Deadline)
    }

    /// Blocks until the call has a result; `None`: it was given up.
    fn wait(&self, mut state: MutexGuard<'_, State>, wait: &mut Wait) -> Option<Verdict<Data>> {
        state.callers += 1;
        if state.is_driven {
            self.wake(&state);
        }
        let (mut state, verdict) = self.wait_for(state, wait);
        state.callers -= 1;
        self.wake_if_busy(&state);
        drop(state);
        self.turn.notify_all();
        verdict
    }

    /// Whether the wait is over: then with a result, or `None` if the call is given up.
    ///
    /// While the clock of the communicator stands, because a member is not found again, the call
    /// has as much time as it ever had, from its beginning or from the parting.
    ///
    /// Before a checkpoint and after a restart a call with a result lasts until the others have
    /// what it has sent: who is in no call may be unable to look for them (`parting.rs`). As they
    /// may be in none themselves, it lasts no longer than a timeout.
    fn look(&self, state: &mut State, wait: &mut Wait) -> Option<Option<Verdict<Data>>> {
        let (begun, until) = self.times(state, wait);
        let engine = &mut state.engine;
        if engine.has_result(wait.group, wait.number) {
            let since = engine.parted().max(*wait.done.get_or_insert_with(Instant::now));
            if !engine.owes(wait.group) || since.elapsed() >= self.timeout {
                return Some(engine.calls(wait.group).ok()?.take_result(wait.number));
            }
            engine.ask();
        }
        let apart_since = engine.apart_since(wait.group);
        let is_lost = apart_since.is_some_and(|at| at.max(begun).elapsed() >= self.deadline);
        let is_late = engine.clock(wait.group) >= until || is_lost;
        let Ok(calls) = engine.calls(wait.group) else { return Some(None) };
        if !is_late && !calls.is_spent() {
            return None;
        }
        let verdict = calls.take_result(wait.number);
        if verdict.is_none() {
            calls.forget(wait.number);
            engine.give_up(wait.group);
        }
        Some(verdict)
    }

    fn wait_for<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        wait: &mut Wait,
    ) -> (MutexGuard<'a, State>, Option<Verdict<Data>>) {
        let (begun, until) = self.times(&state, wait);
        let mut pace = self.pace(begun);
        loop {
            if let Some(verdict) = self.look(&mut state, wait) {
                return (state, verdict);
            }
            let is_apart = state.engine.apart_since(wait.group).is_some();
            if is_apart {
                drop(state);
                self.seek();
                state = self.lock();
            }
            if state.is_driven {
                let waited = self.turn.wait_timeout(state, PAUSE);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            // If the descriptor to wait at fails, the timeouts end the call.
            let is_working = state.engine.progress().is_ok();
            if state.callers > 1 {
                self.turn.notify_all();
            }
            if wait.done.is_none() && state.engine.has_result(wait.group, wait.number) {
                continue;
            }
            let left = until.saturating_sub(state.engine.clock(wait.group));
            let due = state.engine.next_due().unwrap_or(self.sleep).min(left).min(self.sleep);
            let due = if is_apart { due.min(SEEK_STEP) } else { due };
            let limit = if state.callers > 1 || !is_working { due.min(PAUSE) } else { due };
            state.is_driven = true;
            drop(state);
            net::wait(&self.epoll, pace.limit(limit));
            pace.step();
            state = self.lock();
            state.is_driven = false;
        }
    }
}
