// SPDX-License-Identifier: Apache-2.0
//! What somebody can do about a checkpoint that was refused or has failed: the `hint:` below the
//! message. One place, because the same obstacle is met in several phases.

use crate::machine::Machine;
use std::collections::BTreeSet;

const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;
const EPERM: i32 = 1;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EBUSY: i32 = 16;
const ENOBUFS: i32 = 105;

/// A rank holds what no image can hold.
pub(crate) const HINT_REFUSED: &str =
    "end that use before a checkpoint; docs/reference/limits.md lists what is refused";
/// A writer has been killed, or could not be made.
pub(crate) const HINT_MEMORY: &str =
    "the kernel does that where memory is short (dmesg tells): ask for more, then try again";
/// The limit of a rank's control group leaves no room for a writer, so that none was made.
pub(crate) const HINT_ROOM: &str =
    "raise that limit (of a batch job: ask for more memory) or free memory, then try again";
/// MPI_Finalize has been entered.
pub(crate) const HINT_ENDING: &str = "the job is about to end; save it earlier, or with --every";
/// A thread of a rank has not stopped.
pub(crate) const HINT_THREAD: &str =
    "see what that thread waits for (/proc/PID/task/ID/stack): no signal ends that system call";
/// A rank's program does not let it stop.
pub(crate) const HINT_HELD: &str =
    "try again; the program lets no checkpoint happen there, so --timeout must outlast it";
/// A program that saves itself has not come to a place where it can.
pub(crate) const HINT_ASK: &str =
    "it saves itself when all its ranks call fermata_checkpoint; --timeout must outlast that";
/// No MPI_Init yet.
pub(crate) const HINT_BEGINNING: &str = "try again once all ranks have called MPI_Init";

/// "what" and, on a line of its own, what to do about it.
pub(crate) fn with_hint(what: &str, hint: &str) -> String {
    if hint.is_empty() { what.to_owned() } else { format!("{what}\n  hint: {hint}") }
}

impl Machine {
    /// A rank could not write its image.
    pub(crate) fn hint_for_image(&self, error: i32) -> String {
        let place = &self.config.snapshots;
        match error {
            ENOSPC | EDQUOT => format!("make room on the disk of {place}, then try again"),
            // The ranks refuse by these what no image can hold, now or ever.
            EPERM | EAGAIN => HINT_REFUSED.into(),
            // A thread stays where no signal reaches it.
            EBUSY => HINT_THREAD.into(),
            ENOMEM => HINT_MEMORY.into(),
            ENOBUFS => HINT_ROOM.into(),
            _ => self.hint_for_directory(),
        }
    }

    /// The directory of snapshots does not do what it should.
    pub(crate) fn hint_for_directory(&self) -> String {
        format!("{} must exist, be writable and have room; then try again", self.config.snapshots)
    }

    /// A rank is gone, and the job with it.
    pub(crate) fn hint_for_lost_rank(&self) -> String {
        match self.committed {
            0 => format!("no snapshot of job {} exists; start it again", self.config.job),
            epoch => format!("continue from checkpoint {epoch}: {}", self.config.restart),
        }
    }

    /// A host is out of reach, and nobody knows what its ranks do.
    pub(crate) fn hint_for_lost_host(&self, is_silent: bool) -> String {
        let hint = self.hint_for_lost_rank();
        if is_silent {
            hint
        } else {
            format!("its ranks may run on; when the job has ended, {hint}")
        }
    }

    /// The job has ended. What has ended well is not to be done again.
    pub(crate) fn hint_for_end(&self) -> String {
        self.shortfall(&BTreeSet::new()).map_or(String::new(), |_| self.hint_for_lost_rank())
    }

    /// Ranks did not do their part in time.
    pub(crate) fn hint_for_lateness(&self, is_writing: bool) -> String {
        if is_writing {
            return format!("see whether the disk of {} still answers", self.config.snapshots);
        }
        "see whether the rank is stopped; if it only computes for long: --timeout 10m".into()
    }
}
