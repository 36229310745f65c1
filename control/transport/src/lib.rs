// SPDX-License-Identifier: Apache-2.0
//! How bytes travel between the programs of a job: UNIX sockets within a host, encrypted TCP
//! between hosts, and datagrams between its nodes (`gossip`).
//!
//! Whoever connects is a *pending peer* first. It becomes a *connection* by showing that it may
//! speak with us: a UNIX peer by the kernel's word on its user, a TCP peer by knowing the job's
//! secret. Nothing it says is looked at before.
//!
//! Invariant: every operation on a connection ends in bounded time, and a peer that vanished
//!            without a word (power, cable) is noticed within seconds, see `SILENCE_MAX`.

mod address;
mod connection;
mod directory;
mod error;
mod frames;
mod gossip;
mod secret;
mod secure;
mod unix;

pub use address::local_addresses;
pub use connection::{Connection, Listener, PendingPeer, Reader, SILENCE_MAX, Writer, is_waiting};
pub use directory::{
    agreed_runtime_dir, leave_runtime_dir, own_socket, remove_dead_sockets, remove_socket,
    runtime_dir,
};
pub use error::{SecretProblem, TransportError};
pub use frames::next_message;
pub use gossip::{Gossip, Part, Verdict, bind_datagrams};
pub use secret::Secret;
pub use secure::{SecureListener, dial, dial_any};
pub use unix::{UnixTransport, connect_unix};
