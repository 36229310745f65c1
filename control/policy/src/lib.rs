// SPDX-License-Identifier: Apache-2.0
//! What a run does when its end is near: when to save and stop (`limit`), what a signal means
//! (`signals`), and whether a run that has broken off is begun again (`recovery`), and where
//! (`spares`). Machines and plain functions: events in, actions out, no I/O, no clock, no
//! randomness. Times are milliseconds since 1970, because a batch system tells the end of an
//! allocation so.
//!
//! What is deadly to a job is not foreseen here but outlived: whatever these machines decide, the
//! last committed snapshot stays. They see to it that it is a late one.
//!
//! Invariant: a run is saved and stopped at most once, and no two attempts at that are under way.
//! Invariant: what has come to its end, or was stopped, is not begun again.
//! Invariant: every chain of runs ends: by `--retries`, or because it dies again and again in the
//!            same way without a snapshot between.
//!
//! `tests/simulated.rs` holds them to that over random histories.
#![forbid(unsafe_code)]

pub mod limit;
pub mod recovery;
pub mod signals;
pub mod spares;
