// SPDX-License-Identifier: Apache-2.0
//! An MPI that jobs can run on, as plain data.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A family shares process manager, environment and ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH and what descends from it.
    Mpich,
}

/// A registered MPI: `PREFIX/lib/fermata/lower/NAME.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lower {
    /// What `--mpi` calls it.
    pub name: String,
    /// Its family.
    pub family: Family,
    /// As it describes itself.
    pub version: String,
    /// How to start a job; `{n}` stands for the number of ranks.
    pub mpirun: Vec<String>,
    /// The compiler its back end was built with.
    pub mpicc: String,
    /// Environment for its ranks' lower half alone.
    pub env: BTreeMap<String, String>,
}
