// SPDX-License-Identifier: Apache-2.0
//! Where sockets lie: a directory of the user's that nobody else may enter.
//!
//! Its usual names are known to everybody, and /tmp is everybody's: another user who has taken the
//! name, by mischief or by `su`, must keep nobody from running. Then the directory gets a name that
//! nobody can have guessed. Whoever has to find a socket is told its whole path; only the ranks of
//! a host, who look for its daemon before there is one, must come to the name by themselves: they
//! make it of what only they know.

use crate::error::TransportError;
use crate::secret::Secret;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Longer ones leave no room for the name of a socket: its path has room for 107 bytes.
const BASE_BYTES_MAX: usize = 60;

/// `$XDG_RUNTIME_DIR/fermata`, else `/tmp/fermata-UID`, else one of a random name.
///
/// # Errors
/// What the system says.
pub fn runtime_dir() -> io::Result<PathBuf> {
    usual().or_else(|_| {
        let random = fermata_sysio::random_bytes()?;
        made(unusual(u64::from_ne_bytes(random)))
    })
}

/// As `runtime_dir`, and the same for all who know the secret.
///
/// # Errors
/// What the system says.
pub fn agreed_runtime_dir(secret: &Secret) -> io::Result<PathBuf> {
    usual().or_else(|_| made(unusual(secret.tag())))
}

fn usual() -> io::Result<PathBuf> {
    let user = fermata_sysio::effective_uid();
    // `su` and `sudo -E` leave the variable of somebody else, in whose directory we make nothing.
    let is_usable = |dir: &PathBuf| {
        let is_own = fs::metadata(dir).is_ok_and(|info| info.is_dir() && info.uid() == user);
        is_own && dir.as_os_str().len() < BASE_BYTES_MAX
    };
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(is_usable);
    made(given.map_or_else(|| format!("/tmp/fermata-{user}").into(), |dir| dir.join("fermata")))
}

fn unusual(key: u64) -> PathBuf {
    format!("{}{key:016x}", unusual_prefix()).into()
}

fn unusual_prefix() -> String {
    format!("/tmp/fermata-{}-", fermata_sysio::effective_uid())
}

/// The directory, made for the owner alone; an error if it is there and is not like that.
fn made(path: PathBuf) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    // Not followed: a link somebody else left in /tmp must not count as our directory.
    let info = fs::symlink_metadata(&path)?;
    if !info.is_dir() || info.uid() != fermata_sysio::effective_uid() || info.mode() & 0o077 != 0 {
        return Err(TransportError::SharedDirectory(path).into());
    }
    Ok(path)
}

/// Leaves a directory of `runtime_dir`: one that was made for this run goes with its last file.
pub fn leave_runtime_dir(path: &Path) {
    if path.to_string_lossy().starts_with(&unusual_prefix()) {
        let _ = fs::remove_dir(path);
    }
}

/// Removes a socket, or what lies beside one, for good.
pub fn remove_socket(path: &Path) {
    let _ = fs::remove_file(path);
    path.parent().into_iter().for_each(leave_runtime_dir);
}

/// The path of a fresh socket of this process in `dir`. `tag` tells its sockets apart.
#[must_use]
pub fn own_socket(dir: &Path, tag: u128) -> PathBuf {
    dir.join(format!("{}-{tag:x}.sock", std::process::id()))
}

/// Removes the sockets of `own_socket` whose process was killed: nobody else does. A process that
/// is not seen from here, say in another container, answers.
pub fn remove_dead_sockets(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.strip_suffix(".sock").and_then(|name| name.split_once('-'));
        let Some(pid) = pid.and_then(|(pid, _)| pid.parse::<u32>().ok()) else { continue };
        let is_gone = !Path::new("/proc").join(pid.to_string()).exists();
        if is_gone && UnixStream::connect(&path).is_err() {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_of_the_dead_are_removed() {
        let dir = std::env::temp_dir().join(format!("fermata-sockets-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let named = |tag: &str| dir.join(format!("{}-{tag}.sock", child.id()));
        drop(UnixListener::bind(named("a")).unwrap());
        let answers = UnixListener::bind(named("b")).unwrap();
        drop(UnixListener::bind(own_socket(&dir, 7)).unwrap());
        fs::write(dir.join("daemon-0.sock"), "").unwrap();
        remove_dead_sockets(&dir);
        let left = [named("a"), named("b"), own_socket(&dir, 7), dir.join("daemon-0.sock")];
        assert_eq!(left.map(|path| path.exists()), [false, true, true, true]);
        drop(answers);
        fs::remove_dir_all(&dir).unwrap();
    }
}
