// SPDX-License-Identifier: Apache-2.0
//! What is simulated for how long.

use super::foca::{Settings, Theirs};
use super::outcome::Outcome;
use super::process::{Ours, Process};
use super::world::World;
use fermata_membership::Config;

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The product's.
    Ours(Config),
    /// Those of the crate foca.
    Foca(Settings),
}

impl Protocol {
    /// A process of node `me` at its local time `now`.
    pub fn process(
        self,
        setting: &Setting,
        me: u16,
        life: u16,
        seed: u64,
        now: u64,
    ) -> Box<dyn Process> {
        match self {
            Self::Ours(config) => Box::new(Ours::new(config, me, life, seed, now)),
            Self::Foca(settings) => Box::new(Theirs::new(settings, setting.nodes, me, life, seed)),
        }
    }
}

/// A part of the nodes is cut off from the others again and again.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Of all nodes; the coordinator is not in it.
    pub share: f64,
    /// For how long.
    pub seconds: f64,
}

/// One run. Times in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub protocol: Protocol,
    pub nodes: u16,
    /// The share of datagrams that are lost.
    pub loss: f64,
    /// For how long.
    pub seconds: f64,
    /// On average between two deaths in the cluster.
    pub death_every: Option<f64>,
    pub deaths_at_once: u16,
    /// On average between two standstills of a node that it has not announced, of 0.1 to 2 s.
    pub pause_every: Option<f64>,
    /// On average between two that it has announced, of 1 to 20 s.
    pub freeze_every: Option<f64>,
    pub cut: Option<Cut>,
    /// All processes stand still together for so long every 20 s.
    pub stall: Option<f64>,
}

impl Setting {
    /// The usual hardships.
    pub fn new(protocol: Protocol, nodes: u16, loss: f64, seconds: f64) -> Self {
        Self {
            protocol,
            nodes,
            loss,
            seconds,
            death_every: Some(if nodes < 32 { 12.0 } else { 2.0 }),
            deaths_at_once: 1,
            pause_every: Some(60.0),
            freeze_every: Some(120.0),
            cut: None,
            stall: None,
        }
    }

    pub fn run(&self, seed: u64) -> Outcome {
        World::new(self, seed).run(seed)
    }
}
