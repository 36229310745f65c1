// SPDX-License-Identifier: Apache-2.0
//! The calls of a communicator: those that wait for their turn, the one in progress, and results
//! that nobody has taken yet.
//!
//! Invariant: calls are made one at a time, in the order in which they were begun, which is the
//! same at all members.

use crate::error::CallError;
use crate::lane::LaneKey;
use crate::value::{Data, UserOp};
use fermata_ftcoll::ftco::{Operation, Verdict};
use std::collections::{BTreeMap, VecDeque};

/// What a call does.
pub(crate) struct Task {
    pub lane: LaneKey,
    pub operation: Operation,
    pub value: Option<Data>,
    pub op: Option<UserOp>,
}

/// Which call of a communicator.
pub(crate) type Number = u64;

/// Of one communicator.
#[derive(Default)]
pub(crate) struct Calls {
    made: Number,
    waiting: VecDeque<(Option<Number>, Task)>,
    /// Without a number: nobody takes its result.
    current: Option<(Option<Number>, LaneKey)>,
    results: BTreeMap<Number, Verdict<Data>>,
    is_entered: bool,
    is_spent: bool,
}

impl Calls {
    /// A thread enters a call that blocks; another one may not until it has left.
    pub fn enter(&mut self) -> Result<(), CallError> {
        if self.is_entered {
            return Err(CallError::Busy);
        }
        self.is_entered = true;
        Ok(())
    }

    pub fn leave(&mut self) {
        self.is_entered = false;
    }

    /// Has a call wait for its turn.
    pub fn push(&mut self, task: Task) -> Result<Number, CallError> {
        if self.is_spent {
            return Err(CallError::Deadline);
        }
        self.made += 1;
        self.waiting.push_back((Some(self.made), task));
        Ok(self.made)
    }

    /// Whose turn is next.
    pub fn first(&self) -> Option<&Task> {
        self.waiting.front().map(|(_, task)| task)
    }

    /// Has a barrier come before that.
    pub fn hold_up(&mut self, lane: LaneKey) {
        let operation = Operation::Allreduce;
        self.waiting.push_front((None, Task { lane, operation, value: None, op: None }));
    }

    /// The lane of the call in progress.
    pub fn current(&self) -> Option<LaneKey> {
        self.current.map(|(_, lane)| lane)
    }

    /// The next call, which is in progress from now on.
    pub fn next(&mut self) -> Option<Task> {
        let (number, task) = self.waiting.pop_front()?;
        self.current = Some((number, task.lane));
        Some(task)
    }

    /// How the call in progress has ended.
    pub fn end(&mut self, verdict: Verdict<Data>) {
        if let Some((Some(number), _)) = self.current.take() {
            self.results.insert(number, verdict);
        }
    }

    pub fn has_result(&self, number: Number) -> bool {
        self.results.contains_key(&number)
    }

    pub fn take_result(&mut self, number: Number) -> Option<Verdict<Data>> {
        self.results.remove(&number)
    }

    /// Nobody takes the result of this call; it is made nevertheless, since others need it.
    pub fn forget(&mut self, number: Number) {
        self.results.remove(&number);
        let waiting = self.waiting.iter_mut().map(|(number, _)| number);
        let current = self.current.iter_mut().map(|(number, _)| number);
        waiting.chain(current).filter(|of| **of == Some(number)).for_each(|of| *of = None);
    }

    /// A call has been given up, and may still be in progress at others: there are none any more.
    pub fn give_up(&mut self) {
        self.is_spent = true;
        self.waiting.clear();
    }

    /// Whether none is in progress, or waits.
    pub fn are_over(&self) -> bool {
        self.is_spent || self.current.is_none() && self.waiting.is_empty()
    }

    pub fn is_spent(&self) -> bool {
        self.is_spent
    }
}
