// SPDX-License-Identifier: Apache-2.0
//! What can fail.

use std::io;
use std::path::PathBuf;

/// Why a process cannot join its job.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A variable of the environment that is missing or wrong.
    #[error("{name} {problem}\nhint: the launcher sets FTCOLL_KEY, _RANK, _SIZE and _DIR")]
    Variable {
        /// Which.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The directory in which the processes of a job leave their addresses.
    #[error("{}: {problem}\nhint: mkdir -m 700 {}", .path.display(), .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Addresses that do not fit the job.
    #[error("address {index} of {count}, \"{text}\": not IP:PORT")]
    Address {
        /// Of which process.
        index: usize,
        /// How many there are.
        count: usize,
        /// What it says.
        text: String,
    },
    /// A rank and a number of processes that do not fit each other.
    #[error("rank {rank} of {size} processes: there is none")]
    Rank {
        /// The rank.
        rank: u32,
        /// The processes.
        size: u32,
    },
    /// Whoever lives has been asked, and nobody has answered.
    #[error(
        "no other process of the job was reached within {seconds} s\n\
         hint: do all of them have the same key?"
    )]
    Alone {
        /// How long was waited.
        seconds: u64,
    },
    /// UCX, which was asked for, cannot be used.
    #[error("UCX cannot be used: {why}\nhint: install UCX, or FTCOLL_TRANSPORT=tcp")]
    Carrier {
        /// Why.
        why: String,
    },
    /// What the system says.
    #[error("{what}: {why}")]
    System {
        /// At what.
        what: &'static str,
        /// Why.
        why: io::Error,
    },
}

impl JoinError {
    pub(crate) fn at(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |why| Self::System { what, why }
    }
}

/// Why a collective call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No living process has the value of the root of a broadcast or a reduction.
    #[error("the root is dead, and no living process has a result")]
    RootDied,
    /// The calls of the processes do not fit each other.
    #[error("the processes' calls differ in length, type or operation")]
    Mismatch,
    /// Others took this process for dead and have ended calls that it had not entered.
    #[error(
        "this process was taken for dead, and nobody knows the result any more\n\
         hint: longer timeouts"
    )]
    Forgotten,
    /// Somebody who lives has not entered the call in time.
    #[error("no result by the deadline; the communicator cannot be used any more")]
    Deadline,
    /// Another thread is in a call of the communicator.
    #[error("the communicator is in a call of another thread")]
    Busy,
    /// The operation is not defined for the type.
    #[error("the operation is not defined for this type")]
    Operation,
    /// A rank or a length that cannot be.
    #[error("a rank or a length that the communicator or the type does not have")]
    Argument,
}
