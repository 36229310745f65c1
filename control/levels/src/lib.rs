// SPDX-License-Identifier: Apache-2.0
//! Snapshots that stay on the hosts of their job: who keeps what, and what a restart takes from
//! where.
//!
//! ```text
//!     level     a host's images are                      what may be lost
//!     local     where they were written                  no host
//!     partner   also, whole, on another host             any one host
//!     xor       with a parity over a set of hosts        one host of each set
//!     rs<m>     with m parities over a set of hosts      m hosts of each set
//!     shared    also in the job's directory              all hosts
//! ```
//!
//! Each level of this order promises all that those before it promise. A snapshot begins at `local`
//! and is *promoted* from there while the job runs on.
//!
//! Floors, each of which knows only those before it: `level`; `groups` (as sites write them);
//! `arrangement` (sets and partners, laid over failure groups); `snapshot` (what is kept of one,
//! and who has it); `restart` (which snapshot, and each image from where); `promotion`, the machine
//! that makes levels and drops them.
//!
//! Invariant: no I/O, no clock, no randomness.
//! Invariant: what has been promised holds: if no more hosts are lost than a snapshot's level
//!            promises, that snapshot or a newer one can be restarted (`tests/promises`: in all
//!            orders of a small cluster, and in random lives of larger ones).

pub mod arrangement;
pub mod groups;
pub mod level;
pub mod promotion;
pub mod restart;
pub mod snapshot;

pub use arrangement::{Arrangement, ArrangementError};
pub use groups::{Groups, GroupsError};
pub use level::{Chain, ChainError, Level};
pub use restart::{Restart, Source, choose};
pub use snapshot::{Holding, Holdings, Home, Id, Item, Snapshot};
