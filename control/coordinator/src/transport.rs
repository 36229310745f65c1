// SPDX-License-Identifier: Apache-2.0
//! How frames travel. UNIX sockets today; TCP with a shared secret fits behind the same two traits.
//!
//! The socket lies in a directory only its owner may enter, and each peer's user is asked of the
//! kernel besides: the directory may be on a machine where that is not enough.

use std::fs;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// One end of a connection.
pub trait Peer: Send {
    /// Blocks for bytes; 0 = the peer has closed.
    ///
    /// # Errors
    /// What the system says.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Sends everything, within a few seconds.
    ///
    /// # Errors
    /// What the system says.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Ends the connection for both ends and all copies.
    fn end(&mut self);
    /// A second hand on the same connection.
    ///
    /// # Errors
    /// What the system says.
    fn copy(&self) -> io::Result<Box<dyn Peer>>;
}

/// Where peers come from.
pub trait Listener: Send {
    /// Blocks for the next peer that may speak with us at all.
    ///
    /// # Errors
    /// What the system says; `PermissionDenied` for a peer that was turned away.
    fn accept(&mut self) -> io::Result<Box<dyn Peer>>;
    /// What peers have to be told to connect.
    fn address(&self) -> String;
}

impl Peer for UnixStream {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read(buffer)
    }
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }
    fn end(&mut self) {
        let _ = self.shutdown(Shutdown::Both);
    }
    fn copy(&self) -> io::Result<Box<dyn Peer>> {
        Ok(Box::new(self.try_clone()?))
    }
}

/// A listening UNIX socket; its file goes away with it.
pub struct UnixTransport {
    listener: UnixListener,
    path: PathBuf,
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
        let path = path.to_owned();
        Ok(Self { listener, path })
    }
}

impl Drop for UnixTransport {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Listener for UnixTransport {
    fn accept(&mut self) -> io::Result<Box<dyn Peer>> {
        let (stream, _) = self.listener.accept()?;
        let uid = fermata_sysio::peer_uid(&stream)?;
        if uid != fermata_sysio::effective_uid() {
            let why = format!("a process of user {uid} tried to connect");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        stream.set_write_timeout(Some(WRITE_LIMIT))?;
        Ok(Box::new(stream))
    }
    fn address(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

/// The directory for sockets: `$XDG_RUNTIME_DIR/fermata`, else `/tmp/fermata-UID`, made for the
/// owner alone. Short, because a socket's path has room for 107 bytes.
///
/// # Errors
/// It cannot be made, or belongs to somebody else.
pub fn runtime_dir() -> io::Result<PathBuf> {
    let uid = fermata_sysio::effective_uid();
    let path = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if dir.len() < 60 && Path::new(&dir).is_dir() => Path::new(&dir).join("fermata"),
        _ => PathBuf::from(format!("/tmp/fermata-{uid}")),
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    // Not followed: a link somebody else left in /tmp must not count as our directory.
    let meta = fs::symlink_metadata(&path)?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 {
        let why = format!(
            "{} is not a directory of yours with mode 0700; remove it or set XDG_RUNTIME_DIR",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(path)
}
