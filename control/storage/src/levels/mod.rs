// SPDX-License-Identifier: Apache-2.0
//! The levels that there are.

mod host;
mod job_directory;
mod placed;

pub use host::{
    HostStore, Kept, PartReader, Peers, RestoreError, Restored, Wanted, restore_newest,
};
pub use job_directory::JobDirectory;
pub use placed::{note_placed, read_placed};
