// SPDX-License-Identifier: Apache-2.0
//! The levels that there are.

mod host;
mod job_directory;

pub use host::{HostStore, Kept, PartReader, Peers, RestoreError, Restored, restore_newest};
pub use job_directory::JobDirectory;
