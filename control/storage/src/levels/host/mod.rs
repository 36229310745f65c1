// SPDX-License-Identifier: Apache-2.0
//! What a host keeps of the snapshots of a job, on its own disk: its images, copies of others', and
//! parities.
//!
//! ```text
//!     <dir>/levels-<uid>/<store>@<host>/<epoch>-<taken_ms>/     a snapshot; before: .partial
//!         record.json                which snapshot: homes, sets, partners, and its manifest
//!         rank-N.img                 images of the host's own ranks
//!         copy-<home>/rank-N.img     those of another home
//!         parities-<m>, .json        its parities, of a set with m; checksums of all of the set
//! ```
//!
//! Floors, each of which knows only those before it: `record` (what is written beside the data, and
//! sealed); `part` (a home's images one after the other, as a set computes with them); `store` (one
//! host's); `make` (copies and parities from what other hosts have); `restore` (images for a
//! restart); `place` (a restart on the hosts).
//!
//! Invariant: what has its name is whole and durable: it is written under another one, flushed, and
//!            renamed.
//! Invariant: nothing is believed that another user could have written: directories are the user's
//!            and closed to others, and records are sealed as manifests are.
//! Invariant: how the files of other hosts are read is not known here: `Peers`.

mod make;
mod part;
mod place;
pub(super) mod record;
mod restore;
mod store;

pub use make::Peers;
pub use part::PartReader;
pub use record::Kept;
pub use restore::{RestoreError, Restored, Wanted, restore_newest};
pub use store::HostStore;

#[cfg(test)]
mod driven_tests;
#[cfg(test)]
mod killed_tests;
#[cfg(test)]
mod place_tests;
#[cfg(test)]
mod tests;
