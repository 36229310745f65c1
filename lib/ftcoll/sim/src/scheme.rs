// SPDX-License-Identifier: Apache-2.0
//! Corrected broadcasts to compare, and how to run one.

use crate::world::{LogP, NEVER, Outcome, World};
use fermata_ftcoll::broadcast::{Begin, Broadcast, Dissemination, Gossip, Plan, Until};
use fermata_ftcoll::correction::Rule;
use fermata_ftcoll::tree::Tree;
use fermata_ftcoll::{Rank, Time};
use std::sync::Arc;

/// How the dissemination of a scheme goes.
#[derive(Clone, Debug)]
pub enum Spread {
    /// Down a tree.
    Tree(Arc<Tree>),
    /// Gossip up to this time.
    Gossip(Time),
}

/// One broadcast algorithm with its settings.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// For tables and pictures.
    pub name: String,
    /// Processes.
    pub size: Rank,
    /// Its dissemination.
    pub spread: Spread,
    /// Its correction.
    pub rule: Rule,
    /// When that begins.
    pub begin: Begin,
}

/// When a tree has reached all, nobody being dead.
#[must_use]
pub fn finish(machine: LogP, tree: &Arc<Tree>) -> Time {
    let scheme = Scheme {
        name: String::new(),
        size: tree.size(),
        spread: Spread::Tree(Arc::clone(tree)),
        rule: Rule::None,
        begin: Begin::WhenSent,
    };
    scheme.run(machine, 0, &[]).last_output
}

impl Scheme {
    /// A tree whose correction begins when the tree has reached all.
    #[must_use]
    pub fn synchronised(name: &str, machine: LogP, tree: &Arc<Tree>, rule: Rule) -> Self {
        let begin = Begin::At(finish(machine, tree));
        Self { begin, ..Self::overlapped(name, tree, rule) }
    }

    /// A tree whose correction begins at each process when it has sent what the tree asks for.
    #[must_use]
    pub fn overlapped(name: &str, tree: &Arc<Tree>, rule: Rule) -> Self {
        Self {
            name: name.to_owned(),
            size: tree.size(),
            spread: Spread::Tree(Arc::clone(tree)),
            rule,
            begin: Begin::WhenSent,
        }
    }

    /// Gossip up to a time, and then the correction.
    #[must_use]
    pub fn gossip(name: &str, size: Rank, until: Time, rule: Rule) -> Self {
        let begin = Begin::At(until);
        Self { name: name.to_owned(), size, spread: Spread::Gossip(until), rule, begin }
    }

    /// What the processes know in the run of a seed.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Arc<Plan> {
        let dissemination = match &self.spread {
            Spread::Tree(tree) => Dissemination::Tree(Arc::clone(tree)),
            Spread::Gossip(until) => {
                Dissemination::Gossip(Gossip { seed, until: Until::Time(*until) })
            }
        };
        let (size, correction, begin) = (self.size, self.rule, self.begin);
        Arc::new(Plan { size, dissemination, correction, begin })
    }

    /// One run. `dead`: the time that each process is dead from; empty if none is.
    #[must_use]
    pub fn run(&self, machine: LogP, seed: u64, dead: &[Time]) -> Outcome {
        let plan = self.plan(seed);
        let process = |rank: Rank| {
            let dead_from = dead.get(rank as usize).copied().unwrap_or(NEVER);
            (Broadcast::new(Arc::clone(&plan), rank), dead_from)
        };
        World::new(machine, (0..self.size).map(process)).run(NEVER)
    }
}
