// SPDX-License-Identifier: Apache-2.0
//! The stores of hosts (`fermata_storage::HostStore`) between hosts: each is read over lines of
//! their own under the run's secret, by whoever makes copies and parities and by a restart.
//!
//! Floors, each of which knows only those before it: `serve` (a host's store, for others); `peers`
//! (those of other hosts, from here); `gather` (a restart's images from all of them).
//!
//! Invariant: nobody writes to another host's store; a line only asks for bytes.
//! Invariant: a peer names no paths: snapshots have numbers and times, what is in one has kinds.

mod gather;
mod peers;
mod serve;
#[cfg(test)]
mod tests;

pub use gather::{Survey, survey};
pub use peers::{Places, RemotePeers};
pub use serve::StoreServer;
pub(crate) use serve::all_of;
