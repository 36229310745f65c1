// SPDX-License-Identifier: Apache-2.0
//! Which level a checkpoint is put on, and how often: planned from what can fail and what each
//! level costs.
//!
//! A plan is a chain of levels, cheapest first, with an interval between checkpoints and, for each
//! level, every how many checkpoints one is put there. Failures come in classes (a rank, a node,
//! all nodes of a switch, the whole system), each with a rate; a level survives a class or not,
//! which depends on the placement of its sets and partners. What a plan costs is computed from the
//! Laplace transform of the time that a block of the chain takes (`overhead`), and minimised over
//! levels, counts and interval (`optimise`).
//!
//! Floors, each of which knows only those before it: `units`, `topology`; `placement` (sets and
//! partners over groups, and what survives); `cost`; `system` (the input as people write it);
//! `overhead`; `simple` (Young, Daly, one rate, to compare with); `optimise`; `follow`, the machine
//! that a job follows its plan by; `pace`, which says when a job saves of itself, with a plan or
//! without.
//!
//! Invariant: no I/O, no clock, no randomness. What `./x sim plan` simulates is this crate.
//! Source: E. Gelenbe, On the optimum checkpoint interval, JACM 26(2), 1979, for the renewal
//! argument; A. Benoit et al., Towards optimal multi-level checkpointing, IEEE TC 66(7), 2017, for
//! the first-order pattern; A. Moody et al., SC 2010, for levels with rates of their own.

pub mod cost;
pub mod follow;
pub mod optimise;
pub mod overhead;
pub mod pace;
pub mod placement;
pub mod simple;
pub mod system;
pub mod topology;
pub mod units;

pub use optimise::{Plan, Planned, Planner};
pub use overhead::Stage;
pub use system::{System, SystemError};
