// SPDX-License-Identifier: Apache-2.0
//! The safe-state protocol under test. What is checked is `fermata-protocol` itself, as it runs.
//!
//! ```text
//!     program    small MPI programs            enumerate  all of them up to a number of calls
//!     world      application and MPI below     native     without a checkpoint
//!     job        both: machines, coordinator, slow lines    explore  all orders, with stateright
//!     cut        what follows the safe state    state      one state of a job
//!     rule       the protocol as it is, the papers', and broken ones
//!     named      programs with a history       report     what is printed and kept in docs
//!     merged     what is left out of all orders hides nothing
//!     sim        thousands of ranks under LogP    grid       their programs
//! ```
#![forbid(unsafe_code)]
// The model is small by construction: ranks, calls and counts fit in eight bits.
#![allow(clippy::cast_possible_truncation)]
// There is no job to come to harm.
#![allow(clippy::print_stderr)]

mod cut;
pub mod endless;
pub mod enumerate;
pub mod explore;
mod grid;
pub mod job;
pub mod merged;
pub mod named;
pub mod native;
pub mod program;
pub mod report;
pub mod rule;
pub mod sim;
pub mod state;
pub mod world;

pub use endless::endless;
pub use explore::check;
pub use job::Job;
pub use program::Program;
pub use rule::Rule;
