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
//!     plan      which settings make up a run of ./x sim membership
//!     report    tables, and the document
//!     picture   its picture
//! ```

mod chance;
mod fate;
mod foca;
mod outcome;
mod picture;
mod plan;
mod process;
mod report;
mod setting;
mod world;

use std::io;

/// What is asked for.
pub struct Options {
    seed: u64,
    jobs: usize,
    is_full: bool,
    is_written: bool,
    /// Only these tables.
    only: Option<String>,
}

impl Options {
    /// From a command line behind `sim`; none if it makes no sense.
    pub fn parse(arguments: &[String]) -> Option<Self> {
        let (name, rest) = arguments.split_first()?;
        let mut options = Self { seed: 1, jobs: 1, is_full: false, is_written: false, only: None };
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--full" => options.is_full = true,
                "--write" => options.is_written = true,
                "--seed" => options.seed = words.next()?.parse().ok()?,
                "--jobs" => options.jobs = words.next()?.parse().ok()?,
                "--only" => options.only = Some(words.next()?.clone()),
                _ => return None,
            }
        }
        (name == "membership" && options.jobs > 0).then_some(options)
    }
}

/// Simulates and prints, and with `--write` writes the document and its picture. Returns whether
/// the target is met at every loss.
pub fn run(options: &Options) -> io::Result<bool> {
    let tables = plan::tables(options);
    let (text, is_met) = report::document(&tables, options);
    println!("{text}");
    if options.is_written {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        std::fs::write(format!("{root}/docs/evidence/membership.md"), &text)?;
        std::fs::write(format!("{root}/docs/img/membership.svg"), picture::draw(&tables))?;
    }
    Ok(is_met)
}
