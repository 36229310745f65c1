// SPDX-License-Identifier: Apache-2.0
//! The coordinator's shell: lines, threads, clock and disk around the pure machine of
//! `fermata-job`.
//!
//! One thread owns the machine and does everything that has an order; one thread per line only
//! reads and hands over whole messages. A peer that does not take its frames within a few seconds
//! is cut off: one stuck rank must not hold up the others. Making room for a snapshot, storing
//! it and removing old ones take as long as the disk does, and have a thread (`storage_worker.rs`).
//!
//! Ranks on other hosts come through their host's daemon; for the machine each is a connection like
//! any other (`relay.rs`). Images that hosts keep to themselves are collected and handed out on
//! lines of their own (`image_server.rs`).
//!
//! Invariant: only peers that the transport has admitted get as far as a first message.

mod acceptor;
mod client;
mod figures;
mod handle;
mod hosts;
mod image_server;
mod input;
mod levels;
mod local_listener;
mod losses;
mod members;
mod options;
mod relay;
mod server;
mod shared;
mod storage_worker;
mod strangers;

pub use client::{Client, ClientError};
pub use fermata_job::Outcome;
pub use handle::{Handle, JobEnd, start};
pub use losses::LostHost;
pub use options::Options;
pub use shared::{Committed, Ends};
