// SPDX-License-Identifier: Apache-2.0
//! The daemon of a job on one host: ranks speak with it over a UNIX socket as if it were the
//! coordinator, and it speaks for them over one authenticated TCP connection.
//!
//! It decides nothing. It passes frames on, and where the host keeps its images to itself it brings
//! them to the coordinator before it passes on that they are saved, and back before ranks are
//! restored.
//!
//! Invariant: its socket exists only once the coordinator has let it in.
//! Invariant: when the connection to the coordinator breaks, every rank's is ended too; what a rank
//!            does then (give the checkpoint up, run on, come back) is the agent's business.
//! Invariant: it ends by itself when the coordinator has. That the host has no ranks says little: a
//!            script may be about to start them.

mod endpoint;
mod fetch;
mod images;
mod keeper;
mod membership;
mod pace;
mod server;
mod stores;

pub use endpoint::Endpoint;
pub use images::LocalImages;
pub use server::{Options, run};
pub use stores::{Places, RemotePeers, StoreServer, Survey, survey};
