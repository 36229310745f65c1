// SPDX-License-Identifier: Apache-2.0
//! Where a job's coordinator is.

use fermata_transport::{Connection, Secret, dial_any};
use std::io;

/// How to reach the coordinator of a job.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Job name.
    pub job: String,
    /// Where it may be found, `ADDRESS:PORT`.
    pub addresses: Vec<String>,
    /// What it wants to be shown.
    pub secret: Secret,
}

impl Endpoint {
    pub(crate) fn dial(&self) -> io::Result<Connection> {
        dial_any(&self.addresses, &self.secret)
    }
}
