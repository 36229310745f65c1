// SPDX-License-Identifier: Apache-2.0
//! What a connection can do, whatever carries it.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// A TCP peer that acknowledges nothing for this long is gone.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Time for a peer to take what we send, unless told otherwise.
pub(crate) const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// The half of a connection that bytes come from.
pub trait Reader: Send {
    /// Blocks for bytes, at most for the timeout; 0 = the peer has closed.
    ///
    /// # Errors
    /// What the system says; `WouldBlock` or `TimedOut` when the timeout is over.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// How long `receive` may block; `None` = until the connection ends. Without a call: `None`.
    ///
    /// # Errors
    /// What the system says.
    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()>;
    /// Ends the connection for both ends and both halves.
    fn end(&mut self);
}

/// The half of a connection that bytes go into.
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
    /// Ends the connection for both ends and both halves.
    fn end(&mut self);
}

/// A connection to a peer that may speak with us. Its halves may live in different threads.
pub struct Connection {
    /// What the peer says.
    pub reader: Box<dyn Reader>,
    /// What we say.
    pub writer: Box<dyn Writer>,
    /// The address of the other side; none within a host.
    pub peer: Option<IpAddr>,
}

/// Somebody who has connected.
pub trait PendingPeer: Send {
    /// Lets it show that it may speak with us. Blocks for a few seconds at most.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` for a peer that is turned away.
    fn admit(self: Box<Self>) -> io::Result<Connection>;
}

/// Where peers come from.
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
