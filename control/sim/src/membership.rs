// SPDX-License-Identifier: Apache-2.0
//! `./x sim membership`: how soon a death is known, how often a living node is taken for dead, and
//! what that costs, over loss and number of nodes.
//!
//! ```text
//!     process   the product's machine as a process, and what the world asks of one
//!     foca      the crate foca as another one
//!     setting   what is simulated for how long
//!     chance    chances and times
//!     outcome   what is counted
//!     fate      what is to happen
//!     world     nodes, clocks, network, standstills, deaths in fake time
//!     plan      which settings make up a run
//!     report    tables and picture
//! ```

mod chance;
mod fate;
mod foca;
mod outcome;
mod plan;
mod process;
mod report;
mod setting;
mod world;

use crate::findings::Findings;
use anyhow::Result;

/// What is simulated, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Of all that is random.
    pub seed: u64,
    /// Settings at a time.
    pub jobs: usize,
    /// Of some 22 million node-seconds.
    pub share: f64,
}

/// The tables and the picture, and whether a death is known and no living node taken for dead as
/// decision 0092 promises.
///
/// # Errors
/// The picture cannot be drawn.
pub fn report(options: &Options, progress: &(dyn Fn(&str) + Sync)) -> Result<Findings> {
    report::findings(&plan::tables(options, progress))
}
