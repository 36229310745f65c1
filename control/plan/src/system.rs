// SPDX-License-Identifier: Apache-2.0
//! The input of a plan as people write it, in TOML: nodes, bytes, bandwidths, what fails how often,
//! which levels there are.

use crate::cost::{Bandwidths, Cost, cost};
use crate::placement::{Kind, Order, Placed};
use crate::topology::{Class, Scope, Topology};
use crate::units;
use serde::Deserialize;
use thiserror::Error;

/// A job and the machine that it runs on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct System {
    /// Nodes of the job.
    pub nodes: u32,
    /// Bytes that one node saves.
    #[serde(deserialize_with = "units::bytes")]
    pub bytes_per_node: f64,
    /// Starting the ranks again, beside reading their images, in seconds.
    #[serde(default = "half_a_minute", deserialize_with = "units::seconds")]
    pub relaunch: f64,
    /// The share of its speed that the job loses while a level is made behind it.
    #[serde(default = "one_in_twenty")]
    pub slowdown: f64,
    /// Whether levels beyond the first are made behind the running job.
    #[serde(default = "yes")]
    pub behind: bool,
    /// Bandwidths of a node.
    pub bandwidth: Bandwidth,
    /// What fails.
    pub failure: Vec<Failure>,
    /// Which levels there are.
    pub level: Vec<LevelSpec>,
}

/// Bytes per second of one node.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bandwidth {
    /// Its own store.
    #[serde(deserialize_with = "units::bytes")]
    pub local: f64,
    /// Its link.
    #[serde(deserialize_with = "units::bytes")]
    pub network: f64,
}

/// A class of failures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// What it is called; `rank`, `node` and `system` say what fails, any other is a group.
    pub name: String,
    /// Of a group: its nodes, with consecutive numbers.
    pub nodes: Option<u32>,
    /// Mean time to failure of one of them, in seconds.
    #[serde(deserialize_with = "units::seconds")]
    pub mttf: f64,
}

/// A level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LevelSpec {
    /// Its kind.
    pub kind: KindName,
    /// What it is called, if not by its kind.
    pub name: Option<String>,
    /// Members of a set.
    pub set: Option<u32>,
    /// Parities of a set.
    pub parities: Option<u32>,
    /// Bytes per second of a store that all nodes share.
    #[serde(default, deserialize_with = "units::some_bytes")]
    pub bandwidth: Option<f64>,
    /// Whether a shared directory outlives an outage of the whole system.
    #[serde(default = "yes")]
    pub survives_system: bool,
}

/// The kinds of levels, by name.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum KindName {
    /// On the node itself.
    Local,
    /// A parity over a set of nodes.
    Xor,
    /// Several parities over a set of nodes.
    Rs,
    /// A copy on another node.
    Partner,
    /// A directory that all nodes see.
    Shared,
    /// A bucket.
    Object,
}

fn half_a_minute() -> f64 {
    30.0
}

fn one_in_twenty() -> f64 {
    0.05
}

fn yes() -> bool {
    true
}

/// Each node is looked at by itself; more would take minutes and gigabytes.
pub const MOST_NODES: u32 = 1_000_000;

/// What is wrong with the input.
#[derive(Debug, Error, PartialEq)]
pub enum SystemError {
    /// Nothing to plan for.
    #[error("there is no node; set nodes to those of the job")]
    NoNodes,
    /// More than are looked at one by one.
    #[error("{0} nodes are too many to plan for; at most {MOST_NODES}")]
    ManyNodes(u32),
    /// A plan without failures is to save never.
    #[error("there is no [[failure]]; name at least one, with its mttf")]
    NoFailures,
    /// Nothing to choose from, or too much.
    #[error("there are {0} levels; name 1 to 8 by [[level]]")]
    Levels(usize),
    /// A share that is none.
    #[error("slowdown is {0}; it is a share of the job's speed, from 0 to below 1")]
    Slowdown(f64),
    /// A group has no size.
    #[error("failure '{0}': how many nodes fail together? set nodes, 2 or more")]
    GroupSize(String),
    /// A single thing has a size.
    #[error("failure '{0}' takes no nodes = N; only groups have a size")]
    NoGroup(String),
    /// Sets are too small or too large.
    #[error("level {level}: {why}")]
    Level {
        /// Its name.
        level: String,
        /// What is missing or does not fit.
        why: &'static str,
    },
    /// No level is left after some failure.
    #[error(
        "no level survives every failure: after '{0}' the job begins anew; add a level of kind \
         shared or object"
    )]
    NothingSurvives(String),
}

