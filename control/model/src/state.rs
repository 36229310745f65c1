// SPDX-License-Identifier: Apache-2.0
//! One state of a job under a checkpoint, and when two states are the same.

use crate::world::World;
use fermata_protocol::{Coordinator, Directive, RankMachine, Report, Version};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(crate) type Machine = RankMachine<4, 4>;

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// All have been cut, in a safe state.
    Safe,
    /// By name: a rank was inside MPI_Finalize.
    Refused,
    /// Nobody can take a step, and the state is not safe.
    Stuck,
    /// The coordinator said safe, and it is not; or the images do not show one moment.
    Unsafe,
    /// The state was safe, but the program does not come to its end from the images.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Down {
    Request,
    Directive(Directive),
    Save,
}

/// A rank's machine, its agent and its two lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Side {
    pub(crate) machine: Machine,
    pub(crate) parked: bool,
    pub(crate) has_read: bool,
    /// Has been cut and continues, as only a damaged rule allows before all have been.
    pub(crate) resumes: bool,
    pub(crate) up: VecDeque<Report>,
    pub(crate) down: VecDeque<Down>,
}

/// One state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub(crate) program: usize,
    pub(crate) world: World,
    pub(crate) sides: Vec<Arc<Side>>,
    pub(crate) coordinator: Arc<Coordinator>,
    /// From the safe state on: what the images hold so far.
    pub(crate) snapshot: Option<World>,
    pub(crate) is_exact: bool,
    /// The end, if this is one.
    pub outcome: Option<Outcome>,
}

/// How many directives a rank has been sent does not matter, but whether its word is about the
/// newest.
impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.program.hash(state);
        self.world.hash(state);
        self.sides.hash(state);
        self.coordinator.hash(state);
        self.snapshot.hash(state);
        self.outcome.hash(state);
        for side in &self.sides {
            let newest = side.newest();
            if self.is_exact {
                newest.0.hash(state);
            }
            for report in &side.up {
                if let Report::Parked(version, _) = report {
                    (newest.0 - version.0).hash(state);
                }
            }
        }
    }
}

impl Side {
    /// The version of the directive last sent to this rank.
    pub(crate) fn newest(&self) -> Version {
        let under_way = self.down.iter().rev().find_map(|down| match down {
            Down::Directive(directive) => Some(directive.version),
            Down::Request | Down::Save => None,
        });
        under_way.unwrap_or(self.machine.version())
    }
}

impl State {
    pub(crate) fn side(&mut self, rank: usize) -> &mut Side {
        Arc::make_mut(&mut self.sides[rank])
    }
}
