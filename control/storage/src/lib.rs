// SPDX-License-Identifier: Apache-2.0
//! Where jobs and snapshots live on disk, and how a snapshot comes into being.
//!
//! ```text
//!     <dir>/<job>/job.json
//!     <dir>/<job>/events.jsonl                   what has happened to it, over all its runs
//!     <dir>/<job>/lock                           held by whoever runs the job
//!     <dir>/<job>/snapshots/<epoch>.partial/     being written: nobody may restart from it
//!     <dir>/<job>/snapshots/<epoch>/             rank-N.img ... or program/, manifest.json
//!     <dir>/<job>/snapshots/latest -> <epoch>
//! ```
//!
//! Floors, each of which knows only those before it: `own` (whose file it is) and `build_id`;
//! `image`; `error`; `job`; `layout` and `history`; `program`; `reseal`; `snapshot`; `verify` and
//! `takeover`; `level` with `levels` (the job's directory, and the store of a host), and `prune`.
//!
//! Invariant: a directory named by a bare number is complete and durable. It gets that name by one
//!            rename, after every image, the manifest and the directory itself have been flushed.

mod build_id;
mod error;
#[cfg(test)]
mod fault_tests;
mod history;
mod image;
mod job;
mod key;
mod layout;
mod level;
mod levels;
mod own;
mod program;
mod prune;
mod reseal;
#[cfg(test)]
mod seal_tests;
mod snapshot;
mod takeover;
#[cfg(test)]
mod takeover_tests;
mod verify;

pub use build_id::{build_id, copy_mapped};
pub use error::{Cause, Operation, StorageError};
pub use history::{History, note_event, read_history};
pub use image::{Image, ImageProblem, copy_head, read_header};
pub use job::{JobDir, JobLock, Runner, list_jobs};
pub use key::{NoKey, UserKey, existing_key, user_key};
pub use layout::{SnapshotInfo, image_name, list_snapshots, partial_image, read_snapshots};
pub use level::{Durable, Level};
pub use levels::{
    HostStore, JobDirectory, Kept, PartReader, Peers, RestoreError, Restored, Wanted, note_placed,
    read_placed, restore_newest,
};
pub use own::{
    SealProblem, Whose, create as create_own, make_own, open as open_file, open_believed,
    open_directory as open_own_directory, open_to_change,
};
pub use program::{prepare_program, program_files};
pub use prune::{prune, remove_leftovers};
pub use snapshot::{commit, discard, is_whole, mac_text, prepare, read_manifest};
pub use takeover::Takeover;
pub use verify::{Verified, verify};

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Does something with a directory that may hang, and waits for it no longer than `timeout`; then
/// there is no result. It is not done where no thread can be had.
pub fn within<T: Send + 'static>(
    timeout: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, waiting) = channel();
    let begun = thread::Builder::new().spawn(move || {
        let _ = done.send(act());
    });
    begun.ok().and_then(|_| waiting.recv_timeout(timeout).ok())
}

/// Builders of small valid images, for the tests of this crate and of the coordinator.
#[doc(hidden)]
pub mod samples;
