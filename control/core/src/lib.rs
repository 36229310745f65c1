// SPDX-License-Identifier: Apache-2.0
//! The coordinator of one job as a pure state machine: events in, actions out, no I/O and no clock.
//!
//! Ranks stop wherever they are, so first everybody has to agree on *where*: the collective clock.
//! Every rank reports how many collective calls it has begun on each communicator; the maximum is
//! the target; a rank parks once it has reached its targets. A rank that cannot park raises a
//! target. Once all are parked on the newest targets nobody sends any more, the bookmarks (messages
//! sent, by receiver) are transposed, every rank receives what is still on its way, and the images
//! are cut. A snapshot exists from the moment the shell has renamed its directory.
//!
//! Invariant: until then every failure ends in ABORT to all and the previous snapshot stays. What
//!            is said about an epoch that is over is ignored.
//! Invariant: versions of targets grow over the whole job, so that a report from an earlier epoch
//!            can never be taken for one of this epoch.

mod advice;
mod asking;
mod checkpoint;
mod machine;
mod names;

pub use machine::{Action, CommitPlan, Config, Event, ImageDone, Machine, RankView};