impl LevelSpec {
    /// What people call it.
    pub fn label(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        match self.kind {
            KindName::Local => "local".into(),
            KindName::Xor => format!("xor({})", self.set.unwrap_or(0)),
            KindName::Rs => format!("rs({},{})", self.set.unwrap_or(0), self.parities.unwrap_or(0)),
            KindName::Partner => "partner".into(),
            KindName::Shared => "shared".into(),
            KindName::Object => "object".into(),
        }
    }

    /// What it is.
    pub fn placed_kind(&self) -> Kind {
        let (set, parities) = (self.set.unwrap_or(8), self.parities.unwrap_or(2));
        match self.kind {
            KindName::Local => Kind::Local,
            KindName::Xor => Kind::Xor { set },
            KindName::Rs => Kind::Rs { set, parities },
            KindName::Partner => Kind::Partner,
            KindName::Shared => Kind::Shared { survives_system: self.survives_system },
            KindName::Object => Kind::Object,
        }
    }

    fn check(&self, nodes: u32) -> Result<(), SystemError> {
        let why = match (self.placed_kind(), self.bandwidth) {
            (Kind::Shared { .. } | Kind::Object, None) => "it wants its bandwidth, of all nodes",
            (Kind::Xor { set } | Kind::Rs { set, .. }, _) if set > nodes => {
                "its set has more members than the job has nodes"
            }
            (Kind::Xor { set }, _) if set < 2 => "a set has 2 members or more",
            (Kind::Rs { set, parities }, _) if parities == 0 || parities >= set => {
                "parities are 1 or more, and fewer than the members of a set"
            }
            (Kind::Partner, _) if nodes < 2 => "a partner wants a second node",
            _ => return Ok(()),
        };
        Err(SystemError::Level { level: self.label(), why })
    }
}

impl System {
    /// Whether it makes sense.
    ///
    /// # Errors
    /// What does not, and what to write instead.
    pub fn check(&self) -> Result<(), SystemError> {
        if self.nodes == 0 {
            return Err(SystemError::NoNodes);
        }
        if self.nodes > MOST_NODES {
            return Err(SystemError::ManyNodes(self.nodes));
        }
        if self.failure.is_empty() {
            return Err(SystemError::NoFailures);
        }
        if !(1..=8).contains(&self.level.len()) {
            return Err(SystemError::Levels(self.level.len()));
        }
        if !(0.0..1.0).contains(&self.slowdown) {
            return Err(SystemError::Slowdown(self.slowdown));
        }
        for failure in &self.failure {
            let is_single = matches!(failure.name.as_str(), "rank" | "node" | "system");
            match failure.nodes {
                Some(_) if is_single => return Err(SystemError::NoGroup(failure.name.clone())),
                None | Some(..2) if !is_single => {
                    return Err(SystemError::GroupSize(failure.name.clone()));
                }
                _ => {}
            }
        }
        self.level.iter().try_for_each(|level| level.check(self.nodes))
    }

    /// The topology, and the classes of failures on it.
    pub fn failures(&self) -> (Topology, Vec<Class>) {
        let mut topology = Topology::new(self.nodes);
        let mut classes = Vec::new();
        for failure in &self.failure {
            let scope = match failure.name.as_str() {
                "rank" => Scope::Rank,
                "node" => Scope::Node,
                "system" => Scope::System,
                _ => Scope::Group(topology.add_blocks(failure.nodes.unwrap_or(2))),
            };
            classes.push(Class { name: failure.name.clone(), scope, mttf_s: failure.mttf });
        }
        (topology, classes)
    }

    /// The levels with their sets chosen.
    pub fn place(&self, topology: &Topology, classes: &[Class], order: Order) -> Vec<Placed> {
        let place = |level: &LevelSpec| Placed::new(level.placed_kind(), topology, classes, order);
        self.level.iter().map(place).collect()
    }

    /// What each level costs.
    pub fn costs(&self) -> Vec<Cost> {
        let Bandwidth { local, network } = self.bandwidth;
        let of = |level: &LevelSpec| {
            let all_nodes = level.bandwidth.unwrap_or(network * f64::from(self.nodes));
            let bandwidths = Bandwidths { local, network };
            cost(level.placed_kind(), self.bytes_per_node, self.nodes, bandwidths, all_nodes)
        };
        self.level.iter().map(of).collect()
    }
}
