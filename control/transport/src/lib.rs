// SPDX-License-Identifier: Apache-2.0
//! How bytes travel between the programs of a job: UNIX sockets within a host, encrypted TCP
//! between hosts.
//!
//! Whoever connects is a *guest* first. It becomes a *line* by showing that it may speak with us: a
//! UNIX guest by the kernel's word on its user, a TCP guest by knowing the job's secret. Nothing a
//! guest says is looked at before.
//!
//! Invariant: every operation on a line ends in bounded time, and a peer that vanished without a
//!            word (power, cable) is noticed within seconds, see `SILENCE_MAX`.

mod address;
mod directory;
mod secret;
mod secure;
mod unix;

pub use address::local_addresses;
pub use directory::{
    agreed_runtime_dir, leave_runtime_dir, own_socket, remove_dead_sockets, remove_socket,
    runtime_dir,
};
pub use secret::Secret;
pub use secure::{SecureListener, dial, dial_any};
pub use unix::{UnixTransport, connect_unix};

use std::io;
use std::time::Duration;

/// A TCP peer that acknowledges nothing for this long is gone.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time for a peer to take what we send, unless told otherwise.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The half of a line that bytes come from.
pub trait Reader: Send {
    /// Blocks for bytes, at most for the timeout; 0 = the peer has closed.
    ///
    /// # Errors
    /// What the system says; `WouldBlock` or `TimedOut` when the timeout is over.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// How long `receive` may block; `None` = until the line ends. Without a call: `None`.
    ///
    /// # Errors
    /// What the system says.
    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()>;
    /// Ends the line for both ends and both halves.
    fn end(&mut self);
}

/// The half of a line that bytes go into.
pub trait Writer: Send {
    /// Sends everything, or fails within a few seconds of a peer that does not take it.
    ///
    /// # Errors
    /// What the system says.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// How long a peer may take nothing of what we send. Without a call: a few seconds.
    ///
    /// # Errors
    /// What the system says.
    fn set_timeout(&mut self, _timeout: Duration) -> io::Result<()> {
        Ok(())
    }
    /// Ends the line for both ends and both halves.
    fn end(&mut self);
}

/// A connection to a peer that may speak with us. Its halves may live in different threads.
pub struct Line {
    /// What the peer says.
    pub reader: Box<dyn Reader>,
    /// What we say.
    pub writer: Box<dyn Writer>,
}

/// Somebody who has connected.
pub trait PendingPeer: Send {
    /// Lets the guest show that it may speak with us. Blocks for a few seconds at most.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` for a guest that is turned away.
    fn admit(self: Box<Self>) -> io::Result<Line>;
}

/// Where guests come from.
pub trait Listener: Send {
    /// Blocks for the next peer.
    ///
    /// # Errors
    /// What the system says.
    fn accept(&mut self) -> io::Result<Box<dyn PendingPeer>>;
}

/// Whether an error of `receive` only says that the timeout is over.
#[must_use]
pub fn is_waiting(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}
