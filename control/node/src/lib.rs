// SPDX-License-Identifier: Apache-2.0
//! The daemon of a job on one host: ranks speak with it over a UNIX socket as if it were the
//! coordinator, and it speaks for them over one authenticated TCP line.
//!
//! It decides nothing. It passes frames on, and where the host keeps its images to itself it brings
//! them to the coordinator before it passes on that they are saved, and back before ranks are
//! restored.
//!
//! Invariant: its socket exists only once the coordinator has let it in.
//! Invariant: when the line to the coordinator breaks, every rank's line is ended too; what a rank
//!            does then (give the checkpoint up, run on, come back) is the agent's business.
//! Invariant: it ends by itself when the coordinator has. That the host has no ranks says little: a
//!            script may be about to start them.

mod images;
mod server;

pub use images::LocalImages;
pub use server::{Options, run};

use fermata_transport::{Line, Secret, dial_any};
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
    pub(crate) fn dial(&self) -> io::Result<Line> {
        dial_any(&self.addresses, &self.secret)
    }
}
