// SPDX-License-Identifier: Apache-2.0
//! The machines of `fermata-ftcoll` on a simulated `LogP` machine, and the experiments with them.
//!
//! ```text
//! world        processes, messages and time
//! failures     who is dead, and from when
//! scheme       a corrected broadcast with its settings, and one run of it
//! stats, page  means with intervals; tables in Markdown
//! experiments  the sections of docs/evidence/ftcoll.md
//! ```

pub mod experiments;
pub mod failures;
pub mod page;
pub mod scheme;
pub mod stats;
pub mod world;

#[cfg(test)]
mod tests;
