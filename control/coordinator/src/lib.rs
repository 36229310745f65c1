// SPDX-License-Identifier: Apache-2.0
//! The coordinator's shell: sockets, threads, clock and disk around the pure machine of
//! `fermata-core`.
//!
//! One thread owns the machine and does everything that has an order; one thread per connection
//! only reads and hands over whole messages. A peer that does not take its frames within a few
//! seconds is cut off: one stuck rank must not hold up the others.
//!
//! Invariant: only peers of our own user get as far as a first message.

mod client;
mod server;
mod transport;

pub use client::{Client, ClientError, Outcome};
pub use server::{Handle, Options, start};
pub use transport::{Listener, Peer, UnixTransport, runtime_dir};
