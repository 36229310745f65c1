// SPDX-License-Identifier: Apache-2.0
//! The site's service and the line of a job to it: sockets, files and clock around `fermata_site`.
//!
//! A directory that the hosts share is the service's place (`place`): its key, which only the owner
//! can read, and the word of the replica that leads, with its addresses. Lines are TCP under Noise,
//! as between the hosts of a job, with that key for a secret (`fermata_transport`).
//!
//! Floors, each of which knows only those before it: `place`; `wire` (messages and frames); `line`
//! (a job's end, and a command's); `desk` (what a replica knows, and its answers); `server` (its
//! threads).
//!
//! Invariant: nobody is heard who has not shown the key, and no file is believed that another user
//!            can write.
//! Invariant: a job's coordinator never waits for any of this: its line is a thread of its own.

mod desk;
mod line;
mod place;
mod server;
mod wire;

pub use line::{Heard, Line, Me, status};
pub use place::{Place, PlaceError};
pub use server::{Server, Settings};
