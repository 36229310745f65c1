// SPDX-License-Identifier: Apache-2.0
//! The library for programs that save themselves, around what decides (`fermata-scr`): directories,
//! messages between ranks, the clock, and the functions that `mpi/` calls.
//!
//! Floors, each of which knows only those before it: `problem`; `comm` (what is asked of the MPI);
//! `team` (agreeing, over `comm`); `image` (a rank's files as one); `cache` (what a host keeps);
//! `protect` (parities and copies, in lock step); `desk` (asking for what lies on other hosts);
//! `survey` (what all hosts have); `bring` (files to their ranks); `prefix` (the directory that all
//! see); `sources` (files and variables of the configuration); `library` (the calls, with
//! `outputs`, `restarts` and `halting`); `abi` (the calls for C).
//!
//! Invariant: what one rank cannot do all agree on before any of them returns, so that all return
//!            the same; and nobody waits in an exchange for one that has failed alone.
//! Invariant: what is read back has the checksums that it was written with, or counts as lost.

mod abi;
mod bring;
mod cache;
mod comm;
mod desk;
mod halting;
mod image;
mod library;
mod outputs;
mod prefix;
mod problem;
mod protect;
mod restarts;
mod sources;
mod survey;
mod team;
#[cfg(test)]
mod testbed;
#[cfg(test)]
mod tests;

pub use comm::{Comm, CommError};
pub use library::{Outcome, Scr, Surroundings};
pub use problem::Problem;
