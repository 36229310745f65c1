// SPDX-License-Identifier: Apache-2.0
//! Collectives that survive dead processes, over TCP and UCX: the machines of `fermata-ftcoll`
//! driven by connections. `include/ftcoll.h` is the same for C.
//!
//! ```text
//! world        a process of a job: meets the others, waits in calls, answers between them
//!   comm       communicators and their calls          environment   joining by FTCOLL_*
//!   pending    waiting for calls, or not              attend        the library's own thread
//!   engine     which machine a message is for, and who is dead; never waits
//!     calls    those of one communicator, one after the other
//!     lane     the machine of one communicator for one root; clock, its time
//!     net      all connections: link (one socket), channel (its secrecy), key
//!       session   what is kept of one connection until the other end has it
//!       carrier   UCX, beside the sockets
//! parting      connections that are made again, after a restart from a checkpoint
//! progress     of others, while a call waits
//! value, numbers   elements and operations            wire          messages as bytes
//!   buffer   their memory
//! ```
//!
//! Invariants: every wait ends; nothing is heard from who does not know the job's key; a broken
//! connection and a malformed message are the death of the process at its other end.

mod abi;
mod attend;
mod buffer;
mod calls;
mod carrier;
mod channel;
mod clock;
mod comm;
mod engine;
pub mod environment;
mod error;
mod key;
mod lane;
mod link;
mod net;
mod numbers;
mod parting;
mod pending;
mod progress;
mod session;
mod value;
mod wire;
mod world;

pub use comm::{Combine, Comm, Ended};
pub use error::{CallError, JoinError};
pub use fermata_ftcoll::Rank;
pub use key::Key;
pub use parting::Seeker;
pub use pending::Pending;
pub use progress::Progress;
pub use value::{Function, Kind, Op, UserOp};
pub use world::{Door, Options, Transport, World};
