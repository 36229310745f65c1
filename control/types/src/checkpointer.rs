// SPDX-License-Identifier: Apache-2.0
//! What saves the ranks of a job, chosen when it starts. The ranks' side of each is a row of the
//! table in `runtime/agent/checkpointers.cpp`, found there by the name.

use crate::{PROGRAM_DIRECTORY, image_file};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What saves the ranks of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checkpointer {
    /// Fermata: an image of each rank's process, at any moment.
    #[default]
    Native,
    /// The program's own function, in fermata_checkpoint; it is started anew at a restart.
    #[serde(rename = "self")]
    Itself,
}

impl Checkpointer {
    const ALL: [Self; 2] = [Self::Native, Self::Itself];

    /// As it is written on command lines, in manifests and to the ranks.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Itself => "self",
        }
    }

    /// Whether the program brings all ranks to a place where they can be saved, by a call of
    /// fermata_checkpoint. If not, the safe-state protocol does, wherever they are.
    #[must_use]
    pub fn waits_for_program(self) -> bool {
        self == Self::Itself
    }

    /// What is saved of this rank, inside the snapshot's directory.
    #[must_use]
    pub fn place(self, rank: u32) -> String {
        match self {
            Self::Native => image_file(rank),
            Self::Itself => PROGRAM_DIRECTORY.into(),
        }
    }
}

impl fmt::Display for Checkpointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Checkpointer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|one| one.name() == name)
            .ok_or_else(|| format!("it is {}", Self::ALL.map(Self::name).join(" or ")))
    }
}
