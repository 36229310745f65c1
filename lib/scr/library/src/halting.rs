// SPDX-License-Identifier: Apache-2.0
//! Halt conditions: rank 0 reads the file and tells the others.

use crate::comm::Comm;
use crate::library::{Outcome, Scr};
use crate::problem::Problem;
use fermata_scr::halt::{FINALIZED, Reason};
use fermata_scr::{Call, Halt, Settings};

/// A program may ask in every step; the file lies on a file system that is slow to ask.
const FRESH_MS: u64 = 500;

/// What holds beside the file, and what the file said.
#[derive(Clone, Debug)]
pub(crate) struct Halting {
    halt_seconds: Option<u64>,
    /// When the allocation ends.
    end_s: Option<u64>,
    /// When it was read, and what it says.
    read: Option<(u64, Halt)>,
}

impl Halting {
    pub fn new(settings: &Settings, end_s: Option<u64>) -> Self {
        let halt_seconds = Some(settings.halt_seconds).filter(|seconds| *seconds > 0);
        Self { halt_seconds, end_s, read: None }
    }
}

impl<C: Comm> Scr<C> {
    /// A file that was there before the run says how long before the end it halts, and the setting
    /// does not.
    pub(crate) fn begin_halting(&mut self) -> Result<(), Problem> {
        let read = if self.team.is_first() { self.prefix.read_halt() } else { Ok(None) };
        if self.team.all(read)?.is_some() {
            self.halting.halt_seconds = None;
        }
        Ok(())
    }

    /// Which condition holds. For rank 0.
    pub(crate) fn halt_reason(&mut self) -> Option<Reason> {
        let now_ms = (self.clock)();
        let read = self.halting.read.take();
        let is_fresh = |(at, _): &(u64, Halt)| now_ms.abs_diff(*at) < FRESH_MS;
        let (at, mut halt) = read.filter(is_fresh).unwrap_or_else(|| (now_ms, self.read_halt()));
        self.halting.read = Some((at, halt.clone()));
        halt.halt_seconds = halt.halt_seconds.or(self.halting.halt_seconds);
        halt.exit_before = halt.exit_before.or(self.halting.end_s);
        halt.active(now_ms / 1000)
    }

    /// A file that makes no sense says nothing, but the user hears of it.
    fn read_halt(&mut self) -> Halt {
        let read = self.prefix.read_halt().map(Option::unwrap_or_default);
        read.unwrap_or_else(|problem| {
            self.tell_once(problem.to_string());
            Halt::default()
        })
    }

    /// Collective: whether one holds; the user is told which.
    fn is_halted(&mut self) -> Result<bool, Problem> {
        let mut is_halted = false;
        if self.team.is_first() {
            if let Some(reason) = self.halt_reason() {
                let file = self.prefix.halt_file();
                self.tell_once(format!("the job is to end: {reason} ({})", file.display()));
                is_halted = true;
            }
        }
        self.team.first_says(is_halted)
    }

    /// `SCR_Should_exit`
    ///
    /// # Errors
    /// The order of calls; the MPI.
    pub fn should_exit(&mut self) -> Result<bool, Problem> {
        self.phase.allow(Call::ShouldExit)?;
        self.is_halted()
    }

    /// Collective: a checkpoint is complete.
    pub(crate) fn count_checkpoint(&mut self) -> Result<(), Problem> {
        self.halting.read = None;
        if self.team.is_first() {
            if let Ok(Some(mut halt)) = self.prefix.read_halt() {
                if halt.checkpoints_left.is_some_and(|left| left > 0) {
                    halt.completed();
                    if let Err(problem) = self.prefix.write_halt(&halt) {
                        self.complain(&problem);
                    }
                }
            }
        }
        self.team.agree(true).map(drop)
    }

    /// Collective: whether the library is to end the program now.
    pub(crate) fn exit_if_halted(&mut self) -> Result<Outcome, Problem> {
        if !self.settings.halt_exit || !self.is_halted()? {
            return Ok(Outcome::Continue);
        }
        self.flush_newest()?;
        Ok(Outcome::Exit)
    }

    /// Collective: lets nobody start the job again.
    pub(crate) fn note_end(&mut self) -> Result<(), Problem> {
        let note = || {
            let mut halt = self.prefix.read_halt()?.unwrap_or_default();
            halt.exit_reason.get_or_insert_with(|| FINALIZED.into());
            self.prefix.write_halt(&halt)
        };
        let noted = if self.team.is_first() { note() } else { Ok(()) };
        self.team.all(noted)
    }
}
