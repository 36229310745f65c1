// SPDX-License-Identifier: Apache-2.0
//! What the machine of `promoter.rs` hears and says.

use fermata_storage::Kept;
use fermata_types::{Manifest, Message, Shared, StoreHolds};

/// What has happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A host has something of a snapshot of an earlier run.
    Holds(Box<StoreHolds>),
    /// The job's directory has these snapshots.
    InDirectory(Vec<u32>),
    /// The run was restarted from this one, which its hosts keep.
    Restored(Box<Kept>),
    /// A host's store can be read there, perhaps again.
    There { host: String, address: String },
    /// The line to a host's daemon has ended; `is_silent`: the host is lost.
    Gone { host: String, is_silent: bool },
    /// A checkpoint begins.
    Prepare { epoch: u32, taken_ms: u64 },
    /// A rank's image lies on its host.
    Lies { epoch: u32, rank: u32, mac: String },
    /// All images lie on their hosts. The manifest lacks their MACs.
    Commit(Box<Manifest>),
    /// The checkpoint has not come about.
    Discard(u32),
    /// A plan wants this level of the chain of this checkpoint; `Made` or `NotMade` follows.
    Wanted { epoch: u32, level: usize },
    /// Something of a task is done.
    Promotes(u64),
    /// A task of this host has come to its end.
    Ended { host: String, shared: Shared },
    /// The snapshot of this attempt is in the job's directory, or not; or there is no room for it.
    Directory(u64, Result<(), String>),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A host is told this.
    Tell(String, Message),
    /// The checkpoint is stored, or not.
    Answer(u32, Result<String, String>),
    /// A directory is to be made for these images in the job's; answered if that fails.
    MakeRoom(u64, u32),
    /// The images there are a snapshot; answered by `Directory`.
    Put(u64, Box<Manifest>),
    /// What has been collected there of it goes.
    Clear(u32),
    /// The snapshot there goes.
    Remove(u32),
    /// What was wanted is made; making it took so long.
    Made { level: usize, took_ms: u64 },
    /// It is not, and will not be.
    NotMade { level: usize },
    /// For the log.
    Say(String),
}
