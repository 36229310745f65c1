// SPDX-License-Identifier: Apache-2.0
//! Within a host: UNIX sockets.
//!
//! The socket lies in a directory only its owner may enter, and each peer's user is asked of the
//! kernel besides: the directory may be on a machine where that is not enough.

use crate::connection::{Connection, Listener, PendingPeer, Reader, WRITE_LIMIT, Writer};
use crate::error::TransportError;
use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

struct UnixHalf(UnixStream);

impl Reader for UnixHalf {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
    fn set_timeout(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }
    fn end(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Writer for UnixHalf {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }
    fn end(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn connection(stream: UnixStream) -> io::Result<Connection> {
    stream.set_write_timeout(Some(WRITE_LIMIT))?;
    let second = stream.try_clone()?;
    let (reader, writer) = (Box::new(UnixHalf(stream)), Box::new(UnixHalf(second)));
    Ok(Connection { reader, writer, peer: None })
}

/// An error unless the process at the other end is this user's.
fn check_peer(stream: &UnixStream, foreign: fn(u32) -> TransportError) -> io::Result<()> {
    let uid = fermata_sysio::peer_uid(stream)?;
    if uid == fermata_sysio::effective_uid() { Ok(()) } else { Err(foreign(uid).into()) }
}

/// Connects to the socket at `path`, where a process of this user has to listen: the directory may
/// be gone, and made again by somebody else.
///
/// # Errors
/// What the system says; `PermissionDenied` if somebody else listens.
pub fn connect_unix(path: &Path) -> io::Result<Connection> {
    let stream = UnixStream::connect(path)?;
    check_peer(&stream, TransportError::ForeignListener)?;
    connection(stream)
}

/// A listening UNIX socket; its file goes away with it.
pub struct UnixTransport {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of its file.
    file: (u64, u64),
}

fn file_at(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

impl UnixTransport {
    /// Listens at `path`, replacing what a dead process left there.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(path: &Path) -> io::Result<Self> {
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned(), file: file_at(path)? })
    }

    /// Whether the path still leads here. Whole directories are removed when a user logs out.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        file_at(&self.path).is_ok_and(|file| file == self.file)
    }

    /// How long `accept` may wait for a peer; then it fails with `WouldBlock`.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        fermata_sysio::set_receive_timeout(&self.listener, timeout)
    }

    /// What peers have to be told to connect.
    #[must_use]
    pub fn address(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

impl Drop for UnixTransport {
    fn drop(&mut self) {
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener for UnixTransport {
    fn accept(&mut self) -> io::Result<Box<dyn PendingPeer>> {
        let (stream, _) = self.listener.accept()?;
        Ok(Box::new(PendingUnixPeer(stream)))
    }
}

struct PendingUnixPeer(UnixStream);

impl PendingPeer for PendingUnixPeer {
    fn admit(self: Box<Self>) -> io::Result<Connection> {
        check_peer(&self.0, TransportError::ForeignPeer)?;
        connection(self.0)
    }
}
