// SPDX-License-Identifier: Apache-2.0
//! The experiments of `docs/evidence/ftcoll.md`, one module per section.

use std::path::PathBuf;

pub mod agreement;
pub mod broadcasts;
pub mod chances;
pub mod gossip;
pub mod pictures;
pub mod survival;
pub mod trees;
pub mod upward;

/// How much to run.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Of all draws.
    pub seed: u64,
    /// Runs of a row at 4096 processes.
    pub runs: u32,
    /// Runs of a row at 65 536 processes.
    pub large_runs: u32,
    /// Runs of the test of survival.
    pub survivals: u32,
    /// Runs of the chance of a miss.
    pub chances: u32,
}

impl Effort {
    /// Under two minutes.
    #[must_use]
    pub fn small(seed: u64) -> Self {
        Self { seed, runs: 10, large_runs: 1, survivals: 2_000, chances: 500 }
    }

    /// What the page is made with.
    #[must_use]
    pub fn full(seed: u64) -> Self {
        Self { seed, runs: 100, large_runs: 10, survivals: 100_000, chances: 10_000 }
    }
}

/// What an experiment found: text for the page, and whether what is promised holds.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Markdown.
    pub text: String,
    /// Each promise, the figure seen, and whether it is kept.
    pub promises: Vec<(String, String, bool)>,
    /// Pictures: the file's name and its text.
    pub pictures: Vec<(PathBuf, String)>,
}

impl Findings {
    /// Notes a promise.
    pub fn promise(&mut self, what: &str, seen: String, holds: bool) {
        self.promises.push((what.to_owned(), seen, holds));
    }

    /// Adds another experiment's findings behind these.
    pub fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
        self.promises.extend(other.promises);
        self.pictures.extend(other.pictures);
    }
}
