// SPDX-License-Identifier: Apache-2.0
//! Do the orders of steps that are left out (`explore.rs` lists them) hide anything? The same
//! programs under every rule, with merged steps and with every step by itself.

use crate::explore::{check, is_small};
use crate::job::Job;
use crate::program::Program;
use crate::rule::Rule;

/// What came of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Programs compared, each under all rules and, under ours, also with MPI_Finalize.
    pub programs: usize,
    /// Jobs in which a fault was found, in the same way both times.
    pub faulty: usize,
    /// States, with merged steps.
    pub merged: usize,
    /// States, with every step by itself.
    pub apart: usize,
    /// Where the two do not agree.
    pub differences: Vec<String>,
}

/// Compares the programs that have at most so many states under our rule, with merged steps.
#[must_use]
pub fn compare(programs: impl IntoIterator<Item = Program>, most: usize) -> Comparison {
    let mut all = Comparison::default();
    for program in programs {
        if !is_small(Job::new([program.clone()], Rule::Ours), most) {
            continue;
        }
        all.programs += 1;
        let plain = Rule::ALL.map(|rule| Job::new([program.clone()], rule));
        let finalizing = Job::new([program.clone()], Rule::Ours).finalizing();
        for job in plain.into_iter().chain([finalizing]) {
            all.add(&job, &program);
        }
    }
    all
}

impl Comparison {
    fn add(&mut self, job: &Job, program: &Program) {
        let merged = check(job);
        let apart = check(&job.clone().apart());
        self.merged += merged.states;
        self.apart += apart.states;
        let (some, all) = (merged.faults(), apart.faults());
        if some != all {
            let rule = job.rule;
            self.differences.push(format!("{program}\n{rule:?}: {some:?}, apart: {all:?}"));
        } else if !all.is_empty() {
            self.faulty += 1;
        }
    }
}
