// SPDX-License-Identifier: Apache-2.0
//! Parities over the members of a set: what is lost of one member, or of several, is computed from
//! what the others still have.
//!
//! A set has `k` members and `m` parities. Each member's image, as long as the longest of them by
//! zeros that nobody stores, is cut into `k - m` segments, and each member keeps `m` segments of
//! parities besides. So a member stores `m / (k - m)` of an image more, and every member reads and
//! computes as much as every other: no host is the one that holds parities.
//!
//! ```text
//!                 member 0   member 1   member 2   member 3        k = 4, m = 1
//!     stripe 0    parity     image 0    image 1    image 2         a stripe has one segment of
//!     stripe 1    image 2    parity     image 0    image 1         each member; m of them are
//!     stripe 2    image 1    image 2    parity     image 0         parities
//!     stripe 3    image 0    image 1    image 2    parity
//! ```
//!
//! One parity is an XOR; more are a Reed-Solomon code. In each stripe any `m` segments can be lost,
//! so any `m` members can be.
//!
//! Floors, each of which knows only those before it: `layout` (where which segment lies), `sums`
//! (their checksums), `stripe` (one piece of one stripe), `work` (whole stripes: `encode`,
//! `rebuild`, `check`).
//!
//! Invariant: no I/O: bytes are read and written through `Members`.
//! Invariant: each segment that is read for a rebuilding, and each that is rebuilt, has the
//!            checksum that it had when it was encoded, or the rebuilding fails and names whose it
//!            is.

mod layout;
mod stripe;
mod sums;
mod work;

pub use layout::{Layout, LayoutError, Part, Shard};
pub use sums::{Sum, Sums};
pub use work::{Members, WorkError, check, encode, rebuild};
